# Simulated storage: how long reads take on it, and that they are right.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use Time::HiRes qw(time);
use TestAio;
use TestAio::Gate;

# Test: a statement takes at least so many milliseconds.  There is no upper limit, because
# the machine may be busy.
sub takes
{
	my ($session, $sql, $least, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $begin = time;
	$session->sql($sql);
	my $ms = (time - $begin) * 1000;
	return ok($ms >= $least, "$name: at least $least ms") || diag("$ms ms");
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('latency, queue depth, bandwidth', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			my $batch = $aio->batch(map { "SELECT read_rel_block_ll('$t', 8 * $_, nblocks => 2, wait_complete => false)" } 0 .. 7);
			# waits for all of them
			my $wait = "SELECT count(*) FROM read_buffers('$t', 0, 64)";
			$aio->sql("SELECT io_device('20ms', rel => '$t')");
			takes($alice, "SELECT read_rel_block_ll('$t', 3)", 20, 'one read');
			$aio->gives('SELECT relation, latency, queue_depth, reads, read_bytes, in_progress, queued FROM io_devices', "$t|20|32|1|8192|0|0");
			$aio->sql("SELECT io_device('20ms', 2, rel => '$t')");
			takes($alice, "$batch; SELECT read_rel_block_ll('$t', 63)", 5 * 20, 'nine reads, two at once');
			$aio->gives('SELECT reads, in_progress, queued FROM io_devices', '9|0|0', 'which it has counted');
			$aio->sql("SELECT io_device('1ms', bytes_per_second => 1000000, rel => '$t')");
			takes($alice, "SELECT read_rel_block_ll('$t', 8, nblocks => 16)", 131, '128 kB at 1 MB/s');
			$aio->gives('SELECT io_device_end(), io_device_end()', '1|0');
			$aio->proves($t);
		});

		$aio->scenario('sessions that wait', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 64);
			$aio->sql("SELECT io_device('50s', rel => '$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$alice->waits_on('IoDevice');
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
			$bob->waits_on('IoDevice');
			$aio->gives('SELECT in_progress FROM io_devices', 1, 'one read is in progress');
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/user request/, 'is cancelled');
			$aio->sql('SELECT io_device_end()');
			$bob->returns('1', 'gets it at once when the device ends');
			$aio->proves($t);
		});

		$aio->scenario('failing reads take their time as well, temporary tables too', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('own', 20, kind => 'TEMP', session => $alice);
			$alice->sql("SELECT io_device('30ms')");
			takes($alice, "SELECT read_rel_block_ll('$t', 3)", 30, 'a temporary table');
			$alice->sql("SELECT io_fail('$t', -5)");
			my $begin = time;
			$alice->fails("SELECT read_rel_block_ll('$t', 4)", '58030', qr/blocks 4\.\.4/, 'fails');
			ok(time - $begin >= 0.03, 'after 30 ms');
			$alice->sql('SELECT io_device_end(), io_fail_end()');
			$aio->proves($t, session => $alice);
		}, leaves => 'nothing', log => qr/LOG:  could not read blocks/);

		$aio->scenario('the device ends with its session', sub {
			my ($controller, $alice) = $aio->sessions(qw(controller alice));
			my $t = $aio->table('t', 20);
			$controller->sql("SELECT io_device('50s', rel => '$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$alice->waits_on('IoDevice');
			$aio->end_session($controller);
			$alice->returns('', 'reads at once');
			$aio->gives('SELECT count(*) FROM io_devices', 0);
		}, leaves => 'nothing');

		$aio->scenario('its worker is terminated and comes back', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $worker = $aio->sql('SELECT worker FROM io_gate');
			# on a slow machine a read may have ended before anybody sees it wait
			my $latency;
			for (200, 2000, 20_000)
			{
				$latency = $_;
				$aio->sql("SELECT io_device_end(), io_device('$latency ms', rel => '$t', keep => true)");
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
				last if $alice->gets_to_wait('IoDevice');
				$alice->wait_for_end;
				$aio->evict($t);
			}
			$aio->sql("SELECT pg_terminate_backend($worker)");
			$alice->returns('', 'reads');
			$aio->wait_for("SELECT worker <> $worker FROM io_gate WHERE worker IS NOT NULL UNION ALL SELECT false LIMIT 1");
			takes($alice, "SELECT read_rel_block_ll('$t', 9)", $latency, 'the device is back');
			$aio->end_gate;
			$aio->proves($t);
		}, leaves => 'nothing', log => $aio->gate_worker_ended);

		$aio->scenario('its worker is terminated with a read that is due in hours', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20));
			$aio->sql("SELECT io_device('1ms', bytes_per_second => 1, rel => '$t')");
			$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
			my $worker = $aio->sql('SELECT worker FROM io_gate');
			$aio->sql("SELECT pg_terminate_backend($worker)");
			$aio->wait_for("SELECT worker <> $worker FROM io_gate WHERE worker IS NOT NULL UNION ALL SELECT false LIMIT 1");
			$aio->sql("SELECT io_device('100ms', rel => '$u')");
			takes($bob, "SELECT read_rel_block_ll('$u', 9)", 100, 'another device');
			$aio->gives("SELECT in_progress FROM io_devices WHERE relation = '$t'::regclass", 1, 'the read is still in progress');
			$aio->end_gate;
			$aio->proves($t);
		}, log => $aio->gate_worker_ended);

		$aio->scenario('a device that ends, and another that takes its place, while a read is staged', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20));
			$aio->evict($t, $alice);
			$aio->sql("SELECT io_device('1ms', rel => '$t')");
			$alice->starts($aio->batch("SELECT read_rel_block_ll('$t', 3, wait_complete => false)", $aio->pause));
			$alice->waits_on('advisory');
			$aio->sql("SELECT io_device_end('$t')");
			$aio->sql("SELECT io_device('50s', rel => '$u')");
			$aio->resume;
			$alice->ends('submits the staged read');
			$alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 1)", 1, 'reads it at once');
			$aio->gives('SELECT reads, in_progress FROM io_devices', '0|0', 'the other device has not served it');
			$aio->end_gate;
			$aio->proves($t);
		});

		for my $mode (qw(fast immediate))
		{
			$aio->scenario("$mode shutdown with reads in hand", sub {
				my $t = $aio->table('t', 20);
				my ($alice) = $aio->sessions('alice');
				# due in nine hours
				$aio->sql("SELECT io_device('1ms', bytes_per_second => 1, rel => '$t', keep => true)");
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
				$alice->waits_on('IoDevice');
				ok($aio->node->stop($mode, fail_ok => 1), 'stops, and does not wait for the device');
				$aio->node->start;
				$aio->observe;
				$alice->wait_for_end->forget_warnings;
				$aio->proves($t);
			}, leaves => 'nothing', dies => 1, log => $aio->terminated('alice'));
		}
	}, needs => 'gate');
