# The I/O trace shows who has waited for a read, since when and how long: while the wait goes
# on, and also if it ends without the read.  A session that comes after the end of the read
# does not wait (since 19 also with io_uring: pgaio_uring_check_one).
#
# io_methods: io_uring; long: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Descriptors;
use TestAio::Trace;

# Returns the number of completions in all rings that the kernel has posted and no process
# has seen; -1 if the kernel does not tell, as for a ring in use.
sub unseen_completions
{
	my ($aio) = @_;
	my $unseen = 0;
	for my $fd (descriptors($aio->postmaster_pid, qr/^anon_inode:\[io_uring\]$/))
	{
		my %ring = slurp_file($fd =~ s/fd/fdinfo/r) =~ /^(CqHead|CqTail):\s*(\d+)/mg;
		return -1 if !defined $ring{CqTail};
		$unseen += $ring{CqTail} - $ring{CqHead};
	}
	return $unseen;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('two sessions wait for a held read', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			my ($a, $b) = map { $_->pid } $alice, $bob;
			$aio->trace("'$t'");
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
			$aio->comes_to_trace('state, held, joined, waits, waiters, wait_times, completed_at', "SUBMITTED|t|f|1|{$a}|{NULL}|");
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
			$aio->comes_to_trace('state, held, joined, waits, waiters, wait_times, executed_by', "SUBMITTED|t|t|2|{$a,$b}|{NULL,NULL}|");
			$aio->gate_release;
			$_->ends for $alice, $bob;
			my $me = $aio->sql('SELECT pg_backend_pid()');
			$aio->comes_to_trace('state, result, raw_result, executed_by, completed_by', "COMPLETED|OK|16384|$me|$me",
				'the session that has released the read has completed it');
			$aio->traced('least(wait_times[1], wait_times[2]) > 0, abs(wait_time - wait_times[1] - wait_times[2]) < 1e-6, wait_starts[1] < wait_starts[2], wait_starts[1] >= submitted_at',
				't|t|t|t', 'the waits have ended');
			$aio->gives('SELECT ios, waits, joined, errors FROM io_trace_summary', '1|2|1|0');
			$aio->end_trace;
			$aio->proves($t);
		});

		$aio->scenario('a cancelled session waits no longer', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$aio->trace("'$t'");
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$aio->comes_to_trace('waits', 1);
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
			$aio->comes_to_trace('waits', 2);
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->raises('57014', qr/user request/, 'is cancelled');
			$aio->traced('state, wait_times[1] IS NULL, wait_times[2] > 0, wait_time = wait_times[2]', 'SUBMITTED|t|t|t');
			$aio->gate_release;
			$alice->ends;
			$aio->end_trace;
		});

		$aio->scenario('a session that comes late does not wait', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			$alice->sql("SET effective_io_concurrency = 16; SET io_combine_limit = 1; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
			$aio->trace("'$t'");
			$alice->sql('FETCH 40 FROM c');
			my $under_way = "FROM pg_aios WHERE pid = ${\$alice->pid} AND state IN ('SUBMITTED', 'COMPLETED_IO')";
			my $ahead = $aio->sql("SELECT count(*) FROM io_trace WHERE blockno >= 40");
			cmp_ok($ahead, '>', 0, "reads ahead: $ahead");
			$aio->poll(sub { $aio->sql("SELECT count(*) $under_way") == ($aio->method eq 'io_uring' ? unseen_completions($aio) : 0) })
			  or die "the reads do not end\n";
			$alice->sql("FETCH $ahead FROM c");
			$aio->end_trace;
			$aio->gives("SELECT sum(waits) FROM io_trace WHERE blockno BETWEEN 40 AND 39 + $ahead", 0, 'none of these');
			$alice->sql('COMMIT');
			$aio->proves($t);
		}, skip => $aio->method ne 'io_uring' ? undef
			: $aio->major < 19 ? '18 finds with io_uring by waiting only that a read has ended'
			: $aio->poll(sub { unseen_completions($aio) >= 0 }, 1) ? undef : 'this kernel does not tell of completions');

		$aio->scenario('more waits than a record keeps', sub {
			my @sessions = $aio->sessions(map { "s$_" } 1 .. 6);
			my $t = $aio->table('t', 20);
			$aio->trace("'$t'");
			$aio->sql("SELECT io_hold('$t')");
			for my $i (0 .. $#sessions)
			{
				$sessions[$i]->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
				$aio->comes_to_trace('waits', $i + 1);
			}
			$aio->traced('cardinality(waiters), cardinality(wait_times)', '4|4', 'it keeps four');
			$aio->gives('SELECT lost, lost_waits FROM io_trace_status', '0|2', 'and counts the others');
			$aio->gate_release;
			$_->ends for @sessions;
			$aio->traced('wait_time > (SELECT sum(w) FROM unnest(wait_times) w), wait_times[4] > 0', 't|t', 'whose time it knows as well');
			$aio->end_trace;
		});

		$aio->scenario('on a simulated device', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$aio->sql("SELECT io_device('20ms', 2, rel => '$t')");
			$aio->traces_of("'$t'", sub { $alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1,11,21,31])") });
			$aio->gives('SELECT count(*), bool_and(held AND latency >= 20), count(DISTINCT completed_by), min(completed_by) = (SELECT worker FROM io_gate) FROM io_trace',
				'4|t|1|t', 'each takes as long as it is to, and the worker completes it');
			$aio->sql('SELECT io_device_end()');
		});
	}, needs => 'gate trace');
