# Reads that are held at their completion or end with a chosen result.

package TestAio::Faults;

use strict;
use warnings FATAL => 'all';

use Test::More;

# Why faults cannot be used on this server, or undef.
sub no_faults
{
	my ($self) = @_;
	return $self->{no_faults} if exists $self->{no_faults};
	my $session = TestAio::Session->new($self, 'faults');
	$session->starts('SELECT inj_io_completion_continue()')->wait_for_end;
	my $error = $session->error;
	$session->quit;
	die $error->{all} if $error && $error->{sqlstate} !~ /^(0A000|55000)$/;
	return $self->{no_faults} = $error ? "needs faults: $error->{message}" : undef;
}

# Why reads cannot be held at their very completion, by whoever completes them, or
# undef.  The I/O gate holds them before they are begun, and only those that are
# given to an I/O method.
sub no_injection_points
{
	my ($self) = @_;
	my $reason = $self->no_faults;
	return $reason if $reason;
	$self->{provider} //= $self->sql('SELECT provider FROM io_gate');
	return $self->{provider} eq 'gate' ? 'needs injection points: the gate holds reads before they are begun' : undef;
}

# Arguments of a fault function: relation => its name, pid, block.
sub _match
{
	my ($self, %match) = @_;
	my @arguments;
	push @arguments, "pid => $match{pid}" if defined $match{pid};
	push @arguments, "relfilenode => pg_relation_filenode('$match{relation}')" if defined $match{relation};
	push @arguments, "relfilenode => $match{relfilenode}" if defined $match{relfilenode};
	push @arguments, "blockno => $match{block}" if defined $match{block};
	return join ', ', @arguments;
}

# From now on matching reads are held.
sub hold
{
	my ($self, %match) = @_;
	$self->sql('SELECT inj_io_completion_wait(' . $self->_match(%match) . ')');
	$self->{holding} = 1;
	return;
}

# Lets them go on.
sub release
{
	my ($self) = @_;
	$self->sql('SELECT inj_io_completion_continue()');
	$self->{holding} = 0;
	return;
}

# Process ids of those who are held at a completion.
sub held
{
	my ($self) = @_;
	return split /\n/, $self->sql(
		"SELECT pid FROM pg_stat_get_activity(NULL) WHERE wait_event = 'completion_wait' ORDER BY pid");
}

# Test: so many processes are held.
sub holds
{
	my ($self, $count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found;
	$self->poll(sub { $found = () = $self->held; $found == $count });
	return is($found, $count, $name // "$count held");
}

# Starts statements whose reads of a table I/O workers are to hold: 19 has a session
# read by itself when the workers' queue is locked, and then all of it begins again.
# The function starts them and returns their sessions.
sub held_in_workers
{
	my ($self, $table, $match, $start) = @_;
	for (1 .. 9)
	{
		$self->hold(%$match);
		my @sessions = $start->();
		my @events;
		$self->poll(sub {
				@events = map { $_->has_ended ? 'ended' : $self->wait_event($_->pid) } @sessions;
				return !grep { !/^(?:AioIoCompletion|completion_wait|ended)$/ } @events;
			});
		return @sessions if !grep { $_ eq 'completion_wait' } @events;
		$self->release;
		$_->wait_for_end for @sessions;
		$self->evict($table);
	}
	die "sessions always read by themselves\n";
}

# Matching reads end so: a number of bytes or a negative errno, or its name.
sub falsify
{
	my ($self, $result, %match) = @_;
	$result = "-errno_from_string('$result')" if $result =~ /^E/;
	my $match = $self->_match(%match);
	$self->sql("SELECT inj_io_short_read_attach($result" . ($match ? ", $match" : '') . ')');
	$self->{falsifying} = 1;
	return;
}

sub tell_truth
{
	my ($self) = @_;
	$self->sql('SELECT inj_io_short_read_detach()');
	$self->{falsifying} = 0;
	return;
}

# I/O workers fail to reopen files, or do not any more.
sub fail_reopen
{
	my ($self, $fail) = @_;
	$self->sql('SELECT inj_io_reopen_' . ($fail ? 'attach' : 'detach') . '()');
	$self->{failing_reopen} = $fail;
	return;
}

# What a scenario has left in effect; ends it.
sub end_faults
{
	my ($self) = @_;
	my @left;
	if ($self->{holding}) { push @left, 'reads are held'; $self->release }
	if ($self->{falsifying}) { push @left, 'results are falsified'; $self->tell_truth }
	if ($self->{failing_reopen}) { push @left, 'reopening fails'; $self->fail_reopen(0) }
	return @left;
}

1;
