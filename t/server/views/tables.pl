# Counters of databases, tables and rows.
use TestAio;
use PostgreSQL::Test::Utils qw(slurp_file);

# What reads add to pg_stat_database, pg_statio_all_tables and pg_stat_all_tables.
with_each_io_method('io_uring; long: all', sub {
	# a database in which no other session works
	$aio->scenario('pg_stat_database', sub {
		$aio->sql('CREATE DATABASE other TEMPLATE postgres');
		my $bob = $aio->session('bob', dbname => 'other');
		$bob->sql("CREATE TABLE o (i int); INSERT INTO o SELECT generate_series(1, 30); SELECT grow_rel('o', 40); VACUUM (FREEZE, TRUNCATE off) o; SELECT count(*) FROM o");
		my $pages = $bob->sql("SELECT pg_relation_size('o') / 8192");
		my $scans = sub ($number) {
			return split m{/}, $aio->change_during("SELECT blks_read, blks_hit, tup_returned FROM pg_stat_database WHERE datname = 'other'",
				sub { $bob->sql('SELECT count(*) FROM o') for 1 .. $number }, $bob);
		};
		$bob->sql("SELECT evict_rel('o')");
		my ($read, $hit, $returned) = $scans->(1);
		is($read, $pages, "a scan: blks_read, of $pages blocks");
		cmp_ok($hit, '<', 100, 'blks_hit, of catalogs');
		is_between($returned, 30, 199, 'tup_returned, of the table and of catalogs');
		($read, $hit) = $scans->(3);
		is($read, 0, 'three scans of cached blocks: blks_read');
		cmp_ok($hit, '>=', 3 * $pages, 'blks_hit');
		# no statement changes a catalog, but each looks up some of its rows
		$bob->sql('CREATE INDEX o_i ON o (i); SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off');
		my ($inserted, $updated, $deleted, $fetched) = split m{/}, $aio->change_during("SELECT tup_inserted, tup_updated, tup_deleted, tup_fetched FROM pg_stat_database WHERE datname = 'other'", sub {
			$bob->sql('INSERT INTO o SELECT generate_series(31, 537); UPDATE o SET i = -i WHERE i BETWEEN 1 AND 20; DELETE FROM o WHERE i BETWEEN 500 AND 510');
			$bob->sql('SELECT sum(i) FROM o WHERE i BETWEEN 100 AND 399');
		}, $bob);
		is("$inserted/$updated/$deleted", '507/20/11', 'rows that are inserted, updated and deleted');
		is_between($fetched, 331, 600, 'tup_fetched, of the table and of catalogs');
		$bob->sql("CREATE SEQUENCE q; SELECT nextval('q') FROM generate_series(1, 40); SELECT pg_stat_force_next_flush()");
		$bob->gives("SELECT blks_read + blks_hit > 1 FROM pg_statio_all_sequences WHERE relname = 'q'", 't', 'blocks of a sequence');
		# a session that has nothing else to report does not report its transactions
		my $flush = 'SELECT pg_stat_force_next_flush(), count(*) FROM o';
		$bob->sql("SET debug_parallel_query = on; $flush");
		# each query but the last has a worker, or none
		for my $case ([ 0, '4/1', 'transactions' ], [ 1, '10/1', 'transactions: each of three workers adds two, when it starts' ])
		{
			my ($workers, $expected, $name) = @$case;
			$bob->sql("SET max_parallel_workers_per_gather = $workers; $flush");
			my $launched = $bob->sql('EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT count(*) FROM o') =~ /Workers Launched: (\d+)/ ? $1 : 0;
			is($launched, $workers, 'parallel workers');
			$bob->sql($flush);
			is($aio->change_during("SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = 'other'", sub { $bob->sql("BEGIN; SELECT 1; ROLLBACK; SELECT 1; SELECT count(*) FROM o; SET debug_parallel_query = off; $flush; SET debug_parallel_query = on") }),
				$expected, $name);
		}
		$bob->sql('SELECT pg_stat_reset()');
		$aio->gives("SELECT tup_updated, stats_reset > pg_postmaster_start_time() FROM pg_stat_database WHERE datname = 'other'", '0|t', 'a reset, and its time');
	});

	$aio->scenario('a parallel index scan', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.p AS SELECT i FROM generate_series(1, 9000) i; CREATE INDEX p_i ON scenario.p (i); VACUUM ANALYZE scenario.p');
		my $query = 'SELECT count(*) FROM scenario.p WHERE i > 1000';
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET enable_seqscan = off; SET enable_bitmapscan = off');
		like($alice->sql("EXPLAIN $query"), qr/Parallel Index/, 'the plan');
		my $counts = $aio->change_during("SELECT idx_scan, idx_tup_read FROM pg_stat_all_indexes WHERE indexrelid = 'scenario.p_i'::regclass", sub { $alice->sql($query) }, $alice);
		is($counts, '1/8000', 'one scan, and its rows');
	}));

	$aio->scenario('a reset of one session', with('alice bob', 20, sub ($alice, $bob, $t) {
		$_->sql("SELECT count(*) FROM $t; SELECT pg_stat_force_next_flush()"), $aio->evict($t) for $alice, $bob;
		my $reset = sub { return $aio->sql("SELECT bool_and(stats_reset > pg_postmaster_start_time()), sum(reads) FROM pg_stat_get_backend_io(${\$_[0]->pid})") };
		like($reset->($_), qr/^\|[1-9]/, 'never reset') for $alice, $bob;
		$aio->sql("SELECT pg_stat_reset_backend_stats(${\$alice->pid})");
		is($reset->($alice), 't|0', 'the time of the reset');
		like($reset->($bob), qr/^\|[1-9]/, 'and not of the other session');
	}));

	$aio->scenario('WAL of one session', with('alice', sub ($alice) {
		my $counts = "SELECT wal_records, wal_bytes FROM pg_stat_get_backend_wal(${\$alice->pid})";
		my $change = sub ($n) {
			my $messages = "SELECT count(*) FROM generate_series(1, $n) i, pg_logical_emit_message(false, 'x', repeat('y', 1000 + i))";
			return split m{/}, $aio->change_during($counts, sub { $alice->sql($messages) }, $alice, $aio);
		};
		# the session's own catalog reads may write hint bits the first time
		$change->(1);
		for my $n (10, 20, 5)
		{
			my ($records, $bytes) = $change->($n);
			is($records, $n, "$n records");
			is_between($bytes, $n * 1000, $n * 1200, 'their bytes');
		}
	}));

	$aio->scenario('processes that have statistics of their own', with('alice', sub ($) {
		my %has = ('walwriter' => 1, 'client backend' => 1, map { $_ => 0 } 'checkpointer', 'background writer', 'autovacuum launcher', 'io worker');
		my $types = join ', ', map { "'$_'" } keys %has;
		for my $row (split /\n/, $aio->sql("SELECT a.backend_type, a.pid, count(io.*), count(*) FILTER (WHERE io.backend_type = a.backend_type) FROM pg_stat_activity a LEFT JOIN LATERAL pg_stat_get_backend_io(a.pid) io ON true WHERE a.backend_type IN ($types) GROUP BY 1, 2"))
		{
			my ($type, $pid, $rows, $of_type) = split /\|/, $row;
			is($rows > 0 ? 1 : 0, $has{$type}, "$type, process $pid");
			is($of_type, $rows, 'which the rows name') if $rows;
		}
		$aio->gives('SELECT count(*) FROM pg_stat_get_backend_io(0)', 0, 'none without a process');
	}));

	$aio->scenario('a reset of pg_stat_io', with('alice', 20, sub ($alice, $t) {
		my $counts = sub ($since) {
			return $aio->sql(qq{SELECT sum(reads), sum(read_bytes), sum(read_time), sum(hits), bool_and(stats_reset > '$since') FROM pg_stat_io
				WHERE backend_type = 'client backend' AND context = 'vacuum' AND object = 'relation'});
		};
		$alice->sql("SET track_io_timing = on; VACUUM (DISABLE_PAGE_SKIPPING) $t");
		$aio->evict($t);
		$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
		my $now = $aio->sql('SELECT clock_timestamp()');
		my @before = split /\|/, $counts->($now);
		is(scalar(grep { $_ > 0 } @before[ 0 .. 3 ]), 4, 'reads, bytes, time and hits') || diag("@before");
		is($before[4], 'f', 'no reset yet');
		$aio->sql("SELECT pg_stat_reset_shared('io')");
		is($counts->($now), '0|0|0|0|t', 'after the reset: none, and its time');
	}));

	# the place that has been free for the longest time is given out next
	$aio->scenario('a session in the place of another one', with('', 20, sub ($t) {
		my $reads = "SELECT sum(reads) FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE context = 'vacuum'";
		my $alice = $aio->session('first');
		$aio->evict($t);
		$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
		cmp_ok($alice->sql($reads), '>', 0, 'reads of VACUUM');
		$aio->end_session($alice);
		my $inherited = 0;
		for my $place (1 .. $aio->setting('max_connections'))
		{
			my $next = $aio->session("next_$place");
			$inherited += $next->sql($reads);
			$aio->end_session($next);
		}
		is($inherited, 0, 'no later session has them');
	}), leaves => 'nothing');

	$aio->scenario('a reset of one table and of one index', with('alice', [ t => 20 ], [ u => 20 ], sub ($alice, $t, $u) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); CREATE INDEX u_i ON $u (blk)");
		$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(gen) FROM $_ WHERE blk > 3; RESET enable_seqscan; SELECT count(*) FROM $_; SELECT pg_stat_force_next_flush()") for $t, $u;
		$aio->sql('SELECT pg_stat_force_next_flush()');
		# in 20 there is a function for indexes
		my $of_index = $aio->sql("SELECT proname FROM pg_proc WHERE proname ~ '^pg_stat_reset_single_(table|index)_counters\$' ORDER BY 1 LIMIT 1");
		my $since = $aio->sql("SELECT clock_timestamp() FROM pg_stat_reset_single_table_counters('$t'::regclass) a, $of_index('scenario.u_i'::regclass) b");
		# since 19 the views say when
		my $dated = sub ($is) { return $aio->major >= 19 ? ", bool_and(coalesce(stats_reset > timestamptz '$since' - interval '1s', false)) IS $is" : '' };
		my $all = $aio->major >= 19 ? '|t' : '';
		for my $case ([ $t, $u, 'relid', [ pg_stat_all_tables => 'seq_scan + seq_tup_read' ], [ pg_statio_all_tables => 'heap_blks_read + heap_blks_hit' ] ],
			[ 'scenario.u_i', 'scenario.t_i', 'indexrelid', [ pg_stat_all_indexes => 'idx_scan + idx_tup_read' ], [ pg_statio_all_indexes => 'idx_blks_read + idx_blks_hit' ] ])
		{
			my ($reset, $other, $column, @views) = @$case;
			for my $view (@views)
			{
				my ($name, $sum) = @$view;
				$aio->gives("SELECT sum($sum) ${\$dated->('true')} FROM $name WHERE $column = '$reset'::regclass", "0$all", "$name: $reset");
				$aio->gives("SELECT sum($sum) > 0 ${\$dated->('false')} FROM $name WHERE $column = '$other'::regclass", "t$all", "$name: $other");
			}
		}
		# a shared one
		my $scans = q{SELECT seq_scan FROM pg_stat_all_tables WHERE relid = 'pg_shdescription'::regclass};
		$aio->sql('SELECT FROM pg_shdescription; SELECT pg_stat_force_next_flush()');
		cmp_ok($aio->sql($scans), '>', 0, 'scans of a shared table');
		$aio->sql("SELECT pg_stat_reset_single_table_counters('pg_shdescription'::regclass)");
		$aio->gives($scans, 0, 'and none after a reset');
	}));

	$aio->scenario('pg_statio_all_tables and pg_stat_all_tables', with('alice', 40, sub ($alice, $t) {
		my ($by_index, $scan) = ("SELECT gen FROM $t WHERE blk = 17", "SELECT count(body) FROM $t");
		my $added = sub ($view, $columns, $sql) {
			return $aio->change_during("SELECT $columns FROM $view WHERE relid = '$t'::regclass", sub { $alice->sql($sql) }, $alice, $aio);
		};
		my @blocks = (pg_statio_all_tables => 'heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit');
		$aio->sql("CREATE INDEX t_i ON $t (blk)");
		# from here on the session has the metapage in its relation cache
		$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM $t; SELECT count(gen) FROM $t WHERE blk < 0");
		$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.t_i')");
		is($added->(@blocks, $by_index), '1/0/1/0', 'a row by the index: one block of each is read');
		is($added->(@blocks, $by_index), '0/1/0/1', 'the same row again: one block of each is hit');
		$alice->sql('RESET enable_seqscan');
		$aio->evict($t);
		is($added->(@blocks, $scan), '40/0/0/0', 'a scan');
		is($added->(pg_stat_all_tables => 'seq_scan, seq_tup_read, idx_scan, idx_tup_fetch', $scan), '1/40/0/0', 'scans and rows');
		my $own = $aio->table('o', 40, kind => 'TEMP', session => $alice);
		$aio->evict($own, $alice);
		my $oid = $alice->sql("SELECT '$own'::regclass::oid");
		my $blocks_of_own = sub {
			return $aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = $oid", sub { $alice->sql("SELECT count(body) FROM $own") }, $alice, $aio);
		};
		is($blocks_of_own->(), '40/0', 'blocks of a temporary table are read');
		is($blocks_of_own->(), '0/40', 'then hit');
	}));
}, leaves => 'nothing');

