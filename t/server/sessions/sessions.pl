# Sessions that end or are interrupted while they read; the single user; servers that cannot start.
use TestAio;
use IPC::Run;
use POSIX ':sys_wait_h';
use PostgreSQL::Test::Utils qw(slurp_file);

# Statements, transactions, sessions and temporary tables that end while reads are in flight.  A local buffer must not
# be used again before the read into it has ended (InvalidateLocalBuffer).
with_each_io_method('sync; long: all', sub {
	my $sync = $aio->method eq 'sync';

	# without faults, at any point
	$aio->scenario('cancelled at any time', with('alice', 120, sub ($alice, $t) {
		# works for minutes: it names i, so it runs again for each i
		my $reads = "SELECT count(*) FROM generate_series(1, 100000) i, LATERAL (SELECT count(*) FROM evict_rel(CASE WHEN i > 0 THEN '$t'::regclass END),"
		  . " read_stream_for_blocks('$t', ARRAY(SELECT (i * 7 + j * 13) % 120 FROM generate_series(0, 59) j))) r";
		for my $round (1 .. 3)
		{
			$aio->evict($t);
			$alice->starts($reads)->wait_until_active;
			# pg_aios may never show a short read; the cancel is sent all the same
			$aio->poll(sub { $aio->sql("SELECT count(*) > 0 FROM pg_aios WHERE pid = ${\$alice->pid}") eq 't' }, 2) if !$sync && $round > 1;
			$aio->cancels($alice, "round $round");
		}
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", 120, 'reads');
	}));

	# A message in the log is a point at which a session ends what it does: the first, the second, and so on.
	$aio->scenario('cancelled at each debug message', with('alice', 20, sub ($alice, $t) {
		my $read = "SELECT count(*) FROM read_stream_for_blocks('$t', '{0,1,2,10,11,19}')";
		$alice->sql($read);
		my ($messages, $end) = (0, 57014);
		while ($end eq 57014 && $messages < 300)
		{
			$messages++;
			$aio->evict($t);
			$alice->sql('SET log_min_messages = debug5');
			while_injected($alice->pid, "write:signal=SIGINT:when=$messages", undef, sub { $alice->starts($read)->wait_for_end });
			$end = $alice->error ? $alice->error->{sqlstate} : $alice->result;
			$alice->sql('SET log_min_messages = warning');
		}
		is($end, 6, "cancelled at each of $messages messages, then at none");
		$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'COMPLETED_SHARED'", 0, 'no handle is lost');
	}), skip => only_long() // no_strace());

	$aio->scenario('%s, with reads under way, %s', with_kind('alice', 40, sub ($alice, $t, $, $how) {
		$alice->sql('BEGIN; SAVEPOINT s');
		$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
		$alice->sql($how);
		$alice->sql('COMMIT') if $how =~ / s/;
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads');
	}), each => [ combined([ '', 'TEMP' ], [ 'ROLLBACK TO s', 'ROLLBACK', 'COMMIT', 'RELEASE s' ]) ]);

	# a temporary table cannot be dropped while its session still writes to its memory
	$aio->scenario('exit with reads of a temporary table', with('alice', 40, kind => 'TEMP', sub ($alice, $t) {
		$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
		$aio->end_session($alice);
		my ($bob) = $aio->sessions('bob');
		my $u = $aio->table('u', 40, kind => 'TEMP', session => $bob);
		$bob->sql("SELECT read_rel_block_ll('$u', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b; DROP TABLE u");
		$bob->gives('SELECT 1', 1, 'lives');
	}));

	# the last two truncate the file in place while it is read
	$aio->scenario('%s, %s; %s', with('alice', sub ($alice, $begin, $options, $end) {
		$alice->sql("SET temp_buffers = 100; $begin");
		$alice->sql("CREATE TEMP TABLE gone (i int) $options; SELECT grow_rel('gone', 60); SELECT evict_rel('gone')");
		$alice->sql("SELECT read_rel_block_ll('gone', b, nblocks => 4, wait_complete => false) FROM generate_series(0, 56, 4) b");
		$alice->sql($_) for split /; /, $end;
		# uses all local buffers again
		$aio->is_as_written($aio->table('t', 120, kind => 'TEMP', session => $alice), session => $alice);
	}), each => [ [ '', '', 'DROP TABLE gone' ], [ '', '', 'TRUNCATE gone' ], [ '', '', 'DISCARD TEMP' ], [ 'BEGIN', '', 'ROLLBACK' ],
		[ 'BEGIN', '', 'TRUNCATE gone; COMMIT' ], [ 'BEGIN', 'ON COMMIT DELETE ROWS', 'COMMIT' ] ]);
});

# A session is cancelled or terminated at each place where it may wait for a read.  I/O workers
# hold the read, so that its owner can be interrupted.
with_each_io_method('worker', sub {
	# statements that wait, by what they wait for
	my %waits = (
		'its own read' => sub ($alice, $bob, $t) { $alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)") },
		'its own stream' => sub ($alice, $bob, $t) { $alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 38, 2)))") },
		'its own scan' => sub ($alice, $bob, $t) { $alice->starts("SELECT count(*) FROM $t") },
		'the read of another' => sub ($alice, $bob, $t) {
			$bob->starts("SELECT read_rel_block_ll('$t', 0, nblocks => 16)");
			$aio->at_completion_wait(1, 'the other is held');
			$alice->starts("SELECT count(*) FROM read_buffers('$t', 0, 20)");
	});
	my %ends = (
		'pg_cancel_backend' => [ '57014', qr/canceling statement due to user request/ ],
		'pg_terminate_backend' => [ '57P01', qr/terminating connection due to administrator command/ ]);

	$aio->scenario('%s while it waits for %s', with('alice bob', 40, sub ($alice, $bob, $t, $end, $wait) {
		my $others = $wait =~ /another/;
		$alice->sql('SELECT count(*) FROM pg_class');
		$aio->read_in_workers($t, sub { $waits{$wait}->($alice, $bob, $t); return $others ? ($alice, $bob) : $alice },
			completion_wait => relation => $t, pid => ($others ? $bob : $alice)->pid);
		$alice->waits_on('AioIoCompletion');
		$aio->sql("SELECT $end(${\$alice->pid})");
		if ($end eq 'pg_terminate_backend' && !$others)
		{
			# a session exits after its reads have ended
			$aio->wait_for("SELECT count(*) > 0 FROM pg_aios WHERE pid = ${\$alice->pid}");
			$aio->completion_continue;
		}
		$alice->raises(@{ $ends{$end} }, $end);
		$aio->completion_continue;
		$bob->wait_for_end;
		is($bob->error, undef, 'the other has no error');
		$end eq 'pg_terminate_backend' ? $alice->quit : $alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads later');
	}), each => [ combined([ sort keys %ends ], [ sort keys %waits ]) ], log => $aio->terminated('alice'), skip => $aio->no_faults);
});

