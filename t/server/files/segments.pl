# Forks, and tables of three segments.
use TestAio;
use File::Basename qw(basename);

# Tables of three segments: reads that end at a boundary of segments, begin there and would
# cross it (mdmaxcombine, mdstartreadv, mdfd).

# Returns the reads that a range of blocks takes: first block, number of blocks and offset in the file of each.
sub reads_of ($first, $count, $limit, $segment)
{
	my ($end, @reads) = $first + $count;
	while ($first < $end)
	{
		my $offset = $first % $segment;
		my ($blocks) = sort { $a <=> $b } $limit, $end - $first, $segment - $offset;
		push @reads, "$first+$blocks at " . $offset * 8192;
		$first += $blocks;
	}
	return @reads;
}

with_each_io_method('io_uring; long: all', sub {
	my @boundaries = boundaries($aio);
	my $segment = $boundaries[0];
	my $size = 2 * $segment + SIDE;

	# DROP DATABASE has all processes close their files
	$aio->scenario('a process that begins with the third segment', sub {
		$aio->sql('CREATE DATABASE dropped TEMPLATE postgres');
		my ($alice) = $aio->sessions('alice');
		my ($t) = long_table($aio, 't');
		$aio->evict($t);
		$aio->sql('DROP DATABASE dropped');
		$alice->sql("SELECT read_rel_block_ll('$t', 2 * $segment + 1)");
		is(right_rows($alice, $t, 2 * $segment, SIDE), SIDE, 'the rows');
	}, skip => $aio->method eq 'worker' ? undef : 'only a worker reads without asking for the length, which opens all segments');

	# the files go after the commit: an error is a warning
	$aio->scenario('a file that DROP TABLE cannot remove', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t AS SELECT 1 AS n');
		my $fork = $aio->file_of('scenario.t') . '_fsm';
		mkdir $fork or die "$fork: $!";
		$alice->gives('DROP TABLE scenario.t', '', 'succeeds');
		$alice->warns(qr/could not $_ file .*_fsm/) for qw(truncate remove);
		rmdir $fork;
	}));

	$aio->scenario('at the boundaries', with('alice', sub ($alice, $kind) {
		my ($t, $file) = long_table($aio, 't', kind => $kind, session => $alice);
		$alice->gives("SELECT pg_relation_size('$t') / 8192", $size, 'two segments and a bit');
		is(file_sizes($file), "$segment $segment " . SIDE, 'the files');
		$aio->evict($t, $alice);
		for my $boundary (only_long() ? $boundaries[1] : @boundaries)
		{
			# distance of the first block from the boundary, blocks
			for my $case ([ -4, 4 ], [ 0, 4 ], [ -4, 8 ], [ -1, 1 ], [ 0, 1 ], [ -1, 2 ], [ -SIDE, SIDE + 1 ])
			{
				my ($distance, $count) = @$case;
				my $first = $boundary + $distance;
				my $last = $first + $count - 1;
				my $stream = "read_stream_for_blocks('$t', ARRAY(SELECT generate_series($first, $last)))";
				my @ways = ([ 16, $stream ], [ 16, "read_buffers('$t', $first, $count)" ], $count > 4 ? [ 3, $stream ] : ());
				my @all;
				for my $way (@ways)
				{
					my ($limit, $read) = @$way;
					my @reads = reads_of($first, $count, $limit, $segment);
					push @all, @reads;
					my $name = "$first to $last, at most $limit, " . $read =~ s/\(.*//sr;
					$alice->sql("SET io_combine_limit = $limit; SELECT evict_rel('$t')");
					$aio->io_trace_restart(pid => $alice->pid) if !$aio->lacks('trace');
					$alice->sql("SELECT count(*) FROM $read");
					if (!$aio->lacks('trace'))
					{
						$aio->io_trace_stop;
						# the catalogs and the index are short
						$aio->io_trace_shows("string_agg(blockno || '+' || nblocks || ' at ' || off, ', ' ORDER BY seq) FILTER (WHERE blockno >= $segment - ${\SIDE})",
							join(', ', @reads), "$name: where");
					}
					is(right_rows($alice, $t, $first, $count), $count, "$name: the rows");
				}
				my $again = join '; ', map { "SET io_combine_limit = $_->[0]; SELECT evict_rel('$t'); SELECT count(*) FROM $_->[1]" } @ways;
				is($aio->io_during($alice, ($kind ? 'temp relation' : 'relation') . '/normal', sub { $alice->sql($again) }), @all . '/' . @ways * $count * 8192, "$first to $last: reads and bytes");
			}
			$alice->fails("SELECT read_rel_block_ll('$t', $boundary - 1, nblocks => 2)", '22023', qr/cannot be read by one I\/O/, 'not in one read');
			for my $block ($boundary - 1, $boundary)
			{
				$aio->evict($t, $alice);
				$alice->sql("SELECT read_rel_block_ll('$t', $block, smgrreleaseall => true)");
				is(right_rows($alice, $t, $block, 1), 1, "block $block, when no file is open");
			}
		}
		$alice->fails("SELECT read_rel_block_ll('$t', $size)", '22023', qr/block number $size is out of range/, 'the end');
	}), each => [ '', 'TEMP' ], leaves => 'nothing', skip => sub ($kind) { $kind && only_long() });

	$aio->scenario('scans', with('alice', sub ($alice, $kind) {
		my ($t) = long_table($aio, 't', kind => $kind, session => $alice);
		my @blocks = map { my $boundary = $_; map { $boundary + $_ } -SIDE .. SIDE - 1 } @boundaries;
		my $columns = "CASE WHEN ctid = format('(%s,1)', blk)::tid AND body = proof('$t', blk, 0) THEN blk END";
		for my $boundary (@boundaries)
		{
			my $range = "SELECT $columns FROM $t WHERE ctid >= '(${\($boundary - SIDE)},0)' AND ctid < '(${\($boundary + SIDE)},0)'";
			my @found = $boundary - SIDE .. $boundary + SIDE - 1;
			$aio->evict($t, $alice);
			$alice->gives($range, join("\n", @found), "TIDs around $boundary");
			$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR $range; MOVE ALL FROM c");
			$aio->evict($t, $alice);
			$alice->gives('FETCH BACKWARD ALL FROM c', join("\n", reverse @found), 'and backward');
			$alice->sql('COMMIT');
		}
		$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
		$aio->evict($t, $alice);
		$alice->gives("SELECT $columns FROM $t WHERE blk >= 0", join("\n", @blocks), 'a bitmap scan');
		$alice->sql('SET enable_indexscan = on; SET enable_bitmapscan = off');
		$aio->evict($t, $alice);
		$alice->gives("SELECT $columns FROM $t WHERE blk >= 0 ORDER BY blk DESC", join("\n", reverse @blocks), 'an index scan backward');
		# each block is in another segment than the block before
		my @jumps = map { (2 * $segment + $_, $segment - 1 - $_, $segment + $_, 2 * $segment - 1 - $_, $_) } 0 .. SIDE - 1;
		$aio->evict($t, $alice);
		$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @jumps) . '])', join(',', @jumps), 'blocks of the three segments in turn');
		is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
		is(right_rows($alice, $t, 0, SIDE), 0, 'none in a hole');
	}), each => [ '', 'TEMP' ]);
});

