# Held reads on a standby: replay of a truncation does not wait for them, and sessions
# that wait for them can be cancelled by a recovery conflict; with and without the
# gate's worker.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

sub scenarios
{
	my ($aio) = @_;
	$aio->node->backup('b');
	my $standby = TestAio::Server->of_backup($aio, 'b');
	$standby->node->append_conf('postgresql.conf', "max_standby_streaming_delay = 100ms\nhot_standby_feedback = off\n");
	$standby->node->reload;
	my $table = sub {
		my $t = $aio->table('t', 40);
		$aio->replayed_by($standby);
		$standby->evict($t);
		return $t;
	};

	$aio->scenario('replay of a truncation', sub {
		my $t = $table->();
		my ($reader) = $standby->sessions('reader');
		# replay of all else looks at these blocks
		$aio->sql("DELETE FROM $t WHERE blk >= 30; VACUUM (FREEZE, TRUNCATE off) $t");
		$aio->replayed_by($standby);
		$standby->evict($t);
		$standby->sql("SELECT io_hold('$t')");
		$reader->sql("SELECT read_rel_block_ll('$t', 35, nblocks => 2, wait_complete => false)");
		$standby->gate_holds(1);
		$aio->sql("VACUUM (TRUNCATE) $t");
		$aio->replayed_by($standby);
		$standby->gives("SELECT pg_relation_size('$t') / current_setting('block_size')::int", 30, 'goes on');
		$standby->gate_holds(0, 'and nothing is held');
		$standby->end_gate;
		$standby->end_session($reader);
	});

	$aio->scenario('a recovery conflict', sub {
		my $t = $table->();
		my ($reader) = $standby->sessions('reader');
		$standby->sql("SELECT io_hold('$t')");
		$reader->sql('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_am');
		$reader->starts("SELECT read_rel_block_ll('$t', 3)");
		$reader->waits_on('IoGateHeld');
		# dead rows that the snapshot of the reader still sees
		$aio->sql("DELETE FROM $t WHERE blk = 20; VACUUM (TRUNCATE off) $t");
		$reader->raises('40001', qr/conflict with recovery/, 'is cancelled');
		$standby->end_gate;
		$reader->sql('ROLLBACK');
		$aio->replayed_by($standby);
		$standby->end_session($reader);
	});

	ok($standby->stop, "${\$aio->method}: clean shutdown of the standby");
	$standby->check_log([ qr/FATAL: .*terminating (?:connection|walreceiver)/ ]);
	return;
}

with_each_io_method(\&scenarios, needs => 'gate', streaming => 1, suffix => 'worker', methods => [qw(worker io_uring)]);
with_each_io_method(\&scenarios, needs => 'gate', streaming => 1, suffix => 'alone', methods => ['worker'], conf => { max_worker_processes => 0 });

done_testing();
