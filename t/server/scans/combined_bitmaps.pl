# Bitmaps of several indexes (BitmapAnd, BitmapOr), exact and lossy, serial and parallel:
# the rows that they find; no block is read in vain or twice.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Rows;

my $pages = 1700;
my $rows = 4 * $pages;

# Condition, nodes of the plan, and what becomes of the bitmap with work_mem = 64 kB, enough for
# 1024 pages: it stays exact, it has lossy pages, or "either": it may have pages without rows.  Rows
# with m < 40 are on 1428 pages, rows with k < 3000 on more.
my @cases = (
	[ 'm < 40 AND k < 5000', 'BitmapAnd', 'lossy' ],
	[ 'm = 7 AND k < 3400', 'BitmapAnd', 'either' ],
	[ 'm < 40 AND n BETWEEN 1000 AND 5000', 'BitmapAnd', 'either' ],
	[ 'm < 40 AND k < 100', 'BitmapAnd', 'either' ],
	# pages of both, some of which have no row of both; no page of both
	[ 'm = 3 AND k < 300', 'BitmapAnd', 'exact' ],
	[ 'm = 3 AND n BETWEEN 4 AND 49', 'BitmapAnd', 'exact' ],
	[ 'm = 7 OR k < 300', 'BitmapOr', 'exact' ],
	[ 'm < 40 OR k < 3000', 'BitmapOr', 'lossy' ],
	# a union with pages 1024 and 1536, at which chunks of lossy pages begin, and which have no row
	# of m < 40
	[ 'm < 40 OR (k < 1400 AND n BETWEEN 4096 AND 4111)', 'BitmapAnd BitmapOr', 'lossy' ],
	[ 'm < 40 OR (k < 1500 AND n BETWEEN 6144 AND 6159)', 'BitmapAnd BitmapOr', 'lossy' ],
	[ 'k = 3 OR n = 5', 'BitmapOr', 'exact' ],
	[ 'm = 7 OR k < 0', 'BitmapOr', 'exact' ],
	[ '(m = 7 OR n BETWEEN 300 AND 900) AND k < 3400', 'BitmapAnd BitmapOr', 'either' ],
	[ '(m < 40 OR n > 6000) AND (k < 4000 OR n < 50)', 'BitmapAnd BitmapOr', 'lossy' ],
	[ '(m = 7 AND k < 3400) OR (m = 8 AND n < 3000)', 'BitmapAnd BitmapOr', 'either' ]);

# Returns the rows that a condition finds, computed without the table, and how many pages have them.
sub expected
{
	my ($aio, $condition) = @_;
	return split /;/, $aio->sql("SELECT coalesce(string_agg(n::text, ',' ORDER BY n), ''), ';', count(DISTINCT n / 4)"
		  . " FROM (SELECT n, n % 50 AS m, (n * 7919) % $rows AS k FROM generate_series(0, $rows - 1) n) i WHERE $condition") =~ s/\|;\|/;/r;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $workers (0, 2)
		{
			$aio->scenario("$workers workers", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = indexed_table($aio, $pages);
				$alice->sql("SET max_parallel_workers_per_gather = $workers; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
					  . ' SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;'
					  . ' SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0; SET cpu_tuple_cost = 10; SET plan_cache_mode = force_generic_plan');
				for my $case (@cases)
				{
					my ($condition, $nodes, $small) = @$case;
					my ($found, $has_rows) = expected($aio, $condition);
					my $query = "SELECT coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM (SELECT n FROM $t WHERE $condition OFFSET 0) s";
					# planned once: the planner may look at the visibility map
					$alice->sql("PREPARE q AS $query");
					for my $memory ('4MB', '64kB')
					{
						$alice->sql("SET work_mem = '$memory'");
						my $name = "$condition, $memory";
						my $plan = $alice->sql("EXPLAIN (COSTS off) EXECUTE q");
						is(join(' ', grep { $plan =~ $_ } qw(BitmapAnd BitmapOr)), $nodes, "$name: the plan") || diag($plan);
						like($plan, qr/Parallel Bitmap Heap Scan/, 'in parallel') if $workers && $has_rows > 50;
						$aio->evict($t);
						my $result;
						my ($fetched, $hit) = split m{/}, $aio->blocks_during($t, sub { $result = $alice->sql('EXECUTE q') }, $alice);
						ok($result eq $found, "$name: the rows") || diag("$result, not $found");
						is($hit, 0, 'no block twice');
						if ($memory eq '4MB' || $small eq 'exact') { is($fetched, $has_rows, "$name: no other blocks") }
						else { is_between($fetched, $has_rows, $pages, "$name: blocks, of which $has_rows have rows") }
						like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) EXECUTE q"), qr/Heap Blocks: .*lossy=\d/, 'lossy')
						  if $memory eq '64kB' && $small eq 'lossy' && !$workers;
					}
					$alice->sql('DEALLOCATE q');
				}
			});
		}
	}, conf => { shared_buffers => '32MB', max_worker_processes => 8, max_parallel_workers => 4 });
