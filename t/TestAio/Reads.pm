package TestAio::Reads;

=head1 NAME

TestAio::Reads - the SQL functions that hold, fail, slow and trace reads, as methods

=head1 SYNOPSIS

	$aio->completion_wait(relation => $t, blockno => 3);
	$alice->starts("SELECT read_rel_block_ll('$t', 3)");
	$aio->at_completion_wait(1);
	$aio->completion_continue;
	$alice->ends;
	$aio->io_fail($t, 'EIO', blockno => 4);
	$bob->fails("SELECT read_rel_block_ll('$t', 4)", '58030', qr/could not read/, 'fails');
	$aio->io_fail_end;

Names and arguments are those of the SQL functions: values, then names and values; completion_wait(), short_read_attach()
and so on are inj_io_completion_wait(), inj_io_short_read_attach().  These faults work on every server: the I/O gate
carries them out, or without it the server's injection points.  Functions of the gate are methods of sessions, too.

=cut

use v5.36;
use warnings FATAL => 'all';

use TestAio::Required ();

# Arguments with a name; all others come before these, in the order of the function's.
my $named = qr/^(?:pid|relation|relfilenode|blockno|fork|skip|times|keep|everybody|queue_depth|jitter|bytes_per_second|filter|op|backend_type|leader_pid|tail|tail_latency|iops|spread|family)$/;

# Returns a value as SQL.  The name of an errno becomes a result: -errno_from_string('EIO').
sub _literal ($value)
{
	return $value // 'NULL' if ($value // 'NULL') =~ /^(?:NULL|true|false|-?\d+(?:\.\d+)?)$/;
	return $value =~ /^E[0-9A-Z]+$/ ? "-errno_from_string('$value')" : "'" . $value =~ s/'/''/gr . "'";
}

