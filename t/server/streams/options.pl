# Options of read streams, and their per-buffer data.
use TestAio;

# Streams with a ring of buffers, of other forks, within a batch, and for maintenance (read_stream_run).

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('a ring of buffers', with('alice', 300, sub ($alice, $t) {
		my $all = 'ARRAY(SELECT generate_series(0, 299))';
		for my $context (qw(bulkread bulkwrite vacuum))
		{
			$aio->evict($t);
			my $io = $aio->io_during($alice, "relation/$context", sub {
				$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $all, context => '$context', ring_size => 128)", '300|2457600', $context);
			});
			is($io =~ s{.*/}{}r, 300 * 8192, "all bytes in the context $context");
			next if $aio->lacks('pg_buffercache');
			my @kept = split /,/, $aio->cached($t);
			cmp_ok(scalar @kept, '<=', 32, 'few of them stay in the buffer pool') if $context ne 'bulkread';
		}
		$alice->gives("SELECT blocks FROM read_stream_run('$t', $all, context => 'vacuum')", '300', 'a ring of the default size');
	}));

	# 256 kB, and a place for each block of the reads that may be in progress
	$aio->scenario('the default size of a ring for scans', with('alice', 300, sub ($alice, $t, $concurrency, $combined) {
		$alice->sql("SET effective_io_concurrency = $concurrency; SET io_combine_limit = $combined");
		$aio->evict($t);
		$alice->gives("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 299)), context => 'bulkread')", '300', "$concurrency reads of $combined blocks");
		my @kept = split /,/, $aio->cached($t);
		is(scalar @kept, 32 + $concurrency * $combined, 'blocks that stay in the buffer pool');
	}), each => [ [ 1, 2 ], [ 2, 4 ], [ 4, 8 ] ], skip => sub ($concurrency, $) { $aio->lacks('pg_buffercache') // ($concurrency == 2 ? undef : only_long()) });

	# 19 counts this for EXPLAIN (IO)
	$aio->scenario('what the server counts', with('alice', 200, sub ($alice, $t) {
		my $run = "read_stream_run('$t', ARRAY(SELECT generate_series(0, 199)), nruns => 2)";
		$alice->gives("SELECT prefetch_count BETWEEN 390 AND 400, io_count = reads, io_nblocks * 8192 = read_bytes, io_in_progress >= io_count, distance_max BETWEEN 1 AND distance_capacity, distance_sum BETWEEN 400 AND 400 * distance_max FROM $run",
			$aio->major < 19 ? '|||||' : 't|t|t|t|t|t', 'in two streams');
	}));

	$aio->scenario('forks', with('alice', 20, sub ($alice, $t) {
		$alice->sql("VACUUM $t");
		$aio->evict($t);
		$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', '{0}', fork => 'vm')", '1|8192', 'the visibility map');
		$alice->fails("SELECT * FROM read_stream_run('$t', '{1000}', fork => 'vm')", '22023', qr/block number 1000 is out of range for fork "vm"/, 'a block beyond its end');
	}));

	$aio->scenario('within a batch', with('alice', 16, sub ($alice, $t) {
		# opens the relation, so that the batch reads no catalogs
		$alice->sql("SELECT read_stream_run('$t', '{15}')");
		$alice->gives("SELECT batch_start()::text UNION ALL SELECT concat_ws('|', blocks) FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 15)), \"full\" => true, use_batching => true) UNION ALL SELECT batch_end()::text", "\n16\n", 'the stream leaves the batch and enters it again');
	}));

	$aio->scenario('maintenance_io_concurrency', with('alice', 40, sub ($alice, $t, $maintenance, $expected) {
		$alice->sql('SET effective_io_concurrency = 2; SET maintenance_io_concurrency = 5');
		$aio->completion_wait(relation => $t);
		$alice->starts("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 38, 2)), \"full\" => true, maintenance => $maintenance)");
		$alice->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
		$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", $expected, "maintenance $maintenance: reads in progress");
		$aio->completion_continue;
		$alice->returns(20, 'all blocks');
	}), each => [ [ 'false' => 2 ], [ 'true' => 5 ] ], skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops workers, or the session itself'));
}, conf => { shared_buffers => '64MB' });

# Per-buffer data of streams whose reads are split: by blocks that are cached, by reads of
# another session, by short reads, and by a small buffer pool.  read_stream_run() raises an
# error if a buffer comes with the data of another one.
my $all = 'ARRAY(SELECT generate_series(0, 119))';
my $random = 'ARRAY(SELECT (i * 7919 + i / 120) % 120 FROM generate_series(0, 300) i ORDER BY i)';

with_each_io_method('worker; long: all', sub {
	$aio->scenario('split by blocks that are cached', with_kind('alice', 120, sub ($alice, $t, $) {
		$alice->sql('SET io_combine_limit = 3');
		for my $condition ('b % 3 = 1', 'b % 17 < 9', 'b IN (0, 119)')
		{
			my ($there) = $alice->sql("SELECT count(*) FROM generate_series(0, 119) b WHERE $condition");
			my $prepare = "SELECT evict_rel('$t'); SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT b FROM generate_series(0, 119) b WHERE $condition))";
			for my $more ('', ', "full" => true, use_batching => true', ", \"full\" => true, reset_at => '{1,50}'")
			{
				$alice->gives("$prepare; SELECT blocks, read_bytes / 8192 FROM read_stream_run('$t', $all, per_buffer_data => 100$more)", "\n$there\n120|" . (120 - $there), "$condition$more");
			}
			$alice->gives("$prepare; SELECT blocks FROM read_stream_run('$t', $random, \"full\" => true, per_buffer_data => 100)", "\n$there\n301", "at random, $condition");
		}
	}), each => [ '', 'TEMP' ], skip => sub ($kind) { $kind ? only_long() : undef });

	$aio->scenario("split by another session's reads", with('alice bob', 120, sub ($alice, $bob, $t, $flags, $block, $count) {
		$alice->sql('SET effective_io_concurrency = 64');
		$aio->read_at_completion_wait($bob, "SELECT read_rel_block_ll('$t', $block, nblocks => $count)", relation => $t, pid => $bob->pid);
		$alice->waits("SELECT blocks FROM read_stream_run('$t', $all, per_buffer_data => 24$flags)", 'AioIoCompletion');
		$aio->completion_continue;
		$alice->returns(120, "joins at block $block$flags");
		$bob->ends;
	}), each => [ combined([ '', ', "full" => true, use_batching => true' ], [ [ 0, 1 ], [ 5, 3 ], [ 119, 1 ] ]) ],
		skip => sub ($flags, $block, $) { $aio->no_faults // ($block == 5 ? undef : only_long()) });

	$aio->scenario('short reads and failed reads', with('alice', 120, sub ($alice, $t) {
		my $read = "SELECT blocks FROM read_stream_run('$t', $all, \"full\" => true, per_buffer_data => 24)";
		for my $bytes (8192, 5 * 8192 + 1)
		{
			$aio->evict($t);
			$aio->short_read_attach($bytes, pid => $alice->pid, relation => $t);
			$alice->gives($read, 120, "$bytes bytes at a time");
			$aio->short_read_detach;
		}
		$aio->evict($t);
		$aio->warm($t, 0 .. 40);
		$aio->short_read_attach('EIO', pid => $alice->pid, relation => $t);
		$alice->fails($read, '58030', qr/could not read blocks 41\.\.\d+ in file/, 'fails in the middle');
		$aio->short_read_detach;
		$alice->gives($read, 120, 'and again');
	}), skip => $aio->no_faults, log => qr/LOG:  could not read blocks \d+\.\.\d+ in file/);
}, leaves => 'nothing', conf => { shared_buffers => '64MB' });

# a session may pin few of 32 buffers
with_each_io_method('worker; long: all', sub {
	$aio->scenario('split by a small pool', with('alice', 120, sub ($alice, $t) {
		$alice->sql('SET effective_io_concurrency = 200; SET io_combine_limit = 16');
		for my $data (1, 1000)
		{
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $_, \"full\" => true, nruns => 2, per_buffer_data => $data)", $_ eq $all ? 240 : 602, "$data bytes") for $all, $random;
		}
		# cursors pin more, so that the limit changes from one read to the next
		$alice->sql('BEGIN');
		for my $pinned (0 .. 12)
		{
			$alice->sql("DECLARE c$pinned CURSOR FOR SELECT blk FROM $t WHERE ctid = '(${\($pinned * 5)},1)'; MOVE 1 FROM c$pinned");
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $all, \"full\" => true, per_buffer_data => 24)", 120, "$pinned and more pinned") if $pinned % 4 == 0;
		}
		$alice->sql('COMMIT');
	}));
}, conf => { shared_buffers => '256kB' });

# Which of the two concurrency settings limits the reads of maintenance: of indexes by VACUUM, and of
# contrib modules.  Guards server commit f132815fd4.
for_each_io_method('worker; long: all', sub {
	my ($sync, $no_trace) = ($aio->method eq 'sync', $aio->lacks('trace'));
	my $vacuum = 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) scenario.t';
	# what is read, how, with what setting
	my @cases = (
		[ 'scenario.t', "SELECT pg_prewarm('scenario.t')", 'maintenance', $aio->lacks('pg_prewarm') ],
		[ 'scenario.t_btree', $vacuum, 'maintenance' ],
		[ 'scenario.t_gist', $vacuum, 'maintenance' ],
		[ 'scenario.t_spgist', $vacuum, 'maintenance' ],
		[ 'scenario.t', 'SELECT count(*) FROM verify_heapam(\'scenario.t\')', 'effective', $aio->lacks('amcheck') ],
		[ 'scenario.t', 'SET enable_seqscan = off; SELECT sum(blk) FROM scenario.t WHERE p <@ box \'((0,0),(400,400))\'', 'effective' ]);

	$aio->scenario('%s: %s', with('alice', sub ($alice, $relation, $statement, $setting, $lacks = undef) {
		$aio->sql('CREATE TABLE scenario.t (blk int, p point, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO scenario.t SELECT i, point(i % 1000, i / 7), repeat(\'x\', 400) FROM generate_series(0, 1999) i');
		my $am = $relation =~ /_(\w+)/ ? $1 : 'gist';
		$aio->sql("CREATE INDEX t_$am ON scenario.t USING $am (" . ($am eq 'btree' ? 'blk) WITH (fillfactor = 20)' : 'p)'));
		$aio->sql('VACUUM ANALYZE scenario.t');
		for my $zero (qw(effective maintenance))
		{
			my $expected = $sync || $zero eq $setting ? 'true' : 'false';
			$aio->sql('DELETE FROM scenario.t WHERE blk % 5 = ' . length($zero) % 5) if $statement eq $vacuum;
			$alice->sql("SET effective_io_concurrency = 16; SET maintenance_io_concurrency = 16; SET ${zero}_io_concurrency = 0");
			$aio->evict($relation);
			$aio->evict('scenario.t');
			$aio->io_trace_during($relation, $alice->pid, sub { $alice->sql($statement) });
			# ReadBuffer() reads the first page of an index at once
			$aio->gives("SELECT bool_and(f_sync), count(*) > 0 FROM io_trace WHERE fork = 'main' AND blockno > 0", ($expected eq 'true' ? 't' : 'f') . '|t', "with ${zero}_io_concurrency = 0");
		}
	}), each => \@cases, skip => sub ($relation, $, $, $lacks = undef) { $no_trace // $lacks // ($relation =~ /gist/ ? only_long() : undef) });
}, leaves => 'nothing');
