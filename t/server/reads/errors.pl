# Reads that are short or fail.
use TestAio;

# Short reads of every length.  md_readv_complete() counts whole blocks, WaitReadBuffers()
# reads the rest, and the pages that have come are verified (buffer_readv_complete).
with_each_io_method('sync; long: all', sub {
	my $path = 'base/\d+/(?:t\d+_)?\d+';

	# bytes read of 4 blocks, whole blocks
	my @cases = ([ 8192 => 1 ], [ 8193 => 1 ], [ 16383 => 1 ], [ 16384 => 2 ], [ 20000 => 2 ], [ 32767 => 3 ], [ 32768 => 4 ], [ 'NULL' => 4 ]);
	$aio->scenario('%s, %s bytes of four blocks', with_kind('alice', 10, sub ($alice, $t, $kind, $bytes, $blocks) {
		$aio->short_read_attach($bytes, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
		$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 4)");
		$alice->warns(qr/XX001: could not read blocks 2\.\.5 in file "$path": read only @{[ $blocks * 8192 ]} of 32768 bytes/) if $blocks < 4;

		# each short read leaves fewer blocks
		$aio->evict($t, $alice);
		my ($reads, $sum) = (0, 0);
		for (my $left = 4; $left > 0; $left -= $blocks) { $reads++; $sum += $left }
		$alice->sql('SET client_min_messages = debug1');
		$alice->notices;
		is($aio->io_during($alice, $kind ? 'temp relation/normal' : 'relation/normal', sub {
			$alice->gives("SELECT sum(nblocks), count(*) FROM read_buffers('$t', 2, 4)", '4|1', 'StartReadBuffers');
		}), $reads . '/' . $sum * 8192, 'reads and bytes');
		is(scalar grep({ /could not read blocks \d+\.\.5 in file "$path": read only \d+ of \d+ bytes/ } $alice->notices), $reads - 1, 'DEBUG1 tells of each that was short');
		$alice->sql('RESET client_min_messages');
		$aio->evict($t, $alice);
		is($aio->io_during($alice, $kind ? 'temp relation/normal' : 'relation/normal', sub {
			$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4, 5])", '2,3,4,5', 'stream');
		}), $reads . '/' . $sum * 8192, 'reads and bytes');
		$aio->evict($t, $alice);
		my $plan = explained($alice, 'BUFFERS', "SELECT * FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4, 5])");
		is($plan->{ ($kind ? 'Local' : 'Shared') . ' Read Blocks' }, $sum, 'EXPLAIN (BUFFERS) counts the blocks that each read asks for');
		$aio->is_as_written($t, session => $alice);
		$aio->short_read_detach;
		$aio->evict($t, $alice);
	}), each => [ combined([''], \@cases), combined(['TEMP'], [ @cases[ 1, 4, 5 ] ]) ], leaves => 'nothing',
		skip => sub ($kind, $bytes, $) { return $aio->no_faults // ($bytes eq '32767' || !$kind && $bytes =~ /^(?:8193|16384)$/ ? undef : only_long()) });

	# a short read, and a bad page
	$aio->scenario('a bad page among what has come', with_kind('alice', 10, sub ($alice, $t, $) {
		$alice->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
		$aio->short_read_attach(16384, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
		$alice->fails("SELECT * FROM read_buffers('$t', 2, 4)", 'XX001', qr/invalid page in block 3 of relation "$path"/);
		$alice->sql('SET zero_damaged_pages = on');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 4)", 4, 'all blocks');
		$alice->warns(qr/invalid page in block 3 of relation "$path"; zeroing out page/);
		$aio->short_read_detach;
		$aio->is_as_written($t, session => $alice, except => 'block 3 has no row');
	}), each => [ '', 'TEMP' ], skip => $aio->no_faults, log => qr/LOG:  invalid page in block 3 /);

	$aio->scenario('%s, not even a block: %s bytes', with_kind('alice', 10, sub ($alice, $t, $, $bytes) {
		$aio->short_read_attach($bytes, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
		my $message = qr/XX001: could not read blocks 2\.\.5 in file "$path": read only 0 of 32768 bytes/;
		$alice->fails("SELECT read_rel_block_ll('$t', 2, nblocks => 4)", 'XX001', $message);
		$alice->fails("SELECT * FROM read_buffers('$t', 2, 4)", 'XX001', $message);
		$aio->logs(qr/LOG: .*could not read blocks 2\.\.5 in file "$path": read only 0 of 32768 bytes/, 2, 'logged when it happens');
		$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY[0, 2, 3, 4, 5])", 'XX001', qr/could not read blocks 0\.\.0 in file/);
		$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/could not read blocks 0\.\.0 in file "$path": read only 0 of 8192 bytes/, 'scan');
		$aio->short_read_detach;
		$alice->gives("SELECT sum(nblocks), bool_and(io_reqd) FROM read_buffers('$t', 2, 4)", '4|t', 'nothing was taken for valid');
	}), each => [ combined([ '', 'TEMP' ], [ 0, 4096, 8191 ]) ], skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);
});

