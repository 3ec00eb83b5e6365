# CREATE INDEX, serial, parallel and concurrently: it reads each block once, and each row has its
# entry.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $workers (0, 2)
		{
			$aio->scenario("each kind of index, $workers workers", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = 'scenario.c';
				$aio->sql("CREATE TABLE $t (n int, k int, p point, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
					  . "INSERT INTO $t SELECT i, (i * 7919) % 1600, point(i, 0), repeat('x', 1800) FROM generate_series(0, 1599) i; DELETE FROM $t WHERE n % 16 = 5");
				$alice->sql("SET max_parallel_maintenance_workers = $workers; SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '128MB'");
				my @indexes = (
					[ btree => 'k', 'k = i' ], [ brin => 'n', 'n = i' ], [ gin => '(ARRAY[k])', 'ARRAY[k] @> ARRAY[i]' ],
					[ hash => 'k', 'k = i' ], [ gist => 'p', 'p ~= point(i, 0)' ], [ spgist => 'p', 'p ~= point(i, 0)' ]);
				# workers build the first three
				splice @indexes, 3 if $workers;
				for my $index (@indexes)
				{
					my ($am, $column, $condition) = @$index;
					$aio->evict($t);
					my $fetched = $aio->blocks_during($t, sub { $alice->sql("CREATE INDEX c_$am ON $t USING $am ($column)") }, $alice) =~ s{/.*}{}r;
					cmp_ok($fetched, '>=', 400, "$am: CREATE INDEX reads the whole table");
					cmp_ok($fetched, '<=', 405, 'it reads each block once') if !$workers;
					# BRIN counts ranges; for a parallel GIN build, 18 and 19 count the rows of one process only
					my $counts = $am ne 'brin' && !($am eq 'gin' && $workers);
					$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.c_$am'::regclass", 1500, 'reltuples') if $counts;
					$aio->sql("SELECT evict_rel('scenario.c_$am')");
					$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
					# a search by BRIN reads a hundred pages
					my ($step, $found) = $am eq 'brin' ? (53, 29) : (1, 1500);
					$alice->gives("SELECT count(*), sum(s.found) FROM generate_series(0, 1599, $step) i, LATERAL (SELECT count(*) AS found FROM $t WHERE $condition) s WHERE s.found > 0",
						"$found|$found", "$am: each key is found once");
					$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.c_btree', true)) c", 1, 'amcheck finds nothing') if $am eq 'btree' && !$aio->lacks('amcheck');
					$aio->sql("DROP INDEX scenario.c_$am");
				}
			});
		}

		# rows that are deleted, but not for each snapshot, have their entries
		for my $am ('btree', 'hash')
		{
			$aio->scenario("a snapshot that is older than the index: $am", sub {
				my ($bob) = $aio->sessions('bob');
				my $t = $aio->table('t', 40);
				$bob->sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $t; SET enable_seqscan = off; SET enable_bitmapscan = off");
				$aio->sql("DELETE FROM $t WHERE blk % 4 = 1; CREATE INDEX t_i ON $t USING $am (blk)");
				my $query = "SELECT count(*), sum(s.gen + i) FROM generate_series(0, 39) i, LATERAL (SELECT gen FROM $t WHERE blk = i) s";
				like($bob->sql("EXPLAIN (COSTS off) $query"), qr/Index Scan using t_i/, 'the index is used');
				$bob->gives($query, '40|780', 'all rows');
				$bob->sql('COMMIT');
				$bob->gives($query, '30|590', 'the rows that are left');
			});
		}

		$aio->scenario('CREATE INDEX CONCURRENTLY while another session inserts', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 200);
			$bob->sql("BEGIN; CALL add_pages('$t', 200, 209)");
			$alice->starts("CREATE INDEX CONCURRENTLY t_i ON $t (blk)");
			$alice->waits_on('virtualxid');
			$aio->evict($t);
			$bob->sql('COMMIT');
			$alice->ends;
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
			$alice->gives("SELECT count(*), sum(blk) FROM (SELECT blk FROM $t ORDER BY blk OFFSET 0) s", '210|21945', 'the rows, by the index');
			$aio->proves($t, blocks => 210);
		});
	});
