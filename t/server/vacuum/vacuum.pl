# VACUUM of tables and their indexes, and its truncation.
use TestAio;
use Time::HiRes qw(time);

# VACUUM: the pages that it reads and those that it skips, pages that are pinned, and failsafe mode.
with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('pages that are skipped', with('alice', 200, sub ($alice, $t) {
		# Blocks that are not all-visible, and the number of pages that VACUUM reads.  It skips runs
		# of 32 all-visible pages or more, and always reads the last page.
		my @cases = ([ '', 1 ], [ '10', 12 ], [ '10, 150', 13 ], [ '40', 2 ], [ '31', 33 ], [ '32', 2 ], [ '33', 2 ], [ '0, 33', 3 ], [ '0, 32', 34 ], [ '168', 32 ], [ '167', 33 ], [ '166', 2 ], [ '199', 1 ]);
		for my $case (@cases)
		{
			my ($blocks, $scanned) = @$case;
			# a deletion that is rolled back clears all-visible and leaves the row
			$aio->sql("DO \$\$ BEGIN BEGIN DELETE FROM $t WHERE blk IN ($blocks); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END \$\$") if $blocks ne '';
			$aio->evict($t);
			my $report = vacuum($alice, 'FREEZE, TRUNCATE off', $t);
			is(reported($report, qr/(\d+) scanned/), $scanned, "blocks that are not all-visible: ($blocks): pages read") || diag($report);
		}
		$aio->evict($t);
		is(reported(vacuum($alice, 'DISABLE_PAGE_SKIPPING, TRUNCATE off', $t), qr/(\d+) scanned/), 200, 'DISABLE_PAGE_SKIPPING reads all pages');
		$aio->is_as_written($t);
		$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '200|200', 'all pages are all-visible and all-frozen') if !$aio->lacks('pg_visibility');
		$aio->gives("SELECT count(*) FROM pg_check_visible('$t')", 0, 'no page is wrongly all-visible') if !$aio->lacks('pg_visibility');
		$aio->gives("SELECT count(*) FROM pg_check_frozen('$t')", 0, 'no page is wrongly all-frozen') if !$aio->lacks('pg_visibility');
	}));

	$aio->scenario('what the report says of I/O', with('alice', 200, changes => 1, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk % 4 = 1; CHECKPOINT");
		$alice->sql('SET track_io_timing = on');
		$aio->evict($t);
		my $begun = time;
		my $report = vacuum($alice, 'TRUNCATE off', $t);
		my $took = time - $begun;
		my ($reads, $dirtied) = map { reported($report, $_) } qr/hits, (\d+) reads/, qr/reads, (\d+) dirtied/;
		my ($read_rate, $write_rate) = map { reported($report, qr/avg $_ rate: ([\d.]+) MB/) } qw(read write);
		is_between($reads, 200, 220, 'blocks read');
		is_between($dirtied, 50, 70, 'pages made dirty');
		# VACUUM takes a part of the time of the statement; rates have three digits after the point
		cmp_ok($read_rate + 0.001, '>=', $reads / 128 / $took, 'the read rate is at least that of the whole statement');
		cmp_ok(abs($read_rate * $dirtied - $write_rate * $reads), '<', 0.001 * ($reads + $dirtied), 'the read rate and the write rate have the ratio of the blocks');
		like($report, qr/^I\/O timings: read: [\d.]+ ms, write: [\d.]+ ms$/m, 'the time of I/O');
		like($report, qr/^system usage: CPU: user: [\d.]+ s, system: [\d.]+ s, elapsed: [\d.]+ s$/m, 'and of all');
		my $u = $aio->table('u', 20);
		$aio->evict($t);
		$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off, VERBOSE) $t, $u");
		is_between((join("\n", $alice->notices) =~ /hits, (\d+) reads/g)[1], 20, 40, 'blocks read of the second table');
	}));

	$aio->scenario('a view', with('alice', sub ($alice) {
		$alice->sql('CREATE VIEW scenario.v AS SELECT 1');
		$alice->sql('VACUUM scenario.v');
		$alice->warns(qr/skipping "v" --- cannot vacuum non-tables or special system tables/, 'is left out');
	}));

	# dead rows on less than a fiftieth of the pages are not worth a look at the indexes
	$aio->scenario('few dead rows', with('alice', 200, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk)");
		for my $case ([ auto => '7, 70', 0 ], [ on => 150, 3 ], [ auto => '0, 40, 80, 120', 4 ], [ on => 3, 1 ])
		{
			my ($cleanup, $deleted, $removed) = @$case;
			$aio->sql("DELETE FROM $t WHERE blk IN ($deleted)");
			my $report = vacuum($alice, "INDEX_CLEANUP $cleanup, TRUNCATE off", $t);
			my $pages = $deleted =~ tr/,// + 1;
			$removed ? is(reported($report, qr/had (\d+) dead item identifiers removed/), $removed, "INDEX_CLEANUP $cleanup: dead line pointers removed")
			  : is(reported($report, qr/index scan bypassed: (\d+) pages from table/), $pages, "INDEX_CLEANUP $cleanup: pages with dead line pointers");
		}
		is(pages_with_dead($aio, $t, 200), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		$alice->gives("SELECT count(*), sum(gen + blk) FROM (SELECT * FROM $t ORDER BY blk OFFSET 0) s", $aio->sql("SELECT count(*), sum(i) FROM generate_series(0, 199) i WHERE i NOT IN (7, 70, 150, 0, 40, 80, 120, 3)"), 'the rows, by the index');
	}));

	# three rows a page, so that a scan does not prune the page of the deleted row
	$aio->scenario('a pinned page', with('alice bob', sub ($alice, $bob) {
		my $t = 'scenario.p';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 2300) FROM generate_series(0, 59) i;"
			  . "VACUUM (FREEZE) $t; DELETE FROM $t WHERE n = 16");
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t");
		$bob->gives('MOVE 15 FROM c; FETCH 1 FROM c', 15, 'a cursor stands beside the deleted row');
		my $report = vacuum($alice, 'TRUNCATE off', $t);
		is(reported($report, qr/tuples missed: (\d+) dead from 1 pages not removed due to cleanup lock contention/), 1, 'VACUUM leaves the row');
		$alice->notices;
		$alice->waits("VACUUM (FREEZE, TRUNCATE off, VERBOSE) $t", qr/^Buffer(?:Pin|Cleanup)$/, 'VACUUM (FREEZE) waits for the pin');
		$bob->gives('FETCH ALL FROM c', join("\n", 17 .. 59), 'the cursor goes on');
		$bob->sql('COMMIT');
		$alice->ends('VACUUM (FREEZE)');
		is(reported(join("\n", $alice->notices), qr/tuples: (\d+) removed/), 1, 'it removes the row');
		$aio->evict($t);
		$aio->gives("SELECT count(*), sum(n) FROM $t", '59|1754', 'the rows');
	}));

	$aio->scenario('what its progress says, %s: %s', with('alice', 40, changes => 1, sub ($alice, $t, $mode, $options) {
		$alice->sql("DELETE FROM $t WHERE blk = (SELECT max(blk) FROM $t)");
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, "VACUUM ($options) $t", relation => $t, pid => $alice->pid);
		$aio->gives("SELECT mode, started_by, phase, heap_blks_total FROM pg_stat_progress_vacuum WHERE pid = ${\$alice->pid}", "$mode|manual|scanning heap|40", $options);
		$aio->completion_continue;
		$alice->ends('VACUUM');
	}), each => [ [ 'normal', 'TRUNCATE off' ], [ 'aggressive', 'FREEZE, TRUNCATE off' ], [ 'aggressive', 'DISABLE_PAGE_SKIPPING, TRUNCATE off' ] ], skip => $aio->major >= 19 ? $aio->no_faults : 'the view shows the mode since 19');

	# the catalog says that the table was frozen 2,147,483,000 transactions ago
	$aio->scenario('failsafe', with('alice', 100, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); CREATE INDEX t_a ON $t USING gin ((ARRAY[blk])); DELETE FROM $t WHERE blk % 4 = 1");
		$alice->sql('SET allow_system_table_mods = on');
		$alice->sql("UPDATE pg_class SET relfrozenxid = ((txid_current() + 2147484296) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
		my $dead = sub { return pages_with_dead($aio, $t, 100) };
		$aio->evict($t);
		$alice->notices;
		my $vacuum = "VACUUM (TRUNCATE on, VERBOSE) $t";
		my $reads = $aio->change_during(
			"SELECT sum(read_bytes) FILTER (WHERE context = 'vacuum') / 8192, sum(read_bytes) FILTER (WHERE context = 'normal') / 8192 FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation'",
			sub {
				return $alice->sql($vacuum) if $aio->major < 19 || $aio->no_faults;
				$aio->read_at_completion_wait($alice, $vacuum, relation => $t, pid => $alice->pid);
				$aio->gives("SELECT mode, phase FROM pg_stat_progress_vacuum WHERE pid = ${\$alice->pid}", 'failsafe|scanning heap', 'the view of its progress says so');
				$aio->completion_continue;
				$alice->ends($vacuum);
			}, $alice);
		$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'VACUUM goes into failsafe mode');
		my ($ring, $normal) = split m{/}, $reads;
		is($ring, 0, 'it reads nothing into a ring');
		is_between($normal, 100, 150, 'but elsewhere');
		my $report = join "\n", $alice->notices;
		like($report, qr/index scan bypassed by failsafe: 25 pages from table .* have 25 dead item identifiers/, 'it leaves the indexes alone');
		unlike($report, qr/^index "/m, 'also that of GIN, which VACUUM cleans up at its end') || diag($report);
		is($dead->(), 25, 'it leaves the dead line pointers') if !$aio->lacks('pageinspect');
		$aio->gives("SELECT age(relfrozenxid) < 1000 FROM pg_class WHERE oid = '$t'::regclass", 't', 'it freezes the table');
		$aio->gives("SELECT count(*), sum(blk) FROM $t WHERE body = proof('$t', blk, 0)", '75|3725', 'the rows');
		# the table is frozen now
		$report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
		is(reported($report, qr/had (\d+) dead item identifiers removed/), 25, 'the next VACUUM removes the dead line pointers');
		is($dead->(), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
	}));

	$aio->scenario('failsafe without indexes', with('alice', 100, changes => 1, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 50");
		$alice->sql('SET allow_system_table_mods = on');
		$alice->sql("UPDATE pg_class SET relfrozenxid = ((txid_current() + 2147484296) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
		is(reported(vacuum($alice, 'TRUNCATE on', $t), qr/tuples: (\d+) removed/), 50, 'the rows');
		$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'VACUUM goes into failsafe mode');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 100, 'and does not truncate');
		like(vacuum($alice, 'TRUNCATE on', $t), qr/pages: 50 removed, 50 remain/, 'as the next VACUUM does');
	}));

	# the TOAST table is frozen by itself
	$aio->scenario('failsafe, but not of the TOAST table', with('alice', sub ($alice) {
		my $t = 'scenario.t';
		$alice->sql("CREATE TABLE $t (n int, body text STORAGE external) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 3000) FROM generate_series(1, 20) i; DELETE FROM $t WHERE n <= 10");
		$alice->sql("SET allow_system_table_mods = on; UPDATE pg_class SET relfrozenxid = ((txid_current() + 2147484296) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
		my $toast = vacuum($alice, 'INDEX_CLEANUP on', $t) =~ s/.*?(?=finished vacuuming "postgres.pg_toast)//sr;
		$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'VACUUM goes into failsafe mode');
		is(reported($toast, qr/had (\d+) dead item identifiers removed/), 20, "dead line pointers removed of the table's values, of two chunks each");
	}));

	# it may be at its indexes for hours
	$aio->scenario('what is pinned while VACUUM reads an index', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk % 4 = 1; SELECT evict_rel('scenario.t_i')");
		my $pins = q{SELECT string_agg(format('%s %s', relforknumber, relblocknumber), ', ') FROM pg_buffercache WHERE pinning_backends > 0 AND relfilenode = pg_relation_filenode('};
		$aio->sql("$pins$t')");
		$aio->read_at_completion_wait($alice, "VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t", relation => 'scenario.t_i', pid => $alice->pid, blockno => 1);
		$aio->gives("$pins$t')", '', 'no block of the table and its maps');
		$aio->gives("SELECT phase FROM pg_stat_progress_vacuum WHERE pid = ${\$alice->pid}", 'vacuuming indexes', 'the phase');
		$aio->completion_continue;
		$alice->ends('VACUUM');
	}), skip => $aio->no_faults // $aio->lacks('pg_buffercache'));

	# VACUUM begins ten transactions before that age.  It looks again when its memory for dead rows is
	# full, after some fifty pages, and from then on does not read into its ring any more (server commit
	# 585181e07 of 18.6).
	my $keeps = $aio->major == 18 && $aio->setting('server_version_num') < 180006 || $aio->setting('server_version') =~ /^19beta/
	  ? 'before 18.6 and 19rc1, VACUUM in failsafe mode keeps its ring to the end of the scan' : undef;
	$aio->scenario('failsafe in the middle of a scan', with('alice', 400, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk % 4 = 1");
		$alice->sql("SET allow_system_table_mods = on; SET maintenance_work_mem = '64kB'; SET vacuum_buffer_usage_limit = '128kB'");
		$alice->sql("UPDATE pg_class SET relfrozenxid = ((txid_current() + 2694967306) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
		$aio->evict($t);
		my $reads = $aio->change_during(
			"SELECT sum(read_bytes) FILTER (WHERE context = 'vacuum') / 8192, sum(read_bytes) FILTER (WHERE context = 'normal') / 8192 FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation'",
			sub {
				$aio->read_at_completion_wait($alice, "VACUUM (TRUNCATE off) $t", relation => $t, pid => $alice->pid);
				use_up_xids($aio, 30);
				$aio->completion_continue;
				$alice->ends('VACUUM');
			}, $alice);
		$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'VACUUM goes into failsafe mode');
		my ($ring, $normal) = split m{/}, $reads;
		is_between($ring, 50, 250, 'blocks read into the ring');
		is_between($normal, 150, 400, 'blocks read elsewhere');
		$aio->is_as_written($t, except => join "\n", map { "block ${\(4 * $_ + 1)} has no row" } 0 .. 99);
	}), skip => $keeps // $aio->no_faults);
});

