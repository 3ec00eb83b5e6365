# pg_buffercache_summary() and pg_buffercache_usage_counts() agree with pg_buffercache: on buffers
# that were used once or often, that are dirty, and that are pinned.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# buffers follow one another in memory, and begin with a page of memory
		$aio->scenario('pages of memory', sub {
			my ($buffers, $rows, $pages, $most, $gaps) = split /\|/, $aio->sql(<<'END');
SELECT count(DISTINCT bufferid), count(*), count(DISTINCT os_page_num), (SELECT max(n) FROM (SELECT count(*) AS n FROM pg_buffercache_os_pages GROUP BY os_page_num) c), max(os_page_num) - min(os_page_num) + 1 - count(DISTINCT os_page_num)
FROM pg_buffercache_os_pages
END
			is($buffers, 2048, 'each buffer has one');
			# pages may be huge: then several buffers share each
			is($rows, $most > 1 ? $buffers : $pages, 'a page for each buffer, or pages of one buffer each');
			is($gaps, 0, 'without a gap');
		}, skip => $aio->lacks('pg_buffercache') // ($aio->sql("SELECT to_regclass('pg_buffercache_os_pages') IS NULL") eq 't' ? 'pg_buffercache is older than 1.7' : undef));

		$aio->scenario('counts', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my @tables = map { $aio->table("t$_", 20 + $_) } 1 .. 6;
			for my $times (1 .. 6) { $alice->sql("SELECT count(*) FROM $tables[$times - 1]") for 1 .. $times }
			$alice->sql("DELETE FROM $tables[3] WHERE blk < 5");
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $tables[1]; MOVE 3 FROM c");
			my $pool = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'shared_buffers'");
			# in one statement, after another one has used the same catalogs
			for (1, 2)
			{
				my ($buffers, $rows, $wrong) = split /\|/, $aio->sql(<<'END');
WITH shown AS MATERIALIZED (SELECT * FROM pg_buffercache),
	counted AS MATERIALIZED (SELECT * FROM pg_buffercache_usage_counts())
SELECT sum(buffers), count(*), string_agg(format('%s: %s', usage_count, c), '; ') FILTER (WHERE abs(buffers - s.n) > 3 OR abs(c.dirty - s.d) > 3 OR abs(c.pinned - s.p) > 3)
FROM counted c, LATERAL (SELECT count(*) + CASE c.usage_count WHEN 0 THEN (SELECT count(*) FROM shown WHERE relfilenode IS NULL) ELSE 0 END AS n,
	count(*) FILTER (WHERE isdirty) AS d, count(*) FILTER (WHERE pinning_backends > 0) AS p FROM shown WHERE usagecount = c.usage_count) s
END
				next if $_ == 1;
				is($buffers, $pool, 'each buffer is counted once');
				is($rows, 6, 'usage counts from 0 to 5');
				is($wrong // '', '', 'as many as pg_buffercache shows');
			}
			$aio->gives('SELECT buffers_used + buffers_unused, buffers_pinned > 0, buffers_dirty > 0 FROM pg_buffercache_summary()', "$pool|t|t", 'pg_buffercache_summary()');
			$aio->gives('SELECT buffers >= 25 FROM pg_buffercache_usage_counts() WHERE usage_count = 5', 't', 'those that are used often');
			$bob->sql('ROLLBACK');
		}, skip => $aio->lacks('pg_buffercache'));
	}, conf => { shared_buffers => '16MB' });
