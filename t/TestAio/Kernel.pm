package TestAio::Kernel;

=head1 NAME

TestAio::Kernel - what processes have open and show, and ask of the kernel, as strace shows it

=head1 SYNOPSIS

	my @read = blocks_of('read', system_calls($aio, $alice, $t, "SELECT read_rel_block_ll('$t', 3)"));
	my @data_files = descriptors($alice->pid, qr{/base/});
	while_still($alice->pid, sub { like(title($alice->pid), qr/^postgres: /, 'what ps shows') });

=cut

use v5.36;
use warnings FATAL => 'all';

use Config;
use Exporter 'import';
use File::Temp ();
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

our @EXPORT = (qw(kernel_version directory_that_reads_at_once descriptors title start_program ends_at_start while_stopped while_still while_away),
	qw(no_strace watch unwatch system_calls written_by_checkpoint blocks_of while_stopped_in wait_event_at while_interrupted while_injected calls_of at_end_of_file));

# Returns the links /proc/PID/fd/N of a process that lead to paths that match.
sub descriptors ($pid, $path) { return grep { (readlink($_) // '') =~ $path } glob "/proc/$pid/fd/*" }

# Returns what ps shows of a process, or undef if it has gone.
sub title ($pid)
{
	open my $file, '<', "/proc/$pid/cmdline" or return;
	local $/;
	return (<$file> // '') =~ tr/\0/ /r;
}

# Starts a program, and returns its process id.  What it prints goes to a file.
sub start_program ($output, @command)
{
	my $child = fork // die "fork: $!";
	return $child if $child;
	open STDIN, '<', '/dev/null' or exit 99;
	open STDOUT, '>', $output or exit 99;
	open STDERR, '>&', \*STDOUT or exit 99;
	exec @command or exit 99;
}

# Starts a server that is to end by itself, with these arguments and a log of its own.  Returns the log.
sub ends_at_start ($aio, @arguments)
{
	my $log = $aio->node->basedir . '/start.log';
	my $child = start_program($log, 'postgres', '-D', $aio->node->data_dir, @arguments);
	my $ended;
	ok($aio->poll(sub { $ended ||= waitpid($child, POSIX::WNOHANG) == $child }), 'the server ends');
	kill('INT', $child) && waitpid $child, 0 if !$ended;
	return slurp_file($log);
}

# Calls a function while a server is stopped.
sub while_stopped ($aio, $function = sub { })
{
	ok($aio->stop, 'the server stops');
	$function->();
	$aio->start_again;
	return;
}

# Calls a function, and then another one, even if the first one dies.
sub _and_then ($function, $then)
{
	my $lived = eval { $function->(); 1 };
	my $error = $@;
	$then->();
	die $error if !$lived;
	return;
}

# Calls a function while processes stand still, by SIGSTOP.
sub while_still (@pids)
{
	my $function = pop @pids;
	kill 'STOP', @pids;
	return _and_then($function, sub { kill 'CONT', @pids });
}

# Calls a function while a file is away, with a link to another one in its place if that is given.
sub while_away ($file, $function, $instead = undef)
{
	rename $file, "$file.away" or die "$file: $!";
	symlink $instead, $file or die "$file: $!" if $instead;
	return _and_then($function, sub { rename "$file.away", $file or die "$file: $!" });
}

# Returns the version of the kernel as a number that compares: 5.012 for 5.12.
sub kernel_version { return sprintf '%d.%03d', (POSIX::uname())[2] =~ /^(\d+)\.(\d+)/ }

# Returns true if the file system returns cached data at once.  One that does not know
# RWF_NOWAIT cannot, and io_uring has a kernel thread read.
sub _reads_at_once ($path)
{
	return 0 if $Config{archname} !~ /^x86_64-linux/;
	my ($preadv2, $rwf_nowait, $buffer) = (327, 8, "\0" x 8192);
	open my $file, '<', $path or die "$path: $!";
	my $iov = pack 'P8192 Q', $buffer, length $buffer;
	return syscall($preadv2, fileno $file, $iov, 1, 0, 0, $rwf_nowait) == length $buffer;
}

# Returns a new directory on a file system that returns cached data at once, or undef.  The directory
# goes with the object that is returned.
sub directory_that_reads_at_once
{
	for my $parent (grep { defined && -w } @ENV{qw(TESTDATADIR TESTLOGDIR)}, '/tmp', '/var/tmp')
	{
		my $directory = File::Temp->newdir(DIR => $parent);
		open my $probe, '>', "$directory/probe" or die "$directory/probe: $!";
		print $probe "\0" x 8192;
		close $probe or die "$directory/probe: $!";
		my $does = _reads_at_once("$directory/probe");
		unlink "$directory/probe";
		return $directory if $does;
	}
	return;
}

# Standard error of each strace that runs, which it must be able to write to.
my %messages;

# Attaches strace to a process.  Returns the process id of strace, or undef if it cannot attach.
sub _attach ($pid, @options)
{
	pipe my $messages, my $stderr or die "pipe: $!";
	my $tracer = fork // die "fork: $!";
	if (!$tracer)
	{
		open STDERR, '>&', $stderr or exit 1;
		exec 'strace', @options, '-p', $pid or exit 1;
	}
	close $stderr;
	$messages{$tracer} = $messages;
	# it says so when the process has stopped for it: no system call passes unseen any more
	while (my $line = <$messages>)
	{
		return $tracer if $line =~ /Process $pid attached/;
	}
	waitpid $tracer, 0;
	delete $messages{$tracer};
	return;
}

sub _detach ($tracer)
{
	kill 'TERM', $tracer;
	waitpid $tracer, 0;
	delete $messages{$tracer};
	return;
}

# Returns why this user cannot trace processes, or undef.
sub no_strace
{
	return 'needs strace' if system('strace -V >/dev/null 2>&1') != 0;
	my $child = fork // die "fork: $!";
	if (!$child) { exec 'sleep', '60' or exit 1 }
	my $tracer = _attach($child, '-o', '/dev/null');
	_detach($tracer) if $tracer;
	kill 'KILL', $child;
	waitpid $child, 0;
	return $tracer ? undef : 'strace may not attach to processes here (kernel.yama.ptrace_scope, or the container)';
}

# Has strace write the system calls of these kinds that a process does, to a file, until the process ends.
sub watch ($pid, $kinds, $file) { return _attach($pid, '-y', '-o', $file, '-e', "trace=$kinds") // die "strace does not attach\n" }

sub unwatch (@tracers) { _detach($_) for @tracers; return }

# Returns the system calls of these kinds that a process does while a function runs, as lines with
# the paths of files.  A question mark before a kind: not every architecture has it.
sub calls_of ($aio, $pid, $kinds, $function)
{
	my $log = $aio->node->basedir . "/strace.$pid";
	_while_strace($pid, $log, $function, '-y', '-e', "trace=$kinds");
	# a call that a signal has interrupted comes again
	return grep { !/= (?:-1 EINTR|\? ERESTART)/ } split /^/, slurp_file($log);
}

# Returns the reads and the advice (POSIX_FADV_WILLNEED) about a table that a session gives the
# kernel while it runs a statement, as ["read" or "advice", first block, number of blocks].
sub system_calls ($aio, $session, $table, $sql)
{
	my $file = $session->sql("SELECT pg_relation_filepath('$table')");
	my @calls;
	for my $line (calls_of($aio, $session->pid, 'fadvise64,pread64,preadv', sub { $session->sql($sql) }))
	{
		next if $line !~ /\Q$file\E(?![0-9_])/;
		if ($line =~ /^fadvise64\([^,]*, (\d+), (\d+), POSIX_FADV_WILLNEED\)/) { push @calls, [ 'advice', $1 / 8192, $2 / 8192 ] }
		# strace does not show the sum of the vectors' lengths; the call returns it
		elsif ($line =~ /^pread(?:64|v)\(.*, (\d+)\)\s+= (\d+)$/) { push @calls, [ 'read', $1 / 8192, $2 / 8192 ] }
		else { die "strace says: $line" }
	}
	return @calls;
}

# Returns what the checkpointer does with the files of a table at a checkpoint, as a hash for each file:
#	written			the blocks that it writes, in ascending order
#	written_back	the blocks that it asks to be written back (sync_file_range), likewise
#	requests		these requests in their order, as first block + number of blocks
#	synced			"synced" if it syncs the file
sub written_by_checkpoint ($aio, $table)
{
	my $file = $aio->sql("SELECT pg_relation_filepath('$table')");
	my %done;
	for my $line (calls_of($aio, $aio->pids_of_type('checkpointer'), 'pwrite64,pwritev,?sync_file_range,?sync_file_range2,fsync,fdatasync', sub { $aio->sql('CHECKPOINT') }))
	{
		my ($call, $name) = $line =~ m{^(\w+)\(\d+<[^>]*/\Q$file\E((?:\.\d+)?)>} or next;
		my $of_file = $done{$name} //= { written => {}, written_back => {}, requests => [], synced => '' };
		if ($line =~ /^pwrite(?:64|v)\(.*, (\d+)\)\s+= (\d+)$/) { $of_file->{written}{$_} = 1 for $1 / 8192 .. ($1 + $2) / 8192 - 1 }
		# sync_file_range2() has its flags in another place
		elsif ($line =~ /^sync_file_range2?\([^,]*, (?:SYNC_FILE_RANGE_WRITE, )?(\d+), (\d+)(?:, SYNC_FILE_RANGE_WRITE)?\)\s+= 0$/)
		{
			push @{ $of_file->{requests} }, $1 / 8192 . '+' . $2 / 8192;
			$of_file->{written_back}{$_} = 1 for $1 / 8192 .. ($1 + $2) / 8192 - 1;
		}
		elsif ($line =~ /^f(?:data)?sync\([^,]*\)\s+= 0$/) { $of_file->{synced} = 'synced' }
		else { die "strace says: $line" }
	}
	my $blocks = sub ($set) { return join ',', sort { $a <=> $b } keys %$set };
	for my $of_file (values %done)
	{
		$of_file->{$_} = $blocks->($of_file->{$_}) for qw(written written_back);
		$of_file->{requests} = join ' ', @{ $of_file->{requests} };
	}
	return \%done;
}

# Has a session run a statement and stop, by SIGSTOP, in a system call of these kinds: the first one, or the one with
# "number", of all or of those for a file.  With "pid", that process stops.  Runs a function when another one says that
# the process is there, and lets it go on.  Returns whether it was there.
sub while_stopped_in ($aio, $session, $calls, $path, $sql, $is_there, $function, %which)
{
	my ($pid, $number) = ($which{pid} // $session->pid, $which{number} // 1);
	my @path = defined $path ? ('-P', $path) : ();
	my $log = $aio->node->basedir . "/strace.$pid";
	my $tracer = _attach($pid, '-o', $log, @path, '-e', "trace=$calls", '-e', "inject=$calls:signal=SIGSTOP:when=$number") // die "strace does not attach\n";
	$session->starts($sql);
	my ($there, $error);
	eval {
		$there = $aio->poll(sub { $session->has_ended || slurp_file($log) =~ /stopped by SIGSTOP/ && $is_there->() }) && !$session->has_ended;
		# a signal that comes while strace ends may be lost
		_detach($tracer);
		$function->() if $there;
		1;
	} or $error = $@;
	_detach($tracer) if $messages{$tracer};
	kill 'CONT', $pid;
	die $error if defined $error;
	return $there;
}

# The same, for the first call.  Returns whether the process gets there with this wait event.
sub wait_event_at ($aio, $session, $call, $event, $sql, $path = undef, $pid = $session->pid)
{
	my $seen = while_stopped_in($aio, $session, $call, $path, $sql, sub { $aio->wait_event($pid) eq $event }, sub { }, pid => $pid);
	$session->ends($call);
	return $seen;
}

# Runs a function while every second system call of these kinds that a session makes fails with EINTR.
# Returns two arrays of lines: failed calls, and the others.
sub while_interrupted ($aio, $session, $calls, $function)
{
	my $log = $aio->node->basedir . '/strace.' . $session->pid;
	_while_strace($session->pid, $log, $function, '-e', "trace=$calls", '-e', "inject=$calls:error=EINTR:when=1+2");
	my @lines = split /\n/, slurp_file($log);
	return ([ grep { /EINTR/ } @lines ], [ grep { !/EINTR/ } @lines ]);
}

# Runs a function while strace does this to system calls of a process: "ftruncate:error=EIO".  With a path,
# to those for that file.
sub while_injected ($pid, $inject, $path, $function)
{
	my ($calls) = split /:/, $inject;
	return _while_strace($pid, '/dev/null', $function, (defined $path ? ('-P', $path) : ()), '-e', "trace=$calls", '-e', "inject=$inject");
}

# Runs a function while each read of a table by a session finds the end of the file.
sub at_end_of_file ($aio, $session, $table, $function)
{
	return _while_strace($session->pid, '/dev/null', $function, '-P', $aio->file_of($table), '-e', 'trace=pread64,preadv', '-e', 'inject=pread64,preadv:retval=0');
}

# Runs a function while strace, with these options, looks at a process and writes its lines to a file.
sub _while_strace ($pid, $file, $function, @options)
{
	my $tracer = _attach($pid, '-o', $file, @options) // die "strace does not attach\n";
	return _and_then($function, sub { _detach($tracer) });
}

# Returns the blocks of the calls of one kind, in order.
sub blocks_of ($kind, @calls) { return map { $_->[1] .. $_->[1] + $_->[2] - 1 } grep { $_->[0] eq $kind } @calls }

1;
