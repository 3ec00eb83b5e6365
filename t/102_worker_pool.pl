# How many I/O workers there are, since 19 between io_min_workers and io_max_workers
# (server commit d1c01b79d4): more when reads queue up, fewer after a while of
# nothing to do.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

use Time::HiRes qw(time);

sub workers { my ($aio) = @_; return scalar(() = $aio->pids_of_type('io worker')) }

# Changes settings of the running server.
sub set
{
	my ($aio, %settings) = @_;
	$aio->sql("ALTER SYSTEM SET $_ = $settings{$_}") for sort keys %settings;
	$aio->sql('SELECT pg_reload_conf()');
	return;
}

# Start-up may have made more than io_min_workers, and so may a scenario.
sub shrink_to_one
{
	my ($aio) = @_;
	set($aio, io_worker_idle_timeout => 20);
	$aio->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'io worker'");
	set($aio, io_worker_idle_timeout => 60000);
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $fixed = $aio->major < 19 ? '18 has as many workers as io_workers says' : undef;

		$aio->scenario('does not grow for one read at a time', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			shrink_to_one($aio);
			my $since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
			$aio->poll(sub {
					$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 59) b");
					$aio->evict($t, $alice);
					return $aio->sql("SELECT extract(epoch FROM clock_timestamp()) > $since + 0.2") eq 't';
				});
			is(workers($aio), 1, 'one is enough');
		}, leaves => 'nothing', skip => $fixed);

		$aio->scenario('grows while reads are held, up to its maximum', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			shrink_to_one($aio);
			# each worker that finds more in the queue than there are workers asks for one
			for my $round (1 .. 60)
			{
				$aio->hold(relation => $t);
				$alice->sql("SELECT count(read_rel_block_ll('$t', b, wait_complete => false)) FROM generate_series(0, 39) b");
				$aio->poll(sub { $aio->holders > 0 });
				$aio->release;
				$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'all is read');
				$aio->evict($t, $alice);
				last if workers($aio) == 3;
			}
			$aio->wait_for("SELECT count(*) = 3 FROM pg_stat_activity WHERE backend_type = 'io worker'");
			is(workers($aio), 3, 'as many as io_max_workers');
			$aio->proves($t);
		}, skip => $fixed // $aio->no_injection_points);

		$aio->scenario('shrinks to its minimum', sub {
			set($aio, io_min_workers => 2);
			$aio->wait_for("SELECT count(*) >= 2 FROM pg_stat_activity WHERE backend_type = 'io worker'");
			my @before = $aio->pids_of_type('io worker');
			set($aio, io_worker_idle_timeout => 50);
			$aio->wait_for("SELECT count(*) <= 2 FROM pg_stat_activity WHERE backend_type = 'io worker'");
			is(workers($aio), 2, 'as many as io_min_workers');
			my @stay = $aio->pids_of_type('io worker');
			# several timeouts later, by the server's own clock, they are the same
			my $since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
			$aio->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $since + 0.3");
			is(join(',', $aio->pids_of_type('io worker')), join(',', @stay), 'and these stay');
			my %before = map { $_ => 1 } @before;
			is(scalar(grep { !$before{$_} } @stay), 0, 'of those that there were');
		}, leaves => 'nothing', skip => $fixed);

		$aio->scenario('a new minimum', sub {
			set($aio, io_worker_idle_timeout => '60000', io_max_workers => 4, io_min_workers => 4);
			$aio->wait_for("SELECT count(*) = 4 FROM pg_stat_activity WHERE backend_type = 'io worker'");
			is(workers($aio), 4, 'is reached without any read');
			# each that leaves tells the next that it may
			set($aio, io_worker_idle_timeout => 20, io_min_workers => 1);
			$aio->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'io worker'");
			is(workers($aio), 1, 'and left, one after the other');
		}, leaves => 'nothing', skip => $fixed);

		$aio->scenario('who has something to do does not leave', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			set($aio, io_worker_idle_timeout => '60000', io_max_workers => 2, io_min_workers => 2);
			$aio->wait_for("SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'io worker' AND wait_event = 'IoWorkerMain'");
			# one has a read that is held, the other does what is to be done from now on
			$aio->hold(relation => $t, block => 0);
			$alice->sql("SELECT read_rel_block_ll('$t', 0, wait_complete => false)");
			$aio->holds(1);
			my $stay = join ',', $aio->pids_of_type('io worker');
			set($aio, io_min_workers => 1, io_worker_idle_timeout => 1500);
			my ($begun, $last, $idle) = (time, time, 0);
			$aio->poll(sub {
					$alice->starts("SELECT invalidate_rel_block('$t', 1), read_rel_block_ll('$t', 1)");
					$idle = time - $last if time - $last > $idle;
					$aio->poll(sub { $alice->has_ended }, 5) or die "nobody reads\n";
					$last = time;
					return $last > $begun + 2;
				});
		  SKIP: {
				skip "it was idle for $idle s, and might leave", 1 if $idle > 1;
				is(join(',', $aio->pids_of_type('io worker')), $stay, 'the same workers as before');
			}
			$aio->release;
			$aio->proves($t);
		}, skip => $fixed // $aio->no_injection_points);

		$aio->scenario('as many as io_workers says', sub {
			for my $n (3, 1, 2)
			{
				set($aio, io_workers => $n);
				$aio->wait_for("SELECT count(*) = $n FROM pg_stat_activity WHERE backend_type = 'io worker'");
				is(workers($aio), $n, "$n workers");
				my $t = $aio->table("t$n", 20);
				$aio->proves($t);
			}
		}, leaves => 'nothing', skip => $aio->major < 19 ? undef : 'io_workers was replaced in 19');
	}, methods => ['worker'], conf => { io_max_concurrency => 64, shared_buffers => '64MB' },
	versioned => { 19 => { io_min_workers => 1, io_max_workers => 3, io_worker_launch_interval => 0 } });
