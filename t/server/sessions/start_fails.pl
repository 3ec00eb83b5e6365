# Servers that cannot start, for lack of file descriptors, of processes or of memory for rings, or
# because of a setting: they log the reason and leave nothing.  Servers with the smallest and the
# largest settings start.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use POSIX ':sys_wait_h';
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Kernel;
use TestAio::Strace;

my $no_strace = no_strace();

# Runs the server with these limits of the shell and these settings until it ends, and stops it if
# it gets ready.  Returns its exit status, -1 if it does not end, and its log.
sub run_once
{
	my ($aio, $limits, @settings) = @_;
	my $node = $aio->node;
	my $log = $node->basedir . '/start.log';
	unlink $log;
	my $child = fork // die "fork: $!";
	if (!$child)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', $log;
		open STDERR, '>&', \*STDOUT;
		exec 'sh', '-c', "$limits exec \"\$\@\"", 'sh', 'postgres', '-D', $node->data_dir, map { ('-c', $_) } @settings or exit 99;
	}
	my ($status, $stopped);
	$aio->poll(sub {
		$status = $? if waitpid($child, WNOHANG) == $child;
		$stopped //= kill 'INT', $child if !defined $status && -s $log && slurp_file($log) =~ /ready to accept connections/;
		defined $status;
	});
	if (!defined $status) { kill 'QUIT', $child; waitpid $child, 0; $status = -1 }
	return ($status, slurp_file($log));
}

# The same, again and again while servers of other tests have all the memory that the user may lock.
sub runs
{
	my ($aio, $limits, @settings) = @_;
	my @outcome;
	$aio->poll(sub { @outcome = run_once($aio, $limits, @settings); $limits =~ /-l/ || $outcome[1] !~ /Cannot allocate memory/ });
	return @outcome;
}

