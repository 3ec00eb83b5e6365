# A standby that reads while it replays.
use TestAio;
use TestAio::Waits;

# The startup process and the sessions share the buffer pool, and replay drops and truncates what sessions read.
# Sessions wait for held reads.  Replay waits only if it needs the very blocks that are held; then the hold timeout or
# a shutdown ends the wait.  The trace records replay's reads.

# Makes a table that both servers have and neither has cached.
sub on_both ($aio, $standby, $nblocks = 40)
{
	my $t = $aio->table('t', $nblocks, changes => 1);
	$aio->replayed_by($standby);
	$standby->evict($t);
	return $t;
}

# Returns a session of the standby whose cursor stands on block 2 of a table, and the number there.
sub stand_on_block_2 ($aio, $standby)
{
	my $reader = $standby->session('reader');
	$aio->sql('CREATE TABLE scenario.p (n int) WITH (fillfactor = 50); INSERT INTO scenario.p SELECT generate_series(1, 400); VACUUM (FREEZE) scenario.p');
	my $n = $aio->sql('SELECT n FROM scenario.p WHERE ctid = \'(2,1)\'');
	$aio->replayed_by($standby);
	$reader->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM scenario.p WHERE ctid >= '(2,1)'");
	$reader->gives('FETCH 1 FROM c', $n, 'a cursor stands on block 2');
	return ($reader, $n);
}

# Returns the blocks of the table of which the WAL has whole pages.
sub whole_pages_since ($aio, $from)
{
	my $to = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
	my $file = $aio->sql("SELECT pg_relation_filenode('scenario.p')");
	return join ',', map { m{/$file blk (\d+) FPW}g } $aio->wal_records($from, $to);
}

