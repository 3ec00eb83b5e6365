# Wait events, and the time that reads take.
use TestAio;

# The wait events of sessions that wait for a read, their own or another session's, and none once the wait is over.
with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('a read that is held', with('alice bob', 40, sub ($alice, $bob, $t) {
		$aio->completion_wait(relation => $t);
		$alice->waits("SELECT count(*) FROM $t", qr/^(?:AioIoCompletion|AioIoUringExecution|completion_wait|IoGateHeld)$/, 'waits for its read');
		$bob->waits("SELECT count(*) FROM read_buffers('$t', 0, 1)", qr/^(?:AioIoCompletion|AioUringCompletion|AioIoUringExecution|IoGateHeld)$/, 'waits for that read');
		$aio->completion_continue;
		$alice->ends('a scan');
		$bob->returns(1, 'the other session gets the block');
		ok($aio->poll(sub { $aio->wait_event($alice->pid) eq 'ClientRead' }), 'the first session no longer waits for a read');
	}), skip => $aio->no_faults);

	# an insertion that splits a leaf of a B-tree reads its neighbour under an exclusive lock
	$aio->scenario('a lock on a buffer', with('alice bob carol', sub ($alice, $bob, $carol) {
		$aio->sql('CREATE TABLE scenario.l (n int); CREATE INDEX l_n ON scenario.l (n); INSERT INTO scenario.l SELECT i * 1000 FROM generate_series(1, 2000) i; CHECKPOINT');
		$aio->sql("SELECT invalidate_rel_block('scenario.l_n', 2)");
		$aio->read_at_completion_wait($alice, 'INSERT INTO scenario.l SELECT 50000 + i FROM generate_series(1, 300) i', relation => 'scenario.l_n', pid => $alice->pid);
		$bob->starts('CHECKPOINT');
		$carol->starts('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM scenario.l WHERE n = 20000');
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		$carol->waits_on($aio->major < 19 ? 'BufferContent' : 'BufferShared');
		my $event = $aio->major < 19 ? 'BufferContent' : 'BufferShareExclusive';
		ok($aio->poll(sub { $aio->wait_event($checkpointer) eq $event }), "the checkpointer waits to write the leaf: $event") || diag($aio->activity($checkpointer));
		$aio->completion_continue;
		$alice->ends;
		$bob->ends;
		$carol->returns(1, 'the row');
	}), skip => $aio->no_faults);

	# whatever the last call was
	$aio->scenario('no wait event after a call', with('alice', 20, changes => 1, sub ($alice, $t) {
		my $prewarm = !$aio->lacks('pg_prewarm');
		my @calls = (($prewarm ? map { [ $_, "pg_prewarm('$t', '$_')" ] } qw(prefetch read buffer) : ()),
			[ 'a read', "(SELECT count(*) FROM $t WHERE ctid = '(4,1)' AND random() < 1)" ], [ 'a write', "evict_rel('$t')" ], [ 'an extension', "grow_rel('$t', 4)" ], [ 'the size', "pg_relation_size('$t')" ]);
		my $now = "(SELECT coalesce(wait_event, 'none') FROM pg_stat_activity WHERE pid = pg_backend_pid() AND calls > 0)";
		# the first time looks at catalogs
		for my $time (1, 2)
		{
			for my $call (@calls)
			{
				my ($what, $function) = @$call;
				$aio->evict($t) if $what =~ /prefetch|read|buffer/;
				$aio->sql("UPDATE $t SET gen = gen WHERE blk = 3") if $what eq 'a write';
				my $found = $alice->sql("SELECT $now FROM (SELECT count(*) AS calls FROM (SELECT $function OFFSET 0) call OFFSET 0) counted");
				is($found, 'none', $what) if $time == 2;
			}
		}
	}), leaves => 'nothing');
});

