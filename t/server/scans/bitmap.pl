# Bitmap heap scans.
use TestAio;

# Bitmap heap scans, exact, lossy and parallel: their rows, and the heap blocks that they read.

# Returns the heap blocks of a bitmap heap scan, by all processes, exact and lossy, and the rows
# that a recheck has removed.
sub heap_blocks ($plan)
{
	my ($exact, $lossy) = (0, 0);
	# the blocks of each worker have a line of their own
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

# Bitmaps of several indexes (BitmapAnd, BitmapOr), exact and lossy, serial and parallel:
# the rows that they find; no block is read in vain or twice.
my $pages = 1700;
my $rows = 4 * $pages;

# Condition, nodes of the plan, and what becomes of the bitmap with work_mem = 64 kB, enough for
# 1024 pages.  Rows with m < 40 are on 1428 pages, rows with k < 3000 on more.
my @cases = (
	[ 'm < 40 AND k < 5000', 'BitmapAnd', 'lossy' ],
	# pages of both, some of which have no row of both; no page of both
	[ 'm = 3 AND k < 300', 'BitmapAnd', 'exact' ],
	[ 'm = 3 AND n BETWEEN 4 AND 49', 'BitmapAnd', 'exact' ],
	[ 'm < 40 OR k < 3000', 'BitmapOr', 'lossy' ],
	# a union with pages 1024 and 1536, at which chunks of lossy pages begin, and which have no row of m < 40
	[ 'm < 40 OR (k < 1400 AND n BETWEEN 4096 AND 4111)', 'BitmapAnd BitmapOr', 'lossy' ],
	[ 'm < 40 OR (k < 1500 AND n BETWEEN 6144 AND 6159)', 'BitmapAnd BitmapOr', 'lossy' ],
	[ '(m < 40 OR n > 6000) AND (k < 4000 OR n < 50)', 'BitmapAnd BitmapOr', 'lossy' ]);

with_each_io_method('worker; long: all', sub {
	# a condition on an index, and the same condition without an index
	$aio->scenario('bitmap heap scans', with('alice', sub ($alice, $condition, $same) {
		my $t = indexed_table($aio, 300);
		$alice->sql('SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on');
		my $numbers = "SELECT string_agg(n::text, ',') FROM (SELECT n FROM $t WHERE %s OFFSET 0) s";
		my $expected = $alice->sql(sprintf $numbers, $same);
		my $matching = $alice->sql("SELECT count(DISTINCT n / 4) FROM $t WHERE $same");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = on');
		for my $concurrency (16, 0)
		{
			$alice->sql("SET effective_io_concurrency = $concurrency");
			my $plan = $alice->sql("$explain SELECT n FROM $t WHERE $condition");
			like($plan, qr/Bitmap Heap Scan/, "$condition: a bitmap heap scan");
			my ($exact, $lossy, $removed) = heap_blocks($plan);
			is("$exact|$lossy|$removed", "$matching|0|0", 'exact pages, and no row that a recheck removes') || diag($plan);
			$aio->evict($t);
			my $found;
			my ($fetched, $hit) = split m{/}, $aio->blocks_during($t, sub { $found = $alice->sql(sprintf $numbers, $condition) }, $alice);
			ok($found eq $expected, "$condition: the rows, in physical order");
			is("$fetched/$hit", "$exact/0", 'each heap block is read once');
		}
	}), each => [ [ 'm = 7', 'n % 50 = 7' ], [ 'm = 7 OR k < 300', '(n % 50 = 7 OR (n * 7919) % 1200 < 300)' ] ]);

	# by equality GIN finds arrays with these elements; in which order, and how often, it does not know
	$aio->scenario('an index that does not know exactly', with('alice', sub ($alice) {
		my $t = 'scenario.g';
		$aio->sql("CREATE TABLE $t (n int, a int[], filler text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
			  . "INSERT INTO $t SELECT i, CASE i % 4 WHEN 0 THEN ARRAY[1, 2] WHEN 1 THEN ARRAY[2, 1] WHEN 2 THEN ARRAY[1, 2, 2] ELSE ARRAY[i] END, repeat('x', 1900) FROM generate_series(0, 199) i;"
			  . "CREATE INDEX ON $t USING gin (a); VACUUM (FREEZE, TRUNCATE off) $t");
		$alice->sql('SET enable_seqscan = off');
		$aio->evict($t);
		my $plan = $alice->sql("$explain SELECT n FROM $t WHERE a = ARRAY[2, 1]");
		my ($exact, $lossy, $removed) = heap_blocks($plan);
		is("$exact|$lossy|$removed", '50|0|100', 'exact pages, and rows that a recheck removes') || diag($plan);
		$alice->gives("SELECT count(*), count(*) FILTER (WHERE n % 4 = 1) FROM $t WHERE a = ARRAY[2, 1]", '50|50', 'the rows');
		$alice->gives("SELECT count(*), count(*) FILTER (WHERE n % 4 = 2) FROM $t WHERE a = ARRAY[1, 2, 2]", '50|50', 'the rows');
	}));

	# the new version of the row is compared with the conditions again (EvalPlanQual)
	$aio->scenario('a row that another session has changed, by a %s scan, %s', with('alice bob', sub ($alice, $bob, $scan, $change) {
		my $t = indexed_table($aio, 60);
		my $condition = $scan eq 'tid' ? "ctid = ANY ('{\"(25,1)\",\"(26,1)\",\"(27,1)\"}'::tid[]) AND n < 1000" : 'n IN (100, 104, 108)';
		$alice->sql("SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_tidscan = off; SET enable_${scan}scan = on");
		$aio->evict($t);
		$bob->sql("BEGIN; UPDATE $t SET $change WHERE n = 104");
		$alice->waits("WITH u AS (UPDATE $t SET k = -k - 1 WHERE $condition AND m >= 0 RETURNING n) SELECT string_agg(n::text, ',' ORDER BY n) FROM u", 'transactionid');
		$bob->sql('COMMIT');
		$alice->returns('100,108', "$change: the others are updated");
	}), each => [ combined([qw(bitmap index seq)], [ 'n = n + 1000', 'm = -1' ]), [ 'tid', 'n = n + 1000' ] ]);

	# two rows of a page are locked as rows, more as a page (max_pred_locks_per_page)
	my $rows_and_pages = 'tuple 25.1, tuple 26.1, tuple 27.1, page 50';
	$aio->scenario('what serializable transactions lock', with('alice', sub ($alice, $scan, $locks) {
		my $t = indexed_table($aio, 60);
		$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;' . " SET enable_${scan}scan = on");
		$alice->sql("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(body) FROM $t WHERE n IN (100, 104, 108, 200, 201, 202, 203)");
		$aio->gives("SELECT string_agg(concat(locktype, ' ' || page, '.' || tuple), ', ' ORDER BY page, tuple) FROM pg_locks WHERE relation = '$t'::regclass AND mode = 'SIReadLock'", $locks, "$scan scan");
		$alice->sql('COMMIT');
	}), each => [ [ bitmap => $rows_and_pages ], [ index => $rows_and_pages ], [ seq => 'relation' ] ]);

	$aio->scenario('locks of lossy pages, and parallel bitmap heap scans', with('alice', sub ($alice) {
		my $t = indexed_table($aio, 1200);
		$alice->sql("SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET work_mem = '64kB'");
		$aio->alter_system(max_pred_locks_per_relation => 2000);
		$aio->poll(sub { $alice->sql('SHOW max_pred_locks_per_relation') == 2000 });
		$alice->sql('BEGIN ISOLATION LEVEL SERIALIZABLE');
		cmp_ok((heap_blocks($alice->sql("$explain SELECT count(body) FROM $t WHERE m < 49")))[1], '>', 0, 'a lossy bitmap');
		$aio->gives("SELECT locktype, count(*) FROM pg_locks WHERE relation = '$t'::regclass AND mode = 'SIReadLock' GROUP BY 1", 'page|1200', 'each page');
		$alice->sql('COMMIT');
		$alice->sql('SET max_parallel_workers_per_gather = 2;'
			  . ' SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
		for my $work_mem ('64kB', only_long() ? () : '4MB')
		{
			$alice->sql("SET work_mem = '$work_mem'");
			$aio->evict($t);
			my $plan = $alice->sql("EXPLAIN (ANALYZE, VERBOSE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n FROM $t WHERE m < 49 AND n >= 4");
			like($plan, qr/Parallel Bitmap Heap Scan/, 'a parallel bitmap heap scan');
			like($plan, qr/Workers Launched: [12]/, 'workers take part');
			my ($exact, $lossy) = heap_blocks($plan);
			is_between($exact + $lossy, 1199, 1200, "$work_mem: heap blocks of all processes, each once");
			is($lossy > 0, $work_mem eq '64kB', 'lossy with little memory');
			$aio->evict($t);
			$alice->gives("SELECT count(*), count(DISTINCT n), sum(n) FROM $t WHERE m < 49 AND n >= 4",
				$alice->sql("SELECT count(*), count(DISTINCT i), sum(i) FROM generate_series(4, 4799) i WHERE i % 50 < 49"), 'each row once');
		}
		# the leader sees of the index what a worker has done
		$alice->sql('SET parallel_leader_participation = off');
		my $plan = $alice->sql("EXPLAIN (ANALYZE, VERBOSE, FORMAT json) SELECT n FROM $t WHERE m < 49 AND n >= 4");
		cmp_ok(node_at('Gather', $plan)->{'Workers Launched'}, '>', 0, 'workers alone');
		my $index = node_at('Bitmap Index Scan', $plan);
		is($index->{'Index Searches'}, 1, 'one search of the index, by a worker') || diag(explain($index));
		# and the heap blocks that the workers count, each for itself
		$alice->sql("SET work_mem = '64kB'");
		my ($exact, $lossy) = heap_blocks($alice->sql("EXPLAIN (ANALYZE, VERBOSE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n FROM $t WHERE m < 49 AND n >= 4"));
		ok($exact > 0 && $lossy > 0, "workers alone: exact and lossy pages") || diag("$exact exact, $lossy lossy");
		is_between($exact + $lossy, 1199, 1200, 'each once');
		$alice->sql('RESET parallel_leader_participation');
		# without a join condition, the left side of a left join is the outer one
		$alice->sql('SET enable_material = off; SET cpu_tuple_cost = 10');
		my $join = "SELECT g, count(DISTINCT n), sum(n) FROM generate_series(1, 2) g LEFT JOIN (SELECT n FROM $t WHERE m < 10 OFFSET 0) s ON true GROUP BY g ORDER BY g";
		like($alice->sql("$explain $join"), qr/Gather \(actual rows=960\S* loops=2\).*Parallel Bitmap Heap Scan/s, 'a parallel scan is rescanned');
		my $expected = $alice->sql('SELECT count(*), sum(i) FROM generate_series(0, 4799) i WHERE i % 50 < 10');
		$alice->gives($join, "1|$expected\n2|$expected", 'each row once in each scan');
	}));

	# an index names rows that are dead, and VACUUM may remove them before the scan gets to their pages
	$aio->scenario('dead rows', with('alice bob', sub ($alice, $bob) {
		my $t = indexed_table($aio, 1200);
		$aio->sql("DELETE FROM $t WHERE n % 3 = 1 OR n BETWEEN 2000 AND 2999");
		$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
		for my $case ([ '4MB', 'n BETWEEN 1000 AND 3999', 750 ], [ '64kB', 'm < 49', 1200 ])
		{
			my ($work_mem, $condition, $blocks) = @$case;
			$alice->sql("SET work_mem = '$work_mem'");
			my ($exact, $lossy) = heap_blocks($alice->sql("$explain SELECT n FROM $t WHERE $condition"));
			is($exact + $lossy, $blocks, "$condition: $exact exact and $lossy lossy pages, with and without rows");
			# a scan that a worker does alone
			my $plan = $alice->sql("SET debug_parallel_query = on; SET max_parallel_workers_per_gather = 1; $explain SELECT n FROM $t WHERE $condition; RESET debug_parallel_query");
			like($plan, qr/Single Copy: true/, "$condition: in a worker");
			($exact, $lossy) = heap_blocks($plan);
			is($exact + $lossy, $blocks, "$condition: pages") if $aio->major >= 19;
		}
		# no column is needed, so nothing but visibility is looked at
		$alice->sql("SET work_mem = '4MB'; BEGIN; DECLARE c CURSOR FOR SELECT FROM $t WHERE n BETWEEN 1000 AND 3999; MOVE 1 FROM c");
		vacuum($bob, 'TRUNCATE off', $t);
		$alice->notices;
		$alice->sql("DO \$\$ DECLARE c refcursor := 'c'; n int; BEGIN MOVE FORWARD ALL FROM c; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'moved %', n; END \$\$; COMMIT");
		my ($moved) = map { /moved (\d+)/ } $alice->notices;
		is($moved + 1, $aio->sql('SELECT count(*) FROM generate_series(1000, 3999) n WHERE n % 3 <> 1 AND n NOT BETWEEN 2000 AND 2999'), 'rows that are not dead');
	}));

	$aio->scenario('bitmaps of several indexes', with('alice', sub ($alice) {
		my $t = indexed_table($aio, $pages);
		$alice->sql('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;'
			  . ' SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;'
			  . ' SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0; SET cpu_tuple_cost = 10; SET plan_cache_mode = force_generic_plan');
		for my $case (only_long() ? @cases[ 0, 1, 3, 4 ] : @cases)
		{
			my ($condition, $nodes, $small) = @$case;
			# computed without the table
			my ($found, $has_rows) = split /\|/, $aio->sql("SELECT string_agg(n::text, ',' ORDER BY n), count(DISTINCT n / 4)"
				  . " FROM (SELECT n, n % 50 AS m, (n * 7919) % $rows AS k FROM generate_series(0, $rows - 1) n) i WHERE $condition");
			my $query = "SELECT coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM (SELECT n FROM $t WHERE $condition OFFSET 0) s";
			for my $workers (0, only_long() ? () : 2)
			{
				# planned once: the planner may look at the visibility map
				$alice->sql("SET max_parallel_workers_per_gather = $workers; PREPARE q AS $query");
				for my $memory (only_long() ? () : '4MB', '64kB')
				{
					$alice->sql("SET work_mem = '$memory'");
					my $name = "$condition, $memory, $workers workers";
					my $plan = $alice->sql("EXPLAIN (COSTS off) EXECUTE q");
					is(join(' ', grep { $plan =~ $_ } qw(BitmapAnd BitmapOr)), $nodes, "$name: the plan") || diag($plan);
					like($plan, qr/Parallel Bitmap Heap Scan/, 'in parallel') if $workers && $has_rows > 50;
					$aio->evict($t);
					my $result;
					my ($fetched, $hit) = split m{/}, $aio->blocks_during($t, sub { $result = $alice->sql('EXECUTE q') }, $alice);
					ok($result eq $found, "$name: the rows") || diag("$result, not $found");
					is($hit, 0, 'no block twice');
					if ($memory eq '4MB' || $small eq 'exact') { is($fetched, $has_rows, "$name: no other blocks") }
					else { is_between($fetched, $has_rows, $pages, "$name: blocks, of which $has_rows have rows") }
					like($alice->sql("$explain EXECUTE q"), qr/Heap Blocks: .*lossy=\d/, 'lossy')
					  if $memory eq '64kB' && $small eq 'lossy' && !$workers;
				}
				$alice->sql('DEALLOCATE q');
			}
		}
	}));
});

# Scans that begin again, and again before anything was read, or end so: each kind of scan, of which a
# join asks for rows now and then.  Guards server commit 754c610e13.
for_each_io_method('worker', sub {
	$aio->scenario('%s', with('alice', sub ($alice, $scan, $enabled, $condition = 'n < 100') {
		$aio->sql("CREATE TABLE scenario.t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO scenario.t SELECT i, repeat('x', 700) FROM generate_series(0, 299) i; CREATE INDEX t_n ON scenario.t (n); VACUUM ANALYZE scenario.t");
		my $found = $aio->sql("SELECT count(*) FROM scenario.t WHERE $condition");
		$alice->sql(join '; ', map { "SET enable_$_ = off" } qw(seqscan indexscan indexonlyscan bitmapscan tidscan material));
		$alice->sql("SET enable_$enabled = on");
		my $from = 'scenario.t' . ($scan =~ /Sample/ ? ' TABLESAMPLE system (100)' : '');
		for my $asked ([1], [ 0, 0, 1, 0, 0 ], [ 1, 0, 0, 1, 0, 0, 0 ], [ 0, 0, 0 ])
		{
			for my $limit ('', ' LIMIT 3')
			{
				my $query = "SELECT count(x.n) FROM unnest(ARRAY[" . join(',', map { $_ ? 'true' : 'false' } @$asked) . "]) o(f), LATERAL (SELECT n FROM $from WHERE $condition AND o.f OFFSET 0$limit) x";
				like($alice->sql("EXPLAIN (COSTS off) $query"), qr/One-Time Filter: o\.f.*\Q$scan\E /s, 'the plan') if @$asked == 1 && !$limit;
				$aio->evict('scenario.t');
				$alice->gives($query, ($limit ? 3 : $found) * (grep { $_ } @$asked), "rows are asked for: @$asked$limit");
			}
		}
	}), each => [ [ 'Seq Scan', 'seqscan' ], [ 'Index Scan', 'indexscan' ], [ 'Index Only Scan', 'indexonlyscan' ],
		[ 'Bitmap Heap Scan', 'bitmapscan' ], [ 'Tid Range Scan', 'tidscan', "ctid < '(10,0)'" ], [ 'Sample Scan', 'seqscan' ] ]);
}, leaves => 'nothing');
