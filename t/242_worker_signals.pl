# Every signal that an I/O worker may get, while reads are under way: those that it obeys,
# those that it ignores, and those that end the server's life.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

sub workers { my ($aio) = @_; return $aio->pids_of_type('io worker') }

# Waits until there are so many workers; the new ones have other process ids.
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

		# signal => does the worker go, and come again?
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
				# between reads, and under them
				for my $round (1 .. 3)
				{
					my @workers = workers($aio);
					$aio->evict($t);
					$_->starts($stream->($t)) for $alice, $bob;
					kill $signal, @workers;
					$_->returns(120, "round $round: all blocks") for $alice, $bob;
					ok(until_workers($aio, $count, $signals{$signal} ? @workers : ()), $signals{$signal} ? 'others take their place' : 'they stay');
				}
				my @after = workers($aio);
				is(join(',', @after), join(',', @before), 'the same workers') if !$signals{$signal};
				$aio->proves($t);
			}, log => [ qr/io worker FATAL:  terminating (?:background worker|io worker|connection) .*due to administrator command/, qr/postmaster LOG:  io worker \(PID \d+\) exited with exit code [01]/ ]);
		}

		# a worker that stands still: the others do its share, and a read that it has begun waits
		$aio->scenario('SIGSTOP and SIGCONT', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			my @workers = workers($aio);
			$alice->sql('SET effective_io_concurrency = 32; SET io_combine_limit = 1');
			kill 'STOP', @workers;
			$aio->evict($t);
			$alice->starts($stream->($t));
			$alice->waits_on('AioIoCompletion', 'waits for workers that stand still');
			$aio->gives("SELECT count(*) > 0, count(*) FILTER (WHERE state = 'SUBMITTED') = count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", 't|t', 'its reads are submitted');
			kill 'CONT', @workers;
			$alice->returns(120, 'all blocks');
			is(join(',', workers($aio)), join(',', @workers), 'the same workers');
			$aio->proves($t);
		});

		# a read that its owner no longer waits for
		$aio->scenario('a cancelled owner, and workers that stand still', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			my @workers = workers($aio);
			kill 'STOP', @workers;
			$alice->starts("SELECT count(*) FROM $t");
			$alice->waits_on('AioIoCompletion');
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/canceling statement due to user request/, 'is cancelled');
			kill 'CONT', @workers;
			$aio->proves($t);
		});

		# a barrier makes all processes close their files before a database goes or moves
		$aio->scenario('files of a database that goes', sub {
			my $directory = $aio->node->basedir . '/elsewhere';
			mkdir $directory or die "$directory: $!";
			$aio->sql("CREATE TABLESPACE elsewhere LOCATION '$directory'");
			$aio->sql('CREATE DATABASE other TEMPLATE postgres');
			for my $command ('ALTER DATABASE other SET TABLESPACE elsewhere', 'DROP DATABASE other')
			{
				my $bob = $aio->session('bob', dbname => 'other');
				$bob->sql("SET effective_io_concurrency = 32; SET io_combine_limit = 1; CREATE TABLE IF NOT EXISTS o AS SELECT i, repeat('x', 7000) AS body FROM generate_series(1, 60) i");
				my $rows = $bob->sql('SELECT count(*), sum(i) FROM o');
				# a table of its own has been written to its files by then
				$bob->sql("SELECT grow_rel('o', 60); SELECT evict_rel('o')");
				$bob->gives($stream->('o'), 120, 'all blocks');
				my $path = $bob->sql("SELECT pg_relation_filepath('o')");
				my $open = sub {
					my $found = 0;
					for my $pid (workers($aio)) { $found += grep { (readlink($_) // '') =~ /\Q$path\E/ } glob "/proc/$pid/fd/*" }
					return $found;
				};
				cmp_ok($open->(), '>', 0, 'workers have its file open') if $path !~ /^pg_tblspc/;
				$aio->end_session($bob);
				$aio->sql($command);
				is($open->(), 0, "$command: no worker keeps it");
				next if $command =~ /DROP/;
				$bob = $aio->session('bob', dbname => 'other');
				$bob->sql("SELECT evict_rel('o')");
				$bob->gives('SELECT count(*), sum(i) FROM o', $rows, 'the rows, at the other place');
				$aio->end_session($bob);
			}
			$aio->sql('DROP TABLESPACE elsewhere');
		});

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
				ok(until_workers($aio, $count, @workers), 'all workers are others');
				$aio->proves($t);
			}, dies => 1, skip => $signal eq 'SEGV' && ($ENV{ASAN_OPTIONS} // '') ne '' ? 'AddressSanitizer takes SIGSEGV for an error of the server' : undef,
			  log => [ qr/postmaster LOG:  io worker \(PID \d+\) $crashes{$signal}/,
				qr/terminating connection because of (?:unexpected SIGQUIT|crash)/ ]);
		}
	}, methods => ['worker'], workers => $count, conf => { restart_after_crash => 'on' });
