# I/O workers: their number, how many wake when there is work, and a queue that is full.
use TestAio;
use PostgreSQL::Test::Utils qw(slurp_file);
use Time::HiRes qw(time);
use TestAio::Neighbours;

my $unstoppable = cannot_stop_workers();

# Sets the number of workers and waits until there are so many.
sub set_workers ($aio, $n)
{
	# in this order the lower limit never exceeds the higher one
	my @settings = $aio->major < 19 ? 'io_workers' : $n > $aio->setting('io_max_workers') ? qw(io_max_workers io_min_workers) : qw(io_min_workers io_max_workers);
	$aio->alter_system($_ => $n) for @settings;
	$aio->wait_for_workers($n);
	# one that the setting of before has started may not be seen yet
	$aio->sql('SELECT io_settle()');
	return $aio->wait_for_workers($n);
}

with_each_io_method('worker', sub {
	$aio->scenario('as many reads at a time as workers', with('', 20, sub ($t, $n) {
		set_workers($aio, $n);
		my @readers = $aio->sessions(map { "reader$_" } 0 .. 5);
		$aio->read_in_workers($t, sub { return map { $readers[$_]->starts("SELECT read_rel_block_ll('$t', $_)") } 0 .. 5 }, stop_workers_at => $t);
		$aio->workers_stopped($n, "$n workers");
		$aio->gives("SELECT string_agg(DISTINCT state, ' '), count(*) FROM pg_aios", 'SUBMITTED|6', 'the others wait in the queue');
		$aio->continue_workers;
		$_->ends for @readers;
		$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'io worker'", $n, 'no more workers than are set');
	}), each => [ 1, 2, 5, 3 ], leaves => 'nothing', skip => $unstoppable);

	# Nobody else has been told of the read.  Since 19 (server commit d1c01b79d4) a worker that exits wakes the others.
	$aio->scenario('a worker exits instead of reading', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $state = sub { return $aio->sql("SELECT state FROM pg_aios WHERE pid = ${\$alice->pid}") };
		my $has_bug = $aio->has_bug('io-worker-exit-hang');
		# of two that start at once, either may have the number 0 and be told first, and the server ends either
		ok($aio->poll(sub {
			set_workers($aio, 2);
			my ($told, $exits, %before) = (0, 0, map { $_ => 1 } $aio->pids_of_type('io worker'));
			kill 'INT', keys %before;
			$aio->poll(sub { my @now = $aio->pids_of_type('io worker'); ($told) = grep { (title($_) // '') =~ /io worker 0\b/ } @now; @now == 2 && $told && !grep { $before{$_} } @now }, 5) or return 0;
			$aio->evict($t);
			while_still($told, sub {
				$aio->alter_system(io_workers => 1);
				# SIGUSR2 is pending, or the other one has gone
				$aio->poll(sub { $exits = slurp_file("/proc/$told/status") =~ /^ShdPnd:\s*(\w+)/m && hex($1) & 1 << 11; $exits || $aio->pids_of_type('io worker') == 1 }, 5);
				$alice->starts("SELECT read_rel_block_ll('$t', 0)");
				$aio->poll(sub { $alice->has_ended || $state->() eq 'SUBMITTED' }) if $exits;
			});
			$aio->poll(sub { $aio->pids_of_type('io worker') == 1 }, 5);
			# the other one may have looked for work because of the reload
			return 1 if $exits && (!$has_bug || $aio->sql("SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'io worker'") eq 'IoWorkerMain' && $state->() eq 'SUBMITTED');
			$alice->wait_for_end;
			return 0;
		}), 'a worker is told of a read and to exit');
		# nobody reads until there is another read
		$bob->sql("SELECT read_rel_block_ll('$t', 9)") if $has_bug;
		$alice->ends;
	}), skip => $unstoppable // ($aio->major < 19 ? undef : 'without io_workers, the number of workers follows the load'));

	# it waits for the kernel, as far as others can see
	$aio->scenario('io_settle() while a worker reads', with('alice', 20, sub ($alice, $t) {
		$aio->read_in_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") }, stop_workers_at => $t);
		$aio->gives('SELECT io_settle(300)', 'f', 'not all is quiet');
		$aio->continue_workers;
		$alice->ends;
		$aio->gives('SELECT io_settle()', 't', 'all is');
	}), skip => $unstoppable);

	$aio->scenario('titles', sub {
		# which of several numbers remains is not defined; new workers take the smallest that are free
		set_workers($aio, $_) for 1, 4;
		# a worker registers itself before it writes its title
		my $numbers;
		$aio->poll(sub { $numbers = join ',', sort map { (title($_) // '') =~ /io worker (\d+)/ ? $1 : '-' } $aio->pids_of_type('io worker'); $numbers !~ /-/ });
		is($numbers, '0,1,2,3', 'each worker shows its number');
	}, leaves => 'nothing', skip => -r '/proc/self/cmdline' ? undef : 'no /proc');

	# a batch wakes one worker, and each worker wakes another one while reads are queued; 19 does
	# so only if few workers were woken in vain recently
	$aio->scenario('one batch wakes several', with('alice', 20, sub ($alice, $t) {
		set_workers($aio, 4);
		for my $reads ($aio->major < 19 ? (8, 3, 2) : 8)
		{
			my $at_work = 0;
			for my $round (1 .. ($aio->major < 19 ? 1 : 20))
			{
				$aio->wait_for("SELECT count(*) = 4 FROM pg_stat_activity WHERE wait_event = 'IoWorkerMain'");
				$aio->evict($t, $alice);
				$aio->stop_workers_at($t);
				$alice->starts($aio->batch(map { "SELECT read_rel_block_ll('$t', 2 * $_, wait_complete => false)" } 0 .. $reads - 1));
				$alice->ends;
				# until each worker stands still or is asleep
				$aio->wait_for("SELECT count(*) FILTER (WHERE wait_event = 'DataFileRead') BETWEEN 1 AND 4"
					  . " AND count(*) FILTER (WHERE wait_event IN ('DataFileRead', 'IoWorkerMain')) = 4"
					  . " FROM pg_stat_activity WHERE backend_type = 'io worker'");
				$aio->poll(sub { $aio->stopped_workers == ($reads < 4 ? $reads : 4) }) if $aio->major < 19;
				my $stopped = () = $aio->stopped_workers;
				$at_work = $stopped if $stopped > $at_work;
				$aio->continue_workers;
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 14, 2)))", 8, 'all is read');
				last if $at_work == 4;
			}
			$aio->major < 19 ? is($at_work, $reads < 4 ? $reads : 4, "workers that are at $reads reads") : cmp_ok($at_work, '>', 1, 'several workers are at it');
		}
	}), skip => $unstoppable);

	# 64 places, of which 18 leaves one empty; each round begins at another place
	$aio->scenario('the queue is full', with('alice bob', [ t => 10 ], [ u => 100 ], sub ($alice, $bob, $t, $u) {
		set_workers($aio, 1);
		for my $round (1 .. 64)
		{
			$bob->sql("SELECT evict_rel('$t'), evict_rel('$u'); SELECT read_rel_block_ll('$t', 1)");
			$aio->read_in_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") }, stop_workers_at => $t);
			$aio->poll(sub { $aio->stopped_workers }) or die "the only worker does not stand still\n";
			$bob->sql("SELECT read_rel_block_ll('$u', b, wait_complete => false) FROM generate_series(0, 65) b");
			$aio->continue_workers;
			$alice->wait_for_end;
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 66)", 66, 'all are read') if $round % 16 == 0;
		}
		$aio->evict($_) for $t, $u;
		$aio->read_in_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") }, stop_workers_at => $t);
		$aio->workers_stopped(1, 'the only worker');
		# a session without completed handles: bob has not reclaimed all of his
		my ($carol) = $aio->sessions('carol');
		my $traced = !$aio->lacks('trace');
		$aio->io_trace_restart($u) if $traced;
		$carol->gives("SELECT count(read_rel_block_ll('$u', b, wait_complete => false)) FROM generate_series(0, 99) b", 100, 'starts a hundred reads');
		my $queued = $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$carol->pid} AND state = 'SUBMITTED'");
		is($queued, 63, 'reads in the queue') if $aio->major < 19;
		cmp_ok($queued, '>=', 63, 'reads in the queue');
		is($aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$carol->pid} AND state <> 'SUBMITTED'"), 0, 'carol has performed the others herself');
		is(scalar(split /,/, $aio->cached($u)), 100 - $queued, 'the others are cached');
		$aio->gives("SELECT why_issuer, count(*) FROM io_trace WHERE state = 'COMPLETED' GROUP BY 1", 'queue|' . (100 - $queued), 'the trace says why') if $traced;
		$aio->io_trace_stop if $traced;
		$aio->continue_workers;
		$alice->ends;
		$carol->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 100)", 100, 'all are read');

		# a batch that is larger than what is left of the queue
		$aio->evict($_) for $t, $u;
		$aio->read_in_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") }, stop_workers_at => $t);
		$aio->workers_stopped(1, 'the only worker');
		$bob->sql("SELECT read_rel_block_ll('$u', b, wait_complete => false) FROM generate_series(0, 49) b");
		$carol->sql($aio->batch(map { "SELECT read_rel_block_ll('$u', $_, wait_complete => false)" } 50 .. 81));
		is(scalar(split /,/, $aio->cached($u)), 82 - $queued, 'carol has performed the rest of a batch');
		$aio->continue_workers;
		$alice->ends;
		$carol->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 82)", 82, 'all are read');
	}), skip => $unstoppable);

	# there are places for 32 workers
	$aio->scenario('workers that have gone leave their place to others', with('alice', 10, sub ($alice, $t) {
		set_workers($aio, $_) for 18, 1, 18, 1;
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 10)", 10, 'reads');
		set_workers($aio, 3);
		$aio->logs(qr/could(?:n't| not) find a free worker/, 0, 'no worker lacks a place');
	}), leaves => 'nothing', skip => $aio->major < 19 ? undef : 'workers leave one by one, after some time');
}, conf => { io_max_concurrency => 100, shared_buffers => '64MB' });

# The number of I/O workers, since 19 between io_min_workers and io_max_workers (server
# commit d1c01b79d4): more when reads queue up, fewer after some idle time.
sub workers ($aio) { return scalar(() = $aio->pids_of_type('io worker')) }

# Waits until one worker is left: start-up or a scenario may have made more.
sub shrink_to_one ($aio)
{
	$aio->alter_system(io_worker_idle_timeout => 20);
	$aio->wait_for_workers(1);
	$aio->alter_system(io_worker_idle_timeout => 60000);
	return;
}

# Has this many reads queue up, again and again, until there are so many workers.
sub queue_reads ($aio, $session, $t, $reads, $wanted)
{
	# a worker that finds more reads in the queue than there are workers asks for another one
	for my $round (1 .. 60)
	{
		# opens the relation, so that the batch reads no catalogs
		$aio->evict($t, $session);
		$aio->stop_workers_at($t);
		# one batch: a session whose reads meet awake workers might perform one itself
		$session->sql($aio->batch("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(1, $reads) b"));
		$aio->poll(sub { $aio->stopped_workers > 0 });
		$aio->continue_workers;
		$session->gives("SELECT sum(nblocks) FROM read_buffers('$t', 1, $reads)", $reads, 'all is read');
		last if workers($aio) >= $wanted;
	}
	return;
}

if (TestAio::Server->major < 19)
{
	SKIP: { skip '18 has as many workers as io_workers says', 8 }
	done_testing();
	exit;
}

for_each_io_method('worker', sub {
	$aio->scenario('does not grow for one read at a time', with('alice', 60, sub ($alice, $t) {
		shrink_to_one($aio);
		my $until = $aio->sql("SELECT clock_timestamp() + interval '0.2 s'");
		$aio->poll(sub {
			$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 59) b");
			$aio->evict($t, $alice);
			return $aio->sql("SELECT clock_timestamp() > '$until'") eq 't';
		});
		is(workers($aio), 1, 'one worker is enough');
	}), leaves => 'nothing');

	$aio->scenario('grows while reads queue up, to its maximum', with('alice', 60, sub ($alice, $t) {
		# workers that have ended do not count
		for my $round (1 .. 2)
		{
			shrink_to_one($aio);
			queue_reads($aio, $alice, $t, 30, 3);
			$aio->poll(sub { workers($aio) == 3 });
			is(workers($aio), 3, "round $round: as many as io_max_workers");
		}
	}), skip => $unstoppable);

	$aio->scenario('grows when more reads wait than there are workers', with('alice', 60, sub ($alice, $t) {
		shrink_to_one($aio);
		$aio->alter_system(io_max_workers => 32);
		queue_reads($aio, $alice, $t, 8, 2);
		ok($aio->poll(sub { workers($aio) > 1 }), 'though fewer than io_max_workers');
	}), skip => $unstoppable);

	$aio->scenario('shrinks to its minimum', sub {
		$aio->alter_system(io_min_workers => 2);
		$aio->wait_for_workers('>= 2');
		my @before = $aio->pids_of_type('io worker');
		$aio->alter_system(io_worker_idle_timeout => 50);
		$aio->wait_for_workers('<= 2');
		is(workers($aio), 2, 'as many as io_min_workers');
		my @stay = $aio->pids_of_type('io worker');
		$aio->wait_seconds(0.3);
		is(join(',', $aio->pids_of_type('io worker')), join(',', @stay), 'and these stay for several timeouts');
		my %before = map { $_ => 1 } @before;
		is(scalar(grep { !$before{$_} } @stay), 0, 'both were among the earlier workers');
	}, leaves => 'nothing');

	$aio->scenario('a new minimum', sub {
		$aio->alter_system(io_worker_idle_timeout => '60000', io_max_workers => 4, io_min_workers => 4);
		$aio->wait_for_workers(4);
		is(workers($aio), 4, 'is reached without a read');
		# a worker that leaves tells the next one that it may
		my $since = time;
		$aio->alter_system(io_worker_idle_timeout => 100, io_min_workers => 1);
		$aio->wait_for_workers(1);
		is(workers($aio), 1, 'and they leave, one after another');
		# the time of each begins when the one before has left
		cmp_ok(time - $since, '>=', 0.3, 'three times the timeout');
	}, leaves => 'nothing');

	# one that is still on its way to sleep is not idle
	$aio->scenario('one read at a time wakes the first of the idle workers', with('alice', 60, sub ($alice, $t) {
		shrink_to_one($aio);
		my ($first) = $aio->pids_of_type('io worker');
		$aio->alter_system(io_max_workers => 4, io_min_workers => 4);
		$aio->wait_for("SELECT count(*) = 4 FROM pg_stat_activity WHERE backend_type = 'io worker' AND wait_event = 'IoWorkerMain'");
		$aio->io_trace_during($t, $alice->pid, sub { $alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 59) b") });
		cmp_ok($aio->sql("SELECT count(*) FROM io_trace WHERE executed_by = $first"), '>=', 10, 'of 60, that performs more than now and then one');
	}), leaves => 'nothing', skip => $aio->lacks('trace'));

	$aio->scenario('busy workers do not leave', with('alice', [ t => 20 ], [ u => 20 ], sub ($alice, $t, $u) {
		$aio->alter_system(io_worker_idle_timeout => '60000', io_max_workers => 2, io_min_workers => 2);
		$aio->wait_for("SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'io worker' AND wait_event = 'IoWorkerMain'");
		# one worker stands still, the other performs all further reads
		$aio->stop_workers_at($t);
		$alice->sql("SELECT read_rel_block_ll('$t', 0, wait_complete => false)");
		$aio->workers_stopped(1);
		my ($stopped) = $aio->stopped_workers;
		my $both = join ',', $aio->pids_of_type('io worker');
		# the other one may leave if the machine is so slow that it has nothing to do for a second
		my ($stay, $idle);
		for (1 .. 5)
		{
			$aio->alter_system(io_min_workers => 1, io_worker_idle_timeout => 1500);
			my ($begun, $last) = (time, time);
			for ($idle = 0; $last < $begun + 2;)
			{
				$alice->sql("SELECT invalidate_rel_block('$u', 1), read_rel_block_ll('$u', 1)");
				my $now = time;
				$idle = $now - $last if $now - $last > $idle;
				$last = $now;
			}
			$stay = join ',', $aio->pids_of_type('io worker');
			last if $idle < 1;
			$aio->alter_system(io_worker_idle_timeout => 60000, io_min_workers => 2);
			$aio->wait_for_workers(2);
			$both = join ',', $aio->pids_of_type('io worker');
		}
		like(",$stay,", qr/,$stopped,/, 'the worker that stands still stays');
		SKIP: {
			skip "the machine is too slow: nothing to do for $idle s", 1 if $idle >= 1;
			is($stay, $both, 'and so does the one that reads');
		}
		$aio->continue_workers;
	}), skip => $unstoppable);

	$aio->scenario('another worker after the interval', with('alice', 60, sub ($alice, $t) {
		shrink_to_one($aio);
		$aio->alter_system(io_min_workers => 1, io_max_workers => 3, io_worker_launch_interval => "'100ms'");
		ok($aio->poll(sub { queue_reads($aio, $alice, $t, 30, 3); workers($aio) == 3 }, 60), 'two more workers, in less than a thousand intervals');
	}), skip => $unstoppable);

	# counts from the start of the server, for which the postmaster has launched the first one
	$aio->scenario('the least time between two new workers', sub {
		$aio->alter_system(io_min_workers => 1, io_max_workers => 3, io_worker_launch_interval => "'1h'");
		while_stopped($aio);
		my ($alice, $t) = $aio->sessions_and_table('alice', 60);
		queue_reads($aio, $alice, $t, 30, 3);
		is(workers($aio), 1, 'no other worker within an hour');
	}, skip => $unstoppable);
}, conf => { io_max_concurrency => 64, shared_buffers => '64MB', io_min_workers => 1, io_max_workers => 3, io_worker_launch_interval => 0 });
