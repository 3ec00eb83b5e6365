# Cached blocks that are stale or no longer exist.
use TestAio;
use File::Path qw(remove_tree);

# Commands after which cached blocks are stale: ALTER DATABASE SET TABLESPACE, TRUNCATE, ON COMMIT
# DELETE ROWS, VACUUM that truncates.  No session gets an old block.
# Blocks that no longer exist: after TRUNCATE, DROP, ROLLBACK and truncation by VACUUM no
# buffer holds one, no bit of the visibility map speaks of one, and no scan looks for one.

# Returns the blocks behind the end of this table's main fork that buffers hold.
sub buffers_behind_the_end ($server, $table)
{
	return $server->sql("SELECT coalesce(string_agg(blockno::text, ',' ORDER BY blockno), '') FROM buffers_in_file(pg_relation_filenode('$table')) WHERE fork = 'main' AND blockno >= pg_relation_size('$table') / 8192");
}

for_each_io_method('worker; long: all', sub {
	# no other session is connected to the template while it is copied
	$aio->scenario('ALTER DATABASE SET TABLESPACE', sub {
		$aio->make_tablespace;
		$aio->sql("CREATE TABLE scenario.t AS SELECT i AS n, repeat('x', 1800) AS body FROM generate_series(0, 99) i; CREATE UNLOGGED TABLE scenario.u AS TABLE scenario.t");
		my $sums = join ' UNION ALL ', map { "SELECT count(*), sum(n), sum(length(body)) FROM scenario.$_" } qw(t u);
		my $sum = $aio->sql($sums);
		$aio->sql("CREATE DATABASE moves TEMPLATE postgres STRATEGY file_copy");
		my $read = sub ($name) {
			my $carol = $aio->session('carol', dbname => 'moves');
			$carol->gives($sums, $sum, $name);
			my $path = $carol->sql("SELECT pg_relation_filepath('scenario.t')");
			$carol->sql('UPDATE scenario.t SET n = n + 100; UPDATE scenario.u SET n = n + 100');
			$sum = $carol->sql($sums);
			$aio->end_session($carol);
			return $path;
		};
		like($read->('the rows of the copy'), qr{^base/}, 'in the default tablespace');
		$aio->sql('ALTER DATABASE moves SET TABLESPACE elsewhere');
		like($read->('the rows after a move, with dirty pages'), qr{^pg_tblspc/}, 'in the other tablespace');
		$aio->sql('ALTER DATABASE moves SET TABLESPACE pg_default');
		like($read->('the rows after the move back'), qr{^base/}, 'in the default tablespace');
		$aio->sql('CREATE INDEX t_n ON scenario.t (n)');
		my $old = $aio->file_of('scenario.t_n');
		$aio->sql($_) for 'REINDEX (TABLESPACE elsewhere) INDEX scenario.t_n', 'DROP INDEX scenario.t_n', 'CHECKPOINT';
		ok(!-e $old, 'REINDEX removes the old file of an index that it moves');
		# the link of a tablespace goes even if its directory has gone
		my $link = $aio->node->data_dir . '/pg_tblspc/' . $aio->sql("SELECT oid FROM pg_tablespace WHERE spcname = 'elsewhere'");
		remove_tree(glob "$link/PG_*") or die "$link: $!";
		$aio->sql('DROP TABLESPACE elsewhere');
		ok(!-l $link, 'DROP TABLESPACE removes it');
	});

	# way => SQL that replaces the rows of a table %1$s; %2$s inserts the new rows
	my $columns = '(rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN)';
	my %ways = (
		'TRUNCATE' => 'TRUNCATE %1$s; %2$s',
		'TRUNCATE in the transaction of CREATE' =>
		  "DROP TABLE %1\$s; BEGIN; CREATE TABLE %1\$s $columns; %2\$s; SELECT count(*) FROM %1\$s; TRUNCATE %1\$s; %2\$s; COMMIT",
		'DELETE and VACUUM' => 'DELETE FROM %1$s; VACUUM (TRUNCATE on) %1$s; %2$s');
	$aio->scenario('new rows after %s', with('alice', 60, sub ($alice, $t, $way) {
		for my $gen (1, 2)
		{
			my $blocks = 20 + 10 * $gen;
			# a scan that looks ahead ends in the middle
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 3 FROM c; CLOSE c; COMMIT");
			$alice->sql(sprintf $ways{$way}, $t, "CALL add_pages('$t', 0, $blocks - 1, $gen)");
			$aio->is_as_written($t, gen => $gen, blocks => $blocks);
			$aio->evict($t);
			$aio->is_as_written($t, gen => $gen, blocks => $blocks, name => 'the blocks on disk');
		}
	}), each => [ sort keys %ways ]);

	$aio->scenario('new rows after ON COMMIT DELETE ROWS', with('alice', sub ($alice) {
		$alice->note_temporary_tables;
		$alice->sql("CREATE TEMP TABLE o $columns ON COMMIT DELETE ROWS");
		for my $gen (1, 2)
		{
			my $blocks = 20 + 10 * $gen;
			$alice->gives("SELECT count(*), pg_relation_size('o') FROM o", '0|0', 'the table is empty');
			$alice->sql("BEGIN; CALL add_pages('o', 0, $blocks - 1, $gen); DECLARE c CURSOR FOR SELECT blk FROM o; MOVE 3 FROM c; CLOSE c");
			$aio->is_as_written('o', session => $alice, gen => $gen, blocks => $blocks, name => 'the rows within the transaction');
			$aio->evict('o', $alice);
			$aio->is_as_written('o', session => $alice, gen => $gen, blocks => $blocks, name => 'the blocks on disk');
			$alice->sql('COMMIT');
		}
	}));

	# storage that several statements or transactions have used in turn
	$aio->scenario('TOAST tables', with('alice', sub ($alice) {
		$alice->note_temporary_tables;
		my $fill = "INSERT INTO %s SELECT i, string_agg(md5(i || '/' || j), '') FROM generate_series(1, 10) i, generate_series(1, 200) j GROUP BY i";
		my $blocks = "SELECT pg_relation_size(oid) / 8192, pg_relation_size(reltoastrelid) / 8192 FROM pg_class WHERE oid = '%s'::regclass";
		$alice->sql('CREATE TEMP TABLE w (n int, body text STORAGE EXTERNAL) ON COMMIT DELETE ROWS');
		for my $time (1, 2)
		{
			$alice->sql('BEGIN; ' . sprintf $fill, 'w');
			$alice->gives((sprintf $blocks, 'w'), '1|10', "ON COMMIT DELETE ROWS, time number $time: rows");
			$alice->sql('COMMIT');
			$alice->gives((sprintf $blocks, 'w'), '0|0', 'no rows, in the TOAST table either');
		}
		my $u = 'scenario.u';
		$alice->sql("BEGIN; CREATE TABLE $u (n int, body text STORAGE EXTERNAL); ${\sprintf $fill, $u}; TRUNCATE $u");
		$alice->gives((sprintf $blocks, $u), '0|0', 'TRUNCATE in the transaction of CREATE');
		$alice->sql("${\sprintf $fill, $u}; COMMIT");
		$alice->gives("SELECT count(*), sum(length(body)) FROM $u", '10|64000', 'the rows');
	}));

	# DropRelationsAllBuffers() looks for more than twenty files in another way
	$aio->scenario('DROP of %s tables, ordered by %s', with('alice', sub ($alice, $count, $order) {
		$alice->note_temporary_tables;
		my ($names, $files) = split /\|/, $aio->sql(<<"END");
DO \$\$ BEGIN FOR i IN 1 .. $count LOOP EXECUTE format('CREATE TABLE scenario.d%s (n int); INSERT INTO scenario.d%s SELECT generate_series(1, 400)', i, i); END LOOP; END \$\$;
SELECT string_agg(format('scenario.d%s', n), ', ' ORDER BY $order), string_agg(pg_relation_filenode(format('scenario.d%s', n))::text, ',') FROM generate_series(1, $count) n
END
		my $buffers = "SELECT count(*) FROM unnest('{$files}'::oid[]) file, buffers_in_file(file)";
		my $dirty = $aio->sql("$buffers WHERE 'DIRTY' = ANY (flags)");
		cmp_ok($dirty, '>=', 2 * $count, 'buffers are dirty');
		$alice->sql("BEGIN; DROP TABLE $names; ROLLBACK");
		$aio->gives("$buffers WHERE 'DIRTY' = ANY (flags)", $dirty, 'DROP that is rolled back leaves them');
		# those of temporary tables are elsewhere
		$alice->sql('CREATE TEMP TABLE first AS SELECT 1; CREATE TEMP TABLE last AS SELECT 1');
		$alice->sql("DROP TABLE first, $names, last");
		$aio->gives($buffers, 0, 'DROP leaves no buffer');
		# a checkpoint fails if a dirty buffer of a dropped table is left
		$aio->sql('CHECKPOINT');
	}), each => [ [ 3, 'n' ], [ 30, '(n * 7 + 11) % 30' ] ]);

	# the statement, and how many rows the table has then
	$aio->scenario('a new file for the old one', with('alice', 40, changes => 1, sub ($alice, $t, $end, $statement, $rows) {
		# makes the pages dirty
		$aio->sql("VACUUM FULL $t");
		my $old = $aio->sql("SELECT pg_relation_filenode('$t')");
		$alice->sql(sprintf $statement, $t);
		my $new = $aio->sql("SELECT pg_relation_filenode('$t')");
		$aio->gives("SELECT count(*) FROM buffers_in_file($old)", 0, "$end: no buffer of the old file") if $new != $old;
		is(buffers_behind_the_end($aio, $t), '', "$end: none behind the end");
		$aio->gives("SELECT count(*) FROM $t", $rows, 'the rows');
		$aio->is_as_written($t) if $rows;
	}), each => [
		[ 'TRUNCATE', 'TRUNCATE %s', 0 ],
		[ 'TRUNCATE that is rolled back', 'BEGIN; TRUNCATE %1$s; INSERT INTO %1$s SELECT \'x\', 1, 1, \'x\' FROM generate_series(1, 300); ROLLBACK', 40 ],
		[ 'SET UNLOGGED', 'ALTER TABLE %s SET UNLOGGED', 40 ],
		[ 'VACUUM FULL', 'VACUUM FULL %s', 40 ] ]);

	# RELEASE hands the pending deletions of files over to the transaction around it
	$aio->scenario('savepoints', with('alice', [ t => 40, changes => 1 ], [ u => 40 ], sub ($alice, $t, $u) {
		my %file = map { $_ => $aio->file_of($_) } $t, $u;
		$aio->sql("SELECT evict_rel('$_')") for $t, $u;
		$alice->sql("BEGIN; SAVEPOINT a; CREATE TABLE scenario.kept AS SELECT generate_series(1, 400); TRUNCATE $t; RELEASE a; SAVEPOINT b");
		$alice->sql("CREATE TABLE scenario.not_kept AS SELECT generate_series(1, 400); DROP TABLE $u");
		my $not_kept = $aio->file_of('scenario.not_kept', $alice);
		$alice->sql('ROLLBACK TO b; COMMIT');
		$aio->sql("CHECKPOINT; SELECT evict_rel('scenario.kept')");
		$aio->gives("SELECT (SELECT count(*) FROM scenario.kept), (SELECT count(*) FROM $t), to_regclass('scenario.not_kept')", '400|0|', 'what was released stays, what was rolled back has gone');
		$aio->is_as_written($u);
		ok(-e $file{$u}, 'the file of a table whose DROP is rolled back stays');
		ok(!-e $file{$t}, 'that of the truncated table goes');
		ok(!-e $not_kept, 'and that of the table whose creation is rolled back');
	}));

	# a byte of the visibility map has the bits of four pages: the table is cut off at each place in a byte
	$aio->scenario('truncation by VACUUM, %s, %s', with('alice', sub ($alice, $kind, $size) {
		my $t = $aio->table('t', 40, kind => $kind, session => $alice);
		# reads all blocks into the pool
		$alice->sql("SELECT count(*) FROM $t");
		$alice->sql("DELETE FROM $t WHERE blk >= $size; VACUUM (TRUNCATE on) $t");
		$alice->gives("SELECT pg_relation_size('$t') / 8192", $size, "$size blocks");
		is(buffers_behind_the_end($aio, $t), '', 'no buffer behind the end') if $kind ne 'TEMP';
		# no other session sees the rows of this transaction yet
		$alice->sql("BEGIN; INSERT INTO $t SELECT '$t', i, 0, proof('$t', i, 0) FROM generate_series($size, 29) i");
		if (!$aio->lacks('pg_visibility'))
		{
			$alice->gives("SELECT string_agg(blkno::text, ',') FROM pg_visibility_map('$t') WHERE blkno >= $size AND (all_visible OR all_frozen)", '', 'nothing new is visible to all');
			$aio->gives("SELECT count(*) FROM pg_check_visible('$t')", 0, 'the map is right') if $kind ne 'TEMP';
		}
		$alice->sql('COMMIT');
		$aio->is_as_written($t, session => $alice, blocks => 30);
		$alice->sql("SELECT evict_rel('$t')");
		$aio->is_as_written($t, session => $alice, blocks => 30, name => 'and from disk');
	}), each => [ combined([ '', 'UNLOGGED', 'TEMP' ], [ 8 .. 12 ]) ]);

	# count_nondeletable_pages(): an index still points to dead items
	$aio->scenario('truncation, and dead items that indexes point to', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk >= 10");
		$alice->sql("VACUUM (INDEX_CLEANUP off, TRUNCATE on) $t");
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 40, 'no page is cut off');
		$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
		$alice->gives("SELECT count(gen) FROM $t WHERE blk >= 0", 10, 'by the index');
		$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE on) $t");
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 10, 'the pages are cut off');
		$alice->gives("SELECT count(gen) FROM $t WHERE blk >= 0", 10, 'by the index');
	}));

	$aio->scenario('a file that has lost its last block, which is in the pool', with('alice bob', 10, changes => 1, sub ($alice, $bob, $t) {
		my $file = $aio->file_of($t);
		$aio->warm($t, 9);
		$aio->sql('CHECKPOINT');
		truncate $file, 9 * 8192 or die "$file: $!";
		$_->fails("SELECT grow_rel('$t', 1)", 'XX000', qr/unexpected data beyond EOF in block 9/, 'its new block would be the old one') for $alice, $bob;
		$alice->gives("SELECT count(*) FROM pg_locks WHERE locktype = 'extend'", 0, 'no lock is left');
	}));

	# A synchronized scan begins where another one was; the table ends there by now
	$aio->scenario('truncation, and a scan that begins where another was', with('alice bob', 600, changes => 1, sub ($alice, $bob, $t) {
		$_->sql('SET synchronize_seqscans = on') for $alice, $bob;
		# positions are reported every 16 blocks
		for my $size (592, 576)
		{
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
			$alice->sql("MOVE $size FROM c; CLOSE c; COMMIT");
			$bob->sql("SET synchronize_seqscans = off; DELETE FROM $t WHERE blk >= $size; VACUUM (TRUNCATE on) $t; SET synchronize_seqscans = on");
			$aio->gives("SELECT pg_relation_size('$t') / 8192", $size, "$size blocks");
			$bob->gives("SELECT count(*), min(blk), max(blk) FROM $t", "$size|0|" . ($size - 1), 'each row once');
		}
	}));
});
