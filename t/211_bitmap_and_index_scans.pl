# Bitmap heap scans, exact, lossy and parallel; index scans and index-only scans: which rows
# they return, in which order, and which blocks of the heap they read.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Makes a table of four rows a page: n in physical order, k a permutation, m of 50 values.
sub indexed
{
	my ($aio, $pages) = @_;
	my $rows = 4 * $pages;
	$aio->sql("CREATE UNLOGGED TABLE scenario.i (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO scenario.i SELECT i, (i * 7919) % $rows, i % 50, repeat('x', 1900) FROM generate_series(0, $rows - 1) i;"
		  . 'CREATE INDEX i_k ON scenario.i (k); CREATE INDEX i_m ON scenario.i (m); CREATE INDEX i_n ON scenario.i (n);'
		  . 'VACUUM (FREEZE, ANALYZE, TRUNCATE off) scenario.i');
	$aio->gives("SELECT pg_relation_size('scenario.i') / 8192, count(DISTINCT k) FROM scenario.i", "$pages|$rows", 'the table');
	return 'scenario.i';
}

# Heap blocks of a bitmap heap scan, of all processes: exact, lossy, and rows removed by a recheck.
sub heap_blocks
{
	my ($plan) = @_;
	my ($exact, $lossy) = (0, 0);
	# a plan shows those of the workers apart
	while ($plan =~ /Heap Blocks:((?: (?:exact|lossy)=\d+)+)/g)
	{
		my $text = $1;
		$exact += $1 if $text =~ /exact=(\d+)/;
		$lossy += $1 if $text =~ /lossy=(\d+)/;
	}
	my ($removed) = $plan =~ /Rows Removed by Index Recheck: (\d+)/;
	return ($exact, $lossy, $removed // 0);
}

my $explain = 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off)';

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('bitmap heap scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed($aio, 1700);
			my %tests = (
				'm = 7' => 'n % 50 = 7',
				'm IN (7, 8, 30)' => 'n % 50 IN (7, 8, 30)',
				'm = 7 OR k < 300' => '(n % 50 = 7 OR (n * 7919) % 6800 < 300)',
				'n BETWEEN 100 AND 199' => 'n BETWEEN 100 AND 199',
				'm < 49' => 'n % 50 < 49');
			for my $condition (sort keys %tests)
			{
				$alice->sql('SET enable_indexscan = on; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on');
				my $expected = $alice->sql("SELECT n FROM $t WHERE $tests{$condition}");
				my $pages = $alice->sql("SELECT count(DISTINCT n / 4) FROM $t WHERE $tests{$condition}");
				$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = on');
				for my $work_mem ('64kB', '4MB')
				{
					$alice->sql("SET work_mem = '$work_mem'");
					my $plan = $alice->sql("$explain SELECT n FROM $t WHERE $condition");
					like($plan, qr/Bitmap Heap Scan/, "$condition: a bitmap heap scan");
					my ($exact, $lossy, $removed) = heap_blocks($plan);
					my $is_lossy = $work_mem eq '64kB' && $pages > 1200;
					is($lossy > 0, $is_lossy, "$work_mem: " . ($is_lossy ? 'lossy' : 'exact')) || diag($plan);
					ok($lossy > 0 || $removed == 0, 'nothing to recheck on exact pages');
					# pages of a lossy chunk that has no rows for us are read in vain
					$lossy ? cmp_ok($exact + $lossy, '>=', $pages, 'heap blocks') : is($exact, $pages, 'heap blocks');
					$aio->evict($t);
					my $found;
					my ($fetched, $hit) = split m{/}, $aio->blocks_during($t, sub { $found = $alice->sql("SELECT n FROM $t WHERE $condition") }, $alice);
					ok($found eq $expected, "$condition: the rows, in physical order");
					is("$fetched/$hit", ($exact + $lossy) . '/0', 'each heap block is read once');
				}
			}
		});

		$aio->scenario('a bitmap heap scan again and again', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed($aio, 100);
			$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_memoize = off; SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off');
			$aio->evict($t);
			$alice->gives("SELECT string_agg(c::text, ',' ORDER BY g) FROM (SELECT g, (SELECT sum(n) FROM $t WHERE m = g) AS c FROM generate_series(0, 60, 12) g) s",
				join(',', map { my $m = $_; 8 * $m + 50 * 28 } 0, 12, 24, 36, 48), 'one scan for each row outside');
			# left in the middle
			$aio->evict($t);
			$alice->gives("SELECT string_agg((SELECT n FROM $t WHERE m = g LIMIT 1)::text, ',') FROM generate_series(0, 48, 12) g", '0,12,24,36,48', 'left in the middle');
			# rows that have gone since the index was made
			$aio->sql("DELETE FROM $t WHERE n BETWEEN 200 AND 299; UPDATE $t SET body = body WHERE n = 12");
			$aio->evict($t);
			$alice->gives("SELECT string_agg(n::text, ',' ORDER BY n) FROM $t WHERE m = 12", '12,62,112,162,312,362', 'dead rows and a new version');
		});

		$aio->scenario('parallel bitmap heap scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed($aio, 1700);
			$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 2;'
				  . ' SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
			for my $work_mem ('64kB', '4MB')
			{
				$alice->sql("SET work_mem = '$work_mem'");
				$aio->evict($t);
				my $plan = $alice->sql("EXPLAIN (ANALYZE, VERBOSE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n FROM $t WHERE m < 49 AND n >= 4");
				like($plan, qr/Parallel Bitmap Heap Scan/, 'a parallel one');
				like($plan, qr/Workers Launched: [12]/, 'with workers');
				my ($exact, $lossy) = heap_blocks($plan);
				cmp_ok($exact + $lossy, '>=', 1699, "$work_mem: heap blocks of all processes");
				cmp_ok($exact + $lossy, '<=', 1700, 'each once');
				is($lossy > 0, $work_mem eq '64kB', 'lossy, if there is little memory');
				$aio->evict($t);
				$alice->gives("SELECT count(*), count(DISTINCT n), sum(n) FROM $t WHERE m < 49 AND n >= 4",
					$alice->sql("SELECT count(*), count(DISTINCT i), sum(i) FROM generate_series(4, 6799) i WHERE i % 50 < 49"), 'each row once');
			}
			$alice->sql('SET enable_material = off');
			$alice->gives("SELECT g, (SELECT count(*) FROM $t WHERE m < g) FROM generate_series(10, 40, 10) g", "10|1360\n20|2720\n30|4080\n40|5440", 'rescanned');
		});

		$aio->scenario('index scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed($aio, 100);
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
			# rows of one heap block after the other take one look at each block; others, one for each row
			$aio->evict($t);
			is($aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = '$t'::regclass",
					sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY n OFFSET 0) s") }, $alice, $aio), '100/0', 'by n: each heap block once');
			$aio->evict($t);
			is($aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = '$t'::regclass",
					sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY k OFFSET 0) s") }, $alice, $aio), '100/300', 'by k: once for each row');
		});

		$aio->scenario('index-only scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = indexed($aio, 100);
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off');
			my $fetches = sub { my $plan = $alice->sql("$explain SELECT n FROM $t WHERE n < 300"); return $plan =~ /Heap Fetches: (\d+)/ ? $1 : $plan };
			is($fetches->(), 0, 'all-visible pages are not looked at');
			$aio->evict($t);
			is($aio->blocks_during($t, sub { $alice->gives("SELECT count(*) FROM $t WHERE n < 300", 300, 'rows') }, $alice) =~ s{/.*}{}r, 1, 'one block, of the visibility map');
			# two pages get a dead row each, and are no longer all-visible
			$aio->sql("DELETE FROM $t WHERE n IN (40, 80)");
			is($fetches->(), 8, 'the rows of two pages, two of them dead');
			$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'without those that are dead');
			$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
			is($fetches->(), 0, 'all-visible again');
			$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'the same rows');
		});
	}, long => [qw(sync)], conf => { shared_buffers => '32MB', max_worker_processes => 8, max_parallel_workers => 4 });