# VACUUM of tables with indexes: the rows, index entries and line pointers that it removes, in one
# or several passes, alone and with parallel workers.

# Kind of index => its definition, and a condition that it serves.
my %by_index = (
	btree => [ 'USING btree (k)', 'k = %s' ],
	hash => [ 'USING hash (k)', 'k = %s' ],
	gist => [ 'USING gist (p)', "p <@ box(point(%1\$s - 0.5, -1), point(%1\$s + 0.5, 1))" ],
	spgist => [ 'USING spgist (p)', "p <@ box(point(%1\$s - 0.5, -1), point(%1\$s + 0.5, 1))" ],
	gin => [ 'USING gin (a) WITH (fastupdate = off)', 'a @> ARRAY[%s]' ],
	'gin, pending list' => [ 'USING gin (a) WITH (fastupdate = on)', 'a @> ARRAY[%s]' ],
	brin => [ 'USING brin (k) WITH (pages_per_range = 2)', 'k = %s' ]);

with_each_io_method('sync; long: all', sub {
	# An index entry that VACUUM fails to remove leads from a deleted key to the row that has its line pointer later.
	$aio->scenario('index entries of dead rows: %s', with('alice', sub ($alice, $kind) {
		my ($using, $condition) = @{ $by_index{$kind} };
		my $t = 'scenario.v';
		$aio->sql("CREATE TABLE $t (k int, p point, a int[], filler text) WITH (autovacuum_enabled = off)");
		my $insert = sub { $aio->sql("INSERT INTO $t SELECT i, point(i, 0), ARRAY[i, i % 10 - 100000], repeat('x', 60) FROM generate_series($_[0], $_[1]) i") };
		$insert->(0, 399) if $kind =~ /pending/;
		$aio->sql("CREATE INDEX v_i ON $t $using");
		$insert->($kind =~ /pending/ ? 400 : 0, 1199);
		my $pages = $aio->sql("SELECT pg_relation_size('$t') / 8192");
		# all rows of a run of pages, and every third row elsewhere
		$aio->sql("DELETE FROM $t WHERE k BETWEEN 400 AND 799 OR k % 3 = 0; SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
		my $removed = grep { $_ % 3 == 0 || $_ >= 400 && $_ < 800 } 0 .. 1199;
		my $index_pages = $aio->sql("SELECT pg_relation_size('scenario.v_i') / 8192");
		$alice->gives("SELECT count(*), count(DISTINCT buf) FROM read_stream_for_blocks('scenario.v_i', ARRAY(SELECT generate_series(0, $index_pages - 1)))", "$index_pages|$index_pages", 'a stream reads the index');
		$aio->evict('scenario.v_i');
		my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
		like($report, qr/index "v_i": pages: /, 'it looks at the index') if $kind ne 'brin';
		is(reported($report, qr/tuples: (\d+) removed/), $removed, 'rows removed');
		is(reported($report, qr/removed, (\d+) remain, 0 are/), 1200 - $removed, 'rows that remain');
		is(reported($report, qr/had (\d+) dead item identifiers removed/), $removed, 'line pointers removed');
		is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'dead line pointers on all pages');
		is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
		$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.v_i'::regclass", 1200 - $removed, 'entries that remain in the index') if $kind =~ /^(?:btree|hash|gist|spgist)/;

		# new rows take the line pointers of the removed rows
		$insert->(5000, 5000 + $removed - 1);
		$aio->gives("SELECT pg_relation_size('$t') / 8192 <= $pages + 1", 't', 'the table has not grown');
		$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.v_i')");
		$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off; SET plan_cache_mode = force_custom_plan');
		my $wrong = sprintf "SELECT count(*) FILTER (WHERE s.found <> (i < 1200 AND i %% 3 <> 0 AND i NOT BETWEEN 400 AND 799 OR i >= 5000 AND i < 5000 + $removed)::int) AS wrong, sum(s.found)"
		  . " FROM (SELECT generate_series(0, 1199) UNION ALL SELECT generate_series(5000, 5000 + $removed)) g(i), LATERAL (SELECT count(*) AS found FROM $t WHERE %s) s", sprintf $condition, 'i';
		# a search by these indexes takes long: fewer keys
		my $step = $kind eq 'brin' ? 97 : $kind =~ /pending/ ? 17 : 1;
		$wrong =~ s/generate_series\((\d+), ([^)]*)\)/generate_series($1, $2, $step)/g;
		my $found = $alice->sql($wrong);
		like($found, qr/^0\|/, 'each key has its row, and deleted keys have none');
		is($found, '0|1200', 'the number of keys with a row') if $step == 1;
		like($alice->sql("EXPLAIN (COSTS off) SELECT * FROM $t WHERE " . sprintf $condition, 2), qr/v_i/, 'the searches use the index');
		$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.v_i', true)) c", 1, 'amcheck finds nothing') if $kind eq 'btree' && !$aio->lacks('amcheck');
	}), each => [ sort keys %by_index ]);

	$aio->scenario('entries of partial indexes', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.p WITH (autovacuum_enabled = off) AS SELECT i AS k, point(i, 0) AS p FROM generate_series(1, 300) i');
		$alice->sql("CREATE INDEX ON scenario.p $by_index{$_}[0] WHERE k <= 100") for qw(btree hash gist spgist);
		for my $statement ('CREATE INDEX', 'VACUUM scenario.p')
		{
			$alice->sql($statement) if $statement =~ /VACUUM/;
			$aio->gives("SELECT string_agg(DISTINCT reltuples::text, ' ') FROM pg_class, pg_index WHERE oid = indexrelid AND indrelid = 'scenario.p'::regclass", 100, "after $statement");
		}
	}));

	# the root is the only page
	$aio->scenario('indexes of one page', with('alice', sub ($alice, $kind, @dead) {
		$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
		my ($using, $condition) = @{ $by_index{$kind} };
		my $t = 'scenario.s';
		my $new = 9 + @dead;
		my $all = join ', ', map { my $k = $_; (grep { $_ == $k } @dead) ? () : "$k: $k" } 0 .. $new;
		$aio->sql("CREATE TABLE $t (k int, p point, a int[]) WITH (autovacuum_enabled = off); CREATE INDEX s_i ON $t $using;"
			  . "INSERT INTO $t SELECT i, point(i, 0), ARRAY[i] FROM generate_series(0, 9) i; DELETE FROM $t WHERE k IN (${\join ', ', @dead})");
		$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t; INSERT INTO $t SELECT i, point(i, 0), ARRAY[i] FROM generate_series(10, $new) i");
		$alice->gives("SELECT string_agg(format('%s: %s', i, s.k), ', ' ORDER BY i, s.k) FROM generate_series(0, $new) i, LATERAL (SELECT k FROM $t WHERE ${\sprintf $condition, 'i'}) s",
			$all, "$kind, ${\scalar @dead} dead: each key has its row, and deleted keys have none");
	}), each => [ combined([ sort keys %by_index ], [ [ 0, 4, 9 ], [6] ]) ], skip => sub ($kind, @dead) { @dead == 1 && $kind !~ /gist/ ? only_long() : undef });

	# a posting list has the places of several rows with the same key
	$aio->scenario('posting lists', with('alice', sub ($alice) {
		my $t = 'scenario.d';
		$aio->sql("CREATE TABLE $t (g int, n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i % 20, i / 20 FROM generate_series(0, 3999) i; CREATE INDEX d_i ON $t (g); DELETE FROM $t WHERE n % 4 = 0");
		is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 1000, 'rows removed');
		$aio->sql("INSERT INTO $t SELECT 20 + i % 20, i FROM generate_series(0, 999) i");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off');
		$alice->gives("SELECT array_agg(DISTINCT (i < 20, s.*)::text) FROM generate_series(0, 39) i, LATERAL (SELECT count(*), count(*) FILTER (WHERE g <> i) FROM $t WHERE g = i) s", '{"(f,50,0)","(t,150,0)"}', 'the rows of each key, and none of another');
	}));

	# a key of many rows has a tree of its own, whose empty leaves are deleted
	$aio->scenario('posting trees', with('alice', sub ($alice) {
		my $t = 'scenario.p';
		$aio->sql("CREATE TABLE $t (n int, a int[]) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, ARRAY[1] FROM generate_series(0, 25999) i; CREATE INDEX p_i ON $t USING gin (a) WITH (fastupdate = off);"
			  . "DELETE FROM $t WHERE n BETWEEN 7000 AND 20999");
		my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
		cmp_ok(reported($report, qr/index "p_i": pages: \d+ in total, (\d+) newly deleted/), '>', 0, 'leaves are deleted') || diag($report);
		$aio->sql("INSERT INTO $t SELECT 100000 + i, ARRAY[2] FROM generate_series(0, 4999) i");
		$alice->sql('SET enable_seqscan = off');
		for my $case ([ 1, '12000|0|25999' ], [ 2, '5000|100000|104999' ])
		{
			my ($key, $expected) = @$case;
			$alice->gives("SELECT count(*), min(n), max(n) FROM $t WHERE a @> ARRAY[$key]", $expected, "the rows with key $key, and none of another");
		}
	}));

	$aio->scenario('several passes, or parallel workers: %s', with('alice', sub ($alice, $workers, $memory, $passes) {
		# one pass with workers, since they take long to start
		my $t = "scenario.w$workers";
		$aio->sql("CREATE UNLOGGED TABLE $t (k int, h int) WITH (autovacuum_enabled = off, fillfactor = 10); INSERT INTO $t SELECT i, i FROM generate_series(1, 4000) i;"
			  . "CREATE INDEX ON $t (k); CREATE INDEX ON $t USING hash (h); CREATE INDEX ON $t (h); DELETE FROM $t WHERE k % 2 = 0; SELECT evict_rel('$t')");
		my $pages = $aio->sql("SELECT pg_relation_size('$t') / 8192");
		$alice->sql("SET maintenance_work_mem = '$memory'; SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2");
		my $index_pages = $aio->sql("SELECT sum(pg_relation_size(indexrelid)) / 8192 + 0 * count(evict_rel(indexrelid)) FROM pg_index WHERE indrelid = '$t'::regclass");
		# the leader waits in the first index until a worker is in another one
		my $holds = $workers && !$aio->no_faults;
		$aio->completion_wait(relation => "${t}_k_idx", pid => $alice->pid) if $holds;
		my $read_in_ring = "SELECT coalesce(sum(read_bytes), 0) / 8192 FROM pg_stat_io WHERE backend_type = 'background worker' AND context = 'vacuum'";
		my $before = $aio->sql($read_in_ring);
		$alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE off, BUFFER_USAGE_LIMIT ${\($workers ? q('128kB') : 0)}, PARALLEL $workers, VERBOSE) $t");
		$aio->wait_for("SELECT count(*) > 0 FROM buffers_in_file(pg_relation_filenode('${t}_h_idx'))") if $holds;
		$aio->completion_continue if $holds;
		$alice->ends;
		my $report = join "\n", $alice->notices;
		cmp_ok(reported($report, qr/hits, (\d+) reads/), '>=', $pages + $index_pages, "blocks read, those of $workers workers, too");
		cmp_ok(reported($report, qr/index scans: (\d+)/), '>=', $passes, "passes over the indexes, with $memory") || diag($report);
		is(reported($report, qr/had (\d+) dead item identifiers removed/), 2000, 'line pointers removed');
		is(reported($report, qr/index scan needed: (\d+) pages/), $pages, 'dead line pointers on all pages');
		like($report, qr/launched [12] parallel vacuum workers? for index vacuuming/, 'workers take part') if $workers;
		cmp_ok($aio->sql($read_in_ring) - $before, '>', 10, 'a worker reads in a ring of buffers, too') if $holds;
		is(pages_with_dead($aio, $t, $pages), 0, 'no dead line pointer is left') if !$aio->lacks('pageinspect');
		if ($workers && $aio->major >= 19)
		{
			# workers clean up if nothing was to be removed
			my $cleanup = vacuum($alice, "INDEX_CLEANUP on, TRUNCATE off, PARALLEL $workers", $t);
			my @summaries = map { join ', ', $_ =~ /parallel workers: index (\w+): [12] planned/g } $report, $cleanup;
			is(join(' / ', @summaries), 'vacuum / cleanup', 'what the workers were for') || diag("$report\n$cleanup");
		}
		$aio->gives("SELECT string_agg(DISTINCT reltuples::text, ',') FROM pg_class JOIN pg_index ON oid = indexrelid WHERE indrelid = '$t'::regclass", 2000, 'entries that remain in each index');
		$aio->sql("INSERT INTO $t SELECT 100000 + i, 100000 + i FROM generate_series(1, 2000) i");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
		$alice->gives("SELECT count(*), sum(k), count(*) FILTER (WHERE k % 2 = 0 AND k < 100000) FROM (SELECT k FROM $t ORDER BY k OFFSET 0) s",
			$aio->sql('SELECT 4000, sum(i) FILTER (WHERE i % 2 = 1) + sum(100000 + i) FILTER (WHERE i <= 2000), 0 FROM generate_series(1, 4000) i'), 'the rows, by an index');
	}), each => [ [ 0, '64kB', 2 ], [ 2, '8MB', 1 ] ]);

	# less memory than an empty list of dead rows takes: a pass for each page
	$aio->scenario('parallel workers, least memory', with('alice', 4, sub ($alice, $t) {
		$aio->sql("CREATE INDEX ON $t (blk); CREATE INDEX ON $t (gen); DELETE FROM $t WHERE blk < 3");
		$alice->sql("SET maintenance_work_mem = '64kB'; SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 1");
		is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off, PARALLEL 1', $t), qr/index scans: (\d+)/), 3, 'passes over the indexes');
		$aio->is_as_written($t, except => join "\n", map { "block $_ has no row" } 0 .. 2);
	}));

	# no row of a table is forgotten in an index that is too small for workers
	$aio->scenario('parallel workers, and a small index', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX ON $t (blk) WITH (fillfactor = 10); CREATE INDEX ON $t (rel, blk) WITH (fillfactor = 10); CREATE INDEX small ON $t (gen, blk) WHERE blk BETWEEN 0 AND 29; INSERT INTO $t SELECT 'x', -i, 0, 'x' FROM generate_series(1, 9000) i");
		$aio->sql("DELETE FROM $t WHERE blk % 2 = 0");
		$alice->sql('SET min_parallel_index_scan_size = 20; SET max_parallel_maintenance_workers = 2');
		like(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off, PARALLEL 2', $t), qr/launched [1-9] parallel vacuum worker/, 'indexes that are large enough have workers');
		$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.small'::regclass", 15, 'entries that remain in the small one');
		$aio->sql("INSERT INTO $t SELECT 'y', 2 * i, 1, 'y' FROM generate_series(1000, 3000) i");
		$alice->gives("SET enable_seqscan = off; SELECT count(*) FROM $t WHERE gen = 0 AND blk BETWEEN 0 AND 20", 10, 'rows by the small index');
	}));

	# reltuples stays the same, whichever pages VACUUM looks at; it looks at all pages if something is old
	$aio->scenario('a table of %s rows that does not change', with('alice', sub ($alice, $rows) {
		my $t = 'scenario.few';
		$aio->sql("CREATE TABLE $t WITH (autovacuum_enabled = off) AS SELECT i FROM generate_series(1, $rows) i; DELETE FROM $t WHERE ctid >= '(${\int $rows / 226},5)'");
		for my $options ('FREEZE', ('TRUNCATE off') x 5)
		{
			$alice->sql("VACUUM ($options) $t");
			$aio->gives("SELECT reltuples FROM pg_class WHERE oid = '$t'::regclass", $aio->sql("SELECT count(*) FROM $t"), "after VACUUM ($options)");
		}
		# a row less on one of two pages that it looks at
		$alice->sql("DELETE FROM $t WHERE i = 1; VACUUM (TRUNCATE off) $t");
		$aio->gives("SELECT reltuples - (SELECT count(*) FROM $t) FROM pg_class WHERE oid = '$t'::regclass", 1, 'of a small part it knows too little') if $rows > 10000;
		for my $setting (qw(vacuum_freeze_table_age vacuum_multixact_freeze_table_age))
		{
			unlike(vacuum($alice, 'TRUNCATE off', $t), qr/aggressively/, "before $setting = 0");
			$alice->sql("SET $setting = 0");
			like(vacuum($alice, 'TRUNCATE off', $t), qr/aggressively vacuuming/, "$setting = 0");
			$alice->sql("RESET $setting");
		}
		# ANALYZE does not note what is rolled back
		$aio->sql("CREATE INDEX few_i ON $t (i)");
		$alice->sql($_) for 'BEGIN', 'DROP INDEX scenario.few_i', "ANALYZE $t", 'ROLLBACK';
		$aio->gives("SELECT relhasindex FROM pg_class WHERE oid = '$t'::regclass", 't', 'the index is there again');
	}), each => [ 9000, 24000 ]);

	$aio->scenario('VACUUM (FULL, ANALYZE)', with('alice', 100, sub ($alice, $t) {
		# a file that is synced instead of logged is not read for that
		$alice->sql("SET wal_skip_threshold = 0; SET vacuum_buffer_usage_limit = '128kB'; VACUUM (FULL, ANALYZE) $t");
		is_between(scalar(split /,/, $aio->cached($t)), 1, 16, 'blocks that ANALYZE has left in the cache');
		$alice->sql('CREATE TABLE scenario.w (body text)');
		$alice->notices;
		$alice->sql('VACUUM (FULL, VERBOSE) scenario.w');
		is(scalar(grep { /^\w+ing "/ } $alice->notices), 1, 'its TOAST table is not rewritten again');
	}), skip => $aio->lacks('pg_buffercache'));

	$aio->scenario('SKIP_LOCKED', with('alice bob', [ t => 4, changes => 1 ], [ u => 4, changes => 1 ], sub ($alice, $bob, $t, $u) {
		$bob->sql("BEGIN; LOCK TABLE $t IN SHARE MODE");
		for my $command ('VACUUM', 'ANALYZE')
		{
			$alice->sql("$command (SKIP_LOCKED) $t, $u");
			$alice->warns(qr/skipping \L$command\E of "t" --- lock not available/);
		}
		$bob->sql('ROLLBACK');
		$aio->gives("SELECT relname, vacuum_count, analyze_count FROM pg_stat_all_tables WHERE schemaname = 'scenario' ORDER BY 1", "t|1|0\nu|2|1", 'the other table is vacuumed and analyzed');
	}));

	$aio->scenario('what moves datfrozenxid', sub {
		$aio->sql('CREATE DATABASE other TEMPLATE postgres');
		my $bob = $aio->session('bob', dbname => 'other');
		my $frozen = '(SELECT datfrozenxid::text::bigint FROM pg_database WHERE datname = current_database())';
		my $before = $bob->sql("SELECT $frozen");
		$bob->gives("VACUUM (FREEZE, SKIP_DATABASE_STATS); SELECT $frozen", $before, 'not VACUUM with SKIP_DATABASE_STATS');
		$bob->gives("VACUUM (ONLY_DATABASE_STATS); SELECT $frozen > $before", 't', 'but ONLY_DATABASE_STATS');
	});

	# statistics of dropped partitions go
	$aio->scenario('ANALYZE of a table whose last partition has gone', with('alice', sub ($alice) {
		$alice->sql($_) for 'CREATE TABLE scenario.p (n int) PARTITION BY RANGE (n)', 'CREATE TABLE scenario.p1 PARTITION OF scenario.p FOR VALUES FROM (0) TO (100)', 'CREATE INDEX ON scenario.p (n)', 'INSERT INTO scenario.p SELECT generate_series(0, 9)', 'ANALYZE scenario.p';
		my $known = "SELECT reltuples, relhassubclass, relhasindex FROM pg_class WHERE oid = 'scenario.p'::regclass";
		$alice->gives($known, '10|t|t', 'rows of the partition');
		$alice->sql($_) for 'DROP TABLE scenario.p1', 'ANALYZE scenario.p';
		$alice->gives($known, '0|f|t', 'and afterwards');
	}));

	# whose rows go when VACUUM's own transactions commit
	$aio->scenario('a table ON COMMIT DELETE ROWS', with('alice', sub ($alice) {
		$alice->note_temporary_tables;
		$alice->sql('CREATE TEMP TABLE t (n int PRIMARY KEY, body text) ON COMMIT DELETE ROWS');
		for my $command ('VACUUM t', 'VACUUM (ANALYZE) t', 'VACUUM (ANALYZE)', 'ANALYZE t', 'VACUUM (FULL, ANALYZE) t')
		{
			# ANALYZE notes in pg_class that the last child has gone
			$alice->sql('CREATE TEMP TABLE child () INHERITS (t); DROP TABLE child');
			$alice->sql($command);
			$alice->sql("BEGIN; INSERT INTO t SELECT generate_series(1, 100)");
			$alice->gives('SELECT count(*) FROM t; COMMIT; SELECT count(*), pg_relation_size(\'t\') FROM t', "100\n0|0", $command);
		}
	}));

	# workers share the limit, except for tables that have their own
	$aio->scenario('the balance of autovacuum', sub {
		my %options = (neither => '', delay => ', autovacuum_vacuum_cost_delay = 1', zero => ', autovacuum_vacuum_cost_delay = 0', limit => ', autovacuum_vacuum_cost_limit = 50');
		$aio->sql("CREATE TABLE scenario.$_ (n int) WITH (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0$options{$_}); INSERT INTO scenario.$_ VALUES (1); DELETE FROM scenario.$_; SELECT pg_stat_force_next_flush()") for sort keys %options;
		$aio->alter_system(log_min_messages => 'debug2', autovacuum_naptime => 1, autovacuum_max_workers => 1, autovacuum => 'on');
		my %found;
		my %name_of = reverse map { split /\|/ } split /\n/, $aio->sql(q{SELECT relname, oid FROM pg_class WHERE relnamespace = 'scenario'::regnamespace});
		ok($aio->poll(sub { %found = $aio->log_text =~ /VacuumUpdateCosts\(db=\d+, rel=(\d+), (dobalance=\w+, cost_limit=\d+, cost_delay=\S+)/g; !grep { !$found{$_} } keys %name_of }), 'workers vacuum all');
		$aio->alter_system(autovacuum => 'off', log_min_messages => 'DEFAULT');
		is(join('; ', map { "$name_of{$_}: " . ($found{$_} // 'none') } sort { $name_of{$a} cmp $name_of{$b} } keys %name_of),
			'delay: dobalance=no, cost_limit=200, cost_delay=1; limit: dobalance=no, cost_limit=50, cost_delay=2; neither: dobalance=yes, cost_limit=200, cost_delay=2; zero: dobalance=no, cost_limit=200, cost_delay=0', 'the limits of each');
		$aio->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'autovacuum'");
	});

	# unless it prevents wraparound
	$aio->scenario('autovacuum gives way', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql("ALTER TABLE $t SET (autovacuum_enabled, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_cost_delay = 100); DELETE FROM $t; SELECT pg_stat_force_next_flush()");
		$aio->alter_system(autovacuum_naptime => 1, autovacuum => 'on');
		$aio->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'autovacuum: VACUUM %$t' AND wait_event = 'VacuumDelay'");
		# no other worker starts afterwards
		$aio->alter_system(autovacuum => 'off');
		$alice->sql("SET deadlock_timeout = '10ms'; BEGIN; LOCK TABLE $t; COMMIT");
		$aio->logs(qr/autovacuum worker ERROR:  canceling autovacuum task/, 1, 'the lock cancels it');
		$aio->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'autovacuum'");
	}), log => qr/autovacuum worker ERROR:  canceling autovacuum task/);

	# the lock of a row that two sessions share is neither frozen nor lost
	$aio->scenario('a row that two sessions lock', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t) {
		$_->sql("BEGIN; SELECT FROM $t WHERE blk = 3 FOR KEY SHARE") for $alice, $bob;
		vacuum($carol, 'FREEZE, TRUNCATE off', $t);
		my $lock = "SELECT FROM $t WHERE blk = 3 FOR UPDATE NOWAIT";
		$carol->fails($lock, '55P03', qr/could not obtain lock/, 'the row stays locked');
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
		$_->sql('COMMIT') for $alice, $bob;
		vacuum($carol, 'FREEZE, TRUNCATE off', $t);
		$carol->sql($lock);
	}));

	# options of one relation are not those of the next one, nor of its TOAST table
	$aio->scenario('options of relations', with('alice', sub ($alice, $option) {
		for my $name ('a', 'b')
		{
			$aio->sql("CREATE TABLE scenario.$name (i int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off" . ($name eq 'a' ? ", $option = off, toast.$option = on" : '') . ');'
				  . "INSERT INTO scenario.$name SELECT i, repeat('x', 6000) FROM generate_series(1, 300) i; CREATE INDEX ON scenario.$name (i); DELETE FROM scenario.$name");
		}
		$alice->notices;
		$alice->sql('VACUUM (VERBOSE) scenario.a, scenario.b');
		# whether dead rows are gone from indexes, and pages from tables
		my @reports = grep { /finished vacuuming/ } map { split /(?=^.*finished vacuuming)/m } $alice->notices;
		my $done = join ' ', map { my $report = $_; ($option =~ /index/ ? $report =~ /index scans: 1/ : $report =~ /pages: [1-9]\d* removed/) ? 'yes' : 'no' } @reports;
		is($done, 'no yes yes yes', "$option = off, for one of two tables and TOAST tables") || diag(join "\n", @reports);
	}), each => [ 'vacuum_truncate', 'vacuum_index_cleanup' ]);
});

# VACUUM that truncates a table: the pages that it cuts off, and a row that another session inserts meanwhile.
for_each_io_method('worker; long: all', sub {
	# the page of the last row that stays, -1 without one
	$aio->scenario('empty pages at the end', with('alice', 100, changes => 1, sub ($alice, $t, $last) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk > 10 AND blk <> $last OR $last < 10 AND blk <> $last; SELECT evict_rel('$t')");
		my $report = vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE on', $t);
		my $size = $last + 1;
		is(reported($report, qr/pages: (\d+) removed/), 100 - $size, "last row on page $last: pages removed");
		$aio->gives("SELECT pg_relation_size('$t') / 8192, relpages, reltuples FROM pg_class WHERE oid = '$t'::regclass", join('|', ($size) x 2, $last < 0 ? 0 : $last < 10 ? 1 : 12), 'the size, and what VACUUM notes in pg_class');
		$aio->gives("SELECT coalesce(string_agg(blk::text, ',' ORDER BY ctid), 'none') FROM $t WHERE body = proof('$t', blk, 0)",
			join(',', $last < 0 ? 'none' : $last < 10 ? $last : (0 .. 10, $last)), 'the rows');
		# pages that come again do not have their old rows
		$aio->sql("CALL add_pages('$t', 200, 220, 1); SELECT evict_rel('$t')");
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE gen = 1 AND body = proof('$t', blk, 1)) FROM $t", (21 + ($last < 0 ? 0 : $last < 10 ? 1 : 12)) . '|21', 'new rows');
	}), each => [ 99, 72, 60, 31, 32, 33, 0, -1 ]);

	# after a crash the file must not be shorter than the WAL says; nobody else writes the WAL meanwhile
	$aio->scenario('the record of a truncation', with('alice', 100, changes => 1, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk > 10; VACUUM (TRUNCATE off) $t; CHECKPOINT");
		my $before = $aio->sql('SELECT pg_current_wal_insert_lsn()');
		while_still($aio->pids_of_type('walwriter'), sub {
			$alice->sql("SET synchronous_commit = off; VACUUM (TRUNCATE on) $t");
			$alice->gives("SELECT pg_relation_size('$t') / 8192, pg_current_wal_flush_lsn() > '$before'", '11|t', 'is written before the table is cut off');
		});
		my ($after, $file) = split /\|/, $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true), pg_relation_filenode('$t')");
		my %logged = map { $_ => 1 } map { m{/$file fork (\w+) blk \d+ FPW} } $aio->wal_records($before, $after);
		is(join(' ', sort keys %logged), 'fsm vm', 'and the pages of the maps that are cut off in part');
	}));

	# VACUUM needs all for itself, but only if there is something to cut off
	$aio->scenario('a session that reads meanwhile', with('alice bob', [ t => 100, changes => 1 ], [ u => 10 ], sub ($alice, $bob, $t, $u) {
		$bob->sql("BEGIN; SELECT count(*) FROM $t, $u");
		unlike(vacuum($alice, 'TRUNCATE on', $u), qr/stopping truncate/, 'a table without empty pages');
		$aio->sql("DELETE FROM $t WHERE blk > 10");
		$alice->notices;
		$alice->waits("VACUUM (TRUNCATE on, VERBOSE) $t", 'VacuumTruncate', 'waits for the other session');
		$bob->sql('COMMIT');
		$alice->ends('VACUUM');
		# as it does after five seconds
		unlike(join("\n", $alice->notices), qr/stopping truncate/, 'it has not given up');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 11, 'it cuts off the table then');
	}));

	# VACUUM has seen that the last pages are empty, and looks at them again before it cuts them off
	$aio->scenario('a row that comes meanwhile', with('alice bob', 100, changes => 1, sub ($alice, $bob, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk > 10");
		$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t; DELETE FROM $t WHERE blk = 3; SELECT evict_rel('scenario.t_i'); SELECT io_hold('scenario.t_i')");
		$alice->waits("VACUUM (INDEX_CLEANUP on, TRUNCATE on) $t", 'IoGateHeld', 'has read the table, and begins to read the index');
		$aio->io_hold_end;
		# INSERT may wait for a block of the index, which VACUUM reads
		$bob->starts("CALL add_pages('$t', 500, 500)");
		$aio->poll(sub { $bob->has_ended || $aio->wait_event($bob->pid) eq 'IoGateHeld' });
		$aio->end_holds;
		$bob->ends('INSERT');
		$alice->ends('VACUUM');
		$aio->gives("SELECT string_agg(blk::text, ',' ORDER BY blk), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t", '0,1,2,4,5,6,7,8,9,10,500|11', 'the rows');
		my $at = $aio->sql("SELECT (ctid::text::point)[0]::int FROM $t WHERE blk = 500");
		cmp_ok($at, '>', 10, 'the new row lies behind the others');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", $at + 1, 'the table ends with the new row');
		$aio->evict($t);
		$alice->sql('SET enable_seqscan = off');
		$alice->gives("SELECT gen FROM $t WHERE blk = 500", 0, 'the new row, by the index');
	}), skip => $aio->lacks('gate'));
});
