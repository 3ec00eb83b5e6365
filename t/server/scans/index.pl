# Index scans and index-only scans: their rows, the order of the rows, and the heap blocks that they
# read.  Scans of bloom indexes, which read the whole index.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Rows;

my $explain = 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off)';

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('index scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed_table($aio, 100);
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
			for my $column ('n', 'k')
			{
				my $expected = $alice->sql("SELECT string_agg(i::text, E'\\n' ORDER BY CASE '$column' WHEN 'n' THEN i ELSE (i * 7919) % 400 END) FROM generate_series(0, 399) i");
				my $backward = join "\n", reverse split /\n/, $expected;
				$aio->evict($t);
				$alice->gives("SELECT n FROM $t ORDER BY $column", $expected, "by $column");
				$aio->evict($t);
				$alice->gives("SELECT n FROM $t ORDER BY $column DESC", $backward, 'descending');
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t ORDER BY $column");
				$alice->gives('FETCH ALL FROM c', $expected, 'by a cursor');
				$aio->evict($t);
				$alice->gives('FETCH BACKWARD ALL FROM c', $backward, 'backward');
				$alice->sql('COMMIT');
			}
			# a scan looks at a heap block once for each run of rows in that block
			$aio->evict($t);
			is($aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = '$t'::regclass",
					sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY n OFFSET 0) s") }, $alice, $aio), '100/0', 'by n: each heap block once');
			$aio->evict($t);
			is($aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = '$t'::regclass",
					sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY k OFFSET 0) s") }, $alice, $aio), '100/300', 'by k: once for each row');
		});

		# with a ring, but for the metapage
		$aio->scenario('bloom indexes', sub {
			my ($alice) = $aio->sessions('alice');
			$aio->sql('CREATE TABLE scenario.b (n int, k int) WITH (autovacuum_enabled = off); INSERT INTO scenario.b SELECT i, -i FROM generate_series(1, 20000) i; CREATE INDEX b_i ON scenario.b USING bloom (n, k)');
			$alice->sql('SET enable_seqscan = off; SET track_io_timing = off');
			$alice->gives("SELECT count(*) FROM scenario.b WHERE n = $_ AND k = -$_", 1, "row $_") for 1, 777, 20000;
			my $pages = $aio->sql("SELECT pg_relation_size('scenario.b_i') / 8192");
			$aio->evict('scenario.b_i');
			is($aio->io_counts_during($alice, 'relation/bulkread', sub { $alice->sql('SELECT count(*) FROM scenario.b WHERE n = 7 AND k = -7') })->{read_bytes}, ($pages - 1) * 8192, "all $pages pages but one, in context bulkread");
		}, skip => $aio->lacks('bloom'));

		$aio->scenario('index-only scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed_table($aio, 100);
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off');
			my $fetches = sub { my $plan = $alice->sql("$explain SELECT n FROM $t WHERE n < 300"); return $plan =~ /Heap Fetches: (\d+)/ ? $1 : $plan };
			is($fetches->(), 0, 'no heap fetch on all-visible pages');
			$aio->evict($t);
			is($aio->blocks_during($t, sub { $alice->gives("SELECT count(*) FROM $t WHERE n < 300", 300, 'rows') }, $alice) =~ s{/.*}{}r, 1, 'one block, that of the visibility map');
			# a dead row on each of two pages, which are no longer all-visible
			$aio->sql("DELETE FROM $t WHERE n IN (40, 80)");
			is($fetches->(), 8, 'a heap fetch for each of the eight rows of these pages');
			$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'no dead row');
			$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
			is($fetches->(), 0, 'all-visible again');
			$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'the same rows');
		});
	}, conf => { shared_buffers => '32MB' });
