# Faults without the gate, on a server with injection points: the process that completes a read holds it
# or changes its result.
use TestAio;

my $columns = 'state, operation, off, length, target, handle_data_len, coalesce(raw_result::text, \'-\'), result, target_desc, f_sync, f_localmem, f_buffered';

for_each_io_method('io_uring; long: all', sub {
	my $reason = $aio->no_injection_points;
	$aio->gives('SELECT gate, handler FROM io_gate', 'f|injection points', 'what io_gate says') if !$reason;

	$aio->scenario('a read that is held', with_kind('alice', 20, sub ($alice, $t, $kind, $block, $n) {
		# the process that performs the read: an I/O worker if it can, or else the session
		my $by_worker = $aio->method eq 'worker' && !$kind;
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		# another session sees the path that it would use for a temporary table of its own
		my $seen = $kind ? qr/base\/\d+\/t\d+_\d+/ : qr/\Q$path\E/;
		$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', $block, nblocks => $n)", pid => $alice->pid);
		$alice->waits_on($by_worker ? 'AioIoCompletion' : 'completion_wait');
		my ($off, $length) = ($block * 8192, $n * 8192);
		my $last = $block + $n - 1;
		my $blocks = $n == 1 ? "block $block" : "blocks $block..$last";
		my $flags = join '|', 'f', $kind ? 't' : 'f', 't';
		like($aio->sql("SELECT $columns FROM pg_aios WHERE pid = ${\$alice->pid}"),
			qr/^COMPLETED_IO\|readv\|$off\|$length\|smgr\|$n\|$length\|UNKNOWN\|\Q$blocks\E in file "$seen"\|\Q$flags\E$/, "$n blocks");
		$aio->gives("SELECT backend_type, wait_event_type FROM pg_stat_activity WHERE wait_event = 'completion_wait'",
			($by_worker ? 'io worker' : 'client backend') . '|InjectionPoint', 'the process that is held');
		$aio->completion_continue;
		$alice->ends;
		$aio->gives("SELECT count(*) FROM pg_aios", 0, 'the handle is no longer shown');
	}), each => [ combined([ '', 'TEMP' ], [ [ 3, 1 ], [ 5, 6 ], [ 4, 16 ] ]) ], skip => $reason);

	# a session that would wait for a read at once performs it itself
	$aio->scenario('synchronous: %s', with('alice', 20, sub ($alice, $t, $read) {
		$alice->sql("SELECT count(*) FROM $t WHERE ctid = '(0,1)'");
		$aio->completion_wait(pid => $alice->pid, relation => $t, blockno => 3);
		$alice->waits(sprintf($read, $t), 'completion_wait');
		$aio->gives("SELECT state, off, length, handle_data_len, f_sync FROM pg_aios WHERE pid = ${\$alice->pid}", 'COMPLETED_IO|24576|8192|1|t', 'f_sync');
		$aio->completion_continue;
		$alice->ends;
	}), each => [ "SELECT count(*) FROM %s WHERE ctid = '(3,1)'", "SET effective_io_concurrency = 0; SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[3])" ], skip => $reason);

	# the temporary table's read is completed by a process that cannot see its buffers
	$aio->scenario('a short read of a temporary table, completed by another session', with('alice bob', 10, kind => 'TEMP', sub ($alice, $bob, $own) {
		my $t = $aio->table('u', 10);
		$aio->short_read_attach(8192);
		$alice->sql("SELECT read_rel_block_ll('$own', 3, nblocks => 4, wait_complete => false)");
		# with io_uring, both reads are in the same ring
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false)");
		$bob->gives("SELECT count(*) FROM $t", 10, 'completes both');
		$aio->short_read_detach;
		$alice->gives("SELECT count(*) FROM $own", 10, 'reads the rest');
	}), leaves => 'COMPLETED_SHARED', skip => $reason);
}, leaves => 'nothing', conf => { 'test_aio.gate' => 'off' });
