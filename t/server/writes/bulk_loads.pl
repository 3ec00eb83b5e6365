# Tables that grow, and blocks for which there is no room.
use TestAio;

# Bulk loads, which extend a table by many blocks at once: no block stays unused, another session
# finds the blocks that the load did not need, and recovery makes the same table.

# Makes an empty table, and a file for COPY with so many rows, of a page each.
sub prepare ($aio, $name, $rows)
{
	my $t = $aio->table($name, 0, changes => 1);
	my $file = $aio->node->basedir . "/$name.copy";
	$aio->sql("COPY (SELECT '$t', i, 0, proof('$t', i, 0) FROM generate_series(0, $rows - 1) i) TO '$file'");
	return ($t, $file);
}

# Returns how many blocks the table has, and how many of them hold no row.
sub blocks ($aio, $t) { return $aio->sql("SELECT pg_relation_size('$t') / 8192, pg_relation_size('$t') / 8192 - (SELECT count(DISTINCT (ctid::text::point)[0]) FROM $t)") }

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('COPY of %s pages', with('alice bob', sub ($alice, $bob, $rows) {
		my ($t, $file) = prepare($aio, 't', $rows);
		# bob has looked for free space when there was none
		$bob->sql("INSERT INTO $t SELECT '$t', -1, 0, proof('$t', -1, 0)");
		$alice->sql("COPY $t FROM '$file'");
		my ($size, $empty) = split /\|/, blocks($aio, $t);
		cmp_ok($size, '<', $rows + 66, "$size blocks");
		is($size - $empty, $rows + 1, 'each row has a block of its own');
		# as many rows as there are empty pages
		my $insert = sub { $_[0]->sql("INSERT INTO $t SELECT '$t', -1, 0, proof('$t', -1, 0)") };
		for my $n (1 .. $empty) { $insert->($n % 3 ? $bob : $alice) }
		is(blocks($aio, $t), "$size|0", "$empty further rows fill the table");
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE body = proof('$t', blk, 0)), count(DISTINCT blk) FROM $t", "$size|$size|${\($rows + 1)}", 'the rows');
	}), each => [ 5, 60, 333 ]);

	# a page of the free space map has 4069 heap blocks; another session knows the map as it was before it grew
	$aio->scenario('free space behind the first page of the map', with('alice bob', sub ($alice, $bob) {
		my ($t, $file) = prepare($aio, 't', 20);
		my $insert = "INSERT INTO $t SELECT '$t', -1, 0, proof('$t', -1, 0)";
		# makes the visibility map, whose first page other sessions are told of
		$alice->sql("COPY $t FROM '$file'; VACUUM (TRUNCATE off) $t");
		# looks at the free space map
		$bob->sql($insert);
		$alice->sql("SELECT grow_rel('$t', 4100); COPY $t FROM '$file'");
		my ($size, $empty) = split /\|/, blocks($aio, $t);
		# the blocks of grow_rel() are not in the map
		my $free = $empty - 4100;
		cmp_ok($free, '>', 3, "$free blocks are free");
		$bob->sql($insert) for 1 .. $free;
		is(blocks($aio, $t), "$size|4100", 'further rows take them');
		$aio->gives("SELECT count(*) FILTER (WHERE (ctid::text::point)[0] > 4069 AND blk = -1) > 0 FROM $t", 't', 'also those behind the first page of the map');
	}));

	$aio->scenario('COPY FREEZE', with('alice', sub ($alice) {
		my ($t, $file) = prepare($aio, 't', 50);
		$alice->sql("BEGIN; TRUNCATE $t; COPY $t FROM '$file' (FREEZE); COMMIT");
		$aio->is_as_written($t, blocks => 50);
		$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '50|50', 'all-visible and frozen') if !$aio->lacks('pg_visibility');
		$aio->gives("SELECT count(*) FROM pg_check_frozen('$t')", 0, 'all are frozen indeed') if !$aio->lacks('pg_visibility');
	}));

	$aio->scenario('COPY into pages with a fillfactor, and into an index', with('alice', sub ($alice) {
		my ($t, $file) = ('scenario.c', $aio->node->basedir . '/c.copy');
		$aio->sql("COPY (SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i) TO '$file'; CREATE TABLE $t (n int PRIMARY KEY, body text) WITH (fillfactor = 40, autovacuum_enabled = off)");
		$alice->sql("CREATE FUNCTION scenario.seen(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF \$1 = 3000 THEN"
			  . " RAISE NOTICE ''%'', (SELECT concat_ws('' of '', bytes_processed, bytes_total) FROM pg_stat_progress_copy WHERE pid = pg_backend_pid()); END IF; RETURN true; END'");
		$alice->notices;
		$alice->sql("COPY $t FROM '$file' WHERE scenario.seen(n)");
		is(($alice->notices)[-1], join(' of ', (-s $file) x 2), 'the bytes that are done at the last row');
		$aio->gives("SELECT max(n) FROM (SELECT count(*) AS n FROM $t GROUP BY (ctid::text::point)[0]) s", int 8192 * 0.4 / 140, 'rows of a page');
		$alice->gives("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(body) FROM $t WHERE n > 2000", 1000, 'rows by the index');
		# a row leaves less than is to stay free
		$alice->sql("CREATE TABLE scenario.large (n int, body text STORAGE PLAIN) WITH (fillfactor = 20); COPY (SELECT i, repeat('x', 3000) FROM generate_series(1, 10) i) TO '$file'; COPY scenario.large FROM '$file'");
		$alice->gives("SELECT count(*), count(DISTINCT (ctid::text::point)[0]) FROM scenario.large", '10|10', 'large rows: one a page');
	}));

	# Replay extends the table by several blocks at once, too, where rows do not come in order
	$aio->scenario('a crash after a bulk load', with('alice bob', sub ($alice, $bob) {
		my ($t, $file) = prepare($aio, 't', 60);
		my ($u, $other) = prepare($aio, 'u', 40);
		$aio->sql('CHECKPOINT');
		$alice->sql("COPY $t FROM '$file'; COPY $u FROM '$other'");
		my ($size, $empty) = split /\|/, blocks($aio, $t);
		$bob->sql("INSERT INTO $t SELECT '$t', -1, 0, proof('$t', -1, 0)") for 1 .. $empty;
		$bob->sql("DELETE FROM $u WHERE blk % 2 = 1");
		is(blocks($aio, $t), "$size|0", 'the table is full');
		my $where = $aio->sql("SELECT string_agg(ctid::text || blk, ' ' ORDER BY ctid) FROM $t");
		$alice->sql('SELECT txid_current()');
		$aio->recovers;
		$aio->gives("SELECT string_agg(ctid::text || blk, ' ' ORDER BY ctid) FROM $t", $where, 'the rows are where they were');
		$aio->gives("SELECT pg_relation_size('$t') / 8192", $size, 'the size');
		$aio->evict($t);
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t", "$size|$size", 'the rows on disk');
		$aio->gives("SELECT count(*), sum(blk) FROM $u WHERE body = proof('$u', blk, 0)", '20|380', 'the rows of the other table');
	}), dies => 1);

	# Tables that grow: COPY into several partitions, one after the other and by turns, and the time of
	# extensions.  Guards server commits 22655aa231 and d17ffc734d.
	# a partition that is smaller than another one has no block of its number
	$aio->scenario('COPY into partitions', with('alice', sub ($alice) {
		my $file = $aio->node->basedir . '/rows.copy';
		$aio->sql('CREATE FUNCTION scenario.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$; CREATE TABLE scenario.p (k int, i int, body text STORAGE PLAIN) PARTITION BY LIST (k)');
		$aio->sql("CREATE TABLE scenario.p$_ PARTITION OF scenario.p FOR VALUES IN ($_) WITH (autovacuum_enabled = off)") for 0 .. 2;
		$aio->sql("COPY (SELECT CASE WHEN i % 10 = 3 THEN 1 WHEN i % 25 = 4 THEN 2 ELSE 0 END, i, repeat('x', 7000) FROM generate_series(0, 199) i ORDER BY i % 2, i) TO '$file'");
		# with triggers, row by row
		for my $time (1 .. 3)
		{
			$aio->sql("CREATE TRIGGER t BEFORE INSERT ON scenario.p$_ FOR EACH ROW EXECUTE FUNCTION scenario.f()") for $time == 2 ? 1 : $time == 3 ? (0, 2) : ();
			$alice->sql("COPY scenario.p FROM '$file'");
			$alice->gives('SELECT k, count(*), count(DISTINCT i), sum(length(body)) FROM scenario.p GROUP BY k ORDER BY k', join("\n", map { my ($k, $n) = @$_; join '|', $k, $n * $time, $n, $n * $time * 7000 } [ 0, 172 ], [ 1, 20 ], [ 2, 8 ]), "the rows, time $time");
		}
		# not many more pages than rows
		$alice->gives("SELECT max(pg_relation_size('scenario.p' || k) / 8192 - n) < 130 FROM (SELECT k, count(*) AS n FROM scenario.p GROUP BY k) s", 't', 'pages that no row needs');
	}));

	# what the failed extension leaves in the buffers is not taken for a block
	$aio->scenario('a temporary table that cannot grow, again and again', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100');
		my ($t, $u) = map { $aio->table($_, 10, kind => 'TEMP', session => $alice, changes => 1) } qw(t u);
		# among them a size that fills what the session keeps of its pins, 32 at a time
		while_injected($alice->pid, 'pwrite64,pwritev,fallocate:error=ENOSPC', $aio->file_of($t, $alice), sub {
			$alice->fails("SELECT grow_rel('$t', $_)", '53100', qr/could not extend file .*: No space left on device/, "$_ blocks") for 7, 7, reverse 56 .. 64;
		});
		$alice->sql("CALL add_pages('$t', 10, 29)");
		for my $round (1, 2)
		{
			$aio->is_as_written($t, session => $alice, blocks => 30);
			$alice->sql("CALL add_pages('$u', 100 * $round, 100 * $round + 99)");
			$alice->gives("SELECT count(*) FROM $u WHERE body = proof('$u', blk, 0)", 10 + 100 * $round, 'the rows of another table');
		}
	}), skip => no_strace(), log => qr/client backend alice ERROR:  could not extend file/);

	# a page of the free space map has 4069 blocks; the last block that COPY adds is the first one of the next page
	$aio->scenario('free space of the last block', with('alice bob', sub ($alice, $bob) {
		my $file = $aio->node->basedir . '/rows.copy';
		$aio->sql("COPY (SELECT i, repeat('x', 7000) FROM generate_series(1, 40) i) TO '$file'");
		my $table = sub ($pages) {
			$aio->sql("DROP TABLE IF EXISTS scenario.t; CREATE TABLE scenario.t (i int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
			$aio->sql("SELECT grow_rel('scenario.t', $pages)") if $pages;
			$alice->sql("COPY scenario.t FROM '$file'");
			return $aio->sql("SELECT pg_relation_size('scenario.t') / 8192");
		};
		# the first row goes into the last block that is there
		my $added = $table->(100) - 100;
		is($table->(4070 - $added), 4070, "COPY adds $added blocks, up to block 4069");
		$bob->sql("INSERT INTO scenario.t SELECT -i, repeat('y', 7000) FROM generate_series(1, $added - 39) i");
		$bob->gives("SELECT count(*), pg_relation_size('scenario.t') / 8192 FROM scenario.t WHERE ctid >= '(4069,0)'", '1|4070', 'another session finds it');
	}), skip => $aio->setting('server_version') =~ /^(?:18\.[0-5]|19beta)/ ? 'before 18.6 and 19rc1, its free space is not known above the page' : undef);

	# nothing else is written, since the pool has room for the table; views/pg_stat_io.pl has shared buffers
	$aio->scenario('the time of extensions of a temporary table', with('alice', sub ($alice) {
		$alice->note_temporary_tables;
		$alice->sql('CREATE TEMP TABLE e (body text STORAGE PLAIN); SET track_io_timing = on');
		cmp_ok(explained($alice, 'BUFFERS', "INSERT INTO e SELECT repeat('x', 7000) FROM generate_series(1, 60)")->{'Local I/O Write Time'}, '>', 0, 'Local I/O Write Time');
	}));
}, leaves => 'nothing');

