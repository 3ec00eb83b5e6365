# What VACUUM and ANALYZE cost, and what they leave in the catalogs, the maps and the pages.
use TestAio;
use List::Util qw(max sum0);
use TestAio::Pages;

# The cost delay of VACUUM.  VACUUM charges for each page that it finds, reads or makes dirty, as
# often as the server counts the page, and sleeps once the charges have reached the limit.  With all
# charges at 1 it sleeps if the limit is the number of the table's pages, and does not sleep if the
# limit is the server's count plus 1.  AsyncReadBuffers() charges for a block when its read starts.
my $pages = 60;

# Runs VACUUM on all pages of a table with this limit.  Returns its delay in ms, and how many
# pages it has hit, read and dirtied.  A sleep takes at least vacuum_cost_delay, which is 1 ms here.
sub vacuum_all ($session, $t, $limit)
{
	$session->sql("SET vacuum_cost_limit = $limit");
	my $report = vacuum($session, 'DISABLE_PAGE_SKIPPING, TRUNCATE off', $t);
	return map { reported($report, $_) } qr/delay time: ([\d.]+) ms/, qr/buffer usage: (\d+) hits/, qr/hits, (\d+) reads/, qr/reads, (\d+) dirtied/;
}

with_each_io_method('sync; long: all', sub {
	$aio->scenario('hits and misses', with_kind('alice', $pages, sub ($alice, $t, $) {
		$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 0');
		my ($slept, $hits, $reads) = vacuum_all($alice, $t, 1);
		is($slept, '0.000', 'no charges: no sleep');

		$alice->sql('SET vacuum_cost_page_miss = 1');
		$aio->evict($t, $alice);
		($slept, $hits, $reads) = vacuum_all($alice, $t, 10000);
		is($slept, '0.000', 'misses, far from the limit');
		is_between($reads, $pages, $pages + 5, 'misses: the table and its maps');
		my $misses = $reads;
		for my $case ([ $pages, 1 ], [ $misses + 1, 0 ])
		{
			my ($limit, $sleeps) = @$case;
			$aio->evict($t, $alice);
			($slept, $hits, $reads) = vacuum_all($alice, $t, $limit);
			is($reads, $misses, "limit $limit: as many misses");
			is($slept >= 1 ? 1 : 0, $sleeps, $sleeps ? 'reach the limit' : 'do not reach the limit') || diag("$slept ms");
		}

		$alice->sql('SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_hit = 1');
		# hits of the catalogs are charged, too
		my $all = $aio->change_during("SELECT sum(hits) FROM pg_stat_get_backend_io(${\$alice->pid})", sub { ($slept, $hits) = vacuum_all($alice, $t, 10000) }, $alice);
		is($slept, '0.000', 'hits, far from the limit');
		is_between($hits, $pages, $all, "hits, of $all with those of catalogs");
		is((vacuum_all($alice, $t, $pages))[0] >= 1 ? 1 : 0, 1, "limit $pages: reached");
		is((vacuum_all($alice, $t, $all + 1))[0], '0.000', "limit ${\($all + 1)}: not reached");
		# a part of a millisecond for each page
		$alice->sql('SET vacuum_cost_delay = 0.1');
		cmp_ok((vacuum_all($alice, $t, 1))[0], '>=', 0.1 * $pages, 'many short sleeps');
	}), each => [ '', 'TEMP' ]);

	# it is a hit once it is there
	$aio->scenario('a block that another session reads', with('alice bob', $pages, sub ($alice, $bob, $t) {
		$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_hit = 1; SET vacuum_cost_page_dirty = 0; SET maintenance_io_concurrency = 0');
		vacuum_all($alice, $t, 10000) for 1, 2;
		my ($largest, $beyond) = ($pages, 10000);
		while ($beyond - $largest > 1)
		{
			my $limit = int(($largest + $beyond) / 2);
			((vacuum_all($alice, $t, $limit))[0] > 0 ? $largest : $beyond) = $limit;
		}
		note("hits reach a limit of $largest");
		for my $case ([ $largest, 1 ], [ $largest + 1, 0 ])
		{
			my ($limit, $sleeps) = @$case;
			$alice->sql("SELECT count(*) FROM $t; SELECT invalidate_rel_block('$t', 20); SET vacuum_cost_limit = $limit");
			$aio->read_at_completion_wait($bob, "SELECT read_rel_block_ll('$t', 20)", relation => $t, blockno => 20);
			$alice->notices;
			$alice->starts("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off, VERBOSE) $t");
			$alice->waits_on_others_io;
			$aio->completion_continue;
			$alice->ends;
			$bob->ends;
			my $slept = reported(join("\n", $alice->notices), qr/delay time: ([\d.]+) ms/);
			is($slept >= 1 ? 1 : 0, $sleeps, "limit $limit: " . ($sleeps ? 'reached' : 'not reached')) || diag("$slept ms");
		}
	}), skip => $aio->no_faults);

	$aio->scenario('ANALYZE', with('alice', $pages, sub ($alice, $t, $limit) {
		$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_dirty = 0');
		$alice->sql("SET vacuum_cost_page_miss = 1; SET vacuum_cost_limit = $limit");
		$aio->evict($t);
		$alice->notices;
		$alice->sql("ANALYZE (VERBOSE) $t");
		my $slept = reported(join("\n", $alice->notices), qr/delay time: ([\d.]+) ms/);
		is($slept >= 1 ? 1 : 0, $limit == $pages ? 1 : 0, "limit $limit") || diag("$slept ms");
	}), each => [ $pages, 10000 ]);

	$aio->scenario('the wait event', with('alice', $pages, sub ($alice, $t) {
		$alice->sql('SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1; SET track_cost_delay_timing = on');
		for my $command ('VACUUM (DISABLE_PAGE_SKIPPING)', 'ANALYZE')
		{
			$alice->waits("$command $t", 'VacuumDelay', "$command sleeps");
			$aio->wait_for("SELECT delay_time > 0 FROM pg_stat_progress_${\lc $command =~ s{ .*}{}r} WHERE pid = ${\$alice->pid}");
			$aio->cancels($alice, 'and ends');
		}
	}));

	$aio->scenario('the progress of ANALYZE at its second partition', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.p (n int, body text STORAGE PLAIN) PARTITION BY RANGE (n)');
		$alice->sql("CREATE TABLE scenario.p$_->[0] PARTITION OF scenario.p FOR VALUES FROM ($_->[0]) TO (${\($_->[0] + 1)}) WITH (autovacuum_enabled = off); INSERT INTO scenario.p SELECT $_->[0], repeat('x', 7000) FROM generate_series(1, $_->[1])") for [ 1, 10 ], [ 2, 15 ];
		$aio->evict('scenario.p2');
		$aio->read_at_completion_wait($alice, 'ANALYZE scenario.p', relation => 'scenario.p2', pid => $alice->pid);
		$aio->gives("SELECT phase, child_tables_total, child_tables_done, current_child_table_relid::regclass, sample_blks_total, sample_blks_scanned FROM pg_stat_progress_analyze WHERE pid = ${\$alice->pid}", 'acquiring inherited sample rows|2|1|scenario.p2|15|0', 'at the first block of the second');
		$aio->completion_continue;
		$alice->ends('ANALYZE');
	}), skip => $aio->no_faults);

	# VACUUM makes a page dirty by its hint bits, unless a reader has set them
	$aio->scenario('pages made dirty, hint bits: %s', with('alice', $pages, changes => 1, sub ($alice, $t, $reader) {
		$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 1');
		is((vacuum_all($alice, $t, 1))[0], '0.000', 'nothing is made dirty');
		# VACUUM removes twenty rows each time; it charges once for a page, however often it changes it
		for my $case ([ 0, 10000, 0 ], [ 1, 20, 1 ], [ 2, 26, 0 ])
		{
			my ($rest, $limit, $sleeps) = @$case;
			$aio->sql("DELETE FROM $t WHERE blk % 3 = $rest" . ($reader ? "; SELECT count(*) FROM $t" : '') . '; CHECKPOINT');
			my ($slept, undef, undef, $dirtied) = vacuum_all($alice, $t, $limit);
			is_between($dirtied, 20, 25, 'dirtied: the pages of the rows and the maps');
			is($slept >= 1 ? 1 : 0, $sleeps, "limit $limit: " . ($sleeps ? 'reached' : 'not reached')) || diag("$slept ms");
		}
	}), each => [ 0, 1 ]);
});

