# Every column of pg_stat_io in every context, pg_stat_database and pg_statio_all_tables:
# what a known piece of work adds to each.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

my @columns = qw(reads read_bytes read_time writes write_bytes write_time writebacks writeback_time extends extend_bytes extend_time hits evictions reuses fsyncs fsync_time);

# What a session adds to the columns of one object and context while a function runs, as a hash.
sub added
{
	my ($aio, $session, $what, $function) = @_;
	my $sums = join ', ', map { "coalesce(sum($_), 0)" } @columns;
	my $query = "SELECT $sums FROM pg_stat_get_backend_io(${\$session->pid}) WHERE object || '/' || context = '$what'";
	my %added;
	@added{@columns} = split m{/}, $aio->change_during($query, $function, $session);
	return \%added;
}

# Test: the columns named have changed so, and no other has.  A value may be a pattern.
sub adds
{
	my ($aio, $session, $what, $function, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $added = added($aio, $session, $what, $function);
	my @wrong;
	for my $column (@columns)
	{
		# time is not spent on what is not done, and is tested apart
		my $wanted = $expected->{$column} // 0;
		my $right = ref $wanted eq 'Regexp' ? $added->{$column} =~ $wanted : ref $wanted eq 'CODE' ? $wanted->($added->{$column}) : $added->{$column} == $wanted;
		push @wrong, "$column: $added->{$column}, not " . (ref $wanted ? 'as expected' : $wanted) if !$right;
	}
	return is(join("\n", @wrong), '', "$name: $what");
}

sub between { my ($from, $to) = @_; return sub { $_[0] >= $from && $_[0] <= $to } }

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("normal, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $what = $kind ? 'temp relation/normal' : 'relation/normal';
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				$alice->sql("SET track_io_timing = off; SELECT count(*) FROM $t; SELECT count(*) FROM $t");
				my $some = between(1, 40);
				# there may be no free buffer of the pool
				my $evicted = $kind ? 0 : between(0, 60);
				$aio->evict($t, $alice);
				adds($aio, $alice, $what, sub { $alice->sql("SELECT count(*) FROM $t") }, { reads => $some, read_bytes => 40 * 8192, hits => sub { 1 }, evictions => $evicted }, 'a scan that misses');
				my $hits = added($aio, $alice, $what, sub { $alice->sql("SELECT 1") })->{hits};
				adds($aio, $alice, $what, sub { $alice->sql("SELECT count(*) FROM $t") }, { hits => between(40, 40 + 30) }, 'a scan that hits') if !$kind;
				adds($aio, $alice, $what, sub { $alice->sql("SELECT count(*) FROM $t") }, { hits => 40 }, 'a scan that hits') if $kind;
				# no read is as large as two, and none is empty
				$alice->sql('SET io_combine_limit = 1');
				$aio->evict($t, $alice);
				adds($aio, $alice, $what, sub { $alice->sql("SELECT count(*) FROM $t") }, { reads => 40, read_bytes => 40 * 8192, hits => sub { 1 }, evictions => $evicted }, 'block by block');
				$alice->sql('RESET io_combine_limit; SET track_io_timing = on');
				$aio->evict($t, $alice);
				my $added = added($aio, $alice, $what, sub { $alice->sql("SET effective_io_concurrency = 0; SELECT count(*) FROM $t") });
				cmp_ok($added->{read_time}, '>', 0, 'with track_io_timing there is a time');
				cmp_ok($added->{read_time}, '<', 5000, 'in milliseconds');
				$alice->sql('SET track_io_timing = off; RESET effective_io_concurrency');
				# new blocks at the end
				$added = added($aio, $alice, $what, sub { $alice->sql("INSERT INTO $t SELECT '$t', i, 0, proof('$t', i, 0) FROM generate_series(40, 99) i") });
				# a table is extended by several blocks at once, of which some stay empty
				my $blocks = $alice->sql("SELECT pg_relation_size('$t') / 8192") - 40;
				ok($added->{extend_bytes} >= $blocks * 8192 && $added->{extend_bytes} <= ($blocks + 10) * 8192, "new blocks: $added->{extend_bytes} bytes for $blocks blocks");
				ok($added->{extends} >= 1 && $added->{extends} <= $blocks, "in $added->{extends} extensions");
				is($added->{extend_time}, 0, 'no time when it is not asked for');
				is(added($aio, $alice, $what, sub { $alice->sql("SELECT grow_rel('$t', 50)") })->{extend_bytes}, 50 * 8192, 'grow_rel(): 50 blocks');
			});
		}

		$aio->scenario('temporary tables that do not fit', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->{temporary} = 1;
			$alice->sql("SET temp_buffers = 100; CREATE TEMP TABLE l (n int, body text STORAGE PLAIN)");
			my $added = added($aio, $alice, 'temp relation/normal', sub { $alice->sql("INSERT INTO l SELECT i, repeat('x', 7900) FROM generate_series(1, 400) i") });
			my $blocks = $alice->sql("SELECT pg_relation_size('l') / 8192");
			ok($added->{evictions} >= $blocks - 110, "evictions: $added->{evictions} for $blocks blocks");
			is($added->{write_bytes}, $added->{writes} * 8192, 'bytes written');
			ok($added->{writes} >= $blocks - 110 && $added->{writes} <= $blocks + 10, "writes: $added->{writes}");
			$added = added($aio, $alice, 'temp relation/normal', sub { $alice->gives('SELECT count(*), sum(n) FROM l', '400|80200', 'rows') });
			ok($added->{read_bytes} >= ($blocks - 100) * 8192 && $added->{read_bytes} <= $blocks * 8192, "$added->{read_bytes} bytes are read");
			ok($added->{evictions} >= $blocks - 110 && $added->{evictions} <= $blocks + 5, "$added->{evictions} evictions");
			is($added->{reuses}, 0, 'no ring');
		});

		# a table of more than a quarter of the buffer pool is read by a ring of 256 kB
		$aio->scenario('bulkread', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 800);
			$alice->sql("SET track_io_timing = off; SELECT count(*) FROM $t");
			$aio->evict($t);
			# no dirty buffer is to be taken
			$aio->sql('CHECKPOINT');
			my $added = added($aio, $alice, 'relation/bulkread', sub { $alice->sql("SELECT count(*) FROM $t") });
			is($added->{read_bytes}, 800 * 8192, 'bytes');
			my @kept = $aio->lacks('pg_buffercache') ? () : split /,/, $aio->cached($t);
			my $ring = @kept;
			my $taken = $added->{reuses} + $added->{evictions};
			ok($ring <= 400, "$ring blocks stay in the buffer pool");
			# each block takes a free buffer, one of the ring's, or one of another's
			ok($added->{reuses} >= 800 - $ring - 20 && $taken <= 800, "$added->{reuses} reuses, $added->{evictions} evictions") if $ring;
			is($added->{writes} + $added->{extends}, 0, 'nothing is written');
			is(added($aio, $alice, 'relation/normal', sub { $alice->sql("SELECT count(*) FROM $t") })->{reads}, 0, 'nothing in context normal');
			# the blocks that are there are hits of the scan
			# all sessions together, of which no other reads so
			$aio->evict($t);
			is($aio->change_during("SELECT sum(read_bytes) FROM pg_stat_io WHERE backend_type = 'client backend' AND context = 'bulkread'",
					sub { $alice->sql("SELECT count(*) FROM $t") }, $alice), 800 * 8192, 'pg_stat_io: bytes');
			my $small = added($aio, $alice, 'relation/bulkread', sub { $alice->sql("SELECT count(*) FROM $t") });
			is($small->{hits} + $small->{read_bytes} / 8192, 800, 'hits and reads together are the table');
			$aio->proves($t);
		});

		$aio->scenario('bulkwrite', sub {
			my ($alice) = $aio->sessions('alice');
			my $rows = "SELECT i AS n, repeat('x', 1900) AS body FROM generate_series(1, 1200) i";
			my $added = added($aio, $alice, 'relation/bulkwrite', sub { $alice->sql("CREATE TABLE scenario.u AS $rows") });
			is($added->{extend_bytes} >= 300 * 8192 && $added->{extend_bytes} <= 330 * 8192 ? 'about 300 blocks' : $added->{extend_bytes}, 'about 300 blocks', 'extended');
			ok($added->{extends} > 0 && $added->{extends} < 150, "several at once: $added->{extends}");
			is($added->{reads}, 0, 'nothing is read');
			$added = added($aio, $alice, 'relation/bulkwrite', sub { $alice->sql("INSERT INTO scenario.u $rows") });
			is($added->{extends}, 0, 'INSERT uses no ring');
			$aio->gives('SELECT count(*), count(DISTINCT n) FROM scenario.u', '2400|1200', 'the rows');
		});

		$aio->scenario('vacuum', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			$alice->sql("SET vacuum_buffer_usage_limit = '128kB'; SET track_io_timing = off");
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			$aio->evict($t);
			my $added = added($aio, $alice, 'relation/vacuum', sub { $alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t") });
			ok($added->{read_bytes} >= 200 * 8192 && $added->{read_bytes} <= 206 * 8192, "$added->{read_bytes} bytes");
			ok($added->{reuses} >= 200 - 20 && $added->{reuses} <= 200, "a ring of 16 buffers: $added->{reuses} reuses, $added->{evictions} evictions");
			$added = added($aio, $alice, 'relation/vacuum', sub { $alice->sql("SET vacuum_buffer_usage_limit = 0; VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t") });
			is($added->{reuses}, 0, 'without a ring');
			# pages that the ring has made dirty are written when their buffer is used again
			$aio->sql("DELETE FROM $t WHERE blk % 2 = 0; CHECKPOINT");
			$aio->evict($t);
			$added = added($aio, $alice, 'relation/vacuum', sub { $alice->sql("SET vacuum_buffer_usage_limit = '128kB'; VACUUM (TRUNCATE off) $t") });
			ok($added->{writes} >= 80, "$added->{writes} writes");
			is($added->{write_bytes}, $added->{writes} * 8192, 'bytes');
			is($added->{extend_bytes} % 8192, 0, 'whole blocks');
		});

		$aio->scenario('pg_stat_database and pg_statio_all_tables', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$aio->sql("CREATE INDEX t_i ON $t (blk); SELECT evict_rel('$t'), evict_rel('scenario.t_i')");
			my $database = "SELECT blks_read, blks_hit, tup_returned, tup_fetched FROM pg_stat_database WHERE datname = 'other'";
			my $bob = $aio->session('bob', dbname => 'other');
			$bob->sql("CREATE TABLE o AS SELECT i, repeat('x', 7000) AS body FROM generate_series(1, 30) i; VACUUM (FREEZE) o; ALTER TABLE o ALTER body SET STORAGE PLAIN; SELECT count(*) FROM o");
			my $pages = $bob->sql("SELECT pg_relation_size('o') / 8192");
			$bob->sql("SELECT evict_rel('o')");
			my @change = split m{/}, $aio->change_during($database, sub { $bob->sql('SELECT count(*) FROM o') }, $bob);
			is($change[0], $pages, 'blks_read');
			ok($change[1] < 100, "blks_hit: $change[1]");
			is($change[2] >= 30 && $change[2] < 200 ? 'right' : $change[2], 'right', 'tup_returned');
			@change = split m{/}, $aio->change_during($database, sub { $bob->sql('SELECT count(*) FROM o') for 1 .. 3 }, $bob);
			is($change[0], 0, 'blks_read, when all is there');
			cmp_ok($change[1], '>=', 3 * $pages, 'blks_hit');
			$bob->sql('DROP TABLE o');

			my $tables = "SELECT heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit FROM pg_statio_all_tables WHERE relid = '$t'::regclass";
			$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM $t; SELECT count(gen) FROM $t WHERE blk < 0");
			$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.t_i')");
			# the metapage is cached by the session
			is($aio->change_during($tables, sub { $alice->sql("SELECT gen FROM $t WHERE blk = 17") }, $alice, $aio), '1/0/1/0', 'a row by the index: one block of each');
			is($aio->change_during($tables, sub { $alice->sql("SELECT gen FROM $t WHERE blk = 17") }, $alice, $aio), '0/1/0/1', 'and again');
			$alice->sql('RESET enable_seqscan');
			$aio->evict($t);
			is($aio->change_during($tables, sub { $alice->sql("SELECT count(body) FROM $t") }, $alice, $aio), '40/0/0/0', 'a scan');
			is($aio->change_during("SELECT seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_all_tables WHERE relid = '$t'::regclass",
					sub { $alice->sql("SELECT count(body) FROM $t") }, $alice, $aio), '1/40/0/0', 'its rows');
		});

		# what each kind of process does not do, has no row or no value
		$aio->scenario('which rows there are', sub {
			$aio->gives("SELECT count(*) FROM pg_stat_io WHERE context = 'bulkread' AND (extends IS NOT NULL OR reuses IS NULL OR evictions IS NULL)", 0, 'bulkread extends nothing, and has a ring');
			$aio->gives("SELECT count(*) FROM pg_stat_io WHERE context = 'normal' AND object = 'relation' AND reuses IS NOT NULL", 0, 'normal has no ring');
			$aio->gives("SELECT count(*) FROM pg_stat_io WHERE object = 'temp relation' AND (context <> 'normal' OR fsyncs IS NOT NULL)", 0, 'temporary tables: normal, without fsync');
			$aio->gives("SELECT count(*) FROM pg_stat_io WHERE object = 'temp relation' AND backend_type IN ('checkpointer', 'background writer', 'autovacuum worker', 'startup')", 0, 'which no auxiliary process reads');
			$aio->gives("SELECT bool_and(reads IS NULL) FROM pg_stat_io WHERE backend_type IN ('checkpointer', 'background writer') AND object = 'relation'", 't', 'the checkpointer reads no table');
		});
	}, leaves => 'nothing', prepare => sub { my ($aio) = @_; $aio->sql('CREATE DATABASE other TEMPLATE postgres') },
	conf => { shared_buffers => '16MB' });
