# Without the gate: switched off, or the library not preloaded, then loaded by a statement; without its worker; and
# its settings.  sql/privileges.sql tests who may use it.
use TestAio;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

with_each_io_method('long: sync', sub {
	$aio->scenario('switched off', sub { does_without($aio, '"test_aio\.gate" is off') });
}, leaves => 'nothing', suffix => 'off', conf => { 'test_aio.gate' => 'off' });

with_each_io_method('worker', sub {
	$aio->scenario('loaded by a call', with('alice', sub ($alice) {
		$alice->sql('SELECT batch_start()');
		$alice->warns(qr/open AIO batch/);
		$aio->end_session($alice);
	}), log => qr/WARNING:  open AIO batch/);

	$aio->scenario('not preloaded', sub { does_without($aio, 'test_aio was not preloaded') });
}, leaves => 'nothing', suffix => 'unloaded', conf => { shared_preload_libraries => '' });

# a server without background workers
with_each_io_method('long: worker', sub {
	$aio->scenario('without its worker', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->gives('SELECT gate, worker IS NULL FROM io_gate', 't|t', 'there is none');
		$alice->sql("SET test_aio.hold_timeout = '100ms'; SELECT io_hold('$t', times => 1); RESET test_aio.hold_timeout");
		$bob->gives("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", '', 'performs his read when the hold timeout is over');
		$aio->logs(qr/read of blocks 3\.\.6 .* was held for too long/, 1, 'which is logged');
		$aio->read_waits_for("io_hold('$t', keep => true)", $bob, "SELECT read_rel_block_ll('$t', 9)");
		$aio->gives('SELECT io_release_all()', 1);
		$bob->returns('', 'reads when it is released');
		$aio->with_uninterruptible_timeout("io_hold_end(), io_hold('$t', keep => true)");
		$alice->sql("SELECT read_rel_block_ll('$t', 12, wait_complete => false)");
		$bob->waits("DROP TABLE $t", 'IoGateHeld', 'cannot be interrupted');
		ok($aio->node->stop('fast', fail_ok => 1), 'shuts down all the same');
		$aio->start_with_sessions;
	}), dies => 1, log => $aio->terminated(qw(alice bob)));

	# its own look at the server's state ends the wait
	$aio->scenario('a smart shutdown without its worker', with('alice bob', 20, sub ($alice, $bob, $t) {
		$alice->sql("SET test_aio.hold_timeout = '10min'");
		$alice->read_waits_for("io_hold('$t')", $bob, "SELECT read_rel_block_ll('$t', 3)");
		ok($aio->smart_stop(sub { $bob->returns('', 'reads') }), 'stops');
		$aio->start_with_sessions;
	}), dies => 1);
}, leaves => 'nothing', suffix => 'alone', needs => 'gate', conf => { max_worker_processes => 0, 'test_aio.reach_synchronous_reads' => 'off' });

subtest 'the size of its shared memory' => sub {
	plan skip_all => only_long() if only_long();
	my $node = PostgreSQL::Test::Cluster->new('156_size');
	$node->init;
	# in MB, with many possible processes
	my ($without, $with) = map {
		my @settings = map { ('-c', $_) } 'max_connections=10000', 'test_aio.trace_size=0', "shared_preload_libraries=$_";
		(run_command([ 'postgres', '-D', $node->data_dir, '-C', 'shared_memory_size', @settings ]))[0];
	} '', 'test_aio';
	cmp_ok($without, '>', 100, 'a server');
	cmp_ok($with - $without, '<', 10, 'its library needs room for the handles that there will be, not for all that there could be');
};

for_each_io_method('io_uring; long: all', sub {
	$aio->scenario('settings', with('alice', sub ($alice) {
		$alice->fails('SET test_aio.gate = off', '55P02', qr/cannot be changed without restarting/, 'gate');
		$alice->fails('SET test_aio.reach_synchronous_reads = on', '55P02', qr/cannot be changed without restarting/, 'reach');
		$alice->fails('SET test_aio.hold_timeout = 0', '22023', qr/outside the valid range/, 'hold_timeout');
		$alice->fails('SET test_aio.uninterruptible_timeout = -1', '22023', qr/outside the valid range/, 'uninterruptible_timeout');
		$alice->fails('SET test_aio.other = 1', '42602', qr/reserved prefix/, 'the prefix is reserved');
	}));

	$aio->scenario('what io_gate says', sub {
		# with sync, all buffered reads are synchronous
		my $without = ($ENV{enable_injection_points} // '') eq 'yes' ? 'injection points' : '';
		my $handler = $aio->method eq 'sync' ? $without : 'gate';
		$aio->gives('SELECT io_method, gate, why_not, handler, worker IS NOT NULL, held FROM io_gate',
			$aio->method . "|t||$handler|t|0");
		$aio->gives('SELECT synchronous FROM io_gate', 'f', 'synchronous reads cannot be held');
	});
}, leaves => 'nothing', needs => 'gate', conf => { 'test_aio.reach_synchronous_reads' => 'off' });