# Tables of three segments: pages beside the boundaries are written, the table is extended over
# a boundary, truncated (mdtruncate) and recovered after a crash.
for_each_io_method('worker; long: all', sub {
	my @boundaries = boundaries($aio);
	my $segment = $boundaries[0];

	$aio->scenario('written and extended', with('alice', sub ($alice) {
		my ($t, $file) = long_table($aio, 't');
		# dirty pages on both sides are written at once
		$aio->sql('CHECKPOINT');
		$aio->evict($t);
		is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
		# the checkpointer closes all files after each checkpoint
		$aio->sql("DELETE FROM $t WHERE blk = 2 * $segment + 1; CHECKPOINT");
		$aio->evict($t);
		is(right_rows($alice, $t, 2 * $segment, SIDE), SIDE - 1, 'a page of the third segment alone is written');
		# the last blocks are removed, and new ones added on both sides of the second boundary
		$aio->evict($t);
		truncate "$file.2", 0 or die "$file.2: $!";
		truncate "$file.1", ($segment - 15) * 8192 or die "$file.1: $!";
		$alice->sql("SELECT read_rel_block_ll('$t', 0, smgrreleaseall => true)");
		$alice->sql("SELECT grow_rel('$t', 27)");
		is(file_sizes($file), "$segment $segment 12", 'extended into the third segment');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2 * $segment - 15, 27)", 27, 'all blocks are there');
		is(right_rows($alice, $t, $segment - SIDE, 2 * SIDE), 2 * SIDE, 'the rows beside the first boundary');
		$aio->evict($t);
		# or the next one would miss the files
		$aio->sql('CHECKPOINT');
		unlink "$file.1", "$file.2";
		$alice->sql("SELECT read_rel_block_ll('$t', 0, smgrreleaseall => true)");
		is(right_rows($alice, $t, $segment - SIDE, 2 * SIDE), SIDE, 'the rows of the first segment alone');
		ok(!-e "$file.1", 'no read makes another one');
	}));

	$aio->scenario('TRUNCATE', with('alice', sub ($alice, $kind) {
		$alice->sql('BEGIN');
		my ($t, $file) = long_table($aio, 't', kind => $kind, session => $alice);
		is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
		# TRUNCATE keeps the files of a table that the same transaction has made
		$alice->sql("TRUNCATE $t");
		is(file_sizes($file), '0 0 0', 'all files are empty');
		is(join(' ', descriptors($alice->pid, qr{\Q${\basename $file}\E\.\d+$})), '', 'the session has only the first one open');
		$alice->gives("SELECT count(*), pg_relation_size('$t') FROM $t", '0|0', 'no row is left');
		$alice->sql("CALL add_pages('$t', 0, 19, 1); COMMIT");
		$aio->evict($t, $alice);
		$alice->gives("SELECT problems('$t', 1, 20)", '', 'new rows');
		is(file_sizes($file), '20 0 0', 'in the first file');
		$alice->sql("DROP TABLE $t");
		# the first file of a permanent table stays, empty, until the next checkpoint
		like(file_sizes($file), $kind eq 'TEMP' ? qr/^-0\S* -0\S* -0\S*$/ : qr/^(?:0|-0\S*) -0\S* -0\S*$/, 'DROP leaves no file');
	}), each => [ '', 'TEMP' ]);

	# the space of its files is free although another session has them open
	$aio->scenario('DROP', with('alice bob', sub ($alice, $bob) {
		my ($t, $file) = long_table($aio, 't');
		is(right_rows($bob, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
		my @open = descriptors($bob->pid, qr{/\Q${\basename $file}\E(?:\.\d+)?$});
		is(scalar @open, 3, 'files that the other session has open');
		$alice->sql("DROP TABLE $t");
		is(join(' ', map { -s $_ ? readlink : () } @open), '', 'none has a size');
	}));

	$aio->scenario('files of transactions that are rolled back in part', sub {
		# those of the catalogs have smaller numbers
		my $files = sub { $aio->sql('CHECKPOINT'); return join ' ', map { s{.*/}{}r } glob $aio->node->data_dir . '/base/*/[1-9]????*' };
		my $rows = 'AS SELECT generate_series(1, 10) AS n';
		$aio->sql("CREATE TABLE scenario.$_ $rows") for qw(a b c d);
		my %file = map { $_ => $aio->sql("SELECT pg_relation_filenode('scenario.$_')") } qw(a b c d);
		my $before = $files->();
		$aio->sql($_) for 'BEGIN', 'DROP TABLE scenario.a', 'SAVEPOINT s', "CREATE TABLE scenario.e $rows", 'DROP TABLE scenario.b', 'ROLLBACK TO s', 'SAVEPOINT s', 'DROP TABLE scenario.c', 'RELEASE s', 'COMMIT';
		$aio->sql($_) for 'BEGIN', "CREATE TABLE scenario.e $rows", 'SAVEPOINT s', 'DROP TABLE scenario.e', 'SAVEPOINT r', "CREATE TABLE scenario.f $rows", 'DROP TABLE scenario.d', 'RELEASE r', 'ROLLBACK TO s', "CREATE TABLE scenario.g $rows", 'ROLLBACK';
		is($files->(), join(' ', grep { $_ ne $file{a} && $_ ne $file{c} } split / /, $before), 'those of tables that are dropped go');
		$aio->gives('SELECT sum(n) FROM (TABLE scenario.b UNION ALL TABLE scenario.d) t', 110, 'the others stay');
	});

	$aio->scenario('a crash', sub {
		my ($t, $file) = long_table($aio, 't');
		$aio->sql('CHECKPOINT');
		# the WAL has each row of the second table, and two deletions from the first
		my ($u, $other) = long_table($aio, 'u');
		$aio->sql("DELETE FROM $t WHERE blk = $_") for $segment, 2 * $segment;
		$aio->recovers;
		is(file_sizes($_), "$segment $segment " . SIDE, 'the files') for $file, $other;
		for my $boundary (@boundaries)
		{
			is(right_rows($aio, $u, $boundary - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $boundary");
			is(right_rows($aio, $t, $boundary - SIDE, 2 * SIDE), 2 * SIDE - 1, 'all but the deleted row');
		}
	}, dies => 1, skip => $aio->method eq 'worker' ? only_long() : 'recovery does not depend on the io_method');

	# the last row that stays is on the last page of the first segment
	$aio->scenario('a scan of everything, and VACUUM truncates', with('alice', sub ($alice) {
		my ($t, $file) = long_table($aio, 't');
		$aio->evict($t);
		$alice->gives("SELECT count(*), sum(blk) FROM $t WHERE body = proof('$t', blk, 0)", 4 * SIDE . '|' . (2 * SIDE * 3 * $segment - 2 * SIDE), 'a scan');
		$alice->sql("DELETE FROM $t WHERE blk >= $segment");
		isnt(join(' ', descriptors($alice->pid, qr{\Q${\basename $file}\E\.\d+$})), '', 'the session has further files open');
		like(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE on', $t), qr/pages: ${\($segment + SIDE)} removed, $segment remain/, 'VACUUM removes two segments');
		is(file_sizes($file), "$segment 0 0", 'the table ends at the first boundary');
		is(join(' ', descriptors($alice->pid, qr{\Q${\basename $file}\E\.\d+$})), '', 'the session has closed the empty files');
		$alice->sql("SELECT grow_rel('$t', 5)");
		is(file_sizes($file), "$segment 5 0", 'the second segment is in use again');
		$aio->evict($t);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', $segment - 5, 10)", 10, 'read again');
		is(right_rows($alice, $t, $segment - SIDE, 2 * SIDE), SIDE, 'the rows that stay');
	}), skip => only_long());

	$aio->scenario('a read that is held', with('alice bob', sub ($alice, $bob) {
		my ($t) = long_table($aio, 't');
		$aio->evict($t);
		my $boundary = 2 * $segment;
		my $read = "SELECT sum(nblocks) FROM read_buffers('$t', $boundary - 4, 8)";
		for my $held ($boundary - 4, $boundary + 3)
		{
			my $other = $held < $boundary ? $boundary : $boundary - 1;
			my ($first, $offset) = $held < $boundary ? ($boundary - 4, ($segment - 4) * 8192) : ($boundary, 0);
			$aio->evict($t);
			$aio->completion_wait(relation => $t, blockno => $held);
			$alice->starts($read);
			$alice->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait)$/);
			$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'COMPLETED_SHARED'"
				  . " AND off = $offset AND length = 32768 AND target_desc ~ '^blocks $first\.\.${\($first + 3)} in'", 1, "block $held is held: pg_aios");
			# an injection point of io_uring holds all reads of the session
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', $other, 1)", 1, 'the other side is read') if $aio->method ne 'io_uring' || !$aio->lacks('gate');
			$bob->waits("SELECT sum(nblocks) FROM read_buffers('$t', $held, 1)", 'AioIoCompletion');
			$aio->completion_continue;
			$alice->returns(8, 'all blocks');
			$bob->returns(1, 'what was held');
			is(right_rows($bob, $t, $boundary - 4, 8), 8, 'the rows');
		}
	}), skip => $aio->no_faults);

	$aio->scenario('the third segment is gone', with('alice', sub ($alice) {
		my ($t, $file) = long_table($aio, 't');
		$aio->evict($t);
		my $first = 2 * $segment - SIDE;
		$alice->sql("SET effective_io_concurrency = 0; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid >= '($first,0)'; FETCH 1 FROM c");
		$alice->sql("SELECT read_rel_block_ll('$t', 2 * $segment - 1, smgrreleaseall => true)");
		while_away("$file.2", sub {
			$alice->fails('MOVE ALL FROM c', '58P01', qr/could not open file "\S+\.2"/, 'an error that names it');
			ok(!-e "$file.2", 'no read makes it');
		});
		$alice->sql('ROLLBACK');
		is(right_rows($alice, $t, $first, 2 * SIDE), 2 * SIDE, 'the rows, when it is there again');
	}));

	# Forks other than a table's main fork: each block belongs to its fork.
	# Pages of the free space and visibility maps can be made anew; the server reads them with
	# RBM_ZERO_ON_ERROR and zeroes a bad one with a warning, whatever the settings.
	$aio->scenario('forks', with('alice', sub ($alice) {
		my $t = $aio->table('t', 40, kind => 'UNLOGGED');
		# the init fork of a heap is empty, that of an index is not
		$aio->sql("CREATE INDEX i ON $t (blk)");
		my $number = 0;
		for my $fork (qw(main fsm vm init))
		{
			my $relation = $fork eq 'init' ? 'scenario.i' : $t;
			my $blocks = $aio->sql("SELECT pg_relation_size('$relation', '$fork') / 8192");
			cmp_ok($blocks, '>', 0, "$fork: has blocks");
			$aio->evict($relation);
			is($alice->sql("SELECT pg_prewarm('$relation', 'buffer', '$fork')"), $blocks, "$fork: reads them");
			$aio->gives("SELECT count(DISTINCT relblocknumber), count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$relation') AND relforknumber = $number",
				"$blocks|$blocks", "$fork: in the buffer pool");
			$number++;
		}
		# the map of a table may be longer than the table, and each fork has an end of its own
		my $u = $aio->table('u', 10, changes => 1);
		$aio->sql("DELETE FROM $u WHERE blk > 0; VACUUM (TRUNCATE on) $u");
		my %blocks = map { $_ => $aio->sql("SELECT pg_relation_size('$u', '$_') / 8192") } qw(main fsm vm);
		is("$blocks{main} $blocks{fsm} $blocks{vm}", '1 3 1', 'blocks');
		my @functions = ("SELECT pg_prewarm('$u', 'buffer', '%1\$s', %2\$s, %2\$s)", $aio->lacks('pageinspect') ? () : "SELECT length(get_raw_page('$u', '%s', %s)) / 8192");
		for my $fork (sort keys %blocks)
		{
			for my $function (@functions)
			{
				$alice->gives((sprintf $function, $fork, $blocks{$fork} - 1), 1, "$fork: its last block");
				$alice->fails((sprintf $function, $fork, $blocks{$fork}), '22023', qr/block number/, "$fork: no further one");
			}
		}
		# the message names the fork
		$aio->evict($t);
		$aio->overwrite($aio->file_of($t) . "_fsm", 100, 'broken');
		$alice->fails("SELECT pg_prewarm('$t', 'buffer', 'fsm')", 'XX001', qr/invalid page in block 0 of relation "base\/\d+\/\d+_fsm"/, 'the fork by its name');
	}), log => qr/LOG:  (?:invalid page in block 0|page verification failed, calculated checksum) /, skip => $aio->lacks('pg_prewarm'));

	$aio->scenario('a bad page of the %s', with('alice', 40, sub ($alice, $t, $fork) {
		$aio->overwrite($aio->file_of($t) . "_$fork", 100, 'broken');
		is($aio->checksum_failures_during(sub {
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t; INSERT INTO $t VALUES ('$t', 40, 0, proof('$t', 40, 0))");
		}, $alice), '1/0/0', 'counted once');
		$alice->warns(qr/XX001: invalid page in block 0 of relation "base\/\d+\/\d+_$fork"; zeroing out page/);
		$aio->is_as_written($t, blocks => 41);
		$aio->evict($t);
		$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
		$aio->is_as_written($t, blocks => 41);
	}), each => [qw(vm fsm)], log => qr/LOG:  (?:invalid page in block 0|page verification failed, calculated checksum) /);

}, leaves => 'nothing');
