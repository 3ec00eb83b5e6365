# Methods of servers for the I/O trace (doc/trace.md).

package TestAio::Trace;

use v5.36;
use warnings FATAL => 'all';

# Begins a new trace; arguments as in SQL.
sub trace ($self, $arguments)
{
	$self->sql('SELECT io_trace_stop(), io_trace_reset(), io_trace_start(' . ($arguments // '') . ')');
	return;
}

# Ends the trace.
sub end_trace ($self) { $self->sql('SELECT io_trace_stop()'); return }

# Traces a function that reads, in place of what was recorded before.
sub traces_of ($self, $arguments, $function)
{
	$self->trace($arguments);
	$function->();
	$self->end_trace;
	return;
}

# Test: the recorded reads have these columns.
sub traced ($self, $columns, $expected, $name = "traced: $columns")
{
	return $self->gives("SELECT $columns FROM io_trace", $expected, $name);
}

# Test: the recorded reads have these columns, now or soon.
sub comes_to_trace ($self, $columns, $expected, $name = "traced: $columns")
{
	return $self->comes_to_give("SELECT $columns FROM io_trace", $expected, $name);
}

1;