# Calls a function while the server is stopped.
sub while_stopped
{
	my ($aio, $function) = @_;
	ok($aio->stop, 'the server stops');
	$function->();
	$aio->start_again;
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		# what is limited, how, and what is logged
		my $rings = 'FATAL:  could not setup io_uring queue: ';
		my @limits = (
			[ 'file descriptors', 'ulimit -n 60;', $aio->method eq 'io_uring' ? qr/${rings}Too many open files\n.*HINT:  Consider increasing "ulimit -n" to at least \d+/
				: qr/FATAL:  insufficient file descriptors available to start server process/ ],
			# dash and bash name it differently
			[ 'processes', 'ulimit -p 1 2>/dev/null || ulimit -u 1;', qr/LOG:  could not fork .*: Resource temporarily unavailable/ ]);
		if ($aio->method eq 'io_uring' && !$no_strace)
		{
			# strace says it instead of the kernel
			my $without = sub { return "set -- strace -o /dev/null -e trace=io_uring_setup -e inject=io_uring_setup:error=$_[0] \"\$@\";" };
			push @limits, [ 'permission', $without->('EPERM'), qr/${rings}Operation not permitted\n.*HINT:  Check if io_uring is disabled via \/proc\/sys\/kernel\/io_uring_disabled/ ],
			  [ 'of a kernel', $without->('ENOSYS'), qr/${rings}Function not implemented\n.*HINT:  The kernel does not support io_uring/ ];
		}
		push @limits, [ 'memory for rings', 'ulimit -l 16;', qr/${rings}Cannot allocate memory/ ] if $aio->method eq 'io_uring';
		for my $limit (@limits)
		{
			my ($what, $ulimit, $reason) = @$limit;
			$aio->scenario("not enough $what", sub {
				my $t = $aio->table('t', 40);
				while_stopped($aio, sub {
					my ($status, $log) = runs($aio, $ulimit, 'max_files_per_process=64');
				  SKIP: {
						skip 'kernels before 6.15 may not limit the memory of rings', 4 if $what =~ /memory/ && kernel_version() < 6.015 && $log =~ /ready to accept connections/;
						isnt($status, 0, 'the server does not start');
						isnt($status, -1, 'it ends');
						like($log, $reason, 'it logs the reason') || diag($log);
						if ($log =~ /DETAIL:  System allows (\d+), server needs at least (\d+), (\d+) files are already open/)
						{
							ok($1 + $3 == 60 && $1 < $2, "$1 descriptors, and $3 in use, are what is allowed, and $2 would do");
						}
						unlike($log, qr/TRAP|PANIC|terminated by signal/, 'it does not crash');
					}
					ok(!-e $aio->node->data_dir . '/postmaster.pid', 'no postmaster.pid is left');
				});
				$aio->proves($t);
			});
		}

		# the rings take descriptors, and files need some more
		$aio->scenario('as many file descriptors as the hint says', sub {
			my $t = $aio->table('t', 40);
			while_stopped($aio, sub {
				my ($hint) = (runs($aio, 'ulimit -n 60;', 'max_files_per_process=100'))[1] =~ /HINT:  Consider increasing "ulimit -n" to at least (\d+)/;
				cmp_ok($hint // 0, '>', 130, 'a hint') or return;
				my ($status, $log) = runs($aio, "ulimit -n ${\($hint - 100 + 30)};", 'max_files_per_process=100');
				isnt($status, 0, 'enough for the rings: the server does not start');
				like($log, qr/FATAL:  insufficient file descriptors available to start server process/, 'it logs the reason') || diag($log);
				($status, $log) = runs($aio, "ulimit -n $hint;", 'max_files_per_process=100');
				is($status, 0, 'enough for all: the server starts, and stops when told to');
				like($log, qr/ready to accept connections/, 'it is ready') || diag($log);
			});
			$aio->proves($t);
		}, skip => $aio->method eq 'io_uring' ? undef : 'needs io_uring');

		my %settings = (
			'io_max_concurrency=0' => qr/0 is outside the valid range|invalid value for parameter "io_max_concurrency"/i,
			'io_max_concurrency=1025' => qr/1025 is outside the valid range for parameter "io_max_concurrency" \(-1 \.\. 1024\)/,
			'io_max_concurrency=-2' => qr/-2 is outside the valid range for parameter "io_max_concurrency"/,
			'io_combine_limit=129' => qr/129.* is outside the valid range for parameter "io_combine_limit"/,
			'io_max_combine_limit=0' => qr/0.* is outside the valid range for parameter "io_max_combine_limit"/,
			'io_method=none' => qr/invalid value for parameter "io_method": "none"/,
			'effective_io_concurrency=1001' => qr/1001 is outside the valid range for parameter "effective_io_concurrency"/,
			($aio->major < 19 ? 'io_workers=33' : 'io_max_workers=33') => qr/33 is outside the valid range for parameter "io_(?:max_)?workers"/);
		$aio->scenario('settings that are out of range', sub {
			while_stopped($aio, sub {
				for my $setting (sort keys %settings)
				{
					my ($status, $log) = runs($aio, '', $setting);
					isnt($status, 0, "$setting: the server does not start");
					like($log, $settings{$setting}, 'the server logs the reason');
				}
			});
		}, skip => $aio->repeats ? 'the same with each io_method' : undef);

		$aio->scenario('the largest and the smallest settings', sub {
			my $t = $aio->table('t', 40);
			while_stopped($aio, sub {});
			for my $concurrency (1, 1024)
			{
				my $most = $concurrency == 1 ? 4 : 128;
				$aio->sql("ALTER SYSTEM SET io_max_concurrency = $concurrency; ALTER SYSTEM SET io_combine_limit = 32; ALTER SYSTEM SET io_max_combine_limit = $most");
				while_stopped($aio, sub {});
				$aio->gives('SHOW io_max_concurrency', $concurrency, 'the setting');
				my ($alice) = $aio->sessions('alice');
				# a limit beyond the maximum has no effect
				my $read = "SELECT count(*) FROM read_buffers('$t', 0, 32)";
				$alice->sql($read);
				$aio->evict($t);
				is($aio->io_during($alice, 'relation/normal', sub { $alice->sql($read) }) =~ s{/.*}{}r, $most < 32 ? 32 / $most : 1, "io_max_combine_limit = $most: reads of 32 blocks");
				$aio->evict($t);
				$alice->sql('SET effective_io_concurrency = 1000; SET io_combine_limit = 1');
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 40 FROM generate_series(0, 79) i))", 80, "io_max_concurrency = $concurrency");
				$aio->proves($t);
				$aio->end_sessions;
			}
			$aio->sql('ALTER SYSTEM RESET ALL; ALTER SYSTEM SET io_max_concurrency = -1');
			while_stopped($aio, sub {});
			$aio->gives("SELECT current_setting('io_max_concurrency')::int BETWEEN 1 AND 64", 't', 'io_max_concurrency = -1: as many as the buffers allow');
			$aio->sql('ALTER SYSTEM RESET ALL');
			while_stopped($aio, sub {});
		}, skip => $aio->repeats ? 'the same with each io_method' : undef);
	});
