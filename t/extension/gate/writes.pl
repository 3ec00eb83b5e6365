# Writes, extensions, truncations and syncs of relations and of WAL: held, failed, delayed and traced by the I/O gate,
# in whichever process makes them, and what the server does then.  Writes by AIO, which the server does not make.
use TestAio;

# Makes blocks of a table dirty.
sub dirty ($session, $t, @blocks) { $session->sql("BEGIN; DELETE FROM $t WHERE blk IN (" . join(',', @blocks) . '); ROLLBACK'); return }

# Ends a crash restart that the scenario has caused.  Test: the server says why.
sub crashes ($aio, $pattern)
{
	$aio->poll(sub { $aio->log_text =~ $pattern });
	my $text = $aio->log_text;
	$_->disconnect for values %{ delete $aio->{sessions} };
	$aio->wait_for_restart;
	$aio->note_state;
	return like($text, $pattern, 'the server says why');
}

my $panics = [ qr/PANIC:  could not/, qr/LOG: .* was terminated by signal 6/ ];
my %conf = ('test_aio.reach_writes' => 'on', fsync => 'on', restart_after_crash => 'on', shared_buffers => '1MB', max_connections => 10);

with_each_io_method('worker; long: all', sub {
	$aio->scenario('a checkpoint stops at one relation', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t) {
		my $other = $aio->table('other', 10);
		dirty($alice, $t, 3, 7);
		$bob->io_hold($t, blockno => 7, op => 'write');
		$alice->starts('CHECKPOINT');
		$aio->io_held_shows('op, relation, fork, blockno, nblocks, off, length, waiters = ARRAY[pid], f_localmem', 'write|scenario.t|main|7|1|57344|8192|t|f', 'the write is held');
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		$aio->gives('SELECT pid, target_desc FROM io_held', "$checkpointer|block 7 in file \"${\$aio->sql(\"SELECT pg_relation_filepath('$t')\")}\"");
		is($aio->wait_event($checkpointer), 'IoGateHeld', 'its wait event');
		$aio->gives('SELECT held, io_settle() FROM io_gate', '1|t', 'all is quiet');
		dirty($carol, $other, 5);
		$carol->gives("SELECT evict_rel('$other')", '', 'others write');
		$carol->gives("SELECT count(*) FROM $other", 10, 'and read');
		$carol->gives("SELECT count(*) FROM $t WHERE blk = 7", 1, 'the block is there to be read');
		$carol->waits("BEGIN; DELETE FROM $t WHERE blk = 7; ROLLBACK", $aio->major < 19 ? 'BufferContent' : 'BufferExclusive', 'and not to be changed');
		$bob->gives('SELECT io_release(pid, io_id), io_hold_end() FROM io_held', 't|1', 'release');
		$carol->ends;
		$alice->ends('the checkpoint is complete');
	}));

	# their forks, which the session has written, are a good part of the files to be synced
	$aio->scenario('DROP between two syncs', with('alice bob', sub ($alice, $bob) {
		my @tables = map { "scenario.d$_" } 1 .. 10;
		for my $d (@tables) { $aio->sql($_) for "CREATE TABLE $d (i int)", "INSERT INTO $d SELECT generate_series(1, 1000)", "DELETE FROM $d WHERE i % 2 = 0", "VACUUM $d", "SELECT evict_rel('$d')" }
		$bob->io_hold(undef, op => 'sync', backend_type => 'checkpointer', times => 1);
		$alice->starts('CHECKPOINT');
		$aio->io_held_count(1);
		$aio->sql("DROP TABLE ${\join(', ', @tables)}");
		$bob->gives('SELECT io_release(pid, io_id), io_hold_end() FROM io_held', 't|1', 'release');
		$alice->ends('the checkpoint is complete');
	}));

	# the order in which the checkpointer writes, and that it syncs afterwards
	$aio->scenario('a trace of a checkpoint', with('alice', 20, sub ($alice, $t) {
		$aio->sql('CHECKPOINT');
		dirty($alice, $t, $_) for 9, 2, 5;
		$aio->io_trace_during($t, op => undef, sub { $alice->sql('CHECKPOINT') });
		$aio->gives("SELECT string_agg(concat_ws(' ', operation, blockno, length, raw_result, result, held), ', ' ORDER BY seq) FROM io_trace WHERE fork = 'main'",
			'write 2 8192 8192 OK f, write 5 8192 8192 OK f, write 9 8192 8192 OK f, sync 0 0 0 OK f');
		$aio->gives('SELECT operation, ios, blocks, errors FROM io_trace_summary WHERE fork = \'main\' ORDER BY 1', "sync|1|0|0\nwrite|3|3|0");
		$aio->gives("SELECT DISTINCT backend_type, target, in_progress FROM io_trace", 'checkpointer|smgr|');
		$alice->sql('CREATE TABLE scenario.v (i int)');
		$aio->io_trace_during(pid => $alice->pid, op => 'wal_write,wal_sync', sub { $alice->sql("INSERT INTO scenario.v VALUES (1)") });
		$aio->io_trace_shows("string_agg(operation, ',' ORDER BY seq), bool_and(target_desc ~ pg_walfile_name(pg_current_wal_lsn())), min(target)", 'wal_write,wal_sync|t|wal', 'a commit');
	}));

	$aio->scenario('a lost sync: %s', with('alice', 20, changes => 1, sub ($alice, $t, $what) {
		$aio->sql('CHECKPOINT');
		$alice->sql("DELETE FROM $t WHERE blk = 3");
		$aio->sql("SELECT io_fail(" . ($what eq 'sync' ? "'$t'" : "NULL, everybody => true") . ", result => -errno_from_string('EIO'), op => '$what', times => 1, keep => true)");
		$alice->starts('CHECKPOINT');
		crashes($aio, qr/PANIC: +could not f(?:data)?sync file "[^"]+": Input\/output error/);
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE blk = 3) FROM $t", '19|0', 'what was committed is there');
		$aio->gives('SELECT count(*) FROM io_filters', 0, 'the filter is not');
	}), each => [qw(sync wal_sync)], dies => 1, log => $panics);

	# a full disk at the n-th write of a statement, until a run in which nothing fails
	$aio->scenario('a full disk', with('alice', 20, sub ($alice, $t) {
		my $failed = 0;
		$aio->sql("CREATE TABLE scenario.u (LIKE $t INCLUDING STORAGE) WITH (autovacuum_enabled = off); CREATE INDEX ON scenario.u (blk)");
		for my $n (0 .. 300)
		{
			$aio->io_fail(undef, 'ENOSPC', pid => $alice->pid, op => 'write,extend', skip => $n, times => 1);
			$alice->starts("INSERT INTO scenario.u SELECT * FROM $t")->wait_for_end;
			my $fired = $aio->sql('SELECT fired FROM io_filters');
			$aio->io_fail_end;
			last if !$fired;
			$failed++;
			$alice->raises('53100', qr/could not (?:write|extend).*: No space left on device/, "write $n fails");
			$aio->gives('SELECT count(*) FROM scenario.u', 0, 'nothing is there');
			$aio->is_as_written($t);
		}
		$alice->ends('once nothing fails');
		cmp_ok($failed, '>=', 3, "$failed writes have failed, one after the other");
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM scenario.u", '20|20', 'the rows');
		$aio->recovers;
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM scenario.u", '20|20', 'the rows after a crash');
	}), dies => 1);

	$aio->scenario('a full disk for WAL at write %s', with('alice', 20, changes => 1, sub ($alice, $t, $n) {
		# or the buffers of WAL may end within a record, which is written by two calls then
		$alice->sql("SELECT pg_switch_wal(); DELETE FROM $t WHERE blk = 3");
		$aio->io_fail(undef, 'ENOSPC', pid => $alice->pid, op => 'wal_write', skip => $n, times => 1);
		$alice->sql("DELETE FROM $t WHERE blk = 5") for 1 .. $n;
		$alice->starts("DELETE FROM $t WHERE blk = 4");
		crashes($aio, qr/PANIC: +could not write to log file "?[0-9A-F]+.*: No space left on device/);
		$aio->gives("SELECT count(*) FROM $t", 19 - $n, 'what was committed before is there, and nothing else');
	}), each => [ 0, 1 ], dies => 1, log => $panics);

	$aio->scenario('short writes', with('alice', 20, sub ($alice, $t) {
		$alice->fails("SELECT io_fail('$t', $_, op => NULL)", '22023', qr/the server would repeat writes with this result forever/) for 0, 511, "-errno_from_string('EINTR')";
		dirty($alice, $t, 3);
		$aio->io_fail($t, 4096, op => 'write', times => 1);
		$aio->io_trace_during($t, op => 'write', sub { $alice->sql('CHECKPOINT') });
		$aio->gives("SELECT string_agg(concat_ws(' ', blockno, off, raw_result), ', ' ORDER BY seq) FROM io_trace WHERE fork = 'main'", '3 24576 4096, 3 28672 4096', 'the server writes the rest');
		$aio->sql("SELECT evict_rel('$t'), io_fail_end()");
		$aio->is_as_written($t);
		$aio->io_fail(undef, 4096, pid => $alice->pid, op => 'extend', times => 1);
		$alice->fails("CREATE INDEX ON $t (blk)", '53100', qr/could not extend file .*: wrote only 4096 of 8192 bytes/, 'an extension');
		$alice->sql("CREATE INDEX ON $t (blk)");
		$aio->io_fail_end;
	}));

	$aio->scenario('a sync of WAL is held', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t) {
		$carol->sql('CREATE TABLE scenario.v (i int)');
		$carol->io_hold(pid => $alice->pid, op => 'wal_sync');
		$alice->waits('INSERT INTO scenario.v VALUES (1)', 'IoGateHeld');
		$aio->io_held_shows("op, blockno, relation, off, target_desc ~ '^file \"pg_wal/[0-9A-F]{24}\"\$'", 'wal_sync|||0|t');
		$bob->waits('INSERT INTO scenario.v VALUES (2)', 'WALWrite', 'waits for her lock');
		$aio->gives("SELECT count(*) FROM $t", 20, 'what writes no WAL goes on');
		$carol->gives('SELECT io_hold_end(), io_release_all()', '1|1');
		$_->ends for $alice, $bob;
	}));

	# in a critical section, when nobody releases it; TestAio/Waits.pm has other ends
	$aio->scenario('a held write goes on: %s', with('alice bob', 20, changes => 1, sub ($alice, $bob, $t, $end) {
		$bob->sql("SET test_aio.hold_timeout = '10min'");
		$bob->io_hold($t, op => 'write');
		$bob->sql("SET test_aio.hold_timeout = '" . ($end =~ /timeout/ ? '300ms' : '10min') . "'");
		$bob->io_hold(pid => $alice->pid, op => 'wal_write', times => 1);
		$alice->starts("DELETE FROM $t WHERE blk = 3");
		if ($end !~ /timeout/)
		{
			$aio->io_held_count(1);
			$aio->end_session($bob);
		}
		$alice->ends('has committed');
		$aio->gives('SELECT bypassed, why_bypassed FROM io_filters WHERE bypassed > 0', $end =~ /timeout/ ? '1|it was held for as long as "test_aio.hold_timeout" allows' : '', 'the view says why');
		# or who needs several calls would wait as long for each
		$alice->starts("SELECT evict_rel('$t')")->ends('no filter of that time holds a call any longer');
		$aio->gives("SELECT count(*), (SELECT count(*) FROM io_held) FROM $t", '19|0');
	}), each => [ 'the hold timeout', 'its maker ends' ]);

	$aio->scenario('filters match by operation', with('alice bob', 20, changes => 1, sub ($alice, $bob, $t) {
		$bob->sql("SELECT io_hold('$t', op => 'truncate', fork => 'main'), io_hold('$t', 19, op => 'write,extend')");
		$bob->gives("SELECT string_agg(op, ' ' ORDER BY filter) FROM io_filters", 'truncate write,extend');
		dirty($alice, $t, 3);
		$alice->sql("SELECT evict_rel('$t'); DELETE FROM $t WHERE blk > 10");
		$alice->starts("VACUUM $t");
		$aio->io_held_shows('op, relation, blockno, nblocks', 'truncate|scenario.t|11|0', 'VACUUM gives blocks back');
		$bob->gives('SELECT io_release(pid, io_id) FROM io_held', 't');
		$alice->ends;
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 11);
		$bob->sql("SELECT io_hold_end(); SELECT io_hold('$t', op => 'extend', times => 1)");
		$alice->starts("SELECT grow_rel('$t', 100)");
		$aio->io_held_shows('op, blockno, nblocks > 0', 'extend|11|t');
		$bob->sql('SELECT io_hold_end(), io_release_all()');
		$alice->ends;
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 111);
		$alice->fails("SELECT io_hold('$t', op => '$_')", '22023', qr/unknown operation "(?:frobnicate|)"\nHINT:  Operations are read, write/, "op => '$_'") for 'frobnicate', 'write,', '';
	}));

	# tables of temporary sessions, and of tablespaces
	$aio->scenario('%s', with('alice bob', sub ($alice, $bob, $kind, $table) {
		$aio->make_tablespace if $kind =~ /tablespace/;
		$alice->sql($table);
		$alice->note_temporary_tables if $kind =~ /temporary/;
		$alice->sql('INSERT INTO u SELECT i FROM generate_series(1, 1000) i');
		$alice->io_hold('u', 0, op => 'write');
		$alice->starts("SELECT evict_rel('u')");
		$aio->io_held_shows('op, fork, blockno, f_localmem', 'write|main|0|' . ($kind =~ /temporary/ ? 't' : 'f'));
		$bob->gives('SELECT io_release_all()', 1);
		$alice->ends;
		$alice->sql('SELECT io_hold_end(); DROP TABLE u');
		$aio->sql('DROP TABLESPACE elsewhere') if $kind =~ /tablespace/;
	}), each => [ [ 'a temporary table', 'CREATE TEMP TABLE u (i int)' ], [ 'a tablespace', 'CREATE TABLE u (i int) TABLESPACE elsewhere' ], [ 'an unlogged table', 'CREATE UNLOGGED TABLE u (i int)' ] ]);

	$aio->scenario('a device that is slow to write', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $other = $aio->table('other', 10);
		dirty($alice, $t, 3, 4, 5);
		dirty($alice, $other, 3, 4, 5);
		$bob->io_device($t, '40ms', queue_depth => 1, fork => 'main', op => 'read,write,sync');
		$aio->io_trace_during(op => 'write,sync', sub { $alice->sql('CHECKPOINT') });
		$aio->gives("SELECT relation, bool_and(latency >= 39), bool_and(held) FROM io_trace WHERE relation IN ('$t'::regclass, '$other'::regclass) AND fork = 'main' GROUP BY relation ORDER BY relation::text", "scenario.other|f|f\nscenario.t|t|t");
		$aio->gives('SELECT op, writes, write_bytes, reads, in_progress FROM io_devices', 'read,write,sync|4|24576|0|0', 'what the device has served');
		$bob->sql("SELECT io_device_end(); SELECT io_device('$t', '60s', blockno => 6, op => 'write')");
		dirty($alice, $t, 6);
		$alice->starts('CHECKPOINT');
		$aio->gives_soon('SELECT op, blockno, round(service_time / 1000) FROM io_device_reads', 'write|6|60');
		$aio->gives_soon("SELECT wait_event FROM pg_stat_get_activity(NULL) WHERE backend_type = 'checkpointer'", 'IoDevice', 'its wait event');
		$bob->gives('SELECT io_device_end()', 1);
		$alice->ends('at once when the device ends');
	}));
}, needs => 'gate', leaves => 'nothing', conf => \%conf);

