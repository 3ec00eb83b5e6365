# What the kernel and its file systems can do, and what processes have open and show.

package TestAio::Kernel;

use v5.36;
use warnings FATAL => 'all';

use Config;
use Exporter 'import';
use File::Temp ();
use POSIX ();
use Test::More;

our @EXPORT = qw(kernel_version directory_that_reads_at_once descriptors title start_program while_stopped while_still);

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

# Calls a function while a server is stopped.
sub while_stopped ($aio, $function = sub { })
{
	ok($aio->stop, 'the server stops');
	$function->();
	$aio->start_again;
	return;
}

# Calls a function while a process stands still, by SIGSTOP.
sub while_still ($pid, $function)
{
	kill 'STOP', $pid;
	my $lived = eval { $function->(); 1 };
	my $error = $@;
	kill 'CONT', $pid;
	die $error if !$lived;
	return;
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

1;
