# VACUUM: the pages that it reads and those that it skips, pages that are pinned, and failsafe mode.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;
use Time::HiRes qw(time);

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('pages that are skipped', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
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
			$aio->proves($t);
			$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '200|200', 'all pages are all-visible and all-frozen') if !$aio->lacks('pg_visibility');
			$aio->gives("SELECT count(*) FROM pg_check_visible('$t')", 0, 'no page is wrongly all-visible') if !$aio->lacks('pg_visibility');
			$aio->gives("SELECT count(*) FROM pg_check_frozen('$t')", 0, 'no page is wrongly all-frozen') if !$aio->lacks('pg_visibility');
		});

		$aio->scenario('what the report says of I/O', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
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
		});

		$aio->scenario('a view', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('CREATE VIEW scenario.v AS SELECT 1');
			$alice->sql('VACUUM scenario.v');
			$alice->warns(qr/skipping "v" --- cannot vacuum non-tables or special system tables/, 'is left out');
		});

		# dead rows on less than a fiftieth of the pages are not worth a look at the indexes
		$aio->scenario('few dead rows', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
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
		});

		# three rows a page, so that a scan does not prune the page of the deleted row
		$aio->scenario('a pinned page', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = 'scenario.p';
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 2300) FROM generate_series(0, 59) i;"
				  . "VACUUM (FREEZE) $t; DELETE FROM $t WHERE n = 16");
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t");
			$bob->gives('MOVE 15 FROM c; FETCH 1 FROM c', 15, 'a cursor stands beside the deleted row');
			my $report = vacuum($alice, 'TRUNCATE off', $t);
			is(reported($report, qr/tuples missed: (\d+) dead from 1 pages not removed due to cleanup lock contention/), 1, 'VACUUM leaves the row');
			$alice->notices;
			$alice->starts("VACUUM (FREEZE, TRUNCATE off, VERBOSE) $t");
			ok($alice->gets_to_wait(qr/^Buffer(?:Pin|Cleanup)$/), 'VACUUM (FREEZE) waits for the pin') || diag($aio->activity($alice->pid));
			$bob->gives('FETCH ALL FROM c', join("\n", 17 .. 59), 'the cursor goes on');
			$bob->sql('COMMIT');
			$alice->ends('VACUUM (FREEZE)');
			is(reported(join("\n", $alice->notices), qr/tuples: (\d+) removed/), 1, 'it removes the row');
			$aio->evict($t);
			$aio->gives("SELECT count(*), sum(n) FROM $t", '59|1754', 'the rows');
		});

		$aio->scenario('what its progress says', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			for my $case ([ 'normal', 'TRUNCATE off' ], [ 'aggressive', 'FREEZE, TRUNCATE off' ], [ 'aggressive', 'DISABLE_PAGE_SKIPPING, TRUNCATE off' ])
			{
				my ($mode, $options) = @$case;
				$alice->sql("DELETE FROM $t WHERE blk = (SELECT max(blk) FROM $t)");
				$aio->evict($t);
				$aio->hold(relation => $t, pid => $alice->pid);
				$alice->starts("VACUUM ($options) $t");
				$aio->holds(1);
				$aio->gives("SELECT mode, started_by, phase, heap_blks_total FROM pg_stat_progress_vacuum WHERE pid = ${\$alice->pid}", "$mode|manual|scanning heap|40", $options);
				$aio->release;
				$alice->ends('VACUUM');
			}
		}, skip => $aio->major >= 19 ? $aio->no_faults : 'the view shows the mode since 19');

		# the catalog says that the table was frozen 2,147,483,000 transactions ago
		$aio->scenario('failsafe', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
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
					$aio->hold(relation => $t, pid => $alice->pid);
					$alice->starts($vacuum);
					$aio->holds(1);
					$aio->gives("SELECT mode, phase FROM pg_stat_progress_vacuum WHERE pid = ${\$alice->pid}", 'failsafe|scanning heap', 'the view of its progress says so');
					$aio->release;
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
		});

		# VACUUM begins ten transactions before that age.  It looks again when its memory for dead rows is
		# full, after some fifty pages, and from then on does not read into its ring any more (server commit
		# 585181e07 of 18.6).
		my $keeps = $aio->major == 18 && $aio->setting('server_version_num') < 180006 || $aio->setting('server_version') =~ /^19beta/
		  ? 'before 18.6 and 19rc1, VACUUM in failsafe mode keeps its ring to the end of the scan' : undef;
		$aio->scenario('failsafe in the middle of a scan', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 400);
			$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk % 4 = 1");
			$alice->sql("SET allow_system_table_mods = on; SET maintenance_work_mem = '64kB'; SET vacuum_buffer_usage_limit = '128kB'");
			$alice->sql("UPDATE pg_class SET relfrozenxid = ((txid_current() + 2694967306) % 4294967296)::text::xid WHERE oid = '$t'::regclass");
			$aio->evict($t);
			my $reads = $aio->change_during(
				"SELECT sum(read_bytes) FILTER (WHERE context = 'vacuum') / 8192, sum(read_bytes) FILTER (WHERE context = 'normal') / 8192 FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation'",
				sub {
					$aio->hold(relation => $t, pid => $alice->pid);
					$alice->starts("VACUUM (TRUNCATE off) $t");
					$aio->holds(1);
					$aio->sql('SELECT txid_current()') for 1 .. 30;
					$aio->release;
					$alice->ends('VACUUM');
				}, $alice);
			$alice->warns(qr/bypassing nonessential maintenance of table "postgres.scenario.t" as a failsafe after 0 index scans/, 'VACUUM goes into failsafe mode');
			my ($ring, $normal) = split m{/}, $reads;
			is_between($ring, 50, 250, 'blocks read into the ring');
			is_between($normal, 150, 400, 'blocks read elsewhere');
			$aio->proves($t, except => join "\n", map { "block ${\(4 * $_ + 1)} has no row" } 0 .. 99);
		}, skip => $keeps // $aio->no_faults);
	});