# Writes by AIO
with_each_io_method('worker io_uring; long: all', sub {
	$aio->scenario('AIO writes', with('alice bob', 20, sub ($alice, $bob, $t) {
		dirty($alice, $t, 3, 4, 9);
		$alice->gives("SELECT write_rel_block_ll('$t', 3, nblocks => 4)", '', 'writes four blocks');
		$aio->is_as_written($t);
		$bob->io_fail($t, 'ENOSPC', 5, op => 'write', skip => 9);
		$alice->gives("SELECT write_rel_block_ll('$t', 3, nblocks => 4)", '', 'again');
		$bob->gives('SELECT matched, io_fail_end() FROM io_filters', '1|1', 'one write, as a handle and as a system call');
		# the background writer writes blocks, too
		$bob->io_hold($t, op => 'write', pid => $alice->pid);
		$alice->waits("SELECT write_rel_block_ll('$t', 8, nblocks => 2)", 'IoGateHeld');
		$aio->gives('SELECT op, blockno, nblocks, pid = ' . $alice->pid . ' FROM io_held', 'write|8|2|t', 'held');
		$aio->gives("SELECT operation, state FROM pg_aios", 'writev|SUBMITTED');
		$bob->sql('SELECT io_hold_end(), io_release_all()');
		$alice->ends('is released');
		$bob->io_fail($t, 'ENOSPC', op => 'write', times => 1);
		$alice->fails("SELECT write_rel_block_ll('$t', 8, nblocks => 2)", '53100', qr/could not write blocks 8\.\.9 .*: No space left on device/, 'fails');
		$bob->sql("SELECT io_fail_end(), io_fail('$t', 8192, op => 'write', times => 1)");
		$alice->fails("SELECT write_rel_block_ll('$t', 8, nblocks => 2)", '53100', qr/Wrote 8192 of 16384 bytes/, 'is short');
		$bob->io_fail_end;
		$alice->sql("SELECT evict_rel('$t')");
	}));
}, needs => 'gate', leaves => 'nothing', suffix => 'aio', conf => \%conf);

# Writes are not seen unless the server was started so.
for_each_io_method('worker', sub {
	$aio->scenario('off', with('alice', 20, sub ($alice, $t) {
		$alice->gives('SELECT writes FROM io_gate', 'f');
		$alice->fails("SELECT io_hold('$t', op => 'write')", '55000', qr/writes are not seen in this server\nDETAIL:  The reason is that "test_aio.reach_writes" is off\.\nHINT:  Set "test_aio.reach_writes" to on and restart/, 'io_hold');
		$alice->fails("SELECT io_trace_start('$t', op => 'sync')", '55000', qr/writes are not seen/, 'io_trace_start');
		$aio->io_trace_during($t, op => undef, sub { dirty($alice, $t, 3); $alice->sql('CHECKPOINT') });
		$aio->io_trace_shows("count(*) FILTER (WHERE operation <> 'readv')", 0, 'what is seen are reads');
	}));
}, needs => 'gate', suffix => 'off');
