# AIO handles: their life, when a session has none left, and batches of them.
use TestAio;

# The life of an AIO handle: acquired, used, released, and used again with the next generation (pgaio_io_acquire,
# pgaio_io_release, pgaio_io_reclaim).  sql/handles.sql tests leaks at each kind of transaction end.
my $row = "SELECT concat_ws('|', state, operation, off::text, length::text, target, handle_data_len::text, raw_result::text,"
  . ' result, target_desc, f_sync::text, f_localmem::text, f_buffered::text) FROM pg_aios WHERE pid = pg_backend_pid()';
my $number = "SELECT io_id || '|' || io_generation FROM pg_aios WHERE pid = pg_backend_pid()";

with_each_io_method('worker; long: all', sub {
	$aio->scenario('a handle that is not used yet', with('alice bob', sub ($alice, $bob) {
		$alice->gives("SELECT handle_get()::text UNION ALL $row UNION ALL SELECT handle_release_last()::text",
			"\nHANDED_OUT\n", 'its other columns are empty');
		$alice->gives("SELECT count(*) FROM pg_aios", 0, 'and its handle is free again');
		my ($hers) = $alice->sql("SELECT handle_get()::text UNION ALL $number UNION ALL SELECT handle_release_last()::text") =~ /(\d+)\|/;
		my ($his) = $bob->sql("SELECT handle_get()::text UNION ALL $number UNION ALL SELECT handle_release_last()::text") =~ /(\d+)\|/;
		isnt($hers, $his, 'each session has a handle of its own');
		my $max = $aio->setting('io_max_concurrency');
		isnt(int($hers / $max), int($his / $max), 'from a range of the session');
	}));

	$aio->scenario('the same handle in the next generation', with('alice', 4, sub ($alice, $t) {
		my $next = sub ($end) { return $alice->sql("SELECT handle_get()::text UNION ALL $number UNION ALL $end") =~ /(\d+)\|(\d+)/ };
		my ($id, $generation) = $next->('SELECT handle_release_last()::text');
		is(join(' ', $next->("SELECT ''")), "$id " . ($generation + 1), 'the same after its release');
		$alice->warns(qr/leaked AIO handle/);
		$alice->fails('SELECT handle_get_and_error()', 'XX000', qr/as you command/);
		$alice->fails('SELECT handle_get_twice()', 'XX000', qr/API violation: Only one IO can be handed out/);
		$alice->sql("SELECT read_rel_block_ll('$t', $_)") for 0 .. 3;
		is(join(' ', $next->('SELECT handle_release_last()::text')), "$id " . ($generation + 8), 'one generation on for each use');
	}), log => qr/WARNING:  leaked AIO handle/);

	# new sessions, not those of other scenarios
	$aio->scenario('released by a session that has none', with('carol dave', sub ($carol, $dave) {
		$carol->fails('SELECT handle_release_last()', '55000', qr/no handle/);
		$carol->sql('SELECT handle_get()');
		$carol->warns(qr/leaked AIO handle/);
		$dave->fails('SELECT handle_release_last()', '55000', qr/no handle/);
		$carol->fails('SELECT handle_release_last()', 'XX000', qr/release in unexpected state/);
		$carol->gives('SELECT handle_get() UNION ALL SELECT handle_release_last()', "\n", 'and can go on');
	}), log => qr/WARNING:  leaked AIO handle/);

	# the settings come from a file, in this order; handles have room for four blocks
	$aio->scenario('io_max_combine_limit below io_combine_limit', with('alice', 16, sub ($alice, $t) {
		is($aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT count(*) FROM read_buffers('$t', 0, 16)") }) =~ s{/.*}{}r, 4, 'four reads of four blocks');
	}));

	$aio->scenario('exit with a handle', with('alice', sub ($alice) {
		$alice->sql('BEGIN');
		$alice->fails('SELECT handle_get(), pg_terminate_backend(pg_backend_pid())', '57P01', qr/terminating connection/, 'is terminated');
	}), log => $aio->terminated('alice'));
},
	# the only handle of a session is always the same
	leaves => 'nothing', conf => { io_max_concurrency => 1, io_max_combine_limit => 4 });

# A session without a free handle: pgaio_io_wait_for_free() reclaims handles whose I/O has
# ended, submits what the session has staged, or waits for the session's oldest I/O.
for my $max (1, 3)
{
	with_each_io_method('worker; long: all', sub {
		is($aio->setting('io_max_concurrency'), $max, "io_max_concurrency = $max");

		$aio->scenario('streams', with_kind('alice', 30, sub ($alice, $t, $kind) {
			$alice->sql("SET effective_io_concurrency = $_"), $aio->evict($t, $alice),
			  $alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 30 FROM generate_series(0, 89) i ORDER BY i))",
				'90|1305', "effective_io_concurrency = $_, $kind") for 0, 1, 32;
		}), each => [ '', 'TEMP' ], leaves => 'nothing');

		$aio->scenario('all staged', with('alice bob', 12, sub ($alice, $bob, $t) {
			$aio->evict($t, $alice);
			$alice->starts($aio->batch(
				(map { "SELECT read_rel_block_ll('$t', $_, wait_complete => false)" } 0 .. 11),
				$aio->pause));
			$alice->waits_on('advisory');
			# the number depends on how fast the earlier reads have ended
			my ($staged, $described) = split /\|/, $aio->sql("SELECT count(*), count(*) FILTER (WHERE operation = 'readv' AND off < 12 * 8192 AND length = 8192"
				  . " AND target = 'smgr' AND target_desc ~ '^block \\d+ in file' AND raw_result IS NULL AND result = 'UNKNOWN')"
				  . " FROM pg_aios WHERE pid = ${\$alice->pid} AND state = 'STAGED'");
			ok($aio->method eq 'sync' ? $staged == 0 : $staged >= 1, "reads since the last wait are staged: $staged");
			is($described, $staged, 'pg_aios describes each of them') if $aio->method ne 'sync';
			cmp_ok($aio->sql('SELECT count(*) FROM pg_aios'), '<=', $max, 'no more than there can be');
			$bob->sql("SELECT evict_rel('$t')");
			$bob->warns(qr/pinned and stays?/, 'evicts, without waiting for what is not submitted') if $staged;
			$aio->resume;
			$alice->ends('the batch ends');
			$bob->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 11)))", 12, 'all are read');
			$aio->evict($t, $alice);
		}));

		$aio->scenario('all in flight', with('alice', 12, sub ($alice, $t) {
			$aio->completion_wait(relation => $t);
			$alice->waits("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 8) b", 'AioIoCompletion');
			$aio->gives("SELECT count(*), count(DISTINCT io_id), min(state) IN ('SUBMITTED', 'COMPLETED_IO') FROM pg_aios",
				"$max|$max|t", 'it waits with all of them in flight');
			$aio->completion_continue;
			$alice->ends('goes on');
			$aio->evict($t, $alice);
		}), skip => $aio->method ne 'worker'
			? 'only I/O workers can hold a read that nobody waits for' : $aio->no_faults);

		$aio->scenario('the oldest ends, others are held', with('alice', 12, sub ($alice, $t) {
			$aio->io_hold($t, times => $max);
			$aio->io_trace_restart($t);
			$alice->starts("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, $max) b");
			$aio->io_held_count($max);
			$alice->waits_on('IoGateHeld');
			$aio->io_release_block(0);
			$alice->ends('waited for that read');
			$aio->gives("SELECT string_agg(blockno::text, ',' ORDER BY blockno) FROM io_held", join(',', 1 .. $max - 1), 'the others are still held');
			$aio->gives('SELECT blockno, waits_for_handle FROM io_trace WHERE waits > 0', '0|1', 'the trace shows the wait for a handle');
			$aio->io_trace_stop;
			$aio->end_filters;
			$aio->evict($t, $alice);
		}), skip => $max == 1 ? 'the oldest is the only one' : $aio->lacks('gate'));

		$aio->scenario('ended by others', with('alice bob', 12, sub ($alice, $bob, $t) {
			for my $b (0 .. 5)
			{
				$alice->sql("SELECT read_rel_block_ll('$t', $b, wait_complete => false)");
				$bob->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[$b])", 1, "block $b");
			}
		}));

		$aio->scenario('the oldest is held, others have ended', with('alice bob', 12, sub ($alice, $bob, $t) {
			$aio->io_hold($t, 0);
			$alice->sql("SELECT read_rel_block_ll('$t', $_, wait_complete => false)") for 0 .. $max - 1;
			# with io_uring a session must look whether the reads have ended
			$bob->sql("SELECT count(*) FROM read_buffers('$t', 1, $max - 1)");
			$aio->wait_for('SELECT count(*) = 1 FROM pg_aios WHERE state = \'SUBMITTED\'');
			$alice->gives("SELECT count(*) FROM read_buffers('$t', 7, 1)", 1, 'does not wait for the oldest');
			$aio->gives('SELECT count(*) FROM io_held', 1, 'which is still held');
			$aio->end_filters;
			$aio->evict($t, $alice);
		}), skip => $max == 1 ? 'the oldest is the only one' : $aio->lacks('gate'));
	}, conf => { io_max_concurrency => $max }, suffix => $max);
}

