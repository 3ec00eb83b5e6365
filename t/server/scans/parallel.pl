# Scans and index builds by several processes: each process has a share of the table, each
# block is read once by one of them, and a read that fails ends them all.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Trace;

my $pages = 400;

# What reads the whole table.
my @works = (
	[ 'a sequential scan', 'SELECT count(*), count(DISTINCT n), sum(n) FROM %s' ],
	[ 'a bitmap scan', 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*), count(DISTINCT n), sum(n) FROM %s WHERE m >= 0' ],
	(map { [ "CREATE INDEX, $_->[0]", "CREATE INDEX p_$_->[0] ON %s USING $_->[0] ($_->[1])" ] } [ btree => 'k' ], [ brin => 'n' ], [ gin => '(ARRAY[k])' ]));

# Test: the session and its two parallel workers wait for a read each, now or soon.
sub all_wait
{
	my ($aio, $session) = @_;
	my $waits = "SELECT count(*) FILTER (WHERE wait_event IN ('AioIoCompletion', 'completion_wait')) FROM pg_stat_activity WHERE ${\$session->pid} IN (pid, leader_pid)";
	my $count;
	$aio->poll(sub { ($count = $aio->sql($waits)) == 3 });
	return is($count, 3, 'the session and two workers wait for a read');
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $can_hold = !$aio->no_faults;
		my $no_trace = $aio->lacks('trace');

		# Makes a table of four rows a page and an index, and a session that uses workers.
		my $prepare = sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.p';
			$aio->sql("CREATE TABLE $t (n int, m int, k int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, parallel_workers = 2);"
				  . "INSERT INTO $t SELECT i, i % 50, (i * 7919) % (4 * $pages), repeat('x', 1900) FROM generate_series(0, 4 * $pages - 1) i; CREATE INDEX ON $t (m);"
				  . "VACUUM (FREEZE, ANALYZE, TRUNCATE off) $t; SELECT evict_rel('$t')");
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET max_parallel_maintenance_workers = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;'
				  . " SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET maintenance_work_mem = '128MB'");
			return ($alice, $t);
		};

		# parallel since 19: the shares of the processes begin where the range does
		$aio->scenario('ranges of TIDs', sub {
			my ($alice, $t) = $prepare->();
			my $explain = 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off)';
			for my $range ([ 0, 9 ], [ 350, 399 ], [ 100, 355 ], [ 399, 399 ])
			{
				my ($first, $last) = @$range;
				my $query = "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM $t WHERE ctid >= '($first,0)' AND ctid < '(${\($last + 1)},0)'";
				$aio->evict($t);
				my $pages = $last - $first + 1;
				my ($fetched) = split m{/}, $aio->blocks_during($t, sub {
						$alice->gives($query, join('|', (4 * $pages) x 2, 4 * $first, 4 * $last + 3), "blocks $first to $last: each row once");
					}, $alice);
				is_between($fetched, $pages, $pages + 2, 'blocks');
				like($alice->sql("$explain $query"), qr/Workers Launched: 2.*Parallel Tid Range Scan/s, 'in parallel') if $aio->major >= 19 && $pages > 200;
			}
		});

		$aio->scenario('a scan that is repeated', sub {
			my ($alice, $t) = $prepare->();
			# without a join condition, the left side of a left join is the outer one
			$alice->sql('SET enable_material = off; SET cpu_tuple_cost = 10');
			my $join = "SELECT g, count(DISTINCT n), sum(n) FROM generate_series(1, 3) g LEFT JOIN (SELECT n FROM $t WHERE m >= 0 OFFSET 0) s ON true GROUP BY g ORDER BY g";
			like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) $join"), qr/Gather \(actual rows=${\(4 * $pages)}\S* loops=3\).*Parallel Seq Scan/s, 'a parallel scan, three times');
			$alice->gives($join, join("\n", map { join '|', $_, 4 * $pages, 2 * $pages * (4 * $pages - 1) } 1 .. 3), 'each row once in each scan');
		});

		for my $work (@works)
		{
			my ($name, $sql) = @$work;
			$aio->scenario($name, sub {
				my ($alice, $t) = $prepare->();
				$aio->trace("'$t'") if !$no_trace;
				# no process gets a second read before each has one
				$aio->hold(relation => $t) if $can_hold;
				my ($fetched) = split m{/}, $aio->blocks_during($t, sub {
						$alice->starts(sprintf $sql, $t);
						all_wait($aio, $alice) if $can_hold;
						$aio->release if $can_hold;
						$alice->returns($name =~ /INDEX/ ? '' : join('|', 4 * $pages, 4 * $pages, 2 * $pages * (4 * $pages - 1)), $name);
					}, $alice);
				# some of the visibility map
				is_between($fetched, $pages, $pages + 5, 'blocks that all processes look at');
				if (!$no_trace)
				{
					$aio->end_trace;
					$aio->gives("SELECT count(*), count(DISTINCT b), min(b), max(b) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b WHERE fork = 'main'",
						join('|', $pages, $pages, 0, $pages - 1), 'each block is read once');
					$aio->traced("bool_and(result IN ('OK', 'UNKNOWN')), bool_and(state = 'COMPLETED'), count(DISTINCT pid)" . ($can_hold ? '' : ' BETWEEN 1 AND 3'), 't|t|' . ($can_hold ? 3 : 't'), 'by how many processes');
				}
				my ($am) = $name =~ /INDEX, (\w+)/ or return;
				my ($condition, $step) = { btree => [ 'k = i', 1 ], brin => [ 'n = i', 97 ], gin => [ 'ARRAY[k] @> ARRAY[i]', 1 ] }->{$am}->@*;
				$alice->sql('SET enable_seqscan = off; SET max_parallel_workers_per_gather = 0');
				$aio->evict($t);
				$alice->gives("SELECT count(*), sum(s.found) FROM generate_series(0, 4 * $pages - 1, $step) i, LATERAL (SELECT count(*) AS found FROM $t WHERE $condition) s",
					join('|', (1 + int((4 * $pages - 1) / $step)) x 2), 'each key is found once');
				like($alice->sql("EXPLAIN (COSTS off) SELECT FROM $t WHERE " . $condition =~ s/\bi\b/5/r), qr/p_$am/, 'by the index');
			});

			next if $name !~ /sequential|btree/;
			$aio->scenario("$name, when a read fails", sub {
				my ($alice, $t) = $prepare->();
				$aio->falsify('EIO', relation => $t);
				$alice->fails((sprintf $sql, $t), '58030', qr/could not read blocks \d+\.\.\d+ in file "base\S+": Input\/output error/, 'fails');
				$aio->tell_truth;
				$aio->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE leader_pid = ${\$alice->pid}");
				$aio->gives("SELECT to_regclass('scenario.p_$1') IS NULL", 't', 'no index is left') if $name =~ /INDEX, (\w+)/;
				$aio->evict($t);
				$alice->gives("SELECT count(*), count(DISTINCT n) FROM $t", join('|', (4 * $pages) x 2), 'the rows');
			}, skip => $aio->no_faults, log => [ qr/LOG:  could not read blocks \d+\.\.\d+ in file/,
				# the session ends its workers
				qr/parallel worker (?:alice )?FATAL:  terminating background worker "parallel worker" due to administrator command/,
				qr/postmaster LOG:  background worker "parallel worker" \(PID \d+\) exited with exit code 1/ ]);
		}
	}, conf => { shared_buffers => '32MB', max_worker_processes => 8, max_parallel_workers => 4 });
