# Faults of the SQL contract: reads that are held at their completion, or end with a chosen result.
#
# hold() and release() call inj_io_completion_wait() and inj_io_completion_continue().
# The I/O gate carries them out, or without it the server's injection points, so most
# scenarios with faults run on every server.  TestAio/Gate.pm has what only the gate can do.

package TestAio::Faults;

use v5.36;
use warnings FATAL => 'all';

use Carp qw(croak);

# Returns why faults cannot be used on this server, or undef.
sub no_faults ($self)
{
	return $self->{no_faults} if exists $self->{no_faults};
	my $session = TestAio::Session->new($self, 'faults');
	$session->starts('SELECT inj_io_completion_continue()')->wait_for_end;
	my $error = $session->error;
	$session->quit;
	return $self->{no_faults} = undef if !$error;
	die $error->{all} if !$self->_excuses($error);
	return $self->{no_faults} = $self->unless_required('faults', "needs faults: $error->{message}");
}

# Returns true if an error of the fault functions is a reason to do without faults: what it says
# must be true of this server.
sub _excuses ($self, $error)
{
	my $reach = $self->{has_gate} && $self->setting('test_aio.reach_synchronous_reads') eq 'on';
	my %true = (
		'0A000: this server has no injection points' => !$self->{has_gate} && ($ENV{enable_injection_points} // '') ne 'yes',
		'0A000: this server has no injection points, and with "io_method" set to "sync" the I/O gate does not see reads' =>
		  $self->{has_gate} && !$reach && $self->method eq 'sync',
		"55000: the server's injection points cannot find test_aio" => !$self->{has_gate},
		'55000: there are no filters for reads in this server' => !$self->{has_filters});
	return $true{"$error->{sqlstate}: $error->{message}"};
}

# Returns why reads cannot be held at their very completion, or undef.  Injection points hold the process that
# completes a read.  The I/O gate, where it is, holds a read before the read is begun.
sub no_injection_points ($self)
{
	$self->{handler} //= $self->sql('SELECT handler FROM io_gate');
	return $self->no_faults // 'the gate holds reads before they are begun' if $self->{has_gate} && $self->{handler} eq 'gate';
	return TestAio::Required::unless_required('injection_points', $self->no_faults);
}

# Returns arguments of a fault function, from relation (a name), relfilenode, pid and block.
sub _match ($self, %match)
{
	my @arguments;
	push @arguments, "pid => $match{pid}" if defined $match{pid};
	push @arguments, "relfilenode => pg_relation_filenode('$match{relation}')" if defined $match{relation};
	push @arguments, "relfilenode => $match{relfilenode}" if defined $match{relfilenode};
	push @arguments, "blockno => $match{block}" if defined $match{block};
	return join ', ', @arguments;
}

# Waits until no I/O worker has the lock of the workers' queue, for a second at most.  Since 19 a
# session performs a read itself when that lock is taken, and then a hold stops the session.
sub _workers_are_idle ($self)
{
	return if $self->method ne 'worker' || $self->major < 19;
	my $busy = "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'"
	  . " AND wait_event IS DISTINCT FROM 'IoWorkerMain' AND wait_event IS DISTINCT FROM 'completion_wait'";
	$self->poll(sub { $self->sql($busy) == 0 }, 1);
	return;
}

# Holds matching reads from now on, and releases the reads of an earlier hold.
sub hold ($self, %match)
{
	$self->_workers_are_idle;
	$self->sql('SELECT inj_io_completion_wait(' . $self->_match(%match) . ')');
	$self->{holding} = 1;
	return;
}

# Ends the hold and lets held reads go on.  Does nothing without a hold.
sub release ($self)
{
	$self->sql('SELECT inj_io_completion_continue()');
	$self->{holding} = 0;
	return;
}

# Test: so many processes hold a read at its completion, now or soon.
sub holds ($self, $count, $name = "$count held")
{
	return $self->comes_to_give("SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event = 'completion_wait'", $count, $name);
}

# Has a session start a statement.  Test: one of its reads that match is held.
sub holds_read_of ($self, $session, $sql, %match)
{
	$self->hold(%match);
	$session->starts($sql);
	return $self->holds(1);
}

# Holds reads of a table in I/O workers.  The function starts the statements that read, and returns their sessions.
# If one of several sessions performs its read itself, because another one has the lock of the workers' queue, all is
# released, the table evicted, and the function called again.
sub hold_in_workers ($self, $table, $match, $start)
{
	for (1 .. 9)
	{
		$self->hold(%$match);
		my @sessions = $start->();
		$_->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait)$/) for @sessions;
		return @sessions if !grep { ($self->wait_event($_->pid) // '') eq 'completion_wait' } @sessions;
		$self->release;
		$_->wait_for_end for @sessions;
		$self->evict($table);
	}
	die "sessions always read by themselves\n";
}

# Makes matching reads end with a number of bytes, with a negative errno, or with an errno by its name.
sub falsify ($self, $result, %match)
{
	croak 'falsify(RESULT, relation => NAME, …)' if ($result // 'NULL') !~ /^(?:NULL|-?\d+|E[0-9A-Z]+)$/;
	$result = "-errno_from_string('$result')" if $result =~ /^E/;
	my $match = $self->_match(%match);
	$self->sql("SELECT inj_io_short_read_attach($result" . ($match ? ", $match" : '') . ')');
	$self->{falsifying} = 1;
	return;
}

# Ends falsify().
sub tell_truth ($self)
{
	$self->sql('SELECT inj_io_short_read_detach()');
	$self->{falsifying} = 0;
	return;
}

# Cancels a session's statement.  Test: that ends it.
sub cancels ($self, $session, $name = 'is cancelled')
{
	$self->sql("SELECT pg_cancel_backend(${\$session->pid})");
	return $session->raises('57014', qr/canceling statement due to user request/, $name);
}

# Makes I/O workers fail to reopen files, or ends that.
sub fail_reopen ($self, $fail)
{
	$self->sql('SELECT inj_io_reopen_' . ($fail ? 'attach' : 'detach') . '()');
	$self->{failing_reopen} = $fail;
	return;
}

# Ends the faults that a scenario has left in effect, and returns their names.
sub end_faults ($self)
{
	my @left;
	if ($self->{holding}) { push @left, 'reads are held'; $self->release }
	if ($self->{falsifying}) { push @left, 'results are falsified'; $self->tell_truth }
	if ($self->{failing_reopen}) { push @left, 'reopening fails'; $self->fail_reopen(0) }
	if ($self->{stopping_workers}) { push @left, 'workers stand still'; $self->let_workers_go }
	return @left;
}

# Forgets the faults of a server that has restarted, since the restart has ended them.
sub forget_faults ($self)
{
	$self->{$_} = 0 for qw(holding falsifying failing_reopen);
	return;
}

1;
