# The right to do a buffer's I/O, what the buffer's header says meanwhile, and races for it.
use TestAio;

# The right to do a buffer's I/O, which StartBufferIO() gives and TerminateBufferIO() ends:
# in one session, and with other sessions that wait for it (StartSharedBufferIO, WaitIO).
# What a buffer's header says before, during and after a read: its pins, and BM_IO_ERROR, which a failed read sets and
# the next successful read clears (TerminateBufferIO).  LockBufferForCleanup() waits for the pins of all others, a
# read's included: if the read's pin goes last, TerminateBufferIO() must wake the waiter.

# Returns flags and pins of these blocks.
sub headers ($session, $t, @blocks)
{
	return $session->sql("SELECT string_agg(coalesce(array_to_string(flags, '+') || ' ' || refcount, '-'), ', ' ORDER BY n)"
		  . " FROM unnest(ARRAY[" . join(',', @blocks) . "]) WITH ORDINALITY b (blk, n), buffer_state('$t', blk)");
}

with_each_io_method('worker; long: all', sub {
	$aio->scenario('one session', with_kind('alice', 4, sub ($alice, $t, $kind) {
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		cmp_ok($b, $kind ? '<' : '>', 0, 'sign of the buffer number');
		$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", 't', 'starts');
		$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", $kind ? ('t', 'starts again: the server does not note I/O on local buffers') : ('f', 'does not start a second time'));
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
		$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts again after an error');
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => true, io_error => false, release_aio => false)");
		$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 'f', 'does not start on a valid block');
		$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 'f', 'nor output of a clean block');
		$aio->evict($t, $alice);
	}), each => [ '', 'TEMP' ]);

	$aio->scenario('another waits, the I/O succeeds', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $b = starts_io($alice, $t);
		$bob->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", 'f', 'does not wait');
		$bob->waits("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 'BufferIo');
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => true, io_error => false, release_aio => false)");
		$bob->returns('f', 'need not start');
	}));

	# what has "succeeded" is done: nothing that was committed is lost
	$aio->scenario('rows before and after', with_kind('alice bob', 4, changes => 1, sub ($alice, $bob, $t, $kind) {
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		$alice->sql("SELECT buffer_call_start_io($b, true, true), buffer_call_terminate_io($b, true, succeed => true, io_error => false, release_aio => false)");
		$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(2,1)'", 1, 'after input, the buffer has what the file has');
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
		$b = $alice->sql("SELECT buffer FROM buffer_state('$t', 2)");
		$alice->gives("SELECT buffer_call_start_io($b, false, true)", 't', 'starts to write');
		($kind ? $alice : $bob)->sql("DELETE FROM $t WHERE ctid = '(2,1)'");
		$alice->sql("SELECT buffer_call_terminate_io($b, false, succeed => true, io_error => false, release_aio => false)");
		$alice->gives("SELECT flags FROM buffer_state('$t', 2)", $kind ? '{VALID}' : '{VALID,PERMANENT}', 'is clean');
		$alice->sql("SELECT invalidate_rel_block('$t', 2)");
		$alice->gives("SELECT count(*) FROM $t", 3, 'and the file has the change');
	}), each => [ '', 'TEMP' ]);

	# a buffer must forget the read that has filled it
	$aio->scenario('another waits to write what has been read', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $b = $alice->sql("SELECT buf FROM read_stream_for_blocks('$t', ARRAY[2])");
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
		$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 't', 'starts to write');
		$bob->waits("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 'BufferIo');
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => false, succeed => false, io_error => false, release_aio => false)");
		$bob->returns('t', 'starts it himself');
		$bob->sql("SELECT buffer_call_terminate_io($b, for_input => false, succeed => false, io_error => false, release_aio => true)");
		$aio->evict($t, $alice);
	}));

	$aio->scenario('another waits, the I/O fails', with('alice bob carol', 4, sub ($alice, $bob, $carol, $t) {
		my $b = starts_io($alice, $t);
		$_->starts("SELECT buffer_call_start_io($b, for_input => true, wait => true)")->waits_on('BufferIo') for $bob, $carol;
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => false)");
		$aio->poll(sub { $bob->has_ended || $carol->has_ended });
		my ($next, $last) = $bob->has_ended ? ($bob, $carol) : ($carol, $bob);
		$next->returns('t', 'one of the two starts');
		$last->waits_on('BufferIo', 'the other goes on waiting');
		$next->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
		$last->returns('t', 'and starts when that fails');
		$last->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => false, release_aio => true)");
	}));

	$aio->scenario('a reader waits: %s', with('alice bob', 4, sub ($alice, $bob, $t, $read) {
		my $b = starts_io($alice, $t);
		$bob->waits('SELECT min(blocknum) FROM ' . sprintf($read, $t), 'BufferIo');
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
		$bob->returns('1', 'reads');
	}), each => [ "read_buffers('%s', 1, 3)", "read_stream_for_blocks('%s', ARRAY[1, 2, 3])" ]);

	$aio->scenario('a waiting reader is cancelled', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $b = starts_io($alice, $t);
		$bob->waits("SELECT count(*) FROM read_buffers('$t', 0, 4)", 'BufferIo');
		$aio->cancels($bob);
		$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => false, release_aio => true)");
		$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", '4', 'and reads later');
	}), leaves => 'COMPLETED_SHARED');

	my $forgotten = $aio->setting('server_version') =~ /^19beta1\b/ ? '19beta1 unsets BM_IO_ERROR when it sets it (server commit c787c952bc)' : undef;
	my $cleanup_wait = $aio->major >= 19 ? 'BufferCleanup' : 'BufferPin';

	# kinds of tables, and what the headers of valid buffers and of buffers whose read has failed say
	my @kinds = map { [ $_, map { $_ . ' 0' } $_ ? qw(VALID IO_ERROR) : qw(VALID+PERMANENT IO_ERROR+PERMANENT) ] } '', 'UNLOGGED', 'TEMP';

	$aio->scenario('a read fails, and the next does not', with_kind('alice', 10, sub ($alice, $t, $, $valid, $failed) {
		is(headers($alice, $t, 2, 3), '-, -', 'not read yet');
		$aio->short_read_attach('EIO', relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
		$alice->fails("SELECT * FROM read_buffers('$t', 2, 2)", '58030', qr/blocks 2\.\.3/) for 1, 2;
		is(headers($alice, $t, 1, 2, 3, 4), "-, $failed, $failed, -", 'both blocks have failed');
		$aio->short_read_detach;
		$alice->sql("SELECT * FROM read_buffers('$t', 5, 2)");
		is(headers($alice, $t, 2, 3, 5), "$failed, $failed, $valid", 'still, when others are read');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 1)", 1, 'one is read again');
		is(headers($alice, $t, 2, 3), "$failed, $valid", 'and has not failed any more');
		$aio->is_as_written($t, session => $alice);
		is(headers($alice, $t, 2, 3), "$valid, $valid", 'nor has any when all are read');
	}), each => \@kinds, skip => sub ($kind, @) { $aio->no_faults // $forgotten // ($kind eq 'UNLOGGED' ? only_long() : undef) }, log => qr/LOG:  could not read blocks 2\.\.3 /);

	$aio->scenario('a bad page among good ones', with_kind('alice', 10, changes => 1, sub ($alice, $t, $, $valid, $failed) {
		$alice->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
		$aio->evict($t, $alice);
		$alice->fails("SELECT * FROM read_buffers('$t', 3, 3)", 'XX001', qr/invalid page in block 4 of relation/, 'fails');
		is(headers($alice, $t, 3, 4, 5), "$valid, $failed, $valid", 'only the bad one has failed');
		$alice->sql("SET zero_damaged_pages = on; SELECT * FROM read_buffers('$t', 3, 3)");
		$alice->warns(qr/invalid page in block 4 of relation \S+; zeroing out page/);
		is(headers($alice, $t, 3, 4, 5), "$valid, $valid, $valid", 'zeroed, it is valid');
		$alice->sql("SELECT modify_rel_block('$t', 4, zero => true)");
	}), each => \@kinds, skip => $forgotten, log => qr/LOG:  invalid page in block 4 /);

	$aio->scenario('pins of a read under way', with('alice bob', 10, sub ($alice, $bob, $t) {
		$aio->read_at_completion_wait($alice, "SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", relation => $t);
		my $in_progress = 'IO_IN_PROGRESS+PERMANENT';
		is(headers($aio, $t, 1 .. 5), "-, $in_progress 2, $in_progress 2, $in_progress 2, -", 'a pin of the reader and a pin of the I/O');
		$bob->waits("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)", 'AioIoCompletion');
		is(headers($aio, $t, 3, 4), "$in_progress 2, $in_progress 3", 'one more waits');
		$aio->completion_continue;
		$alice->returns(3, 'reads');
		$bob->returns(1, 'gets it');
		is(headers($aio, $t, 2, 4), 'VALID+PERMANENT 0, VALID+PERMANENT 0', 'none any more');
	}), skip => $aio->no_faults);

	# by its resource owner from 19 on
	$aio->scenario('the lock of a page ends with an error', with('alice bob', 4, sub ($alice, $bob, $t) {
		# btree compares with a page locked
		$aio->sql(<<"END");
CREATE FUNCTION scenario.compare(int, int) RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	IF current_setting('regress.fail', true) = 'yes' THEN RAISE 'cannot compare'; END IF;
	RETURN btint4cmp(\$1, \$2);
END \$\$;
CREATE OPERATOR CLASS scenario.fails FOR TYPE int USING btree AS OPERATOR 3 =, FUNCTION 1 scenario.compare(int, int);
CREATE INDEX ON $t (blk scenario.fails)
END
		$alice->sql('SET enable_seqscan = off; SET regress.fail = yes');
		$alice->fails("SELECT gen FROM $t WHERE blk = 2", 'P0001', qr/cannot compare/, 'fails');
		$bob->starts("INSERT INTO $t VALUES ('$t', 4, 0, proof('$t', 4, 0))");
		$bob->ends('writes to the page');
		$alice->sql('RESET regress.fail');
		$alice->gives("SELECT count(*) FROM $t WHERE blk = 4", 1, 'the row is there');
		$aio->is_as_written($t, blocks => 5);
	}));

	$aio->scenario('vacuum waits for the pin of an I/O', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $b = $alice->sql("SELECT buf FROM read_stream_for_blocks('$t', ARRAY[2])");
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
		$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 't', 'starts to write');
		$bob->waits("VACUUM (FREEZE) $t", $cleanup_wait);
		$alice->sql("SELECT buffer_call_terminate_io($b, false, succeed => false, io_error => false, release_aio => true)");
		$bob->ends('is woken');
	}));

	# the wait goes on after a wake-up for another reason
	$aio->scenario('vacuum waits for a pin, and is woken meanwhile', with('alice bob', 4, sub ($alice, $bob, $t) {
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(0,1)' FOR UPDATE) dirtied");
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c");
		$bob->starts("VACUUM (FREEZE) $t");
		for my $time (1, 2)
		{
			$bob->waits_on($cleanup_wait);
			$aio->sql("SELECT pg_log_backend_memory_contexts(${\$bob->pid})");
			ok($aio->poll(sub { (() = $aio->log_text =~ /logging memory contexts of PID ${\$bob->pid}\b/g) == $time }), 'is woken');
		}
		$bob->waits_on($cleanup_wait, 'waits again');
		$alice->sql('COMMIT');
		$bob->ends('gets the lock');
	}));

	# one process at a time may wait
	$aio->scenario('vacuum waits for a pin, and is canceled', with('alice bob carol dave', 4, sub ($alice, $bob, $carol, $dave, $t) {
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(0,1)' FOR UPDATE) dirtied");
		# with one pin, the end of the waiter's own would wake it, and take its request back
		$_->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c") for $alice, $dave;
		$bob->waits("VACUUM (FREEZE) $t", $cleanup_wait);
		$aio->cancels($bob, 'is canceled');
		$carol->waits("VACUUM (FREEZE) $t", $cleanup_wait, 'waits in its place');
		$_->sql('COMMIT') for $alice, $dave;
		$carol->ends('gets the lock');
	}));

	# a deletion keeps a pin while it waits for another transaction, and releases it together with its lock
	$aio->scenario('vacuum waits for a pin that is released with a lock', with('alice bob carol', sub ($alice, $bob, $carol) {
		my $t = 'scenario.d';
		$aio->sql("CREATE TABLE $t (n int, gen int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, 0 FROM generate_series(0, 2) i");
		# the scan, and its pin, end before the deletion
		my $delete = "DELETE FROM $t USING generate_series(1, 9999) g WHERE n = g AND n < 2";
		$bob->sql('SET enable_nestloop = off; SET enable_mergejoin = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
		like($bob->sql("EXPLAIN (COSTS OFF) $delete"), qr/->  Hash\n +->  Seq Scan on d$/m, 'the plan');
		$alice->sql("BEGIN; UPDATE $t SET gen = 1 WHERE n = 1");
		$bob->waits($delete, 'transactionid');
		$carol->waits("VACUUM (FREEZE) $t", $cleanup_wait);
		$alice->sql('COMMIT');
		$bob->raises('40001', qr/could not serialize access due to concurrent update/, 'gives the page back');
		$carol->ends('gets the lock');
		$bob->sql('ROLLBACK');
		$aio->gives("SELECT string_agg(gen::text, '' ORDER BY n) FROM $t", '010', 'the rows');
	}));
}, leaves => 'nothing');

