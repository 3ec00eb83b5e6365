# What is counted of buffers: their use, and what pg_buffercache says of them.
use TestAio;

# Returns the number of a table's buffers (of all forks, with a valid page), of those that are dirty
# and not pinned, and of those that are pinned.
sub buffers_of ($aio, $t)
{
	return split /\|/, $aio->sql('SELECT count(*), count(*) FILTER (WHERE isdirty AND pinning_backends = 0), count(*) FILTER (WHERE pinning_backends > 0)'
		  . " FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND reldatabase = (SELECT oid FROM pg_database WHERE datname = 'postgres')");
}

# Usage counts of buffers.  Each use raises the count, up to 5.  A ring of buffers does not raise it
# above 1, and does not evict blocks that are in use.
with_each_io_method('io_uring; long: all', sub {
	# Returns the usage counts of a table's buffers, each once.
	my $counts = sub ($table) {
		return $aio->sql("SELECT string_agg(DISTINCT usagecount::text, ',') FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0");
	};

	$aio->scenario('usage counts', with('alice', 40, sub ($alice, $t) {
		for my $expected (1 .. 5, 5, 5)
		{
			$alice->sql("SELECT count(*) FROM $t");
			is($counts->($t), $expected, "used again: $expected");
		}
		$aio->evict($t);
		$alice->sql("SET vacuum_buffer_usage_limit = '1MB'");
		for my $time (1, 2)
		{
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			is($counts->($t), 1, "with a ring, time number $time");
		}
		$alice->sql("SELECT count(*) FROM $t");
		is($counts->($t), 2, 'without a ring');
		if (!$aio->lacks('pg_prewarm'))
		{
			$aio->evict($t);
			$alice->sql("SELECT pg_prewarm('$t')");
			is($counts->($t), 1, 'pg_prewarm()');
		}

		# larger than the pool
		my $large = $aio->table('l', 600);
		my $used = $aio->table('o', 50);
		$alice->sql("SELECT count(*) FROM $used") for 1 .. 3;
		my $before = $aio->cached($used);
		$alice->sql("SELECT count(*) FROM $large") for 1 .. 4;
		is($aio->cached($used), $before, 'the ring of a large scan evicts no block that is in use');
		my $round = 0;
		$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$large', ARRAY(SELECT generate_series(0, 599)))") while $aio->cached($used) eq $before && $round++ < 8;
		isnt($aio->cached($used), $before, 'reads without a ring evict such blocks');
	}), skip => $aio->lacks('pg_buffercache'));

	$aio->scenario('usage counts of local buffers', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100');
		my ($often, $once) = map { $aio->table(@$_, kind => 'TEMP', session => $alice) } [ 'often', 10 ], [ 'once', 90 ];
		$aio->evict($_, $alice) for $often, $once;
		$alice->sql("SELECT count(*) FROM $often") for 1 .. 4;
		# the catalogs' buffers are not among these
		my $read = sub { return explained($alice, 'BUFFERS', "SELECT count(*) FROM $_[0]")->{'Local Read Blocks'} };
		is($read->($once), 90, 'the pool is full');
		$aio->table('third', 30, kind => 'TEMP', session => $alice);
		is($read->($often), 0, 'blocks that are used often stay when others come');
		cmp_ok($read->($once), '>', 0, 'blocks that were used once go');
	}));

	# a buffer that keeps the usage count 0 is the next that any other session takes, out of the ring
	$aio->scenario('a ring uses buffers that nobody has used lately', with('alice', 40, sub ($alice, $t) {
		my $large = $aio->table('l', 600);
		my $with_usage_count = sub {
			return split /\n/, $aio->sql("SELECT bufferid || '/' || relblocknumber FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 AND usagecount = $_[0]");
		};
		$alice->sql("SELECT count(*) FROM $t");
		my ($block, @buffers) = (0);
		while (!(@buffers = $with_usage_count->(0)) && $block < 600)
		{
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$large', ARRAY(SELECT generate_series($block, $block + 9)))");
			$block += 10;
		}
		ok(scalar @buffers, 'other reads have taken the usage count of some buffers to 0') || return;
		$alice->sql("SET vacuum_buffer_usage_limit = '128kB'");
		$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
		is(join(' ', grep { my $buffer = $_; grep { $_ eq $buffer } @buffers } $with_usage_count->(1)), join(' ', @buffers), 'VACUUM with a ring takes it to 1');
	}), skip => $aio->lacks('pg_buffercache'));

	# larger than the pool, and read without a ring
	$aio->scenario('from the first to the last buffer', with('alice', 550, sub ($alice, $t) {
		my $ends = "SELECT min(bufferid), max(bufferid) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t')";
		my $fill = sub {
			# a catalog may have taken one of the two
			for (1 .. 9)
			{
				$alice->sql("SELECT pg_buffercache_evict_all(); SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 549)))");
				last if $alice->sql($ends) eq '1|512';
			}
			return is($alice->sql($ends), '1|512', 'the table has the first and the last buffer');
		};
		$fill->();
		# the pool is full: a catalog may take one of the table's buffers at any time
		$alice->gives("SELECT buffers_evicted > 400, buffers_flushed, buffers_skipped FROM pg_buffercache_evict_relation('$t')", 't|0|0', 'evicted, flushed, skipped');
		is((buffers_of($aio, $t))[0], 0, 'nothing is left');
	}), skip => $aio->lacks('pg_buffercache') // ($aio->repeats ? 'the same with each io_method' : undef));
}, conf => { shared_buffers => '4MB' });

