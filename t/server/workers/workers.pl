# I/O workers: their number, how many wake when there is work, and a queue that is full.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Workers;

my $unstoppable = cannot_stop_workers();

# Sets the number of workers and waits until there are so many.
sub set_workers
{
	my ($aio, $n) = @_;
	# in this order the lower limit never exceeds the higher one
	my @settings = $aio->major < 19 ? 'io_workers' : $n > $aio->setting('io_max_workers') ? qw(io_max_workers io_min_workers) : qw(io_min_workers io_max_workers);
	$aio->alter_system($_ => $n) for @settings;
	return $aio->wait_for_workers($n);
}

# Returns what ps shows of a process, '' if it has ended.
sub title
{
	my ($pid) = @_;
	open(my $file, '<', "/proc/$pid/cmdline") or return '';
	return <$file> // '';
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
				my @readers = $aio->read_with_stopped_workers($t, sub { return start_reads($aio, $t, 6) });
				$aio->workers_stand_still($n, "$n workers");
				$aio->gives("SELECT string_agg(DISTINCT state, ' '), count(*) FROM pg_aios", 'SUBMITTED|6', 'the others wait in the queue');
				$aio->let_workers_go;
				$_->ends for @readers;
				$aio->evict($t);
			}
			$aio->proves($t);
		}, leaves => 'nothing', skip => $unstoppable);

		$aio->scenario('titles', sub {
			# which of several numbers remains is not defined; new workers take the smallest that are free
			set_workers($aio, $_) for 1, 4;
			# a worker registers itself before it writes its title
			my $numbers;
			$aio->poll(sub { $numbers = join ',', sort map { title($_) =~ /io worker (\d+)/ ? $1 : '-' } $aio->pids_of_type('io worker'); $numbers !~ /-/ });
			is($numbers, '0,1,2,3', 'each worker shows its number');
		}, leaves => 'nothing', skip => -r '/proc/self/cmdline' ? undef : 'no /proc');

		# a batch wakes one worker, and each worker wakes another one while reads are queued; 19 does
		# so only if few workers were woken in vain recently
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
					$aio->let_workers_go;
					$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 14, 2)))", 8, 'all is read');
					last if $at_work == 4;
				}
				$aio->major < 19 ? is($at_work, $reads < 4 ? $reads : 4, "workers that are at $reads reads") : cmp_ok($at_work, '>', 1, 'several workers are at it');
			}
			$aio->proves($t);
		}, skip => $unstoppable);

		# 64 places, of which 18 leaves one empty; each round begins at another place
		$aio->scenario('the queue is full', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 10), $aio->table('u', 100));
			set_workers($aio, 1);
			for my $round (1 .. 64)
			{
				$aio->sql("SELECT evict_rel('$t'), evict_rel('$u')");
				$bob->sql("SELECT read_rel_block_ll('$t', 1)");
				$aio->read_with_stopped_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") });
				$aio->poll(sub { $aio->stopped_workers }) or die "the only worker does not stand still\n";
				$bob->sql("SELECT read_rel_block_ll('$u', b, wait_complete => false) FROM generate_series(0, 65) b");
				$aio->let_workers_go;
				$alice->wait_for_end;
				$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 66)", 66, 'all are read') if $round % 16 == 0;
			}
			$aio->evict($_) for $t, $u;
			$aio->read_with_stopped_workers($t, sub { return $alice->starts("SELECT read_rel_block_ll('$t', 0)") });
			$aio->workers_stand_still(1, 'the only worker');
			# a session without completed handles: bob has not reclaimed all of his
			my ($carol) = $aio->sessions('carol');
			$carol->gives("SELECT count(read_rel_block_ll('$u', b, wait_complete => false)) FROM generate_series(0, 99) b", 100, 'starts a hundred reads');
			my $queued = $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$carol->pid} AND state = 'SUBMITTED'");
			is($queued, 63, 'reads in the queue') if $aio->major < 19;
			cmp_ok($queued, '>=', 63, 'reads in the queue');
			is($aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$carol->pid} AND state <> 'SUBMITTED'"), 0, 'carol has performed the others herself');
			is(scalar(split /,/, $aio->cached($u)), 100 - $queued, 'the others are cached');
			$aio->let_workers_go;
			$alice->ends;
			$carol->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 100)", 100, 'all are read');
			$aio->proves($u);
		}, skip => $unstoppable);

		# there are places for 32 workers
		$aio->scenario('workers that have gone leave their place to others', sub {
			set_workers($aio, $_) for 20, 1, 20, 1;
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 10)", 10, 'reads');
			set_workers($aio, 3);
			$aio->logs(qr/could(?:n't| not) find a free worker/, 0, 'no worker lacks a place');
		}, leaves => 'nothing', skip => $aio->major < 19 ? undef : 'workers leave one by one, after some time');

		$aio->scenario('no more workers than are set', sub {
			set_workers($aio, 2);
			my $t = $aio->table('t', 40);
			my ($alice) = $aio->sessions('alice');
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(38, 0, -2)))", 20, 'reads');
			$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'io worker'", 2, 'two');
		}, leaves => 'nothing');
	}, conf => { io_max_concurrency => 100, shared_buffers => '64MB' });