# Two sessions that want the same block, or the same buffer, at the same time (BufferAlloc,
# GetVictimBuffer).  The first one, alice, has found that the block is in no buffer, has chosen one,
# and stands still while she writes the page that is in it.

# Returns two sessions that need no page of a catalog any more, a table, and another table whose pages
# are changed by each UPDATE, one row on each; unlogged, so that no WAL has to be written before a page.
sub prepare ($aio)
{
	my ($t, $others) = ($aio->table('t', 12), 'scenario.others');
	$aio->sql("CREATE UNLOGGED TABLE $others (n int, body text STORAGE PLAIN) WITH (fillfactor = 10, autovacuum_enabled = off); INSERT INTO $others SELECT i, repeat('x', 700) FROM generate_series(0, 59) i");
	my @sessions = $aio->sessions(qw(alice bob));
	$_->sql("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)") for @sessions;
	return (@sessions, $t, $others);
}

# Runs a function while alice, who reads a block of a table, writes a page to make room for it, and another one, if
# any, while she goes on.  Test: what she adds to pg_stat_io is this many bytes read and hits.  Returns all of that.
sub while_she_makes_room ($aio, $alice, $t, $others, $expected, $function, $later = undef)
{
	my $read = "SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)";
	my ($stopped, $added);
	# these scans have no ring; the second one sets hint bits, so that no other session does
	my $range = "ctid >= '(0,1)'";
	my $change = "SET enable_seqscan = off; UPDATE $others SET n = n WHERE $range; SELECT count(*) FROM $others WHERE $range; RESET enable_seqscan";
	# the buffer may still be that of a page that is not changed
	for (1 .. 20)
	{
		$aio->evict($t, $alice);
		$aio->sql($change);
		$added = $aio->io_counts_during($alice, 'relation/normal', sub {
			$aio->sql("SELECT io_hold('$others', pid => ${\$alice->pid}, op => 'write')");
			$alice->starts($read);
			$stopped = $aio->poll(sub { $alice->has_ended || $aio->sql('SELECT count(*) FROM io_held') }) && !$alice->has_ended;
			$function->() if $stopped;
			$aio->sql("SELECT io_hold_end(); SELECT io_release(pid, io_id) FROM io_held WHERE op = 'write'");
			$later->() if $stopped && $later;
			$alice->returns(1, 'alice goes on');
		});
		last if $stopped;
	}
	ok($stopped, 'alice has written a page to make room');
	is("$added->{read_bytes}|$added->{hits}", $expected, 'bytes that alice has read, and hits');
	$aio->is_as_written($t);
	return $added;
}