# The counts that pg_buffercache's functions return of buffers that they evict, flush and mark as dirty agree with the
# view: with dirty buffers, with pinned buffers, and during a read.  Only superusers may call them.

with_each_io_method('io_uring; long: all', sub {
	my $skip = $aio->lacks('pg_buffercache');

	$aio->scenario('dirty and pinned buffers', with('alice bob', 30, sub ($alice, $bob, $t) {
		my $gone = join "\n", map { "block $_ has no row" } 20 .. 24;
		$aio->sql("DELETE FROM $t WHERE blk BETWEEN 20 AND 24");
		# two cursors stand on clean pages, one on a dirty one
		$bob->sql('BEGIN');
		$bob->sql("DECLARE c$_ CURSOR FOR SELECT blk FROM $t WHERE ctid = '($_,1)'; MOVE 1 FROM c$_") for 3, 9;
		$bob->sql("DECLARE c CURSOR FOR SELECT blk FROM $t WHERE blk >= 19; MOVE 1 FROM c");
		$alice->sql("SELECT count(*) FROM $t; DELETE FROM $t WHERE blk = 19");
		my $evicts = sub ($block, $expected, $name) {
			$alice->gives("SELECT buffer_evicted, buffer_flushed FROM pg_buffercache, pg_buffercache_evict(bufferid) WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 AND relblocknumber = $block", $expected, $name);
		};
		$evicts->(7, 't|f', 'one buffer is evicted');
		$evicts->(22, 't|t', 'a dirty buffer is written and evicted');
		$evicts->(3, 'f|f', 'a pinned buffer stays');
		is($aio->cached($t), join(',', grep { $_ != 7 && $_ != 22 } 0 .. 29), 'and so do the others');
		$alice->gives("SELECT count(*) FROM $t WHERE ctid >= '(22,0)' AND ctid < '(23,0)'", 0, 'the block is read as it was written');
		my ($all, $dirty, $pinned) = buffers_of($aio, $t);
		ok($all >= 29 && $dirty >= 4 && $pinned >= 3, "$all buffers, $dirty of them dirty, $pinned pinned");
		$alice->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", join('|', $all - $pinned, $dirty, $pinned), 'evicted, flushed, skipped');
		is(join('|', buffers_of($aio, $t)), "$pinned|0|$pinned", 'what is pinned stays');
		$bob->gives('FETCH 1 FROM c', 25, 'the cursor goes on');
		$bob->sql('ROLLBACK');
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
		$alice->sql("SELECT count(*) FROM $t; DELETE FROM $t WHERE blk = 18");
		$alice->gives('SELECT buffers_skipped BETWEEN 1 AND 4, buffers_evicted > 29, buffers_flushed > 0 FROM pg_buffercache_evict_all()', 't|t|t', 'pg_buffercache_evict_all() skips what is pinned, and writes what is dirty');
		is($aio->cached($t), 3, 'no other block is cached');
		$bob->sql('ROLLBACK');
		$aio->is_as_written($t, except => "block 18 has no row\nblock 19 has no row\n$gone");
	}), skip => $skip);

	$aio->scenario('superusers only', with('alice', 3, sub ($alice, $t) {
		$alice->sql('BEGIN; CREATE ROLE clerk; GRANT USAGE ON SCHEMA scenario TO clerk; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO clerk; SET ROLE clerk');
		my %arguments = (evict_relation => "'$t'", evict => 1, mark_dirty_relation => "'$t'", mark_dirty => 1);
		for my $function (split /\n/, $aio->sql("SELECT proname FROM pg_proc WHERE proname ~ '^pg_buffercache_(evict|mark_dirty)'"))
		{
			my ($name) = $function =~ /^pg_buffercache_(.*)/;
			$alice->sql('SAVEPOINT s');
			$alice->fails("SELECT * FROM $function(${\($arguments{$name} // '')})", '42501', qr/must be superuser to use $function\(\)/, $function);
			$alice->sql('ROLLBACK TO s');
		}
		# no role is left
		$alice->sql('ROLLBACK');
	}), skip => $skip);

	# a buffer without a valid page cannot be evicted
	$aio->scenario('under a read', with('alice bob', 30, sub ($alice, $bob, $t) {
		$aio->warm($t, 0 .. 2, 7 .. 29);
		my ($all) = buffers_of($aio, $t);
		$aio->completion_wait(relation => $t);
		$alice->starts("SELECT sum(nblocks) FROM read_buffers('$t', 3, 4)");
		$alice->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait)$/);
		$bob->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", "$all|0|0", 'the others are evicted');
		# the view does not tell whose they are
		$bob->gives('SELECT count(*) FILTER (WHERE buffer_evicted), count(*) >= 4 FROM pg_buffercache b, pg_buffercache_evict(b.bufferid) WHERE relfilenode IS NULL', '0|t', 'these are not');
		$bob->sql('SELECT pg_buffercache_evict_all()');
		$aio->completion_continue;
		$alice->returns(4, 'the read ends');
		is($aio->cached($t), '3,4,5,6', 'its blocks are there');
	}), skip => $skip // $aio->no_faults);

	$aio->scenario('marked as dirty', with('alice bob', 30, sub ($alice, $bob, $t) {
		$aio->sql("DELETE FROM $t WHERE blk = 4; CHECKPOINT");
		$aio->evict($t);
		$alice->sql("SELECT count(*) FROM $t; CHECKPOINT; DELETE FROM $t WHERE blk = 5");
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
		my ($all, $dirty, $pinned) = buffers_of($aio, $t);
		is($pinned, 1, 'a clean buffer is pinned');
		$alice->gives("SELECT buffer_dirtied, buffer_already_dirty FROM pg_buffercache, pg_buffercache_mark_dirty(bufferid) WHERE relfilenode = pg_relation_filenode('$t') AND pinning_backends > 0", 'f|f', 'it is skipped');
		$alice->gives("SELECT * FROM pg_buffercache_mark_dirty_relation('$t')", join('|', $all - $dirty - 1, $dirty, 1), 'dirtied, dirty already, skipped');
		$bob->sql('COMMIT');
		$alice->sql("CHECKPOINT; DELETE FROM $t WHERE blk = 6");
		($all, $dirty) = buffers_of($aio, $t);
		$alice->gives("SELECT * FROM pg_buffercache_mark_dirty_relation('$t')", join('|', $all - $dirty, $dirty, 0), 'dirtied, dirty already, skipped');
		is(join('|', buffers_of($aio, $t)), "$all|$all|0", 'all are dirty');
		my $dirtied = sub { return split /\|/, $alice->sql('SELECT * FROM pg_buffercache_mark_dirty_all()') };
		$alice->sql('CHECKPOINT');
		my ($first) = $dirtied->();
		cmp_ok($first, '>=', $all, 'buffers of all tables');
		my @again = $dirtied->();
		ok($again[0] < 20 && $again[1] >= $first, 'the second time they are dirty already') || diag("$first, @again");
		is($again[2], 0, 'and none is skipped');
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
		$alice->sql('CHECKPOINT');
		my (undef, $already, $skipped) = $dirtied->();
		ok($skipped >= 1 && $already < 20, 'a pinned buffer is skipped') || diag("$already, $skipped");
		$bob->sql('COMMIT');
		$alice->sql('CHECKPOINT; SELECT count(*) FROM pg_buffercache_mark_dirty_all()');
		$alice->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", "$all|$all|0", 'evicted, flushed, skipped');
		$aio->is_as_written($t, except => join "\n", map { "block $_ has no row" } 4 .. 6);
	}), skip => $skip // ($aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_buffercache_mark_dirty_relation'") ? undef : 'pg_buffercache is older than 1.7'));

	$aio->scenario('what is refused', with('alice', 5, kind => 'TEMP', sub ($alice, $t) {
		$alice->fails("SELECT pg_buffercache_evict_relation('$t')", '22023', qr/relation uses local buffers/, 'a temporary table');
		$alice->fails("SELECT pg_buffercache_evict($_)", 'XX000', qr/bad buffer ID: $_/, "buffer $_") for -1, 0, 2049;
	}), skip => $skip);
});

