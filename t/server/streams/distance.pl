# How far a read stream looks ahead, and which settings, pauses and pins limit it.
use TestAio;

# How far a read stream looks ahead: how many later blocks it has asked for while it waits for a
# block.  effective_io_concurrency limits the reads in flight.  The distance grows by misses, in 19
# only if the session has to wait for the read.  It shrinks by hits, in 18 by one each, in 19 only
# when the last miss is far behind (server commit 6e36930f9a).

# Has a session read blocks in this order.  Each of its reads is held until it waits for
# it.  Returns what a query counts beyond each of some blocks, while the session waits for that block.
sub ahead_at ($count, $aio, $t, $blocks, $stops, %params)
{
	my $alice = $aio->sessions('alice');
	my $eic = $params{eic} // 16;
	$alice->sql("SET effective_io_concurrency = $eic; SET io_combine_limit = " . ($params{combine} // 16));
	$aio->evict($t, $alice);
	$aio->warm($t, @{ $params{warm} // [] });
	$aio->io_hold($t, pid => $alice->pid);
	$alice->starts($params{pause_at}
		? "SELECT blocks FROM read_stream_run('$t', ARRAY($blocks), pause_at => '{$params{pause_at}}')"
		: "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY($blocks))");
	my @ahead;
	for my $stop (@$stops)
	{
		# releases what she waits for, until that is the read of this block
		my $step = "SELECT CASE WHEN $stop BETWEEN blockno AND blockno + nblocks - 1 THEN 'there' ELSE io_release(pid, io_id)::text END"
		  . " FROM io_held WHERE ${\$alice->pid} = ANY (waiters)";
		$aio->poll(sub { $aio->sql($step) eq 'there' }) or die "never waits for block $stop\n";
		push @ahead, $aio->sql(sprintf $count, $alice->pid, $stop);
	}
	$aio->end_holds;
	$alice->ends;
	return join ',', @ahead;
}

# What an SQL query counts, of a session and beyond a block: reads, and blocks.
my $reads = "SELECT count(*) FROM pg_aios WHERE pid = %s AND operation = 'readv' AND off / 8192 > %s";
my $buffers = q{SELECT count(buffer) FROM generate_series(%2$s + 1, 199) b, buffer_state('scenario.t', b)};

with_each_io_method('worker; long: all', sub {
	my $no_gate = $aio->lacks('gate');
	my $starts_none = $aio->method eq 'sync' ? 'with sync a stream reads a block when it wants it' : $no_gate;
	my $even = 'SELECT generate_series(0, 198, 2)';
	my $all = 'SELECT generate_series(0, 199)';

	$aio->scenario('at the first block, effective_io_concurrency = %s', with('', 200, sub ($t, $eic, $expected) {
		# a stream with READ_STREAM_FULL begins with the distance of one full read
		is(ahead_at($buffers, $aio, $t, $even, [0], eic => $eic), $expected, "single blocks, effective_io_concurrency = $eic");
		is(ahead_at($buffers, $aio, $t, $all, [0], eic => $eic), 15, "one full read, effective_io_concurrency = $eic");
		is(ahead_at($buffers, $aio, $t, $even, [0], eic => $eic, combine => 1), 0, "a distance of one, effective_io_concurrency = $eic");
	}), each => [ [ 0 => 0 ], [ 2 => 1 ], [ 16 => 14 ] ], skip => $no_gate);

	$aio->scenario('when each read is waited for: %s', with('', 200, sub ($t, $what, $blocks, $stops, $limits, $expected) {
		my $ahead = ahead_at($reads, $aio, $t, $blocks, $stops, %$limits);
		is($ahead, $expected, $what);
	}), each => [
		[ 'doubles', $even, [ map { $_ * 2 } 0 .. 7 ], { combine => 1, eic => 40 }, '0,1,3,7,15,31,39,39' ],
		[ 'full reads', $all, [ map { $_ * 16 } 0 .. 5 ], { eic => 4 }, '0,1,3,3,3,3' ]
	], skip => $starts_none);

	$aio->scenario('after a pause', with('', 200, sub ($t) {
		is(ahead_at($reads, $aio, $t, $even, [ 90, 98, 100, 110 ], eic => 16, pause_at => 50), '4,0,15,15', 'not beyond it, then as far as before');
	}), skip => $starts_none // ($aio->major < 19 ? 'streams pause since 19' : undef));

	$aio->scenario('when no read is waited for', with('alice', 90, sub ($alice, $t) {
		$alice->sql("SET effective_io_concurrency = 32; SET io_combine_limit = 1; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
		my $most = 0;
		for my $at (0 .. 19)
		{
			$alice->gives('FETCH 1 FROM c', $at, "block $at");
			$aio->wait_for("SELECT count(*) = 0 FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv' AND state <> 'COMPLETED_SHARED'");
			my $ahead = $aio->sql("SELECT count(buffer) FROM generate_series($at + 1, 89) b, buffer_state('$t', b)");
			$most = $ahead if $ahead > $most;
		}
		# the session has waited for the first reads
		cmp_ok($most, '<=', 8, 'reads that have ended leave the look-ahead as it is');
		$alice->sql('COMMIT');
	}), skip => $aio->method ne 'worker' ? 'with this method, no read ends while its owner is idle'
		: $aio->major < 19 ? 'before 19 each read makes a stream look further ahead' : undef);

	# the hits let the stream look ahead by one block only, and still combine; all reads are staged then
	$aio->scenario('after hits, when no read is waited for', with('alice', 150, sub ($alice, $t) {
		$alice->sql("SET effective_io_concurrency = 1; SET io_combine_limit = 16; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(41, 77)))");
		$aio->sql("SELECT io_trace_start('$t')");
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
		for my $at (0 .. 109)
		{
			$alice->gives('FETCH 1 FROM c', $at, "block $at");
			$aio->wait_for("SELECT count(*) = 0 FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv' AND state <> 'COMPLETED_SHARED'");
		}
		$aio->io_trace_stop;
		$aio->io_trace_shows("max(nblocks), (SELECT string_agg(blockno::text, ',') FROM (SELECT blockno, lag(blockno + nblocks) OVER (ORDER BY submitted_at) AS expected FROM io_trace) WHERE blockno <> expected)",
			'16|78', 'each begins where the one before it has ended, but for the hits');
		$alice->sql('COMMIT');
	}), skip => $aio->method ne 'worker' ? 'with this method, no read ends while its owner is idle' : $aio->major < 19 ? 'before 19 each read makes a stream look further ahead' : $aio->lacks('trace'));

	$aio->scenario('after hits', with('', 200, sub ($t) {
		# the distance has shrunk to one and grows again
		is(ahead_at($reads, $aio, $t, $all, [ 100 .. 105 ], combine => 1, warm => [ 0 .. 99 ]), '0,1,3,7,15,15', 'misses after a hundred hits');
		# in 18 a hit undoes what a miss has gained
		my $ahead = ahead_at($reads, $aio, $t, $all, [ 1, 3, 5, 7, 9, 11 ], combine => 1, warm => [ map { $_ * 2 } 0 .. 99 ]);
		is($ahead, $aio->major < 19 ? '0,0,0,0,0,0' : '0,0,1,3,7,8', 'hits and misses in turn');
		# more hits than the stream has pinned, fewer than it may pin
		is(ahead_at($reads, $aio, $t, $all, [ 0, 1, 2, 31 ], combine => 1, eic => 40, warm => [ 3 .. 30 ]),
			$aio->major < 19 ? '0,1,0,0' : '0,1,0,7', 'misses after thirty hits');
	}), skip => $starts_none);
}, conf => { shared_buffers => '64MB' });

# Which setting limits a stream: effective_io_concurrency, for VACUUM and ANALYZE
# maintenance_io_concurrency, of the session or of the table's tablespace.  With 0 the
# session performs its reads at once, and they are flagged as synchronous.
with_each_io_method('sync; long: all', sub {
	my ($sync, $no_trace) = ($aio->method eq 'sync', $aio->lacks('trace'));

	my $scan = 'SELECT count(*) FROM %s';
	my $stream = "SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY(SELECT generate_series(0, 59, 2)))";
	my $vacuum = 'VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) %s';
	# effective_ and maintenance_io_concurrency of the session, options of the tablespace,
	# statement, whether its reads are synchronous
	my @cases = (
		[ 1, 16, '', $scan, 'false' ],
		[ 0, 16, '', $scan, 'true' ],
		[ 0, 16, '', $stream, 'true' ],
		[ 16, 0, '', $stream, 'false' ],
		[ 16, 0, '', $vacuum, 'true' ],
		[ 0, 16, '', $vacuum, 'false' ],
		[ 16, 0, '', 'ANALYZE %s', 'true' ],
		[ 0, 16, '', 'ANALYZE %s', 'false' ],
		[ 16, 16, 'effective_io_concurrency = 0', $stream, 'true' ],
		[ 0, 16, 'effective_io_concurrency = 5', $stream, 'false' ],
		[ 16, 16, 'effective_io_concurrency = 0', $vacuum, 'false' ],
		[ 16, 16, 'maintenance_io_concurrency = 0', $stream, 'false' ],
		[ 16, 16, 'maintenance_io_concurrency = 0', $vacuum, 'true' ],
		[ 16, 0, 'maintenance_io_concurrency = 5', $vacuum, 'false' ]);

	$aio->scenario('%s, %s, %s: %s', with('alice', 60, sub ($alice, $t, $effective, $maintenance, $option, $statement, $synchronous) {
		if ($option)
		{
			$aio->sql("ALTER TABLE $t SET TABLESPACE elsewhere");
			$aio->sql('ALTER TABLESPACE elsewhere RESET (effective_io_concurrency, maintenance_io_concurrency)');
			$aio->sql("ALTER TABLESPACE elsewhere SET ($option)");
		}
		$alice->sql("SET effective_io_concurrency = $effective; SET maintenance_io_concurrency = $maintenance");
		$aio->evict($t);
		$aio->io_trace_during($t, $alice->pid, sub { $alice->sql(sprintf $statement, $t) });
		$aio->gives("SELECT string_agg(DISTINCT f_sync::text, ' ') FROM io_trace WHERE fork = 'main'", $sync ? 'true' : $synchronous, 'f_sync');
		# since 19 a session also performs a read if an I/O worker has the lock of their queue
		my $others = "executed_by IS DISTINCT FROM ${\$alice->pid}";
		$aio->gives("SELECT bool_or($others) FROM io_trace WHERE fork = 'main'", $sync || $synchronous eq 'true' ? 'f' : 't', 'whether others perform them');
	}), each => \@cases, skip => $no_trace);

	# since server commit cceb1bf45e (19) the session performs a lone miss among hits at once
	$aio->scenario('a lone miss after many hits', with('alice', 60, sub ($alice, $t) {
		$aio->warm($t, 0 .. 49);
		$aio->io_trace_during($t, $alice->pid, sub {
			$alice->gives("SET io_combine_limit = 1; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 50)))", 51, 'reads');
		});
		$aio->io_trace_shows('f_sync, blockno', ($sync || $aio->major >= 19 ? 't' : 'f') . '|50');
	}), skip => $no_trace);
}, leaves => 'nothing', prepare => sub { $_[0]->make_tablespace });

# Streams that are reset, ended early or paused (read_stream_run).

# Arguments of a stream that looks ahead at once: its first read has the blocks 0 to 15.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('reset, %s, at %s', with_kind('alice', 16, sub ($alice, $t, $, $at, $expected) {
		$alice->sql('SET io_combine_limit = 16');
		$aio->evict($t, $alice);
		$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, reset_at => '$at', per_buffer_data => 20)", qr/^\Q$expected\E/, "at $at: the stream asks again for the blocks that it had looked ahead to");
	}), each => [ combined([ '', 'TEMP' ], [ [ '{4}', '16|12|131072' ], [ '{0}', '16|0|131072' ], [ '{16}', '16|0|131072' ], [ '{4,8}', '16|' ], [ '{0,1,2,3,15,16}', '16|' ] ]) ]);

	$aio->scenario('ended early', with_kind('alice', 120, sub ($alice, $t, $) {
		$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 32');
		$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 3)", '3|0|131072', 'the stream has read more blocks than it has returned');
		$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 0)", '0|0|0', 'before the first block');
		$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, end_at => 16)", '16', 'after the last block');
		for my $end (0, 1, 2, 17)
		{
			$aio->evict($t, $alice);
			$alice->gives("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 118, 2)), \"full\" => true, nruns => 3, end_at => $end)", 3 * $end, "with many reads in flight, at $end");
		}
	}), each => [ '', 'TEMP' ]);

	$aio->scenario('paused', with('alice', 16, sub ($alice, $t) {
		$alice->sql('SET io_combine_limit = 16');
		if ($aio->major < 19)
		{
			$alice->fails("SELECT * FROM read_stream_run('$t', $ahead, pause_at => '{4}')", '0A000', qr/cannot pause/, 'this server cannot pause streams');
			return;
		}
		$alice->gives("SELECT blocks, reads, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '{4,8}')", '16|3|131072', 'no read crosses a pause');
		for my $at ('{0}', '{16}', '{0,1,2,15,16}', '{' . join(',', 0 .. 16) . '}')
		{
			$aio->evict($t);
			$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '$at', per_buffer_data => 9)", '16|131072', "cold, $at");
			$alice->gives("SELECT blocks, hits FROM read_stream_run('$t', $ahead, pause_at => '$at')", '16|16', "cached, $at");
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', reset_at => '{0,2,8,16}', nruns => 2, per_buffer_data => 9)", '32', "reset, $at");
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', end_at => 5)", '5', "ended, $at");
		}
	}));

	# a stream begins with small reads
	$aio->scenario('the size of reads after a pause', with('alice', 80, sub ($alice, $t) {
		$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 4');
		my ($until, $all) = map {
			$aio->evict($t);
			$alice->sql("SELECT reads FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, $_ - 1)), pause_at => '{40}')");
		} 40, 72;
		is($all - $until, 2, 'the 32 blocks behind it: two reads');
	}), skip => $aio->major < 19 ? 'streams pause since 19' : undef);

	# a session's share of the shared buffers is larger than a quarter of its local ones, and than a few pins
	$aio->scenario('shared, a larger share', sub { streams_share($aio, 1, 38) }, leaves => 'nothing', skip => $aio->lacks('pg_buffercache'));

	$aio->scenario('local, while the share of the shared buffers is larger', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100; SET effective_io_concurrency = 32');
		my @tables = map { $aio->table("t$_", 80, kind => 'TEMP', session => $alice) } 1 .. 6;
		my $pins = join ' + ', map { "(SELECT count(*) FROM generate_series(0, 79) b, buffer_state('$_', b) WHERE refcount > 0)" } @tables;
		my $most = 0;
		is(scan_together($alice, 1, 32, sub { my $pinned = $alice->sql("SELECT $pins"); $most = $pinned if $pinned > $most }, @tables), '', 'six streams of a session');
		cmp_ok($most, '>', 0, 'buffers are pinned');
		cmp_ok($most, '<=', 25 + 2 * @tables, "not more than a quarter of the local buffers, and two for each stream: $most");
		$alice->sql('COMMIT');
	}));
}, conf => { shared_buffers => '64MB' });