# Reads that fail: SQLSTATE, message and block range for each kind of error, reported once to
# the session and logged once by the process that completes the read (md_readv_report).
my @errors = (
	[ EIO => '58030', 'Input/output error' ],
	[ EACCES => '42501', 'Permission denied' ],
	[ ENOENT => '58P01', 'No such file or directory' ],
	[ EAGAIN => 'XX000', 'Resource temporarily unavailable' ]);

with_each_io_method('worker; long: all', sub {
	$aio->scenario('%s, %s', with_kind('alice bob', 10, sub ($alice, $bob, $t, $kind, $errno, $sqlstate, $text) {
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		my $node = $alice->sql("SELECT pg_relation_filenode('$t')");
		$aio->short_read_attach($errno, relfilenode => $node);
		$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 3)", $sqlstate,
			qr/could not read blocks 3\.\.5 in file "$path": $text\n/, $errno);
		$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY[1, 2, 9])", $sqlstate, qr/could not read blocks 1\.\.2 in file "$path": $text\n/);
		# waits for a read of block 9 that may be in flight, so that none ends after short_read_detach()
		$alice->fails("SELECT * FROM read_buffers('$t', 9, 1)", $sqlstate, qr/could not read blocks 9\.\.9 in file "$path": $text\n/);
		$aio->short_read_detach;
		$aio->logs(qr/LOG: .*could not read blocks 3\.\.5 in file "$path": $text$/, 1, 'logged once');
		$aio->logs(qr/ERROR: .*could not read blocks 3\.\.5 in file "$path": $text$/, 1, 'reported once');
		$aio->logs(qr/CONTEXT: .*I\/O worker executing I\/O on behalf of process ${\$alice->pid}$/, $aio->method eq 'worker' && $kind ne 'TEMP' ? '>0' : 0, 'the log names the owner');
		$alice->gives("SELECT bool_and(io_reqd) FROM read_buffers('$t', 0, 10)", 't', 'nothing was taken for valid');
	}), each => [ combined([ '', 'TEMP' ], \@errors) ], skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);

	$aio->scenario('other forks', with('alice', 10, sub ($alice, $t, $fork) {
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		my $pages = $aio->sql("SELECT pg_relation_size('$t', '$fork') / 8192");
		my $blocks = "could not read blocks 0\\.\\.${\($pages - 1)} in file \"${path}_$fork\"";
		$aio->evict($t);
		$aio->short_read_attach('EIO', pid => $alice->pid);
		$alice->fails("SELECT pg_prewarm('$t', 'buffer', '$fork')", '58030', qr/$blocks: Input\/output error/, "$fork: the message names the fork");
		$aio->short_read_detach;
		$aio->short_read_attach(0, pid => $alice->pid);
		$alice->fails("SELECT pg_prewarm('$t', 'buffer', '$fork')", 'XX001', qr/$blocks: read only 0 of ${\($pages * 8192)} bytes/, "$fork: also that of a short read");
		$aio->short_read_detach;
		$alice->gives("SELECT pg_prewarm('$t', 'buffer', '$fork')", $pages, "$fork: it can be read");
	}), each => [qw(fsm vm)], skip => $aio->no_faults // $aio->lacks('pg_prewarm'), log => qr/LOG:  could not read blocks/);

	$aio->scenario('the error is its owner\'s alone', with('alice bob', 10, sub ($alice, $bob, $t) {
		$aio->short_read_attach('EIO', pid => $alice->pid);
		$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 3)", 3, 'another process');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 3)", 3, 'no read');
		$alice->fails("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", '58030', qr/blocks 3\.\.3/);
		$aio->short_read_attach('EIO', relfilenode => 1);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", 4, 'another relation');
		$aio->short_read_detach;
	}), leaves => 'nothing', skip => $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.3/);

	# since 19 the session performs a lone miss at once
	$aio->scenario('in the middle of a stream', with('alice', 120, sub ($alice, $t) {
		$aio->warm($t, 0 .. 99, 101 .. 119);
		$aio->short_read_attach('EIO', pid => $alice->pid);
		for my $query ("SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", "SELECT count(*) FROM $t")
		{
			$alice->fails($query, '58030', qr/could not read blocks 100\.\.100 in file/, $query);
		}
		$alice->sql('BEGIN');
		$alice->sql('SAVEPOINT s');
		$alice->fails("SELECT count(*) FROM $t", '58030', qr/could not read blocks 100\.\.100 in file/, 'in a subtransaction');
		$alice->sql('ROLLBACK TO s');
		$aio->short_read_detach;
		$alice->gives("SELECT count(*) FROM $t", 120, 'which can be undone');
		$alice->sql('COMMIT');
	}), leaves => 'nothing', skip => $aio->no_faults, log => qr/LOG:  could not read blocks 100\.\.100/);

	$aio->scenario('with others under way', with('alice', 60, sub ($alice, $t) {
		$alice->sql('SET effective_io_concurrency = 16; SET io_combine_limit = 1');
		$aio->short_read_attach('EIO', pid => $alice->pid, relation => $t);
		$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 58, 2)))", '58030', qr/could not read blocks 0\.\.0 in file/);
		$aio->short_read_detach;
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 58, 2)))", 30, 'all can be read');
	}), skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);

	# only a page that was never written may have one
	$aio->scenario('a header of zeros', with('alice', 4, changes => 1, sub ($alice, $t) {
		$aio->overwrite($aio->file_of($t), 2 * 8192, "\0" x 24);
		$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/invalid page in block 2 of relation/, 'is not an empty page');
	}), log => qr/LOG:  invalid page in block 2/);

	# AbortBufferIO() ends the I/O of the blocks
	$aio->scenario('the file is gone when a read is to start', with('alice bob', [ t => 20 ], [ u => 4 ], sub ($alice, $bob, $t, $u) {
		$alice->sql("SET effective_io_concurrency = 0; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c");
		while_away($aio->file_of($t), sub {
			$alice->sql("SELECT read_rel_block_ll('$u', 0, smgrreleaseall => true)");
			$alice->fails('MOVE ALL FROM c', '58P01', qr/could not open file/, 'fails');
		});
		$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", 20, 'another reads them');
		$alice->sql('ROLLBACK');
	}), leaves => 'nothing');
});