# Rows that statistics count: those of each kind of scan; inserts, updates and deletes of transactions,
# savepoints and prepared transactions; dead rows, and line pointers that pruning has left of them.
with_each_io_method('worker', sub {
	# settings, query, and the counts of the table and of the index
	my @scans = (
		[ 'sequential', 'enable_indexscan = off, enable_bitmapscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '1/60/0/0', '0/0/0' ],
		[ 'index', 'enable_seqscan = off, enable_bitmapscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/10', '1/10/10' ],
		[ 'bitmap', 'enable_seqscan = off, enable_indexscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/10', '1/10/0' ],
		[ 'index only', 'enable_seqscan = off, enable_bitmapscan = off', 'SELECT count(blk) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/0', '1/10/0' ],
		[ 'sample', 'enable_seqscan = on', 'SELECT count(gen) FROM %s TABLESAMPLE SYSTEM (100)', '0/60/0/0', '0/0/0' ],
		[ 'range of TIDs', 'enable_seqscan = on', "SELECT count(gen) FROM %s WHERE ctid >= '(10,0)' AND ctid < '(20,0)'", '0/10/0/0', '0/0/0' ]);
	$aio->scenario('%s scan', with('alice', 60, sub ($alice, $t, $scan, $settings, $query, $of_table, $of_index) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
		my $counts = "SELECT seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_all_tables WHERE relid = '$t'::regclass";
		my $index = "SELECT idx_scan, idx_tup_read, idx_tup_fetch FROM pg_stat_all_indexes WHERE indexrelid = 'scenario.t_i'::regclass";
		$alice->sql(join '; ', map { "SET $_" } split /, /, $settings);
		my $run = sub { $alice->sql(sprintf $query, $t) };
		$run->();
		is($aio->change_during($counts, $run, $alice, $aio), $of_table, "$scan: the table");
		is($aio->change_during($index, $run, $alice, $aio), $of_index, 'and the index');
	}), each => \@scans);

	$aio->scenario('a transaction in progress', with('alice', 60, sub ($alice, $t) {
		my $counts = "SELECT seq_scan, seq_tup_read, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_all_tables WHERE relid = '$t'::regclass";
		# what has not been flushed counts here, too
		my $flush = 'SELECT pg_stat_force_next_flush()';
		$alice->sql($flush);
		$alice->sql("BEGIN; SELECT count(*) FROM $t; CALL add_pages('$t', 60, 69)");
		$alice->gives($counts, '1|60|10|0|0', 'a scan and inserts');
		$alice->sql("SAVEPOINT a; DELETE FROM $t WHERE ctid = '(3,1)'; UPDATE $t SET gen = 1 WHERE ctid IN ('(5,1)', '(6,1)')");
		$alice->gives($counts, '1|60|10|2|1', 'and those of a savepoint');
		$alice->sql('ROLLBACK TO a');
		$alice->gives($counts, '1|60|10|2|1', 'rolled back or not');
		$alice->sql("ROLLBACK; $flush");
		$alice->gives($counts, '0|0|0|0|0', 'nothing in the next transaction');
	}));

	# of fixed and of variable number
	$aio->scenario('statistics in a transaction', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $look = 'SELECT (SELECT num_done FROM pg_stat_checkpointer), (SELECT wal_records FROM pg_stat_wal), (SELECT sum(hits) FROM pg_stat_io), (SELECT sum(tup_returned) FROM pg_stat_database)';
		$alice->sql('BEGIN; SET stats_fetch_consistency = snapshot');
		my $first = $alice->sql($look);
		$aio->sql('CHECKPOINT');
		$bob->sql("SELECT count(*), pg_switch_wal() FROM $t; SELECT pg_stat_force_next_flush()");
		$alice->gives($look, $first, 'a snapshot stays as it is');
		my @before = split /\|/, $first;
		my $grows = sub ($session) { my @now = split /\|/, $session->sql($look); return !grep { $now[$_] <= $before[$_] } 0 .. 3 };
		ok($aio->poll(sub { $grows->($aio) }), 'other sessions see more');
		$alice->sql('SET stats_fetch_consistency = cache');
		ok($grows->($alice), 'and so does this one with another consistency') || diag("$first, " . $alice->sql($look));
		$alice->sql('COMMIT');
	}));

	# "change" inserts three rows, updates two and deletes one; the table has ten rows
	$aio->scenario('transactions', with('alice', sub ($alice, $transaction, $wanted) {
		$alice->sql('SET search_path = scenario, public; CREATE TABLE t (n int) WITH (autovacuum_enabled = off); INSERT INTO t SELECT generate_series(1, 10)');
		my $change = 'INSERT INTO t SELECT generate_series(11, 13); UPDATE t SET n = -n WHERE n < 3; DELETE FROM t WHERE n = 3';
		$alice->sql('BEGIN; ' . $transaction =~ s/^change/$change/r);
		$alice->sql('SELECT pg_stat_force_next_flush()');
		$aio->gives("SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = 'scenario.t'::regclass", $wanted, $transaction);
	}), each => [
		# an aborted subtransaction's rows count as inserted, and as dead
		[ 'change; SAVEPOINT a; INSERT INTO t VALUES (20), (21); UPDATE t SET n = -n WHERE n = 11; DELETE FROM t WHERE n = 12; RELEASE a; COMMIT', '15|3|2|13|5' ],
		[ 'change; SAVEPOINT a; INSERT INTO t VALUES (20), (21); UPDATE t SET n = -n WHERE n = 11; DELETE FROM t WHERE n = 12; ROLLBACK TO a; COMMIT', '15|3|2|12|6' ],
		# what a transaction has changed before it truncates the table counts if it is rolled back only
		[ 'change; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 5); COMMIT', '15|0|0|5|0' ],
		[ "change; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 5); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'", '15|0|0|5|0' ],
		[ 'change; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 5); ROLLBACK', '13|2|1|10|5' ],
		[ "change; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 5); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'", '13|2|1|10|5' ],
		# if DROP is rolled back, new rows are dead after ROLLBACK, and live after ROLLBACK TO
		[ 'change; DROP TABLE t; ROLLBACK', '13|2|1|10|5' ],
		[ 'change; SAVEPOINT a; DROP TABLE t; ROLLBACK TO a; COMMIT', '13|2|1|12|3' ],
	]);

	# full-page images, and dropped statistics
	$aio->scenario('functions that read the WAL', with('alice', 40, changes => 1, sub ($alice, $t) {
		# a checkpoint removes what was before it
		$alice->sql($_) for 'CREATE TABLE scenario.d ()', 'CHECKPOINT';
		my $from = $alice->sql('SELECT pg_current_wal_insert_lsn()');
		$alice->sql($_) for "DELETE FROM $t WHERE blk < 30", 'BEGIN', 'DROP TABLE scenario.d', "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'";
		my $range = "'$from', '${\$alice->sql(\"SELECT pg_logical_emit_message(false, '', '', flush => true)\")}'";
		$alice->gives("SELECT count(DISTINCT n), min(n) > 30 * 40 FROM (SELECT sum(fpi_length) FROM pg_get_wal_records_info($range) UNION ALL SELECT sum(block_fpi_length) FROM pg_get_wal_block_info($range)"
			  . " UNION ALL SELECT sum(fpi_size) FROM pg_get_wal_stats($range)) s (n)", '1|t', 'all three give the same sum of lengths');
		$alice->gives("SELECT string_agg(record_type, ' ' ORDER BY start_lsn) FROM pg_get_wal_records_info($range) WHERE description LIKE '%dropped stats: %'", 'PREPARE COMMIT_PREPARED', 'statistics that are dropped');
	}), skip => $aio->lacks('pg_walinspect'));

	$aio->scenario('REFRESH MATERIALIZED VIEW', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t AS SELECT generate_series(1, 10) AS n; CREATE MATERIALIZED VIEW scenario.m AS TABLE scenario.t WITH NO DATA; REFRESH MATERIALIZED VIEW scenario.m; SELECT pg_stat_force_next_flush()');
		$aio->gives("SELECT n_tup_ins, n_live_tup FROM pg_stat_all_tables WHERE relid = 'scenario.m'::regclass", '10|10', 'its rows count');
	}));

	$aio->scenario('dead rows', with('alice', sub ($alice) {
		my $t = 'scenario.d';
		# two rows fill a page
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 3900) FROM generate_series(0, 99) i;"
			  . "CREATE INDEX ON $t (n); VACUUM (FREEZE) $t; DELETE FROM $t WHERE n % 4 = 1");
		my $look = sub ($name) {
			$alice->notices;
			$alice->sql("ANALYZE VERBOSE $t");
			my ($found) = map { /containing (\d+ live rows and \d+ dead rows)/ ? $1 : () } $alice->notices;
			is($found, '75 live rows and 25 dead rows', $name);
			$alice->sql('SELECT pg_stat_force_next_flush()');
			$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", '75|25', 'and the statistics');
		};
		$look->('ANALYZE');
		# a reader prunes, and leaves the line pointers for VACUUM
		$aio->evict($t);
		$alice->gives("SELECT count(body) FROM $t", 75, 'a reader');
		$aio->gives("SELECT count(*) FILTER (WHERE lp_flags = 3) FROM generate_series(0, 49) b, heap_page_items(get_raw_page('$t', b))", 25, 'has pruned') if !$aio->lacks('pageinspect');
		$look->('ANALYZE of pages that are pruned');
	}));
});

