# EXPLAIN (IO) of each kind of scan that has it, serial and parallel.  Its reads add up to the blocks
# that EXPLAIN (BUFFERS) shows, and for a single session to those in pg_stat_io.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# settings, condition
my %scans = (
	'Seq Scan' => [ 'enable_bitmapscan = off, enable_indexscan = off, enable_tidscan = off', 'blk >= 0' ],
	'Bitmap Heap Scan' => [ 'enable_seqscan = off, enable_indexscan = off, enable_tidscan = off', 'blk BETWEEN 10 AND 190' ],
	'Tid Range Scan' => [ 'enable_seqscan = off, enable_bitmapscan = off, enable_indexscan = off', "ctid >= '(10,0)' AND ctid < '(191,0)'" ]);

# blocks that are cached before
my %cached = (none => [], 'all but one' => [ grep { $_ != 100 } 0 .. 199 ], 'every other' => [ map { 2 * $_ } 0 .. 99 ], 'a part' => [ 50 .. 120 ]);

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $scan (sort keys %scans)
		{
			$aio->scenario($scan, sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 200);
				$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
				my ($settings, $condition) = @{ $scans{$scan} };
				$alice->sql(join '; ', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET cpu_tuple_cost = 10; SET enable_indexonlyscan = off',
					map { "SET $_" } split /, /, $settings);
				for my $workers (0, 2)
				{
					$alice->sql("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = " . ($workers ? 'off' : 'on'));
					for my $state (sort keys %cached)
					{
						# reads the index, which stays cached
						$alice->sql("SELECT sum(gen) FROM $t WHERE $condition");
						$aio->evict($t);
						$aio->warm($t, @{ $cached{$state} }) if @{ $cached{$state} };
						my $plan;
						my $counted = $aio->io_during($alice, 'relation/normal', sub { $plan = $alice->sql("EXPLAIN (ANALYZE, IO, BUFFERS, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(gen) FROM $t WHERE $condition") });
						my ($node) = $plan =~ /("Node Type": "$scan".*)/s;
						my ($read, $count, $size, $waits) = map { ($node // '') =~ /"$_": ([\d.]+)/ ? $1 : 0 } 'Shared Read Blocks', 'I/O Count', 'Average I/O Size', 'I/O Waits';
						my $name = "$workers workers, cached: $state";
						cmp_ok($read, '>', 0, "$name: $read blocks are read") || diag($plan);
						cmp_ok(abs($count * $size - $read), '<', 0.5, "by $count reads of $size blocks");
						cmp_ok($waits, '<=', $count, 'waits');
						# the planner may read a block of the visibility map
						like($counted, qr{^(?:$count/${\(8192 * $read)}|${\($count + 1)}/${\(8192 * ($read + 1))})$}, 'pg_stat_io has them, too') if !$workers;
					}
				}
				$aio->proves($t);
			}, skip => $aio->major < 19 ? 'EXPLAIN has the option IO since 19' : undef);
		}
	}, conf => { shared_buffers => '64MB', max_worker_processes => 8, max_parallel_workers => 4 });
