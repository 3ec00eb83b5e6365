# I/O workers that cannot open a file or get a signal.
use TestAio;
use TestAio::Neighbours;

# Files of I/O workers: files that a worker cannot open or read (pgaio_io_reopen,
# IoWorkerMain's error path), and files of a database that is moved or dropped.

# A file that can be opened for reading and writing and has a length, and that fails to be
# read unless the kernel has a security module for keys.
use constant UNREADABLE => '/proc/self/attr/keycreate';

sub opens_but_fails_to_read ($path)
{
	open my $file, '+<', $path or return 0;
	return !defined sysread($file, my $bytes, 8192) && $!{EINVAL};
}

# Waits until there are as many workers as there are at least, without those of these process ids.
# From 19 on, load may have added others, which nobody replaces.
sub wait_for_least ($aio, @gone)
{
	my $least = $aio->setting($aio->major < 19 ? 'io_workers' : 'io_min_workers');
	return $aio->wait_for("SELECT count(*) >= $least FROM pg_stat_activity WHERE backend_type = 'io worker' AND pid <> ALL ('{" . join(',', @gone) . "}')");
}

# Returns how many descriptors I/O workers have of a file, named by the end of its path.
sub open_in_workers ($aio, $file)
{
	return scalar map { descriptors($_, qr{/\Q$file\E\b}) } $aio->pids_of_type('io worker');
}

with_each_io_method('worker', sub {
	$aio->scenario('a file that a worker cannot open', with('alice', 10, sub ($alice, $t) {
		my $file = $aio->file_of($t);
		# alice opens the file and keeps it open
		$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
		chmod 0, $file or die "chmod: $!";
		$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", '58P01', qr/could not read blocks 3\.\.4 in file "base\S+": No such file or directory/, 'fails');
		chmod 0600, $file or die "chmod: $!";
		$aio->logs(qr/CONTEXT: .*I\/O worker executing I\/O on behalf of process ${\$alice->pid}/, '>0', 'whose read it was');
		wait_for_least($aio);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 2)", 2, 'later on');
	}), log => [ qr/LOG:  could not read blocks 3\.\.4 /, qr/io worker ERROR:  could not open file "base\S+": Permission denied/ ], skip => $> == 0 ? 'root may open all files' : undef);

	# the kernel's own error, not an injected one
	$aio->scenario('a file that a worker cannot read', with('alice', 10, sub ($alice, $t) {
		# alice opens the file and keeps it open
		$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
		my $fails = sub { $alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", 'XX000', qr/could not read blocks 3\.\.4 in file "base\S+": Invalid argument/, 'fails') };
		while_away($aio->file_of($t), $fails, UNREADABLE);
		# the old ones keep the other file open
		my @before = $aio->pids_of_type('io worker');
		kill 'INT', @before;
		wait_for_least($aio, @before);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 2)", 2, 'later on');
	}), log => [ qr/io worker LOG:  could not read blocks 3\.\.4 /, qr/postmaster LOG:  io worker \(PID \d+\) exited with exit code 1/, qr/io worker FATAL:  terminating io worker process due to administrator command/ ],
		skip => opens_but_fails_to_read(UNREADABLE) ? undef : UNREADABLE . ' can be read here');

	$aio->scenario('reopening fails', with('alice', 10, sub ($alice, $t) {
		$aio->reopen_attach;
		$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", '58P01', qr/could not read blocks 3\.\.4 in file/, 'by hand');
		$alice->fails("SELECT * FROM read_buffers('$t', 3, 2)", '58P01', qr/could not read blocks 3\.\.4 in file/, 'StartReadBuffers');
		$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(7,1)'", 1, 'a synchronous read does not need it');
		$aio->reopen_detach;
	}), log => [ qr/LOG:  could not read blocks 3\.\.4 /, qr/io worker ERROR:  I\/O worker fails to reopen a file, as ordered by inj_io_reopen_attach/ ], skip => $aio->no_faults);

	# the server has all processes close their files before (PROCSIGNAL_BARRIER_SMGRRELEASE)
	$aio->scenario('a database is moved and dropped whose files workers have open', sub {
		$aio->make_tablespace;
		$aio->sql('CREATE DATABASE other TEMPLATE postgres STRATEGY file_copy');
		my $owner = $aio->session('owner', dbname => 'other');
		$owner->sql("CREATE TABLE o AS SELECT generate_series(1, 60) AS i; SELECT grow_rel('o', 60)");
		$aio->end_session($owner);
		for my $command (only_long() ? () : 'ALTER DATABASE other SET TABLESPACE elsewhere', 'DROP DATABASE other')
		{
			my $bob = $aio->session('bob', dbname => 'other');
			$bob->gives('SELECT count(*), sum(i) FROM o', '60|1830', "before $command: the rows");
			$bob->sql("SET effective_io_concurrency = 32; SET io_combine_limit = 1; SELECT evict_rel('o')");
			$bob->gives("SELECT count(*) FROM read_stream_for_blocks('o', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 119) i))", 120, 'all blocks');
			# the directory of the database and the file; the kernel resolves a tablespace's link
			my ($file) = $bob->sql("SELECT pg_relation_filepath('o')") =~ m{([^/]+/[^/]+)$};
			cmp_ok(open_in_workers($aio, $file), '>', 0, 'workers have the file open');
			$aio->end_session($bob);
			$aio->sql($command);
			is(open_in_workers($aio, $file), 0, "$command: no worker has it open");
		}
	});
}, leaves => 'nothing');