# Makes a table of 1200 pages with two rows each, one of which is dead on every seventh page.  Returns its name, and
# the numbers of live and of dead rows.
sub table_with_dead_rows ($aio)
{
	my ($t, $is_dead) = ('scenario.a', '(n / 2) % 7 = 3 AND n % 2 = 1');
	$aio->sql("CREATE UNLOGGED TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO $t SELECT i, repeat('x', 3900) FROM generate_series(0, 2399) i;"
		  . "DELETE FROM $t WHERE $is_dead"
		  # counts of rows that are flushed later would be added to those of ANALYZE
		  . '; SELECT pg_stat_force_next_flush()');
	return ($t, split /\|/, $aio->sql("SELECT count(*) FILTER (WHERE NOT ($is_dead)), count(*) FILTER (WHERE $is_dead) FROM generate_series(0, 2399) n"));
}

# Test: ANALYZE reads a sample of so many pages, each once.  Returns what it reports.
sub analyze ($aio, $session, $t, $target, $pages)
{
	$session->sql("SET default_statistics_target = $target");
	$aio->evict($t);
	$session->notices;
	my ($reads, $bytes) = split m{/}, $aio->io_during($session, 'relation/vacuum', sub { $session->sql("ANALYZE (VERBOSE) $t") });
	my ($report) = grep { /scanned/ } $session->notices;
	is($bytes, $pages * 8192, 'each block of the sample is read once');
	like($report, qr/scanned $pages of 1200 pages/, 'VERBOSE reports the pages');
	return $report;
}