for_each_io_method('worker; long: all', sub {
	$aio->scenario('another session reads the block', sub {
		my ($alice, $bob, $t, $others) = prepare($aio);
		while_she_makes_room($aio, $alice, $t, $others, '0|1', sub {
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 4, 3)", 3, 'bob reads it, too');
		});
	});

	$aio->scenario('the read of another session has not ended', sub {
		my ($alice, $bob, $t, $others) = prepare($aio);
		while_she_makes_room($aio, $alice, $t, $others, '0|1', sub {
			$aio->read_at_completion_wait($bob, "SELECT read_rel_block_ll('$t', 4, nblocks => 4)", pid => $bob->pid, relation => $t);
		}, sub {
			$alice->waits_on('AioIoCompletion');
			$aio->completion_continue;
			$bob->ends('bob goes on');
		});
	}, skip => $aio->no_faults);

	$aio->scenario('another session pins what is written', sub {
		my ($alice, $bob, $t, $others) = prepare($aio);
		my $written;
		my $added = while_she_makes_room($aio, $alice, $t, $others, '8192|0', sub {
			$written = $aio->sql('SELECT blockno FROM buffers_in_progress()');
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n, length(body) FROM $others WHERE ctid >= '($written,1)' AND ctid < '(${\($written + 1)},1)'");
			$bob->gives('FETCH 1 FROM c', "$written|700", "bob's cursor is on the page");
		});
		# a victim that is pinned while it is written is not evicted
		is($added->{evictions}, $aio->has_bug('eviction-counted-twice') ? 2 : 1, 'evictions');
		$aio->gives("SELECT refcount FROM buffer_state('$others', $written)", 1, 'it has kept its buffer');
		$bob->gives('FETCH RELATIVE 0 FROM c', "$written|700", 'and its row');
		$bob->sql('COMMIT');
	});
}, needs => 'gate', conf => { shared_buffers => '256kB', 'test_aio.reach_writes' => 'on' });