# Signals to I/O workers while reads are under way: those that end a worker, and those that it ignores.
sub workers ($aio) { return $aio->pids_of_type('io worker') }

my $count = 3;
my $stream = sub ($t) { return "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 119) i))" };

for_each_io_method('worker', sub {
	# signal => true if it ends a worker, which the postmaster replaces
	my %signals = (HUP => 0, TERM => 0, PIPE => 0, ALRM => 0, USR1 => 0, CONT => 0, WINCH => 0, INT => 1, USR2 => 1);
	$aio->scenario('SIG%s', with('alice bob', 60, sub ($alice, $bob, $t, $signal) {
		wait_for_least($aio);
		my @before = workers($aio);
		is(scalar @before, $count, 'the workers');
		$_->sql('SET effective_io_concurrency = 32; SET io_combine_limit = 1') for $alice, $bob;
		# during reads
		for my $round (1 .. 2)
		{
			my @workers = workers($aio);
			$aio->evict($t);
			$_->starts($stream->($t)) for $alice, $bob;
			kill $signal, @workers;
			$_->returns(120, "round $round: all blocks") for $alice, $bob;
			wait_for_least($aio, $signals{$signal} ? @workers : ());
		}
		is(join(',', workers($aio)), join(',', @before), 'the same workers') if !$signals{$signal};
	}), each => [ sort keys %signals ], log => [ qr/io worker FATAL:  terminating (?:background worker|io worker|connection) .*due to administrator command/, qr/postmaster LOG:  io worker \(PID \d+\) exited with exit code [01]/ ]);

	# only while a worker executes a read does it say so
	$aio->scenario('what an idle worker logs', with('', 60, sub ($t) {
		wait_for_least($aio);
		$aio->is_as_written($t);
		$aio->alter_system(log_min_messages => 'debug1');
		my @workers;
		my $kill = sub { kill 'INT', @workers; wait_for_least($aio, @workers) };
		ok($aio->poll(sub { @workers = workers($aio); $kill->(); $aio->log_text =~ /io worker DEBUG:  io worker shutting down/ }), 'workers log that they end');
		$aio->logs(qr/I\/O worker executing I\/O on behalf of process/, 0, 'and not on whose behalf');
	}));

	$aio->scenario('a cancelled owner, and stopped workers', with('alice', 60, sub ($alice, $t) {
		$aio->while_workers_are_still(sub {
			$alice->waits("SELECT count(*) FROM $t", 'AioIoCompletion');
			$aio->cancels($alice);
		});
	}));

	# each worker has settings of its own
	$aio->scenario('a reload', with('alice', 20, sub ($alice, $t) {
		wait_for_least($aio);
		my @before = workers($aio);
		$aio->sql("SELECT modify_rel_block('$t', 7, corrupt_checksum => true)");
		my $logged = sub {
			my $size = $aio->log_size;
			$alice->fails("SELECT read_rel_block_ll('$t', 7)", 'XX001', qr/invalid page in block 7/);
			return $aio->log_text($size) =~ /io worker LOG:  page verification failed/;
		};
		ok($logged->(), 'the worker that reads a bad page logs it');
		for my $level ('fatal', 'warning')
		{
			$aio->alter_system(log_min_messages => $level);
			# each of the workers, one after the other
			my $in_a_row = 0;
			ok($aio->poll(sub { $in_a_row = $logged->() == ($level eq 'warning') ? $in_a_row + 1 : 0; $in_a_row == 3 * $count }), "log_min_messages = $level: the workers obey");
		}
		is(join(',', workers($aio)), join(',', @before), 'they are the same workers');
		$aio->sql("SELECT modify_rel_block('$t', 7, zero => true)");
		$aio->is_as_written($t, except => 'block 7 has no row');
	}), log => [ qr/io worker LOG:  (?:page verification failed|invalid page in block 7)/, qr/alice ERROR:  invalid page in block 7/ ]);
}, conf => { map { $_ => $count } TestAio::Server->major < 19 ? 'io_workers' : qw(io_min_workers io_max_workers) });
