# Bugs that SQL alone shows (doc/reports.md).
use TestAio;
use PostgreSQL::Test::Utils qw(slurp_file);

for_each_io_method('worker; long: all', sub {
	# the transaction's entries stay in the indexes, and the table's old file returns
	$aio->scenario('SET TABLESPACE, INSERT and ROLLBACK', with('alice', sub ($alice) {
		my $t = 'scenario.h';
		$aio->sql("CREATE TABLESPACE there LOCATION ''");
		$alice->sql("CREATE TABLE $t (n int); INSERT INTO $t SELECT generate_series(1, 100); CREATE INDEX ON $t (n)");
		$alice->sql("BEGIN; ALTER TABLE $t SET TABLESPACE there; INSERT INTO $t VALUES (2000); ROLLBACK; INSERT INTO $t VALUES (101)");
		$alice->gives("SET enable_seqscan = off; SELECT count(*) FROM $t WHERE n = 2000", $aio->has_bug('set-tablespace-rollback') ? 1 : 0, 'a row that there is not, by the index');
		$alice->gives("SET enable_seqscan = on; SELECT count(*), count(*) FILTER (WHERE n = 2000) FROM $t", '101|0', 'the rows');
		$alice->sql("REINDEX TABLE $t");
		$alice->gives("SET enable_seqscan = off; SELECT count(*) FROM $t WHERE n = 2000", 0, 'after REINDEX');
		$aio->sql('DROP TABLESPACE there');
	}));

	# the function that is indexed looks at the progress of the index
	$aio->scenario('progress of CREATE INDEX', with('alice', 10, sub ($alice, $t) {
		$alice->sql("CREATE FUNCTION scenario.done(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN"
			  . " PERFORM pg_stat_clear_snapshot(); RAISE NOTICE ''% done'', (SELECT blocks_done FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid()); RETURN \$1; END'");
		$alice->notices;
		$alice->sql("SET max_parallel_maintenance_workers = 0; CREATE INDEX ON $t (scenario.done(blk))");
		is(join(' ', map { /(\d+) done/ } $alice->notices), ($aio->has_bug('progress-views') ? 10 : 0) . ' 1 2 3 4 5 6 7 8 9', 'blocks that are done, at each block');
	}));

	# a server of its own, which may never start again
	$aio->scenario('a crash with full_page_writes = off: %s', sub ($, $, $bug, $message, $statements) {
		my $node = PostgreSQL::Test::Cluster->new(($bug =~ s/-/_/gr) . '_' . $aio->method);
		$node->init;
		$node->append_conf('postgresql.conf', "autovacuum = off\nfull_page_writes = off");
		$node->start;
		$node->safe_psql('postgres', $statements);
		$node->stop('immediate');
		my $starts = $node->start(fail_ok => 1);
		is($starts, $aio->has_bug($bug) ? 0 : 1, 'the server starts');
		$starts ? $node->stop : like(slurp_file($node->logfile), $message, 'why it does not');
	}, each => [
		[ 'a page of zeroes is compared', 'consistency-check-new-page', qr/FATAL:  invalid page pd_lower 0 pd_upper 0 pd_special 0/,
			"SET wal_consistency_checking = 'all'; CREATE TABLE t AS SELECT i, repeat('x', 500) AS s FROM generate_series(1, 2000) i; CHECKPOINT; DELETE FROM t WHERE i > 1800; VACUUM t;"
			  . "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 300) i" ],
		[ 'a BRIN index is dropped', 'brin-redo-missing-block', qr/startup process \(PID \d+\) was terminated by signal/,
			"CREATE TABLE t (i int); CREATE INDEX t_i ON t USING brin (i) WITH (pages_per_range = 1);"
			  . join('; CHECKPOINT;', ("INSERT INTO t SELECT generate_series(1, 5000); SELECT brin_summarize_new_values('t_i')") x 2) . '; DROP TABLE t' ] ]);
}, conf => { allow_in_place_tablespaces => 'on' });
