# Methods of servers for the functions that only the I/O gate has (doc/gate.md).
#
# The words are those of TestAio/Faults.pm with "gate_" in front: gate_release,
# gate_holds.  The gate holds a read before it is begun, and io_held shows it.
#
# A hold, a failure or a device that the observer has made outlives its scenario;
# end_gate() ends it.

package TestAio::Gate;

use v5.36;
use warnings FATAL => 'all';

# Matches what the server logs at the end of the hold timeout.
sub hold_expired { return qr/LOG:  read of blocks \d+\.\.\d+ of relation .* was held for too long/ }

# Matches what the server logs when the gate's worker is terminated.
sub gate_worker_ended { return qr/postmaster LOG:  background worker "[^"]*test_aio[^"]*" \(PID \d+\) exited with exit code 1/ }

# Test: so many reads are held, now or soon.
sub gate_holds ($self, $count, $name = "$count reads are held") { return $self->comes_to_give('SELECT count(*) FROM io_held', $count, $name) }

# Has a session start a statement, with these arguments of io_hold().  Test: a read is held.
sub gate_holds_read_of ($self, $session, $sql, $hold)
{
	$self->sql("SELECT io_hold($hold)");
	$session->starts($sql);
	return $self->gate_holds(1);
}

# Calls io_hold() or io_device(), and has a session start a statement.  Test: the session waits for its read.
sub gate_stops ($self, $call, $session, $sql)
{
	$self->sql("SELECT $call");
	$session->starts($sql);
	return $session->waits_on($call =~ /io_device/ ? 'IoDevice' : 'IoGateHeld');
}

# Calls functions that make filters for which processes that cannot be interrupted wait, too.
sub gate_patiently ($self, $calls)
{
	return $self->sql("SET test_aio.uninterruptible_timeout = '5min'; SELECT $calls; RESET test_aio.uninterruptible_timeout");
}

# Test: io_held shows these columns of the held reads, now or soon.
sub gate_shows ($self, $columns, $expected, $name = "held: $columns")
{
	return $self->comes_to_give("SELECT $columns FROM io_held ORDER BY blockno, pid", $expected, $name);
}

# Ends all holds and releases all held reads.
sub gate_release ($self)
{
	$self->sql('SELECT io_hold_end(everybody => true), io_release_all()');
	return;
}

# Releases the held read that covers a block.  The result is a number of bytes or a
# negative errno; without one the read is performed.
sub gate_release_block ($self, $block, $result = 'NULL')
{
	return $self->sql("SELECT io_release(pid, io_id, $result) FROM io_held"
		  . " WHERE $block BETWEEN blockno AND blockno + nblocks - 1");
}

# Has a controller hold a read, an issuer start it and a waiter wait for it, and returns
# these three sessions.  $hold is SQL that the controller calls instead of io_hold().
sub gate_hold_read ($self, $table, $hold = "io_hold('$table')")
{
	my ($controller, $issuer, $waiter) = $self->sessions(qw(controller issuer waiter));
	$controller->sql("SELECT $hold");
	my $event = $hold =~ /io_device/ ? 'IoDevice' : 'IoGateHeld';
	$issuer->waits("SELECT read_rel_block_ll('$table', 3, nblocks => 4)", $event);
	$waiter->waits("SELECT count(*) FROM read_buffers('$table', 4, 1)", $event);
	return ($controller, $issuer, $waiter);
}

# Ends all filters and devices, and releases all held reads.
sub end_gate ($self)
{
	$self->sql('SELECT io_hold_end(everybody => true), io_fail_end(everybody => true), io_device_end(everybody => true), io_release_all()');
	return;
}

1;
