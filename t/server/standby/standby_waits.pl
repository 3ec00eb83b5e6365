# Waits on a standby, with and without the gate's worker.  Replay of a truncation does not wait
# for held reads.  A recovery conflict cancels a session at each wait of TestAio/Waits.pm.
#
# io_methods: sync; long: all
use FindBin; use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Waits;

sub scenarios
{
	my ($aio, $has_worker) = @_;
	$aio->node->backup('b');
	my $standby = TestAio::Server->of_backup($aio, 'b');
	$standby->node->append_conf('postgresql.conf', "max_standby_streaming_delay = 100ms\nhot_standby_feedback = off\n");
	$standby->node->reload;
	my $table = sub {
		my $t = $aio->table('t', 40, changes => 1);
		$aio->replayed_by($standby);
		$standby->evict($t);
		return $t;
	};

	$aio->scenario('replay of a truncation', sub {
		my $t = $table->();
		my ($reader) = $standby->sessions('reader');
		# only the truncation is left to be replayed while the read is held
		$aio->sql("DELETE FROM $t WHERE blk >= 30; VACUUM (FREEZE, TRUNCATE off) $t");
		$aio->replayed_by($standby);
		$standby->evict($t);
		$standby->sql("SELECT io_hold('$t')");
		$reader->sql("SELECT read_rel_block_ll('$t', 35, nblocks => 2, wait_complete => false)");
		$standby->gate_holds(1);
		$aio->sql("VACUUM (TRUNCATE) $t");
		$aio->replayed_by($standby);
		$standby->gives("SELECT pg_relation_size('$t') / current_setting('block_size')::int", 30, 'the table is truncated');
		$standby->gate_holds(0, 'the read is no longer held');
		$standby->end_gate;
		$standby->end_session($reader);
	}, leaves => 'nothing');

	run_conflict($aio, $standby, @$_, $has_worker) for on_their_turn($aio->method, $has_worker, conflicts());
	return;
}

for my $has_worker (1, 0)
{
	with_each_io_method(
		sub { scenarios($_[0], $has_worker) },
		needs => 'gate trace', streaming => 1, suffix => $has_worker ? 'worker' : 'alone',
		conf => { 'test_aio.reach_synchronous_reads' => 'off', $has_worker ? () : (max_worker_processes => 0) });
}

done_testing();
