# Index scans and index-only scans: their rows, the order of the rows, and the heap blocks that they
# read.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
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
