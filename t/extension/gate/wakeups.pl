# Held wakeups: processes that have waited for a held read go on one by one, as they are told.
# io_settle() waits until all processes are quiet.
use TestAio;

# Waits until all is quiet, after a release if it is told of which read.  Returns what these sessions
# wait for as NAME=EVENT, separated by blanks.
sub settle ($aio, $sessions, @release)
{
	$aio->gives('SELECT ' . (@release ? "io_release($release[0], $release[1]) AND " : '') . 'io_settle()', 't', 'all is quiet');
	return join ' ', map { $_->name . '=' . $aio->sql("SELECT wait_event FROM pg_stat_activity WHERE pid = ${\$_->pid}") } @$sessions;
}

# Has carol hold wakeups, and alice wait for a read that is held; ends the hold.
sub hold_wakeup ($aio, $carol, $alice, $t)
{
	$carol->sql('SELECT io_hold_wakeups(true)');
	$aio->io_hold($t);
	$alice->starts("SELECT read_rel_block_ll('$t', 3)");
	settles($aio, [$alice], 'alice=IoGateHeld', 'alice waits');
	$aio->sql('SELECT io_hold_end(), io_release_all()');
	return;
}

# Test: the sessions have these states, now or soon: a session may not have begun a statement that it has been sent.
sub settles ($aio, $sessions, $expected, $name)
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found;
	$aio->poll(sub { $found = settle($aio, $sessions); $found eq $expected });
	return is($found, $expected, $name);
}

for_each_io_method('sync; long: all', sub {
	$aio->scenario('two processes that have waited for one read go on one by one', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->gives('SELECT io_hold_wakeups(true)', 'f', 'it was off');
		$aio->io_hold($t);
		$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
		settles($aio, [$alice], 'alice=IoGateHeld', 'alice waits');
		$bob->starts("SELECT count(*) FROM read_buffers('$t', 4, 1)");
		settles($aio, [ $alice, $bob ], 'alice=IoGateHeld bob=IoGateHeld', 'both wait');
		my ($pid, $io_id) = split /\|/, $aio->sql('SELECT pid, io_id FROM io_held');
		is(settle($aio, [ $alice, $bob ], $pid, $io_id), 'alice=IoHeldWakeup bob=IoHeldWakeup', 'the read is released, and both wakeups are held');
		$aio->gives('SELECT count(*) FROM io_held', 0, 'the read is no longer held');
		$aio->gives('SELECT count(DISTINCT pid), min(io_id), max(io_id), count(since) FROM io_held_wakeups',
			"2|$io_id|$io_id|2", 'the view shows both');
		$aio->gives("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid", 'IoHeldWakeup', 'so does the wait event');
		$aio->gives("SELECT io_wake(${\$bob->pid}), io_wake(${\$bob->pid})", 't|f', 'bob goes on, once');
		$bob->returns('1', 'bob has his block');
		settles($aio, [ $alice, $bob ], 'alice=IoHeldWakeup bob=ClientRead', 'the wakeup of alice is held');
		$aio->gives('SELECT io_hold_wakeups(false), io_hold_wakeups(false)', 't|f', 'wakeups were held, and are not');
		$alice->returns('', 'alice has hers');
		$aio->io_hold_end;
	}));

	$aio->scenario('a temporary table, whose owner performs the read', with('alice', 20, kind => 'TEMP', sub ($alice, $own) {
		$aio->sql('SELECT io_hold_wakeups(true), io_hold(everybody => true)');
		$alice->starts("SELECT read_rel_block_ll('$own', 3)");
		settles($aio, [$alice], 'alice=IoGateHeld', 'alice waits');
		my ($pid, $io_id) = split /\|/, $aio->sql('SELECT pid, io_id FROM io_held');
		is(settle($aio, [$alice], $pid, $io_id), 'alice=IoHeldWakeup', 'the read is performed, and the wakeup of alice is held');
		$aio->gives("SELECT io_wake($pid)", 't', 'alice goes on');
		$alice->returns('', 'alice has her block');
		$aio->sql('SELECT io_hold_wakeups(false), io_hold_end()');
	}));

	$aio->scenario('the session that holds wakeups ends', with('alice carol', 20, sub ($alice, $carol, $t) {
		hold_wakeup($aio, $carol, $alice, $t);
		settles($aio, [$alice], 'alice=IoHeldWakeup', 'the wakeup of alice is held');
		$aio->end_session($carol);
		$alice->returns('', 'alice goes on');
	}));

	$aio->scenario('no process stands there for longer than the hold timeout', with('alice carol', 20, sub ($alice, $carol, $t) {
		$carol->sql("SET test_aio.hold_timeout = '100ms'");
		hold_wakeup($aio, $carol, $alice, $t);
		$alice->wait_for_end->forget_warnings;
		$aio->logs(qr/the wakeup of process \d+ was held for too long/, 1, 'logged');
		$carol->sql('SELECT io_hold_wakeups(false)');
	}), log => qr/LOG:  .*was held for too long/);

	$aio->scenario('the states of processes', with('alice bob', 20, sub ($alice, $bob, $t) {
		$alice->sql("BEGIN; LOCK TABLE $t");
		settles($aio, [ $alice, $bob ], 'alice=ClientRead bob=ClientRead', 'both are idle');
		$bob->starts("SELECT count(*) FROM $t");
		settles($aio, [ $alice, $bob ], 'alice=ClientRead bob=relation', 'bob waits for a lock');
		$alice->sql('COMMIT');
		$bob->wait_for_end;
		$aio->sql("SELECT evict_rel('$t')");
		$alice->starts('SELECT count(*) FROM generate_series(1, 1000000000)')->wait_until_active;
		$aio->gives('SELECT io_settle(20)', 'f', 'alice works until the timeout of io_settle()');
		$aio->cancels($alice);
	}));

	$aio->scenario('bad input', with('alice', sub ($alice) {
		$alice->fails($_->[0], $_->[1], $_->[2], $_->[0]) for (
			[ 'SELECT io_hold_wakeups(NULL)', '22004', qr/on must not be null/ ],
			[ 'SELECT io_wake(NULL)', '22004', qr/pid must not be null/ ],
			[ 'SELECT io_settle(-1)', '22023', qr/timeout must be between 0/ ]);
		$aio->gives("SELECT io_wake(0), io_wake(1)", 'f|f', 'no such process has a held wakeup');
	}));
}, needs => 'gate');
