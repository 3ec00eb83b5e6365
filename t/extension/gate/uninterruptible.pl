# Waits for held and delayed reads that cannot be interrupted: in critical sections
# (truncation), with temporary tables, without the gate's worker.  Each wait ends at once,
# and no checkpoint waits for it.  Also the longest times that can be asked for.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

# Starts a read of a temporary table whose file COMMIT truncates.
sub commit_truncates
{
	my ($session) = @_;
	$session->sql('CREATE TEMP TABLE own (i int) ON COMMIT DELETE ROWS');
	# COMMIT waits for the read
	return $session->starts("BEGIN; SELECT grow_rel('own', 20); SELECT evict_rel('own');"
		  . " SELECT read_rel_block_ll('own', 3, nblocks => 4, wait_complete => false); COMMIT");
}

# Starts a read of a table of which COMMIT truncates the file.
sub truncates
{
	my ($session, $table) = @_;
	return $session->starts("BEGIN; CREATE TABLE $table (i int); SELECT grow_rel('$table', 20); SELECT evict_rel('$table');"
		  . " SELECT read_rel_block_ll('$table', 3, nblocks => 4, wait_complete => false); TRUNCATE $table; COMMIT");
}

sub scenarios
{
	my ($aio) = @_;
	my $has_worker = $aio->sql('SELECT worker IS NOT NULL FROM io_gate') eq 't';

	for my $how ('io_hold()', $has_worker ? "io_device('50 s')" : (), $aio->no_faults ? () : 'inj_io_completion_wait()')
	{
		# an injection point holds the process that completes the read
		next if $how =~ /inj/ && !$aio->no_injection_points;

		$aio->scenario("$how, a temporary table truncated by COMMIT", sub {
			my ($controller, $alice) = $aio->sessions(qw(controller alice));
			$controller->sql("SELECT $how");
			commit_truncates($alice)->ends('commits');
			$aio->gives('CHECKPOINT', '', 'checkpoint');
			$alice->gives('SELECT count(*) FROM own', 0, 'and goes on');
			$aio->end_gate;
			$aio->sql('SELECT inj_io_completion_continue()') if $how =~ /inj/;
		});

		$aio->scenario("$how, a table truncated by the transaction that made it", sub {
			my ($controller, $alice) = $aio->sessions(qw(controller alice));
			$controller->sql("SELECT $how");
			truncates($alice, 'scenario.t')->ends('commits');
			$aio->gives('CHECKPOINT', '', 'checkpoint');
			$alice->gives('SELECT count(*) FROM scenario.t', 0, 'and goes on');
			$aio->end_gate;
			$aio->sql('SELECT inj_io_completion_continue()') if $how =~ /inj/;
		});
	}

	return;
}

# holds of all relations are not to hold what sessions read of the catalogs
my %conf = ('test_aio.reach_synchronous_reads' => 'off');

with_each_io_method(\&scenarios, leaves => 'nothing', needs => 'gate', suffix => 'worker', conf => { %conf });
with_each_io_method(\&scenarios, leaves => 'nothing', needs => 'gate', suffix => 'alone', conf => { %conf, max_worker_processes => 0 });

with_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('the end of a device ends reads of temporary tables', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('own', 20, kind => 'TEMP', session => $alice);
			$aio->sql("SELECT io_device('40 s')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$alice->waits_on('IoDevice');
			$aio->gives('SELECT io_device_end()', 1);
			ok($alice->has_ended(20), 'the session goes on at once');
			$alice->returns('', 'reads');
			$aio->proves($t, session => $alice);
		});

		$aio->scenario('the hold timeout of all', sub {
			my ($controller, $alice) = $aio->sessions(qw(controller alice));
			my $t = $aio->table('t', 20);
			$controller->sql("SET test_aio.hold_timeout = 2147483647; SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$alice->waits_on('IoGateHeld');
			$aio->gate_release;
			$alice->returns('', 'reads');
			$controller->sql("SELECT io_device('1 ms', bytes_per_second => 1, rel => '$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$alice->waits_on('IoDevice');
			$controller->sql('SELECT io_device_end()');
			$alice->returns('', 'reads');
			$aio->proves($t);
		});
	}, leaves => 'nothing', needs => 'gate', suffix => 'usual', conf => { %conf });

done_testing();
