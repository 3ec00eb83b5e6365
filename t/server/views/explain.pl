# EXPLAIN (IO) and EXPLAIN (BUFFERS).
use TestAio;
use List::Util qw(max sum0);

# EXPLAIN (IO): number and size of a stream's reads, how often the stream waited, and how far
# it looked ahead (read_stream_count_*, server commit 681daed931 of 19).
my $at_once = directory_that_reads_at_once();

with_each_io_method('worker; long: all', sub {
	my $unknown = $aio->major < 19 ? 'EXPLAIN has the option IO since 19' : undef;

	$aio->scenario('number and size of reads', with('alice', 64, sub ($alice, $t) {
		$alice->sql("SELECT count(*) FROM $t");
		# a scan begins with reads of one block and doubles them
		for my $case ([ 1 => 64 ], [ 2 => 33 ], [ 8 => 11 ], [ 16 => 8 ])
		{
			my ($limit, $reads) = @$case;
			$alice->sql("SET io_combine_limit = $limit; SET effective_io_concurrency = 4");
			$aio->evict($t);
			my $io = explained($alice, 'IO', "SELECT blk FROM $t");
			is($io->{'I/O Count'}, $reads, "io_combine_limit = $limit") || diag($io->{plan});
			cmp_ok(abs($io->{'Average I/O Size'} - 64 / $reads), '<', 0.01, 'average size');
			cmp_ok($io->{'I/O Waits'}, '<=', $io->{'I/O Count'}, 'no more waits than reads');
			cmp_ok($io->{'Prefetch Capacity'}, '==', 5 * $limit, 'the capacity: the buffers of five reads');
			cmp_ok($io->{'Max Prefetch Distance'}, '<=', 5 * $limit, 'the distance stays below it');
			is_between($io->{'Average Prefetch Distance'}, $aio->method eq 'sync' ? $io->{'Max Prefetch Distance'} / 4 : 0.01, $io->{'Max Prefetch Distance'}, 'also on average');
			is_between($io->{'Average I/Os In Progress'}, 1, 4, 'reads in progress, with each that begins');
			# with sync, a session waits for each read
			is($io->{'I/O Waits'}, $reads, 'a wait for each read') if $aio->method eq 'sync';
			is($io->{'Max Prefetch Distance'}, 5 * $limit - 1, 'the distance is as far as allowed') if $aio->method eq 'sync' && $limit <= 2;
			$aio->evict($t);
			like($alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t"),
				qr{^ *I/O: count=$reads waits=\d+ size=${\sprintf '%.2f', 64 / $reads} in-progress=\d+\.\d\d$}m, 'as text');
		}
		my $io = explained($alice, 'IO', "SELECT blk FROM $t");
		is($io->{'I/O Count'} // 0, 0, 'no read of cached blocks');
		# blocks that are found without looking ahead count for the average, too
		$alice->sql("SELECT invalidate_rel_block('$t', b) FROM generate_series(56, 63) b");
		$io = explained($alice, 'IO', "SELECT blk FROM $t");
		cmp_ok($io->{'Max Prefetch Distance'}, '>', 1, 'many cached blocks, then a few reads: the look-ahead grows');
		is_between($io->{'Average Prefetch Distance'}, 1, 1.3, 'the average, of all blocks') || diag($io->{plan});
		# a cached block ends a read early
		$aio->evict($t);
		$aio->warm($t, map { 5 * $_ } 1 .. 12);
		$io = explained($alice, 'IO', "SELECT blk FROM $t");
		cmp_ok(abs($io->{'I/O Count'} * $io->{'Average I/O Size'} - 52), '<', 0.5, 'count and size make up the blocks that were read');
		$alice->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 16');
		$aio->evict($t);
		$io = explained($alice, 'IO', "SELECT blk FROM $t");
		is("$io->{'I/O Count'}/$io->{'I/O Waits'}", '8/8', 'synchronous reads count as waited for');
		cmp_ok($io->{'Average I/Os In Progress'}, '==', 1, 'one at a time');
	}), skip => $unknown);

	$aio->scenario('the whole plan in a worker that EXPLAIN does not show', with('alice', 64, sub ($alice, $t) {
		$alice->sql("SET min_parallel_table_scan_size = '1GB'; SET debug_parallel_query = regress");
		$aio->evict($t);
		my ($count, $size) = $alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM $t") =~ /I\/O: count=(\d+) waits=\d+ size=([\d.]+)/;
		cmp_ok(abs(($count // 0) * ($size // 0) - 64), '<', 0.5, 'its reads are counted');
	}), skip => $unknown);

	$aio->scenario('waits', with('alice', 64, sub ($alice, $t) {
		$alice->sql('SET io_combine_limit = 8; SET effective_io_concurrency = 4');
		$alice->sql("SELECT count(*) FROM $t");
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, "EXPLAIN (ANALYZE, IO, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t",
			relation => $t, pid => $alice->pid);
		$alice->waits_on('AioIoCompletion') if $aio->method eq 'worker';
		$aio->completion_continue;
		$alice->ends;
		my ($waits) = $alice->result =~ m{"I/O Waits": (\d+)};
		cmp_ok($waits // 0, '>=', $aio->method eq 'io_uring' ? 0 : 1, 'the hold counts as a wait');
	}), skip => $unknown // $aio->no_faults);

	# small reads of what the kernel has are complete when they are submitted
	$aio->scenario('reads that are complete at once', with('alice', 64, sub ($alice, $t, $limit, $reads) {
		$aio->sql("CREATE TABLESPACE at_once LOCATION '$at_once'");
		$aio->sql("ALTER TABLE $t SET TABLESPACE at_once");
		$alice->sql("SET io_combine_limit = $limit; SET effective_io_concurrency = 4; SELECT count(*) FROM $t");
		$aio->evict($t);
		my $io = explained($alice, 'IO', "SELECT blk FROM $t");
		is("$io->{'I/O Count'}/$io->{'I/O Waits'}", "$reads/0", "io_combine_limit = $limit: no waits");
		$aio->evict($t);
		like($alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t"), qr{^ *I/O: count=$reads waits=0 }m, 'as text');
	}), each => [ [ 1 => 64 ], [ 2 => 33 ] ], skip => $unknown // ($aio->method ne 'io_uring' ? 'reads by others take some time' : $at_once ? undef : 'no file system here returns cached data at once'));

	# which reads are complete in time is up to the machine
	$aio->scenario('reads for which nobody waits', with('alice', 64, sub ($alice, $t) {
		$alice->sql("SET io_combine_limit = 1; SET effective_io_concurrency = 16; SELECT count(*) FROM $t");
		my $io;
		ok($aio->poll(sub {
			$aio->evict($t);
			$io = explained($alice, 'IO', "SELECT blk FROM $t");
			$io->{'I/O Waits'} < $io->{'I/O Count'};
		}), 'fewer waits than reads') || diag($io->{plan});
	}), skip => $unknown // ($aio->method eq 'sync' ? 'a session waits for each read' : undef));

	$aio->scenario('each worker of %s', with('alice', 64, sub ($alice, $t, $, $node, $query) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
		$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET seq_page_cost = 0; SET random_page_cost = 0;'
			  . ' SET parallel_leader_participation = off; SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_indexscan = off; SET enable_memoize = off');
		$alice->sql($node =~ /Bitmap/ ? 'SET enable_seqscan = off' : 'SET enable_bitmapscan = off');
		# the blocks that a bitmap scan counts as read include those of the index
		$alice->sql("SELECT count(*) FROM read_stream_for_blocks('scenario.t_i', ARRAY(SELECT generate_series(0, pg_relation_size('scenario.t_i')::int / 8192 - 1)))");
		$aio->evict($t);
		# planning reads the visibility map
		$alice->sql('EXPLAIN ' . sprintf $query, $t);
		$aio->completion_wait(relation => $t);
		$alice->starts('EXPLAIN (ANALYZE, VERBOSE, BUFFERS, IO, FORMAT json) ' . sprintf $query, $t);
		# until both workers have begun to read
		$aio->gives_soon(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event IN ('AioIoCompletion', 'AioIoUringExecution', 'completion_wait')}, 2, 'two workers wait for reads');
		$aio->completion_continue;
		$alice->ends;
		my $scan = node_at($node, $alice->result);
		my @workers = @{ $scan->{Workers} // [] };
		is(scalar @workers, 2, "two workers at a $node") || diag($alice->result);
		for my $worker (@workers)
		{
			my ($reads, $size) = map { $worker->{$_} // 0 } 'I/O Count', 'Average I/O Size';
			cmp_ok($reads, '>', 0, 'has reads');
			cmp_ok(abs($reads * $size - $worker->{'Shared Read Blocks'}), '<', 0.5, 'of so many blocks as it has read') || diag($alice->result);
		}
		for my $largest ('Prefetch Capacity', 'Max Prefetch Distance')
		{
			is($scan->{$largest}, max(map { $_->{$largest} } @workers), "$largest: that of one worker") || diag($alice->result);
		}
		my $read = sum0(map { $_->{'Shared Read Blocks'} } @workers);
		cmp_ok($read, '>=', 64, 'all blocks are read');
	}), skip => $unknown // $aio->no_faults, each => [
		[ 'a sequential scan' => 'Seq Scan', "SELECT blk FROM %s" ],
		[ 'a scan of a range' => 'Tid Range Scan', "SELECT blk FROM %s WHERE ctid >= '(0,1)' AND ctid < '(64,1)'" ],
		[ 'a bitmap scan' => 'Bitmap Heap Scan', 'SELECT blk FROM %s WHERE blk < 1000' ],
		[ 'a scan that is repeated' => 'Seq Scan', 'SELECT g FROM generate_series(-3, -1) g LEFT JOIN %s ON blk > g' ] ]);
}, leaves => 'nothing', conf => { shared_buffers => '64MB' });

# EXPLAIN (IO) of each kind of scan that has it, serial and parallel.  Its reads add up to the blocks
# that EXPLAIN (BUFFERS) shows, and for a single session to those in pg_stat_io.

# settings, condition
my @scans = (
	[ 'Seq Scan', 'enable_bitmapscan = off, enable_indexscan = off, enable_tidscan = off', 'blk >= 0' ],
	[ 'Bitmap Heap Scan', 'enable_seqscan = off, enable_indexscan = off, enable_tidscan = off', 'blk BETWEEN 10 AND 190' ],
	[ 'Tid Range Scan', 'enable_seqscan = off, enable_bitmapscan = off, enable_indexscan = off', "ctid >= '(10,0)' AND ctid < '(191,0)'" ]);

# blocks that are cached before
my %cached = (none => [], 'all but one' => [ grep { $_ != 100 } 0 .. 199 ], 'every other' => [ map { 2 * $_ } 0 .. 99 ], 'a part' => [ 50 .. 120 ]);

with_each_io_method('worker; long: all', sub {
	$aio->scenario('%s workers, %s', with('alice', 200, sub ($alice, $t, $workers, $scan, $settings, $condition) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
		$alice->sql(join '; ', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET cpu_tuple_cost = 10; SET enable_indexonlyscan = off',
			map { "SET $_" } split /, /, $settings);
		$alice->sql("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = " . ($workers ? 'off' : 'on'));
		for my $state (sort keys %cached)
		{
			# reads the index, which stays cached
			$alice->sql("SELECT sum(gen) FROM $t WHERE $condition");
			$aio->evict($t);
			$aio->warm($t, @{ $cached{$state} }) if @{ $cached{$state} };
			my $plan;
			my $counted = $aio->io_during($alice, 'relation/normal', sub { $plan = $alice->sql("EXPLAIN (ANALYZE, IO, BUFFERS, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(gen) FROM $t WHERE $condition") });
			my ($read, $count, $size, $waits) = map { $_ // 0 } node_at($scan, $plan)->@{ 'Shared Read Blocks', 'I/O Count', 'Average I/O Size', 'I/O Waits' };
			my $name = "$workers workers, cached: $state";
			cmp_ok($read, '>', 0, "$name: $read blocks are read") || diag($plan);
			cmp_ok(abs($count * $size - $read), '<', 0.5, "by $count reads of $size blocks");
			cmp_ok($waits, '<=', $count, 'waits');
			# the planner may read a block of the visibility map
			like($counted, qr{^(?:$count/${\(8192 * $read)}|${\($count + 1)}/${\(8192 * ($read + 1))})$}, 'pg_stat_io has them, too') if !$workers;
		}
	}), each => [ combined([ 0, 2 ], \@scans) ], skip => $aio->major < 19 ? 'EXPLAIN has the option IO since 19' : undef);
}, conf => { shared_buffers => '64MB' });

# EXPLAIN (ANALYZE, BUFFERS, WAL): the blocks and the WAL that serial and parallel plans count.
for_each_io_method('io_uring; long: all', sub {
	# the first scan after INSERT sets hint bits; with checksums it logs an image of each page
	$aio->scenario('what workers alone have done, BUFFERS %s', with('alice', sub ($alice, $buffers) {
		my $t = 'scenario.h';
		$alice->sql("CALL make_table('$t', 120, '', 0); SET track_io_timing = on; SET parallel_leader_participation = off; SET max_parallel_workers_per_gather = 2;"
			  . ' SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10; CHECKPOINT');
		$aio->evict($t);
		my $found = explained($alice, "BUFFERS $buffers, WAL", "SELECT count(*) FROM $t");
		my @counts = ($buffers eq 'on' ? 'Shared Dirtied Blocks' : (), 'WAL Records', 'WAL FPI');
		cmp_ok($found->{$_}, '>=', 120, $_) for @counts;
		cmp_ok($found->{'WAL Bytes'}, '>', 120 * 7000, 'bytes of WAL');
		is_between($found->{'WAL FPI Bytes'}, 120 * 7000, $found->{'WAL Bytes'}, 'WAL FPI Bytes') if $aio->major >= 19;
		# all of it is the scan's: the nodes above it make nothing dirty and write no WAL
		my $scan = node_at('Seq Scan', $found->{plan});
		is($scan->{$_}, $found->{$_}, "$_ of the scan") for @counts, 'WAL Bytes';
		return if $buffers eq 'off';
		# since 19 a scan also looks at the visibility map
		is_between($found->{'Shared Read Blocks'}, 120, 123, 'blocks that are read');
		cmp_ok($found->{'Shared I/O Read Time'}, '>', 0, 'the time');
		# pages that nobody has read
		$alice->sql("CALL make_table('scenario.fresh', 120, '', 0); CREATE INDEX fresh_blk ON scenario.fresh (blk); SET enable_seqscan = off; SET enable_bitmapscan = off; SET debug_parallel_query = on");
		my $fetches = $alice->sql("EXPLAIN (ANALYZE, FORMAT JSON, COSTS OFF) SELECT count(blk) FROM scenario.fresh WHERE blk >= 0");
		is(join(' ', node_at('Gather', $fetches)->{'Workers Launched'}, node_at('Index Only Scan', $fetches)->{'Heap Fetches'}), '1 120', 'heap fetches of a worker');
		$alice->sql('DROP TABLE scenario.fresh; RESET enable_seqscan; RESET enable_bitmapscan; RESET debug_parallel_query');
		my $cached = explained($alice, 'BUFFERS', "SELECT count(*) FROM $t");
		is_between($cached->{'Shared Hit Blocks'}, 120, 239, 'once more, a hit for each block, and none counted twice');
		is($cached->{"Shared $_ Blocks"}, 0, "\l$_: none") for qw(Read Dirtied);
		for my $case ([ Gather => '' ], [ 'Gather Merge' => 'ORDER BY blk' ])
		{
			my ($gather, $order) = @$case;
			my $limited = explained($alice, 'BUFFERS', "SELECT blk FROM $t $order LIMIT 20")->{plan};
			my @hits = map { node_at($_, $limited)->{'Shared Hit Blocks'} } 'Limit', $gather, 'Seq Scan';
			ok($hits[0] >= $hits[1] && $hits[1] >= $hits[2], "a node that ends early has the blocks of those below it, and of workers: @hits");
		}
	}), each => [ 'on', 'off' ]);

	$aio->scenario('dirtied blocks, temporary blocks and WAL', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql('CHECKPOINT');
		$aio->evict($t);
		my $delete = explained($alice, 'BUFFERS, WAL', "DELETE FROM $t WHERE blk < 10");
		is_between($delete->{'Shared Read Blocks'}, 40, 44, 'DELETE: blocks of the table and its maps are read');
		is_between($delete->{'Shared Dirtied Blocks'}, 10, 12, 'blocks are dirtied');
		is_between($delete->{'WAL Records'}, 10, 14, 'WAL records');
		is_between($delete->{'WAL FPI'}, 10, 12, 'full page images');
		cmp_ok($delete->{'WAL Bytes'}, '>', 10 * 7000, 'bytes of WAL');
		$alice->sql("SET work_mem = '64kB'");
		my $sort = explained($alice, 'BUFFERS', 'SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC');
		cmp_ok($sort->{'Temp Written Blocks'}, '>', 20, 'a sort on disk: temporary blocks are written');
		cmp_ok($sort->{'Temp Read Blocks'}, '>', 20, 'temporary blocks are read');
		for my $timing (qw(on off))
		{
			$alice->sql("SET track_io_timing = $timing");
			my $times = explained($alice, 'BUFFERS', 'SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC');
			is(join(' ', map { ($times->{"Temp I/O $_ Time"} // -1) <=> 0 } qw(Read Write)), $timing eq 'on' ? '1 1' : '-1 -1', "track_io_timing = $timing: the time that this takes");
		}
		# the first scan after DELETE prunes pages
		$alice->sql("SELECT count(body) FROM $t");
		is(explained($alice, 'BUFFERS, WAL', "SELECT count(body) FROM $t")->{'WAL Records'}, 0, 'SELECT writes no WAL');
	}));

	# blocks that are made are not read; the catalogs may be
	$aio->scenario('an index %s grows, table %s', with('alice', sub ($alice, $kind, $persistence) {
		my $t = $persistence ? 'grows' : 'scenario.grows';
		$alice->note_temporary_tables if $persistence;
		$alice->sql("CREATE $persistence TABLE $t (n int, p point, a int[]); CREATE INDEX grows_i ON $t USING $kind");
		my $insert = sub ($first) { return "INSERT INTO $t SELECT i, point(i, i), ARRAY[i] FROM generate_series($first, $first + 2999) i" };
		$alice->sql($insert->(0));
		my $length = "SELECT pg_relation_size('${t}_i')";
		my $before = $alice->sql($length);
		my ($object, $blocks, $found) = $persistence ? ('temp relation', 'Local') : ('relation', 'Shared');
		my ($bytes) = $aio->io_during($alice, "$object/normal", sub { $found = explained($alice, 'BUFFERS', $insert->(3000)) }) =~ m{/(.*)};
		cmp_ok($found->{"$blocks Read Blocks"}, '<=', $bytes / 8192, 'EXPLAIN counts no more blocks as read than pg_stat_io');
		cmp_ok($alice->sql($length), '>', $before, 'the index has grown');
	}), each => [ combined([ 'btree (n)', 'hash (n)', 'gist (p)', 'spgist (p)', 'gin (a)' ], [ '', 'TEMP' ]) ]);

	# a session's own buffers, fewer than the table has blocks
	$aio->scenario('local blocks', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100');
		my $t = $aio->table('t', 150, kind => 'TEMP', session => $alice, changes => 1);
		my $ten = "$t WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i)::tid FROM generate_series(0, 9) i))";
		explained($alice, 'BUFFERS', "SELECT count(*) FROM $_") for $t, $ten;
		$aio->evict($t, $alice);
		my $cold = explained($alice, 'BUFFERS', "SELECT count(*) FROM $t");
		is(join('|', map { $cold->{"Local $_ Blocks"} } qw(Hit Read Dirtied Written)), '0|150|0|0', 'a scan reads all blocks');
		$alice->sql('BEGIN');
		my $lock = explained($alice, 'BUFFERS', "SELECT blk FROM $ten FOR UPDATE");
		is_between($lock->{'Local Dirtied Blocks'}, 10, 11, 'FOR UPDATE: blocks are dirtied');
		is(explained($alice, 'BUFFERS', "DELETE FROM $ten")->{'Local Dirtied Blocks'}, 0, 'DELETE of the same rows: none is clean any more');
		$alice->sql('COMMIT');
		my $written = sum0(map { explained($alice, 'BUFFERS', "SELECT count(*) FROM $t")->{'Local Written Blocks'} } 1 .. 6);
		is_between($written, 10, 11, 'scans need their buffers: each is written once');
		$alice->sql("SELECT grow_rel('$t', 2)");
		like($alice->sql("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT grow_rel('$t', 3)"), qr/Buffers: .*local written=3$/m, 'as text, blocks that are only written');
	}));
});
