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
		conf => { 'test_aio.reach_synchronous_reads' => 'off', 'test_aio.reach_writes' => 'on', $has_worker ? () : (max_worker_processes => 0) });
}
done_testing();
