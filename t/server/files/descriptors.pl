# Files that are closed, dropped, truncated or moved while they are read, for which io_uring must
# wait (pgaio_closing_fd), and the descriptors that files need.
use TestAio;
use POSIX ();

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('closed by the reader', with('alice', 60, sub ($alice, $t) {
		$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false, smgrreleaseall => true) FROM generate_series(0, 38, 2) b");
		$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, smgrreleaseall => true) FROM generate_series(40, 58, 2) b");
		is($aio->cached($t), join(',', 0 .. 59), 'all is read') if $aio->method ne 'worker';
	}));

	# what is done, and whether the rows stay
	my @ends = (
		[ 'DROP TABLE %s', 0 ], [ 'TRUNCATE %s', 0 ], [ 'VACUUM FULL %s', 1 ],
		[ 'BEGIN; DROP TABLE %s; ROLLBACK', 1 ], [ 'ALTER TABLE %s SET TABLESPACE elsewhere', 1 ]);
	$aio->scenario('by %s: %s', with('alice bob', [ t => 30, changes => 1 ], [ u => 10 ], sub ($alice, $bob, $t, $u, $who, $sql, $stays) {
		$alice->sql("SELECT read_rel_block_ll('$t', 0, nblocks => 16, wait_complete => false), read_rel_block_ll('$u', 0, nblocks => 4, wait_complete => false)");
		($who eq 'itself' ? $alice : $bob)->sql($_) for split /; /, sprintf $sql, $t;
		# uses files and buffers again
		my $v = $aio->table('v', 30, gen => 1);
		$aio->is_as_written($v, gen => 1);
		$aio->is_as_written($t) if $stays;
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 10)", 10, 'goes on');
		$aio->sql("DROP TABLE $t") if $sql =~ /TABLESPACE/;
	}), each => [ combined([ 'itself', 'another' ], \@ends) ], skip => sub ($who, $sql, $) { $who eq 'another' && $sql =~ /ROLLBACK|FULL/ ? only_long() : undef });
}, prepare => sub ($aio) { $aio->make_tablespace });

# Fewer file descriptors than files.  The descriptor that is closed to make room may belong to a read that is staged
# or in flight (pgaio_closing_fd in LruDelete), and is opened again for the next read (FileStartReadV).  The test puts
# a pipe in the file's place for a read that takes its time in the kernel (pgaio_uring_wait_one).

# Test: a session that waits for a read in the kernel shows it and goes on at a signal; a session that wants the same
# block waits for the first one.  The cursor has read the block before.
sub slow_read ($aio, $reader, $t, $cursor, $block)
{
	my ($other) = $aio->sessions('other');
	my $file = $aio->file_of($t);
	rename $file, "$file.away" or die "$file: $!";
	POSIX::mkfifo($file, 0600) or die "$file: $!";
	open my $pipe, '+<', $file or die "$file: $!";
	$reader->sql('SAVEPOINT s');
	$reader->gives("FETCH 1 FROM $cursor", $block - 1 . '|t', 'begins to read from a pipe');
	rename "$file.away", $file or die "$file: $!";
	$reader->waits("FETCH 1 FROM $cursor", 'AioIoUringExecution');
	$other->waits("SELECT count(*) FROM $t WHERE ctid = '($block,1)' AND body = proof('$t', $block, 0)", 'AioUringCompletion');
	$aio->sql("SELECT pg_cancel_backend(${\$reader->pid})");
	# the session begins to read one more block before it is cancelled
	open my $original, '<', $file or die "$file: $!";
	sysseek $original, $block * 8192, 0;
	my $pages;
	sysread($original, $pages, 2 * 8192) == 2 * 8192 && syswrite($pipe, $pages) == 2 * 8192 or die "the pages are not passed on: $!";
	$reader->raises('57014', qr/canceling statement due to user request/, 'is cancelled when it has been read');
	$other->returns(1, 'and this is what was read');
	$reader->sql('ROLLBACK TO s');
	return;
}

