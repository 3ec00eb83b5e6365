# I/O workers: their number, how many wake when there is work, and a queue that is full.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Sets the number of workers and waits until there are so many.
sub set_workers
{
	my ($aio, $n) = @_;
	# in this order the lower limit never exceeds the higher one
	my @settings = $aio->major < 19 ? 'io_workers' : $n > $aio->setting('io_max_workers') ? qw(io_max_workers io_min_workers) : qw(io_min_workers io_max_workers);
	$aio->alter_system($_ => $n) for @settings;
	return $aio->wait_for_workers($n);
}

# Starts a read of one block in each of n sessions.
sub start_reads
{
	my ($aio, $t, $n) = @_;
	my @readers = $aio->sessions(map { "reader$_" } 1 .. $n);
	my $block = 0;
	$_->starts("SELECT read_rel_block_ll('$t', " . $block++ . ')') for @readers;
	return @readers;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('as many reads at a time as workers', sub {
			my $t = $aio->table('t', 20);
			for my $n (1, 2, 5, 3)
			{
				set_workers($aio, $n);
				my @readers = $aio->hold_in_workers($t, { relation => $t }, sub { return start_reads($aio, $t, 6) });
				$aio->holds($n, "$n workers");
				$_->waits_on('AioIoCompletion') for @readers;
				$aio->gives("SELECT count(*) FILTER (WHERE state = 'SUBMITTED'), count(*) FILTER (WHERE state = 'COMPLETED_IO') FROM pg_aios",
					6 - $n . "|$n", 'the others wait in the queue');
				$aio->release;
				$_->ends for @readers;
				$aio->evict($t);
			}
			$aio->proves($t);
		}, leaves => 'nothing', skip => $aio->no_injection_points);

		# 18 wakes one worker for a batch; workers wake further ones for what is left.  So does 19,
		# unless workers were often woken in vain of late.
		$aio->scenario('one batch wakes several', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			set_workers($aio, 4);
			for my $reads ($aio->major < 19 ? (8, 3, 2) : 8)
			{
				my $at_work = 0;
				for my $round (1 .. ($aio->major < 19 ? 1 : 20))
				{
					$aio->wait_for("SELECT count(*) = 4 FROM pg_stat_activity WHERE wait_event = 'IoWorkerMain'");
					$aio->evict($t, $alice);
					$aio->hold(relation => $t);
					$alice->starts($aio->batch(map { "SELECT read_rel_block_ll('$t', 2 * $_, wait_complete => false)" } 0 .. $reads - 1));
					$alice->ends;
					# until each worker is held or asleep
					$aio->wait_for("SELECT count(*) FILTER (WHERE wait_event = 'completion_wait') BETWEEN 1 AND 4"
						  . " AND count(*) FILTER (WHERE wait_event IN ('completion_wait', 'IoWorkerMain')) = 4"
						  . " FROM pg_stat_activity WHERE backend_type = 'io worker'");
					$aio->poll(sub { $aio->holders == ($reads < 4 ? $reads : 4) }) if $aio->major < 19;
					my $held = () = $aio->holders;
					$at_work = $held if $held > $at_work;
					$aio->release;
					$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 14, 2)))", 8, 'all is read');
					last if $at_work == 4;
				}
				$aio->major < 19 ? is($at_work, $reads < 4 ? $reads : 4, "workers that are at $reads reads") : cmp_ok($at_work, '>', 1, 'several workers are at it');
			}
			$aio->proves($t);
		}, skip => $aio->no_injection_points);

		# 64 places, of which 18 leaves one empty; each round begins at another place
		$aio->scenario('the queue is full', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 10), $aio->table('u', 100));
			set_workers($aio, 1);
			for my $round (1 .. 64)
			{
				$aio->sql("SELECT evict_rel('$t'), evict_rel('$u')");
				$bob->sql("SELECT read_rel_block_ll('$t', 1)");
				$aio->hold(relation => $t);
				$alice->starts("SELECT read_rel_block_ll('$t', 0)");
				$aio->poll(sub { $aio->holders }) or die "the only worker is not held\n";
				$bob->sql("SELECT read_rel_block_ll('$u', b, wait_complete => false) FROM generate_series(0, 65) b");
				$aio->release;
				$alice->wait_for_end;
				$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 66)", 66, 'all are read') if $round % 16 == 0;
			}
			$aio->evict($_) for $t, $u;
			$aio->hold(relation => $t);
			$alice->starts("SELECT read_rel_block_ll('$t', 0)");
			$aio->holds(1, 'the only worker');
			$bob->gives("SELECT count(read_rel_block_ll('$u', b, wait_complete => false)) FROM generate_series(0, 99) b", 100, 'starts a hundred reads');
			my $queued = $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$bob->pid} AND state = 'SUBMITTED'");
			is($queued, 63, 'reads in the queue') if $aio->major < 19;
			cmp_ok($queued, '>=', 63, 'reads in the queue');
			is($aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$bob->pid} AND state <> 'SUBMITTED'"), 0, 'bob has performed the others himself');
			is(scalar(split /,/, $aio->cached($u)), 100 - $queued, 'the others are cached');
			$aio->release;
			$alice->ends;
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 100)", 100, 'all are read');
			$aio->proves($u);
		}, skip => $aio->no_injection_points);

		$aio->scenario('no more workers than are set', sub {
			set_workers($aio, 2);
			my $t = $aio->table('t', 40);
			my ($alice) = $aio->sessions('alice');
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(38, 0, -2)))", 20, 'reads');
			$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'io worker'", 2, 'two');
		}, leaves => 'nothing');
	}, methods => ['worker'], conf => { io_max_concurrency => 100, shared_buffers => '64MB' });
