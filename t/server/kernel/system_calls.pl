# What sessions ask of the kernel, as strace shows it: advice about blocks that they will read, and
# reads of these blocks.
use TestAio;
use Cwd qw(abs_path);
use Fcntl;
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio::Required;

my $reason = no_strace();

with_each_io_method('sync; long: all', sub {
	my $skip = $reason // $aio->lacks('pg_prewarm');

	$aio->scenario('pg_prewarm', with_kind('alice', 60, sub ($alice, $t, $) {
		my $blocks = join ',', 0 .. 59, 7 .. 40, 59;
		for my $mode (qw(prefetch read))
		{
			my @calls = system_calls($aio, $alice, $t, 'SELECT ' . join ', ', map { "pg_prewarm('$t', '$mode', 'main', $_)" } '0, 59', '7, 40', '59, 59');
			is(join(',', blocks_of('advice', @calls)), $mode eq 'prefetch' ? $blocks : '', "$mode: advice about these blocks");
			is(join(',', blocks_of('read', @calls)), $mode eq 'read' ? $blocks : '', "$mode: reads");
		}
		# cached blocks need none
		$alice->sql("SELECT read_rel_block_ll('$t', 10, nblocks => 10)");
		is(join(',', blocks_of('advice', system_calls($aio, $alice, $t, "SELECT pg_prewarm('$t', 'prefetch')"))), join(',', 0 .. 9, 20 .. 59), 'no advice about cached blocks');
	}), each => [ '', 'TEMP' ], skip => sub ($kind) { $skip // ($kind ? undef : only_long()) });

	$aio->scenario('streams', with('alice', 120, sub ($alice, $t) {
		my @blocks = map { ($_ * 7 + 3) % 120 } 0 .. 59;
		my $stream = sub { return "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @_) . '])' };
		$alice->sql($stream->(@blocks));
		for my $case ([ 16, 'random', @blocks ], [ 16, 'sequential', 0 .. 119 ], [ 0, 'random', @blocks ])
		{
			my ($concurrency, $order, @wanted) = @$case;
			$alice->sql("SET effective_io_concurrency = $concurrency");
			$aio->evict($t);
			my @calls = system_calls($aio, $alice, $t, $stream->(@wanted));
			my @advised = blocks_of('advice', @calls);
			my @read = blocks_of('read', @calls);
			my %wanted = map { $_ => 1 } @wanted;
			my $name = "$order, effective_io_concurrency = $concurrency";
			my %times;
			$times{$_}++ for @advised;
			is(join(',', grep { !$wanted{$_} || $times{$_} > 1 } @advised), '', "$name: advice about blocks of the stream only, at most once");
			if ($aio->method eq 'sync' && $concurrency && $order eq 'random')
			{
				# there is no advice about the first blocks, before the look-ahead has grown
				cmp_ok(scalar @advised, '>', 40, 'advice about most blocks');
				my %when;
				$when{"$calls[$_][0] $calls[$_][1]"} //= $_ for 0 .. $#calls;
				is(scalar(grep { defined $when{"read $_"} && $when{"read $_"} < $when{"advice $_"} } @advised), 0, 'advice before the read');
			}
			else { is(scalar @advised, 0, 'no advice') if $order eq 'random' }
			is(scalar @advised, 0, 'no advice: the kernel recognizes sequential reads') if $order eq 'sequential';
			# with sync or concurrency 0 the session reads
			if ($aio->method eq 'sync' || !$concurrency) { is(join(',', @read), join(',', @wanted), 'the session reads all blocks in order') }
			elsif ($aio->method eq 'io_uring') { cmp_ok(scalar @read, '<', 20, 'few reads by pread') }
		}
	}), skip => $reason);

	# A run of blocks is one read or three, and its advice is about all of them.  There is advice about a run until the
	# first of its reads has been waited for, whatever else is waited for.  The look-ahead goes beyond each run.
	$aio->scenario('runs of %s blocks', with('alice', 240, sub ($alice, $t, $length, $runs, $least) {
		my @blocks = map { my $run = ($_ * 7 + 3) % $runs; map { $length * $run + $_ } 0 .. $length - 1 } 0 .. $runs - 1;
		my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @blocks) . '])';
		$alice->sql("$stream; SET effective_io_concurrency = 16; SET io_combine_limit = 4");
		$aio->evict($t);
		my @calls = system_calls($aio, $alice, $t, $stream);
		# before the look-ahead has grown there is none
		cmp_ok(scalar blocks_of('advice', @calls), '>', $least, 'advice about nearly all blocks');
		cmp_ok(scalar(grep { $_->[0] eq 'advice' } @calls), '<', $length * $runs / 3, 'one for a read of four');
		is(join(',', blocks_of('read', @calls)), join(',', @blocks), 'reads them in this order');
	}), each => [ [ 4, 40, 120 ], [ 12, 20, 200 ] ], skip => $reason // ($aio->method ne 'sync' ? 'only "sync" gives advice' : undef));

	$aio->scenario('one block that is not there', with('alice', 120, sub ($alice, $t) {
		my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 29)) || 100 || ARRAY(SELECT generate_series(0, 29)))";
		$alice->sql("$stream; SET effective_io_concurrency = 16");
		$alice->sql("SELECT invalidate_rel_block('$t', 100)");
		my @calls = system_calls($aio, $alice, $t, $stream);
		is(join(', ', map { join ' ', @$_ } @calls), 'advice 100 1, read 100 1', 'after many that are: advice, and a read');
	}), skip => $reason // ($aio->method ne 'sync' ? 'only "sync" gives advice' : undef));

	# a scan that promises to come in order gives no advice, even if it jumps over blocks that are cached
	$aio->scenario('sequential scans', with('alice', 160, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk)");
		$alice->sql("SET effective_io_concurrency = 16; SELECT count(*) FROM $t");
		my @warm = map { 10 * $_ .. 10 * $_ + 3 } 0 .. 15;
		my %advised;
		for my $scan ('seqscan', 'bitmapscan')
		{
			$alice->sql('SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_' . "$scan = on");
			$aio->evict($t);
			$aio->warm($t, @warm);
			my @calls = system_calls($aio, $alice, $t, "SELECT count(gen) FROM $t WHERE blk >= 0");
			is(scalar blocks_of('read', @calls), 160 - @warm, "$scan: reads the blocks that are not there");
			$advised{$scan} = scalar blocks_of('advice', @calls);
		}
		is($advised{seqscan}, 0, 'a sequential scan: no advice');
		cmp_ok($advised{bitmapscan}, '>', 0, 'a bitmap heap scan gives some');
	}), skip => $reason // ($aio->method ne 'sync' ? 'only "sync" gives advice' : undef));

	# nothing shortens a file between pg_prewarm()'s look at its size and the read
	$aio->scenario('a file that ends early', with('alice', 40, sub ($alice, $t) {
		my $read = "SELECT pg_prewarm('$t', 'read', 'main', 7, 20)";
		at_end_of_file($aio, $alice, $t, sub { $alice->fails($read, 'XX001', qr/could not read blocks 7\.\.\d+ in file "[^"]*": read only 0 of \d{4,} bytes/, 'pg_prewarm, read') });
		SKIP: {
			skip 'zero_damaged_pages is an assertion that fails in mdreadv()', 1 if $aio->has_assertions;
			$alice->sql('SET zero_damaged_pages = on');
			at_end_of_file($aio, $alice, $t, sub { $alice->gives($read, 14, 'with zero_damaged_pages, there are pages of zeros instead') });
		}
	}), skip => $skip // ($aio->repeats ? 'the same with each io_method' : undef));

	# the kernel says EINTR to every second call
	$aio->scenario('calls that are interrupted', with('alice', 20, sub ($alice, $t) {
		my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 20 FROM generate_series(0, 19) i))";
		$alice->sql("SET effective_io_concurrency = 16; SET io_combine_limit = 1; $stream; SELECT pg_prewarm('$t', 'read')");
		my @cases = ([ fadvise64 => "SELECT pg_prewarm('$t', 'prefetch')", 20 ], [ 'pread64,preadv' => "SELECT pg_prewarm('$t', 'read')", 20 ], $aio->method eq 'io_uring' ? [ io_uring_enter => $stream, 1 ] : ());
		for my $case (@cases)
		{
			my ($calls, $sql, $least) = @$case;
			$aio->evict($t);
			my ($interrupted, $done) = while_interrupted($aio, $alice, $calls, sub { $alice->gives($sql, 20, "$calls: all that was asked for") });
			cmp_ok(scalar @$interrupted, '>=', $least, 'calls that are interrupted');
			# a wait for io_uring does not, if the read has ended meanwhile
			cmp_ok(scalar @$done, '>=', @$interrupted, 'each comes again') if $calls ne 'io_uring_enter';
		}
		$aio->sql('CREATE TABLE scenario.e (i int)');
		my ($interrupted) = while_interrupted($aio, $alice, 'fallocate', sub { $alice->sql("SELECT grow_rel('scenario.e', 16)") });
		cmp_ok(scalar @$interrupted, '>=', 1, 'calls that are interrupted');
		$aio->gives("SELECT pg_relation_size('scenario.e') / 8192", 16, 'the table grows nevertheless');
	}), skip => $skip);

	# a session waits in the kernel only if the reads take longer than the submission
	$aio->scenario('waits for io_uring that are interrupted', with('alice', 600, sub ($alice, $t) {
		my @staged = map { "SELECT read_rel_block_ll('$t', 16 * $_, nblocks => 16, wait_complete => false)" } 0 .. 30;
		my $read = $aio->batch(@staged) . " UNION ALL SELECT read_rel_block_ll('$t', 480, nblocks => 16)";
		$alice->sql('SET io_combine_limit = 16');
		my @waits;
		for (1 .. 30)
		{
			$aio->evict($t, $alice);
			my ($interrupted) = while_interrupted($aio, $alice, 'io_uring_enter', sub { $alice->sql($read) });
			last if @waits = grep { /GETEVENTS/ } @$interrupted;
		}
		SKIP: {
			skip 'all reads are faster than strace', 1 if !@waits;
			# of the others, some may still be read
			$alice->gives("SELECT sum(nblocks), sum(nblocks) FILTER (WHERE NOT io_reqd AND blockoff >= 480) FROM read_buffers('$t', 0, 496)", '496|16', 'the session waits again, until its blocks are there');
		}
	}), skip => $reason // ($aio->method ne 'io_uring' ? 'needs io_uring' : undef));

	# sessions that stand still in a system call
	$aio->scenario('wait events', with('alice', 40, sub ($alice, $t) {
		$alice->sql("SELECT count(*) FROM $t; SELECT pg_prewarm('$t', 'prefetch')");
		$aio->evict($t);
		for my $case ([ fadvise64 => DataFilePrefetch => "SELECT pg_prewarm('$t', 'prefetch')" ], [ 'pread64,preadv' => DataFileRead => "SELECT count(*) FROM $t" ],
			[ fallocate => DataFileExtend => "SELECT grow_rel('$t', 40)" ], [ 'pwrite64,pwritev' => DataFileExtend => "SELECT grow_rel('$t', 4)" ],
			[ 'pwrite64,pwritev' => DataFileWrite => "SELECT evict_rel('$t')" ], [ ftruncate => DataFileTruncate => "VACUUM (TRUNCATE on) $t" ])
		{
			my ($call, $event, $sql) = @$case;
			# makes a page dirty
			$alice->sql("SELECT blk FROM $t WHERE blk = 0 FOR UPDATE") if $event eq 'DataFileWrite';
			ok(wait_event_at($aio, $alice, $call, $event, $sql), "$call: $event") || diag($aio->activity($alice->pid));
		}
		if ($aio->sql("SELECT count(*) FROM pg_settings WHERE name = 'file_extend_method'"))
		{
			$aio->alter_system(file_extend_method => 'write_zeros');
			ok($aio->poll(sub { $alice->sql('SHOW file_extend_method') eq 'write_zeros' }), 'the session knows the setting');
			ok(wait_event_at($aio, $alice, 'pwrite64,pwritev', 'DataFileExtend', "SELECT grow_rel('$t', 40)"), 'file_extend_method = write_zeros: DataFileExtend') || diag($aio->activity($alice->pid));
		}
	}), skip => $skip // ($aio->method ne 'sync' ? 'the same with each io_method, but for reads' : undef));

	$aio->scenario('the wait event of a submission', with('alice', 40, sub ($alice, $t) {
		my $read = "SELECT count(*) FROM read_buffers('$t', 0, 4)";
		$alice->sql($read);
		$aio->evict($t);
		ok(wait_event_at($aio, $alice, 'io_uring_enter', 'AioIoUringSubmit', $read), 'in the first call of io_uring_enter()') || diag($aio->activity($alice->pid));
	}), skip => $reason // ($aio->method ne 'io_uring' ? 'needs io_uring' : undef));

	$aio->scenario('VACUUM that truncates', with('alice', 120, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 40; VACUUM (TRUNCATE off) $t");
		$aio->evict($t);
		my @calls = system_calls($aio, $alice, $t, "VACUUM (TRUNCATE on) $t");
		my @advised = blocks_of('advice', @calls);
		is(join(',', grep { $_ >= 40 && $_ < 119 } sort { $a <=> $b } @advised), join(',', 40 .. 118), 'advice about the blocks that are cut off');
		is(join(',', grep { $_ < 32 } @advised), '', 'no advice about the first blocks, which stay');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 40, 'the size');
		$aio->is_as_written($t, blocks => 40);
	}), skip => $reason);
});

# Reads that io_uring hands to threads of the kernel (IOSQE_ASYNC).  A read begins in such a thread if several others
# are in flight; since 19, also if it is large.  Other reads of cached data are performed when they are submitted.
my $at_once = directory_that_reads_at_once();
my $no_threads = kernel_version() < 5.012 ? 'Linux shows the threads of io_uring since 5.12' : $at_once ? undef : 'no file system here returns cached data at once';

# The kernel's threads that have performed reads of a process.  They stay for seconds when they are idle.
sub kernel_threads ($pid) { return grep { (eval { slurp_file($_) } // '') =~ /^iou-wrk/ } glob "/proc/$pid/task/*/comm" }

with_each_io_method('io_uring', sub {
	$aio->scenario('cached data', with('', 64, sub ($t) {
		$aio->sql("CREATE TABLESPACE at_once LOCATION '$at_once'");
		$aio->sql("ALTER TABLE $t SET TABLESPACE at_once");
		$aio->is_as_written($t);
		my ($most, $large) = $aio->major < 19 ? (5, 0) : (4, 1);
		# reads that are in flight together, and their blocks: are there threads?
		for my $case ([ $most, 1, 0 ], [ $most + 1, 1, 1 ], [ 1, 3, 0 ], [ 1, 4, $large ], [ 1, 16, $large ])
		{
			my ($reads, $blocks, $threads) = @$case;
			$aio->evict($t);
			my $reader = $aio->session('reader');
			$reader->sql("SELECT read_rel_block_ll('$t', n * $blocks, nblocks => $blocks, wait_complete => false) FROM generate_series(0, $reads - 1) n");
			# a thread that has performed a read has its name
			$reader->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, $reads * $blocks)", $reads * $blocks, 'they end');
			is(kernel_threads($reader->pid) ? 1 : 0, $threads, "$reads in flight, of $blocks blocks: " . ($threads ? 'a thread' : 'no thread'));
			$aio->end_session($reader);
		}
	}), skip => $no_threads);
});

# Reads with debug_io_direct = data: the kernel does not cache, buffers are aligned, and pg_aios
# shows f_buffered = f (PGAIO_HF_BUFFERED, buffers_to_iovec).

# Not every file system can do direct I/O.
my $probe = "$PostgreSQL::Test::Utils::tmp_check/direct_io_probe";
my $able = eval { sysopen(my $file, $probe, O_RDWR | O_CREAT | O_DIRECT) };
unlink $probe;
my $unable = unless_required('direct_io', $able ? undef : 'the file system of the tests cannot do direct I/O');

# Returns whether a session has files open for direct I/O: of those whose path matches, "yes", "no" or both.
sub opened_for_direct_io ($session, $path)
{
	my %found;
	for my $link (descriptors($session->pid, $path))
	{
		my ($flags) = slurp_file($link =~ s{/fd/}{/fdinfo/}r) =~ /^flags:\s*(\d+)/m;
		$found{ oct($flags) & O_DIRECT ? 'yes' : 'no' } = 1;
	}
	return join ', ', sort keys %found;
}

# Has a session cut off a table, and stop before the file is shorter.  A function lets a checkpoint go on.  Test: it waits
# with this event: it neither begins before the file is as the WAL says, or it would not sync it, nor ends before, or
# recovery would begin after the record of the truncation.
sub meets_truncation ($aio, $alice, $bob, $t, $event, $function)
{
	my ($checkpointer) = $aio->pids_of_type('checkpointer');
	ok(while_stopped_in($aio, $alice, 'ftruncate', $aio->file_of($t), "VACUUM (TRUNCATE on) $t", sub { $aio->wait_event($alice->pid) eq 'DataFileTruncate' }, sub {
		$function->();
		ok($aio->poll(sub { $bob->has_ended || $aio->wait_event($checkpointer) eq $event }) && !$bob->has_ended, "the checkpoint waits: $event") || diag($aio->activity($checkpointer));
	}), 'the session stops before it cuts the file off');
	$alice->ends('VACUUM');
	$bob->ends('CHECKPOINT');
	$aio->is_as_written($t, blocks => 20);
	return;
}

with_each_io_method('worker; long: all', sub {
	my $again = $aio->repeats ? 'the same with each io_method' : undef;

	$aio->scenario('pg_aios shows that reads are not buffered', with_kind('alice', 20, sub ($alice, $t, $) {
		$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 4)", pid => $alice->pid);
		$aio->gives_soon("SELECT f_buffered, off, length FROM pg_aios WHERE pid = ${\$alice->pid}", 'f|24576|32768', 'pg_aios');
		$aio->completion_continue;
		$alice->ends;
	}), each => [ '', 'TEMP' ], skip => $unable // $aio->no_faults);

	$aio->scenario('reads', with_kind('alice', 120, sub ($alice, $t, $kind) {
		is($aio->io_during($alice, $kind eq 'TEMP' ? 'temp relation/normal' : 'relation/normal', sub {
			$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", '120|7140', 'stream');
		}), '8/' . 120 * 8192, 'reads of 16 blocks, and bytes');
		$aio->is_as_written($t, session => $alice);
		$aio->evict($t, $alice);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 7, 111)", 111, 'StartReadBuffers');
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 120 FROM generate_series(0, 300) i ORDER BY i))", 301, 'in any order');
	}), each => [ '', 'TEMP' ], skip => $unable);

	$aio->scenario('no advice', with_kind('alice', 20, sub ($alice, $t, $kind) {
		my $both = "SELECT pg_prewarm('$t', 'prefetch') UNION ALL SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 19, 3)))";
		is(join(',', blocks_of('advice', system_calls($aio, $alice, $t, $both))), '', "pg_prewarm() and streams give the kernel none, $kind");
	}), each => [ '', 'TEMP' ], skip => $unable // $reason // $aio->lacks('pg_prewarm'));

	$aio->scenario("files that are open with debug_io_direct = '%s'", sub ($, $setting, $data, $wal) {
		if ($setting ne $aio->setting('debug_io_direct'))
		{
			$aio->node->append_conf('postgresql.conf', "debug_io_direct = '$setting'");
			while_stopped($aio);
		}
		my ($alice, $t) = $aio->sessions_and_table('alice', 20);
		# a session has a file of the WAL open if it has written WAL itself
		$alice->sql("SELECT count(*) FROM $t; SELECT pg_logical_emit_message(false, '', '', flush => true)");
		my ($file) = $aio->file_of($t) =~ m{([^/]+/[^/]+)$};
		is(opened_for_direct_io($alice, qr/\/\Q$file\E$/), $data, 'the table');
		is(opened_for_direct_io($alice, qr/\/pg_wal\//), $wal, 'WAL');
		# VACUUM writes the dirty pages of its ring itself
		my $u = $aio->table('u', 100, changes => 1);
		$aio->sql("DELETE FROM $u WHERE blk % 2 = 0; CHECKPOINT");
		$aio->evict($u);
		my $added = $aio->io_counts_during($alice, 'relation/vacuum', sub { $alice->sql("SET backend_flush_after = '64kB'; SET vacuum_buffer_usage_limit = '128kB'; VACUUM (TRUNCATE off) $u") });
		cmp_ok($added->{writes}, '>=', 30, 'dirty pages are written');
		is($added->{writebacks} > 0 ? 'yes' : 'no', $data eq 'yes' ? 'no' : 'yes', 'and written back');
	}, each => [ [ 'data' => 'yes', 'no' ], [ 'wal, data' => 'yes', 'yes' ], [ 'data, wal' => 'yes', 'yes' ], [ 'wal' => 'no', 'yes' ], [ '' => 'no', 'no' ] ], skip => sub ($setting, @) { $unable // $again // ($setting =~ /^(?:data, )?wal$/ ? only_long() : undef) });

	# Without direct I/O, system calls that fail, and those that must not be forgotten: requests to write back that a
	# signal interrupts, a truncation that fails, WAL that cannot be read, the files of a new database.  Guards server
	# commits 5941e7f094, 38c579b089, 75818b3afb, 3048e81306 and 0b6517a3b7.
	$aio->scenario('requests to write back that are interrupted', with('', 40, changes => 1, sub ($t) {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		for my $inject ('EINTR:when=1+2', 'EINTR:when=1', 'ENOSYS')
		{
			$aio->sql("UPDATE $t SET gen = gen WHERE blk % 3 = 0");
			my $size = $aio->log_size;
			# sync_file_range() is the only call that may be tried again here
			while_injected($checkpointer, "sync_file_range:error=$inject", undef, sub { $aio->sql('CHECKPOINT') });
			# a warning if there is no such call, and no further ones
			unlike($aio->log_text($size), $inject eq 'ENOSYS' ? qr/PANIC/ : qr/could not flush|PANIC/, $inject);
		}
		$aio->gives("SELECT count(*) FROM $t WHERE body = proof('$t', blk, 0)", 40, 'the rows');
	}), skip => $again // $reason, log => qr/checkpointer WARNING:  could not flush dirty data: Function not implemented/);

	# the deleted rows are dead for good, on disk or by recovery
	$aio->scenario('a truncation that fails: %s', with('alice', 60, sub ($alice, $t, $error) {
		$aio->sql("CHECKPOINT; DELETE FROM $t WHERE blk >= 20");
		my $size = $aio->log_size;
		while_injected($alice->pid, "ftruncate:error=$error", undef, sub { $alice->starts("VACUUM (TRUNCATE on) $t")->wait_for_end });
		if ($error eq 'EIO')
		{
			# the WAL has the truncation: an error would leave this server behind it
			ok($aio->poll(sub { $aio->log_text($size) =~ /PANIC:  could not truncate file/ }), 'PANIC');
			$aio->wait_for_connections;
		}
		$aio->is_as_written($t, blocks => 20);
		$aio->sql("CALL add_pages('$t', 20, 29); SELECT evict_rel('$t')");
		$aio->is_as_written($t, blocks => 30);
	}), each => [ 'EIO', 'EINTR:when=1' ], skip => $again // $reason, dies => sub ($error) { $error eq 'EIO' },
		log => sub ($error) { $error eq 'EIO' ? [ qr/client backend alice PANIC:  could not truncate file/, qr/postmaster LOG:  client backend .* was terminated by signal 6/ ] : undef });

	$aio->scenario('a checkpoint during a truncation', with('alice bob', 60, sub ($alice, $bob, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 20");
		meets_truncation($aio, $alice, $bob, $t, 'CheckpointDelayStart', sub { $bob->starts('CHECKPOINT') });
	}), skip => $again // $reason);

	# what has failed is not counted, as number, in bytes or in time
	$aio->scenario('WAL that cannot be read', with('alice', sub ($alice) {
		my $from = $aio->sql('SELECT pg_current_wal_lsn()');
		$aio->table('t', 3);
		my $read = "SELECT count(*) > 0 FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())";
		$alice->sql($read);
		my $counts = sub ($function) { return $aio->change_during("SELECT sum(reads), sum(read_bytes) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'wal'", $function, $alice) };
		my ($reads, $bytes) = split m{/}, $counts->(sub { $alice->sql($read) });
		ok($reads > 0 && $bytes >= $reads, "$reads reads of $bytes bytes");
		is($counts->(sub {
			while_injected($alice->pid, 'pread64:error=EIO', undef, sub { $alice->fails($read, '58030', qr/could not read from WAL segment/, 'an error') });
		}), '0/0', 'reads that fail');
	}), skip => $again // $reason // $aio->lacks('pg_walinspect'));

	$aio->scenario('a shutdown', sub {
		my $log = $aio->node->basedir . '/strace.shutdown';
		my $tracer = watch(($aio->pids_of_type('checkpointer'))[0], 'fsync,fdatasync', $log);
		while_stopped($aio, sub { unwatch($tracer) });
		like(slurp_file($log), qr{sync\(\d+<\S+/pg_stat/pgstat\.\w+>\)\s+= 0}, 'syncs the file of the statistics');
	}, skip => $again // $reason);

	# A change syncs what was written by the old method.  A file that was opened otherwise is opened again.
	$aio->scenario('WAL is synced by each method', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.v (i int)');
		my $write = sub { $alice->sql('INSERT INTO scenario.v VALUES (1)') };
		# no segment ends meanwhile
		$aio->sql('SELECT pg_switch_wal()');
		$write->();
		for my $case ([ open_datasync => 'fsync, open O_DSYNC' ], [ open_sync => 'fsync, open O_SYNC' ], [ fsync => 'fsync, open, fsync' ], [ fdatasync => 'fsync, fdatasync' ])
		{
			my ($method, $expected) = @$case;
			my @calls = calls_of($aio, $alice->pid, 'openat,fsync,fdatasync', sub {
				$aio->alter_system(wal_sync_method => $method);
				ok($aio->poll(sub { $alice->sql('SHOW wal_sync_method') eq $method }), "a session knows of $method");
				$write->();
			});
			is(join(', ', map { m{^openat\(.*"pg_wal/} ? join(' ', 'open', /\b(O_D?SYNC)\b/) : m{^(f\w+)\(\d+<.*/pg_wal/} } @calls), $expected, $method);
		}
	}), skip => $again // $reason);

	# sessions and the checkpointer stand still in a system call
	$aio->scenario('wait events at files', with('alice', 40, changes => 1, sub ($alice, $t) {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		my ($data, $file, $base) = (abs_path($aio->node->data_dir), $aio->file_of($t), $aio->sql('SELECT oid FROM pg_database WHERE datname = current_database()'));
		my ($change, $sort) = ("UPDATE $t SET gen = gen WHERE blk = 3", 'SELECT count(*) FROM (SELECT FROM generate_series(1, 20000) i ORDER BY i DESC OFFSET 0) s');
		my $map = "$data/base/$base/pg_filenode.map.tmp";
		my $rebuild = 'REINDEX INDEX pg_class_tblspc_relfilenode_index';
		my ($commits, $control) = map { "$data/$_" } qw(pg_xact/0000 global/pg_control);
		my %prepared;
		my $prepare = sub ($name) { return $prepared{$name} = sprintf "$data/pg_twophase/%016X", $alice->sql("BEGIN; INSERT INTO scenario.p VALUES (1) RETURNING pg_current_xact_id(); PREPARE TRANSACTION '$name'") };
		$alice->sql("CREATE TABLE scenario.p (n int); SET work_mem = '64kB'; CHECKPOINT");
		# no segment ends meanwhile
		$aio->sql(q{SELECT pg_switch_wal(); SELECT pg_logical_emit_message(false, '', '')});
		my $wal = "$data/pg_wal/" . $aio->sql('SELECT pg_walfile_name(pg_current_wal_insert_lsn())');
		for my $case (
			[ WalWrite => 'pwrite64', $wal, $change ], [ WalSync => 'fdatasync', $wal, $change ],
			[ BuffileWrite => 'pwrite64', undef, $sort ], [ BuffileRead => 'pread64', undef, $sort ],
			[ RelationMapWrite => 'write', $map, $rebuild ], [ RelationMapReplace => 'fsync', $map, $rebuild ],
			[ TwophaseFileWrite => 'write', sub { $prepare->('a') }, 'CHECKPOINT' ], [ TwophaseFileSync => 'fsync', sub { $prepare->('b') }, 'CHECKPOINT' ], [ TwophaseFileRead => 'read', sub { $prepared{a} }, q{COMMIT PREPARED 'a'} ],
			[ DataFileSync => 'fsync', $file, 'CHECKPOINT' ],
			[ SlruWrite => 'pwrite64', $commits, 'CHECKPOINT' ], [ SlruFlushSync => 'fsync', $commits, 'CHECKPOINT' ],
			[ ControlFileWriteUpdate => 'write', $control, 'CHECKPOINT' ], [ ControlFileSyncUpdate => 'fsync', $control, 'CHECKPOINT' ])
		{
			my ($event, $call, $path, $sql) = @$case;
			# gives a checkpoint something to do; and the observer learns of a new map, which it could not in the middle of a change
			$aio->sql($change);
			my $pid = $sql eq 'CHECKPOINT' ? $checkpointer : $alice->pid;
			ok(wait_event_at($aio, $alice, $call, $event, $sql, ref $path ? $path->() : $path, $pid), "$call: $event") || diag($aio->activity($pid));
		}
		$alice->sql(q{COMMIT PREPARED 'b'});
	}), skip => $again // $reason);

	$aio->scenario('the files of a database', sub {
		# the observer does it, since nobody else may use the template
		my $pid = $aio->sql('SELECT pg_backend_pid()');
		for my $strategy (qw(wal_log file_copy))
		{
			my @calls = calls_of($aio, $pid, 'fsync,fdatasync', sub { $aio->sql("CREATE DATABASE d TEMPLATE postgres STRATEGY $strategy") });
			my $directory = $aio->node->data_dir . '/base/' . $aio->sql("SELECT oid FROM pg_database WHERE datname = 'd'");
			my %synced = map { $_ => 1 } map { m{sync\(\d+<(.*?)>\)\s+= 0} } @calls;
			# the checkpointer syncs what goes through the buffer pool
			my @files = $strategy eq 'wal_log' ? "$directory/PG_VERSION" : glob("$directory/*");
			my @missing = grep { !$synced{$_} } $directory, @files;
			is("@missing", '', "$strategy: " . @files . ' files and the directory are synced');
			$aio->sql('DROP DATABASE d');
		}
	}, skip => $again // $reason);
}, leaves => 'nothing', conf => { debug_io_direct => $unable ? '' : 'data', fsync => 'on', shared_buffers => '64MB', restart_after_crash => 'on' });

for_each_io_method('worker', sub {
	$aio->scenario('a truncation during a checkpoint', with('alice bob', 60, sub ($alice, $bob, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 20");
		$aio->io_hold(undef, op => 'sync', backend_type => 'checkpointer', times => 1);
		$bob->starts('CHECKPOINT');
		$aio->io_held_count(1);
		meets_truncation($aio, $alice, $bob, $t, 'CheckpointDelayComplete', sub { $aio->end_holds });
	}), skip => $reason);
}, needs => 'gate', leaves => 'nothing', conf => { 'test_aio.reach_writes' => 'on', fsync => 'on' });
