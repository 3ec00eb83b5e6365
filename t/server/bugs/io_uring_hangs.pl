# Two waits that hang with io_uring.
use TestAio;

# Returns true if sessions of this server are left waiting.  Takes what has_bug() takes.
sub expects_hang ($aio, $bug) { return $aio->method eq 'io_uring' && $aio->has_bug($bug) }

# Test: with the bug, a waiter sleeps on this wait event until a session reaps the ring of the owner, which is idle; a
# third session does so when it wants block 5 of the table.  Without the bug, the waiter goes on by itself.  That it
# does not is told by ten reads of the third session, not by a time.
sub waits_for_idle_owner ($aio, $t, $event, $has_bug)
{
	my ($owner, $waiter, $third) = $aio->sessions(qw(owner waiter third));
	if ($has_bug)
	{
		my $hangs = 'SELECT count(*) FROM pg_aios io JOIN pg_stat_activity o USING (pid), pg_stat_activity w'
		  . " WHERE (o.pid, w.pid) = (${\$owner->pid}, ${\$waiter->pid}) AND (o.state, o.wait_event) = ('idle', 'ClientRead')"
		  . " AND w.wait_event = '$event' AND io.state = 'SUBMITTED'";
		$aio->poll(sub { $aio->sql($hangs) == 1 || $waiter->has_ended });
		$third->sql("SELECT invalidate_rel_block('$t', 10), read_rel_block_ll('$t', 10)") for 1 .. 10;
		is($aio->sql($hangs), 1, 'the owner is idle, its read in flight for ever, the waiter asleep')
		  || diag('If this server has the fix: TEST_AIO_FIXED; a release, %fixed_in and the document.');
		$third->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'a third session frees it');
	}
	$waiter->returns('1', 'gets the block');
	# has the owner free its handle, so that the block can be evicted
	$owner->sql("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	return;
}

# A session waits for a buffer whose read is not staged yet; the owner submits the read and goes
# idle (doc/reports.md#io_uring-buffer-wait-hang).  With io_uring the session sleeps until another session
# reaps the owner's ring.

# The owner starts I/O on the buffer of block 5, and the waiter sleeps on it.  Returns the buffer.
sub waiter_sleeps ($aio, $t, $read)
{
	my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
	$aio->evict($t);
	my $b = $owner->sql("SELECT buffer_create_toy('$t', 5)");
	$owner->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts I/O');
	$waiter->waits($read, 'BufferIo');
	return $b;
}

for_each_io_method('io_uring; long: all', sub {
	# A session waits for a read that is not submitted yet; the owner submits the read and goes idle
	# (doc/reports.md#io_uring-wait-hang).  With io_uring the session waits until another session reaps the owner's ring.
	$aio->scenario('a wait for a read that is not submitted yet', with('owner waiter', 20, sub ($owner, $waiter, $t) {
		for (1 .. 2)
		{
			# catalogs are read in advance, as scans of them would begin batches of their own
			$owner->sql("SELECT pg_advisory_lock(5), pg_advisory_unlock(5), sum(nblocks) FROM start_read_buffers('$t', 10, 1)");
			$owner->sql('SELECT batch_start(), batch_end()');
			$aio->evict($t);
			$aio->sql('SELECT pg_advisory_lock(5)');
			$owner->waits("SELECT batch_start(), (SELECT sum(nblocks) FROM start_read_buffers('$t', 5, 1)), pg_advisory_lock(5), pg_advisory_unlock(5), batch_end()", 'advisory');
			$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$owner->pid} AND state = 'STAGED'", 1, 'the read is staged');
			# a fix under discussion has a wait event of its own
			$waiter->waits("SELECT count(*) FROM read_buffers('$t', 5, 1)", qr/^AioIo(?:Completion|Submit)$/, 'waits for the read');
			$aio->sql('SELECT pg_advisory_unlock(5)');
			$owner->ends('submits the read');
			waits_for_idle_owner($aio, $t, 'AioIoCompletion', expects_hang($aio, 'io_uring-wait-hang'));
		}
	}), skip => $aio->method eq 'sync' ? 'with sync no read stays staged' : undef);

	$aio->scenario('a wait for a buffer without a wait reference', with('', 20, sub ($t) {
		my $has_bug = expects_hang($aio, 'io_uring-buffer-wait-hang');
		# the owner submits the read and goes idle; with the bug, the waiter waits for ever
		for (1 .. 2)
		{
			my $b = waiter_sleeps($aio, $t, "SELECT count(*) FROM read_buffers('$t', 5, 1)");
			$aio->sessions('owner')->sql("SELECT buffer_call_read($b)");
			waits_for_idle_owner($aio, $t, 'BufferIo', $has_bug);
		}
	}));

	$aio->scenario('the waiter is cancelled', with('owner waiter', 20, sub ($owner, $waiter, $t) {
		$aio->pause;
		my $b = waiter_sleeps($aio, $t, "SELECT count(*), pg_advisory_xact_lock_shared(4711) FROM read_buffers('$t', 5, 1)");
		$owner->sql("SELECT buffer_call_read($b)");
		# a waiter that has been woken waits for the lock
		$aio->wait_for("SELECT wait_event IN ('BufferIo', 'advisory') FROM pg_stat_activity WHERE pid = ${\$waiter->pid}");
		$aio->cancels($waiter);
		$aio->resume;
		$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'reaps its read');
	}));

	$aio->scenario('no session wants the block', with('owner', 20, sub ($owner, $t) {
		my $b = $owner->sql("SELECT buffer_create_toy('$t', 5)");
		$owner->fails("SELECT buffer_call_read($b)", '55000', qr/no I\/O on buffer $b has been started/, 'not started');
		$owner->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts I/O');
		$owner->sql("SELECT buffer_call_read($b)");
		$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'the block can be read');
		$owner->fails("SELECT buffer_call_terminate_io($b, true, false, false, true)", '55000', qr/no I\/O on buffer $b has been started/, 'the read has ended the I/O');
	}));
});
