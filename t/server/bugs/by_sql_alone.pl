# Bugs that SQL alone shows (doc/reports.md).
use TestAio;
use FindBin;
use PostgreSQL::Test::Utils qw(slurp_file);

for_each_io_method('worker; long: all', sub {
	my $switches_checksums = $aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'");

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
	}));

	# the function that is indexed looks at the progress of the index
	$aio->scenario('progress of CREATE INDEX', with('alice', 10, sub ($alice, $t) {
		$alice->sql("CREATE FUNCTION scenario.done(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN"
			  . " PERFORM pg_stat_clear_snapshot(); RAISE NOTICE ''% done'', (SELECT blocks_done FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid()); RETURN \$1; END'");
		$alice->notices;
		$alice->sql("SET max_parallel_maintenance_workers = 0; CREATE INDEX ON $t (scenario.done(blk))");
		is(join(' ', map { /(\d+) done/ } $alice->notices), ($aio->has_bug('progress-views') ? 10 : 0) . ' 1 2 3 4 5 6 7 8 9', 'blocks that are done, at each block');
	}));

	# servers of their own, which may never start again: the tests that go to the lists
	$aio->scenario('%s', sub ($, $bug, $message) {
		local @ENV{qw(TESTLOGDIR TESTDATADIR)} = map { "$_/$bug." . $aio->method } $PostgreSQL::Test::Utils::log_path, $PostgreSQL::Test::Utils::tmp_check;
		my $includes = join ' ', map { "-I'$_'" } @INC;
		my $passes = system("$^X $includes '$FindBin::RealBin/../../../doc/reports/$bug/test.pl' >/dev/null 2>&1") == 0;
		is($passes, !$aio->has_bug($bug), 'the server starts after the crash');
		like(join('', map { slurp_file($_) } glob "$ENV{TESTLOGDIR}/*.log"), $message, 'why it does not') if !$passes;
	}, each => [
		[ 'consistency-check-new-page', qr/FATAL:  invalid page pd_lower 0 pd_upper 0 pd_special 0/ ],
		[ 'brin-redo-missing-block', qr/startup process \(PID \d+\) was terminated by signal/ ],
		$switches_checksums ? [ 'checksums-off-standby-crash', qr/startup\[\d+\] FATAL:  invalid page in block \d+ of relation/ ] : () ]);
}, conf => { allow_in_place_tablespaces => 'on' });