# Reads of 128 blocks of which some are bad or missing: the report, and which blocks are
# valid afterwards (md_readv_complete(), buffer_readv_complete(), WaitReadBuffers()).

# [ bad blocks, valid blocks, message ]; no block for an errno
my @cases = (
	[ '', '{}', 'could not read blocks 127..254 in file "%s": Input/output error' ],
	[ '127', '{[128,255)}', 'invalid page in block 127 of relation "%s"' ],
	[ '190', '{[127,190),[191,255)}', 'invalid page in block 190 of relation "%s"' ],
	[ '254', '{[127,254)}', 'invalid page in block 254 of relation "%s"' ],
	[ '127, 190, 254', '{[128,190),[191,254)}', '3 invalid pages among blocks 127..254 of relation "%s"' ]);

for_each_io_method('sync; long: all', sub {
	$aio->scenario('128 blocks, some or all bad', with_kind('alice', 255, sub ($alice, $t, $) {
		my $path = $alice->sql("SET io_combine_limit = 128; SELECT pg_relation_filepath('$t')");
		for (@cases)
		{
			my ($bad, $valid, $message) = @$_;
			my $damages = "SELECT modify_rel_block('$t', b, %s => true) FROM unnest(ARRAY[$bad]::int[]) b";
			if ($bad) { $alice->sql(sprintf $damages, 'corrupt_header') }
			else { $aio->short_read_attach('EIO', pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')")) }
			$aio->evict($t, $alice);
			$alice->fails("SELECT * FROM read_buffers('$t', 127, 128)", $bad ? 'XX001' : '58030', qr/: \Q${\sprintf $message, $path}\E\n/, "bad: $bad");
			$alice->gives("SELECT coalesce(range_agg(int4range(b, b + 1)), '{}') FROM generate_series(127, 254) b WHERE 'VALID' = ANY ((buffer_state('$t', b)).flags)", $valid, 'all other blocks of the read are valid');
			$alice->sql(sprintf $damages, 'zero') if $bad;
			# the table is damaged from here on
			$aio->short_read_detach, $aio->is_as_written($t, session => $alice, blocks => 255) if !$bad;
		}
	}), each => [ '', 'TEMP' ], skip => sub ($kind) { $aio->no_faults // ($kind ? only_long() : undef) }, log => qr/LOG:  (?:invalid page in block (?:127|190|254)|could not read blocks 127\.\.254) /);
}, conf => { io_max_combine_limit => 128, shared_buffers => '128MB' });
