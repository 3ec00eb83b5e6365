# Crashes, and recovery after them.
use TestAio;
use Cwd qw(realpath);
use File::Find qw(find);
use IPC::Run;
use POSIX ':sys_wait_h';
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

# A crash while reads are in flight: the server restarts, the data is as before, and the
# postmaster's io_uring descriptors and mappings do not pile up; the server's own tests do not look
# at these.  No hold and no simulated device is left, whichever process was killed.

# Returns the number of the postmaster's descriptors and mappings by kind.
sub resources ($aio)
{
	my $postmaster = $aio->postmaster_pid;
	my @rings = descriptors($postmaster, qr/^anon_inode:\[io_uring\]/);
	my @others = descriptors($postmaster, qr/^(?!anon_inode:\[io_uring\])./);
	my ($maps, $status) = eval { map { slurp_file("/proc/$postmaster/$_") } qw(maps status) } or return;
	my ($locked) = $status =~ /^VmLck:\s*(\d+)/m;
	return {
		'io_uring descriptors' => scalar @rings,
		'other descriptors' => scalar @others,
		'io_uring mappings' => scalar(() = $maps =~ /io_uring/g),
		'locked memory' => $locked // 0 };
}

with_each_io_method('worker; long: all', sub {
	my $before = resources($aio);
	my @seen;

	$aio->scenario('%s is killed', with('alice bob', 40, sub ($alice, $bob, $t, $victim) {
		$aio->sql('CHECKPOINT');
		my $begun = $aio->sql('SELECT clock_timestamp()');
		$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
		$alice->sql("SET work_mem = '64kB'; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT");
		my $pid = $victim eq 'the reader' ? $alice->pid : $victim eq 'another backend' ? $bob->pid
		  : ($aio->pids_of_type($aio->method eq 'worker' ? 'io worker' : 'checkpointer'))[0];
		$aio->kill_process($pid);
		$aio->poll(sub { !kill 0, $alice->pid });
		$_->disconnect for $alice, $bob;
		$aio->wait_for_restart;
		$aio->gives('SELECT (SELECT count(*) FROM pg_aios), (SELECT count(*) FROM pg_ls_tmpdir())', '0|0', 'nothing under way, and no temporary file');
		my @views = map { "SELECT '$_' AS view, stats_reset FROM pg_stat_$_" } qw(archiver bgwriter checkpointer io recovery_prefetch slru wal);
		$aio->gives("SELECT string_agg(DISTINCT view, ' ') FROM (${\join ' UNION ALL ', @views}) v WHERE coalesce(stats_reset < '$begun', true)", '', 'all statistics begin with the crash');
		my $carol = $aio->session('carol');
		$carol->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))", 40, 'reads');
		$aio->is_as_written($t);
		$aio->note_state;
		push @seen, resources($aio);
	}), each => [ 'the reader', 'another backend', 'an I/O worker or the checkpointer' ], dies => 1, skip => sub ($victim) { $victim ne 'the reader' && only_long() });
	SKIP: {
		skip 'no /proc to look at, or one crash', 1 if @seen < 3 || grep { !defined } @seen;
		my ($first, $second, $third) = @seen;
		for my $what (sort keys %$first)
		{
			is($second->{$what} - $first->{$what}, $third->{$what} - $second->{$what}, $aio->method . ": $what grow by the same from crash to crash");
			next if $what =~ /io_uring/;
			is($second->{$what}, $first->{$what}, $aio->method . ": $what do not grow");
		}
		# a server that has the bug keeps one set of rings for each crash (doc/reports.md#known-by-name)
		my $kept = $aio->method eq 'io_uring' && $aio->has_bug('io_uring-rings-kept');
		for my $what ('io_uring descriptors', 'io_uring mappings')
		{
			is($second->{$what} - $first->{$what}, $kept ? $before->{$what} : 0, $aio->method . ": $what grow by this many");
		}
	}

	# the process that is killed, and SQL that delays the read instead of a hold
	$aio->scenario('kill -9: %s', with('', 20, sub ($t, $who, @delay) {
		my %pid;
		@pid{qw(controller issuer waiter)} = map { $_->pid } $aio->controller_issuer_waiter($t, @delay);
		$pid{gate} = $pid{'gate while it serves'} = $aio->sql('SELECT worker FROM io_gate');
		($pid{'io worker'}) = $aio->pids_of_type('io worker');
		$aio->kill_process($pid{$who});
		$aio->sessions($_)->wait_for_end for qw(issuer waiter);
		$aio->wait_for_connections;
		$aio->gives('SELECT (SELECT count(*) FROM io_held), (SELECT count(*) FROM io_filters), (SELECT count(*) FROM io_devices)',
			'0|0|0', 'nothing is held, and nothing in force');
	}), each => [ qw(controller issuer waiter gate), [ 'gate while it serves', "io_device(NULL, '30s', keep => true, everybody => true)" ], $aio->method eq 'worker' ? 'io worker' : () ], dies => 1, skip => sub ($who, @) { $aio->lacks('gate') // ($who =~ /serves/ ? undef : only_long()) });
}, leaves => 'nothing',    # each crash leaves rings behind, one for each possible process
	  # the device for all relations is not to delay what sessions read of the catalogs
	conf => { restart_after_crash => 'on', 'test_aio.reach_synchronous_reads' => 'off', max_connections => 10, max_worker_processes => 2, autovacuum_worker_slots => 1, max_wal_senders => 0 });

# Recovery after a crash, from full page images and from blocks that are read, with and without prefetch, which counts
# what it does.  On a standby, replay waits for sessions that hold pins, or cancels them.

with_each_io_method('io_uring; long: all', sub {
	# makes the extension before the standby copies the server
	my $pageinspect = !$aio->lacks('pageinspect');
	my $standby = $aio->make_standby;

	$aio->scenario('replay cancels the session that holds a pin', sub {
		# four rows a page; a row of the page on which the cursor stands is dead
		my $t = 'scenario.p';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 39) i;"
			  . "VACUUM (FREEZE) $t; DELETE FROM $t WHERE n = 21");
		$aio->replayed_by($standby);
		$standby->sql("ALTER SYSTEM SET max_standby_streaming_delay = '1ms'; SELECT pg_reload_conf()");
		$standby->wait_for("SELECT current_setting('max_standby_streaming_delay') = '1ms'");
		my ($reader) = $standby->sessions('reader');
		$standby->evict($t);
		$reader->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t");
		$reader->gives('MOVE 21 FROM c; FETCH 1 FROM c', 22, 'the cursor stands beside the dead row');
		$standby->gives("SELECT pinning_backends > 0 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 AND relblocknumber = 5", 't', 'the page is pinned')
		  if !$standby->lacks('pg_buffercache');
		$aio->sql("VACUUM (TRUNCATE off) $t; SELECT pg_logical_emit_message(false, 'test_aio', '', flush => true)");
		$standby->poll(sub { $standby->log_text =~ /canceling statement due to conflict with recovery|terminating connection due to conflict/ }) or fail('the session is cancelled');
		$reader->starts('FETCH ALL FROM c')->wait_for_end;
		ok($reader->error, 'the session that holds the pin gets an error');
		$aio->replayed_by($standby);
		$standby->evict($t);
		$standby->gives("SELECT count(*), sum(n) FROM $t", '39|759', 'the rows');
		$standby->gives("SELECT count(*) FROM heap_page_items(get_raw_page('$t', 5)) WHERE lp_flags = 3", 0, 'no dead line pointer is left') if $pageinspect;
		$standby->end_sessions;
		$standby->wait_for("SELECT conflicts = 1 FROM pg_stat_database WHERE datname = 'postgres'");
		$standby->gives("SELECT confl_bufferpin, confl_lock + confl_snapshot + confl_deadlock FROM pg_stat_database_conflicts WHERE datname = 'postgres'", '1|0', 'conflicts by their reason');
		$standby->end_scenario(log => [qr/reader (?:ERROR:  canceling statement|FATAL:  terminating connection) due to conflict with recovery/]);
	});

	ok($standby->stop, 'the standby stops');

	# recovery_prefetch and full_page_writes
	$aio->scenario('crash, recovery_prefetch = %s, full_page_writes = %s', with('alice', 120, changes => 1, sub ($alice, $t, $prefetch, $full_pages) {
		my $new = $aio->table('n', 1);
		my $small = 'scenario.s';
		# the rows are in block 1: recovery's list of recent blocks begins with zeros, like block 0
		$aio->sql("CREATE TABLE $small (n int, filler text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $small VALUES (0, repeat('x', 8000)); INSERT INTO $small SELECT generate_series(1, 50)");
		$aio->sql("ALTER SYSTEM SET full_page_writes = $full_pages; ALTER SYSTEM SET recovery_prefetch = $prefetch; SELECT pg_reload_conf()");
		# until the checkpointer knows the setting
		$aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql('SELECT full_page_writes FROM pg_control_checkpoint()') eq ($full_pages eq 'on' ? 't' : 'f') });
		# changes some blocks twice, and adds new blocks
		$alice->sql("DELETE FROM $t WHERE blk % 2 = 1 AND blk > 20; DELETE FROM $t WHERE blk % 4 = 0 AND blk > 20");
		$alice->sql("CALL add_pages('$new', 1, 39)");
		# many changes of one block
		$alice->sql("DELETE FROM $small WHERE n > 0; SELECT txid_current()");
		$alice->sql("BEGIN; SELECT FROM $small WHERE n = 0 FOR UPDATE; PREPARE TRANSACTION 'p'");
		$aio->recovers;
		my ($prefetched, $hit, $init, $new_blocks, $fpw, $rep) =
		  split /\|/, $aio->sql('SELECT prefetch, hit, skip_init, skip_new, skip_fpw, skip_rep FROM pg_stat_recovery_prefetch');
		my $all = "prefetch $prefetched, hit $hit, init $init, new $new_blocks, fpw $fpw, rep $rep";
		if ($prefetch eq 'off')
		{
			is($prefetched + $hit + $init + $new_blocks + $fpw + $rep, 0, "counts nothing: $all");
		}
		elsif ($full_pages eq 'on')
		{
			ok($fpw >= 74 && $fpw < 150, "full page images need no prefetch: $all");
			cmp_ok($prefetched, '<', 20, 'few blocks are prefetched');
		}
		else
		{
			ok($prefetched >= 74 && $prefetched < 150, "each changed block is prefetched: $all");
			cmp_ok($fpw, '<', 20, 'there are few full page images');
		}
		if ($prefetch eq 'on')
		{
			cmp_ok($init, '>=', 30, 'new pages need no prefetch');
			cmp_ok($rep, '>=', 40, 'nor do blocks that come again and again') if $full_pages eq 'off';
			$aio->sql("SELECT pg_stat_reset_shared('recovery_prefetch')");
			$aio->gives("SELECT prefetch + hit + skip_init + skip_new + skip_fpw + skip_rep, stats_reset > pg_postmaster_start_time() FROM pg_stat_recovery_prefetch", '0|t', 'a reset forgets all');
		}
		$aio->gives("SELECT count(*) FROM (SELECT FROM $small WHERE n = 0 FOR UPDATE SKIP LOCKED) s; ROLLBACK PREPARED 'p'", 0, 'a prepared transaction has its row locked');
		$aio->gives("SELECT count(*), sum(blk), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t",
			$aio->sql('SELECT count(*), sum(i), count(*) FROM generate_series(0, 119) i WHERE NOT (i > 20 AND (i % 2 = 1 OR i % 4 = 0))'), 'the rows');
		$aio->is_as_written($new, blocks => 40);
		$aio->evict($t);
		$aio->evict($new);
		$aio->is_as_written($new, blocks => 40, name => 'the new blocks on disk');
	}), each => [ [ 'on', 'on' ], [ 'on', 'off' ], [ 'off', 'off' ] ], dies => 1, skip => sub ($prefetch, $) { $prefetch eq 'on' ? undef : $aio->repeats ? 'the same with each io_method' : only_long() });
}, streaming => 1, conf => { max_standby_streaming_delay => '-1', hot_standby_feedback => 'off', log_checkpoints => 'on' });