# Test: a cursor fails in this way while the table's file is away, with or without another file in its place.
sub fails_without_file ($aio, $session, $t, $cursor, $instead, @fails)
{
	$session->sql('SAVEPOINT s');
	while_away($aio->file_of($t), sub { $session->fails("MOVE ALL FROM $cursor", @fails) }, $instead);
	$session->sql('ROLLBACK TO s');
	return;
}

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('more tables than descriptors', with('alice bob', sub ($alice, $bob) {
		my $n = 60;
		my @tables = map { $aio->table("t$_", 8) } 1 .. $n;
		my ($often, $once, @others) = @tables;
		# the session opens a file before an I/O worker does
		my $read = sub ($t, $block) { return $alice->sql("SELECT invalidate_rel_block('$t', $block), read_rel_block_ll('$t', $block)") };
		my %file = map { $_ => $aio->file_of($_) } $often, $once;
		my $is_open = sub ($t) { return scalar(() = descriptors($alice->pid, qr/^\Q$file{$t}\E$/)) };
		$read->($_, 0) for $often, $once;
		is(join(',', map { $is_open->($_) } $often, $once), '1,1', 'both are open');
		my $closed = 0;
		for my $t (@others)
		{
			$read->($often, 1);
			$read->($t, 0);
			$closed++ if !$is_open->($often);
		}
		is($closed, 0, 'the one that is read from again and again is never closed');
		is($is_open->($once), 0, 'the other one has made room');

		# stages reads, then opens the other files without waiting
		my ($first, $last) = (7, 16);
		$alice->sql($aio->batch(
			(map { "SELECT read_rel_block_ll('$tables[$_]', 1, nblocks => 2, wait_complete => false)" } $first .. $last),
			(map { "SELECT invalidate_rel_block('$_', 2)" } @tables[ $last + 1 .. $#tables ])));
		$alice->sql(join ';', map { "SELECT read_rel_block_ll('$_', 0, wait_complete => false)" } @tables);
		$aio->is_as_written($_) for @tables[ $first .. $last ];
		$alice->sql(join ';', map { "SELECT evict_rel('$_')" } @tables);
		for my $t (@tables[ 0, 40, 59 ]) { $aio->is_as_written($t); $aio->evict($t) }
		$aio->end_session($alice);

		# a stream that goes on does not look for the length of the file
		$bob->sql('SET effective_io_concurrency = 1; SET io_combine_limit = 1; BEGIN');
		$bob->sql(join ';', map { "DECLARE c$_ CURSOR FOR SELECT blk, body = proof('$tables[$_]', blk, 0) FROM $tables[$_]" } 0 .. $#tables);
		for my $block (0 .. 2)
		{
			$bob->gives(join(';', map { "FETCH 1 FROM c$_" } 0 .. $#tables), join("\n", ("$block|t") x $n), "block $block of each");
		}

		fails_without_file($aio, $bob, $tables[0], 'c0', undef, '58P01', qr/could not start reading blocks (\d+)\.\.\1 in file/, 'a file that is gone when it is opened again');
		# an error of the kernel's own: a process has no memory at these addresses.  An I/O
		# worker would keep this file open for later reads.
		fails_without_file($aio, $bob, $tables[1], 'c1', '/proc/self/mem', '58030', qr/could not read blocks (\d+)\.\.\1 in file "\S+": Input\/output error/, 'a read that fails')
		  if $aio->method ne 'worker';
		slow_read($aio, $bob, $tables[2], 'c2', 4) if $aio->method eq 'io_uring';
		$bob->sql('ROLLBACK');
	}), log => qr/LOG:  could not read blocks/);

	# the session forgets the descriptor, and opens the file again; without data_sync_retry, there would be a PANIC
	$aio->scenario('a file that cannot be closed', with('alice', sub ($alice) {
		my @tables = map { $aio->table("t$_", 2) } 1 .. 70;
		my $reads = sub ($when) { $aio->sql("SELECT evict_rel('$_')") for @tables; is(join(' ', map { $alice->sql("SELECT count(*) FROM $_ WHERE body = proof('$_', blk, 0)") } @tables), join(' ', (2) x 70), "all tables, $when") };
		while_injected($alice->pid, 'close:error=EIO:when=1', undef, sub { $reads->('while it fails') });
		$reads->('and later');
		like($aio->log_text, qr/alice LOG:  could not close file "base/, 'the log says so');
	}), skip => no_strace(), log => qr/alice LOG:  could not close file/);

	# each file is closed and opened again
	$aio->scenario('more temporary files than descriptors', with('alice', sub ($alice) {
		my @cursors = map { "c$_" } 1 .. 70;
		$alice->sql("SET work_mem = '64kB'; BEGIN; " . join(';', map { "DECLARE $_ CURSOR WITH HOLD FOR SELECT i FROM generate_series(1, 4000) i" } @cursors) . '; COMMIT');
		$aio->gives('SELECT count(*) FROM pg_ls_tmpdir()', 70, 'files');
		for my $row (1, 4000)
		{
			my $before = $row - 1;
			$alice->gives(join(';', map { "MOVE ABSOLUTE $before FROM $_; FETCH 1 FROM $_" } @cursors), join("\n", ($row) x 70), "row $row of each");
		}
	}));
}, conf => { data_sync_retry => 'on', max_files_per_process => 64, io_max_concurrency => 64, max_connections => 10 });

with_each_io_method('sync; long: all', sub {
	$aio->scenario('programs that the server starts', with('alice', 10, sub ($alice, $t) {
		$alice->note_temporary_tables;
		$alice->sql("SELECT count(*) FROM $t; CREATE TEMP TABLE seen (file text); COPY seen FROM PROGRAM 'ls -l /proc/self/fd'");
		isnt(join(' ', descriptors($alice->pid, qr{/pgdata/base/})), '', 'the session has files open');
		$alice->gives(q{SELECT string_agg(file, '; ') FROM seen WHERE file ~ '/pgdata/(base|global|pg_wal)/'}, '', 'its program has none of them');
	}));
});

for_each_io_method('worker; long: all', sub {
	# one that a subtransaction has open when it fails
	$aio->scenario('a file that COPY reads', with('alice', sub ($alice) {
		my $file = $aio->node->basedir . '/rows.csv';
		PostgreSQL::Test::Utils::append_to_file($file, "1\n2\nthree\n");
		$alice->sql('CREATE TABLE scenario.r (n int); BEGIN; INSERT INTO scenario.r VALUES (7)');
		for my $close ('ROLLBACK TO s', 'ROLLBACK TO s; RELEASE s')
		{
			$alice->sql('SAVEPOINT s');
			$alice->fails("COPY scenario.r FROM '$file'", '22P02', qr/COPY r, line 3, column n: "three"/, 'COPY fails');
			is(scalar descriptors($alice->pid, qr{/rows\.csv$}), 0, 'and has closed its file');
			$alice->sql($close);
		}
		$alice->gives("SELECT sum(n) FROM scenario.r", 7, 'the transaction goes on');
		$alice->sql("DO 'BEGIN COPY scenario.r FROM ''$file''; EXCEPTION WHEN invalid_text_representation THEN NULL; END'");
		is(scalar descriptors($alice->pid, qr{/rows\.csv$}), 0, 'caught in a block');
		$alice->sql('COMMIT');
		unlink $file;
	}));

	# The background writer closes the files of dropped tables, or it would keep a descriptor of
	# each, and counts the rounds that end early.
	$aio->scenario('a table is dropped', with('alice', [ t => 100 ], [ u => 100 ], sub ($alice, $t, $u) {
		my ($file) = $aio->file_of($t) =~ m{([^/]+/[^/]+)$};
		my ($writer) = $aio->pids_of_type('background writer');
		my $open = sub { return scalar(() = descriptors($writer, qr{/\Q$file\E( \(deleted\))?$})) };
		# it cleans the dirty buffers that the sweep of the clock would come to
		ok($aio->poll(sub {
			$alice->sql("UPDATE $t SET gen = gen; SELECT evict_rel('$u'); SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT generate_series(0, 99)))");
			$open->() > 0;
		}), 'the background writer has its file open');
		$aio->sql("DROP TABLE $t; CHECKPOINT");
		ok($aio->poll(sub { $open->() == 0 }), 'and closes it after a checkpoint');
	}));

	# nobody else writes the block, so that the next checkpoint has nothing but its word
	$aio->scenario('a checkpoint syncs what it has written', with('alice', [ t => 10, changes => 1 ], [ u => 200 ], sub ($alice, $t, $u) {
		my ($flags, $size);
		$alice->sql("SELECT count(*) FROM $t");
		ok($aio->poll(sub {
			$alice->sql("CHECKPOINT; SELECT FROM $t WHERE ctid = '(3,1)' FOR UPDATE") if !$flags;
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT (random() * 199)::int FROM generate_series(1, 20)))");
			$flags = $aio->sql("SELECT array_to_string(flags, ' ') FROM buffer_state('$t', 3)");
			$flags =~ /VALID/ && $flags !~ /DIRTY/;
		}), 'the background writer writes a block');
		$size = $aio->log_size;
		$aio->sql('CHECKPOINT');
		my ($file) = $aio->file_of($t) =~ m{/pgdata/(.*)};
		like($aio->log_text($size), qr/checkpoint sync: number=\d+ file=$file /, 'the checkpoint syncs its file');
	}));

	# there is room for 128: a session syncs what it cannot ask for, and waits until it can ask for files to be removed
	$aio->scenario('a full queue to the checkpointer', with('alice', sub ($alice) {
		$aio->sql('CHECKPOINT');
		my $tables = join ', ', map { "scenario.q$_" } 1 .. 150;
		while_still($aio->pids_of_type('checkpointer'), sub {
			$alice->sql("CREATE TABLE $_ ()") for split /, /, $tables;
			$alice->waits("DROP TABLE $tables", 'RegisterSyncRequest');
		});
		$alice->ends;
		$aio->sql('CHECKPOINT');
		$aio->gives("SELECT count(*) FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = current_database())) f WHERE f ~ '^[0-9]+\$' AND f::oid NOT IN (SELECT pg_relation_filenode(oid) FROM pg_class WHERE relfilenode > 0 OR relkind IN ('r', 't', 'i'))",
			0, 'no file is left');
	}));

	# a round ends when it has written so many; with one each, both counts are the same
	$aio->scenario('rounds that end early', with('alice', [ t => 100, changes => 1 ], [ u => 100, changes => 1 ], sub ($alice, $t, $u) {
		my $work = sub { $alice->sql("UPDATE $t SET gen = gen; SELECT evict_rel('$u'); SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT generate_series(0, 99)))") };
		my $counts = 'SELECT buffers_clean, maxwritten_clean FROM pg_stat_bgwriter';
		$aio->alter_system(bgwriter_lru_maxpages => 1);
		$aio->sql("SELECT pg_stat_reset_shared('bgwriter')");
		# until it has read the setting
		$aio->poll(sub { $work->(); my ($clean, $ended) = split /\|/, $aio->sql($counts); $ended > 0 }) or fail('rounds end early');
		$aio->sql("SELECT pg_stat_reset_shared('bgwriter')");
		my ($clean, $ended);
		ok($aio->poll(sub { $work->(); ($clean, $ended) = split /\|/, $aio->sql($counts); $ended >= 5 }), 'rounds are counted that end early');
		is($clean, $ended, 'each after one buffer');
	}), skip => only_long());
}, leaves => 'nothing', conf => { shared_buffers => '1MB', bgwriter_delay => '10ms', bgwriter_lru_maxpages => 1000, bgwriter_lru_multiplier => 10, fsync => 'on', log_min_messages => 'debug1' });