# Waits on a standby, with and without the gate's worker.  Replay of a truncation does not wait
# for held reads.  A recovery conflict cancels a session at each wait of TestAio/Waits.pm.
sub waits ($aio, $standby, $has_worker)
{
	$standby->node->append_conf('postgresql.conf', "max_standby_streaming_delay = 100ms\nhot_standby_feedback = off\n");
	$standby->node->reload;
	$aio->scenario('replay of a truncation', sub {
		my $t = on_both($aio, $standby);
		my ($reader) = $standby->sessions('reader');
		# only the truncation is left to be replayed while the read is held
		$aio->sql("DELETE FROM $t WHERE blk >= 30; VACUUM (FREEZE, TRUNCATE off) $t");
		$aio->replayed_by($standby);
		$standby->evict($t);
		$standby->io_hold($t);
		$reader->sql("SELECT read_rel_block_ll('$t', 35, nblocks => 2, wait_complete => false)");
		$standby->io_held_count(1);
		$aio->sql("VACUUM (TRUNCATE) $t");
		$aio->replayed_by($standby);
		$standby->gives("SELECT pg_relation_size('$t') / current_setting('block_size')::int", 30, 'the table is truncated');
		$standby->io_held_count(0, 'the read is no longer held');
		$standby->end_filters;
	}, leaves => 'nothing');

	# replay needs an index page that a session has locked while it waits for the next one
	$aio->scenario('a recovery conflict with a session that cannot be interrupted', sub {
		$aio->sql('CREATE TABLE scenario.g (a int[]) WITH (autovacuum_enabled = off); CREATE INDEX g_a ON scenario.g USING gin (a);'
			  . 'INSERT INTO scenario.g SELECT ARRAY[i, i + 1] FROM generate_series(1, 2000) i');
		$aio->replayed_by($standby);
		my ($reader) = $standby->sessions('reader');
		my $query = 'SELECT count(*) FROM scenario.g WHERE a @> ARRAY[7]';
		$reader->sql('SET enable_seqscan = off');
		$reader->gives($query, 2, 'has rows, by the pending list of a GIN index');
		$standby->evict('scenario.g_a');
		# the metapage, the root, and pages of the pending list
		$standby->with_uninterruptible_timeout("io_hold('scenario.g_a', 3)");
		$reader->waits($query, 'IoGateHeld');
		$aio->sql('BEGIN; LOCK TABLE scenario.g; COMMIT');
		$aio->replayed_by($standby);
		$standby->io_held_count(0, 'it performs the read, and replay goes on');
		# replay first asks sessions whether they wait for it
		my $error = $reader->wait_for_end->error;
		like($error ? $error->{sqlstate} : '', qr/^(?:40001)?$/, 'the session is cancelled, if it still reads');
		$standby->end_filters;
		$standby->end_scenario(leaves => 'COMPLETED_SHARED', log => qr/ERROR:  canceling statement due to conflict with recovery/);
	}, skip => $standby->lacks('gate') // ($standby->setting('test_aio.reach_synchronous_reads') eq 'on' ? undef : 'the gate does not see synchronous reads'));

	run_conflict($aio, $standby, @$_, $has_worker) for on_their_turn($aio->method, $has_worker, conflicts());
	return;
}

with_each_io_method('io_uring; long: all', sub {
	my $standby = $aio->make_standby;
	my $reason = $aio->lacks('gate') // $aio->lacks('trace');

	$aio->scenario('the same on both', sub {
		my $t = on_both($aio, $standby, 100);
		my ($reader) = $standby->sessions('reader');
		$standby->is_method($aio->method);
		$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 100 FROM generate_series(0, 399) i))", 400, 'stream');
		is($reader->sql("SELECT problems('$t')"), '', 'as written');
		$standby->evict($t);
		$reader->sql($standby->batch("SELECT read_rel_block_ll('$t', 0, 16, wait_complete => false)", "SELECT read_rel_block_ll('$t', 16, 16, wait_complete => false)"));
		$standby->gives("SELECT io_hold('$t', keep => true) > 0, io_hold_end()", 't|1', 'filters can be kept') if !$standby->lacks('gate');
		$reader->fails("SELECT grow_rel('$t', 1)", '25006', qr/cannot execute grow_rel\(\) during recovery/, 'but not written');
		$reader->fails("SELECT $_()", '25006', qr/cannot execute $_\(\) during recovery/, $_) for split /\n/, $aio->sql("SELECT proname FROM pg_proc WHERE proname ~ '^pg_(en|dis)able_data_checksums'");

		# replay goes on and reads evicted blocks
		$standby->evict($t);
		$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk < 50; VACUUM $t");
		for (1 .. 3)
		{
			$standby->evict($t);
			$reader->sql("SELECT count(*) FROM $t");
		}
		$aio->replayed_by($standby);
		$standby->evict($t);
		$reader->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '100|100|50', 'the replayed rows');
		$reader->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 40) b");
		$aio->sql("DROP TABLE $t");
		$aio->replayed_by($standby);
		$reader->fails("SELECT count(*) FROM $t", '42P01', qr/does not exist/, 'dropped while reads were under way');
		$standby->end_session($reader);
		$standby->gives('SELECT count(*) FROM pg_aios', 0, 'nothing is left');
	});

	$aio->scenario('sessions wait, replay does not', sub {
		my $t = on_both($aio, $standby);
		my ($startup) = $standby->pids_of_type('startup');
		my (undef, $issuer, $waiter) = $standby->controller_issuer_waiter($t);
		$standby->io_trace_restart($t, $startup);
		$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk BETWEEN 20 AND 29");
		$aio->replayed_by($standby);
		$standby->io_trace_stop;
		$standby->gives('SELECT bypassed >= 10, why_bypassed FROM io_filters', 't|a process on which others depend reads it', 'the filter tells of the reads of replay');
		$standby->gives('SELECT io_hold_end(everybody => true), io_release_all()', '1|1', 'all is replayed, and the read is still held');
		$standby->io_trace_shows("count(*) FILTER (WHERE blockno BETWEEN 20 AND 29 AND nblocks = 1 AND f_sync AND result = 'OK'), "
			  . "bool_and(pid = $startup AND backend_type = 'startup' AND executed_by = $startup AND completed_by = $startup)", '10|t', 'the startup process has read what it changes');
		$issuer->returns('', 'reads');
		$waiter->returns('1', 'gets it');
		$standby->evict($t);
		$standby->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '40|40|10', 'the replayed rows');
	}, skip => $reason);

	# replay does not read a block of which it has an image, but waits for the read of another process
	$aio->scenario('an image of a block that a session reads', sub {
		my $t = on_both($aio, $standby);
		$aio->alter_system(full_page_writes => 'on');
		$aio->sql('CHECKPOINT');
		my ($reader) = $standby->sessions('reader');
		my ($startup) = $standby->pids_of_type('startup');
		$standby->with_uninterruptible_timeout("io_hold('$t', times => 1)");
		$reader->waits("SELECT read_rel_block_ll('$t', 3)", 'IoGateHeld', 'reads block 3');
		$aio->sql("DELETE FROM $t WHERE blk = 3");
		ok($standby->poll(sub { $standby->wait_event($startup) =~ /^(?:IoGateHeld|AioIoCompletion|BufferIo)$/ }), 'replay waits');
		$standby->sql('SELECT io_hold_end(), io_release_all()');
		$reader->returns('', 'gets it');
		$aio->replayed_by($standby);
		$standby->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)) FROM $t", '39|39', 'the replayed rows');
	}, skip => $reason);

	$aio->scenario('replay of DROP TABLE, until %s', sub ($, $end) {
		my $t = on_both($aio, $standby);
		my ($issuer) = $standby->sessions('issuer');
		$standby->sql("SET test_aio.hold_timeout = '" . ($end =~ /hold timeout/ ? '500ms' : '1min') . "'");
		$standby->sql("SET test_aio.uninterruptible_timeout = " . ($end =~ /uninterruptible/ ? 1000 : 300000));
		$standby->io_hold($t, times => 1);
		$issuer->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
		$aio->sql("DROP TABLE $t");
		my $replays = "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup'";
		$standby->wait_for("SELECT ($replays) = 'IoGateHeld'") if $end !~ /timeout/;
		$standby->io_release_all if $end eq 'a release';
		while_stopped($standby) if $end eq 'fast shutdown';
		$aio->replayed_by($standby);
		$standby->gives("SELECT to_regclass('$t') IS NULL", 't', 'goes on');
		$standby->gives('SELECT bypassed, why_bypassed FROM io_filters', '1|a process that cannot be interrupted waits for it', 'and the filter says so') if $end =~ /uninterruptible/;
		$standby->sql('SELECT io_hold_end(); RESET test_aio.uninterruptible_timeout; RESET test_aio.hold_timeout');
	}, each => [ 'the hold timeout', 'a release', 'fast shutdown', 'the timeout of processes that are uninterruptible' ], skip => sub ($end) { $reason // ($end eq 'fast shutdown' ? only_long() : undef) });

	$aio->scenario('locks of subtransactions', sub {
		$aio->sql('CREATE TABLE scenario.x ()');
		$aio->sql($_) for 'BEGIN', 'SAVEPOINT a', 'LOCK TABLE scenario.x', 'RELEASE a';
		$aio->replayed_by($standby);
		my $locks = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'";
		$standby->gives($locks, 1, 'are replayed');
		$aio->sql('COMMIT');
		$aio->replayed_by($standby);
		$standby->gives($locks, 0, 'and end with the transaction');
	});

	$aio->scenario('an unlogged table', sub {
		my $no_amcheck = $aio->lacks('amcheck');
		$aio->sql('CREATE UNLOGGED TABLE scenario.u AS SELECT 1 AS n; CREATE INDEX u_n ON scenario.u (n); CREATE UNLOGGED SEQUENCE scenario.s');
		$aio->replayed_by($standby);
		my ($reader) = $standby->sessions('reader');
		$reader->fails('SELECT FROM scenario.u', '0A000', qr/cannot access temporary or unlogged relations/, 'cannot be read');
		$reader->gives("SELECT count(*), count(last_value) FROM pg_sequences WHERE sequencename = 's'", '1|0', 'a sequence has no value');
		$reader->gives("SELECT count(*) FROM verify_heapam('scenario.u'), bt_index_check('scenario.u_n')", 0, 'amcheck has nothing to look at') if !$no_amcheck;
	});

	# recovery that begins again may not end before it has replayed what the page has
	$aio->scenario('the minimum recovery point', sub {
		my $t = on_both($aio, $standby);
		$aio->sql('CHECKPOINT');
		$aio->replayed_by($standby);
		# or one that was skipped would come meanwhile
		$standby->sql('CHECKPOINT');
		$aio->sql("UPDATE $t SET gen = gen");
		$aio->replayed_by($standby);
		my $is_beyond = "SELECT max(lsn) > min_recovery_end_lsn FROM generate_series(0, 39) b, page_header(get_raw_page('$t', b)), pg_control_recovery() GROUP BY min_recovery_end_lsn";
		$standby->gives($is_beyond, 't', 'pages in the pool are newer');
		$standby->evict($t);
		$standby->gives($is_beyond, 'f', 'pages that are written are not');
		# a transaction that ended before that point is replayed at once, whatever the delay
		$standby->alter_system(recovery_min_apply_delay => "'1h'");
		ok($standby->stop_with_sessions('QUIT'), 'the standby crashes');
		$standby->start_again;
		$standby->gives("SELECT count(*) FROM $t", 40, 'it can be read again');
		$standby->alter_system(recovery_min_apply_delay => 0);
	}, skip => $aio->lacks('pageinspect'));

	$aio->scenario('a delay that is shortened', sub {
		my ($startup) = $standby->pids_of_type('startup');
		$standby->alter_system(recovery_min_apply_delay => "'1h'");
		ok($standby->poll(sub { use_up_xids($aio, 1); $standby->wait_event($startup) eq 'RecoveryApplyDelay' }), 'replay waits') || diag($standby->activity($startup));
		$standby->alter_system(recovery_min_apply_delay => 0);
		$aio->replayed_by($standby);
	});

	$aio->alter_system(full_page_writes => 'on');
	$aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql('SELECT full_page_writes FROM pg_control_checkpoint()') eq 't' });

	# Replay that needs a page for itself waits until no session has it pinned, whether it changes the
	# page or writes a whole one, and the log says once that it waits, and once that it no longer does.
	# Replay that need not keep anybody off the page does not wait.
	$aio->scenario('%s', sub ($, $what) {
		my $whole = $what eq 'a whole page';
		my ($reader, $n) = stand_on_block_2($aio, $standby);
		my $size = $standby->log_size;
		# nobody ever saw what VACUUM removes, so it conflicts with no snapshot
		my $update = 'BEGIN; UPDATE scenario.p SET n = n WHERE ctid = \'(2,5)\'; ROLLBACK';
		$aio->sql($_) for split(/; /, $update), $whole ? 'CHECKPOINT' : ();
		my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
		$aio->sql('VACUUM (TRUNCATE off) scenario.p');
		is(whole_pages_since($aio, $from), $whole ? 2 : '', 'which whole pages of the table are in the WAL');
		my ($startup) = $standby->pids_of_type('startup');
		my $event = $standby->major < 19 ? 'BufferPin' : 'BufferCleanup';
		ok($standby->poll(sub { $standby->wait_event($startup) eq $event }), "the startup process waits for the pin: $event") || diag($standby->activity($startup));
		ok($standby->poll(sub { $standby->log_text($size) =~ /recovery still waiting/ }), 'the log says so');
		$reader->gives('FETCH 1 FROM c', $n + 1, 'the cursor goes on');
		$reader->sql('ROLLBACK');
		$aio->replayed_by($standby);
		my @lines = $standby->log_text($size) =~ /recovery (still|finished) waiting after [\d.]+ ms: recovery conflict on buffer pin/g;
		is("@lines", 'still finished', 'the log says when the wait begins, and when it has ended');
		$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '400|80200', 'the rows');
	}, each => [ 'a change', 'a whole page' ]);

	$aio->scenario('%s that nobody has to be kept off', sub ($, $what) {
		my $whole = $what eq 'a whole page';
		my ($reader, $n) = stand_on_block_2($aio, $standby);
		my $size = $standby->log_size;
		$aio->sql('CHECKPOINT') if $whole;
		my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
		$aio->sql('UPDATE scenario.p SET n = -n WHERE ctid = \'(2,5)\'');
		is(whole_pages_since($aio, $from), $whole ? 2 : '', 'which whole pages of the table are in the WAL');
		$aio->replayed_by($standby);
		unlike($standby->log_text($size), qr/recovery still waiting/, 'replay does not wait for the pin');
		$reader->gives('FETCH 1 FROM c', $n + 1, 'the cursor goes on');
		$reader->sql('ROLLBACK');
		$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '400|' . (80200 - 2 * ($n + 4)), 'the rows');
	}, each => [ 'a change', 'a whole page' ]);

	# Replay waits for snapshots of a standby for which the primary has removed rows, or which do not see
	# rows that VACUUM takes for visible to all: in its first pass, in its second one, or when it freezes.
	# A row that nobody ever saw concerns no snapshot.  It stays as a dead item until VACUUM's second
	# pass, so it keeps the first one from taking the page for visible to all.
	my $aborted = 'BEGIN; INSERT INTO scenario.p SELECT generate_series(1000, 1010); ROLLBACK';
	my @cases = (
		[ 'a row that is removed', 'DELETE FROM scenario.p WHERE n = 7', 'VACUUM (TRUNCATE off) scenario.p' ],
		[ 'a new row, and VACUUM\'s first pass', 'INSERT INTO scenario.p VALUES (500)', 'VACUUM (TRUNCATE off) scenario.p' ],
		[ 'a new row, and its second pass', "INSERT INTO scenario.p VALUES (500); $aborted", 'VACUUM (TRUNCATE off, INDEX_CLEANUP on) scenario.p' ],
		[ 'a new row that is frozen', 'INSERT INTO scenario.p VALUES (500)', 'VACUUM (FREEZE, TRUNCATE off) scenario.p' ],
		[ 'a row that its own transaction deletes', 'BEGIN; INSERT INTO scenario.p VALUES (500); DELETE FROM scenario.p WHERE n = 500; COMMIT', 'VACUUM (TRUNCATE off, INDEX_CLEANUP on) scenario.p' ],
		[ 'rows that nobody ever saw, and rows that everybody sees, which are frozen', $aborted, 'VACUUM (TRUNCATE off, INDEX_CLEANUP on) scenario.p; VACUUM (FREEZE) scenario.q' ]);
	$aio->scenario('%s', sub ($, $, $change, $vacuum) {
		my $reader = $standby->session('reader');
		$aio->sql('CREATE TABLE scenario.p (n int) WITH (autovacuum_enabled = off); INSERT INTO scenario.p SELECT generate_series(1, 200); CREATE INDEX p_n ON scenario.p (n); VACUUM (FREEZE) scenario.p; CREATE TABLE scenario.q AS SELECT 1');
		$aio->replayed_by($standby);
		# by an index-only scan, which believes the visibility map
		$reader->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
		my $rows = 'SELECT count(*), sum(n) FROM scenario.p';
		$reader->gives($rows, '200|20100', 'what the snapshot sees');
		$aio->sql($_) for split /; /, $change;
		my ($startup) = $standby->pids_of_type('startup');
		# with an image of the page of the index, whose entries the primary has marked as dead
		$aio->sql($_) for $change =~ /^DELETE/ ? ('SET enable_seqscan = off', $rows, 'CHECKPOINT', 'INSERT INTO scenario.p VALUES (500)', 'RESET enable_seqscan') : ();
		$aio->replayed_by($standby);
		$reader->sql('SAVEPOINT s');
		$reader->gives($rows, '200|20100', 'the same rows in a savepoint');
		$aio->sql($vacuum);
		if ($change =~ /^BEGIN/) { $aio->replayed_by($standby) }
		else { ok($standby->poll(sub { $standby->wait_event($startup) eq 'RecoveryConflictSnapshot' }), 'the startup process waits for the snapshot') || diag($standby->activity($startup)) }
		$reader->gives($rows, '200|20100', 'which sees the same rows');
		$reader->sql('ROLLBACK');
		$aio->replayed_by($standby);
		$reader->gives($rows, $aio->sql($rows), 'a later one sees what has become of them');
	}, each => \@cases);

	# What pg_stat_recovery_prefetch shows while replay stands still: how far it has looked ahead, among
	# blocks that are cached.
	$aio->scenario('replay waits for a pin', sub {
		# four rows a page
		my ($pinned, $ahead) = qw(scenario.pinned scenario.ahead);
		$aio->sql("CREATE TABLE $_ (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $_ SELECT i, repeat('x', 1900) FROM generate_series(0, 399) i; VACUUM (FREEZE) $_") for $pinned, $ahead;
		# changes that come later have no full page images
		$aio->sql("CHECKPOINT; UPDATE $ahead SET n = n; DELETE FROM $pinned WHERE n = 21");
		$aio->replayed_by($standby);
		my ($reader) = $standby->sessions('reader');
		$reader->sql("SELECT count(*) FROM $ahead; BEGIN; DECLARE c CURSOR FOR SELECT n FROM $pinned");
		$reader->gives('MOVE 21 FROM c; FETCH 1 FROM c', 22, 'the cursor stands beside the dead row');

		# all of this WAL is there before replay goes on
		$standby->sql('SELECT pg_wal_replay_pause()');
		$aio->sql("UPDATE $ahead SET n = n WHERE n % 4 = 0; VACUUM (TRUNCATE off) $pinned; UPDATE $ahead SET n = n WHERE n % 4 = 1");
		my $end = $aio->sql("SELECT pg_logical_emit_message(false, 'test_aio', '', flush => true)");
		$standby->wait_for("SELECT pg_last_wal_receive_lsn() >= '$end'");
		$standby->sql('SELECT pg_wal_replay_resume()');
		my ($startup) = $standby->pids_of_type('startup');
		ok($standby->poll(sub { $standby->wait_event($startup) =~ /^Buffer(?:Pin|Cleanup)$/ }), 'replay waits for the pin') || diag($standby->activity($startup));
		like(title($startup), qr/ waiting\s*$/, 'its title says so') if defined title($startup);
		# maintenance_io_concurrency is 10; look-ahead ends after four times as many blocks
		my ($blocks, $bytes, $reads) = split /\|/, $standby->sql('SELECT block_distance, wal_distance, io_depth FROM pg_stat_recovery_prefetch');
		is_between($blocks, 20, 40, 'blocks ahead');
		is_between($bytes, 20 * 50, 60 * 8192, 'bytes of WAL ahead');
		is($reads, 0, 'reads in progress: the blocks are cached');
		$reader->sql('ROLLBACK');
		$aio->replayed_by($standby);
		unlike(title($startup), qr/waiting/, 'and does not say so later') if defined title($startup);
		$standby->gives("SELECT count(*), sum(n) FROM $_", $aio->sql("SELECT count(*), sum(n) FROM $_"), "the rows of $_") for $pinned, $ahead;
	});

	waits($aio, $standby, 1) if !$reason;
},
	# or a change would find that its page is in the WAL already, because of hint bits
	no_data_checksums => 1, leaves => 'nothing', streaming => 1, conf => {
		# replay does not read a page whose whole image is in the WAL
		full_page_writes => 'off',
		autovacuum_worker_slots => 1, maintenance_io_concurrency => 10, log_recovery_conflict_waits => 'on', deadlock_timeout => '10ms', max_standby_streaming_delay => '1min', hot_standby_feedback => 'off'
});

for_each_io_method('long: all', sub {
	my $standby = $aio->make_standby;

	waits($aio, $standby, 0) if !$aio->lacks('gate') && !$aio->lacks('trace');
}, streaming => 1, conf => { 'test_aio.reach_synchronous_reads' => 'off', max_worker_processes => 0 });