# Single-user mode: there are no I/O workers, no other session, and no gate.

with_each_io_method('worker; long: all', sub {
	my $answer = sub ($value, $from) { return "SELECT $value AS answer" . ($from ? " FROM $from" : '') };
	my $all = "ARRAY(SELECT generate_series(0, 39))";

	$aio->scenario('reads, and the gate', with('', 40, sub ($t) {
		ok($aio->stop, 'the server stops');
		my @calls = $aio->lacks('gate') ? () : ("io_hold('$t')", "io_fail('$t', -5)", "io_device(NULL, '1 ms', everybody => true)");
		my $input = join '', map { "$_\n" } "SELECT evict_rel('$t')", $answer->('count(*)', "read_stream_for_blocks('$t', $all)"),
		  $answer->('sum(nblocks)', "read_buffers('$t', 0, 40) WHERE NOT io_reqd"),
		  "SELECT evict_rel('$t')", 'CREATE DATABASE d TEMPLATE postgres', 'DROP DATABASE d', "SELECT read_rel_block_ll('$t', 3, nblocks => 4)", $answer->('sum(nblocks)', "read_buffers('$t', 3, 4) WHERE NOT io_reqd"),
		  (map { "SELECT $_" } @calls), "SELECT evict_rel('$t')", $answer->('count(*)', "problems('$t')"), $answer->('count(*)', 'pg_aios'), $answer->("current_setting('io_max_concurrency')::int BETWEEN 1 AND 64", '');
		my ($output, $log);
		# other servers of this user may have all of the locked memory for rings
		$aio->poll(sub {
			IPC::Run::run([ 'postgres', '--single', '-F', '-D', $aio->node->data_dir, '-c', 'log_min_messages=warning', '-c', 'io_max_concurrency=-1', 'postgres' ], \$input, \$output, \$log,
				IPC::Run::timeout($TestAio::Oracles::settle * 3));
			return $log !~ /could not setup io_uring queue: Cannot allocate memory/;
		});
		is($?, 0, 'it ends');
		is(join(' ', $output =~ /answer = "([^"]*)"/g), '40 40 4 0 0 t', 'streams, operations, single reads after barriers, no problem with the rows, no handle in use, and as many as the buffers allow') || diag($log);
		is($log =~ s/ERROR:  .*\n(?=.*DETAIL:  The reason is that the server runs in single-user mode\.\n)//g || 0, @calls, 'nothing can be held, failed or delayed') || diag($log);
		unlike($log, qr/WARNING|ERROR|FATAL|PANIC|TRAP/, 'nothing else is alarming in its log');
		$aio->start_again;
	}));
}, leaves => 'nothing');

# Servers that cannot start, for lack of file descriptors, of processes or of memory for rings, or because of a
# setting: they log the reason and leave nothing.
my $no_strace = no_strace();

# Runs the server with these limits of the shell and these settings until it ends, and stops it if it gets ready; again
# and again while servers of other tests have all the memory that the user may lock.  Returns its exit status, and its log.
sub runs ($aio, $limits, @settings)
{
	my ($log, $status) = $aio->node->basedir . '/start.log';
	$aio->poll(sub {
		unlink $log;
		my $child = start_program($log, 'sh', '-c', "$limits exec \"\$\@\"", 'sh', 'postgres', '-D', $aio->node->data_dir, map { ('-c', $_) } @settings);
		($status, my $stopped) = ();
		$aio->poll(sub {
			$status = $? if waitpid($child, WNOHANG) == $child;
			$stopped //= kill 'INT', $child if !defined $status && -s $log && slurp_file($log) =~ /ready to accept connections/;
			defined $status;
		}) or kill('QUIT', $child), waitpid($child, 0), fail('the server ends');
		return $limits =~ /-l/ || slurp_file($log) !~ /Cannot allocate memory/;
	});
	return ($status, slurp_file($log));
}

for_each_io_method('io_uring; long: all', sub {
	# what is limited, how, and what is logged
	my $rings = 'FATAL:  could not setup io_uring queue: ';
	my @limits = (
		[ 'file descriptors', 'ulimit -n 60;', $aio->method eq 'io_uring' ? qr/${rings}Too many open files\n.*HINT:  Consider increasing "ulimit -n" to at least \d+/
			: qr/FATAL:  insufficient file descriptors available to start server process/ ],
		# dash and bash name it differently
		only_long() ? () : [ 'processes', 'ulimit -p 1 2>/dev/null || ulimit -u 1;', qr/LOG:  could not fork .*: Resource temporarily unavailable/ ]);
	if ($aio->method eq 'io_uring' && !$no_strace)
	{
		# strace says it instead of the kernel
		my $without = sub { return "set -- strace -o /dev/null -e trace=io_uring_setup -e inject=io_uring_setup:error=$_[0] \"\$@\";" };
		push @limits, [ 'permission', $without->('EPERM'), qr/${rings}Operation not permitted\n.*HINT:  Check if io_uring is disabled via \/proc\/sys\/kernel\/io_uring_disabled/ ],
		  [ 'of a kernel', $without->('ENOSYS'), qr/${rings}Function not implemented\n.*HINT:  The kernel does not support io_uring/ ];
	}
	push @limits, [ 'memory for rings', 'ulimit -l 16;', qr/${rings}Cannot allocate memory/ ] if $aio->method eq 'io_uring';
	$aio->scenario('too little of what it needs', with('', 40, sub ($t) {
		while_stopped($aio, sub {
			my $hint;
			for (@limits)
			{
				my ($what, $ulimit, $reason) = @$_;
				my ($status, $log) = runs($aio, $ulimit, 'max_files_per_process=100');
				SKIP: {
					skip 'kernels before 6.15 may not limit the memory of rings', 3 if $what =~ /memory/ && kernel_version() < 6.015 && $log =~ /ready to accept connections/;
					isnt($status, 0, "not enough $what: the server does not start");
					like($log, $reason, 'it logs the reason') || diag($log);
					if ($log =~ /DETAIL:  System allows (\d+), server needs at least (\d+), (\d+) files are already open/)
					{
						ok($1 + $3 == 60 && $1 < $2, "$1 descriptors, and $3 in use, are what is allowed, and $2 would do");
					}
					unlike($log, qr/TRAP|PANIC|terminated by signal/, 'it does not crash');
				}
				ok(!-e $aio->node->data_dir . '/postmaster.pid', 'no postmaster.pid is left');
				$hint //= $1 if $log =~ /HINT:  Consider increasing "ulimit -n" to at least (\d+)/;
			}
			return if $aio->method ne 'io_uring';
			# the rings take descriptors, and files need some more
			cmp_ok($hint // 0, '>', 130, 'a hint') or return;
			my ($status, $log) = runs($aio, "ulimit -n ${\($hint - 100 + 30)};", 'max_files_per_process=100');
			isnt($status, 0, 'enough for the rings: the server does not start');
			like($log, qr/FATAL:  insufficient file descriptors available to start server process/, 'it logs the reason') || diag($log);
			my ($allowed, $open) = $log =~ /DETAIL:  System allows (\d+), .* (\d+) files are already open/;
			is($allowed + $open, $hint - 70, 'and how many are allowed') || diag($log);
			($status, $log) = runs($aio, "ulimit -n $hint;", 'max_files_per_process=100');
			is($status, 0, 'as many as the hint says: the server starts, and stops when told to');
			like($log, qr/ready to accept connections/, 'it is ready') || diag($log);
		});
	}));

	$aio->scenario('a setting that is out of range: %s', sub ($, $setting, $reason) {
		# it looks at its settings before it finds that another one runs
		my ($status, $log) = runs($aio, '', $setting);
		isnt($status, 0, 'the server does not start');
		like($log, $reason, 'the server logs the reason');
	}, each => [
		[ 'io_max_concurrency=0' => qr/0 is outside the valid range|invalid value for parameter "io_max_concurrency"/i ],
		[ 'io_method=none' => qr/invalid value for parameter "io_method": "none"/ ]
	], skip => $aio->repeats ? 'the same with each io_method' : undef);
});
