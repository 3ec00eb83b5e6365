# What a session asks of the kernel about the blocks of a table, as strace shows it.

package TestAio::Strace;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep);

our @EXPORT = qw(no_strace system_calls blocks_of wait_event_at raises_at_end_of_file);

# Attaches strace to a process.  Returns the process id of strace at once.
sub _attach
{
	my ($pid, @options) = @_;
	my $tracer = fork // die "fork: $!";
	return $tracer if $tracer;
	open STDERR, '>', '/dev/null';
	exec 'strace', @options, '-p', $pid or exit 1;
}

sub _detach { my ($tracer) = @_; kill 'TERM', $tracer; waitpid $tracer, 0; return }

# Returns the process that traces a process, or 0.
sub _tracer_of
{
	my ($pid) = @_;
	open my $fh, '<', "/proc/$pid/status" or return 0;
	my ($tracer) = map { /^TracerPid:\s*(\d+)/ } <$fh>;
	return $tracer // 0;
}

# Returns why this user cannot trace processes, or undef.
sub no_strace
{
	return 'needs strace' if system('strace -V >/dev/null 2>&1') != 0;
	my $child = fork // die "fork: $!";
	if (!$child) { exec 'sleep', '60' or exit 1 }
	my $tracer = _attach($child, '-o', '/dev/null');
	my $attached;
	# if strace may not attach, it ends
	for (1 .. 6000)
	{
		$attached = _tracer_of($child);
		last if $attached || waitpid($tracer, WNOHANG) == $tracer;
		sleep 0.01;
	}
	_detach($tracer);
	kill 'KILL', $child;
	waitpid $child, 0;
	return $attached ? undef : 'strace may not attach to processes here (kernel.yama.ptrace_scope, or the container)';
}

# Returns the reads and the advice (POSIX_FADV_WILLNEED) about a table that a session gives the
# kernel while it runs a statement, as ["read" or "advice", first block, number of blocks].
sub system_calls
{
	my ($aio, $session, $table, $sql) = @_;
	my $pid = $session->pid;
	my $log = $aio->node->basedir . "/strace.$pid";
	my $file = $aio->sql("SELECT pg_relation_filepath('$table')");
	my $tracer = _attach($pid, '-y', '-e', 'trace=fadvise64,pread64,preadv', '-o', $log);
	$aio->poll(sub { _tracer_of($pid) == $tracer }) or die "strace does not attach\n";
	$session->sql($sql);
	_detach($tracer);
	open my $fh, '<', $log or die "$log: $!";
	my @calls;
	while (my $line = <$fh>)
	{
		next if $line !~ /\Q$file\E(?![0-9_])/;
		if ($line =~ /^fadvise64\([^,]*, (\d+), (\d+), POSIX_FADV_WILLNEED\)/) { push @calls, [ 'advice', $1 / 8192, $2 / 8192 ] }
		# strace does not show the sum of the vectors' lengths; the call returns it
		elsif ($line =~ /^pread(?:64|v)\(.*, (\d+)\)\s+= (\d+)$/) { push @calls, [ 'read', $1 / 8192, $2 / 8192 ] }
		else { die "strace says: $line" }
	}
	close $fh;
	return @calls;
}

# Has a session run a statement and stop, by SIGSTOP, in the first system call of this kind.  Returns
# whether it gets there with this wait event.
sub wait_event_at
{
	my ($aio, $session, $call, $event, $sql) = @_;
	my $pid = $session->pid;
	my $tracer = _attach($pid, '-o', '/dev/null', '-e', "trace=$call", '-e', "inject=$call:signal=SIGSTOP:when=1");
	$aio->poll(sub { _tracer_of($pid) == $tracer }) or die "strace does not attach\n";
	$session->starts($sql);
	my $seen = $aio->poll(sub { $session->has_ended || $aio->wait_event($pid) eq $event }) && !$session->has_ended;
	_detach($tracer);
	kill 'CONT', $pid;
	$session->ends($call);
	return $seen;
}

# Test: a session's statement raises an error if its reads of a table find the end of the file.
sub raises_at_end_of_file
{
	my ($aio, $session, $table, $sql, $pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $pid = $session->pid;
	my $tracer = _attach($pid, '-o', '/dev/null', '-P', $aio->file_of($table), '-e', 'trace=pread64,preadv', '-e', 'inject=pread64,preadv:retval=0');
	$aio->poll(sub { _tracer_of($pid) == $tracer }) or die "strace does not attach\n";
	$session->fails($sql, 'XX001', $pattern, $name);
	_detach($tracer);
	return;
}

# Returns the blocks of the calls of one kind, in order.
sub blocks_of { my ($kind, @calls) = @_; return map { $_->[1] .. $_->[1] + $_->[2] - 1 } grep { $_->[0] eq $kind } @calls }

1;
