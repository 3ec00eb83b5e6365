# Sequential scans, of one session and shared by several.
use TestAio;

# Sequential scans of one session: their rows, the order of the rows, and the blocks that they
# read.  Forward and backward, ended early, of a range of TIDs, of a sample.
with_each_io_method('sync; long: all', sub {
	$aio->scenario('forward and backward', with('alice', sub ($alice, $kind) {
		my $t = numbered_table($aio, 'r', 50, 4);
		my $prepare = sub { $kind eq 'cold' ? $aio->evict($t) : $alice->sql("SELECT count(*) FROM $t") };
		$prepare->();
		$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
		$alice->gives('FETCH ALL FROM c', numbers(0, 199), 'forward');
		$prepare->();
		$alice->gives('FETCH BACKWARD ALL FROM c', numbers(199, 0), 'backward');
		$prepare->();
		# changes of direction within a page and at its edges
		my $at = -1;
		for my $step (3, -2, 1, 7, -4, 100, -100, 90, 9, -1, -60, 200, -3, 1, -300)
		{
			my ($first, $last) = $step > 0 ? ($at + 1, $at + $step) : ($at - 1, $at + $step);
			$last = 199 if $last > 199;
			$last = 0 if $last < 0;
			$at = $at + $step > 199 ? 200 : $at + $step < 0 ? -1 : $last;
			$alice->gives(($step > 0 ? "FETCH FORWARD $step" : "FETCH BACKWARD ${\-$step}") . ' FROM c', numbers($first, $last), "on by $step");
		}
		$alice->sql('COMMIT');
	}), each => [ 'cold', 'cached' ]);

	$aio->scenario('each block is read once', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 50, 4);
		for my $direction ('FORWARD', 'BACKWARD')
		{
			my $fetch = sub {
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
				$alice->sql('MOVE FORWARD ALL FROM c') if $direction eq 'BACKWARD';
				$aio->evict($t);
				# MOVE BACKWARD ALL would rewind the cursor instead
				$alice->sql("FETCH $direction ALL FROM c; COMMIT");
			};
			# what it reads of catalogs is in the pool from here on
			$fetch->();
			my $io = $aio->io_during($alice, 'relation/normal', $fetch);
			is($io =~ s{.*/}{}r, 50 * 8192, "$direction: bytes");
		}
		is($aio->blocks_during($t, sub { $alice->sql("SELECT count(*) FROM $t") }, $alice), '50/50', 'a second scan finds all blocks cached');
	}));

	$aio->scenario('a scan that ends early', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 50, 4);
		for my $rows (1, 4, 5, 60)
		{
			$aio->evict($t);
			$alice->gives("SELECT n FROM $t LIMIT $rows", numbers(0, $rows - 1), "LIMIT $rows");
		}
		# the look-ahead begins with one block, so the scan reads few blocks in vain
		$aio->evict($t);
		my ($reads, $bytes) = split m{/}, $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT n FROM $t LIMIT 1") });
		cmp_ok($bytes, '<=', 16 * 8192, 'LIMIT 1 reads a small part of the table');
	}));

	$aio->scenario('a range of TIDs', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 50, 4);
		$alice->sql("SELECT count(*) FROM $t");
		my %ranges = (
			"ctid >= '(10,0)' AND ctid < '(20,0)'" => [ 40, 79, 10 ],
			"ctid > '(10,4)' AND ctid <= '(20,1)'" => [ 44, 80, 11 ],
			"ctid >= '(49,1)'" => [ 196, 199, 1 ],
			"ctid <= '(0,2)'" => [ 0, 1, 1 ],
			"ctid >= '(0,0)' AND ctid < '(9999,0)'" => [ 0, 199, 50 ]);
		for my $range (sort keys %ranges)
		{
			my ($first, $last, $pages) = @{ $ranges{$range} };
			$aio->evict($t);
			my $fetched = $aio->blocks_during($t, sub { $alice->gives("SELECT n FROM $t WHERE $range", numbers($first, $last), $range) }, $alice);
			# a bound within a page: the scan has to look at that page, too
			like($fetched, qr{^(?:$pages|${\($pages + 1)})/0$}, "$range: blocks") || diag($fetched);
			$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t WHERE $range; MOVE ALL FROM c");
			$aio->evict($t);
			$alice->gives('FETCH BACKWARD ALL FROM c', numbers($last, $first), "$range, backward");
			$alice->sql('COMMIT');
		}
		$alice->gives("SELECT count(*) FROM $t WHERE ctid >= '(50,0)'", 0, 'no rows beyond the end');
		$alice->gives("SELECT count(*) FROM $t WHERE ctid $_", $_ =~ /ANY/ ? 1 : 0, "ctid $_") for "= '(50,1)'", "= ANY ('{\"(0,1)\",\"(50,1)\",\"(4294967295,1)\"}')";
	}));

	$aio->scenario('TABLESAMPLE', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 200, 2);
		# SYSTEM takes whole blocks: both rows of a block or none
		$aio->evict($t);
		my $rows = $alice->sql("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)");
		my @rows = split /,/, $rows;
		is_between(scalar @rows, 81, 239, 'SYSTEM (40): neither too few rows nor too many');
		is(join(',', grep { !($_ % 2) } @rows), join(',', map { $_ - 1 } grep { $_ % 2 } @rows), 'both rows of each page, in order');
		$alice->gives("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)", $rows, 'the same rows from cached blocks');
		$aio->evict($t);
		$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE SYSTEM (100)", '400|79800', 'SYSTEM (100): all rows');
		$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE BERNOULLI (100)", '400|79800', 'BERNOULLI (100): all rows');
		$aio->sql('CREATE TABLE scenario.e (n int)');
		for my $method ('SYSTEM', 'BERNOULLI')
		{
			$alice->gives("SELECT count(*) FROM scenario.e TABLESAMPLE $method (100)", 0, "$method: no rows of an empty table");
		}
	}));
});

