# ANALYZE: the blocks that it reads, and the statistics that it makes of their rows.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Rows that are dead: one of every seventh page.
my $is_dead = '(n / 2) % 7 = 3 AND n % 2 = 1';

# Makes a table of 1200 pages with two rows each.  Returns its name, and the numbers of live and of
# dead rows.
sub table_with_dead_rows
{
	my ($aio) = @_;
	my $t = 'scenario.a';
	$aio->sql("CREATE UNLOGGED TABLE $t (n int, ten int, maybe int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO $t SELECT i, i % 10, CASE WHEN i % 4 = 0 THEN i END, repeat('x', 3900) FROM generate_series(0, 2399) i;"
		  . "DELETE FROM $t WHERE $is_dead"
		  # counts of rows that are flushed later would be added to those of ANALYZE
		  . '; SELECT pg_stat_force_next_flush()');
	return ($t, split /\|/, $aio->sql("SELECT count(*) FILTER (WHERE NOT ($is_dead)), count(*) FILTER (WHERE $is_dead) FROM generate_series(0, 2399) n"));
}

# Test: ANALYZE reads a sample of so many pages, each once.  Returns what it reports.
sub analyze
{
	my ($aio, $session, $t, $target, $pages) = @_;
	$session->sql("SET default_statistics_target = $target");
	$aio->evict($t);
	$session->notices;
	my ($reads, $bytes) = split m{/}, $aio->io_during($session, 'relation/vacuum', sub { $session->sql("ANALYZE (VERBOSE) $t") });
	my ($report) = grep { /scanned/ } $session->notices;
	is($bytes, $pages * 8192, 'each block of the sample is read once');
	like($report, qr/scanned $pages of 1200 pages/, 'VERBOSE reports the pages');
	return $report;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a sample of all pages', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $live, $dead) = table_with_dead_rows($aio);
			my $report = analyze($aio, $alice, $t, 100, 1200);
			like($report, qr/containing $live live rows and $dead dead rows; $live rows in sample, $live estimated total rows/, 'VERBOSE reports all rows');
			$aio->gives("SELECT reltuples, relpages FROM pg_class WHERE oid = '$t'::regclass", "$live|1200", 'reltuples and relpages');
			$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", "$live|$dead", 'n_live_tup and n_dead_tup');
			$aio->gives("SELECT n_distinct, correlation > 0.99 FROM pg_stats WHERE tablename = 'a' AND attname = 'n'", '-1|t', 'n: distinct, in physical order');
			$aio->gives("SELECT n_distinct FROM pg_stats WHERE tablename = 'a' AND attname = 'ten'", 10, 'ten: ten values');
			$aio->gives("SELECT abs(null_frac - 0.75) < 0.03 FROM pg_stats WHERE tablename = 'a' AND attname = 'maybe'", 't', 'maybe: three of four are null');
			$alice->gives("SELECT count(*), sum(n) FROM $t", $aio->sql("SELECT count(*), sum(n) FROM generate_series(0, 2399) n WHERE NOT ($is_dead)"), 'the rows');
		});

		# what ANALYZE notes is what the visibility map says
		$aio->scenario('relallvisible and relallfrozen', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 30);
			my $noted = "SELECT relpages, relallvisible, relallfrozen FROM pg_class WHERE oid = '$t'::regclass";
			my $shown = "SELECT pg_relation_size('$t') / 8192, all_visible, all_frozen FROM pg_visibility_map_summary('$t')";
			$alice->sql('SET vacuum_freeze_min_age = 1000000');
			for my $statement ("UPDATE $t SET gen = 1 WHERE blk < 5", "VACUUM (TRUNCATE off) $t",
				# changes nothing but relallvisible
				"BEGIN; DELETE FROM $t WHERE blk = 2; ROLLBACK", "DELETE FROM $t WHERE blk = 9")
			{
				$alice->sql($statement);
				$alice->sql("ANALYZE $t");
				$aio->gives($noted, $aio->sql($shown), "after $statement");
			}
			$aio->gives("SELECT relallvisible > relallfrozen, relallfrozen > 0 FROM pg_class WHERE oid = '$t'::regclass", 't|t', 'more pages are visible to all than frozen');
		}, skip => $aio->lacks('pg_visibility') // ($aio->sql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_class'::regclass AND attname = 'relallfrozen'") ? undef : 'needs relallfrozen'));

		# a target of 2 asks for a sample of 600 rows, which ANALYZE takes from 600 pages
		$aio->scenario('a sample of half the pages', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $live) = table_with_dead_rows($aio);
			my ($seen, $seen_dead, $in_sample, $estimated) =
			  analyze($aio, $alice, $t, 2, 600) =~ /containing (\d+) live rows and (\d+) dead rows; (\d+) rows in sample, (\d+) estimated/;
			is($seen + $seen_dead, 2 * 600, 'live and dead rows of the sampled pages');
			cmp_ok($in_sample, '<=', 600, 'no more rows in the sample than the target asks for');
			cmp_ok(abs($estimated - $live), '<', 0.05 * $live, 'the estimate is near the truth');
			is($estimated, int($seen / 600 * 1200 + 0.5), 'the estimate follows from the sampled pages');
			$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", join('|', $estimated, int($seen_dead / 600 * 1200 + 0.5)), 'n_live_tup and n_dead_tup are estimates, too');
			$alice->gives("SELECT count(*), sum(n) FROM $t", $aio->sql("SELECT count(*), sum(n) FROM generate_series(0, 2399) n WHERE NOT ($is_dead)"), 'the rows');
		});
	});