# pg_buffercache_summary() and pg_buffercache_usage_counts() agree with pg_buffercache: on buffers
# that were used once or often, that are dirty, and that are pinned.
for_each_io_method('worker', sub {
	# buffers follow one another in memory, and begin with a page of memory
	$aio->scenario('pages of memory', sub {
		my ($buffers, $rows, $pages, $most, $gaps) = split /\|/, $aio->sql(<<'END');
SELECT count(DISTINCT bufferid), count(*), count(DISTINCT os_page_num), (SELECT max(n) FROM (SELECT count(*) AS n FROM pg_buffercache_os_pages GROUP BY os_page_num) c), max(os_page_num) - min(os_page_num) + 1 - count(DISTINCT os_page_num)
FROM pg_buffercache_os_pages
END
		is($buffers, 2048, 'each buffer has one');
		# pages may be huge: then several buffers share each
		is($rows, $most > 1 ? $buffers : $pages, 'a page for each buffer, or pages of one buffer each');
		is($gaps, 0, 'without a gap');
	}, skip => $aio->lacks('pg_buffercache') // ($aio->sql("SELECT to_regclass('pg_buffercache_os_pages') IS NULL") eq 't' ? 'pg_buffercache is older than 1.7' : undef));

	$aio->scenario('counts', with('alice bob', sub ($alice, $bob) {
		my @tables = map { $aio->table("t$_", 20 + $_, changes => 1) } 1 .. 6;
		for my $times (1 .. 6) { $alice->sql("SELECT count(*) FROM $tables[$times - 1]") for 1 .. $times }
		$alice->sql("DELETE FROM $tables[3] WHERE blk < 5");
		$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $tables[1]; MOVE 3 FROM c");
		my $pool = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'shared_buffers'");
		# in one statement, after another one has used the same catalogs
		for (1, 2)
		{
			my ($buffers, $rows, $wrong) = split /\|/, $aio->sql(<<'END');
WITH shown AS MATERIALIZED (SELECT * FROM pg_buffercache),
	counted AS MATERIALIZED (SELECT * FROM pg_buffercache_usage_counts())
SELECT sum(buffers), count(*), string_agg(format('%s: %s', usage_count, c), '; ') FILTER (WHERE abs(buffers - s.n) > 3 OR abs(c.dirty - s.d) > 3 OR abs(c.pinned - s.p) > 3)
FROM counted c, LATERAL (SELECT count(*) + CASE c.usage_count WHEN 0 THEN (SELECT count(*) FROM shown WHERE relfilenode IS NULL) ELSE 0 END AS n,
	count(*) FILTER (WHERE isdirty) AS d, count(*) FILTER (WHERE pinning_backends > 0) AS p FROM shown WHERE usagecount = c.usage_count) s
END
			next if $_ == 1;
			is($buffers, $pool, 'each buffer is counted once');
			is($rows, 6, 'usage counts from 0 to 5');
			is($wrong // '', '', 'as many as pg_buffercache shows');
		}
		$aio->gives('SELECT buffers_used + buffers_unused, buffers_pinned > 0, buffers_dirty > 0 FROM pg_buffercache_summary()', "$pool|t|t", 'pg_buffercache_summary()');
		$aio->gives('SELECT buffers >= 25 FROM pg_buffercache_usage_counts() WHERE usage_count = 5', 't', 'those that are used often');
		$bob->sql('ROLLBACK');
	}), skip => $aio->lacks('pg_buffercache'));
});
