# Reads that the I/O gate holds: which reads, those of synchronous methods, of batches and other processes, of relations that change, and filters that end meanwhile.
use TestAio;
use TestAio::Neighbours;

# Reads that the I/O gate holds, on any server: which reads, who waits for them, and their
# release in any order, whole, short or failed.
with_each_io_method('sync; long: all', sub {
	$aio->scenario('held, seen, released', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
		$bob->waits("SELECT count(*) FROM read_buffers('$t', 4, 1)", 'IoGateHeld');
		$aio->io_held_shows('pid, relation, fork, blockno, nblocks, off, length, waiters @> ARRAY[pid], cardinality(waiters)',
			$alice->pid . "|$t|main|3|4|24576|32768|t|2", 'one read, two waiters');
		$aio->gives('SELECT state, off, length FROM pg_aios JOIN io_held USING (pid, io_id, io_generation, off, length)',
			'SUBMITTED|24576|32768', 'and pg_aios says the same');
		$aio->gives('SELECT io_release(pid, io_id) FROM io_held', 't', 'released');
		$alice->returns('', 'reads');
		$bob->returns('1', 'gets its block');
		$aio->gives('SELECT io_hold_end(), io_hold_end()', '1|0', 'the filter ends once');
	}));

	# a client that does not read would block a process that has the gate's lock
	$aio->scenario('what the server says of a captured read goes to its log alone', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $told = qr/updating state to (SUBMITTED|COMPLETED_IO|COMPLETED_SHARED)/;
		$aio->sql("SELECT io_device('$t', '0'), io_hold('$t', blockno => 2)");
		$_->sql('SET client_min_messages = debug5') for $alice, $bob;
		$alice->sql("SELECT read_rel_block_ll('$t', 1)");
		my @staged = grep { /STAGED/ } my @said = $alice->notices;
		cmp_ok(scalar @staged, '>', 0, 'the read is staged, as the server says');
		is_deeply([ grep { /$told/ } @said ], [], 'it says no more');
		$alice->waits("SELECT read_rel_block_ll('$t', 2)", 'IoGateHeld');
		$bob->io_release_all;
		is_deeply([ grep { /$told/ } $bob->notices ], [], 'the session that releases is not told either');
		$alice->returns('', 'reads');
		is_deeply([ grep { /$told/ } $alice->notices ], [], 'nor the owner of a held one');
		$aio->sql("SELECT io_hold_end(), io_device_end()");
	}));

	$aio->scenario('several at once, last first', with('', 40, sub ($t) {
		my ($idle, @readers) = $aio->sessions(qw(idle r0 r1 r2 r3));
		$aio->io_hold($t);
		$readers[$_]->starts("SELECT read_rel_block_ll('$t', 10 * $_, nblocks => 2)") for 0 .. 3;
		$aio->io_held_count(4);
		$idle->io_hold(pid => $idle->pid);
		$aio->end_session($idle);
		$aio->io_held_count(4, 'what another session holds stays when one ends');
		$aio->gives('SELECT array_agg(io_id) = (SELECT array_agg(io_id ORDER BY io_id) FROM io_held) FROM io_held', 't', 'io_held is ordered');
		for my $i (2, 0, 3, 1)
		{
			is($aio->io_release_block(10 * $i), 't', "read of block ${\(10 * $i)} is released");
			$readers[$i]->returns('', 'reads');
		}
		$aio->io_hold_end;
	}));

	$aio->scenario('results', with('alice', 20, sub ($alice, $t) {
		$aio->io_hold($t);
		for my $case ([ -5, qr/blocks 3\.\.6 in file .*Input\/output error/ ], [ 0, qr/read only 0 of 32768 bytes/ ],
			[ 8191, qr/read only 0 of 32768 bytes/ ])
		{
			$alice->waits("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", 'IoGateHeld');
			$aio->io_release_block(3, $case->[0]);
			$alice->raises($case->[0] == -5 ? '58030' : 'XX001', $case->[1], "result $case->[0]");
		}
		$alice->waits("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", 'IoGateHeld');
		$aio->io_release_block(3, 16384);
		$alice->returns('', 'result 16384');
		$alice->warns(qr/read only 16384 of 32768 bytes/);
		is($aio->cached($t), '3,4', 'two of four blocks came');
		$aio->io_hold_end;
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('which reads', with('alice bob', [ t => 20 ], [ u => 20 ], sub ($alice, $bob, $t, $u) {
		$aio->sql("SELECT io_hold('$t', 5), io_hold('$u', pid => ${\$bob->pid}, times => 1)");
		$alice->gives("SELECT read_rel_block_ll('$t', 6, nblocks => 4)", '', 'another block');
		$alice->gives("SELECT read_rel_block_ll('$u', 5)", '', 'another process');
		$alice->starts("SELECT read_rel_block_ll('$t', 2, nblocks => 4)");
		$bob->starts("SELECT read_rel_block_ll('$u', 9); SELECT read_rel_block_ll('$u', 10)");
		$aio->io_held_shows('relation, blockno', "$t|2\n$u|9");
		$aio->gives('SELECT relation, blockno, pid, times, fired FROM io_filters ORDER BY filter', "$t|5|||1\n$u||${\$bob->pid}|1|1");
		$aio->gives('SELECT io_release_all()', 2, 'both are released');
		$alice->returns('', 'reads');
		$bob->returns("\n", 'reads, and the second is not held');
		$aio->io_hold_end;
	}));

	$aio->scenario('an ended filter lets go of nothing', with('alice', 20, sub ($alice, $t) {
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 3)");
		$aio->gives('SELECT io_hold_end()', 1);
		$aio->io_held_count(1, 'still held');
		$aio->gives("SELECT io_release(${\$alice->pid} + 1, io_id) FROM io_held", 'f', 'not of another process');
		$aio->gives('SELECT io_release_all()', 1);
		$alice->returns('', 'reads');
		$aio->gives("SELECT io_release(${\$alice->pid}, 0)", 'f', 'nothing is held there');
	}));

	$aio->scenario('temporary tables', with('alice', 20, kind => 'TEMP', sub ($alice, $t) {
		for my $result ('NULL', -5)
		{
			$aio->read_waits_for("io_hold(pid => ${\$alice->pid}, times => 1)", $alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
			$aio->gives('SELECT f_localmem, blockno FROM io_held', 't|3', 'held');
			$aio->gives("SELECT io_release_all($result)", 1, "released with $result");
			$result eq 'NULL' ? $alice->returns('', 'reads itself') : $alice->raises('58030', qr/blocks 3\.\.4 in file/, 'fails');
			$aio->io_hold_end;
		}
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('a temporary table whose owner does not wait', with('alice', 20, kind => 'TEMP', changes => 1, sub ($alice, $t) {
		$alice->io_hold($t);
		$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
		$aio->io_held_count(1);
		$aio->gives('SELECT io_release_all()', 1, 'is released');
		$aio->io_held_count(1, 'and stays, since nobody else can perform it');
		$aio->gives('SELECT io_release_all()', 0, 'but is not released again');
		$alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 1)", 1, 'performs it when she waits');
		$aio->io_held_count(0);
		$alice->io_hold_end;
	}));
}, leaves => 'nothing', needs => 'gate');

# Held reads of relations that are dropped, truncated, vacuumed and moved, and of others: statements that need the
# held blocks wait, all others do not, and the data is right afterwards.
with_each_io_method('sync; long: all', sub {
	# statement of another session, whether the table stays
	$aio->scenario('%s of a relation with a held read', with('alice bob', 20, changes => 1, sub ($alice, $bob, $t, $what, $sql, $stays) {
		my $node = $aio->sql("SELECT pg_relation_filenode('$t')");
		$aio->with_uninterruptible_timeout("io_hold('$t', 3)");
		# the reader moves on and gives up its lock
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
		$aio->io_held_count(1);
		$bob->starts(sprintf $sql, $t);
		$bob->waits_on('IoGateHeld', 'waits for the read') if $what ne 'ALTER TABLE SET TABLESPACE';
		$aio->end_holds;
		$bob->returns(qr/^$/, 'and goes on');
		return $aio->is_as_written($t) if $stays;
		$aio->gives("SELECT count(*) FROM pg_buffercache WHERE relfilenode = $node", 0, 'none of its blocks is left') if !$aio->lacks('pg_buffercache');
	}), each => [
		[ 'DROP TABLE', 'DROP TABLE %s', 0 ],
		[ 'TRUNCATE', 'TRUNCATE %s', 0 ],
		[ 'VACUUM', 'VACUUM (TRUNCATE off) %s', 1 ],
		[ 'ALTER TABLE SET TABLESPACE', "SET allow_in_place_tablespaces = on; CREATE TABLESPACE s153 LOCATION ''; ALTER TABLE %s SET TABLESPACE s153; ALTER TABLE %1\$s SET TABLESPACE pg_default; DROP TABLESPACE s153", 1 ] ]);

	$aio->scenario('a DROP TABLE that is cancelled while it cannot be', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->with_uninterruptible_timeout("io_hold('$t', 3)");
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
		$bob->waits("DROP TABLE $t", 'IoGateHeld');
		$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
		$bob->wait_for_end;
		$aio->io_held_count(0, 'performs the read itself, to get on');
		$aio->end_filters;
	}));
}, needs => 'gate');

# Has autovacuum work while the function runs.
sub with_autovacuum ($aio, $function)
{
	$aio->alter_system(autovacuum => 'on', autovacuum_naptime => 1);
	$function->();
	$aio->alter_system(autovacuum => 'off');
	return $aio->wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%')");
}

# Synchronous reads: without test_aio.reach_synchronous_reads they pass by the gate, and
# io_gate says so; with it, which is the default, the gate holds them, too, and counts what bypasses it.
with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('a read by TID, not reached', with('alice bob', 20, sub ($alice, $bob, $t) {
		for my $made ("io_hold('$t')", "io_fail('$t', -5)", "io_device('$t', '50 s')")
		{
			$bob->sql("SELECT $made");
			is_deeply([ $bob->notices ], ['the I/O gate does not see synchronous reads on this server'], "$made: the session is told");
		}
		$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(3,1)'", 1, 'is not held');
		$aio->gives('SELECT synchronous FROM io_gate', 'f', 'as io_gate says');
		$aio->end_filters;
	}), leaves => 'nothing');
}, suffix => 'off', needs => 'gate', conf => { 'test_aio.reach_synchronous_reads' => 'off' });

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('a read by TID, reached', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $read = "SELECT count(*) FROM $t WHERE ctid = '(3,1)'";
		$aio->read_waits_for("io_hold('$t')", $alice, $read);
		$bob->waits($read, 'IoGateHeld');
		$aio->io_held_shows('pid, blockno, cardinality(waiters)', $alice->pid . '|3|2');
		$aio->end_holds;
		$_->returns(1, 'reads') for $alice, $bob;
	}), leaves => 'nothing');

	$aio->scenario('an index, which fails and is held', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE INDEX ti ON $t (blk)");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		my $query = "SELECT count(*) FROM $t WHERE blk = 7";
		$alice->sql($query);
		$aio->evict('scenario.ti');
		$aio->io_fail('scenario.ti', -5, times => 1);
		$alice->fails($query, '58030', qr/could not read blocks \d+\.\.\d+ in file/, 'fails');
		$aio->sql("SELECT io_fail_end(), io_hold('scenario.ti', times => 1)");
		$alice->waits($query, 'IoGateHeld');
		$aio->cancels($alice);
		$aio->end_filters;
		$alice->gives($query, 1, 'finds it');
	}), log => qr/LOG:  could not read blocks/);

	# a result longer than the read changes nothing
	$aio->scenario('reads of an exiting session bypass filters', with('alice', sub ($alice) {
		my $rel = 'pg_depend_reference_index';
		$alice->sql('CREATE TEMP TABLE own (i int)');
		$aio->sql("SELECT io_fail('$rel', 100000), io_device('$rel', '0 s'), evict_rel('$rel')");
		$aio->end_session($alice);
		$aio->gives("SELECT kind, bypassed > 0, why_bypassed FROM io_filters ORDER BY filter", "fail|t|the process exits\ndevice|t|the process exits", 'with the reason');
		$aio->gives('SELECT bypassed > 0, why_bypassed FROM io_devices', 't|the process exits', 'io_devices says so, too');
		$aio->end_filters;
	}), leaves => 'nothing');

	$aio->scenario('a read of the autovacuum launcher', with('bob', sub ($bob) {
		# a block that a process has pinned, which waits for another one, is not evicted
		$bob->sql('SET client_min_messages = error; SET log_min_messages = error');
		$aio->io_hold('pg_database');
		with_autovacuum($aio, sub {
			# others may read the block first
			my $held = "FROM io_held JOIN pg_stat_activity USING (pid) WHERE backend_type";
			ok($aio->poll(sub {
				return 1 if $aio->sql("SELECT count(*) $held = 'autovacuum launcher'") > 0;
				$aio->sql("SELECT io_release(pid, io_id) $held <> 'autovacuum launcher'");
				$bob->starts("SELECT evict_rel('pg_database')") if $bob->has_ended;
				return 0;
			}), 'is held like others');
			$aio->end_holds;
			$bob->wait_for_end;
		});
	}), leaves => 'nothing');

	# longer than it waits for pins, which those have for a moment who waited for the same read
	$aio->scenario('evict_rel() of a block whose read was held', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t) {
		$carol->sql("SET test_aio.hold_timeout = '700ms'; SELECT io_hold('$t', 3)");
		$bob->starts("SELECT count(*) FROM $t");
		$aio->io_held_count(1);
		$alice->sql("SELECT evict_rel('$t')");
		$bob->returns(20, 'all rows');
		$carol->sql('SELECT io_hold_end()');
	}), log => $aio->hold_expired);

	$aio->scenario('connecting while catalogs are held', with('alice', 2, sub ($alice, $t) {
		$alice->sql('SET test_aio.hold_timeout = 100');
		$alice->sql("SELECT io_hold(fork => NULL, times => 3, everybody => true), evict_rel('pg_amproc'), evict_rel('pg_proc'), evict_rel('pg_type')");
		$aio->sessions('bob')->gives("SELECT count(*) FROM $t WHERE body LIKE 'x%'", 0, 'gets on after a while');
		$alice->gives("SELECT count(*) FROM pg_operator WHERE oprname = '~~~'", 0, 'nor is the one held that holds');
		$aio->end_filters;
	}), leaves => 'nothing', log => $aio->hold_expired);

	$aio->scenario('a hold of all reads, kept, does not hold the session that has made it', with('alice bob', sub ($alice, $bob) {
		$alice->sql("SET test_aio.hold_timeout = '10min'; SELECT evict_rel('pg_aggregate'), evict_rel('pg_aggregate_fnoid_index')");
		$alice->io_hold(keep => 'true', everybody => 'true');
		my $reads = 'SELECT sum(i) FROM generate_series(1, 3) i';
		$alice->gives($reads, 6, 'reads catalogs');
		$alice->sql("SELECT evict_rel('pg_aggregate'), evict_rel('pg_aggregate_fnoid_index')");
		$aio->end_session($alice);
		$bob->waits($reads, 'IoGateHeld', 'another session is held, and when the first has gone, too');
		$aio->end_filters;
		$bob->returns(6, 'reads');
	}), leaves => 'nothing');

	# of a catalog: a query that reads tables runs outside of the batch
	# the server waits for reads that use a file's descriptor before it closes the file
	$aio->scenario('a session that closes the file of its held read', with('alice', 20, sub ($alice, $t) {
		$aio->sql("SELECT io_hold('$t')");
		$alice->gives("SELECT read_rel_block_ll('$t', 3, wait_complete => false, smgrreleaseall => true)", '', 'goes on');
		$aio->io_held_count(1);
		$aio->end_filters;
	}), skip => $aio->method eq 'sync' && 'with sync the session waits for each read');

	$aio->scenario('a synchronous read in a batch', with('alice', 20, sub ($alice, $t) {
		my $oid = $aio->sql('SELECT min(oid) FROM pg_conversion');
		$aio->evict($t, $alice);
		$aio->sql("SELECT evict_rel('pg_conversion'); SELECT io_hold('pg_conversion')");
		$alice->starts("SELECT batch_start(), read_rel_block_ll('$t', 5, wait_complete => false), pg_conversion_is_visible($oid), batch_end()");
		$aio->io_held_count(1);
		$aio->end_holds;
		$alice->returns('||t|', 'and the batch goes on');
		$alice->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'to its end');
	}));
}, needs => 'gate');