# Sequential scans that several processes share.  A synchronized scan begins where another scan
# stands.  The processes of a parallel scan divide the blocks into chunks.
with_each_io_method('worker; long: all', sub {
	# scans of tables larger than a quarter of the buffer pool are synchronized
	$aio->scenario('synchronized', with('alice bob', sub ($alice, $bob) {
		my $t = numbered_table($aio, 'r', 600, 1);
		$_->sql('SET synchronize_seqscans = on') for $alice, $bob;
		$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t; MOVE 300 FROM c");
		$aio->evict($t);
		my @rows = split /\n/, $bob->sql("SELECT n FROM $t");
		my $start = $rows[0];
		# a scan reports its position every 16 blocks
		ok($start > 0 && $start % 16 == 0 && $start < 320, "begins where the other scan stands, at block $start");
		is(join(',', @rows), join(',', $start .. 599, 0 .. $start - 1), 'goes on from there to the end, and then from block 0');
		is(join(',', split /\n/, $alice->sql('FETCH ALL FROM c')), join(',', 300 .. 599), 'the other scan goes on where it was');
		# the other scan reports further positions, among them the end of the table
		$alice->sql('MOVE BACKWARD ALL FROM c; MOVE 100 FROM c; COMMIT');
		$bob->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
		my @forward = split /\n/, $bob->sql('FETCH ALL FROM c');
		is(join(',', sort { $a <=> $b } @forward), join(',', 0 .. 599), 'each row once');
		# a rescan, while another scan stands elsewhere
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t LIMIT 100) s");
		$bob->sql('MOVE ABSOLUTE 0 FROM c');
		is($bob->sql('FETCH ALL FROM c'), join("\n", @forward), 'again in the same order');
		$aio->evict($t);
		is($bob->sql('FETCH BACKWARD ALL FROM c'), join("\n", reverse @forward), 'backward in the opposite order');
		$bob->sql('COMMIT');
		$bob->sql('SET synchronize_seqscans = off');
		$bob->gives("SELECT n FROM $t LIMIT 1", 0, 'with synchronize_seqscans = off, from the beginning');
		$bob->sql('SET synchronize_seqscans = on');
		my $small = numbered_table($aio, 's', 500, 1);
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $small; MOVE 300 FROM c");
		$bob->gives("SELECT n FROM $small LIMIT 1", 0, 'a smaller table, from its beginning');
		$alice->sql('COMMIT');
	}));

	# what relies on the order of the blocks begins with the first one, wherever another scan stands
	$aio->scenario('not synchronized', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 600, 1);
		$aio->sql("DELETE FROM $t WHERE n % 10 = 3");
		my $stand_in_the_middle = sub { $alice->sql("SET synchronize_seqscans = on; SELECT count(*) FROM (SELECT FROM $t LIMIT 300) s") };
		for my $statement ("CREATE INDEX CONCURRENTLY r_n ON $t (n)", "REINDEX INDEX CONCURRENTLY scenario.r_n")
		{
			$stand_in_the_middle->();
			$alice->sql($statement);
			$alice->gives("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(n), sum(n) FROM $t WHERE n >= 0; RESET ALL", '540|161820', "$statement: each row once");
		}
		if (!$aio->lacks('pgstattuple'))
		{
			$stand_in_the_middle->();
			$aio->evict($t);
			my $io = $aio->io_during($alice, 'relation/bulkread', sub { $alice->gives("SELECT table_len, tuple_count FROM pgstattuple('$t')", 600 * 8192 . '|540', 'pgstattuple()') });
			is($io =~ s{.*/}{}r, 600 * 8192, 'reads each block once');
		}
	}));

	# it may begin in the middle, and says how far it is from there
	$aio->scenario('the progress of a rewrite that begins in the middle', with('alice', sub ($alice) {
		my $t = numbered_table($aio, 'r', 600, 1);
		$alice->sql("SET synchronize_seqscans = on; SELECT count(*) FROM (SELECT FROM $t LIMIT 300) s");
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, "VACUUM FULL $t", relation => $t, blockno => 400);
		$aio->gives("SELECT heap_blks_total, heap_blks_scanned <= 112 FROM pg_stat_progress_cluster WHERE pid = ${\$alice->pid}", '600|t', 'the blocks that VACUUM FULL has scanned');
		$aio->completion_continue;
		$alice->ends;
	}), skip => $aio->no_faults);

	# an index waits for a lock when VACUUM FULL has scanned the table, whose last pages are empty
	$aio->scenario('the progress of a rewrite at its end', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->sql("CREATE FUNCTION scenario.waits(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT \$1 FROM pg_advisory_xact_lock_shared(7)'; CREATE INDEX ON $t (scenario.waits(blk)); SELECT grow_rel('$t', 5)");
		$bob->sql('SELECT pg_advisory_lock(7)');
		$alice->waits("VACUUM FULL $t", 'advisory');
		$aio->gives("SELECT phase, heap_blks_total, heap_blks_scanned FROM pg_stat_progress_cluster WHERE pid = ${\$alice->pid}", 'rebuilding index|25|25', 'all blocks are scanned');
		$bob->sql('SELECT pg_advisory_unlock(7)');
		$alice->ends;
	}));

	$aio->scenario('the progress of CREATE INDEX', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.p (n int) PARTITION BY LIST (n); CREATE TABLE scenario.q PARTITION OF scenario.p DEFAULT PARTITION BY LIST (n); CREATE TABLE scenario.r PARTITION OF scenario.q DEFAULT; INSERT INTO scenario.p VALUES (1)');
		$aio->evict('scenario.r');
		$aio->read_at_completion_wait($alice, 'CREATE INDEX ON scenario.p (n)', relation => 'scenario.r');
		$aio->gives("SELECT partitions_total FROM pg_stat_progress_create_index WHERE pid = ${\$alice->pid}", 2, 'partitions of partitions count, too');
		$aio->completion_continue;
		$alice->ends;
		$aio->evict('scenario.r');
		$aio->read_at_completion_wait($alice, 'REINDEX INDEX scenario.r_n_idx', relation => 'scenario.r');
		$aio->gives("SELECT command, phase, index_relid::regclass, blocks_total FROM pg_stat_progress_create_index WHERE pid = ${\$alice->pid}", 'REINDEX|building index: scanning table|scenario.r_n_idx|1', 'REINDEX has it, too');
		$aio->completion_continue;
		$alice->ends;
	}), skip => $aio->no_faults);

	$aio->scenario('a parallel scan says where it stands', with('alice bob', sub ($alice, $bob) {
		my $t = numbered_table($aio, 'r', 600, 1);
		$_->sql('SET synchronize_seqscans = on; SET io_combine_limit = 1; SET effective_io_concurrency = 1') for $alice, $bob;
		$alice->sql('SET max_parallel_workers_per_gather = 1; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET seq_page_cost = 0; SET plan_cache_mode = force_generic_plan');
		$alice->sql("PREPARE parallel AS SELECT count(*), sum(n) FROM $t");
		like($alice->sql('EXPLAIN (COSTS off) EXECUTE parallel'), qr/Parallel Seq Scan/, 'a parallel plan') || return;
		# it is planned for two processes, and one of them reads
		$alice->sql('SET parallel_leader_participation = off');
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, 'EXECUTE parallel', relation => $t, blockno => 300);
		$aio->gives_soon(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event IN ('AioIoCompletion', 'AioIoUringExecution', 'completion_wait', 'IoGateHeld')},
			1, 'the parallel worker waits for block 300') || return $aio->completion_continue;
		my $start = $bob->sql("SELECT n FROM $t LIMIT 1");
		ok($start >= 288 && $start <= 304 && $start % 16 == 0, "another scan begins there, at block $start");
		$aio->completion_continue;
		$alice->returns('600|179700', 'each row once');
	}), skip => $aio->no_faults);

	$aio->scenario('parallel', with('alice bob', sub ($alice, $bob) {
		my $t = numbered_table($aio, 'r', 600, 1);
		$aio->sql("CREATE FUNCTION scenario.me() RETURNS int LANGUAGE plpgsql PARALLEL SAFE VOLATILE AS 'BEGIN RETURN pg_backend_pid(); END'");
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
		for my $sync ('off', 'on')
		{
			$_->sql("SET synchronize_seqscans = $sync") for $alice, $bob;
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t; MOVE 100 FROM c");
			$alice->gives("SELECT count(*), count(DISTINCT n), sum(n), min(n), max(n) FROM $t", '600|600|179700|0|599', "each row once, synchronized $sync");
			$bob->sql('COMMIT');
		}
		$alice->sql('SET synchronize_seqscans = off');
		# A chunk has 4200 / 2048 blocks: 2.  Towards the end of the table the chunks become smaller
		$aio->sql("CREATE UNLOGGED TABLE scenario.l WITH (autovacuum_enabled = off, fillfactor = 10) AS SELECT i AS n, repeat('x', 900) AS body FROM generate_series(0, 4199) i");
		$aio->gives("SELECT pg_relation_size('scenario.l') / 8192 BETWEEN 4200 AND 4300", 't', 'a row a page');
		my $chunks = 'SELECT count(*), count(*) FILTER (WHERE chunk < 2000 AND pids > 1), count(*) FILTER (WHERE (rows, different) <> (2, 2))'
		  . ' FROM (SELECT n / 2 AS chunk, count(DISTINCT me) AS pids, count(*) AS rows, count(DISTINCT n) AS different FROM (SELECT scenario.me(), n FROM scenario.l) s GROUP BY 1) c';
		like($alice->sql("EXPLAIN (COSTS off) $chunks"), qr/Parallel Seq Scan/, 'a parallel plan');
		$alice->gives($chunks, '2100|0|0', 'one process reads both blocks of a chunk, and each row is there once');
		# without a join condition, the left side of a left join is the outer one
		$alice->sql('SET enable_material = off; SET cpu_tuple_cost = 10');
		my $join = "SELECT g, count(DISTINCT n), sum(n) FROM generate_series(1, 2) g LEFT JOIN (SELECT n FROM $t OFFSET 0) s ON true GROUP BY g ORDER BY g";
		like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) $join"), qr/Gather \(actual rows=600\S* loops=2\).*Parallel Seq Scan/s, 'a parallel scan is rescanned');
		$alice->gives($join, "1|600|179700\n2|600|179700", 'each row once in each scan');
	}));
});

