# Methods of servers for the I/O trace (doc/trace.md).

package TestAio::Trace;

use strict;
use warnings FATAL => 'all';

use Test::More;

# Begins a new trace; arguments as in SQL.
sub trace
{
	my ($self, $arguments) = @_;
	$self->sql('SELECT io_trace_stop(), io_trace_reset(), io_trace_start(' . ($arguments // '') . ')');
	return;
}

# Ends the trace.
sub end_trace { my ($self) = @_; $self->sql('SELECT io_trace_stop()'); return }

# Traces a function that reads, in place of what was recorded before.
sub traces_of
{
	my ($self, $arguments, $function) = @_;
	$self->trace($arguments);
	$function->();
	$self->end_trace;
	return;
}

# Test: the recorded reads have these columns.
sub traced
{
	my ($self, $columns, $expected, $name) = @_;
	return $self->gives("SELECT $columns FROM io_trace", $expected, $name // "traced: $columns");
}

# Test: the recorded reads have these columns, now or soon.
sub comes_to_trace
{
	my ($self, $columns, $expected, $name) = @_;
	my $found;
	$self->poll(sub { $found = $self->sql("SELECT $columns FROM io_trace"); $found eq $expected });
	return is($found, $expected, $name // "traced: $columns");
}

1;
