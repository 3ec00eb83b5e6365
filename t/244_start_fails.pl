# Servers that cannot start, for want of file descriptors or by their settings: the reason is
# logged, nothing is left running, and with enough of what was wanting they start.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use Time::HiRes qw(sleep);
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;

# Runs the server with these limits and settings until it ends.  Returns its exit status and log.
sub runs
{
	my ($aio, $limits, @settings) = @_;
	my $node = $aio->node;
	my $log = $node->basedir . '/start.log';
	my $child = fork // die "fork: $!";
	if (!$child)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', $log;
		open STDERR, '>&', \*STDOUT;
		exec 'sh', '-c', "$limits exec \"\$\@\"", 'sh', 'postgres', '-D', $node->data_dir, map { ('-c', $_) } @settings or exit 99;
	}
	my $status;
	for (1 .. 100 * $aio->timeout)
	{
		if (waitpid($child, 1) == $child) { $status = $?; last }
		sleep 0.01;
	}
	if (!defined $status) { kill 'QUIT', $child; waitpid $child, 0; $status = -1 }
	return ($status, slurp_file($log));
}

# Stops the server for a while.
sub while_stopped
{
	my ($aio, $function) = @_;
	ok($aio->stop, 'the server stops');
	$function->();
	$aio->launch->wait_until_ready;
	$aio->observe;
	$aio->note_abilities;
	$aio->note_state;
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('too few file descriptors for the rings', sub {
			my $t = $aio->table('t', 40);
			while_stopped($aio, sub {
				my ($status, $log) = runs($aio, 'ulimit -n 60;', 'max_files_per_process=64');
				isnt($status, 0, 'it does not start');
				isnt($status, -1, 'and ends');
				like($log, qr/FATAL: .*(?:could not setup io_uring queue: Too many open files|insufficient file descriptors available to start server process|not enough)/i, 'it says why') || diag($log);
				unlike($log, qr/TRAP|PANIC|terminated by signal/, 'in order');
				ok(!-e $aio->node->data_dir . '/postmaster.pid', 'nothing is left');
			});
			$aio->proves($t);
		}, skip => $aio->method ne 'io_uring' ? 'needs rings' : undef);

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
					isnt($status, 0, "$setting: it does not start");
					like($log, $settings{$setting}, 'it says why');
				}
			});
		}, skip => $aio->method eq 'sync' ? undef : 'the same with each io_method');

		# at the edge
		$aio->scenario('the largest and the smallest settings', sub {
			my $t = $aio->table('t', 40);
			while_stopped($aio, sub {});
			for my $concurrency (1, 1024)
			{
				$aio->sql("ALTER SYSTEM SET io_max_concurrency = $concurrency");
				while_stopped($aio, sub {});
				$aio->gives('SHOW io_max_concurrency', $concurrency, 'as wanted');
				my ($alice) = $aio->sessions('alice');
				$aio->evict($t);
				$alice->sql('SET effective_io_concurrency = 1000; SET io_combine_limit = 1');
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 40 FROM generate_series(0, 79) i))", 80, "io_max_concurrency = $concurrency");
				$aio->proves($t);
				$aio->end_sessions;
			}
			$aio->sql('ALTER SYSTEM RESET io_max_concurrency');
			while_stopped($aio, sub {});
		}, skip => $aio->method eq 'worker' ? undef : 'the same with each io_method');
	}, conf => { shared_buffers => '16MB' });