# Alice stages a read of block 3; then the filter ends, and she submits it.
sub staged_meanwhile ($aio, $alice, $t, $end)
{
	# opens the relation, so that the batch reads no catalogs
	$aio->evict($t, $alice);
	$aio->stages($alice, $t, 3);
	$end->();
	$aio->resume;
	$alice->ends('submits the staged read');
	return $alice;
}

# The gate holds reads inside batches, parallel queries and autovacuum, and while the I/O workers stand still.  Filters
# that end while a read is staged and not yet submitted do not affect the read.
for_each_io_method('worker; long: all', sub {
	my @filters = (
		[ 'io_hold', "io_hold('%s')", 'io_hold_end()' ],
		[ 'io_fail', "io_fail('%s', -5)", 'io_fail_end()' ],
		[ 'inj_io_completion_wait', "inj_io_completion_wait(relfilenode => pg_relation_filenode('%s'))", 'inj_io_completion_continue()' ],
		[ 'inj_io_short_read_attach', "inj_io_short_read_attach(-5, relfilenode => pg_relation_filenode('%s'))", 'inj_io_short_read_detach()' ],
		[ 'inj_io_reopen_attach', 'inj_io_reopen_attach()', 'inj_io_reopen_detach()' ]);
	$aio->scenario('%s', with('alice', 20, sub ($alice, $t, $, $begin, $end) {
		$aio->sql('SELECT ' . $begin =~ s/%s/$t/r);
		staged_meanwhile($aio, $alice, $t, sub { $aio->sql("SELECT $end") });
		$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
		# waits until the read has ended
		$alice->gives("SELECT evict_rel('$t')", '', 'the read has ended');
		$aio->logs(qr/held for too long|could not read/, 0, 'no complaint is logged');
	}), each => \@filters, skip => sub ($filter, @) {
		return 'files are reopened with io_method=worker only' if $filter =~ /reopen/ && $aio->method ne 'worker';
		return 'with io_method=sync, reads are staged only if the gate captures them' if $filter =~ /^inj/ && $aio->method eq 'sync' && !$aio->no_injection_points;
		return $filter =~ /^inj/ ? $aio->no_faults : undef;
	});

	$aio->scenario('a session that exits while another has staged a read that it would hold', with('controller alice', 20, sub ($controller, $alice, $t) {
		$controller->io_hold($t);
		staged_meanwhile($aio, $alice, $t, sub { $aio->end_session($controller) });
		$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
	}));

	$aio->scenario('batch mode, and more reads than handles', with('alice', 80, sub ($alice, $t) {
		# opens the relation, so that the batch reads no catalogs
		$aio->evict($t, $alice);
		$aio->io_hold($t, times => 3);
		$alice->starts($aio->batch(map { "SELECT read_rel_block_ll('$t', $_, wait_complete => false)" } 0 .. $aio->setting('io_max_concurrency') + 4));
		$aio->io_held_count(3);
		$aio->gives('SELECT io_release_all()', 3);
		$alice->returns(qr/^\n*$/, 'goes on');
		$aio->io_hold_end;
	}));

	$aio->scenario('parallel query', with('alice', 200, sub ($alice, $t) {
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;'
			  . 'SET seq_page_cost = 0');
		$aio->io_hold($t);
		$alice->starts("SELECT count(*) FROM $t");
		my $processes = "SELECT string_agg(DISTINCT backend_type, ', '), count(DISTINCT pid) FROM io_held JOIN pg_stat_activity USING (pid)";
		$aio->wait_for("SELECT (q.*)::text = '(\"client backend, parallel worker\",3)' FROM ($processes) q");
		$aio->cancels($alice, 'is cancelled, workers and all');
		$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 0, 'they have gone');
		$aio->end_holds;
	}), log => [ qr/parallel worker .*FATAL:  terminating background worker "parallel worker" due to administrator command/, qr/postmaster LOG:  background worker "parallel worker" \(PID \d+\) exited with exit code 1/ ]);

	$aio->scenario('autovacuum', with('bob', 100, sub ($bob, $t) {
		$aio->sql("ALTER TABLE $t SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)");
		my $begun = $aio->sql('SELECT clock_timestamp()');
		$aio->sql("DELETE FROM $t WHERE blk = 50");
		$aio->sql('SELECT pg_stat_force_next_flush()');
		$aio->evict($t);
		$aio->io_hold($t);
		my $is_held = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND wait_event = 'IoGateHeld')";
		with_autovacuum($aio, sub {
			$aio->wait_for($is_held);
			if (!only_long())
			{
				$bob->sql("SET deadlock_timeout = '10ms'");
				$bob->gives("BEGIN; LOCK TABLE $t; COMMIT", '', 'makes autovacuum give up its lock');
				$aio->io_release_all;
				$aio->wait_for($is_held);
			}
			$aio->end_holds;
			$aio->wait_for("SELECT pg_stat_get_autovacuum_count('$t'::regclass) = 1");
			$aio->wait_for("SELECT pg_stat_get_autoanalyze_count('$t'::regclass) = 1");
			$aio->gives("SELECT vacuum_count, analyze_count, last_vacuum < '$begun', last_analyze, last_autovacuum > '$begun', last_autoanalyze > '$begun' FROM pg_stat_all_tables WHERE relid = '$t'::regclass", '1|0|t||t|t', 'the statistics tell who it was');
		});
		$aio->is_as_written($t, except => 'block 50 has no row');
	}), leaves => 'nothing', log => qr/autovacuum worker ERROR:  canceling autovacuum task/);

	# the leader tells its workers of costs that a reload has changed
	$aio->scenario('parallel autovacuum', sub {
		my $t = 'scenario.a';
		$aio->sql("CREATE TABLE $t (n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(0, 4999); CREATE INDEX a_up ON $t (n); CREATE INDEX a_down ON $t (n DESC)");
		$aio->sql("DELETE FROM $t WHERE n % 2 = 0; SELECT pg_stat_force_next_flush()");
		$aio->sql("ALTER TABLE $t SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_parallel_workers = 1)");
		$aio->evict($_) for 'scenario.a_up', 'scenario.a_down';
		$aio->sql("SELECT io_hold('scenario.a_up'), io_hold('scenario.a_down')");
		$aio->alter_system(autovacuum_max_parallel_workers => 1, min_parallel_index_scan_size => 0, log_min_messages => 'debug2');
		my $since = $aio->log_size;
		with_autovacuum($aio, sub {
			$aio->wait_for("SELECT string_agg(backend_type, ', ' ORDER BY 1) = 'autovacuum worker, parallel worker' FROM io_held JOIN pg_stat_activity USING (pid)");
			$aio->alter_system(vacuum_cost_page_miss => 7);
			$aio->wait_for("SELECT current_setting('vacuum_cost_page_miss') = '7'");
			$aio->io_hold_end;
			$aio->sql("SELECT io_release(pid, io_id) FROM io_held JOIN pg_stat_activity USING (pid) WHERE backend_type = 'autovacuum worker'");
			$aio->wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND wait_event = 'ParallelFinish')");
			$aio->io_release_all;
			$aio->wait_for("SELECT pg_stat_get_autovacuum_count('$t'::regclass) = 1");
		});
		like($aio->log_text($since), qr/DEBUG:  parallel autovacuum worker updated cost params: .*cost_page_miss=7\b/, 'the worker has the new cost');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '2500|6250000', 'the rows');
	}, leaves => 'nothing', skip => $aio->sql("SELECT count(*) FROM pg_settings WHERE name = 'autovacuum_max_parallel_workers'") ? undef : 'autovacuum is parallel since 19');

	$aio->scenario('I/O workers that stand still', with('alice bob', [ t => 4 ], [ u => 4 ], sub ($alice, $bob, $t, $u) {
		$aio->while_workers_are_still(sub {
			$bob->waits("SELECT read_rel_block_ll('$t', 0)", 'AioIoCompletion');
			$aio->read_waits_for("io_hold('$u')", $alice, "SELECT read_rel_block_ll('$u', 0)");
			$aio->end_holds;
			$alice->returns('', 'a held read needs none');
		});
		$bob->returns('', 'the other one does');
	}), skip => $aio->method eq 'worker' ? only_long() : 'needs I/O workers');
}, needs => 'gate');