with_each_io_method('sync', sub {
	# rows that the WAL does not have, in what is made before them and replayed after a crash
	$aio->scenario('a crash, wal_level = minimal', sub {
		$aio->sql('CREATE TABLE scenario.c (n int); CREATE TABLE scenario.d AS SELECT generate_series(1, 1000) AS n; CREATE TABLE scenario.e AS TABLE scenario.d; CREATE TABLE scenario.f AS TABLE scenario.d; CREATE TABLE scenario.v AS TABLE scenario.d; CREATE INDEX ON scenario.e (n); SELECT count(*) FROM scenario.v; CHECKPOINT');
		my $insert = 'SELECT generate_series(1, 2000) AS n';
		$aio->make_tablespace;
		$aio->sql($_) for 'SET wal_skip_threshold = 0', "CREATE TABLE scenario.a TABLESPACE elsewhere AS $insert", "BEGIN; CREATE TABLE scenario.b (n int PRIMARY KEY); INSERT INTO scenario.b $insert; COMMIT",
		  "BEGIN; TRUNCATE scenario.c; INSERT INTO scenario.c $insert; COMMIT", 'ALTER TABLE scenario.d SET TABLESPACE elsewhere', 'CLUSTER scenario.e USING e_n_idx',
		  'ALTER TABLE scenario.f ALTER n TYPE bigint', 'CREATE INDEX ON scenario.f (n)', 'CREATE TABLE scenario.m (n int)',
		  # the server looks for more than twenty files in another way
		  q{DO $$ BEGIN FOR i IN 1 .. 25 LOOP EXECUTE format('CREATE TABLE scenario.m%s () INHERITS (scenario.m); INSERT INTO scenario.m%s SELECT generate_series(1, 400)', i, i); END LOOP; END $$};
		# nor does the WAL have hint bits of a file that is new
		$aio->sql("CREATE TABLE scenario.h WITH (autovacuum_enabled = off) AS $insert");
		$aio->sql('BEGIN; ALTER TABLE scenario.h SET TABLESPACE elsewhere; CHECKPOINT');
		is(explained($aio, 'WAL', 'SELECT count(*) FROM scenario.h')->{'WAL Records'}, 0, 'a scan that sets hint bits in a file that is new');
		$aio->sql('COMMIT');
		my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
		$aio->sql('VACUUM scenario.v');
		my ($to, $file) = split /\|/, $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true), pg_relation_filenode('scenario.v')");
		is(scalar(grep { m{/$file blk \d+ FPW} } $aio->wal_records($from, $to)), $aio->sql("SELECT pg_relation_size('scenario.v') / 8192"), 'the WAL has an image of each page of which a hint has changed')
		  # since 19, pages are marked as visible to all when they are read
		  if $aio->major < 19;
		# nor rows that nobody reads, which would log their hint bits, in a tablespace that is made again
		$aio->sql($_) for 'SET allow_in_place_tablespaces = on', "CREATE TABLESPACE late LOCATION ''", "CREATE TABLE scenario.i TABLESPACE late AS $insert";
		# no WAL makes up for a file that is not synced; one that is truncated has no rows in the WAL, however few
		if (!no_strace())
		{
			my $make = 'BEGIN; CREATE TABLE scenario.g (n int); INSERT INTO scenario.g VALUES (1)';
			for my $case ([ 0, $make, 1 ], [ '1GB', $make, 0 ], [ '1GB', "$make; TRUNCATE scenario.g; INSERT INTO scenario.g VALUES (2)", 1 ])
			{
				my ($threshold, $statements, $synced) = @$case;
				my @calls = calls_of($aio, $aio->sql('SELECT pg_backend_pid()'), 'fsync,fdatasync', sub { $aio->sql("SET wal_skip_threshold = '$threshold'; $statements; COMMIT") });
				my $path = $aio->sql("SELECT pg_relation_filepath('scenario.g')");
				is((grep { m{\Q/$path>\E} } @calls) ? 1 : 0, $synced, "wal_skip_threshold = $threshold: whether the session syncs the file");
				$aio->sql('DROP TABLE scenario.g');
			}
			$aio->sql('SET wal_skip_threshold = 0');
		}
		my $rows = join '; ', map { "SELECT '$_', count(n), sum(n), min(n), max(n) FROM scenario.$_ WHERE n > 0" } 'a' .. 'f', 'h', 'm', 'v';
		my @before = map { $aio->sql("SET enable_seqscan = $_; SET enable_bitmapscan = off; $rows") } qw(on off);
		# a start after a crash syncs all files, those of tablespaces, too, or says why not
		my @unreadable = map { "$_/unreadable" } $aio->node->data_dir . '/base', $aio->node->basedir . '/elsewhere';
		mkdir $_, 0 or die "$_: $!" for @unreadable;
		my $lived = eval { $aio->recovers; 1 };
		# or nobody could remove the server's directory
		rmdir for @unreadable;
		die $@ if !$lived;
		is(join(' ', sort map { s{\d+}{N}gr } $aio->log_text =~ m{startup LOG:  could not open directory "(\S+/unreadable)": Permission denied}g), './base/unreadable pg_tblspc/N/unreadable', 'directories that cannot be synced');
		is(join("\n", map { $aio->sql("SET enable_seqscan = $_; SET enable_bitmapscan = off; $rows") } qw(on off)), join("\n", @before), 'the rows');
		$aio->gives('SELECT count(*), sum(n) FROM scenario.i', '2000|2001000', 'the rows in the tablespace');
		while_stopped($aio, sub { like(`pg_controldata '${\$aio->node->data_dir}'`, qr{^Fake LSN counter for unlogged rels: +0/0*3E8$}m, 'what the LSNs of unlogged indexes begin with') });
	}, dies => 1, log => qr{startup LOG:  could not open directory "\S+/unreadable"});

	# if the machine has gone down, too, what was written may not be on disk; there are links to a tablespace and to the WAL
	$aio->scenario('what a start after a crash syncs, recovery_init_sync_method = %s', with('', sub ($method) {
		# what replays DROP TABLESPACE says that the link has gone
		$aio->sql('CHECKPOINT');
		$aio->make_tablespace;
		$aio->sql('CREATE TABLE scenario.t TABLESPACE elsewhere AS SELECT generate_series(1, 1000) AS n; CREATE UNLOGGED TABLE scenario.u AS TABLE scenario.t');
		my $unlogged = $aio->sql(q{SELECT pg_relation_filepath('scenario.u')});
		my ($base, $data) = map { realpath($aio->node->$_) } qw(basedir data_dir);
		my $calls = "$base/strace.start";
		ok($aio->stop_with_sessions('QUIT'), 'an immediate shutdown');
		my @roots = ($data, map { "$base/$_" } qw(elsewhere wal));
		rename "$data/pg_wal", "$base/wal" or die "pg_wal: $!";
		symlink "$base/wal", "$data/pg_wal" or die "pg_wal: $!";
		my @all;
		find({ wanted => sub { push @all, $_ if !-l }, no_chdir => 1 }, @roots);
		# the harness looks for alarming lines in the log
		my $done = eval { IPC::Run::run([ 'strace', '-y', '-o', $calls, '-e', 'trace=fsync,syncfs', 'postgres', '--single', '-D', $data, '-c', "recovery_init_sync_method=$method", 'postgres' ], '<', \'', '>>', $aio->node->logfile, '2>&1', IPC::Run::timeout($aio->timeout)) };
		unlink "$data/pg_wal";
		rename "$base/wal", "$data/pg_wal" or die "pg_wal: $!";
		ok($done, 'a single-user server recovers');
		my $list = slurp_file($calls);
		my %synced = (syncfs => {});
		$synced{$1}{$2} = 1 while $list =~ /^(fsync|syncfs)\(\d+<([^>]*)>\) += 0$/mg;
		if ($method eq 'fsync') { is(join(' ', grep { !$synced{fsync}{$_} } @all), '', 'no file or directory is left out') }
		# its file is copied from its init fork afterwards
		else { ok($synced{fsync}{"$data/$unlogged"}, 'the file of an unlogged table') }
		is(join(' ', sort keys %{ $synced{syncfs} }), $method eq 'fsync' ? '' : join(' ', sort @roots), 'the directories with which syncfs() is called');
		$aio->start_with_sessions;
		$aio->gives('SELECT count(*), sum(n), (SELECT count(*) FROM scenario.u) FROM scenario.t', '1000|500500|0', 'the rows');
	}), each => [qw(fsync syncfs)], dies => 1, skip => no_strace());
},
	# with checksums, hints are logged whatever wal_log_hints says
	no_data_checksums => 1, conf => { wal_level => 'minimal', max_wal_senders => 0, fsync => 'on', wal_log_hints => 'on' });

