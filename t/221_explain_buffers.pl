# EXPLAIN (ANALYZE, BUFFERS, WAL) under serial and parallel plans, usage counts of buffers
# after scans with and without a ring, VACUUM's costs, and wait events of reads.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

# The numbers of the topmost node of a plan.
sub top
{
	my ($session, $options, $query) = @_;
	my $plan = $session->sql("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off, FORMAT json$options) $query");
	my ($top) = $plan =~ /"Plan": (\{.*?)(?:"Plans":|\z)/s;
	my ($rest) = $plan =~ /"Plans":(.*)/s;
	my %number;
	$number{$1} = $2 while $top =~ /"([^"]+)": (\d+)(?=[,\s])/g;
	$number{plan} = $plan;
	$number{rest} = $rest;
	return \%number;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('BUFFERS of parallel plans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			$alice->sql('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10; SET synchronize_seqscans = off');
			my %blocks;
			for my $workers (0, 1, 2)
			{
				$alice->sql("SET max_parallel_workers_per_gather = $workers");
				my $query = "SELECT count(*), sum(blk) FROM $t";
				top($alice, '', $query);
				$aio->evict($t);
				my $plan = top($alice, '', $query);
				is($plan->{'Shared Read Blocks'}, 300, "$workers workers: blocks that were read");
				like($plan->{plan}, qr/"Workers Launched": $workers\b/, 'with workers') if $workers;
				# their catalogs, if they have any to read, are there
				cmp_ok($plan->{'Shared Hit Blocks'}, '<', 300, 'hits');
				is($plan->{"Shared $_ Blocks"}, 0, "none $_") for qw(Dirtied Written);
				my $again = top($alice, '', $query);
				is($again->{'Shared Read Blocks'}, 0, 'again: none is read');
				cmp_ok($again->{'Shared Hit Blocks'}, '>=', 300, 'all are hits');
				cmp_ok($again->{'Shared Hit Blocks'}, '<', 600, 'counted once');
				is($again->{'Temp Read Blocks'} + $again->{'Local Read Blocks'}, 0, 'nothing else');
			}
			# the shares of the workers and of the leader are the whole
			$aio->evict($t);
			my $text = $alice->sql("EXPLAIN (ANALYZE, BUFFERS, VERBOSE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM $t");
			my ($scan) = $text =~ /(Parallel Seq Scan.*)/s;
			my @reads = $scan =~ /Buffers: shared(?: hit=\d+)? read=(\d+)/g;
			my $total = shift @reads;
			is($total, 300, 'the scan');
			my $sum = 0;
			$sum += $_ for @reads;
			cmp_ok($sum, '<=', 300, "the workers': @reads");
			$aio->proves($t);
		});

		$aio->scenario('dirtied, written, temporary, and WAL', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$aio->sql('CHECKPOINT');
			$aio->evict($t);
			my $plan = top($alice, ', WAL', "DELETE FROM $t WHERE blk < 10");
			is($plan->{'Shared Read Blocks'} >= 40 && $plan->{'Shared Read Blocks'} <= 44 ? 40 : $plan->{'Shared Read Blocks'}, 40, 'DELETE: the table and its maps are read');
			ok($plan->{'Shared Dirtied Blocks'} >= 10 && $plan->{'Shared Dirtied Blocks'} <= 12, "dirtied: $plan->{'Shared Dirtied Blocks'}");
			ok($plan->{'WAL Records'} >= 10 && $plan->{'WAL Records'} <= 14, "records: $plan->{'WAL Records'}");
			ok($plan->{'WAL FPI'} >= 10 && $plan->{'WAL FPI'} <= 12, "whole pages: $plan->{'WAL FPI'}");
			cmp_ok($plan->{'WAL Bytes'}, '>', 10 * 7000, 'bytes of WAL');
			$alice->sql("SET work_mem = '64kB'");
			my $sort = top($alice, '', "SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC");
			cmp_ok($sort->{'Temp Written Blocks'}, '>', 20, 'a sort on disk: written');
			cmp_ok($sort->{'Temp Read Blocks'}, '>', 20, 'and read');
			# the first scan prunes
			$alice->sql("SELECT count(body) FROM $t");
			is(top($alice, ', WAL', "SELECT count(body) FROM $t")->{'WAL Records'}, 0, 'a query without WAL');
		});

		# usage counts: what is used again is kept, and a ring uses no buffer more than once
		$aio->scenario('usage counts', sub {
			my ($alice) = $aio->sessions('alice');
			my $counts = sub { my ($t) = @_; return $aio->sql("SELECT string_agg(DISTINCT usagecount::text, ',') FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0") };
			my $t = $aio->table('t', 40);
			$alice->sql("SELECT count(*) FROM $t");
			is($counts->($t), '1', 'read once');
			for my $expected (2, 3, 4, 5, 5, 5)
			{
				$alice->sql("SELECT count(*) FROM $t");
				is($counts->($t), $expected, 'used again');
			}
			$aio->evict($t);
			$alice->sql("SET vacuum_buffer_usage_limit = '1MB'");
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			is($counts->($t), '1', 'read by a ring');
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			is($counts->($t), '1', 'and again');
			$alice->sql("SELECT count(*) FROM $t");
			is($counts->($t), '2', 'then without');
			$aio->evict($t);
			$alice->sql("SELECT pg_prewarm('$t')") if !$aio->lacks('pg_prewarm');
			is($counts->($t), '1', 'pg_prewarm') if !$aio->lacks('pg_prewarm');
			# a ring leaves alone what others use
			my $other = $aio->table('o', 200);
			$alice->sql("SELECT count(*) FROM $other") for 1 .. 3;
			my $before = $aio->cached($other);
			my $large = $aio->table('l', 800);
			$alice->sql("SELECT count(*) FROM $large") for 1 .. 2;
			is($aio->cached($other), $before, 'a large scan evicts no table that is used');
		}, skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('costs of VACUUM', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$alice->sql('SET vacuum_cost_delay = 1; SET vacuum_cost_limit = 10000; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 0');
			my $delay = sub {
				$alice->notices;
				$alice->sql("VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
				return (map { /delay time: ([\d.]+) ms/ ? $1 : () } $alice->notices)[0] // 0;
			};
			$aio->evict($t);
			is($delay->(), '0.000', 'no cost, no delay');
			# 60 blocks at 1000 are six times the limit
			$alice->sql('SET vacuum_cost_page_hit = 1000');
			cmp_ok($delay->(), '>=', 4, 'hits');
			$aio->evict($t);
			$alice->sql('SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 1000');
			cmp_ok($delay->(), '>=', 4, 'misses');
			$alice->sql('SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 1000');
			is($delay->(), '0.000', 'nothing is made dirty');
			$aio->sql("DELETE FROM $t WHERE blk % 2 = 0; CHECKPOINT");
			cmp_ok($delay->(), '>=', 1, 'pages made dirty');
		});

		# what a session shows while it waits for a read, of its own and of another's
		$aio->scenario('wait events', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			$aio->hold(relation => $t);
			my %starts = (
				'a scan' => "SELECT count(*) FROM $t", 'a stream' => "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0, 5, 9])",
				'read_buffers()' => "SELECT count(*) FROM read_buffers('$t', 0, 40)");
			for my $what (sort keys %starts)
			{
				$aio->evict($t);
				$aio->hold(relation => $t);
				$alice->starts($starts{$what});
				my $event;
				$aio->poll(sub { $event = $aio->wait_event($alice->pid); $event =~ /^(?:AioIoCompletion|AioIoUringExecution|completion_wait|IoGateHeld)$/ });
				like($event, qr/^(?:AioIoCompletion|AioIoUringExecution|completion_wait|IoGateHeld)$/, "$what waits for its read");
				$bob->starts("SELECT count(*) FROM read_buffers('$t', 0, 1)");
				$aio->poll(sub { $event = $aio->wait_event($bob->pid); $event =~ /^(?:Aio|IoGateHeld|completion_wait)/ });
				like($event, qr/^(?:AioIoCompletion|AioUringCompletion|AioIoUringExecution|IoGateHeld)$/, 'and another for it');
				$aio->release;
				$alice->ends($what);
				$bob->returns(1, 'the other');
				ok($aio->poll(sub { $aio->wait_event($alice->pid) eq 'ClientRead' }), 'and then no longer');
			}
			$aio->proves($t);
		}, skip => $aio->no_faults);
	}, conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4 });
