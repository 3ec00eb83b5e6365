# Each wait of the module and each way in which it may end, with and without the gate's worker (TestAio/Waits.pm).
#
# All combinations take twenty seconds.  By default each combination runs on one server, and of
# those that take longest one in five.  TEST_AIO_WAITS=all runs all on all servers.
use TestAio;
use TestAio::Waits;

for my $has_worker (1, 0)
{
	with_each_io_method(($has_worker ? 'io_uring' : 'worker') . '; long: all', sub {
		run_combination($aio, @$_, $has_worker) for on_their_turn($aio->method, $has_worker, combinations());
	},
		needs => 'gate trace', suffix => $has_worker ? 'worker' : 'alone',
		# holds and devices for all relations are not to delay what sessions read of the catalogs
		conf => { 'test_aio.reach_synchronous_reads' => 'off', $has_worker ? () : (max_worker_processes => 0) });
}

# A wait for a read does not register an exit callback.  The server also waits for reads within
# PG_ENSURE_ERROR_CLEANUP(), in VACUUM of a B-tree index and in CREATE DATABASE.  It raises an error
# at the end of that block if another callback has been registered meanwhile.
#
# Has a new session wait for its first read, which VACUUM makes of an index.  Parameters: SQL that
# is run before, the wait event, and SQL that ends the wait.
sub vacuum_waits ($aio, $hold, $event, $release)
{
	my ($vacuum) = $aio->sessions('vacuum');
	$aio->sql('CREATE TABLE scenario.v (k int) WITH (autovacuum_enabled = off);'
		  . 'INSERT INTO scenario.v SELECT generate_series(1, 5000); CREATE INDEX v_k ON scenario.v (k);'
		  . 'DELETE FROM scenario.v WHERE k % 2 = 0');
	$aio->sql("SELECT evict_rel('scenario.v_k')");
	$aio->sql($_) for @$hold;
	$vacuum->waits('VACUUM (INDEX_CLEANUP on) scenario.v', $event);
	$aio->sql($_) for @$release;
	$vacuum->returns('', 'VACUUM ends');
	$aio->gives('SET enable_seqscan = off; SELECT count(*) FROM scenario.v WHERE k > 0; RESET enable_seqscan', 2500, 'the index has all rows');
	return;
}

for_each_io_method('worker; long: io_uring', sub {
	my $no_gate = $aio->lacks('gate');

	$aio->scenario('a held wakeup', sub {
		vacuum_waits($aio, ["SELECT io_hold_wakeups(true), io_hold('scenario.v_k')"], 'IoGateHeld',
			[ 'SELECT io_hold_end(), io_release_all()', 'SELECT io_hold_wakeups(false)' ]);
	}, skip => $no_gate);

	$aio->scenario('in the trace', sub {
		vacuum_waits($aio, ["SELECT io_trace_start('scenario.v_k'), io_hold('scenario.v_k')"], 'IoGateHeld',
			['SELECT io_hold_end(), io_release_all()']);
		$aio->traced('sum(waits) > 0', 't', 'the wait is recorded');
		$aio->end_trace;
	}, skip => $no_gate);

	$aio->scenario('at a completion', sub {
		vacuum_waits($aio, ["SELECT inj_io_completion_wait(relfilenode => pg_relation_filenode('scenario.v_k'))"],
			$aio->method eq 'sync' || $aio->lacks('gate') && $aio->method eq 'io_uring' ? 'completion_wait' : 'AioIoCompletion', ['SELECT inj_io_completion_continue()']);
	}, skip => $aio->no_faults);
});