# Time spent on reads, which the server counts only with track_io_timing.
with_each_io_method('worker; long: all', sub {
	# Returns the milliseconds that a session spends on reads of tables while a function runs.
	my $read_time = sub ($session, $function) { return $aio->io_counts_during($session, 'relation/normal', $function)->{read_time} };

	$aio->scenario('a read that is held', with('alice', 40, sub ($alice, $t) {
		my $read = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))";
		is($read_time->($alice, sub { $alice->sql($read) }), 0, 'no time without track_io_timing');
		$aio->evict($t);
		$alice->sql('SET track_io_timing = on');
		my $in_database = $aio->sql("SELECT blk_read_time FROM pg_stat_database WHERE datname = 'postgres'");
		my $ms = $read_time->($alice, sub {
			$aio->read_at_completion_wait($alice, $read, pid => $alice->pid);
			# holds the read for 50 ms of the server's own clock
			$aio->wait_seconds(0.05);
			$aio->completion_continue;
			$alice->ends;
		});
		$aio->gives("SELECT blk_read_time > $in_database FROM pg_stat_database WHERE datname = 'postgres'", 't', 'in pg_stat_database as well');
		$in_database = $aio->sql("SELECT blk_read_time FROM pg_stat_database WHERE datname = 'postgres'");
		$alice->sql("SELECT count(*) FROM $t; SELECT pg_stat_force_next_flush()") for 1, 2;
		$aio->gives("SELECT blk_read_time = $in_database FROM pg_stat_database WHERE datname = 'postgres'", 't', 'which blocks that are cached add nothing to');
		# with io_uring, 19 is held where it looks for completions, before it counts a wait
		cmp_ok($ms, '>=', $aio->method eq 'io_uring' && $aio->major >= 19 ? 0 : 50, 'the time that the session has waited');
	}), skip => $aio->no_faults);

	$aio->scenario('shared and local reads', with_kind('alice', 40, sub ($alice, $t, $kind) {
		$alice->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 1; SET track_io_timing = on');
		my $found = explained($alice, 'BUFFERS', "SELECT blk FROM $t");
		my ($some, $none) = map { $found->{"$_ I/O Read Time"} } $kind ? qw(Local Shared) : qw(Shared Local);
		cmp_ok($some, '>', 0, 'the time of forty reads');
		cmp_ok($none, '==', 0, 'no time of the other kind');
	}), each => [ '', 'TEMP' ]);

	# a session does not wait for a read that has ended, not even briefly (pgaio_wref_check_done)
	$aio->scenario('reads that have ended', with('alice', 60, sub ($alice, $t) {
		$alice->sql('SET effective_io_concurrency = 200; SET io_combine_limit = 1; SET track_io_timing = off');
		is($read_time->($alice, sub {
			$alice->sql('BEGIN');
			for my $round (1 .. 5)
			{
				$aio->evict($t);
				$alice->sql("SET track_io_timing = off; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 10 FROM c");
				$aio->gives("SELECT buffer IS NOT NULL FROM buffer_state('$t', 59)", 't', 'has looked ahead to the end of the table');
				$aio->wait_for("SELECT count(*) > 16 AND bool_and(state = 'COMPLETED_SHARED') FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv'");
				$alice->sql('SET track_io_timing = on; MOVE ALL FROM c; CLOSE c');
			}
			$alice->sql('COMMIT');
		}), 0, 'they take no time');
	}), skip => $aio->method ne 'worker' ? 'with this method, a session that looks for completions waits for them'
		: $aio->major >= 19 ? 'the look-ahead does not grow that far unless it has to wait' : undef);
}, leaves => 'nothing', conf => { shared_buffers => '64MB' });

# Times in pg_stat_io: of waits for reads, in the context in which a session reads; of all operations,
# neither missing nor longer than possible.
for_each_io_method('worker', sub {
	# table of so many blocks, statement
	my @reads = (
		[ bulkread => 520, 'SELECT count(*) FROM %s' ],
		[ vacuum => 100, 'VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) %s' ],
		[ normal => 100, 'SELECT count(*) FROM %s' ]);
	$aio->scenario('%s', with('alice', sub ($alice, $context, $blocks, $statement) {
		my $t = $aio->table('t', $blocks);
		my $times = 'SELECT ' . join(', ', map { "coalesce(sum(read_time) FILTER (WHERE context = '$_'), 0)" } qw(bulkread vacuum normal))
		  . " FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation'";
		$alice->sql('SET track_io_timing = on; SELECT 1');
		my %ms;
		@ms{qw(bulkread vacuum normal)} = split m{/}, $aio->change_during($times, sub {
			# no map has a block 40, so a block of the table is held; maps are read in context normal
			$aio->read_at_completion_wait($alice, sprintf($statement, $t), relation => $t, blockno => 40);
			$alice->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
			# for 50 ms of the server's own clock
			$aio->wait_seconds(0.05);
			$aio->completion_continue;
			$alice->ends;
		}, $alice);
		cmp_ok($ms{$context}, '>=', 50, "$context: the time of the wait");
		for my $other (grep { $_ ne $context } sort keys %ms)
		{
			cmp_ok($ms{$other}, '<', $ms{$context}, "$other: less");
		}
	}), each => \@reads, skip => $aio->no_faults);

	$aio->scenario('no more time than has passed', sub {
		# without, nothing is written back
		$aio->alter_system(fsync => 'on');
		my ($alice, $t) = $aio->sessions_and_table('alice', 250, changes => 1);
		# it may have read in other scenarios
		my $begun = $aio->sql("SELECT clock_timestamp() FROM pg_stat_reset_backend_stats(${\$alice->pid})");
		$alice->sql("SET track_io_timing = on; SET backend_flush_after = '64kB'; SET temp_buffers = 100");
		$alice->sql("CREATE TEMP TABLE temp (LIKE $t INCLUDING STORAGE); INSERT INTO temp SELECT * FROM $t; DELETE FROM temp; SELECT count(*) FROM temp");
		$alice->sql("UPDATE $t SET gen = 0; SELECT evict_rel('$t'); SELECT count(*) FROM $t; SELECT evict_rel('$t'); VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
		my $kinds = join ', ', map { "('${_}s', ${_}s, ${_}_time)" } qw(read write writeback extend);
		my $times = "pg_stat_get_backend_io(${\$alice->pid}), LATERAL (VALUES $kinds) v(kind, operations, ms) WHERE object <> 'wal' AND operations > 0";
		$aio->gives("SELECT string_agg(DISTINCT object || ': ' || kind, ', ') FROM $times",
			'relation: extends, relation: reads, relation: writebacks, relation: writes, temp relation: extends, temp relation: reads, temp relation: writes', 'all kinds of operations');
		$aio->gives("SELECT string_agg(concat_ws(' ', object, context, kind, ms), ', ') FROM $times AND (ms <= 0 AND operations >= 20 OR ms > extract(epoch FROM clock_timestamp() - '$begun') * 1000)", '', 'many take some time, none takes longer');
	});
});