# Calls a function; "relation" gives the argument "relfilenode".  Returns the result.
sub call ($self, $function, @values)
{
	my @arguments;
	while (@values)
	{
		my $name = ($values[0] // '') =~ $named ? shift @values : '';
		my $value = _literal(shift @values);
		push @arguments, $name eq 'relation' ? "relfilenode => pg_relation_filenode($value)" : $name ? "$name => $value" : $value;
	}
	return $self->sql("SELECT $function(" . join(', ', @arguments) . ')');
}

sub io_hold ($self, @values) { return $self->call('io_hold', @values) }
sub io_fail ($self, @values) { return $self->call('io_fail', @values) }
sub io_device ($self, @values) { return $self->call('io_device', @values) }
sub io_corrupt ($self, @values) { return $self->call('io_corrupt', @values) }
sub io_route ($self, @values) { return $self->call('io_route', @values) }
sub io_filter_end ($self, @values) { return $self->call('io_filter_end', @values) }
sub io_hold_end ($self, @values) { return $self->call('io_hold_end', @values) }
sub io_fail_end ($self, @values) { return $self->call('io_fail_end', @values) }
sub io_device_end ($self, @values) { return $self->call('io_device_end', @values) }
sub io_release_all ($self, @values) { return $self->call('io_release_all', @values) }
sub io_trace_stop { return $_[0]->call('io_trace_stop') }

# Releases the held read that covers a block, with a result or without one, as io_release() does.  A test waits first for
# the read to be held: io_held_count().
sub io_release_block ($self, $block, $result = undef)
{
	return $self->sql('SELECT io_release(pid, io_id, ' . _literal($result) . ") FROM io_held WHERE $block BETWEEN blockno AND blockno + nblocks - 1")
	  || die "no held read covers block $block\n";
}

# Ends all holds and releases all held reads.
sub end_holds ($self)
{
	$self->sql('SELECT io_hold_end(everybody => true), io_release_all()');
	return;
}

# Ends all filters, also those that the observer has made and that outlive their scenario, and releases all held reads.
sub end_filters ($self)
{
	$self->sql('SELECT io_filter_end(everybody => true), io_release_all()');
	return;
}

# Calls functions whose filters also hold reads of processes that cannot be interrupted.
sub with_uninterruptible_timeout ($self, $calls)
{
	return $self->sql("SET test_aio.uninterruptible_timeout = '5min'; SELECT $calls; RESET test_aio.uninterruptible_timeout");
}

# Test: so many reads are held, now or soon.
sub io_held_count ($self, $count, $name = "$count reads are held") { return $self->gives_soon('SELECT count(*) FROM io_held', $count, $name) }

# Test: io_held shows these columns, now or soon.
sub io_held_shows ($self, $columns, $expected, $name = "held: $columns")
{
	return $self->gives_soon("SELECT $columns FROM io_held ORDER BY blockno, pid", $expected, $name);
}

# Calls io_hold() or io_device(), and has a session start a statement.  Test: the session waits for its read.
sub read_waits_for ($self, $call, $session, $sql)
{
	$self->sql("SELECT $call");
	$session->starts($sql);
	return $session->waits_on($call =~ /io_device/ ? 'IoDevice' : 'IoGateHeld');
}

# Has a controller hold a read, an issuer start it and a waiter wait for it, and returns
# these three sessions.  $hold is SQL that the controller calls instead of io_hold().
sub controller_issuer_waiter ($self, $table, $hold = "io_hold('$table')")
{
	my ($controller, $issuer, $waiter) = $self->sessions(qw(controller issuer waiter));
	$controller->sql("SELECT $hold");
	my $event = $hold =~ /io_device/ ? 'IoDevice' : 'IoGateHeld';
	$issuer->waits("SELECT read_rel_block_ll('$table', 3, nblocks => 4)", $event);
	$waiter->waits("SELECT count(*) FROM read_buffers('$table', 4, 1)", $event);
	return ($controller, $issuer, $waiter);
}

# Matches what the server logs at the end of the hold timeout.
sub hold_expired { return qr/LOG:  read of blocks \d+\.\.\d+ of relation .* was held for too long/ }

# Matches what the server logs when the gate's worker is terminated.
sub gate_worker_ended { return qr/postmaster LOG:  background worker "[^"]*test_aio[^"]*" \(PID \d+\) exited with exit code 1/ }

# Begins a new trace, with the arguments of io_trace_start().
sub io_trace_restart ($self, @arguments)
{
	$self->sql('SELECT io_trace_stop(), io_trace_reset()');
	return $self->call('io_trace_start', @arguments);
}

# Traces a function that reads.  Arguments: those of io_trace_start(), and the function.
sub io_trace_during ($self, @arguments)
{
	my $function = pop @arguments;
	$self->io_trace_restart(@arguments);
	$function->();
	$self->io_trace_stop;
	return;
}

# Test: the recorded reads have these columns.
sub io_trace_shows ($self, $columns, $expected, $name = "traced: $columns") { return $self->gives("SELECT $columns FROM io_trace", $expected, $name) }

# Test: the recorded reads have these columns, now or soon.
sub io_trace_shows_soon ($self, $columns, $expected, $name = "traced: $columns")
{
	return $self->gives_soon("SELECT $columns FROM io_trace", $expected, $name);
}

# Returns why faults cannot be used on this server, or undef.
sub no_faults ($self)
{
	return $self->{no_faults} if exists $self->{no_faults};
	my $session = TestAio::Session->new($self, 'faults');
	$session->starts('SELECT inj_io_completion_continue()')->wait_for_end;
	my $error = $session->error;
	$session->quit;
	return $self->{no_faults} = undef if !$error;
	die $error->{all} if !$self->_error_is_true($error);
	return $self->{no_faults} = $self->unless_required_here('faults', "needs faults: $error->{message}");
}

# Returns true if what an error of the fault functions says is true of this server.
sub _error_is_true ($self, $error)
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

# Methods that begin a fault, and those that end it.
my %end_of = (completion_wait => 'completion_continue', short_read_attach => 'short_read_detach', reopen_attach => 'reopen_detach',
	stop_workers_at => 'continue_workers');

# Calls a function of the contract, and notes whether its fault is in effect.
sub _fault ($self, $function, @arguments)
{
	$self->call("inj_io_$function", @arguments);
	$self->{faults}{$function} = 1 if $end_of{$function};
	delete @{ $self->{faults} }{ grep { $end_of{$_} eq $function } keys %end_of };
	return;
}

# Waits until no I/O worker has the lock of the workers' queue, for a second at most.  Since 19 a
# session performs a read itself when that lock is taken, and then a hold stops the session.
sub _wait_for_idle_workers ($self)
{
	return if $self->method ne 'worker' || $self->major < 19;
	my $busy = "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'"
	  . " AND wait_event IS DISTINCT FROM 'IoWorkerMain' AND wait_event IS DISTINCT FROM 'completion_wait'";
	$self->poll(sub { $self->sql($busy) == 0 }, 1);
	return;
}

# Counts processes that hold a read at its completion.
my $holding = q{SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event = 'completion_wait'};

# Holds matching reads from now on, and releases the reads of an earlier hold.
sub completion_wait ($self, %match)
{
	$self->_wait_for_idle_workers;
	# the gate's worker may show a hold that has ended until it runs again, or at_completion_wait() would take it for this one
	$self->poll(sub { $self->sql($holding) == 0 }, 1) if !$self->{faults}{completion_wait};
	return $self->_fault(completion_wait => %match);
}

# Ends the hold and lets held reads go on.  Does nothing without a hold.
sub completion_continue ($self) { return $self->_fault('completion_continue') }

# Test: so many processes hold a read at its completion, now or soon.
sub at_completion_wait ($self, $count, $name = "$count held")
{
	return $self->gives_soon($holding, $count, $name);
}

# Has a session start a statement.  Test: one of its reads that match is held.
sub read_at_completion_wait ($self, $session, $sql, %match)
{
	$self->completion_wait(%match);
	$session->starts($sql);
	return $self->at_completion_wait(1);
}

# Starts reads of a table that wait in I/O workers, by completion_wait() or stop_workers_at().  The function starts the
# statements, and returns their sessions.  Since 19 a session reads by itself if another process has the lock of the
# workers' queue: if one has, all reads go on, the table is evicted, and the function called again.
sub read_in_workers ($self, $table, $start, $wait, @arguments)
{
	for (1 .. 9)
	{
		$self->$wait(@arguments);
		my @sessions = $start->();
		$_->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait)$/) for @sessions;
		return @sessions if !grep { ($self->wait_event($_->pid) // '') ne 'AioIoCompletion' } @sessions;
		$self->${ \$end_of{$wait} };
		$_->wait_for_end for @sessions;
		$self->evict($table);
	}
	die "sessions always read by themselves\n";
}

# Makes matching reads end with a number of bytes, with a negative errno, or with an errno by its name.
sub short_read_attach ($self, $result, %match) { return $self->_fault('short_read_attach', $result, %match) }
sub short_read_detach ($self) { return $self->_fault('short_read_detach') }

# Makes I/O workers fail that must reopen a file.
sub reopen_attach ($self) { return $self->_fault('reopen_attach') }
sub reopen_detach ($self) { return $self->_fault('reopen_detach') }

# Cancels a session's statement.  Test: that ends it.
sub cancels ($self, $session, $name = 'is cancelled')
{
	$self->sql("SELECT pg_cancel_backend(${\$session->pid})");
	return $session->raises('57014', qr/canceling statement due to user request/, $name);
}

# Ends the faults that a scenario has left in effect, and returns the methods that began them.
sub end_faults ($self)
{
	my @left = sort keys %{ $self->{faults} };
	$self->${ \$end_of{$_} } for @left;
	return @left;
}

# Forgets the faults of a server that has restarted, since the restart has ended them.
sub forget_faults ($self) { delete @{ $self->{faults} }{qw(completion_wait short_read_attach reopen_attach)}; return }

1;
