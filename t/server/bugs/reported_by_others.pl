# Bugs that others have reported, and for which a fix is under discussion (doc/reports.md#known-by-name).
use TestAio;

with_each_io_method('worker; long: all', sub {
	# the end of a read stream waits for reads that nobody wants; here, a rescan is the end
	$aio->scenario('a rescan', with('alice', 60, sub ($alice, $t) {
		$aio->sql('CREATE SEQUENCE scenario.s');
		$alice->sql('SET enable_material = off; SET enable_memoize = off; SET max_parallel_workers_per_gather = 0');
		my $rows = "SELECT count(nextval('scenario.s')) FROM generate_series(1, 2) g, LATERAL (SELECT blk FROM $t WHERE blk + g > 0 OFFSET 6 LIMIT 1) x";
		$alice->gives($rows, 2, 'two rows');
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, $rows, relation => $t, blockno => 7);
		$alice->reaches_wait_event(qr/^(?:Aio|Buffer|IoGate)/);
		$aio->gives('SELECT last_value FROM scenario.s', $aio->has_bug('stream-end-waits') ? 3 : 4, 'rows before the wait, and those of the first run');
		$aio->completion_continue;
		$alice->returns(2, 'the query');
	}), skip => $aio->no_faults // ($aio->method eq 'sync' ? 'with sync, nothing is read ahead' : undef));

	# a table whose file is missing is dropped, and its dirty buffers stay
	$aio->scenario('a file that is missing', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.d (n int); INSERT INTO scenario.d VALUES (1)');
		my ($file, $number) = ($aio->file_of('scenario.d'), $aio->sql("SELECT pg_relation_filenode('scenario.d')"));
		my $drop = "SELECT drop_buffer(buffer) FROM buffers_in_file($number)";
		$alice->fails($drop, '55006', qr/buffer \d+ is in use/, 'what can be written is not dropped');
		rename $file, "$file.away" or die "$file: $!";
		# another session does not know how long the file is
		$aio->session('bob')->sql('DROP TABLE scenario.d');
		if ($aio->has_bug('dropped-without-file'))
		{
			$alice->fails('CHECKPOINT', 'XX000', qr/checkpoint request failed/, 'a checkpoint fails');
			$alice->gives($drop, '', 'the buffers are dropped');
		}
		$alice->gives('CHECKPOINT', '', 'a checkpoint');
		unlink $file, "$file.away";
	}), log => [ qr/checkpointer ERROR:  (?:58P01: )?could not open file/, qr/alice ERROR:  (?:XX000: )?checkpoint request failed/ ]);

	# the TOAST table of the new table has an index, whose creation writes into the progress of VACUUM FULL
	$aio->scenario('progress of VACUUM FULL', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.p AS SELECT i::text AS s FROM generate_series(1, 1000) i');
		$aio->evict('scenario.p');
		$aio->read_at_completion_wait($alice, 'VACUUM FULL scenario.p', relation => 'scenario.p');
		$aio->gives('SELECT phase, index_rebuild_count > 0 FROM pg_stat_progress_cluster', 'seq scanning heap|' . ($aio->has_bug('toast-index-progress') ? 't' : 'f'), 'indexes that are rebuilt');
		$aio->completion_continue;
		$alice->ends('VACUUM FULL');
	}), skip => $aio->no_faults);

	# the views of the current transaction show what has not been reported yet of those before; a session that becomes idle may report it
	$aio->scenario('pg_stat_xact_user_tables', with('alice', 10, sub ($alice, $t) {
		$alice->sql("DO \$\$ BEGIN PERFORM count(*) FROM $t; COMMIT;"
			  . " PERFORM set_config('scenario.seen', (SELECT (seq_scan > 0)::text FROM pg_stat_xact_user_tables WHERE relid = '$t'::regclass), false); END \$\$");
		$alice->gives("SELECT current_setting('scenario.seen')", $aio->has_bug('xact-views-leak') ? 'true' : 'false', 'a scan by the transaction before');
	}));

	# CREATE DATABASE copies how many values of a sequence are in the WAL already, which is true of the WAL of the template only
	$aio->scenario('a sequence in a copy, and a crash', sub {
		$aio->sql('CREATE DATABASE original TEMPLATE postgres');
		my $alice = $aio->session('alice', dbname => 'original');
		$alice->sql("CREATE SEQUENCE s; SELECT nextval('s')");
		$aio->end_session($alice);
		$aio->sql("CREATE DATABASE $_ TEMPLATE original STRATEGY $_") for qw(file_copy wal_log);
		my $next = sub ($database) {
			my $bob = $aio->session('bob', dbname => $database);
			my $value = $bob->sql("SELECT nextval('s') FROM pg_logical_emit_message(false, '', '', flush => true)");
			$aio->end_session($bob);
			return $value;
		};
		my %value = map { $_ => $next->($_) } qw(file_copy wal_log);
		$aio->recovers;
		cmp_ok($next->('file_copy'), '>', $value{file_copy}, 'a copy of the files: no value comes again');
		my $again = $next->('wal_log');
		$aio->has_bug('create-database-sequence') ? is($again, $value{wal_log}, 'a copy in the WAL: a value comes again') : cmp_ok($again, '>', $value{wal_log}, 'a copy in the WAL: no value comes again');
		$aio->sql("DROP DATABASE $_") for qw(file_copy wal_log original);
		$aio->sql('CHECKPOINT');
	}, dies => 1);

	# a file of a transaction that a crash has ended
	$aio->scenario('a table that was not committed, and a crash', with('alice', sub ($alice) {
		$alice->sql('BEGIN; CREATE TABLE scenario.o AS SELECT generate_series(1, 10)');
		my $file = $aio->node->data_dir . '/' . $alice->sql("SELECT pg_relation_filepath('scenario.o')");
		$alice->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
		$aio->recovers;
		is(-e $file ? 'there' : 'gone', $aio->has_bug('crash-leaves-files') ? 'there' : 'gone', 'its file');
		unlink $file;
	}), dies => 1);
});