# Batch mode: the session submits its staged reads at the end of the batch, and earlier
# before it waits, before it closes a file, and when a batch is full.  A batch that is left
# open over ROLLBACK is a gap in the server's own tests.

# Returns how many handles of a session are in one of these states.
sub handles ($aio, $session, @states)
{
	return $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$session->pid} AND state = ANY ('{${\join ',', @states}}')");
}

# Makes a table, and a session that has staged a read of blocks 0 and 1 and has paused in
# the middle of the statement.  SELECTs in "more" run before the pause, in "then" after it.
sub stage ($aio, %params)
{
	my $alice = $aio->sessions('alice');
	my $t = $aio->table('t', 60);
	# opens the relation, so that the batch reads no catalogs
	$aio->evict($t, $alice);
	$alice->sql('BEGIN; SAVEPOINT s');
	$alice->starts(join ' UNION ALL ', 'SELECT batch_start()',
		"SELECT read_rel_block_ll('$t', 0, nblocks => 2, wait_complete => false)",
		@{ $params{more} // [] }, $aio->pause, @{ $params{then} // [] });
	$alice->waits_on('advisory');
	is(handles($aio, $alice, 'STAGED'), $aio->method eq 'sync' ? 0 : $params{staged} // 1, 'staged');
	return ($alice, $t);
}

# counts blocks 0 and 1, which are cached
my $both = q{SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[0, 1])};

with_each_io_method('worker; long: all', sub {
	my $sync = $aio->method eq 'sync';

	# name, rest of the statement, rest of the transaction, function that ends it or warnings
	my @ends = (
		[ 'the batch ends' => 'SELECT batch_end()', 'COMMIT' ],
		[ 'the statement ends, then COMMIT' => 'SELECT NULL::text::void', 'COMMIT', qr/AIO handle was not submitted/, qr/open AIO batch at end of \(sub-\)transaction/ ],
		[ 'the statement ends, then ROLLBACK' => 'SELECT NULL::text::void', 'ROLLBACK', qr/AIO handle was not submitted/ ],
		[ 'the statement ends, then ROLLBACK TO' => 'SELECT NULL::text::void', 'ROLLBACK TO s', qr/AIO handle was not submitted/ ],
		[ 'an error' => 'SELECT handle_get_and_error()', 'ROLLBACK' ],
		[ 'an error of a subtransaction' => 'SELECT handle_get_and_error()', 'ROLLBACK TO s' ],
		[ 'the batch is begun twice' => 'SELECT batch_start()', 'ROLLBACK TO s' ],
		[ 'cancelled' => 'SELECT pg_sleep(3600)', 'ROLLBACK', 'pg_cancel_backend' ],
		[ 'terminated' => 'SELECT pg_sleep(3600)', undef, 'pg_terminate_backend' ]);
	$aio->scenario('a read is staged, and %s', with('bob', sub ($bob, $, $then, $transaction, @expected) {
		my $kill = @expected && !ref $expected[0] ? shift @expected : undef;
		my ($alice, $t) = stage($aio, then => [$then]);
		$aio->sql("SELECT $kill(${\$alice->pid})") if $kill;
		$aio->resume;
		$transaction ? $alice->wait_for_end : $alice->quit;
		my $warning = $sync && @expected ? shift @expected : undef;
		is(handles($aio, $alice, 'STAGED'), 0, 'nothing is staged any more');
		is($aio->io_during($bob, 'relation/normal', sub {
			$bob->gives(sprintf($both, $t), 2, 'another can have the blocks');
		}), '0/0', 'without reading them');
		return if !$transaction;
		$alice->sql($transaction);
		$alice->warns($_) for @expected;
		$alice->gives('SELECT batch_start() UNION ALL SELECT batch_end()', "\n", 'the next batch can begin');
		$alice->gives(sprintf($both, $t), 2, 'and the session has the blocks too');
	}), each => \@ends, log => [ qr/alice WARNING:  (?:open AIO batch at end|AIO handle was not submitted)/, $aio->terminated('alice') ]);

	# reads of other blocks, how many are staged after them, and how many blocks are there in the end
	$aio->scenario('%s', sub ($, $, $read, $staged, $blocks) {
		my ($alice, $t) = stage($aio, staged => $staged, then => ['SELECT batch_end()'], more => ["SELECT read_rel_block_ll('scenario.t', $read"]);
		$aio->resume;
		$alice->wait_for_end->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, $blocks)", $blocks, 'all blocks are there');
		$alice->sql('COMMIT');
	}, each => [
		[ 'more than a batch can take' => 'b, wait_complete => false) FROM generate_series(2, 32) b', 32, 60 ],
		[ 'one more than a batch can take' => 'b, wait_complete => false) FROM generate_series(2, 33) b', 1, 60 ],
		[ 'files are closed' => '10, nblocks => 3, wait_complete => false, smgrreleaseall => true)', 0, 16 ] ]);

	# pgaio_closing_fd() submits what is staged, be it one read or a full batch
	$aio->scenario('a file is closed under one staged read, and under many', with('alice', 60, sub ($alice, $t) {
		for my $staged (1, 2, 31, 32)
		{
			# opens the relation, so that the batch reads no catalogs
			$aio->evict($t, $alice);
			my $last = $staged - 1;
			$alice->sql($aio->batch((map { "SELECT read_rel_block_ll('$t', $_, wait_complete => false)" } 0 .. $last - 1),
				"SELECT read_rel_block_ll('$t', $last, wait_complete => false, smgrreleaseall => true)"));
			my $buffers = "SELECT sum(nblocks) FROM read_buffers('$t', 0, $staged)";
			is($aio->io_during($alice, 'relation/normal', sub { $alice->gives($buffers, $staged, "$staged: all blocks are there") }), '0/0', 'without reading them again');
		}
		$aio->evict($t, $alice);
		$alice->gives("SELECT read_rel_block_ll('$t', 7, batchmode_enter => true, smgrreleaseall => true, batchmode_exit => true)", '', 'one that is waited for');
	}));

	$aio->scenario('another session waits for a staged read', with('bob', sub ($bob) {
		# with io_uring a session must look for the completion, and bob does not (18.6, 19rc1)
		my ($alice, $t) = stage($aio, then => [ 'SELECT batch_end()', "SELECT read_rel_block_ll('scenario.t', 0, 2)" ]);
		$bob->starts(sprintf $both, $t);
		# servers with the fix of doc/reports.md#io_uring-wait-hang wait for the submission first
		$bob->waits_on(qr/^AioIo(?:Completion|Submit)$/, 'waits') if !$sync;
		$aio->resume;
		$bob->returns(2, 'gets it');
		$alice->wait_for_end->sql('COMMIT');
	}));

	$aio->scenario('a stream opens a batch of its own', with('alice', 40, sub ($alice, $t) {
		my $twice = qr/starting batch while batch already in progress/;
		$alice->fails("SELECT batch_start()::text UNION ALL SELECT count(*)::text FROM $t", 'XX000', $twice, 'while one is open');
		$alice->gives('SELECT batch_start() UNION ALL SELECT batch_end()', "\n", 'the next batch can begin');
	}));
}, conf => { shared_buffers => '64MB' });

# A session in batch mode submits its staged reads before it waits for another session, so that two sessions cannot
# wait for each other (ReadBuffersCanStartIO in 18, StartSharedBufferIO in 19, pgaio_io_wait_for_free).
for_each_io_method('worker; long: all', sub {
	$aio->scenario('a wait for the %s of another: %s', with('alice bob carol', 60, sub ($alice, $bob, $carol, $t, $what, $want) {
		$aio->evict($t, $alice);
		my $b = $what eq 'buffer I/O' ? starts_io($bob, $t, 5) : undef;
		$aio->read_at_completion_wait($bob, "SELECT read_rel_block_ll('$t', 5)", pid => $bob->pid) if !$b;
		$alice->starts('SELECT batch_start()::text UNION ALL'
			  . " SELECT read_rel_block_ll('$t', 0, nblocks => 2, wait_complete => false)::text UNION ALL"
			  . " SELECT sum(nblocks)::text FROM read_buffers('$t', $want) UNION ALL SELECT batch_end()::text");
		$alice->waits_on($b ? 'BufferIo' : 'AioIoCompletion');
		is(handles($aio, $alice, 'DEFINED', 'STAGED'), 0, 'she has submitted before she waits');
		$carol->gives(sprintf($both, $t), 2, 'so that no session waits for her');
		$b ? $bob->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)") : $aio->completion_continue;
		$alice->returns(qr/^\n\n[13]\n$/, 'goes on');
		$bob->ends('goes on, too');
	}), each => [ combined([ 'buffer I/O', 'read' ], [ '5, 1', '4, 3' ]) ], skip => sub ($what, $) { $what eq 'read' ? $aio->no_faults : undef });

	# each has staged what the other wants
	$aio->scenario('two batches that cross', with('alice bob', 60, sub ($alice, $bob, $t) {
		my $batch = sub ($mine, $wanted) {
			return "SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', $mine, wait_complete => false)::text UNION ALL "
			  . $aio->pause . "::text UNION ALL SELECT string_agg(blocknum::text, ',') FROM read_buffers('$t', $wanted, 1)"
			  . " UNION ALL SELECT batch_end()::text UNION ALL SELECT string_agg(blocknum::text, ',') FROM read_buffers('$t', $mine, 1)";
		};
		$aio->evict($t, $_) for $alice, $bob;
		$alice->starts($batch->(1, 2))->waits_on('advisory');
		$bob->starts($batch->(2, 1))->waits_on('advisory');
		$aio->resume;
		$alice->returns("\n\n\n2\n\n1", 'has both');
		$bob->returns("\n\n\n1\n\n2", 'has both');
	}));
});
