# Bugs that bench/fuzz has found (doc/reports.md).
use TestAio;

for_each_io_method('worker; long: all', sub {
	# the WAL has the init fork, and not the rollback; the file of the table is still there
	$aio->scenario('a crash before a rollback is in the WAL', with('alice bob', sub ($alice, $bob) {
		my ($size, $file) = $aio->log_size;
		while_still($aio->pids_of_type('walwriter'), sub {
			$alice->sql('BEGIN; CREATE UNLOGGED TABLE scenario.u (n int)');
			$file = $aio->node->data_dir . '/' . $alice->sql("SELECT pg_relation_filepath('scenario.u')");
			$bob->sql("SELECT pg_logical_emit_message(true, '', '')");
			$alice->sql('ROLLBACK');
			$aio->signal('QUIT');
			$aio->poll(sub { !kill 0, $alice->pid });
		});
		$aio->stop_with_sessions('QUIT');
		my $starts = eval { $aio->start_with_sessions; 1 } // 0;
		is($starts, $aio->has_bug('unlogged-rollback-crash') ? 0 : 1, 'the server starts after the crash');
		like($aio->log_text($size), qr/FATAL:  .*could not create file "base[^"]*": File exists/, 'it does not, since a file is there') if !$starts;
		$aio->start_with_sessions if !$starts;
		unlink $file, "${file}_init";
	}), dies => 1, log => [ qr/startup FATAL:  (?:58P02: )?could not create file/, qr/postmaster LOG:  (?:startup process \(PID \d+\) exited with exit code 1|aborting startup)/ ]);

	# a scan wants blocks 1 and 2 at once, reads block 1 alone, and pauses at block 0 until the read of block 2 has ended
	$aio->scenario('a block whose read another session has begun', with('alice bob', 5, sub ($alice, $bob, $t) {
		my $scan = "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT FROM $t WHERE CASE blk WHEN 0 THEN pg_advisory_lock_shared(5) IS NOT NULL ELSE true END";
		$alice->sql("$scan; SELECT pg_advisory_unlock_shared(5)");
		$aio->evict($t);
		$aio->read_at_completion_wait($bob, "SELECT count(*) FROM read_buffers('$t', 2, 1)", relation => $t, blockno => 2);
		$aio->sql('SELECT pg_advisory_lock(5)');
		$alice->waits($scan, 'advisory');
		$aio->completion_continue;
		$bob->returns(1, 'block 2');
		$aio->sql('SELECT pg_advisory_unlock(5)');
		$alice->wait_for_end;
		my ($hit, $read) = map { $alice->{result} =~ /Buffers: shared.*? $_=(\d+)/ ? $1 : 0 } qw(hit read);
		is($hit + $read, $aio->has_bug('hit-not-counted') ? 4 : 5, 'blocks by EXPLAIN (BUFFERS)') || diag($alice->{result});
	}), skip => $aio->no_faults // ($aio->method eq 'sync' ? 'with sync, the scan waits for the read' : undef));

	# a crash, or an error, leaves a page of an index that nobody has written yet
	my $crashes = $aio->has_bug('pgstatindex-new-page') && $aio->has_assertions;
	$aio->scenario('pgstatindex of a new page', with('alice', sub ($alice) {
		$alice->sql("CREATE TABLE scenario.i (n int PRIMARY KEY); INSERT INTO scenario.i VALUES (1); SELECT grow_rel('scenario.i_pkey', 1)");
		$alice->starts("SELECT leaf_pages, internal_pages, deleted_pages FROM pgstatindex('scenario.i_pkey')")->wait_for_end;
		if ($crashes)
		{
			is($alice->error && $alice->error->{sqlstate}, 'lost', 'an assertion fails');
			return $aio->wait_for_restart;
		}
		is($alice->{result}, $aio->has_bug('pgstatindex-new-page') ? '1|1|0' : '1|0|1', 'pages: leaves, internal, deleted');
	}), dies => $crashes, $crashes ? (leaves => 'nothing') : (), skip => $aio->lacks('pgstattuple'),
		log => $crashes ? [ qr/^TRAP: failed Assert\(".*pd_special/, qr/postmaster LOG:  client backend \(PID \d+\) was terminated by signal 6: Aborted/ ] : undef);

	# the startup process, which flushes all files first, stands still before it begins with redo
	$aio->scenario('a shutdown while the server restarts after a crash', sub {
		my ($data, $name) = ($aio->node->data_dir, $aio->setting('cluster_name'));
		my $processes = sub ($type) { return grep { (title($_) // '') =~ /^postgres: $name: $type/ } map { m{(\d+)$} } glob '/proc/[0-9]*' };
		mkdir "$data/many_files";
		open(my $file, '>', "$data/many_files/$_") || die "many_files: $!" for 1 .. 20000;
		my ($size, $startup, $tries);
		until ($startup)
		{
			die "the startup process is always further\n" if ++$tries > 20;
			$size = $aio->log_size;
			$aio->kill_process(($aio->pids_of_type('walwriter'))[0]);
			my $is_late = sub { $aio->log_text($size) =~ /automatic recovery in progress/ };
			$aio->poll(sub { ($startup) = $processes->('startup'); $startup || $is_late->() });
			while_still($startup, sub {
				return $startup = undef if $is_late->();
				$aio->poll(sub { $processes->('checkpointer') });
				$aio->signal('INT');
				$aio->poll(sub { $aio->log_text($size) =~ /received fast shutdown request/ });
			}) if $startup;
			$aio->wait_for_restart if !$startup;
		}
		$aio->poll(sub { !kill 0, $startup });
		is(scalar(() = $processes->('checkpointer')), $aio->has_bug('shutdown-after-crash') ? 1 : 0, 'checkpointers when the startup process has gone');
		$aio->stop_with_sessions('QUIT');
		unlink glob "$data/many_files/*";
		rmdir "$data/many_files";
		$aio->start_with_sessions;
	}, dies => 1);
}, conf => { restart_after_crash => 'on', fsync => 'on', recovery_init_sync_method => 'fsync' });
