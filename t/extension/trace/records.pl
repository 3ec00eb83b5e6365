# The records of the I/O trace: reads, waits for them, their completion, and a ring that is full.
use TestAio;
use PostgreSQL::Test::Utils qw(slurp_file);

# The I/O trace has one record for each read that it was asked to record, and none for other
# reads.  The records agree with the server's own counts.

# Traces a table, and has a session start a statement whose read of it is held.
sub traces_held_read ($aio, $t, $session, $sql)
{
	$aio->io_trace_restart($t);
	$aio->io_hold($t);
	$session->starts($sql);
	return $aio->io_trace_shows_soon('waits', 1);
}

with_each_io_method('worker; long: io_uring', sub {
	$aio->scenario('a scan', with('alice', 200, sub ($alice, $t) {
		my $counted;
		$aio->io_trace_during($t, sub {
			$counted = $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT count(*) FROM $t") });
		});
		$aio->io_trace_shows("count(*) || '/' || sum(length)", $counted, 'as many reads and bytes as in pg_stat_io');
		$aio->gives('SELECT count(*), count(DISTINCT b), min(b), max(b) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b',
			'200|200|0|199', 'each block was read once');
		$aio->gives('SELECT count(*) FROM io_trace_status WHERE NOT running AND lost = 0 AND lost_waits = 0 AND recorded = (SELECT count(*) FROM io_trace) AND stopped_at > started_at', 1, 'the status says so');
		$aio->io_trace_shows(join(', ', map { "bool_and($_)" }
			  "relation = '$t'::regclass", "pid = ${\$alice->pid}", "fork = 'main'", "state = 'COMPLETED'", "length = nblocks * 8192",
			'off = blockno * 8192', 'raw_result = length', "result = 'OK'",
			'NOT joined', 'NOT held', 'waits = cardinality(waiters)', 'staged_at <= submitted_at', 'submitted_at <= completed_at',
			'lookahead_distance >= nblocks'), join('|', ('t') x 14), 'each record is consistent');
		$aio->gives('SELECT ios, blocks, round(mean_size::numeric, 6), max_in_progress, waits, errors FROM io_trace_summary',
			$aio->sql('SELECT count(*), sum(nblocks), round(avg(nblocks), 6), max(in_progress), sum(waits), 0 FROM io_trace'),
			'the summary adds up');
	}));

	$aio->scenario('what EXPLAIN (IO) says', with('alice', 200, sub ($alice, $t) {
		my ($plan, @io);
		$aio->io_trace_during($t, sub { $plan = $alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF) SELECT count(*) FROM $t") });
		# number, waits, size, in progress
		@io = $1 =~ /=([\d.]+)/g if $plan =~ /I\/O: (.*)/;
		$aio->gives('SELECT ios, round(mean_size::numeric, 2) FROM io_trace_summary', "$io[0]|$io[2]", 'number and size');
		cmp_ok($aio->sql('SELECT waits FROM io_trace_summary'), '<=', $io[1], 'no more waits');
		$aio->gives('SELECT round(mean_in_progress::numeric, 2) FROM io_trace_summary', $io[3], 'in progress') if $aio->method eq 'worker';
	}), skip => $aio->major < 19 ? 'EXPLAIN (IO) came with 19' : undef);

	$aio->scenario('only what was asked for', with('alice bob', [ t => 8 ], [ u => 8 ], sub ($alice, $bob, $t, $u) {
		my $read = sub {
			$aio->evict($_) for $t, $u;
			for my $session ($alice, $bob) { $session->sql("SELECT read_rel_block_ll('$_', 3, nblocks => 2)") for $t, $u }
		};
		my $who = "string_agg(relation || ' ' || CASE pid WHEN ${\$alice->pid} THEN 'alice' WHEN ${\$bob->pid} THEN 'bob' ELSE 'another' END || ' ' || blockno || '+' || nblocks, ', ' ORDER BY seq)";
		$read->();
		$aio->io_trace_restart($t);
		$read->();
		$aio->io_trace_shows($who, "$t alice 3+2, $t bob 3+2", 'of one relation');
		$aio->sql("SELECT io_trace_start(pid => ${\$bob->pid})");
		$aio->sql('SELECT io_trace_reset()');
		$read->();
		$aio->io_trace_shows($who, "$t bob 3+2, $u bob 3+2", 'of one process');
		$aio->gives("SELECT running, relation, pid = ${\$bob->pid} FROM io_trace_status", 't||t');
		$aio->io_trace_during($u, $alice->pid, $read);
		$read->();
		$aio->io_trace_shows($who, "$u alice 3+2", 'both, and none after the end');
		$aio->sql('SELECT io_trace_reset()');
		$aio->gives('SELECT recorded, lost FROM io_trace_status', '0|0', 'a reset forgets');
	}));

	$aio->scenario('a batch', with('alice bob', 40, sub ($alice, $bob, $t) {
		# caches all that the batch reads besides
		$alice->sql("SELECT read_rel_block_ll('$t', 0)");
		$aio->io_trace_during($t, sub {
			$alice->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', 8 * $_, nblocks => 2, wait_complete => false)" } 0 .. 3));
		});
		# with io_uring a session must look for the completions
		$bob->sql("SELECT count(*) FROM $t");
		$aio->io_trace_shows_soon("string_agg(concat_ws(' ', blockno, in_progress, lookahead_distance, state), ', ' ORDER BY seq)",
			join(', ', map { 8 * $_ . ' ' . ($_ + 1) . ' ' . 2 * ($_ + 1) . ' COMPLETED' } 0 .. 3), 'each submitted with those before');
		$aio->io_trace_shows('count(DISTINCT submitted_at), bool_and(staged_at <= submitted_at), min(submitted_together), max(submitted_together)', '1|t|4|4', 'at the same time');
	}));
}, needs => 'gate trace');

# The I/O trace shows who has waited for a read, since when and how long: while the wait goes
# on, and also if it ends without the read.  A session that comes after the end of the read
# does not wait (since 19 also with io_uring: pgaio_uring_check_one).

# Returns the number of completions in all rings that the kernel has posted and no process
# has seen; -1 if the kernel does not tell, as for a ring in use.
sub unseen_completions ($aio)
{
	my $unseen = 0;
	for my $fd (descriptors($aio->postmaster_pid, qr/^anon_inode:\[io_uring\]$/))
	{
		my %ring = slurp_file($fd =~ s/fd/fdinfo/r) =~ /^(CqHead|CqTail):\s*(\d+)/mg;
		return -1 if !defined $ring{CqTail};
		$unseen += $ring{CqTail} - $ring{CqHead};
	}
	return $unseen;
}

with_each_io_method('io_uring; long: worker', sub {
	$aio->scenario('two sessions wait for a held read', with('alice bob', 20, sub ($alice, $bob, $t) {
		my ($a, $b) = map { $_->pid } $alice, $bob;
		traces_held_read($aio, $t, $alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
		$aio->io_trace_shows_soon('state, held, joined, waits, waiters, wait_times, completed_at', "SUBMITTED|t|f|1|{$a}|{NULL}|");
		$bob->starts("SELECT waited FROM wait_read_buffers('$t', 3, 1)");
		$aio->io_trace_shows_soon('state, held, joined, waits, waiters, wait_times, wait_calls, executed_by', "SUBMITTED|t|t|2|{$a,$b}|{NULL,NULL}|{NULL,NULL}|");
		$aio->end_holds;
		$alice->ends;
		my ($waited, $not) = $aio->major >= 19 ? qw(t f) : ('', '');
		$bob->returns($waited, 'the server tells that it waited');
		$bob->gives("SELECT waited FROM wait_read_buffers('$t', 3, 1)", $not, 'and that it did not');
		my $me = $aio->sql('SELECT pg_backend_pid()');
		$aio->io_trace_shows_soon('state, result, raw_result, executed_by, completed_by', "COMPLETED|OK|16384|$me|$me",
			'the session that has released the read has completed it');
		$aio->io_trace_shows('least(wait_times[1], wait_times[2]) > 0, abs(wait_time - wait_times[1] - wait_times[2]) < 1e-6, wait_starts[1] < wait_starts[2], wait_starts[1] >= submitted_at',
			't|t|t|t', 'the waits have ended');
		$aio->gives('SELECT ios, waits, joined, errors FROM io_trace_summary', '1|2|1|0');
		$aio->io_trace_stop;
	}));

	$aio->scenario('a cancelled session waits no longer', with('alice bob', 20, sub ($alice, $bob, $t) {
		traces_held_read($aio, $t, $alice, "SELECT read_rel_block_ll('$t', 3)");
		$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
		$aio->io_trace_shows_soon('waits', 2);
		$aio->cancels($bob);
		$aio->io_trace_shows('state, waits, wait_times, wait_time', 'SUBMITTED|2|{NULL,NULL}|0', 'its wait has no length');
		$aio->end_holds;
		$alice->ends;
		$aio->io_trace_shows_soon('wait_times[1] = wait_time, wait_times[2]', 't|', 'nor does the wait get one later');
		$aio->io_trace_stop;
	}));

	# of reads ahead: the first is not held
	$aio->scenario('waits in the calls of a stream', with('alice', 40, sub ($alice, $t, $call, $sql) {
		$alice->sql('SET io_combine_limit = 4; SET effective_io_concurrency = 8');
		$aio->io_trace_restart($t);
		$aio->io_hold($t, skip => 1);
		$alice->waits(sprintf($sql, $t), 'IoGateHeld');
		$aio->end_holds;
		$alice->ends("waits in $call");
		$aio->io_trace_stop;
		$aio->gives("SELECT min(wait_calls[1]), max(wait_calls[1]), sum(waits_for_handle) FROM io_trace WHERE held AND waits > 0", "$call|$call|0", 'the trace tells');
	}), each => [
		[ 'next', q(SELECT runs FROM read_stream_run('%s', ARRAY(SELECT generate_series(0, 11)), "full" => true)) ],
		[ 'reset', q(SELECT runs FROM read_stream_run('%s', ARRAY(SELECT generate_series(0, 11)), "full" => true, reset_at => '{4}')) ],
		[ 'end', q(SELECT runs FROM read_stream_run('%s', ARRAY(SELECT generate_series(0, 11)), "full" => true, end_at => 4)) ],
		[ 'end', q(SELECT read_stream_for_blocks('%s', ARRAY(SELECT generate_series(0, 11))) LIMIT 4) ] ]);

	$aio->scenario('a session that comes late does not wait', with('alice', 120, sub ($alice, $t) {
		$alice->sql("SET effective_io_concurrency = 16; SET io_combine_limit = 1; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
		$aio->io_trace_restart($t);
		$alice->sql('FETCH 40 FROM c');
		# of every session, as all rings are counted
		my $under_way = "FROM pg_aios WHERE state IN ('SUBMITTED', 'COMPLETED_IO')";
		my ($ahead, $last) = split /\|/, $aio->sql('SELECT array_agg(seq), max(blockno) FROM io_trace WHERE blockno >= 40');
		cmp_ok($last, '>=', 40, "reads ahead: $ahead") or return;
		$aio->poll(sub { $aio->sql("SELECT count(*) $under_way") == ($aio->method eq 'io_uring' ? unseen_completions($aio) : 0) })
		  or die "the reads do not end\n";
		# a session may have waited before for one of them, for its handle
		my $waits = "SELECT sum(waits) FROM io_trace WHERE seq = ANY ('$ahead')";
		my $before = $aio->sql($waits);
		$alice->sql("FETCH ${\($last - 39)} FROM c");
		$aio->io_trace_stop;
		$aio->gives($waits, $before, 'for none of these');
		$alice->sql('COMMIT');
	}), skip => $aio->method ne 'io_uring' ? undef
		: $aio->major < 19 ? '18 finds with io_uring by waiting only that a read has ended'
		: $aio->poll(sub { unseen_completions($aio) >= 0 }, 1) ? undef : 'this kernel does not tell of completions');

	$aio->scenario('more waits than a record keeps', with('', 20, sub ($t) {
		my @sessions = $aio->sessions(map { "s$_" } 1 .. 6);
		my $read = "SELECT count(*) FROM read_buffers('$t', 3, 1)";
		traces_held_read($aio, $t, $sessions[0], $read);
		for my $i (1 .. $#sessions)
		{
			$sessions[$i]->starts($read);
			$aio->io_trace_shows_soon('waits', $i + 1);
		}
		$aio->io_trace_shows('cardinality(waiters), cardinality(wait_times)', '4|4', 'it keeps four');
		$aio->gives('SELECT lost, lost_waits FROM io_trace_status', '0|2', 'and counts the others');
		$aio->end_holds;
		$_->ends for @sessions;
		$aio->io_trace_shows('wait_time > (SELECT sum(w) FROM unnest(wait_times) w), wait_times[4] > 0', 't|t', 'whose time it knows as well');
		$aio->io_trace_stop;
	}));

	$aio->scenario('on a simulated device', with('alice', 40, sub ($alice, $t) {
		$aio->io_device($t, '140us');
		while_still($aio->sql('SELECT worker FROM io_gate'), sub {
			$aio->io_trace_during($t, sub { $alice->sql("SELECT count(*) FROM generate_series(1, 39, 2) i, read_buffers('$t', i, 1)") });
		});
		$aio->gives("SELECT count(*), bool_and(held AND latency >= 0.14 AND completed_by = ${\$alice->pid}) FROM io_trace", '20|t', 'each takes as long as it is to, without the worker');
		$aio->io_device_end;
	}));
}, needs => 'gate trace');

# The end of a read in the I/O trace: its result, its time, and the processes that performed
# and completed it.  t/server/standby/standby.pl has the startup process's reads.
my $columns = "string_agg(concat_ws(' ', blockno, nblocks, coalesce(raw_result::text, '-'), result), ', ' ORDER BY seq)";

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('failed and short reads', with('alice', 20, sub ($alice, $t) {
		$aio->io_fail($t, -5, times => 1);
		$aio->io_trace_during($t, sub { $alice->fails("SELECT count(*) FROM read_buffers('$t', 3, 2)", '58030', qr/blocks 3\.\.4/, 'fails') });
		$aio->io_trace_shows($columns, '3 2 -5 ERROR', 'failed');
		$aio->io_trace_shows('why_issuer', 'gate', 'by its issuer') if $aio->method eq 'io_uring';
		$aio->io_fail($t, 8192, times => 1);
		$aio->io_trace_during($t, sub { $alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 2)", 1, 'a short read') });
		$aio->io_trace_shows($columns, '3 2 8192 PARTIAL, 4 1 8192 OK', 'short, and read again');
		$aio->gives('SELECT sum(errors) FROM io_trace_summary', 0, 'which is no error');
		$aio->io_fail_end;
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('bad pages', with('alice', 20, changes => 1, sub ($alice, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
		$aio->io_trace_during($t, sub { $alice->fails("SELECT read_rel_block_ll('$t', 2, nblocks => 3)", 'XX001', qr/invalid page in block 3/, 'fails') });
		$aio->io_trace_shows('result, joined', 'ERROR|f');
		$aio->io_trace_during($t, sub { $alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, zero_on_error => true)") });
		$aio->io_trace_shows('result', 'WARNING');
		$aio->io_trace_shows('raw_result', 3 * 8192);
		$alice->warns(qr/invalid page in block 3/);
	}), log => qr/LOG:  invalid page in block 3 /);

	$aio->scenario('which processes execute and complete a scan', with('alice', 100, sub ($alice, $t) {
		my $pid = $alice->pid;
		my %executor = (
			sync => "executed_by = $pid AND completed_by = $pid AND f_sync",
			worker => "completed_by = executed_by AND NOT f_sync AND (executed_by IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker') OR executed_by = $pid)",
			io_uring => "executed_by IS NULL AND completed_by = $pid AND NOT f_sync");
		$aio->io_trace_during($t, sub { $alice->sql("SELECT count(*) FROM $t") });
		$aio->io_trace_shows("bool_and(result = 'OK' AND raw_result = length), bool_and($executor{$aio->method})", 't|t', 'the processes and the results');
		$aio->gives("SELECT count(*) FROM io_trace WHERE why_issuer IS DISTINCT FROM CASE WHEN executed_by = pid THEN CASE WHEN f_sync THEN 'flag' ELSE 'queue' END END", 0, 'why alice executed any');
	}));

	$aio->scenario('synchronous reads, an index', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE INDEX ti ON $t (blk); VACUUM $t; SELECT evict_rel('$t'), evict_rel('scenario.ti')");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		$aio->io_trace_during(sub { $alice->sql("SELECT gen FROM $t WHERE blk = 7") });
		$aio->gives("SELECT relation, fork, min(blockno), bool_and(f_sync AND result = 'OK' AND why_issuer = 'flag' AND submitted_together IS NULL), sum(waits) FROM io_trace"
			  . " WHERE relation IN ('$t'::regclass, 'scenario.ti'::regclass) AND fork = 'main' GROUP BY 1, 2 ORDER BY 1",
			"$t|main|7|t|0\nscenario.ti|main|0|t|0", 'seen');
	}));

	# pages of the maps are zeroed if they are bad, but read like others by a session that waits
	$aio->scenario('synchronous reads, the maps', with('alice', 20, changes => 1, sub ($alice, $t) {
		$aio->io_trace_during(sub { $alice->sql("DELETE FROM $t WHERE ctid = '(3,1)'; INSERT INTO $t VALUES ('$t', 20, 0, proof('$t', 20, 0))") });
		$aio->gives("SELECT fork, bool_and(f_sync AND result = 'OK' AND executed_by = pid) FROM io_trace"
			  . " WHERE relation = '$t'::regclass AND fork <> 'main' GROUP BY 1 ORDER BY 1",
			"fsm|t\nvm|t", 'seen');
	}));

	$aio->scenario('a temporary table', with('alice', 40, kind => 'TEMP', sub ($alice, $t) {
		$alice->sql("SELECT io_trace_reset(), io_trace_start('$t')");
		$alice->sql("SELECT count(*) FROM $t");
		is_deeply([ $alice->notices ], [], 'a trace that has been reset has nothing from before');
		$aio->io_trace_stop;
		$alice->sql("SELECT io_trace_start('$t'), io_trace_start('$t'), io_trace_stop()");
		like(join(' ', $alice->notices), qr/^the trace still has \d+ reads that were recorded before$/, 'told once, at the start');
		$alice->gives('SELECT relation, sum(nblocks), bool_and(f_localmem), bool_and(completed_by = pid), min(result), max(result), max(why_issuer) FROM io_trace GROUP BY relation',
			't|40|t|t|OK|OK|' . ({ io_uring => '', sync => 'flag' }->{ $aio->method } // 'method'), 'seen, by its name');
		$aio->io_trace_shows("bool_and(relation::text ~ '^pg_temp_[0-9]+.t\$')", 't', 'by others as well');
		$aio->gives("SELECT relation::text ~ '^pg_temp_[0-9]+.t\$' FROM io_trace_status", 't');
	}), leaves => 'nothing');

	$aio->scenario('completed by another', with('alice bob', 20, sub ($alice, $bob, $t) {
		$alice->sql("SELECT read_rel_block_ll('$t', 0)");
		$aio->io_trace_during($t, sub {
			$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
			$bob->sql("SELECT count(*) FROM read_buffers('$t', 3, 1)");
		});
		$aio->io_trace_shows("pid = ${\$alice->pid}, completed_by = ${\$bob->pid}, executed_by, result", 't|t||OK', 'the session that wanted the block has completed the read');
	}), skip => $aio->method eq 'io_uring' ? undef : 'only with io_uring do readers complete what others have issued');

	$aio->scenario('parallel query', with('alice', 200, sub ($alice, $t) {
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET seq_page_cost = 0');
		# holds the reads, so that each of the three processes gets some
		$aio->io_hold($t) if $aio->method ne 'sync';
		$aio->io_trace_restart($t);
		$alice->starts("SELECT count(*) FROM $t");
		if ($aio->method ne 'sync')
		{
			$aio->wait_for('SELECT count(DISTINCT pid) = 3 FROM io_held');
			$aio->end_holds;
		}
		$alice->returns('200', 'counts');
		$aio->io_trace_stop;
		$aio->io_trace_shows("count(DISTINCT pid), bool_and((backend_type = 'client backend') = (pid = ${\$alice->pid}))", '3|t', 'all three processes have read')
		  if $aio->method ne 'sync';
		$aio->gives("SELECT count(DISTINCT b), count(*) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b", '200|200', 'each block once, by one of them');
		$aio->gives("SELECT sum(blocks), count(*) = count(DISTINCT pid) FROM io_trace_summary", '200|t', 'a row each');
	}), leaves => 'nothing');
}, needs => 'gate trace');

# The I/O trace keeps a number of reads: the last ones stay, the others are counted.  A
# restart forgets all.  Without room there is no trace.
for_each_io_method('worker', sub {
	$aio->scenario('more reads than there is room for', with('alice', 60, sub ($alice, $t) {
		$aio->io_trace_restart($t);
		$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 49) b");
		$aio->gives('SELECT size, recorded, lost FROM io_trace_status', '20|50|30', 'the status says so');
		$aio->io_trace_shows('count(*), min(blockno), max(blockno), max(seq) - min(seq)', '20|30|49|19', 'the last ones stay');
		$aio->gives('SELECT ios FROM io_trace_summary', 20);
		$aio->sql('SELECT io_trace_reset()');
		$aio->gives('SELECT recorded, lost FROM io_trace_status', '0|0', 'forgotten');
		$aio->io_trace_shows('count(*)', 0);
		$alice->sql("SELECT count(read_rel_block_ll('$t', b)) FROM generate_series(0, 4) b");
		$aio->gives('SELECT recorded, lost FROM io_trace_status', '5|0', 'it goes on');
		$aio->io_trace_stop;
	}));

	$aio->scenario('a record is overwritten while its read is held', with('alice bob', 60, sub ($alice, $bob, $t) {
		traces_held_read($aio, $t, $alice, "SELECT read_rel_block_ll('$t', 3)");
		$aio->io_hold_end;
		$bob->sql("SELECT count(read_rel_block_ll('$t', 10 + b)) FROM generate_series(0, 19) b");
		$aio->io_trace_shows("bool_and(pid = ${\$bob->pid} AND waits <= 1 AND NOT held), count(*)", 't|20', 'others are in its place');
		$aio->end_holds;
		$alice->ends;
		$aio->io_trace_shows("bool_and(pid = ${\$bob->pid} AND waits <= 1 AND NOT held), count(*)", 't|20', 'and stay as they are');
		$aio->io_trace_stop;
	}));

	$aio->scenario('many sessions at once', with('', 60, sub ($t) {
		my @sessions = $aio->sessions(map { "s$_" } 1 .. 4);
		$aio->io_trace_restart($t);
		$sessions[$_]->starts("SELECT count(read_rel_block_ll('$t', 15 * $_ + b % 15)) FROM generate_series(1, 75) b") for 0 .. 3;
		my $torn = 0;
		until (4 == grep { $_->has_ended } @sessions)
		{
			$torn += $aio->sql("SELECT count(*) FROM io_trace WHERE submitted_at < staged_at OR completed_at < submitted_at OR off <> blockno * 8192 OR relation <> '$t'::regclass OR length <> 8192");
		}
		$_->ends for @sessions;
		is($torn, 0, 'no record is inconsistent at any time');
		$aio->gives('SELECT recorded >= 300, recorded - lost = 20 FROM io_trace_status', 't|t', 'all are counted');
		$aio->io_trace_stop;
	}));

	$aio->scenario('a crash', with('alice', 20, sub ($alice, $t) {
		traces_held_read($aio, $t, $alice, "SELECT read_rel_block_ll('$t', 3)");
		$aio->kill_process($alice->pid);
		$aio->poll(sub { eval { $aio->observe; $aio->sql('SELECT recorded FROM io_trace_status') eq '0' } });
		$aio->gives('SELECT running, recorded, started_at FROM io_trace_status', 'f|0|', 'forgets it');
		my ($bob) = $aio->sessions('bob');
		$aio->io_trace_during($t, sub { $bob->sql("SELECT read_rel_block_ll('$t', 3)") });
		$aio->io_trace_shows('seq, blockno', '1|3', 'and there can be a new one');
	}), leaves => 'nothing', dies => 1, skip => only_long());

	$aio->scenario('no room', sub {
		$aio->node->append_conf('postgresql.conf', 'test_aio.trace_size = 0');
		while_stopped($aio);
		my ($alice) = $aio->sessions('alice');
		for my $call ('io_trace_start()', 'io_trace_stop()', 'io_trace_reset()', 'io_trace', 'io_trace_status', 'io_trace_summary')
		{
			$alice->fails("SELECT count(*) FROM $call", '55000', qr/there is no I\/O trace.*test_aio\.trace_size/s, $call);
		}
		$aio->is_as_written($aio->table('t', 20));
	}, leaves => 'nothing', dies => 1, skip => only_long());
},
	needs => 'gate trace', conf => { 'test_aio.trace_size' => 20, restart_after_crash => 'on' });
