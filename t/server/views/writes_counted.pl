# What the server counts of buffers and writes: buffers that are allocated, extensions and their
# time, blocks whose hint bits parallel workers set.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Plan;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# the background writer counts them, and reports them some time later
		$aio->scenario('buffers that are allocated', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			my $allocated = sub { return $aio->sql('SELECT buffers_alloc FROM pg_stat_bgwriter') };
			my $before = $allocated->();
			$alice->sql("SELECT count(*) FROM $t");
			my $after;
			ok($aio->poll(sub { $after = $allocated->(); $after >= $before + 100 }), 'pg_stat_bgwriter: a buffer for each block') || diag("$before, $after");
			$before = $after;
			$alice->sql("SELECT count(*) FROM $t") for 1 .. 5;
			cmp_ok($allocated->() - $before, '<', 100, 'and none for cached blocks');
			# each report is of another round of the background writer
			for (1 .. 5)
			{
				my $last = $allocated->();
				$alice->sql("SELECT invalidate_rel_block('$t', 7), read_rel_block_ll('$t', 7)");
				$aio->poll(sub { $allocated->() > $last }) or fail('another report');
			}
			cmp_ok($allocated->() - $before, '<', 250, 'no round counts those of earlier rounds');
		});

		$aio->scenario('extensions', sub {
			my ($alice) = $aio->sessions('alice');
			$aio->sql("CREATE TABLE scenario.e (body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
			my $insert = "INSERT INTO scenario.e SELECT repeat('x', 7000) FROM generate_series(1, 50)";
			for my $timing ('off', 'on')
			{
				$alice->sql("SET track_io_timing = $timing");
				my $plan;
				my @change = split m{/}, $aio->change_during("SELECT d.blk_write_time, i.extend_bytes, i.extend_time FROM pg_stat_database d,"
					  . " (SELECT sum(extend_bytes) AS extend_bytes, sum(extend_time) AS extend_time FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation') i WHERE datname = 'postgres'",
					sub { $plan = explained($alice, 'BUFFERS', $insert) }, $alice);
				cmp_ok($plan->{'Shared Written Blocks'}, '>=', 50, "track_io_timing = $timing: blocks that were written") || diag($plan->{plan});
				cmp_ok($change[1], '>=', 50 * 8192, 'bytes');
				if ($timing eq 'off')
				{
					is($change[0] + $change[2], 0, 'no time');
					next;
				}
				cmp_ok($change[2], '>', 0, 'pg_stat_io: time');
				# each extension counts in whole microseconds there
				cmp_ok($change[0], '>', 0, 'pg_stat_database: time');
				my $explained = $plan->{'Shared I/O Write Time'};
				cmp_ok($explained, '>', 0, 'EXPLAIN: time');
				cmp_ok(abs($explained - $change[2]), '<', 0.5 + 0.1 * $change[2], 'as much as in pg_stat_io');
			}
		});

		# the first scan sets hint bits; workers report what they have made dirty to the leader
		$aio->scenario('blocks dirtied by readers', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10');
			for my $workers (0, 1, 2)
			{
				$aio->sql("DROP TABLE IF EXISTS scenario.h; CREATE TABLE scenario.h (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
					  . "INSERT INTO scenario.h SELECT i, repeat('x', 7000) FROM generate_series(1, 200) i; CHECKPOINT; SELECT evict_rel('scenario.h')");
				$alice->sql("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = " . ($workers == 2 ? 'off' : 'on'));
				my @scan = ($alice, 'BUFFERS', 'SELECT count(*), max(n) FROM scenario.h');
				my $first = explained(@scan);
				like($first->{plan}, qr/"Workers Launched": $workers/, 'with workers') if $workers;
				cmp_ok($first->{'Shared Read Blocks'}, '>=', 200, "$workers workers: blocks that were read") || diag($first->{plan});
				is_between($first->{'Shared Dirtied Blocks'}, 200, 209, 'the first scan makes each block dirty');
				is(explained(@scan)->{'Shared Dirtied Blocks'}, 0, 'the second scan makes none dirty');
			}
		});

		$aio->scenario('blocks dirtied by readers of a temporary table', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql("SET temp_buffers = 100; CREATE TEMP TABLE h (n int, body text STORAGE PLAIN); INSERT INTO h SELECT i, repeat('x', 7000) FROM generate_series(1, 150) i; SELECT evict_rel('h')");
			my $scan = sub { my $found = explained($alice, 'BUFFERS', 'SELECT count(*), max(n) FROM h'); return join '/', map { $found->{"Local $_ Blocks"} } qw(Read Dirtied) };
			is($scan->(), '150/150', 'the first scan makes each block dirty');
			$alice->sql("SELECT evict_rel('h')");
			is($scan->(), '150/0', 'the second scan makes none dirty');
		});
	}, conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4,
		# the background writer reports often, and writes nothing
		bgwriter_delay => '10ms', bgwriter_lru_maxpages => 0 });