# What VACUUM reports, and leaves in the catalogs, maps and indexes, is what it has done to the pages.
my %columns = (btree => 'n', hash => 'n', gist => 'p', spgist => 'p', gin => 'a', brin => 'n');

# The sums that the pages of a table before and after VACUUM make.
sub done_to_pages ($before, $after)
{
	my %done = map { $_ => 0 } qw(removed remain frozen frozen_pages dead dead_pages visible all_frozen were_visible thawed);
	my ($new, $block) = ([ $after->pages ], -1);
	my $is_frozen = sub ($page, $item) { return $item->[1] == 1 && ((tuple($page, $item))[7] & 0x300) == 0x300 };
	for my $old ($before->pages)
	{
		my $page = $new->[ ++$block ];
		my @now = $page ? items($page) : ();
		my %here = (frozen => 0, dead => 0);
		for my $item (items($old))
		{
			my $now = shift @now // [ 0, 0, 0 ];
			$done{removed}++ if $item->[1] == 1 && $now->[1] != 1;
			$done{remain}++ if $now->[1] == 1;
			$here{frozen}++ if $is_frozen->($page, $now) && !$is_frozen->($old, $item);
			# a version that no index knows needs no line pointer
			$here{dead}++ if $item->[1] && $now->[1] % 3 == 0 && !($item->[1] == 1 && (tuple($old, $item))[6] & 0x8000);
		}
		for my $what (sort keys %here) { $done{$what} += $here{$what}; $done{"${what}_pages"} += $here{$what} > 0 }
		my ($was, $is) = map { $_->map_bits($block) } $before, $after;
		$done{visible} += $is & 1 && !($was & 1);
		$done{all_frozen} += $is & 2 && !($was & 2);
		$done{were_visible} += $is & 2 && $was == 1;
		$done{thawed} += grep { my ($xmax, $mask) = (tuple($page, $_))[ 1, 7 ]; ($mask & 0x300) != 0x300 || $xmax } $is & 2 ? normal($page) : ();
	}
	return \%done;
}