# How many buffers streams may pin: each session its share of the shared buffers (GetAdditionalPinLimit) and a quarter
# of its local ones (GetAdditionalLocalPinLimit), however many streams it has.

# Opens a cursor on a scan of each table, a bitmap scan of every third block if that is the step, fetches from each in
# turn, and calls a function now and then.  Returns the rows that are wrong.
sub scan_together ($session, $step, $fetches, $after, @tables)
{
	if ($step > 1)
	{
		$session->sql("CREATE INDEX ON $_ (blk) WHERE blk % $step = 0; SELECT evict_rel('$_')") for @tables;
		$session->sql('SET enable_seqscan = off; SET enable_indexscan = off');
	}
	$session->sql(join '; ', 'BEGIN', map { "DECLARE c_$_ CURSOR FOR SELECT blk, body = proof(rel, blk, 0) FROM $tables[$_] WHERE blk % $step = 0 AND blk >= 0" } 0 .. $#tables);
	my @wrong;
	for my $round (1 .. $fetches)
	{
		my $rows = $session->sql(join '; ', map { "FETCH 1 FROM c_$_" } 0 .. $#tables);
		push @wrong, $rows if $rows ne join "\n", ($step * ($round - 1) . '|t') x @tables;
		$after->() if $round % 8 == 0;
	}
	return join "\n", @wrong;
}

# Test: several streams of a session pin no more than its share of the pool.
sub streams_share ($aio, $step, $fetches)
{
	my ($alice) = $aio->sessions('alice');
	my @tables = map { $aio->table("t$_", 120) } 1 .. 6;
	$alice->sql('SET effective_io_concurrency = 32');
	is(scan_together($alice, $step, $fetches, sub { }, @tables), '', 'six streams of a session');
	# each session has a share of the pool; each stream has one pin more, and a pin for its current
	# row; at least 38 processes are not backends
	my $share = int($aio->sql(<<'END'));
SELECT (SELECT setting::int FROM pg_settings WHERE name = 'shared_buffers') /
	(38 + sum(setting::int)) FROM pg_settings
	WHERE name IN ('max_connections', 'autovacuum_worker_slots', 'max_worker_processes', 'max_wal_senders')
END
	# these counts include buffers whose blocks are not read yet
	my $pinned = $aio->sql('SELECT sum(pinned) FROM pg_buffercache_usage_counts()');
	cmp_ok($pinned, '>', 0, 'buffers are pinned');
	cmp_ok($pinned, '<=', $share + 2 * @tables, "not more than its share: $pinned");
	$alice->sql('COMMIT');
	$aio->is_as_written($tables[5]);
	return;
}

for_each_io_method('io_uring; long: all', sub {
	$aio->scenario('shared, block by block', sub { streams_share($aio, 3, 20) }, leaves => 'nothing', skip => $aio->lacks('pg_buffercache'));

	$aio->scenario('local', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100; SET effective_io_concurrency = 32');
		my @tables = map { $aio->table("t$_", 80, kind => 'TEMP', session => $alice) } 1 .. 8;
		$aio->table('another', 20, kind => 'TEMP', session => $alice);
		is(scan_together($alice, 1, 32, sub { }, @tables), '', 'eight streams of a session');
		# other tables still get buffers
		$alice->gives('SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, 0)) FROM another', '20|20', 'and another');
		$alice->sql('COMMIT');
	}));
},
	# so that the extra pins of six streams exceed the share
	conf => { shared_buffers => '4MB' });
