# Signals to I/O workers while reads are under way: signals that end a worker, signals that it
# ignores, and signals after which the server restarts.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Workers;

sub workers { my ($aio) = @_; return $aio->pids_of_type('io worker') }

# Waits until there are so many workers, none of which has one of these process ids.  Returns
# false if that takes too long.
sub until_workers
{
	my ($aio, $count, @gone) = @_;
	my %gone = map { $_ => 1 } @gone;
	my @now;
	return $aio->poll(sub { @now = workers($aio); @now == $count && !grep { $gone{$_} } @now }) || 0;
}

my $count = 3;
my $stream = sub { my ($t) = @_; return "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 119) i))" };

for_each_io_method(
	sub {
		my ($aio) = @_;

		# signal => true if it ends a worker, which the postmaster replaces
		my %signals = (HUP => 0, TERM => 0, PIPE => 0, ALRM => 0, USR1 => 0, CONT => 0, WINCH => 0, INT => 1, USR2 => 1);
		for my $signal (sort keys %signals)
		{
			$aio->scenario("SIG$signal", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 60);
				until_workers($aio, $count);
				my @before = workers($aio);
				is(scalar @before, $count, 'the workers');
				$_->sql('SET effective_io_concurrency = 32; SET io_combine_limit = 1') for $alice, $bob;
				# during reads
				for my $round (1 .. 3)
				{
					my @workers = workers($aio);
					$aio->evict($t);
					$_->starts($stream->($t)) for $alice, $bob;
					kill $signal, @workers;
					$_->returns(120, "round $round: all blocks") for $alice, $bob;
					ok(until_workers($aio, $count, $signals{$signal} ? @workers : ()), $signals{$signal} ? 'other workers take their place' : 'there are as many workers');
				}
				my @after = workers($aio);
				is(join(',', @after), join(',', @before), 'the same workers') if !$signals{$signal};
				$aio->proves($t);
			}, log => [ qr/io worker FATAL:  terminating (?:background worker|io worker|connection) .*due to administrator command/, qr/postmaster LOG:  io worker \(PID \d+\) exited with exit code [01]/ ]);
		}

		# only while a worker executes a read does it say so
		$aio->scenario('what an idle worker logs', sub {
			my $t = $aio->table('t', 60);
			until_workers($aio, $count);
			$aio->proves($t);
			$aio->alter_system(log_min_messages => 'debug1');
			my @workers = workers($aio);
			my $kill = sub { kill 'INT', @workers; until_workers($aio, $count, @workers) };
			ok($aio->poll(sub { @workers = workers($aio); $kill->(); $aio->log_text =~ /io worker DEBUG:  io worker shutting down/ }), 'workers log that they end');
			$aio->logs(qr/I\/O worker executing I\/O on behalf of process/, 0, 'and not on whose behalf');
		});

		$aio->scenario('SIGSTOP and SIGCONT', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$alice->sql('SET effective_io_concurrency = 32; SET io_combine_limit = 1');
			my @workers = $aio->stop_idle_workers;
			$aio->evict($t);
			$alice->starts($stream->($t));
			$alice->waits_on('AioIoCompletion', 'waits for the stopped workers');
			$aio->gives("SELECT count(*) > 0, count(*) FILTER (WHERE state = 'SUBMITTED') = count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", 't|t', 'its reads are submitted');
			kill 'CONT', @workers;
			$alice->returns(120, 'all blocks');
			is(join(',', workers($aio)), join(',', @workers), 'the same workers');
			$aio->proves($t);
		});

		$aio->scenario('a cancelled owner, and stopped workers', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			my @workers = $aio->stop_idle_workers;
			$alice->starts("SELECT count(*) FROM $t");
			$alice->waits_on('AioIoCompletion');
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/canceling statement due to user request/, 'is cancelled');
			kill 'CONT', @workers;
			$aio->proves($t);
		});

		# each worker has settings of its own
		$aio->scenario('a reload', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			until_workers($aio, $count);
			my @before = workers($aio);
			$aio->sql("SELECT modify_rel_block('$t', 7, corrupt_checksum => true)");
			my $logged = sub {
				my $size = $aio->log_size;
				$alice->fails("SELECT read_rel_block_ll('$t', 7)", 'XX001', qr/invalid page in block 7/);
				return $aio->log_text($size) =~ /io worker LOG:  page verification failed/;
			};
			ok($logged->(), 'the worker that reads a bad page logs it');
			for my $level ('fatal', 'warning')
			{
				$aio->alter_system(log_min_messages => $level);
				# each of the workers, one after the other
				my $in_a_row = 0;
				ok($aio->poll(sub { $in_a_row = $logged->() == ($level eq 'warning') ? $in_a_row + 1 : 0; $in_a_row == 3 * $count }), "log_min_messages = $level: the workers obey");
			}
			is(join(',', workers($aio)), join(',', @before), 'they are the same workers');
			$aio->sql("SELECT modify_rel_block('$t', 7, zero => true)");
			$aio->proves($t, except => 'block 7 has no row');
		}, log => [ qr/io worker LOG:  (?:page verification failed|invalid page in block 7)/, qr/alice ERROR:  invalid page in block 7/ ]);

		my %crashes = (
			KILL => 'was terminated by signal 9: Killed', QUIT => 'exited with exit code 2',
			ABRT => 'was terminated by signal 6: Aborted', SEGV => 'was terminated by signal 11: Segmentation fault');
		for my $signal (sort keys %crashes)
		{
			$aio->scenario("SIG$signal", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 60);
				$aio->sql('CHECKPOINT');
				my @workers = workers($aio);
				# a worker that holds a lock of the queue would stop all
				$alice->sql('SET effective_io_concurrency = 32; SET io_combine_limit = 1');
				$alice->starts($stream->($t));
				kill $signal, $workers[0];
				$aio->poll(sub { $aio->log_text =~ /all server processes terminated; reinitializing/ }) or fail('the server restarts');
				$alice->wait_for_end;
				$aio->restarted;
				ok(until_workers($aio, $count, @workers), 'all workers are new');
				$aio->proves($t);
			}, dies => 1, skip => $signal eq 'SEGV' && ($ENV{ASAN_OPTIONS} // '') ne '' ? 'AddressSanitizer takes SIGSEGV for an error of the server' : undef,
			  log => [ qr/postmaster LOG:  io worker \(PID \d+\) $crashes{$signal}/,
				qr/terminating connection because of (?:unexpected SIGQUIT|crash)/ ]);
		}
	}, workers => $count, conf => { restart_after_crash => 'on' });
