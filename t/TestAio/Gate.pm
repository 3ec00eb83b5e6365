# What scenarios ask of the I/O gate (doc/gate.md).
#
# Holds, failures and devices made by the observer outlive a scenario; end_gate()
# ends what one has left.

package TestAio::Gate;

use strict;
use warnings FATAL => 'all';

use Test::More;
use TestAio::Server;

push @TestAio::Server::ISA, 'TestAio::Gate';

# what is logged at the end of the longest hold
sub too_long { return qr/WARNING:  read of blocks \d+\.\.\d+ of relation .* was held for too long/ }

# Why there is no gate in this server, or undef.
sub no_gate
{
	my ($self) = @_;
	return $self->sql('SELECT gate FROM io_gate') eq 't' ? undef
	  : 'needs the I/O gate: ' . $self->sql('SELECT why_not FROM io_gate');
}

# Test: so many reads are held, as soon as that is so.
sub gate_holds
{
	my ($self, $count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found;
	$self->poll(sub { $found = $self->sql('SELECT count(*) FROM io_held'); $found == $count });
	return is($found, $count, $name // "$count reads are held");
}

# Test: these columns of the held reads, as soon as that is so.
sub held_are
{
	my ($self, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found;
	$self->poll(sub { $found = $self->sql("SELECT $columns FROM io_held ORDER BY blockno, pid"); $found eq $expected });
	return is($found, $expected, $name // "held: $columns");
}

# Releases the read that covers a block.
sub release_block
{
	my ($self, $block, $result) = @_;
	$result //= 'NULL';
	return $self->sql("SELECT io_release(pid, io_id, $result) FROM io_held"
		  . " WHERE $block BETWEEN blockno AND blockno + nblocks - 1");
}

# Somebody holds, somebody reads, somebody waits: these three sessions.
sub held_read
{
	my ($self, $table, $hold) = @_;
	my ($controller, $issuer, $waiter) = $self->sessions(qw(controller issuer waiter));
	$controller->sql('SELECT ' . ($hold // "io_hold('$table')"));
	my $event = $hold && $hold =~ /io_device/ ? 'IoDevice' : 'IoGateHeld';
	$issuer->starts("SELECT read_rel_block_ll('$table', 3, nblocks => 4)");
	$issuer->waits_on($event);
	$waiter->starts("SELECT count(*) FROM read_buffers('$table', 4, 1)");
	$waiter->waits_on($event);
	return ($controller, $issuer, $waiter);
}

# Waits until the server is there again, and takes what sessions have said of it.
sub restarted
{
	my ($self) = @_;
	$self->poll(sub { eval { $self->observe; 1 } }) or die "the server does not come back\n";
	$_->wait_for_end->{warnings} = [] for values %{ $self->{sessions} };
	return;
}

# Ends all rules and devices, and releases what is held.
sub end_gate
{
	my ($self) = @_;
	$self->sql('SELECT io_hold_end(), io_fail_end(), io_device_end(), io_release_all()');
	return;
}

1;
