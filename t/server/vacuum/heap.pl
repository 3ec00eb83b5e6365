# VACUUM of pages that others use or that are odd: which it scans, freezes and cuts off, and what it says of each.
use TestAio;

# Tests which pages of a table without indexes are all-visible and all-frozen, as numbers.
sub maps ($aio, $t, $visible, $frozen, $name)
{
	return if $aio->lacks('pg_visibility');
	return $aio->gives("SELECT coalesce(string_agg(blkno::text, ' ' ORDER BY blkno) FILTER (WHERE all_visible), ''), coalesce(string_agg(blkno::text, ' ' ORDER BY blkno) FILTER (WHERE all_frozen), '') FROM pg_visibility_map('$t')", "$visible|$frozen", $name);
}

# The blocks that VACUUM scans, and how many eagerly, if the second region begins at this block: all are visible to all,
# and the first one alone can be frozen.  VACUUM knows of no block whether it was frozen when it chooses the next one.
sub scanned ($region, $pages, $fails_per_region)
{
	my ($fails, $next, $chosen, $eagerly, @scanned) = (int $fails_per_region * (1 - $region / 4096), $region, undef, 0);
	for my $block (0 .. $pages - 1)
	{
		($fails, $next) = ($fails_per_region, $next + 4096) if $block >= $next;
		next if !$fails && $block < $pages - 1;
		# VACUUM skips no range of less than 32 pages
		my $first = @scanned ? $scanned[-1] + 1 : 0;
		push @scanned, ($block - $first < 32 ? $first .. $block - 1 : ()), $block;
		$eagerly++ if $block < $pages - 1;
		$fails-- if $chosen && $fails;
		$chosen = $block;
	}
	return (join(',', @scanned), $eagerly);
}