# Returns the processes whose current directory is the server's, by what ps shows of them.
sub processes_of ($directory)
{
	my %processes;
	for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*')
	{
		next if (readlink("/proc/$pid/cwd") // '') ne $directory;
		$processes{ title($pid) // next } = $pid;
	}
	return \%processes;
}

# Recovery with a buffer pool that is smaller than the blocks that it works on: a buffer in which
# prefetch finds a block may hold another block when the record is replayed.
for_each_io_method('worker', sub {
	$aio->scenario('recovery_prefetch', with('alice', sub ($alice) {
		my ($t, $c) = ('scenario.s', 'scenario.c');
		$aio->sql("CREATE TABLE $c (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 100); INSERT INTO $c SELECT i, repeat('x', 160) FROM generate_series(0, 199) i; VACUUM (FREEZE) $c");
		# forty rows a page, and records that come to the pages at random
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 100);"
			  . "INSERT INTO $t SELECT i, rpad(i::text, 160, 'x') FROM generate_series(0, 2399) i; VACUUM (FREEZE) $t; CHECKPOINT");
		cmp_ok($aio->sql("SELECT pg_relation_size('$t') / 8192"), '>', 50, 'more pages than buffers');
		# recovery after a crash has no target
		$aio->alter_system(recovery_target_lsn => "'${\$aio->sql('SELECT pg_current_wal_insert_lsn()')}'");
		# a file that ends before a block of which there are records: prefetch leaves the block out
		my $last = $aio->sql("SELECT pg_relation_size('$c') / 8192 - 1");
		$alice->sql("DO \$\$ BEGIN FOR i IN 1 .. 20 LOOP DELETE FROM $c WHERE ctid = format('($last,%s)', i)::tid; END LOOP; END \$\$; DELETE FROM $c WHERE ctid >= '($last,0)'; VACUUM (TRUNCATE on) $c");
		$aio->gives("SELECT pg_relation_size('$c') / 8192", $last, 'the block is cut off');
		$alice->sql("DO \$\$ BEGIN FOR i IN 0 .. 599 LOOP DELETE FROM $t WHERE ctid = (SELECT format('(%s,%s)', (i * 7919) % 53, i / 53 + 1)::tid); END LOOP; END \$\$");
		my $look = "SELECT count(*), sum(n), sum(hashtext(ctid::text || body)), (SELECT sum(n) FROM $c) FROM $t";
		my $expected = $aio->sql($look);
		$aio->sql("SELECT txid_current()");
		$aio->recovers;
		$aio->gives($look, $expected, 'the rows');
		my ($hits, $prefetched, $new) = split /\|/, $aio->sql('SELECT hit, prefetch, skip_new FROM pg_stat_recovery_prefetch');
		ok($hits > 100 && $prefetched > 100 && $new >= 20, "prefetch finds $hits blocks, reads $prefetched and leaves out $new");
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
	}), dies => 1);

	# A server whose startup process fails: it ends only after all its other processes.  Guards server commit
	# 9b43e6793f.
	$aio->scenario('while the %s stands still', with('', 20, sub ($t, $stopped) {
		ok($aio->stop, 'the server stops');
		my ($directory, $log, $go) = map { $aio->node->$_ } qw(data_dir basedir basedir);
		$log .= '/start.log';
		$go .= '/go';
		unlink $log, $go;
		append_to_file("$directory/recovery.signal", '');
		# the startup process waits, and then fails
		my $child = start_program($log, 'postgres', '-D', $directory, '-c', 'recovery_target_timeline=99',
			'-c', "restore_command=while test ! -e '$go' -a -e postmaster.pid; do sleep 0.05; done; false");
		my $pid;
		$aio->poll(sub { my $found = processes_of($directory); ($pid) = map { $found->{$_} } grep { /postgres: (?:\S+: )?$stopped/ } keys %$found; $pid && grep { /startup/ } keys %$found }) or fail("the $stopped is there");
		kill 'STOP', $pid;
		append_to_file($go, '');
		my $ended;
		$aio->poll(sub { $ended ||= waitpid($child, WNOHANG) == $child; $ended || slurp_file($log) =~ /LOG:  startup process \(PID \d+\) exited/ });
		my $found = processes_of($directory);
		ok(!$ended, 'the server waits for it') || diag(join "\n", sort keys %$found);
		kill 'CONT', $pid;
		$aio->poll(sub { $ended ||= waitpid($child, WNOHANG) == $child; $ended });
		is(join(', ', sort keys %{ processes_of($directory) }), '', 'no process is left');
		is($? >> 8, 1, 'exit status');
		my $text = slurp_file($log);
		like($text, qr/FATAL:  recovery target timeline 99 does not exist/, 'the reason');
		unlike($text, qr/TRAP|PANIC|was terminated by signal/, 'nothing else');
		unlink "$directory/recovery.signal";
		$aio->start_again;
	}), each => [ 'checkpointer', 'background writer', 'io worker 0' ], dies => 1, skip => sub ($stopped) { $stopped =~ /worker/ ? undef : only_long() });
}, conf => { shared_buffers => '256kB', full_page_writes => 'off', maintenance_io_concurrency => 32, max_connections => 10 });