# Blocks that cannot be written or added, since no space is left: the file is /dev/full for a while.  The error names
# blocks and file, its context the block; the buffer stays dirty, and is written later.

# Calls a function while a relation's file is one on a full disk.  The server has no descriptor of it open.
sub while_full ($file, $function) { return while_away($file, $function, '/dev/full') }

# Has all files of a session closed.
sub close_files ($session, $other) { $session->sql("SELECT read_rel_block_ll('$other', 0, smgrreleaseall => true)"); return }

my $no_space = qr/could not write blocks? \d+(?:\.\.\d+)? in file "base\S+": No space left on device/;

for_each_io_method('sync; long: worker', sub {
	my $forgotten = $aio->setting('server_version') =~ /^19beta1\b/ ? '19beta1 unsets BM_IO_ERROR when it sets it (server commit c787c952bc)' : undef;

	$aio->scenario('a dirty block, written to make room', with('alice bob', [ t => 3, changes => 1 ], [ other => 1 ], sub ($alice, $bob, $t, $other) {
		$aio->sql('CHECKPOINT');
		$alice->sql("UPDATE $t SET body = body WHERE blk = 1");
		$alice->gives("SELECT count(*) FROM buffer_state('$t', 1) WHERE flags \@> '{DIRTY}'", 1, 'a block is dirty');
		$aio->end_session($alice);
		close_files($_, $other) for $aio, $bob;
		while_full($aio->file_of($t), sub {
			# the first failure sets BM_IO_ERROR; the second warns that this may not end
			for my $failure (1, 2)
			{
				$bob->fails("SELECT evict_rel('$t')", '53100', qr/$no_space.*CONTEXT:  writing block \d of relation "base/s, "failure $failure");
				$bob->warns(qr/could not write block \d of base\S+\nDETAIL:  Multiple failures --- write error might be permanent\./) if $failure == 2;
				$bob->gives("SELECT count(*) > 0 FROM buffers_in_file(pg_relation_filenode('$t')) WHERE flags \@> '{DIRTY,IO_ERROR}' AND refcount = 0", 't', 'the buffer is dirty still, and not pinned');
				close_files($bob, $other);
			}
		});
		$bob->sql("SELECT evict_rel('$t')");
		$bob->gives("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$t'))", 0, 'then all are written');
		$bob->gives("SELECT string_agg(blk::text, ',' ORDER BY blk) FROM $t", '0,1,2', 'and read again');
	}), skip => $forgotten, log => qr/client backend \w+ (?:ERROR|WARNING):  .*could not write block/);

	$aio->scenario('a dirty block of a temporary table', with('alice', 3, kind => 'TEMP', changes => 1, sub ($alice, $t) {
		my ($file, $other) = ($aio->file_of($t, $alice), $aio->table('other', 1));
		$alice->sql("UPDATE $t SET body = body WHERE blk = 1");
		close_files($alice, $other);
		while_full($file, sub {
			$alice->fails("SELECT evict_rel('$t')", '53100', qr/$no_space/, 'fails');
			close_files($alice, $other);
		});
		$alice->sql("SELECT evict_rel('$t')");
		$alice->gives("SELECT count(*) FROM $t WHERE blk = 1", 1, 'it is written, and read again');
	}), log => qr/client backend alice ERROR:  could not write block/);

	$aio->scenario('a table that cannot grow', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.empty (n int); INSERT INTO scenario.empty VALUES (1); TRUNCATE scenario.empty');
		my $file = $aio->file_of('scenario.empty');
		$aio->end_session($alice);
		($alice) = $aio->sessions('alice');
		while_full($file, sub {
			$alice->fails('INSERT INTO scenario.empty VALUES (2)', '53100', qr/could not (?:write|extend) .*"base\S+": No space left on device/, 'an INSERT fails');
		});
		$aio->end_session($alice);
		$aio->gives('SELECT count(*) FROM buffers_in_file(pg_relation_filenode(\'scenario.empty\')) WHERE refcount > 0', 0, 'no pin is left');
		my ($bob) = $aio->sessions('bob');
		$bob->sql('INSERT INTO scenario.empty VALUES (3)');
		$bob->gives('SELECT n FROM scenario.empty', 3, 'then it grows');
	}), log => qr/client backend alice ERROR:  could not (?:write|extend)/);
});