with_each_io_method('sync; long: all', sub {
	# VACUUM gives up a region of 4096 blocks after some failures, and begins with the next one anew; where they begin is chosen
	# at random.  The table has the least size for that.
	$aio->scenario('all-visible pages that are scanned eagerly', with('alice', sub ($alice) {
		my ($t, $pages) = ('scenario.e', 8192);
		$aio->sql("CREATE UNLOGGED TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 10); INSERT INTO $t VALUES (0, repeat('x', 600))");
		use_up_xids($aio, 20);
		$aio->sql("INSERT INTO $t SELECT i, repeat('x', 600) FROM generate_series(1, $pages - 1) i");
		# no block is read before VACUUM knows of the one before
		$alice->sql("SET io_combine_limit = 1; SET maintenance_io_concurrency = 0; SET vacuum_freeze_min_age = 1000000; VACUUM $t");
		my $frozenxid = "SELECT relfrozenxid FROM pg_class WHERE oid = '$t'::regclass";
		my $before = $aio->sql($frozenxid);
		my $eagerly = sub ($options) { return reported(vacuum($alice, "TRUNCATE off, BUFFER_USAGE_LIMIT 0$options", $t), qr/, (\d+ scanned \(.*\), \d+ eagerly) scanned/) =~ s/scanned \(.*\), (\d+) eagerly/$1/r };
		is($eagerly->(''), '1 0', 'nothing is old enough');
		my $age = $aio->sql("SELECT age(xmin) + 5 FROM $t WHERE n = 1");
		$alice->sql("SET vacuum_freeze_min_age = $age; SET vacuum_max_eager_freeze_failure_rate = 0");
		is($eagerly->(''), '1 0', 'a rate of 0');
		$aio->sql("ALTER TABLE $t SET (vacuum_max_eager_freeze_failure_rate = 0.01)");
		$aio->evict($t);
		my ($scanned, $are_eager) = split / /, $eagerly->('');
		my $cached = $aio->cached($t);
		my @cached = split /,/, $cached;
		# the third region is 4096 blocks later
		my @regions = grep { my $region = $_; $region < 4096 && grep({ $_ == $region + 4096 } @cached) && (scanned($region, $pages, 40))[0] eq $cached } @cached;
		is(scalar @regions, 1, 'the blocks that are read are those of one place at which regions begin') || diag($cached);
		is("$scanned $are_eager", join(' ', scalar @cached, (scanned($regions[0] // 0, $pages, 40))[1]), 'VACUUM counts them');
		$aio->gives($frozenxid, $before, 'relfrozenxid of a table with pages that are skipped');
		# the first page is scanned unless the first region ends too early
		my $first = $aio->sql("SELECT all_frozen FROM pg_visibility_map_summary('$t')");
		maps($aio, $t, join(' ', 0 .. $pages - 1), $first ? 0 : '', 'at most the page that is old enough is frozen');

		my $limit = int +($pages - $first) / 5;
		$alice->sql('SET vacuum_freeze_min_age = 0');
		$aio->sql("ALTER TABLE $t SET (vacuum_max_eager_freeze_failure_rate = 1)");
		my $report = vacuum($alice, 'TRUNCATE off', $t);
		like($report, qr/disabling eager scanning after freezing $limit eagerly scanned blocks of relation "postgres.scenario.e"/, 'a fifth of the pages is frozen');
		# besides the block that was chosen already, and the last one
		my $frozen = $limit + 2;
		like($report, qr/frozen: $frozen pages from table .* had $frozen tuples frozen\n.*: 0 pages set all-visible, $frozen pages set all-frozen \($frozen were/, 'one row on each');
		maps($aio, $t, join(' ', 0 .. $pages - 1), join(' ', 0 .. $first + $limit, $pages - 1), 'the first ones, and the last one');
		$aio->gives($frozenxid, $before, 'relfrozenxid stays once more');
		is($eagerly->(', FREEZE'), $pages - $first - $limit - 1 . ' 0', 'VACUUM (FREEZE) scans the others, which is not eager');
		$aio->gives("SELECT age(relfrozenxid) < 5 FROM pg_class WHERE oid = '$t'::regclass", 't', 'and relfrozenxid advances');
		$aio->gives("SELECT count(*), sum(n) FROM $t", $pages . '|' . $pages * ($pages - 1) / 2, 'the rows');
	}), skip => $aio->lacks('pg_buffercache') // $aio->lacks('pg_visibility'));

	# a page that would be written to the WAL as a whole anyway is frozen meanwhile
	$aio->scenario('young rows are frozen %s', with('alice', sub ($alice, $, $prepare, $frozen) {
		my $t = 'scenario.o';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 2200) FROM generate_series(1, 9) i");
		$aio->sql($_) for map { s/%s/$t/r } @$prepare;
		# a session that writes no WAL does not hear of the checkpoint
		$alice->sql("SELECT pg_logical_emit_message(false, '', '')");
		$alice->sql("SET vacuum_freeze_min_age = 1000000; VACUUM $t");
		# 19 writes the page of each bit that it sets in the map
		$frozen = '0 1 2' if $aio->major >= 19 && $frozen ne '';
		maps($aio, $t, '0 1 2', $frozen, 'pages that are visible, and frozen');
	}), each => [ [ 'for the image of hint bits', ['CHECKPOINT'], '0 1 2' ], [ 'for the image of a pruned page', [ 'DELETE FROM %s WHERE n = 1', 'SELECT count(*) FROM %s', 'CHECKPOINT' ], '0' ],
		[ 'for the image of a page that need not be pruned any more', [ "DO 'BEGIN DELETE FROM %s WHERE n = 5; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END'", 'SELECT count(*) FROM %s', 'CHECKPOINT' ], '1' ],
		[ 'for no other reason', [ 'DELETE FROM %s WHERE n = 1', 'SELECT count(*) FROM %s' ], '' ] ]);

	# dead line pointers, dead rows, a redirection, and rows that a transaction inserts and deletes
	$aio->scenario('a pinned page, %s', with('alice carol', sub ($alice, $carol, $, $index, $missed, $removed) {
		my $t = 'scenario.p';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 90); INSERT INTO $t SELECT i, repeat('x', 92) FROM generate_series(1, 54) i; CREATE INDEX p_i ON $t (n)");
		$aio->sql($_) for "DELETE FROM $t WHERE n < 3", "UPDATE $t SET body = repeat('y', 92) WHERE n IN (5, 6)", "SELECT count(*) FROM $t", $index, "DELETE FROM $t WHERE n IN (8, 9)";
		my $items = "SELECT string_agg(lp || ':' || lp_flags, ' ' ORDER BY lp) FROM heap_page_items(get_raw_page('$t', 0)) WHERE lp_flags <> 1 OR lp > 54";
		$aio->gives($items, '1:3 2:3 5:2 6:2 55:1 56:1', 'what is on it') if !$aio->lacks('pageinspect');
		# scans do not prune a page that has room again
		$carol->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t; MOVE 1 FROM c; DELETE FROM $t WHERE n = 7; INSERT INTO $t VALUES (100, 'z')");
		my $xmin = $aio->sql("SELECT min(xmin::text::bigint) FROM $t");
		$alice->sql('SET vacuum_freeze_min_age = 0');
		my $report = vacuum($alice, 'INDEX_CLEANUP on', $t);
		is(reported($report, qr/tuples missed: (\d+) dead from 1 pages/), $missed, 'dead rows that stay');
		is(reported($report, qr/had (\d+) dead item identifiers removed/), $removed, 'dead line pointers that go');
		like($report, qr/tuples: 0 removed, ${\(50 + $missed)} remain/, 'the transaction in progress has its row, and not yet the new one');
		$aio->gives("SELECT relfrozenxid::text::bigint - $xmin, reltuples FROM pg_class WHERE oid = '$t'::regclass", '0|50', 'relfrozenxid: of the oldest row');
		$aio->gives($items, $removed ? '1:0 2:0 5:2 6:2 55:1 56:1 57:1' : '1:3 2:3 5:2 6:2 55:1 56:1 57:1', 'what is left') if !$aio->lacks('pageinspect');
		$carol->sql('ROLLBACK');
		like(vacuum($alice, 'INDEX_CLEANUP on', $t), qr/tuples: 3 removed, 50 remain/, 'the next VACUUM removes them');
		maps($aio, $t, 0, 0, 'and freezes the page');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '50|1465', 'the rows');
	}), each => [ [ 'with an index', 'SELECT', 2, 2 ], [ 'without one', 'DROP INDEX scenario.p_i', 4, 0 ] ]);

	# bits of the map and of the page that do not fit; an empty page
	$aio->scenario('pages that are not as VACUUM leaves them', with('alice', sub ($alice) {
		my $t = 'scenario.w';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 2000) FROM generate_series(0, 19) i; CREATE INDEX ON $t (n); SELECT grow_rel('$t', 3)");
		# after it the page has its right checksum; a new page gets a header
		my $write = sub ($block, $offset = undef, $bytes = undef) {
			$aio->evict($t);
			$aio->overwrite($aio->file_of($t), 8192 * $block + $offset, $bytes) if defined $offset;
			$aio->sql("SELECT modify_rel_block('$t', $block)");
		};
		$write->(6, 0, pack 'V2 v6 V', 0, 0, 0, 0, 24, 8192, 8192, 8196, 0);
		like(vacuum($alice, 'TRUNCATE off', $t), qr/remain, 8 scanned .*\n(?:.*\n)*?visibility map: 6 pages set all-visible, \d+ pages set all-frozen/, 'an empty page is visible to all, new ones are not');
		maps($aio, $t, '0 1 2 3 4 6', 6, 'and frozen');
		$aio->gives("SELECT string_agg(pg_freespace('$t', i)::text, ' ') FROM generate_series(5, 7) i", '8160 8160 8160', 'all three are free') if !$aio->lacks('pg_freespacemap');
		like(vacuum($alice, 'DISABLE_PAGE_SKIPPING, TRUNCATE off', $t), qr/visibility map: 0 pages set all-visible/, 'it counts once');
		# page 1: the flag is not set; page 2: a row is a dead line pointer
		$aio->gives("SELECT flags FROM page_header(get_raw_page('$t', 1))", 4, 'PD_ALL_VISIBLE');
		$write->(1, 10, pack 'v', 0);
		$write->(2, 24, pack 'V', 3 << 15);
		vacuum($alice, 'DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on, TRUNCATE off', $t);
		$alice->warns(qr/page is not marked all-visible but visibility map bit is set(?: in relation "w" page 1|\n.*relation "w", page 1\n)/, 'the flag is missed');
		$alice->warns(qr/page containing LP_DEAD items is marked as all-visible in relation "w" page 2|dead line pointer found on page marked all-visible\n.*relation "w", page 2,/, 'and what is dead is found');
		vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
		maps($aio, $t, '0 1 2 3 4 6', 6, 'later all is right again');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '19|182', 'the rows');
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
	}), skip => $aio->lacks('pageinspect'));

	# autovacuum logs what VACUUM (VERBOSE) says of a table that is alike, and counts it
	$aio->scenario('what autovacuum logs', with('alice', sub ($alice) {
		my ($all, $old) = (', autovacuum_freeze_table_age = 0', ', autovacuum_freeze_max_age = 100000');
		my %kinds = (normal => '', aggressive => $all, wraparound => $old, both => $old . $all);
		for my $kind (sort keys %kinds)
		{
			for my $t ("scenario.$kind", "scenario.manual_$kind")
			{
				my $on = $t =~ /manual/ ? 'autovacuum_enabled = off' : "autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, log_autovacuum_min_duration = 0$kinds{$kind}";
				$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH ($on); CREATE INDEX ON $t (n)");
				$aio->sql("INSERT INTO $t SELECT i, repeat('x', 700) FROM generate_series(1, 200) i");
				$aio->sql("DELETE FROM $t WHERE n % 2 = 0 OR n > 150; SELECT pg_stat_force_next_flush()");
				$aio->sql("SET allow_system_table_mods = on; UPDATE pg_class SET relfrozenxid = ((txid_current() + 4294767296) % 4294967296)::text::xid WHERE oid = '$t'::regclass; RESET allow_system_table_mods") if $kinds{$kind} =~ /max_age/;
			}
		}
		$aio->alter_system(autovacuum_naptime => 1, autovacuum => 'on');
		$aio->wait_for("SELECT count(*) = 4 FROM pg_stat_all_tables WHERE schemaname = 'scenario' AND autovacuum_count > 0");
		$aio->alter_system(autovacuum => 'off');
		$aio->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'autovacuum'");
		my $log = $aio->log_text;
		for my $kind (sort keys %kinds)
		{
			my $words = $kinds{$kind} =~ /table_age/ ? 'aggressive ' : '';
			my $reason = $kinds{$kind} =~ /max_age/ ? 'to prevent wraparound ' : '';
			my ($logged) = $log =~ /autovacuum worker LOG:  automatic ${words}vacuum ${reason}of table "postgres\.scenario\.$kind": (.*\n(?:\t.*\n)+)/ or fail("$kind: no line of the log"), next;
			$alice->sql('SET vacuum_freeze_table_age = ' . ($words ? 0 : 150000000));
			my $report = vacuum($alice, 'PARALLEL 0', "scenario.manual_$kind");
			like($logged, qr/tuples: 125 removed, 75 remain/, "$kind: rows");
			my $facts = sub ($text) { return join "\n", map { s/^\t//r =~ s/manual_//r } grep { /pages|tuples|index/ } split /\n/, $text =~ s/.*"postgres.scenario.manual_$kind": //sr };
			is($facts->($logged), $facts->($report), "$kind: as VACUUM (VERBOSE)");
			$aio->gives("SELECT n_live_tup, n_dead_tup, autovacuum_count, vacuum_count, last_autovacuum IS NOT NULL, total_autovacuum_time > 0, reltuples, age(relfrozenxid) < 1000 FROM pg_stat_all_tables JOIN pg_class c ON c.oid = relid WHERE relid = 'scenario.$kind'::regclass",
				"75|0|1|0|t|t|75|t", "$kind: the view");
		}
	}));

	# workers clean up all indexes that nobody has vacuumed before, and those of a kind that VACUUM looks at twice
	$aio->scenario('what parallel workers clean up', with('alice', sub ($alice) {
		my $t = 'scenario.c';
		$aio->sql("CREATE TABLE $t (n int, a int[]) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, ARRAY[i] FROM generate_series(1, 1000) i; CREATE INDEX c_b ON $t (n); CREATE INDEX c_g ON $t USING gin (a); CREATE INDEX c_r ON $t USING brin (n)");
		$alice->sql('SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 3');
		for my $case ([ 'SELECT', 'cleanup 2' ], [ "DELETE FROM $t WHERE n < 400", 'vacuuming 1, cleanup 1' ])
		{
			$aio->sql($case->[0]);
			my $report = vacuum($alice, 'INDEX_CLEANUP on, PARALLEL 3', $t);
			my @planned;
			push @planned, "$1 $2" while $report =~ /parallel vacuum workers? for index (\w+) \(planned: (\d+)\)/g;
			is(join(', ', @planned), $case->[1], "$case->[0]: workers planned") || diag($report);
		}
		$alice->sql('SET enable_seqscan = off');
		$alice->gives("SELECT (SELECT count(*) FROM $t WHERE n > 300), (SELECT count(*) FROM $t WHERE a @> ARRAY[500]), (SELECT count(*) FROM $t WHERE a @> ARRAY[300])", '601|1|0', 'the rows');
	}));

	# what VACUUM was at when it failed: at a row that is older than it can be, a bad page, a bad index
	my $damage_row = sub ($t) {
		my ($offset, $mask) = split /\|/, $aio->sql("SELECT 7 * 8192 + lp_off, t_infomask & ~768 | 256 FROM heap_page_items(get_raw_page('$t', 7))");
		$aio->evict($t);
		$aio->overwrite($aio->file_of($t), @$_) for [ $offset, pack 'V', 3 ], [ $offset + 20, pack 'v', $mask ];
		$aio->sql("SELECT modify_rel_block('$t', 7)");
	};
	$aio->scenario('where an error is: %s', with('alice', [ t => 40, changes => 1 ], sub ($alice, $t, $, $prepare, $command, $sqlstate, $context) {
		$prepare->($t);
		$alice->sql('SET io_combine_limit = 1; SET maintenance_io_concurrency = 0');
		my $error = $alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE off, $command) $t")->wait_for_end->error // {};
		is(($error->{sqlstate} // '') . ' ' . ($error->{context} // 'none'), "$sqlstate $context", 'what is reported') || diag($error->{all} // 'no error');
		$aio->gives("SELECT count(*) FROM pg_stat_progress_vacuum", 0, 'nothing is in progress');
	}), each => [
		[ 'a row', $damage_row,
			'DISABLE_PAGE_SKIPPING', 'XX001', 'while scanning block 7 offset 1 of relation "scenario.t"' ],
		[ 'a page', sub ($t) { $aio->sql("SELECT modify_rel_block('$t', 7, corrupt_header => true)") }, 'DISABLE_PAGE_SKIPPING', 'XX001', 'while scanning block 6 of relation "scenario.t"' ],
		[ 'an index', sub ($t) { $aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk = 3; SELECT modify_rel_block('scenario.t_i', 1, corrupt_header => true)") }, 'PARALLEL 0', 'XX001', 'while vacuuming index "t_i" of relation "scenario.t"' ],
		[ 'the clean-up of an index', sub ($t) { $aio->sql("CREATE INDEX t_i ON $t USING gist (point(blk, blk)); SELECT modify_rel_block('scenario.t_i', 0, corrupt_header => true)") }, 'PARALLEL 0', 'XX001', 'while cleaning up index "t_i" of relation "scenario.t"' ] ],
		skip => $aio->lacks('pageinspect'), log => qr/LOG:  invalid page in block/);
});

# VACUUM that meets others between its passes.
for_each_io_method('worker; long: all', sub {
	# rows of some pages are deleted, updated or inserted after the first pass, which has removed one of each
	$aio->scenario('pages that change between the passes', with('alice bob', sub ($alice, $bob) {
		my $t = 'scenario.b';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1100) FROM generate_series(0, 55) i; CREATE INDEX b_i ON $t (n)");
		$aio->gives("SELECT max((ctid::text::point)[0]) FROM $t", 7, 'seven rows a page');
		$aio->sql("DELETE FROM $t WHERE n % 7 = 2; SELECT evict_rel('scenario.b_i'); SELECT io_hold('scenario.b_i', blockno => 1)");
		$alice->sql('SET vacuum_freeze_min_age = 0');
		$alice->waits("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t", 'IoGateHeld', 'has read the table, and begins to read the index');
		# a scan does not come to the index; pages 1 to 5
		my $at = sub ($page) { return "WHERE ctid = '($page,5)'" };
		$bob->sql("UPDATE $t SET body = body ${\$at->(1)}; DELETE FROM $t ${\$at->(2)}; SELECT count(*) FROM $t");
		$bob->sql("DO 'BEGIN DELETE FROM $t ${\($at->(3) =~ s/'/''/gr)}; UPDATE $t SET body = body ${\($at->(4) =~ s/'/''/gr)}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END'; BEGIN; UPDATE $t SET body = body ${\$at->(5)}");
		$aio->end_holds;
		$alice->ends('VACUUM');
		$bob->sql('COMMIT');
		# a deletion that was rolled back leaves the row, and an update leaves two
		maps($aio, $t, '0 3 6 7', '0 6 7', 'pages that are visible to all, and frozen');
		$aio->gives("SELECT string_agg(n::text, ' ') FROM $t WHERE ctid > '(1,0)' AND ctid < '(3,0)'", '7 8 10 12 13 11 14 15 17 19 20', 'the rows of two of them');
		vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t);
		maps($aio, $t, '0 1 2 3 4 5 6 7', '0 1 2 3 4 5 6 7', 'and later');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '47|' . (1540 - 212 - 18), 'the rows');
	}), skip => $aio->lacks('gate'));

	$aio->scenario('an error in the second pass', with('alice', 20, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk IN (3, 9); SELECT evict_rel('scenario.t_i'); SELECT io_hold('scenario.t_i')");
		$alice->waits("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t", 'IoGateHeld', 'has read the table, and begins to read the index');
		$aio->sql("SELECT evict_rel('$t'); SELECT io_fail('$t', -errno_from_string('EIO'), blockno => 9, fork => 'main')");
		$aio->end_holds;
		$alice->raises('58030', qr/CONTEXT:  while vacuuming block 3 of relation "scenario\.t"/, 'the block before');
		$aio->end_filters;
		is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/had (\d+) dead item identifiers removed/), 1, 'the first page was done');
	}), skip => $aio->lacks('gate'), log => qr/LOG:  could not read blocks/);

	# the leader waits for a block of its first index, until the worker has failed at the other one
	$aio->scenario('an error of a parallel worker: %s', with('alice', 20, changes => 1, sub ($alice, $t, $phase, $using, $delete) {
		$aio->sql("CREATE INDEX t_$_ ON $t USING $using; DELETE FROM $t WHERE $delete; SELECT evict_rel('scenario.t_$_'), io_hold('scenario.t_$_', pid => ${\$alice->pid}), io_fail('scenario.t_$_', -errno_from_string('EIO'), backend_type => 'parallel worker')") for 'i', 'j';
		$alice->sql('SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 1');
		$alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE off, PARALLEL 1) $t");
		$aio->logs(qr/parallel worker (?:alice )?ERROR:  could not read/, 1, 'the worker ends');
		$aio->end_holds;
		$alice->raises('58030', qr/CONTEXT:  while $phase index "t_[ij]" of relation "scenario\.t"\nparallel worker/, 'what the worker was at');
		$aio->end_filters;
	}), each => [ [ 'vacuuming', 'btree (blk)', 'blk = 3' ], [ 'cleaning up', 'gist (point(blk, blk))', 'false' ] ], skip => $aio->lacks('gate'),
		log => [ qr/LOG:  could not read blocks/, qr/LOG:  background worker "parallel worker".* exited with exit code 1/ ]);

	# it looks for others every 32 pages, if VACUUM_TRUNCATE_LOCK_CHECK_INTERVAL (20 ms) is over
	$aio->scenario('a session that wants to read while VACUUM truncates', with('alice bob', 100, changes => 1, sub ($alice, $bob, $t) {
		$aio->sql("DELETE FROM $t WHERE blk > 10; VACUUM (TRUNCATE off) $t; SELECT evict_rel('$t'); SELECT io_hold('$t', blockno => 70)");
		$alice->notices;
		$alice->waits("VACUUM (TRUNCATE on, VERBOSE) $t", 'IoGateHeld', 'looks whether the last pages are empty');
		$bob->waits("BEGIN; SELECT count(*) FROM $t", 'relation', 'waits for the lock');
		$aio->wait_seconds(0.03);
		$aio->end_holds;
		$bob->returns(11, 'reads the table meanwhile');
		$alice->waits_on('VacuumTruncate');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 64, 'a part is cut off');
		$bob->sql('COMMIT');
		$alice->ends('VACUUM');
		is(join("\n", grep { /trunc/ } $alice->notices), join("\n", 'table "t": suspending truncate due to conflicting lock request', 'table "t": truncated 100 to 64 pages', 'table "t": truncated 64 to 11 pages'), 'what it says');
		$bob->sql("DELETE FROM $t WHERE blk > 5; BEGIN; SELECT count(*) FROM $t");
		$alice->waits("VACUUM (TRUNCATE on) $t", 'VacuumTruncate');
		my $error = $aio->cancels($alice, 'is cancelled') && $alice->error;
		is($error->{context}, 'while truncating relation "scenario.t" to 6 blocks', 'where it was');
		$bob->sql('COMMIT');
	}), skip => $aio->lacks('gate'));
});
