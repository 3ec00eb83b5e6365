# Sequential scans that several processes share.  A synchronized scan begins where another scan
# stands.  The processes of a parallel scan divide the blocks into chunks.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Rows;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# scans of tables larger than a quarter of the buffer pool are synchronized
		$aio->scenario('synchronized', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = numbered_table($aio, 'r', 600, 1);
			$_->sql('SET synchronize_seqscans = on') for $alice, $bob;
			$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t; MOVE 300 FROM c");
			$aio->evict($t);
			my @rows = split /\n/, $bob->sql("SELECT n FROM $t");
			my $start = $rows[0];
			# a scan reports its position every 16 blocks
			ok($start > 0 && $start % 16 == 0 && $start < 320, "begins where the other scan stands, at block $start");
			is(join(',', @rows), join(',', $start .. 599, 0 .. $start - 1), 'goes on from there to the end, and then from block 0');
			is(join(',', split /\n/, $alice->sql('FETCH ALL FROM c')), join(',', 300 .. 599), 'the other scan goes on where it was');
			# the other scan reports further positions, among them the end of the table
			$alice->sql('MOVE BACKWARD ALL FROM c; MOVE 100 FROM c; COMMIT');
			$bob->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
			my @forward = split /\n/, $bob->sql('FETCH ALL FROM c');
			is(join(',', sort { $a <=> $b } @forward), join(',', 0 .. 599), 'each row once');
			$aio->evict($t);
			is($bob->sql('FETCH BACKWARD ALL FROM c'), join("\n", reverse @forward), 'backward in the opposite order');
			$bob->sql('COMMIT');
			$bob->sql('SET synchronize_seqscans = off');
			$bob->gives("SELECT n FROM $t LIMIT 1", 0, 'with synchronize_seqscans = off, from the beginning');
			$bob->sql('SET synchronize_seqscans = on');
			my $small = numbered_table($aio, 's', 500, 1);
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $small; MOVE 300 FROM c");
			$bob->gives("SELECT n FROM $small LIMIT 1", 0, 'a smaller table, from its beginning');
			$alice->sql('COMMIT');
		});

		$aio->scenario('a parallel scan says where it stands', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = numbered_table($aio, 'r', 600, 1);
			$_->sql('SET synchronize_seqscans = on; SET io_combine_limit = 1; SET effective_io_concurrency = 1') for $alice, $bob;
			$alice->sql('SET max_parallel_workers_per_gather = 1; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET seq_page_cost = 0; SET plan_cache_mode = force_generic_plan');
			$alice->sql("PREPARE parallel AS SELECT count(*), sum(n) FROM $t");
			like($alice->sql('EXPLAIN (COSTS off) EXECUTE parallel'), qr/Parallel Seq Scan/, 'a parallel plan') || return;
			# it is planned for two processes, and one of them reads
			$alice->sql('SET parallel_leader_participation = off');
			$aio->evict($t);
			$aio->hold(relation => $t, block => 300);
			$alice->starts('EXECUTE parallel');
			$aio->holds(1);
			ok($aio->poll(sub {
					$aio->sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event IN ('AioIoCompletion', 'AioIoUringExecution', 'completion_wait', 'IoGateHeld')}) == 1;
				}), 'the parallel worker waits for block 300') || return $aio->release;
			my $start = $bob->sql("SELECT n FROM $t LIMIT 1");
			ok($start >= 288 && $start <= 304 && $start % 16 == 0, "another scan begins there, at block $start");
			$aio->release;
			$alice->returns('600|179700', 'each row once');
		}, skip => $aio->no_faults);

		# a chunk has 6200 / 2048 blocks, rounded up to a power of two: 4
		$aio->scenario('parallel', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = numbered_table($aio, 'r', 6200, 1);
			$aio->sql("CREATE FUNCTION scenario.me() RETURNS int LANGUAGE plpgsql PARALLEL SAFE VOLATILE AS 'BEGIN RETURN pg_backend_pid(); END'");
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
			for my $sync ('off', 'on')
			{
				$_->sql("SET synchronize_seqscans = $sync") for $alice, $bob;
				$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t; MOVE 1000 FROM c");
				$alice->gives("SELECT count(*), count(DISTINCT n), sum(n), min(n), max(n) FROM $t", '6200|6200|19216900|0|6199', "each row once, synchronized $sync");
				$bob->sql('COMMIT');
			}
			$alice->sql('SET synchronize_seqscans = off');
			my $plan = $alice->sql("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT me, n FROM (SELECT scenario.me(), n FROM $t) s");
			my ($launched) = $plan =~ /Workers Launched: (\d+)/;
			cmp_ok($launched // 0, '>', 0, 'workers take part') || diag($plan);
			my ($hit) = $plan =~ /Buffers: shared.*? hit=(\d+)/;
			my ($read) = $plan =~ /Buffers: shared.*? read=(\d+)/;
			my $blocks = ($hit // 0) + ($read // 0);
			# the workers read some catalogs as well
			ok($blocks >= 6200 && $blocks < 6600, "each block is counted once: $blocks");
			# towards the end of the table the chunks become smaller
			my $chunks = "SELECT count(*) FILTER (WHERE pids > 1), count(*) FILTER (WHERE rows <> 4)"
			  . " FROM (SELECT n / 4, count(DISTINCT me) AS pids, count(*) AS rows FROM (SELECT scenario.me(), n FROM $t) s WHERE n < 5600 GROUP BY 1) c";
			like($alice->sql("EXPLAIN (COSTS off) $chunks"), qr/Parallel Seq Scan/, 'a parallel plan');
			$alice->gives($chunks, '0|0', 'one process reads all four blocks of a chunk');
			$alice->gives("SELECT count(*), count(DISTINCT n) FROM (SELECT scenario.me(), n FROM $t WHERE n >= 5600) s", '600|600', 'the smaller chunks: each row once');
			# without a join condition, the left side of a left join is the outer one
			$alice->sql('SET enable_material = off; SET cpu_tuple_cost = 10');
			my $join = "SELECT g, count(DISTINCT n), sum(n) FROM generate_series(1, 2) g LEFT JOIN (SELECT n FROM $t OFFSET 0) s ON true GROUP BY g ORDER BY g";
			like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) $join"), qr/Gather \(actual rows=6200\S* loops=2\).*Parallel Seq Scan/s, 'a parallel scan is rescanned');
			$alice->gives($join, "1|6200|19216900\n2|6200|19216900", 'each row once in each scan');
		});
	});
