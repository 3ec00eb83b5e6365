# The I/O trace keeps a number of reads: the last ones stay, the others are counted.  A
# restart forgets all.  Without room there is no trace.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Trace;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('more reads than there is room for', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->trace("'$t'");
			$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 49) b");
			$aio->gives('SELECT size, recorded, lost FROM io_trace_status', '20|50|30', 'the status says so');
			$aio->traced('count(*), min(blockno), max(blockno), max(seq) - min(seq)', '20|30|49|19', 'the last ones stay');
			$aio->gives('SELECT ios FROM io_trace_summary', 20);
			$aio->sql('SELECT io_trace_reset()');
			$aio->gives('SELECT recorded, lost FROM io_trace_status', '0|0', 'forgotten');
			$aio->traced('count(*)', 0);
			$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 4) b");
			$aio->gives('SELECT recorded, lost FROM io_trace_status', '5|0', 'it goes on');
			$aio->end_trace;
		});

		$aio->scenario('a record is overwritten while its read is held', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 60);
			$aio->trace("'$t'");
			$aio->sql("SELECT io_hold('$t', 3)");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$aio->comes_to_trace('waits', 1);
			$bob->sql("SELECT count(read_rel_block_ll('$t', 10 + b)) FROM generate_series(0, 19) b");
			$aio->traced("bool_and(pid = ${\$bob->pid} AND waits <= 1 AND NOT held), count(*)", 't|20', 'others are in its place');
			$aio->gate_release;
			$alice->ends;
			$aio->traced("bool_and(pid = ${\$bob->pid} AND waits <= 1 AND NOT held), count(*)", 't|20', 'and stay as they are');
			$aio->end_trace;
		});

		$aio->scenario('many sessions at once', sub {
			my @sessions = $aio->sessions(map { "s$_" } 1 .. 4);
			my $t = $aio->table('t', 60);
			$aio->trace("'$t'");
			$sessions[$_]->starts("SELECT count(read_rel_block_ll('$t', 15 * $_ + b % 15)) FROM generate_series(1, 200) b") for 0 .. 3;
			my $torn = 0;
			until (4 == grep { $_->has_ended } @sessions)
			{
				$torn += $aio->sql("SELECT count(*) FROM io_trace WHERE submitted_at < staged_at OR completed_at < submitted_at OR off <> blockno * 8192 OR relation <> '$t'::regclass OR length <> 8192");
			}
			$_->ends for @sessions;
			is($torn, 0, 'no record is inconsistent at any time');
			$aio->gives('SELECT recorded >= 800, recorded - lost = 20 FROM io_trace_status', 't|t', 'all are counted');
			$aio->end_trace;
		});

		$aio->scenario('a crash', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->trace("'$t'");
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$aio->comes_to_trace('waits', 1);
			$aio->kill_process($alice->pid);
			$aio->poll(sub { eval { $aio->observe; $aio->sql('SELECT recorded FROM io_trace_status') eq '0' } });
			$aio->gives('SELECT running, recorded, started_at FROM io_trace_status', 'f|0|', 'forgets it');
			my ($bob) = $aio->sessions('bob');
			$aio->traces_of("'$t'", sub { $bob->sql("SELECT read_rel_block_ll('$t', 3)") });
			$aio->traced('seq, blockno', '1|3', 'and there can be a new one');
		}, leaves => 'nothing', dies => 1);

		$aio->scenario('no room', sub {
			$aio->node->append_conf('postgresql.conf', 'test_aio.trace_size = 0');
			ok($aio->stop, 'stops');
			$aio->node->start;
			$aio->observe;
			my ($alice) = $aio->sessions('alice');
			for my $call ('io_trace_start()', 'io_trace_stop()', 'io_trace_reset()', 'io_trace', 'io_trace_status', 'io_trace_summary')
			{
				$alice->fails("SELECT count(*) FROM $call", '55000', qr/there is no I\/O trace.*test_aio\.trace_size/s, $call);
			}
			$aio->proves($aio->table('t', 20));
		}, leaves => 'nothing', dies => 1);
	},
	needs => 'gate trace', conf => { 'test_aio.trace_size' => 20, restart_after_crash => 'on' });
