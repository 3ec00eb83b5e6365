# VACUUM: which dead rows and index entries it removes, which pages it reads, skips and
# truncates, in one or several passes, by parallel workers, and in failsafe mode.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

# Runs VACUUM VERBOSE and returns its report.
sub vacuum
{
	my ($session, $options, $table) = @_;
	$session->notices;
	$session->sql("VACUUM ($options, VERBOSE) $table");
	# a summary that other sessions' snapshots do not delay
	my $report = join "\n", $session->notices;
	like($report, qr/tuples: \d+ removed, \d+ remain, 0 are dead but not yet removable/, 'all dead rows could be removed') if $options !~ /ONLY_DATABASE/;
	return $report;
}

# A number in the report.
sub reported
{
	my ($report, $pattern) = @_;
	return $report =~ $pattern ? $1 : "no $pattern in: $report";
}

# How many pages have a line pointer that is marked as dead.
sub pages_with_dead
{
	my ($aio, $table, $pages) = @_;
	return $aio->sql("SELECT count(DISTINCT b) FROM generate_series(0, $pages - 1) b, heap_page_items(get_raw_page('$table', b)) i WHERE lp_flags = 3");
}

# A query that can only use this index, and what it returns.
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

		# An entry that VACUUM leaves behind would lead from a key that has been deleted to the
		# row that has its line pointer now.
		for my $kind (sort keys %by_index)
		{
			$aio->scenario("dead entries: $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my ($using, $condition) = @{ $by_index{$kind} };
				my $t = 'scenario.v';
				$aio->sql("CREATE TABLE $t (k int, p point, a int[], filler text) WITH (autovacuum_enabled = off)");
				my $insert = sub { $aio->sql("INSERT INTO $t SELECT i, point(i, 0), ARRAY[i, i % 10 - 100000], repeat('x', 60) FROM generate_series($_[0], $_[1]) i") };
				$insert->(0, 999) if $kind =~ /pending/;
				$aio->sql("CREATE INDEX v_i ON $t $using");
				$insert->($kind =~ /pending/ ? 1000 : 0, 2999);
				my $pages = $aio->sql("SELECT pg_relation_size('$t') / 8192");
				# a run of pages that become empty, and every third row elsewhere
				$aio->sql("DELETE FROM $t WHERE k BETWEEN 1000 AND 1999 OR k % 3 = 0; SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
				my $removed = 1000 + $aio->sql('SELECT count(*) FROM generate_series(0, 2999) i WHERE i % 3 = 0 AND i NOT BETWEEN 1000 AND 1999');
				my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
				is(reported($report, qr/tuples: (\d+) removed/), $removed, 'rows removed');
				is(reported($report, qr/removed, (\d+) remain, 0 are/), 3000 - $removed, 'rows that remain');
				is(reported($report, qr/had (\d+) dead item identifiers removed/), $removed, 'line pointers of the second pass');
				is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'on all pages');
				is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
				$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.v_i'::regclass", 3000 - $removed, 'entries of the index') if $kind =~ /^(?:btree|hash|gist|spgist)/;

				# new rows in the same places
				$insert->(5000, 5000 + $removed - 1);
				$aio->gives("SELECT pg_relation_size('$t') / 8192 <= $pages + 1", 't', 'new rows take the places');
				$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
				$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off; SET plan_cache_mode = force_custom_plan');
				my $wrong = sprintf "SELECT count(*) FILTER (WHERE s.found <> (i < 3000 AND i %% 3 <> 0 AND i NOT BETWEEN 1000 AND 1999 OR i >= 5000 AND i < 5000 + $removed)::int) AS wrong, sum(s.found)"
				  . " FROM (SELECT generate_series(0, 2999) UNION ALL SELECT generate_series(5000, 5000 + $removed)) g(i), LATERAL (SELECT count(*) AS found FROM $t WHERE %s) s", sprintf $condition, 'i';
				# these take longer for a key: fewer keys
				my $step = $kind eq 'brin' ? 97 : $kind =~ /pending/ ? 17 : 1;
				$wrong =~ s/generate_series\((\d+), ([^)]*)\)/generate_series($1, $2, $step)/g;
				my $found = $alice->sql($wrong);
				like($found, qr/^0\|/, 'each key has its rows, and deleted ones have none');
				is($found, '0|3000', 'the number of rows') if $step == 1;
				like($alice->sql("EXPLAIN (COSTS off) SELECT * FROM $t WHERE " . sprintf $condition, 2), qr/v_i/, 'by the index');
				$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.v_i', true)) c", 1, 'amcheck finds nothing') if $kind eq 'btree' && !$aio->lacks('amcheck');
			});
		}

		$aio->scenario('several passes, and parallel workers', sub {
			my ($alice) = $aio->sessions('alice');
			# with workers, a pass takes long to begin
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
				is(reported($report, qr/had (\d+) dead item identifiers removed/), 15000, 'all line pointers');
				is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'of all pages');
				like($report, qr/launched [12] parallel vacuum workers? for index vacuuming/, 'by workers') if $workers;
				is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
				$aio->gives("SELECT string_agg(DISTINCT reltuples::text, ',') FROM pg_class JOIN pg_index ON oid = indexrelid WHERE indrelid = '$t'::regclass", 15000, 'entries of each index');
				$aio->sql("INSERT INTO $t SELECT 100000 + i, 100000 + i FROM generate_series(1, 15000) i");
				$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
				$alice->gives("SELECT count(*), sum(k), count(*) FILTER (WHERE k % 2 = 0 AND k < 100000) FROM (SELECT k FROM $t ORDER BY k OFFSET 0) s",
					$aio->sql('SELECT 30000, sum(i) FILTER (WHERE i % 2 = 1) + sum(100000 + i) FILTER (WHERE i <= 15000), 0 FROM generate_series(1, 30000) i'), 'by an index');
			}
		});

		$aio->scenario('truncation', sub {
			my ($alice) = $aio->sessions('alice');
			# the last row that stays is on this page
			for my $last (99, 72, 60, 31, 32, 33, 0, -1)
			{
				$aio->sql('DROP TABLE IF EXISTS scenario.t');
				my $t = $aio->table('t', 100);
				$aio->sql("DELETE FROM $t WHERE blk > 10 AND blk <> $last OR $last < 10 AND blk <> $last; SELECT evict_rel('$t')");
				my $report = vacuum($alice, 'TRUNCATE on', $t);
				my $size = $last + 1;
				is(reported($report, qr/pages: (\d+) removed/), 100 - $size, "last row on page $last: pages removed");
				$aio->gives("SELECT pg_relation_size('$t') / 8192", $size, 'the size');
				$aio->gives("SELECT coalesce(string_agg(blk::text, ',' ORDER BY ctid), 'none') FROM $t WHERE body = proof('$t', blk, 0)",
					join(',', $last < 0 ? 'none' : $last < 10 ? $last : (0 .. 10, $last)), 'the rows');
				# what is gone does not come back
				$aio->sql("INSERT INTO $t SELECT '$t', i, 1, proof('$t', i, 1) FROM generate_series(200, 220) i; SELECT evict_rel('$t')");
				$aio->gives("SELECT count(*), count(*) FILTER (WHERE gen = 1 AND body = proof('$t', blk, 1)) FROM $t", (21 + ($last < 0 ? 0 : $last < 10 ? 1 : 12)) . '|21', 'new rows');
			}
			my $t = $aio->table('u', 100);
			$aio->sql("DELETE FROM $t WHERE blk > 10");
			vacuum($alice, 'TRUNCATE off', $t);
			$aio->gives("SELECT pg_relation_size('$t') / 8192", 100, 'not asked for');
		});

		# the pages at the end were empty when VACUUM has looked at them
		$aio->scenario('truncation, and a row that has come meanwhile', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 100);
			$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk > 10");
			$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t; DELETE FROM $t WHERE blk = 3; SELECT evict_rel('scenario.t_i'); SELECT io_hold('scenario.t_i')");
			$alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE on) $t");
			$alice->waits_on('IoGateHeld', 'has looked at the table, and begins with the index');
			$aio->sql('SELECT io_hold_end()');
			# rows without the index's help: it is held
			$bob->starts("INSERT INTO $t SELECT '$t', 500, 0, proof('$t', 500, 0)");
			$aio->poll(sub { $bob->has_ended || $aio->wait_event($bob->pid) eq 'IoGateHeld' });
			$aio->gate_release;
			$bob->ends('a new row');
			$alice->ends('VACUUM');
			$aio->gives("SELECT string_agg(blk::text, ',' ORDER BY blk), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t", '0,1,2,4,5,6,7,8,9,10,500|11', 'the rows');
			my $at = $aio->sql("SELECT (ctid::text::point)[0]::int FROM $t WHERE blk = 500");
			cmp_ok($at, '>', 10, 'the new one is behind the others');
			$aio->gives("SELECT pg_relation_size('$t') / 8192", $at + 1, 'the table ends with it');
			$aio->evict($t);
			$alice->sql('SET enable_seqscan = off');
			$alice->gives("SELECT gen FROM $t WHERE blk = 500", 0, 'by the index');
		}, skip => $aio->lacks('gate') // ($aio->method eq 'sync' ? 'the gate holds no synchronous reads' : undef));

		$aio->scenario('pages that are skipped', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			# runs of less than 32 pages are read, and so is the last page
			my @cases = ([ '', 1 ], [ '10', 12 ], [ '10, 150', 13 ], [ '40', 2 ], [ '31', 33 ], [ '32', 2 ], [ '33', 2 ], [ '0, 33', 3 ], [ '0, 32', 34 ], [ '168', 32 ], [ '167', 33 ], [ '166', 2 ], [ '199', 1 ]);
			for my $case (@cases)
			{
				my ($blocks, $scanned) = @$case;
				# a deletion that is rolled back clears all-visible and leaves the row
				$aio->sql("DO \$\$ BEGIN BEGIN DELETE FROM $t WHERE blk IN ($blocks); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END \$\$") if $blocks ne '';
				$aio->evict($t);
				my $report = vacuum($alice, 'FREEZE, TRUNCATE off', $t);
				is(reported($report, qr/(\d+) scanned/), $scanned, "changed: ($blocks): pages read") || diag($report);
			}
			$aio->evict($t);
			is(reported(vacuum($alice, 'DISABLE_PAGE_SKIPPING, TRUNCATE off', $t), qr/(\d+) scanned/), 200, 'DISABLE_PAGE_SKIPPING');
			$aio->proves($t);
			$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '200|200', 'all-visible and frozen') if !$aio->lacks('pg_visibility');
			$aio->gives("SELECT count(*) FROM pg_check_visible('$t')", 0, 'rightly so') if !$aio->lacks('pg_visibility');
			$aio->gives("SELECT count(*) FROM pg_check_frozen('$t')", 0, 'rightly so') if !$aio->lacks('pg_visibility');
		});

		$aio->scenario('a pinned page', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			$aio->sql("DELETE FROM $t WHERE blk = 7");
			# a pin keeps VACUUM from a cleanup lock: it does without, or waits with FREEZE
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 8 FROM c");
			my $vacuum = "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, TRUNCATE off) $t";
			$alice->sql("VACUUM (TRUNCATE off) $t");
			$bob->gives('FETCH 1 FROM c', 9, 'the cursor goes on');
			$bob->sql('MOVE ALL FROM c; CLOSE c; COMMIT');
			$alice->sql($vacuum);
			$aio->proves($t, except => 'block 7 has no row');
		});

		# 2,147,483,000 transactions ago, as the catalog says
		$aio->scenario('failsafe', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk % 4 = 1");
			$alice->sql('SET allow_system_table_mods = on');
			$alice->sql("UPDATE pg_class SET relfrozenxid = ((txid_current() + 2147484296) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
			my $dead = sub { return pages_with_dead($aio, $t, 100) };
			$aio->evict($t);
			$alice->notices;
			$alice->sql("VACUUM (TRUNCATE on, VERBOSE) $t");
			$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'says so');
			my $report = join "\n", $alice->notices;
			like($report, qr/index scan bypassed by failsafe: 25 pages from table .* have 25 dead item identifiers/, 'leaves the index alone');
			is($dead->(), 25, 'and the line pointers') if !$aio->lacks('pageinspect');
			$aio->gives("SELECT age(relfrozenxid) < 1000 FROM pg_class WHERE oid = '$t'::regclass", 't', 'but freezes');
			$aio->gives("SELECT count(*), sum(blk) FROM $t WHERE body = proof('$t', blk, 0)", '75|3725', 'the rows');
			# now that it is young
			$report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
			is(reported($report, qr/had (\d+) dead item identifiers removed/), 25, 'later it goes to its end');
			is($dead->(), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
		});
	}, long => [qw(sync io_uring)], conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4, max_parallel_maintenance_workers => 2 });
