# EXPLAIN (IO): number and size of a stream's reads, how often the stream waited, and how far
# it looked ahead (read_stream_count_*, server commit 681daed931 of 19).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Kernel;
use TestAio::Plan;
use List::Util qw(max sum0);

my $at_once = directory_that_reads_at_once();

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $unknown = $aio->major < 19 ? 'EXPLAIN has the option IO since 19' : undef;

		$aio->scenario('number and size of reads', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
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
			$aio->proves($t);
		}, skip => $unknown);

		$aio->scenario('parallel workers', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET seq_page_cost = 0; SET parallel_leader_participation = off');
			for my $plan ([ 'a parallel scan' => 'SET min_parallel_table_scan_size = 0' ],
				[ 'the whole plan in a worker that EXPLAIN does not show' => "SET min_parallel_table_scan_size = '1GB'; SET debug_parallel_query = regress" ])
			{
				my ($what, $settings) = @$plan;
				$aio->evict($t);
				$alice->sql($settings);
				my ($count, $size) = $alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM $t") =~ /I\/O: count=(\d+) waits=\d+ size=([\d.]+)/;
				cmp_ok(abs(($count // 0) * ($size // 0) - 64), '<', 0.5, "the reads of workers are counted: $what");
			}
		}, skip => $unknown);

		$aio->scenario('waits', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$alice->sql('SET io_combine_limit = 8; SET effective_io_concurrency = 4');
			$alice->sql("SELECT count(*) FROM $t");
			$aio->evict($t);
			$aio->hold(relation => $t, pid => $alice->pid);
			$alice->starts("EXPLAIN (ANALYZE, IO, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t");
			$aio->holds(1);
			$alice->waits_on('AioIoCompletion') if $aio->method eq 'worker';
			$aio->release;
			$alice->ends;
			my ($waits) = $alice->result =~ m{"I/O Waits": (\d+)};
			cmp_ok($waits // 0, '>=', $aio->method eq 'io_uring' ? 0 : 1, 'the hold counts as a wait');
		}, skip => $unknown // $aio->no_faults);

		# small reads of what the kernel has are complete when they are submitted
		$aio->scenario('reads that are complete at once', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$aio->sql("CREATE TABLESPACE at_once LOCATION '$at_once'");
			$aio->sql("ALTER TABLE $t SET TABLESPACE at_once");
			for my $case ([ 1 => 64 ], [ 2 => 33 ])
			{
				my ($limit, $reads) = @$case;
				$alice->sql("SET io_combine_limit = $limit; SET effective_io_concurrency = 4; SELECT count(*) FROM $t");
				$aio->evict($t);
				my $io = explained($alice, 'IO', "SELECT blk FROM $t");
				is("$io->{'I/O Count'}/$io->{'I/O Waits'}", "$reads/0", "io_combine_limit = $limit: no waits");
				$aio->evict($t);
				like($alice->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t"), qr{^ *I/O: count=$reads waits=0 }m, 'as text');
			}
			$aio->proves($t);
		}, skip => $unknown // ($aio->method ne 'io_uring' ? 'reads by others take some time' : $at_once ? undef : 'no file system here returns cached data at once'));

		# which reads are complete in time is up to the machine
		$aio->scenario('reads for which nobody waits', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$alice->sql("SET io_combine_limit = 1; SET effective_io_concurrency = 16; SELECT count(*) FROM $t");
			my $io;
			ok($aio->poll(sub {
					$aio->evict($t);
					$io = explained($alice, 'IO', "SELECT blk FROM $t");
					$io->{'I/O Waits'} < $io->{'I/O Count'};
				}), 'fewer waits than reads') || diag($io->{plan});
		}, skip => $unknown // ($aio->method eq 'sync' ? 'a session waits for each read' : undef));

		for my $case ([ 'a sequential scan' => 'Seq Scan', "SELECT blk FROM %s" ],
			[ 'a scan of a range' => 'Tid Range Scan', "SELECT blk FROM %s WHERE ctid >= '(0,1)' AND ctid < '(64,1)'" ],
			[ 'a bitmap scan' => 'Bitmap Heap Scan', 'SELECT blk FROM %s WHERE blk < 1000' ],
			[ 'a scan that is repeated' => 'Seq Scan', 'SELECT g FROM generate_series(-3, -1) g LEFT JOIN %s ON blk > g' ])
		{
			my ($what, $node, $query) = @$case;
			$aio->scenario("each worker of $what", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 64);
				$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
				$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET seq_page_cost = 0; SET random_page_cost = 0;'
					  . ' SET parallel_leader_participation = off; SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_indexscan = off; SET enable_memoize = off');
				$alice->sql($node =~ /Bitmap/ ? 'SET enable_seqscan = off' : 'SET enable_bitmapscan = off');
				# the blocks that a bitmap scan counts as read include those of the index
				$alice->sql("SELECT count(*) FROM read_stream_for_blocks('scenario.t_i', ARRAY(SELECT generate_series(0, pg_relation_size('scenario.t_i')::int / 8192 - 1)))");
				$aio->evict($t);
				# planning reads the visibility map
				$alice->sql('EXPLAIN ' . sprintf $query, $t);
				$aio->hold(relation => $t);
				$alice->starts('EXPLAIN (ANALYZE, VERBOSE, BUFFERS, IO, FORMAT json) ' . sprintf $query, $t);
				# until both workers have begun to read
				ok($aio->poll(sub {
						$aio->sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event IN ('AioIoCompletion', 'AioIoUringExecution', 'completion_wait')}) == 2;
					}), 'two workers wait for reads');
				$aio->release;
				$alice->ends;
				my @workers = workers_at($node, $alice->result);
				is(scalar @workers, 2, "two workers at a $node") || diag($alice->result);
				for my $worker (@workers)
				{
					my ($reads, $size) = map { $worker->{$_} // 0 } 'I/O Count', 'Average I/O Size';
					cmp_ok($reads, '>', 0, 'has reads');
					cmp_ok(abs($reads * $size - $worker->{'Shared Read Blocks'}), '<', 0.5, 'of so many blocks as it has read') || diag($alice->result);
				}
				my $scan = node_at($node, $alice->result);
				for my $largest ('Prefetch Capacity', 'Max Prefetch Distance')
				{
					is($scan->{$largest}, max(map { $_->{$largest} } @workers), "$largest: that of one worker") || diag($alice->result);
				}
				my $read = sum0(map { $_->{'Shared Read Blocks'} } @workers);
				cmp_ok($read, '>=', 64, 'all blocks are read');
			}, skip => $unknown // $aio->no_faults);
		}
	}, leaves => 'nothing', conf => { shared_buffers => '64MB' });