# Tests VACUUM of a table.
sub vacuums_by_pages ($aio, $session, $t, $options)
{
	my @relations = ($t, map { $t =~ s/t$/$_/r } sort keys %columns);
	my %before = map { $_ => TestAio::Pages->of($aio, $session, $_) } @relations;
	my $report = vacuum($session, $options, $t);
	my %after = map { $_ => TestAio::Pages->of($aio, $session, $_) } @relations;
	my ($old, $new) = ($before{$t}, $after{$t});
	my @pages = $new->pages;
	my %done = %{ done_to_pages($old, $new) };
	is($done{thawed}, 0, 'rows that are not frozen, on frozen pages');
	my $cleanup = $options =~ /CLEANUP off/ ? 'have' : 'had';
	for my $line (sprintf('pages: %d removed, %d remain, %d scanned', $old->pages - @pages, scalar @pages, scalar $old->pages), "tuples: $done{removed} removed, $done{remain} remain, 0 are dead",
		"$done{frozen_pages} pages from table .* had $done{frozen} tuples frozen", "$done{dead_pages} pages from table .* $cleanup $done{dead} dead item identifiers",
		"visibility map: $done{visible} pages set all-visible, $done{all_frozen} pages set all-frozen \\($done{were_visible} were all-visible")
	{
		like($report, qr/\b$line/, "$options: $line");
	}
	$session->gives("SELECT relpages, reltuples, relallvisible, n_live_tup, n_dead_tup FROM pg_class c JOIN pg_stat_all_tables s ON relid = c.oid WHERE c.oid = '$t'::regclass",
		join('|', scalar @pages, $done{remain}, scalar(grep { $new->map_bits($_) & 1 } 0 .. $#pages), $done{remain}, 0), 'the catalogs');
	# new pages and empty ones are free
	is(join(' ', ($new->leaves)[ 0 .. @pages + 9 ]), join(' ', map({ my $free = (header($_))[4] ? free($_) - 4 : 8164; $free >= 8160 ? 255 : $free > 0 ? int $free / 32 : 0 } @pages), (0) x 10), 'the free space map');
	my $changed = 0;
	for my $relation (@relations)
	{
		my ($was, $is) = map { [ $_->{$relation}->pages ] } \%before, \%after;
		$changed += grep { substr($was->[$_], 12) ne substr $is->[$_] // $was->[$_], 12 } 0 .. $#$was;
		my $map = $after{$relation};
		is(join(' ', map { ord substr $_, 28, 1 } $map->pages('fsm')), join(' ', (max($map->leaves)) x 3), "$relation: what is largest in the map") if $map->pages('fsm');
		my ($kind) = $relation =~ /(\w+)$/;
		next if $report !~ /index "$kind": pages: (\d+) in total, (\d+) newly deleted, (\d+) currently deleted, (\d+) reusable/;
		is("$1, $4", join(', ', scalar @$is, scalar grep { $_ } $map->leaves), "$kind: pages, and those that the map has") if $kind ne 'brin';
		if (my $deleted = { btree => 4, gist => 2 }->{$kind})
		{
			my ($were, $are) = map { scalar grep { (header($_))[4] && (special($_, 'x12 v'))[0] & $deleted } @$_[ 1 .. $#$_ ] } $was, $is;
			is("$2, $3", ($are - $were) . ", $are", "$kind: pages that are deleted");
		}
		$session->gives("SELECT reltuples FROM pg_class WHERE oid = '$relation'::regclass", $done{remain}, "$kind: entries") if $kind =~ /btree|hash|gist/;
		is(unpack('x32 d', $is->[0]), $done{remain}, 'hash: entries, by its first page') if $kind eq 'hash';
		next if $kind ne 'gin';
		my @entries = grep { !((special($_, 'x6 v'))[0] & 0x15) } @$is[ 1 .. $#$is ];
		my $data = grep { ((special($_, 'x6 v'))[0] & 5) == 1 } @$is[ 1 .. $#$is ];
		is(join(' ', unpack 'x48 V3 x4 q', $is->[0]), join(' ', scalar @$is, scalar @entries, $data, sum0(map { (special($_, 'x6 v'))[0] & 2 ? scalar items($_) : 0 } @entries)), 'gin: pages and entries, by its first page');
	}
	cmp_ok(reported($report, qr/reads, (\d+) dirtied/), '>=', $changed, "$changed pages have changed: made dirty");
	return;
}

with_each_io_method('sync', sub {
	$aio->scenario('by the bytes of the pages: %s', with('alice', sub ($alice, $kind) {
		my $t = $kind eq 'TEMP' ? 't' : 'scenario.t';
		$alice->note_temporary_tables if $kind eq 'TEMP';
		$alice->sql("CREATE $kind TABLE $t (n int, p point, a int[], body text)" . ($kind eq 'TEMP' ? '' : ' WITH (autovacuum_enabled = off)'));
		$alice->sql("INSERT INTO $t SELECT i, point(i, i), ARRAY[i], repeat('x', 30) FROM generate_series(0, 2299) i");
		$alice->sql("CREATE INDEX $_ ON $t USING $_ ($columns{$_})") for sort keys %columns;
		for my $step ([ 'INDEX_CLEANUP auto, TRUNCATE off' => "UPDATE $t SET body = 'y' WHERE n BETWEEN 40 AND 60" ],
			[ 'INDEX_CLEANUP on, TRUNCATE off' => "DELETE FROM $t WHERE n BETWEEN 300 AND 1200 OR n = 2100; SELECT count(*) FROM $t" ],
			[ 'FREEZE, INDEX_CLEANUP on, TRUNCATE off' => "DELETE FROM $t WHERE n BETWEEN 1300 AND 1700; SELECT grow_rel('$t', 2)" ],
			[ 'INDEX_CLEANUP off, TRUNCATE on' => "DELETE FROM $t WHERE n > 1900 OR n = 7" ],
			[ 'INDEX_CLEANUP on, TRUNCATE on' => "DELETE FROM $t WHERE n = 9" ])
		{
			my ($options, $change) = @$step;
			$alice->sql("$change; SELECT pg_stat_force_next_flush()");
			use_up_xids($aio, 10);
			vacuums_by_pages($aio, $alice, $t, $options);
		}
		$alice->gives("SELECT pg_relation_size('$t') / 8192 < 35", 't', 'the table is cut off at last');
	}), each => [ '', 'TEMP' ]);

	# each page that is read is an occasion to sleep, and to be cancelled
	$aio->scenario('sleeps between the pages of an index: %s', with('alice', sub ($alice, $kind) {
		my $t = 'scenario.s';
		$aio->sql("CREATE TABLE $t (n int, p point, a int[]) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, point(i, i), ARRAY(SELECT generate_series(i * 60, i * 60 + 59)) FROM generate_series(1, 300) i;"
			  . "CREATE INDEX s_i ON $t USING $kind ($columns{$kind})" . ($kind eq 'gin' ? '' : ' WITH (fillfactor = 10)') . "; DELETE FROM $t WHERE n % 2 = 0");
		$alice->sql('SET vacuum_cost_limit = 1; SET vacuum_cost_page_hit = 1; SET vacuum_cost_delay = 0.001');
		my @sleeps = calls_of($aio, $alice->pid, '?nanosleep,?clock_nanosleep', sub { $alice->sql("VACUUM (INDEX_CLEANUP on) $t") });
		my ($of_table, $of_index) = split /\|/, $aio->sql("SELECT pg_relation_size('$t') / 8192, pg_relation_size('scenario.s_i') / 8192");
		cmp_ok(scalar @sleeps, '>=', 2 * $of_table + 0.8 * $of_index, "$of_table pages, and $of_index of the index");
	}), each => [ grep { $_ ne 'brin' } sort keys %columns ], skip => no_strace());

	# of the pinned page, and of others; so few rows a page that a scan does not prune it
	$aio->scenario('rows that stay, %s', with('alice bob', sub ($alice, $bob, $, $removed, $recent, $missed) {
		my $t = 'scenario.r';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1160) FROM generate_series(0, 99) i; CREATE INDEX ON $t (n); VACUUM $t");
		my @statements = ([ $bob, 'BEGIN ISOLATION LEVEL ' . ($recent ? 'REPEATABLE READ' : 'READ COMMITTED') . "; DECLARE c CURSOR FOR SELECT n FROM $t WHERE ctid >= '(1,0)'; MOVE 1 FROM c" ], [ $aio, "DELETE FROM $t WHERE n IN (7, 8, 52, 53, 54)" ]);
		for my $statement ($recent ? @statements : reverse @statements) { $statement->[0]->sql($statement->[1]) }
		$alice->notices;
		$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off, VERBOSE) $t; SELECT pg_stat_force_next_flush()");
		my $report = join "\n", $alice->notices;
		like($report, qr/tuples: $removed removed, ${\(100 - $removed)} remain, $recent are dead but not yet removable/, 'what is reported');
		is($report =~ /tuples missed: (\d+) dead from 1 pages/ ? $1 : 0, $missed, 'rows missed');
		$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", '95|' . ($recent + $missed), 'rows that are counted');
		$bob->sql('ROLLBACK');
	}), each => [ [ 'for a snapshot', 0, 5, 0 ], [ 'since the page is pinned', 3, 0, 2 ] ]);
});

for_each_io_method('io_uring; long: all', sub {
	# the oldest snapshot is older than the tables
	$aio->scenario('tables that are younger than what a session sees', with('alice', sub ($alice) {
		$alice->sql('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
		use_up_xids($aio, 20);
		for my $command ('VACUUM (FULL) scenario.young', 'CLUSTER scenario.young USING young_n', 'VACUUM (FREEZE) scenario.young')
		{
			$aio->sql('CREATE TABLE scenario.young (n int); CREATE INDEX young_n ON scenario.young (n); INSERT INTO scenario.young VALUES (1)');
			my $oldest = q{SELECT relfrozenxid FROM pg_class WHERE oid = 'scenario.young'::regclass};
			my $before = $aio->sql($oldest);
			$aio->gives("SELECT age(backend_xmin) > age('$before'::xid) FROM pg_stat_activity WHERE pid = ${\$alice->pid}", 't', 'the snapshot is older');
			$aio->sql($command);
			$aio->gives($oldest, $before, "$command: relfrozenxid does not go back");
			$aio->sql('DROP TABLE scenario.young');
		}
	}));

	# relfrozenxid is not younger than any row that is not frozen, whichever pages VACUUM skips: rows on
	# all-visible pages keep their old xmin.
	# VACUUM cannot freeze the row, and does not wait for the page
	$aio->scenario('a page that a cursor has pinned', with('alice bob', sub ($alice, $bob) {
		my $t = 'scenario.p';
		my $insert = sub { $aio->sql("INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series($_[0], $_[1]) i"); use_up_xids($aio, 20) };
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
		$insert->(0, 0);
		$insert->(1, 39);
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t WHERE ctid = '(0,1)'; MOVE 1 FROM c");
		$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
		$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE age(xmin) < 1000000) FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the row on the pinned page');
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
		$bob->sql('COMMIT');
		$alice->sql("VACUUM (FREEZE) $t");
		$aio->gives("SELECT age(relfrozenxid) < 20 FROM pg_class WHERE oid = '$t'::regclass", 't', 'later, FREEZE makes it young');
		$alice->sql("VACUUM (FULL) $t");
		$aio->gives("SELECT age(relfrozenxid) < 30 FROM pg_class WHERE oid = '$t'::regclass", 't', 'and FULL does not make it old again');
		$aio->gives("SELECT relpages = pg_relation_size('$t') / 8192, reltuples FROM pg_class WHERE oid = '$t'::regclass", 't|40', 'which counts pages and rows');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '40|780', 'the rows');
	}));

	# or the cursor would point to another row
	$aio->scenario('a page that the session itself has pinned', with('alice bob', sub ($alice, $bob) {
		my $p = 'scenario.p';
		$aio->sql("CREATE TABLE $p (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $p SELECT i, repeat('x', 400) FROM generate_series(1, 10) i; DELETE FROM $p WHERE n > 7");
		my $rows = "SELECT count(*) FROM heap_page_items(get_raw_page('$p', 0)) WHERE lp_flags = 1";
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $p; FETCH 1 FROM c");
		$bob->sql("INSERT INTO $p SELECT i, repeat('x', 400) FROM generate_series(11, 18) i");
		$alice->gives("SELECT count(*) FROM $p", 15, 'a full page');
		$aio->gives($rows, 18, 'dead rows stay while a cursor stands on it');
		$alice->sql("COMMIT; SELECT count(*) FROM $p");
		$aio->gives($rows, 15, 'and go then');
	}), skip => $aio->lacks('pageinspect'));

	# each of the ranges is long enough to be skipped; the first alone has rows that are not frozen
	$aio->scenario('skips visible pages, then frozen ones', with('alice', sub ($alice) {
		my $t = 'scenario.v';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series(0, 199) i");
		$alice->sql("VACUUM (FREEZE) $t");
		$alice->sql("DELETE FROM $t WHERE n < 100");
		$alice->sql("VACUUM (FREEZE, TRUNCATE off) $t");
		# an insert and twenty transactions, twice: two ages
		for my $rows ('0, 49', '50, 99')
		{
			$aio->sql("INSERT INTO $t SELECT i, repeat('y', 7000) FROM generate_series($rows) i");
			use_up_xids($aio, 20);
		}
		$aio->gives("SELECT max(ctid) < '(100,0)' FROM $t WHERE n < 100", 't', 'new rows on the pages that were empty');
		$alice->sql('SET vacuum_freeze_min_age = 1000000; SET vacuum_max_eager_freeze_failure_rate = 0');
		$alice->sql("VACUUM $t");
		$aio->gives("SELECT count(*) FILTER (WHERE blkno < 50 AND all_visible AND NOT all_frozen), count(*) FILTER (WHERE blkno >= 111 AND all_frozen) FROM pg_visibility_map('$t')", '50|89', 'visible to all, and frozen')
		  if !$aio->lacks('pg_visibility');
		for my $skipped ($aio->lacks('amcheck') || $aio->lacks('pg_visibility') ? () : qw(all_frozen all_visible))
		{
			$aio->evict($t);
			my $skip = $skipped =~ s/_/-/r;
			my $bytes = $aio->sql("SELECT sum(8192 * (NOT $skipped)::int) FROM pg_visibility_map('$t')");
			like($aio->io_during($alice, 'relation/bulkread', sub { $alice->gives("SELECT msg FROM verify_heapam('$t', skip => '$skip')", '', "amcheck skips pages that are $skip") }),
				qr{/$bytes$}, "and reads the others: $bytes bytes");
		}
		use_up_xids($aio, 20);
		$alice->sql("UPDATE $t SET n = n WHERE ctid IN ('(90,1)', '(110,1)')");
		use_up_xids($aio, 20);
		$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
		$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE ctid < '(90,0)') FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the oldest row that is not frozen');
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '200|19900', 'the rows');
	}));

	# the last block that is changed, and settings
	$aio->scenario('%s', with('alice', sub ($alice, $, $changed, $settings) {
		my $t = 'scenario.f';
		$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series(0, 199) i");
		# all-visible, but too young to be frozen
		$alice->sql("SET vacuum_freeze_min_age = 1000000; SET vacuum_max_eager_freeze_failure_rate = 0");
		$alice->sql("VACUUM $t");
		$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '200|0', 'visible to all, not frozen') if !$aio->lacks('pg_visibility');
		use_up_xids($aio, 20);
		$alice->sql("UPDATE $t SET n = n WHERE n = $changed");
		use_up_xids($aio, 20);
		$alice->sql("$settings;") if $settings;
		$aio->evict($t);
		$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
		$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE age(xmin) < 1000000) FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the oldest row');
		$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
		# now nothing is skipped that is not frozen
		$alice->sql("VACUUM (FREEZE) $t");
		$aio->gives("SELECT age(relfrozenxid) < 20 FROM pg_class WHERE oid = '$t'::regclass", 't', 'FREEZE makes it young');
		$aio->gives("SELECT count(*), sum(n) FROM $t", '200|19900', 'the rows');
	}), each => [
		[ 'skips a long range', 150, '' ],
		[ 'skips no short range', 20, '' ],
		[ 'skips all but the last page', 199, '' ],
		[ 'eager', 150, 'SET vacuum_max_eager_freeze_failure_rate = 1' ] ]);

	# ANALYZE: the blocks that it reads, and the statistics that it makes of their rows.
	$aio->scenario('a sample of all pages', with('alice', sub ($alice) {
		my ($t, $live, $dead) = table_with_dead_rows($aio);
		my $report = analyze($aio, $alice, $t, 100, 1200);
		like($report, qr/containing $live live rows and $dead dead rows; $live rows in sample, $live estimated total rows/, 'VERBOSE reports all rows');
		$aio->gives("SELECT reltuples, relpages FROM pg_class WHERE oid = '$t'::regclass", "$live|1200", 'reltuples and relpages');
		$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", "$live|$dead", 'n_live_tup and n_dead_tup');
		$aio->gives("SELECT n_distinct, correlation > 0.99, array_length(histogram_bounds, 1), (histogram_bounds::text::int[])[1] FROM pg_stats WHERE tablename = 'a' AND attname = 'n'",
			'-1|t|101|0', 'n: distinct, in physical order, from the first on');
		$alice->sql("UPDATE $t SET n = n WHERE n < 4; SELECT pg_stat_force_next_flush(); ANALYZE $t (body)");
		$aio->gives("SELECT n_mod_since_analyze FROM pg_stat_all_tables WHERE relid = '$t'::regclass", 4, 'ANALYZE of a column leaves the others to do');
	}));

	# what ANALYZE notes is what the visibility map says
	$aio->scenario('relallvisible and relallfrozen', with('alice', 30, changes => 1, sub ($alice, $t) {
		my $noted = "SELECT relpages, relallvisible, relallfrozen FROM pg_class WHERE oid = '$t'::regclass";
		my $shown = "SELECT pg_relation_size('$t') / 8192, all_visible, all_frozen FROM pg_visibility_map_summary('$t')";
		$alice->sql('SET vacuum_freeze_min_age = 1000000');
		for my $statement ("UPDATE $t SET gen = 1 WHERE blk < 5", "VACUUM (TRUNCATE off) $t",
			# changes nothing but relallvisible
			"BEGIN; DELETE FROM $t WHERE blk = 2; ROLLBACK", "DELETE FROM $t WHERE blk = 9")
		{
			$alice->sql($statement);
			$alice->sql("ANALYZE $t");
			$aio->gives($noted, $aio->sql($shown), "after $statement");
		}
		$aio->gives("SELECT relallvisible > relallfrozen, relallfrozen > 0 FROM pg_class WHERE oid = '$t'::regclass", 't|t', 'more pages are visible to all than frozen');
	}), skip => $aio->lacks('pg_visibility') // ($aio->sql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_class'::regclass AND attname = 'relallfrozen'") ? undef : 'needs relallfrozen'));

	# a target of 2 asks for a sample of 600 rows, which ANALYZE takes from 600 pages
	$aio->scenario('a sample of half the pages', with('alice', sub ($alice) {
		my ($t, $live) = table_with_dead_rows($aio);
		my ($seen, $seen_dead, $in_sample, $estimated) =
		  analyze($aio, $alice, $t, 2, 600) =~ /containing (\d+) live rows and (\d+) dead rows; (\d+) rows in sample, (\d+) estimated/;
		is($seen + $seen_dead, 2 * 600, 'live and dead rows of the sampled pages');
		cmp_ok($in_sample, '<=', 600, 'no more rows in the sample than the target asks for');
		cmp_ok(abs($estimated - $live), '<', 0.05 * $live, 'the estimate is near the truth');
		is($estimated, int($seen / 600 * 1200 + 0.5), 'the estimate follows from the sampled pages');
		$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", join('|', $estimated, int($seen_dead / 600 * 1200 + 0.5)), 'n_live_tup and n_dead_tup are estimates, too');
	}));
});