# autoprewarm keeps the lock on a table until it has loaded all of it.
for_each_io_method('worker', sub {
	$aio->scenario('TRUNCATE during autoprewarm', sub {
		my $t = $aio->table('t', 300, changes => 1);
		$aio->sql("SELECT pg_prewarm('$t')");
		my $size = $aio->log_size;
		while_stopped($aio);
		my $alice = $aio->sessions('alice');
		$aio->wait_for('SELECT count(*) > 0 FROM io_held');
		$aio->sql("SELECT io_hold('$t'), io_hold_end(min(filter)), io_release_all() FROM io_filters");
		$aio->wait_for("SELECT count(*) > 0 FROM io_held WHERE relation = '$t'::regclass");
		$alice->waits("TRUNCATE $t", 'relation');
		$aio->end_filters;
		$alice->ends('TRUNCATE');
		my ($loaded, $known);
		$aio->poll(sub { ($loaded, $known) = $aio->log_text($size) =~ /autoprewarm successfully prewarmed (\d+) of (\d+) previously-loaded blocks/ }) or fail('autoprewarm ends');
		$aio->has_bug('autoprewarm-lock') ? cmp_ok($loaded, '>=', 300, 'TRUNCATE has waited for all blocks') : cmp_ok($loaded, '<', $known - 100, 'autoprewarm gives up the table');
	});

	# guards no known bug; it is here since it needs test_aio.hold_at_start
	$aio->scenario('a shutdown during autoprewarm', with('', 300, sub ($t) {
		$aio->sql("SELECT pg_prewarm('$t')");
		while_stopped($aio);
		$aio->wait_for('SELECT count(*) > 0 FROM io_held');
		my $list = $aio->node->data_dir . '/autoprewarm.blocks';
		my $blocks = -s $list;
		while_stopped($aio, sub { is(-s $list, $blocks, 'leaves the list of blocks as it was') });
		my $size = $aio->log_size;
		$aio->end_filters;
		# or the end of the cluster would terminate the worker
		$aio->poll(sub { $aio->log_text($size) =~ /autoprewarm successfully prewarmed/ }) or fail('autoprewarm ends');
	}), log => qr/autoprewarm worker FATAL:  terminating background worker|postmaster LOG:  background worker "autoprewarm worker"/);
}, needs => 'gate pg_prewarm', conf => { shared_preload_libraries => 'test_aio, pg_prewarm', 'pg_prewarm.autoprewarm_interval' => '0', 'test_aio.hold_at_start' => 'autoprewarm worker' });
