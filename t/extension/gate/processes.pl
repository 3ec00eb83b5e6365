# Filters for processes of a type, and for the workers of a parallel query; which process performs a read.
use TestAio;

for_each_io_method('worker; long: all', sub {
	$aio->scenario('the workers of a leader', with('alice bob', 200, sub ($alice, $bob, $t) {
		$alice->sql('SET max_parallel_workers_per_gather = 1; SET debug_parallel_query = on');
		$bob->io_hold($t, leader_pid => $alice->pid);
		$bob->gives("SELECT read_rel_block_ll('$t', 3)", '', 'others read');
		$bob->sql("SELECT io_fail('$t', -5, backend_type => 'logical replication launcher')");
		$alice->starts("SELECT count(*) FROM $t");
		$aio->wait_for('SELECT count(*) > 0 FROM io_held');
		$aio->gives('SELECT DISTINCT leader_pid, backend_type FROM io_held JOIN pg_stat_activity USING (pid)', $alice->pid . '|parallel worker', 'only reads of workers are held');
		$bob->gives("SELECT leader_pid, backend_type, pid, io_hold_end(), io_fail_end() FROM io_filters WHERE kind = 'hold'", $alice->pid . '|||1|1', 'the filter');
		$bob->io_release_all;
		$alice->returns(200, 'reads');
	}));

	$aio->scenario('processes of a type', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->io_hold(backend_type => 'checkpointer', op => 'write');
		$bob->io_fail(undef, 'EIO', backend_type => 'autovacuum worker');
		$bob->gives("SELECT string_agg(backend_type, ', ' ORDER BY filter) FROM io_filters", 'checkpointer, autovacuum worker');
		$alice->sql("BEGIN; DELETE FROM $t WHERE blk = 3; ROLLBACK; SELECT evict_rel('$t')");
		$alice->gives("SELECT count(*) FROM $t", 20, 'a session reads and writes');
		$alice->sql("BEGIN; DELETE FROM $t WHERE blk = 4; ROLLBACK");
		$alice->starts('CHECKPOINT');
		$aio->wait_for('SELECT count(*) = 1 FROM io_held');
		$bob->gives('SELECT count(*), min(backend_type) FROM io_held JOIN pg_stat_activity USING (pid)', '1|checkpointer', 'the checkpointer is held');
		$bob->sql('SELECT io_hold_end(), io_fail_end(), io_release_all()');
		$alice->ends;
		$bob->io_fail(undef, 'EIO', backend_type => 'nobody');
		is_deeply([ $bob->notices ], ['"nobody" is taken for a type of background workers'], 'a type of background workers');
		$bob->gives('SELECT backend_type, io_fail_end() FROM io_filters', 'nobody|1');
	}));
	$aio->scenario('performed by the %s', with('', 20, sub ($t, $by) {
		$aio->io_trace_restart($t);
		my ($controller, $issuer, $waiter) = $aio->controller_issuer_waiter($t);
		my %pids = (owner => $issuer->pid, waiter => $waiter->pid, worker => $aio->sql('SELECT worker FROM io_gate'));
		$controller->fails("SELECT io_release(pid, io_id, by => 'me') FROM io_held", '22023', qr/"by" must be "owner"/, 'nobody else');
		$controller->gives("SELECT io_hold_end(), io_release(pid, io_id, by => '$by') FROM io_held", '1|t');
		$_->ends for $issuer, $waiter;
		$aio->io_trace_shows('completed_by', $pids{$by}, 'completed by it');
		$aio->io_trace_stop;
	}), each => [qw(owner waiter worker)]);

	$aio->scenario('only by its owner', with('alice bob', 20, kind => 'TEMP', sub ($alice, $bob, $t) {
		$bob->io_hold(pid => $alice->pid);
		$alice->waits("SELECT read_rel_block_ll('$t', 3)", 'IoGateHeld');
		$bob->fails("SELECT io_release(pid, io_id, by => '$_') FROM io_held", '55000', qr/only its owner can perform/, $_) for qw(waiter worker);
		$bob->gives("SELECT io_hold_end(), io_release(pid, io_id, by => 'owner') FROM io_held", '1|t');
		$alice->ends;
	}));
}, needs => 'gate trace', conf => { 'test_aio.reach_writes' => 'on', max_parallel_workers => 4 });
