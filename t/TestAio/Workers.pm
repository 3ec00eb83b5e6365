# I/O workers that stand still, on any server: by a signal while they are idle, or before they
# read a table, where a library for LD_PRELOAD stops them.
#
# Injection points can hold a worker, too, but stock servers have none.  The I/O gate
# holds a read before a worker gets it.

package TestAio::Workers;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

use TestAio::Neighbours;
use TestAio::Server;

our @EXPORT = qw(cannot_stop_workers);

push @TestAio::Server::ISA, 'TestAio::Workers';

# The link that points to the file before whose reads workers stop.
my $link;

# Has servers that are started from now on let their workers be stopped.  Returns why that is not possible, or undef.
sub cannot_stop_workers
{
	$link = $ENV{TEST_AIO_STOPS} = PostgreSQL::Test::Utils::tempdir_short() . '/stops';
	return cannot_preload('stops_workers');
}

END { unlink $link if $link }

# Test: three tenths of a second later, by the server's own clock, the I/O workers are the same ones.
sub workers_stay ($self, $name)
{
	my $before = join ',', $self->pids_of_type('io worker');
	$self->wait_seconds(0.3);
	return is(join(',', $self->pids_of_type('io worker')), $before, $name);
}

# Stops all I/O workers by a signal and returns their process ids.  They are idle then: one
# that stops while it holds the lock of the queue would keep everybody from submitting reads.
sub stop_idle_workers ($self)
{
	$self->wait_for("SELECT bool_and(wait_event = 'IoWorkerMain') FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'");
	my @workers = $self->pids_of_type('io worker');
	kill 'STOP', @workers;
	return @workers;
}

# Has I/O workers stand still before they read the main fork of a table.
sub stop_workers_at ($self, $table)
{
	symlink $self->file_of($table), $link or die "$link: $!";
	$self->{stopping_workers} = 1;
	return;
}

# Lets them go on.
sub let_workers_go ($self)
{
	unlink $link or die "$link: $!";
	$self->{stopping_workers} = 0;
	return;
}

# Process ids of the workers that stand still.
sub stopped_workers ($self)
{
	return split /\n/, $self->sql("SELECT pid FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker' AND wait_event = 'DataFileRead' ORDER BY pid");
}

# Test: so many workers stand still, now or soon.
sub workers_stand_still ($self, $count, $name = "$count workers stand still")
{
	return $self->comes_to_give("SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker' AND wait_event = 'DataFileRead'", $count, $name);
}

# Stops the workers at a table.  The function starts statements that read the table, and returns their sessions, each
# of which then waits for a worker.  Since 19 a session reads by itself if another process has the lock of the
# workers' queue: if one has, all go on, the table is evicted, and the function called again.
sub read_with_stopped_workers ($self, $table, $start)
{
	for (1 .. 9)
	{
		$self->stop_workers_at($table);
		my @sessions = $start->();
		my @waiting = grep { $_->gets_to_wait('AioIoCompletion') } @sessions;
		return @sessions if @waiting == @sessions;
		$self->let_workers_go;
		$_->wait_for_end for @sessions;
		$self->evict($table);
	}
	die "sessions always read by themselves\n";
}

1;