# Rows that views must have, and those that they must not have: pg_stat_io for each kind of process,
# pg_wait_events for each lock.  Statistics of one process, with each stats_fetch_consistency.  Guards
# server commits 17d8bba6da, f4694e0f3c, c3623703f3 and 3191a593d6.
# What processes do with objects in contexts: read, write, write back, extend, hit, evict, reuse, fsync
my %does = (
	'relation/bulkread' => 'rwbheu', 'relation/bulkwrite' => 'rwbxheu', 'relation/init' => 'rwbxhef', 'relation/normal' => 'rwbxhef', 'relation/vacuum' => 'rwbxheu',
	'temp relation/normal' => 'rwxhe', 'wal/init' => 'wf', 'wal/normal' => 'rwf');
my %letters = (reads => 'r', writes => 'w', writebacks => 'b', extends => 'x', hits => 'h', evictions => 'e', reuses => 'u', fsyncs => 'f');

# Returns the lines that a kind of process has: all contexts, without those that match the first pattern,
# and without what the second one matches in "context:letter".
sub rows ($no_row, $never)
{
	return join "\n", map { my $what = $_; "$what:" . join '', grep { "$what:$_" !~ $never } split //, $does{$what} } grep { $_ !~ $no_row } sort keys %does;
}

for_each_io_method('worker', sub {
	$aio->scenario('pg_stat_io', sub {
		my $no_reading = qr{wal/normal:r};
		# autovacuum's launcher updates pg_database in place; 19 does not exclude that it extends a relation
		my %rows = (
			(map { $_ => rows(qr/none/, qr/none/) } 'client backend', 'background worker', 'walsender', 'slotsync worker', 'io worker'),
			# the first betas of 19 have all rows; server commit 32e4508db2
			!$aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'") ? ()
			: $aio->setting('server_version') =~ /^19beta/ && $aio->sql("SELECT count(*) FROM pg_stat_io WHERE backend_type LIKE 'datachecksums%' AND object LIKE 'temp%'") ? (map { $_ => rows(qr/none/, qr/none/) } 'datachecksums launcher', 'datachecksums worker')
			: ('datachecksums launcher' => rows(qr/temp|bulkwrite|vacuum|relation.init/, $no_reading), 'datachecksums worker' => rows(qr/temp|bulkwrite|relation.init/, $no_reading)),
			(map { $_ => rows(qr/temp/, qr/none/) } 'standalone backend', 'startup'),
			'autovacuum worker' => rows(qr/temp|bulkwrite/, $no_reading),
			'autovacuum launcher' => rows(qr/temp|bulkwrite|vacuum/, $aio->major < 19 ? qr/$no_reading|:x/ : $no_reading),
			'background writer' => rows(qr/temp|bulk|vacuum/, qr/:[rxhe]/),
			'checkpointer' => rows(qr/temp|bulk|vacuum/, qr/relation.*:r|:[xhe]/),
			(map { $_ => rows(qr/relation/, $no_reading) } 'walwriter', 'walreceiver'),
			'walsummarizer' => rows(qr/relation/, qr/none/));
		my $letters = join ' || ', map { "CASE WHEN $_ IS NULL THEN '' ELSE '$letters{$_}' END" } qw(reads writes writebacks extends hits evictions reuses fsyncs);
		for my $kind (sort keys %rows)
		{
			$aio->gives(qq{SELECT object || '/' || context || ':' || $letters FROM pg_stat_io WHERE backend_type = '$kind' ORDER BY object || '/' || context COLLATE "C"}, $rows{$kind}, $kind);
		}
		$aio->gives('SELECT count(DISTINCT backend_type) FROM pg_stat_io', scalar keys %rows, 'no other kind of process has rows');
		# what is not measured in bytes or time is NULL there, too
		for my $unit (qw(bytes time))
		{
			my @pairs = map { my $c = $_; [ $c, ($c =~ s/s$//r) . "_$unit" ] } $unit eq 'bytes' ? qw(reads writes extends) : qw(reads writes writebacks extends fsyncs);
			$aio->gives('SELECT count(*) FROM pg_stat_io WHERE ' . join(' OR ', map { "($_->[0] IS NULL) <> ($_->[1] IS NULL)" } @pairs), 0, $unit);
		}
	});

	$aio->scenario('the waits of processes without a database', sub {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		$aio->gives_soon("SELECT pg_stat_get_backend_wait_event_type(id), pg_stat_get_backend_wait_event(id) FROM pg_stat_get_backend_idset() id WHERE pg_stat_get_backend_pid(id) = $checkpointer", 'Activity|CheckpointerMain');
	});

	# the server's header names the locks
	$aio->scenario('pg_wait_events', sub {
		my $header = $aio->node->config_data('--includedir-server') . '/storage';
		my @names = slurp_file("$header/lwlocklist.h") =~ /^PG_LWLOCK\(\d+, (\w+)\)/mg;
		my @tranches = -e "$header/lwlocklist.h" ? slurp_file("$header/lwlocklist.h") =~ /^PG_LWLOCKTRANCHE\(\w+, (\w+)\)/mg : ();
		# before 19 there is only the enum, whose names are those of the view in another spelling
		@tranches = grep { !/FIRST_USER_DEFINED/ } slurp_file("$header/lwlock.h") =~ /^\s+LWTRANCHE_(\w+)/mg if !@tranches;
		cmp_ok(scalar @names, '>', 30, 'locks in the header');
		cmp_ok(scalar @tranches, '>', 20, 'kinds of locks in the header');
		my $spelling = "lower(replace(replace(replace(replace(name, '_', ''), 'LAUNCHER', 'LogicalRepLauncher'), 'PGSTATS', 'PgStats'), 'LOCKFASTPATH', 'LockFastPath'))";
		$aio->gives("SELECT name FROM unnest(string_to_array('" . join(' ', @names, @tranches) . "', ' ')) name WHERE $spelling NOT IN (SELECT lower(name) FROM pg_wait_events WHERE type = 'LWLock')", '', 'each is in the view');
		# those of this subsystem, with the types that the manual gives them
		my %events = (Activity => 'IoWorkerMain', IO => 'AioIoCompletion AioIoUringExecution AioIoUringSubmit DataFileRead DataFilePrefetch BufFileRead', IPC => 'BufferIo', LWLock => 'AioUringCompletion AioWorkerSubmissionQueue BufferMapping');
		for my $type (sort keys %events)
		{
			$aio->gives("SELECT name FROM unnest(string_to_array('$events{$type}', ' ')) name WHERE lower(name) NOT IN (SELECT lower(name) FROM pg_wait_events WHERE type = '$type' AND length(description) > 10)", '', $type);
		}
	});

	$aio->scenario('the statistics of one process', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->sql("SELECT count(*) FROM $t; SELECT pg_stat_force_next_flush()");
		my $read = "SELECT reads > 0, count(*) OVER () FROM pg_stat_get_backend_io(${\$bob->pid}) WHERE object = 'relation' AND context = 'normal'";
		# a change of the setting gives back what was fetched
		for my $consistency (qw(none cache snapshot cache none snapshot none))
		{
			$alice->sql('BEGIN');
			$alice->gives("$read; SET stats_fetch_consistency = $consistency; $read", "t|1\nt|1", "once more with $consistency");
			$alice->gives("SELECT count(*) FROM pg_stat_get_backend_io(${\$aio->pids_of_type('checkpointer')})", '0', 'no rows of the checkpointer');
			$alice->sql('COMMIT');
		}
	}));
}, leaves => 'nothing');