# Scans and index builds by several processes: each process has a share of the table, each
# block is read once by one of them, and a read that fails ends them all.
my $pages = 200;

# What reads the whole table.
my @works = (
	[ 'a sequential scan', 'SELECT count(*), count(DISTINCT n), sum(n) FROM %s' ],
	[ 'a bitmap scan', 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*), count(DISTINCT n), sum(n) FROM %s WHERE m >= 0' ],
	[ 'CREATE INDEX', 'CREATE INDEX p_k ON %s (k)' ]);

for_each_io_method('io_uring; long: all', sub {
	my $can_hold = !$aio->no_faults;
	my $no_trace = $aio->lacks('trace');

	# Makes a table of four rows a page and an index, and a session that uses workers.
	my $prepare = sub {
		my ($alice) = $aio->sessions('alice');
		my $t = 'scenario.p';
		$aio->sql("CREATE TABLE $t (n int, m int, k int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, parallel_workers = 2);"
			  . "INSERT INTO $t SELECT i, i % 50, (i * 7919) % (4 * $pages), repeat('x', 1900) FROM generate_series(0, 4 * $pages - 1) i; CREATE INDEX ON $t (m);"
			  . "VACUUM (FREEZE, ANALYZE, TRUNCATE off) $t; SELECT evict_rel('$t')");
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET max_parallel_maintenance_workers = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;'
			  . " SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET maintenance_work_mem = '128MB'");
		return ($alice, $t);
	};

	# parallel since 19: the shares of the processes begin where the range does
	$aio->scenario('ranges of TIDs', sub {
		my ($alice, $t) = $prepare->();
		for my $range ([ 0, 9 ], [ 150, 199 ], [ 50, 155 ], [ 199, 199 ])
		{
			my ($first, $last) = @$range;
			my $query = "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM $t WHERE ctid >= '($first,0)' AND ctid < '(${\($last + 1)},0)'";
			$aio->evict($t);
			my $wanted = $last - $first + 1;
			my ($fetched) = split m{/}, $aio->blocks_during($t, sub {
				$alice->gives($query, join('|', (4 * $wanted) x 2, 4 * $first, 4 * $last + 3), "blocks $first to $last: each row once");
			}, $alice);
			is_between($fetched, $wanted, $wanted + 2, 'blocks');
			like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) $query"), qr/Workers Launched: 2.*Parallel Tid Range Scan/s, 'in parallel') if $aio->major >= 19 && $wanted > 100;
		}
	}, skip => $aio->major < 19 ? only_long() : undef);

	$aio->scenario('%s', sub ($, $name, $sql) {
		my ($alice, $t) = $prepare->();
		if ($can_hold)
		{
			$aio->short_read_attach('EIO', relation => $t);
			$alice->fails((sprintf $sql, $t), '58030', qr/could not read blocks \d+\.\.\d+ in file "base\S+": Input\/output error/, 'fails');
			$aio->short_read_detach;
			$aio->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE leader_pid = ${\$alice->pid}");
			$aio->gives("SELECT to_regclass('scenario.p_k') IS NULL", 't', 'no index is left') if $name =~ /INDEX/;
			$aio->evict($t);
		}
		$aio->io_trace_restart($t) if !$no_trace;
		# no process gets a second read before each has one
		$aio->completion_wait(relation => $t) if $can_hold;
		my ($fetched) = split m{/}, $aio->blocks_during($t, sub {
			$alice->starts(sprintf $sql, $t);
			$aio->gives_soon("SELECT count(*) FROM pg_stat_activity WHERE wait_event IN ('AioIoCompletion', 'completion_wait') AND ${\$alice->pid} IN (pid, leader_pid)",
				3, 'the session and two workers wait for a read') if $can_hold;
			$aio->completion_continue if $can_hold;
			$alice->returns($name =~ /INDEX/ ? '' : join('|', 4 * $pages, 4 * $pages, 2 * $pages * (4 * $pages - 1)), $name);
		}, $alice);
		# some of the visibility map
		is_between($fetched, $pages, $pages + 5, 'blocks that all processes look at');
		if (!$no_trace)
		{
			$aio->io_trace_stop;
			$aio->gives("SELECT count(*), count(DISTINCT b), min(b), max(b) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b WHERE fork = 'main'",
				join('|', $pages, $pages, 0, $pages - 1), 'each block is read once');
			$aio->io_trace_shows("bool_and(result IN ('OK', 'UNKNOWN')), bool_and(state = 'COMPLETED'), count(DISTINCT pid)" . ($can_hold ? '' : ' BETWEEN 1 AND 3'), 't|t|' . ($can_hold ? 3 : 't'), 'by how many processes');
		}
	}, each => \@works, log => [ qr/LOG:  could not read blocks \d+\.\.\d+ in file/,
		# the session ends its workers
		qr/parallel worker (?:alice )?FATAL:  terminating background worker "parallel worker" due to administrator command/,
		qr/postmaster LOG:  background worker "parallel worker" \(PID \d+\) exited with exit code 1/ ]);
});
