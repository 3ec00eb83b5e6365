# VACUUM of tables with indexes: the rows, index entries and line pointers that it removes, in one
# or several passes, alone and with parallel workers.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;

# Kind of index => its definition, and a condition that it serves.
my %by_index = (
	btree => [ 'USING btree (k)', 'k = %s' ],
	hash => [ 'USING hash (k)', 'k = %s' ],
	gist => [ 'USING gist (p)', "p <@ box(point(%1\$s - 0.5, -1), point(%1\$s + 0.5, 1))" ],
	spgist => [ 'USING spgist (p)', "p <@ box(point(%1\$s - 0.5, -1), point(%1\$s + 0.5, 1))" ],
	gin => [ 'USING gin (a) WITH (fastupdate = off)', 'a @> ARRAY[%s]' ],
	'gin, pending list' => [ 'USING gin (a) WITH (fastupdate = on)', 'a @> ARRAY[%s]' ],
	brin => [ 'USING brin (k) WITH (pages_per_range = 2)', 'k = %s' ]);

for_each_io_method(
	sub {
		my ($aio) = @_;

		# An index entry that VACUUM fails to remove leads from a deleted key to the row that has its
		# line pointer later.
		for my $kind (sort keys %by_index)
		{
			$aio->scenario("index entries of dead rows: $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my ($using, $condition) = @{ $by_index{$kind} };
				my $t = 'scenario.v';
				$aio->sql("CREATE TABLE $t (k int, p point, a int[], filler text) WITH (autovacuum_enabled = off)");
				my $insert = sub { $aio->sql("INSERT INTO $t SELECT i, point(i, 0), ARRAY[i, i % 10 - 100000], repeat('x', 60) FROM generate_series($_[0], $_[1]) i") };
				$insert->(0, 999) if $kind =~ /pending/;
				$aio->sql("CREATE INDEX v_i ON $t $using");
				$insert->($kind =~ /pending/ ? 1000 : 0, 2999);
				my $pages = $aio->sql("SELECT pg_relation_size('$t') / 8192");
				# all rows of a run of pages, and every third row elsewhere
				$aio->sql("DELETE FROM $t WHERE k BETWEEN 1000 AND 1999 OR k % 3 = 0; SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
				my $removed = 1000 + $aio->sql('SELECT count(*) FROM generate_series(0, 2999) i WHERE i % 3 = 0 AND i NOT BETWEEN 1000 AND 1999');
				my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
				is(reported($report, qr/tuples: (\d+) removed/), $removed, 'rows removed');
				is(reported($report, qr/removed, (\d+) remain, 0 are/), 3000 - $removed, 'rows that remain');
				is(reported($report, qr/had (\d+) dead item identifiers removed/), $removed, 'line pointers removed');
				is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'dead line pointers on all pages');
				is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
				$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.v_i'::regclass", 3000 - $removed, 'entries that remain in the index') if $kind =~ /^(?:btree|hash|gist|spgist)/;

				# new rows take the line pointers of the removed rows
				$insert->(5000, 5000 + $removed - 1);
				$aio->gives("SELECT pg_relation_size('$t') / 8192 <= $pages + 1", 't', 'the table has not grown');
				$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
				$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off; SET plan_cache_mode = force_custom_plan');
				my $wrong = sprintf "SELECT count(*) FILTER (WHERE s.found <> (i < 3000 AND i %% 3 <> 0 AND i NOT BETWEEN 1000 AND 1999 OR i >= 5000 AND i < 5000 + $removed)::int) AS wrong, sum(s.found)"
				  . " FROM (SELECT generate_series(0, 2999) UNION ALL SELECT generate_series(5000, 5000 + $removed)) g(i), LATERAL (SELECT count(*) AS found FROM $t WHERE %s) s", sprintf $condition, 'i';
				# a search by these indexes takes long: fewer keys
				my $step = $kind eq 'brin' ? 97 : $kind =~ /pending/ ? 17 : 1;
				$wrong =~ s/generate_series\((\d+), ([^)]*)\)/generate_series($1, $2, $step)/g;
				my $found = $alice->sql($wrong);
				like($found, qr/^0\|/, 'each key has its row, and deleted keys have none');
				is($found, '0|3000', 'the number of keys with a row') if $step == 1;
				like($alice->sql("EXPLAIN (COSTS off) SELECT * FROM $t WHERE " . sprintf $condition, 2), qr/v_i/, 'the searches use the index');
				$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.v_i', true)) c", 1, 'amcheck finds nothing') if $kind eq 'btree' && !$aio->lacks('amcheck');
			});
		}

		# the root is the only page
		$aio->scenario('indexes of one page', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
			for my $case (map { my $kind = $_; map { [ $kind, @$_ ] } [ 0, 4, 9 ], [6] } sort keys %by_index)
			{
				my ($kind, @dead) = @$case;
				my ($using, $condition) = @{ $by_index{$kind} };
				my $t = 'scenario.s';
				my $new = 9 + @dead;
				my $all = join ', ', map { my $k = $_; (grep { $_ == $k } @dead) ? () : "$k: $k" } 0 .. $new;
				$aio->sql("DROP TABLE IF EXISTS $t; CREATE TABLE $t (k int, p point, a int[]) WITH (autovacuum_enabled = off); CREATE INDEX s_i ON $t $using;"
					  . "INSERT INTO $t SELECT i, point(i, 0), ARRAY[i] FROM generate_series(0, 9) i; DELETE FROM $t WHERE k IN (${\join ', ', @dead})");
				$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t; INSERT INTO $t SELECT i, point(i, 0), ARRAY[i] FROM generate_series(10, $new) i");
				$alice->gives("SELECT string_agg(format('%s: %s', i, s.k), ', ' ORDER BY i, s.k) FROM generate_series(0, $new) i, LATERAL (SELECT k FROM $t WHERE ${\sprintf $condition, 'i'}) s",
					$all, "$kind, ${\scalar @dead} dead: each key has its row, and deleted keys have none");
			}
		});

		# a posting list has the places of several rows with the same key
		$aio->scenario('posting lists', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.d';
			$aio->sql("CREATE TABLE $t (g int, n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i % 20, i / 20 FROM generate_series(0, 3999) i; CREATE INDEX d_i ON $t (g); DELETE FROM $t WHERE n % 4 = 0");
			is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 1000, 'rows removed');
			$aio->sql("INSERT INTO $t SELECT 20 + i % 20, i FROM generate_series(0, 999) i");
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off');
			$alice->gives("SELECT array_agg(DISTINCT (i < 20, s.*)::text) FROM generate_series(0, 39) i, LATERAL (SELECT count(*), count(*) FILTER (WHERE g <> i) FROM $t WHERE g = i) s", '{"(f,50,0)","(t,150,0)"}', 'the rows of each key, and none of another');
		});

		# a key of many rows has a tree of its own, whose empty leaves are deleted
		$aio->scenario('posting trees', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.p';
			$aio->sql("CREATE TABLE $t (n int, a int[]) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, ARRAY[1] FROM generate_series(0, 59999) i; CREATE INDEX p_i ON $t USING gin (a) WITH (fastupdate = off);"
				  . "DELETE FROM $t WHERE n BETWEEN 20000 AND 49999");
			my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
			cmp_ok(reported($report, qr/index "p_i": pages: \d+ in total, (\d+) newly deleted/), '>', 0, 'leaves are deleted') || diag($report);
			$aio->sql("INSERT INTO $t SELECT 100000 + i, ARRAY[2] FROM generate_series(0, 9999) i");
			$alice->sql('SET enable_seqscan = off');
			for my $case ([ 1, '30000|0|59999' ], [ 2, '10000|100000|109999' ])
			{
				my ($key, $expected) = @$case;
				$alice->gives("SELECT count(*), min(n), max(n) FROM $t WHERE a @> ARRAY[$key]", $expected, "the rows with key $key, and none of another");
			}
		});

		$aio->scenario('several passes, or parallel workers', sub {
			my ($alice) = $aio->sessions('alice');
			# one pass with workers, since they take long to start
			for my $case ([ 0, '64kB', 2 ], [ 2, '8MB', 1 ])
			{
				my ($workers, $memory, $passes) = @$case;
				my $t = "scenario.w$workers";
				$aio->sql("CREATE UNLOGGED TABLE $t (k int, h int) WITH (autovacuum_enabled = off, fillfactor = 10); INSERT INTO $t SELECT i, i FROM generate_series(1, 30000) i;"
					  . "CREATE INDEX ON $t (k); CREATE INDEX ON $t USING hash (h); CREATE INDEX ON $t (h); DELETE FROM $t WHERE k % 2 = 0; SELECT evict_rel('$t')");
				my $pages = $aio->sql("SELECT pg_relation_size('$t') / 8192");
				$alice->sql("SET maintenance_work_mem = '$memory'; SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2");
				my $report = vacuum($alice, "INDEX_CLEANUP on, TRUNCATE off, PARALLEL $workers", $t);
				cmp_ok(reported($report, qr/index scans: (\d+)/), '>=', $passes, "passes over the indexes, with $memory") || diag($report);
				is(reported($report, qr/had (\d+) dead item identifiers removed/), 15000, 'line pointers removed');
				is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'dead line pointers on all pages');
				like($report, qr/launched [12] parallel vacuum workers? for index vacuuming/, 'workers take part') if $workers;
				is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
				if ($workers && $aio->major >= 19)
				{
					# workers clean up if nothing was to be removed
					my $cleanup = vacuum($alice, "INDEX_CLEANUP on, TRUNCATE off, PARALLEL $workers", $t);
					my @summaries = map { join ', ', $_ =~ /parallel workers: index (\w+): [12] planned/g } $report, $cleanup;
					is(join(' / ', @summaries), 'vacuum / cleanup', 'what the workers were for') || diag("$report\n$cleanup");
				}
				$aio->gives("SELECT string_agg(DISTINCT reltuples::text, ',') FROM pg_class JOIN pg_index ON oid = indexrelid WHERE indrelid = '$t'::regclass", 15000, 'entries that remain in each index');
				$aio->sql("INSERT INTO $t SELECT 100000 + i, 100000 + i FROM generate_series(1, 15000) i");
				$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
				$alice->gives("SELECT count(*), sum(k), count(*) FILTER (WHERE k % 2 = 0 AND k < 100000) FROM (SELECT k FROM $t ORDER BY k OFFSET 0) s",
					$aio->sql('SELECT 30000, sum(i) FILTER (WHERE i % 2 = 1) + sum(100000 + i) FILTER (WHERE i <= 15000), 0 FROM generate_series(1, 30000) i'), 'the rows, by an index');
			}
		});
	});
