package TestAio::Tables;

=head1 NAME

TestAio::Tables - the sessions and tables that a scenario begins with

=head1 SYNOPSIS

	$aio->scenario('a scan', with('alice', 8, sub ($alice, $t) {
		$aio->warm($t, 1, 2);
		is($aio->cached($t), '1,2', 'the blocks in the buffer pool');
		$aio->evict($t);
		$aio->is_as_written($t);
		$alice->gives("SELECT max(n) FROM ${\numbered_table($aio, 'n', 10, 4)}", 39);
	}));

Each page of a table has one row, which fills the page with a text made from relation, block and generation.  A page
that is read in part, a page of another relation or block, and an older page differ from that text.  The table's comment
is the number of its pages.  Other tables have numbered rows, or three segments, which take little room.

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;

our @EXPORT = qw(with with_kind combined numbered_table indexed_table starts_io numbers SIDE boundaries long_table right_rows file_sizes);

# Makes the SQL functions that write and check such tables.
sub make_data_functions ($self)
{
	$self->sql(<<'END');
-- Returns the text that fills a page.
CREATE OR REPLACE FUNCTION proof(rel text, blk int, gen int) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT repeat(md5(rel || '/' || blk || '/' || gen), 251) $$;

-- Adds these pages to a table.
CREATE OR REPLACE PROCEDURE add_pages(name text, first int, last int, gen int DEFAULT 0)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %1$s SELECT %1$L, i, %4$s, proof(%1$L, i, %4$s) FROM generate_series(%2$s, %3$s) i', name, first, last, gen);
END $$;

-- Makes a table of so many pages, without a TOAST table; kind: "", UNLOGGED, TEMP.
CREATE OR REPLACE PROCEDURE make_table(name text, nblocks int, kind text, gen int)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE %s TABLE %s (rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN)'
		|| CASE WHEN kind = 'TEMP' THEN '' ELSE ' WITH (autovacuum_enabled = off)' END, kind, name);
	CALL add_pages(name, 0, nblocks - 1, gen);
	EXECUTE format('COMMENT ON TABLE %s IS ''%s''', name, nblocks);
END $$;

-- Returns what is wrong with the pages of a table, which has this number of pages, or else the
-- number in its comment.  Whether anything is wrong is found out first, since that takes a third of the time.
CREATE OR REPLACE FUNCTION problems(name text, gen int DEFAULT 0, nblocks int DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	n int := coalesce(nblocks, obj_description(name::regclass, 'pg_class')::int);
	is_right bool;
BEGIN
	-- the name may be that of a table which the snapshot of this statement does not show yet
	IF n IS NULL THEN
		RAISE undefined_table USING MESSAGE = format('nothing tells how many blocks %s has', name);
	END IF;
	EXECUTE format($q$
		SELECT count(*) = %3$s AND count(DISTINCT blk) = %3$s AND coalesce(bool_and(coalesce(
			rel = %1$L AND blk = (ctid::text::point)[0] AND gen = %2$s AND body = proof(%1$L, blk, %2$s), false)
			AND blk < %3$s), true)
		FROM %1$s $q$, name, gen, n) INTO is_right;
	IF is_right THEN
		RETURN;
	END IF;
	RETURN QUERY EXECUTE format($q$
		WITH found AS MATERIALIZED (
			SELECT (ctid::text::point)[0]::int AS page, count(*) OVER (PARTITION BY ctid) AS times, * FROM %1$s),
		wanted AS (
			SELECT generate_series(0, %3$s - 1) AS page)
		SELECT CASE
			WHEN f.page IS NULL THEN format('block %%s has no row', page)
			WHEN w.page IS NULL THEN format('block %%s is too many', page)
			WHEN f.times > 1 THEN format('block %%s comes %%s times', page, f.times)
			WHEN (f.rel, f.blk) IS DISTINCT FROM (%1$L, page::int) THEN format('block %%s holds block %%s of %%s', page, f.blk, f.rel)
			WHEN f.gen <> %2$s THEN format('block %%s is of generation %%s', page, f.gen)
			ELSE format('block %%s is not as written', page)
			END
		FROM wanted w FULL JOIN found f USING (page)
		WHERE (f.times, f.rel, f.blk, f.gen, f.body, w.page) IS DISTINCT FROM (1, %1$L, page::int, %2$s, proof(%1$L, page::int, %2$s), page)
		ORDER BY page $q$, name, gen, n);
	IF NOT FOUND THEN
		RETURN NEXT 'was not as written, and is when read again';
	END IF;
END $$;

-- The first problems of a table, if it has not been dropped.
CREATE OR REPLACE FUNCTION problems_left(name text, gen int) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
	IF to_regclass(name) IS NOT NULL THEN
		RETURN QUERY SELECT name || ': ' || p FROM problems(name, gen) p LIMIT 3;
	END IF;
END $$;
END
	return;
}

# Makes a table in the scenario's schema, evicts it, and returns its name.  Parameters: kind
# (UNLOGGED or TEMP), gen, and session, which makes the table; TEMP needs a session.  At the end of the
# scenario the table must hold what was written, unless it is dropped by then; changes, if it need not.
sub table ($self, $name, $nblocks, %params)
{
	my $session = $params{session} // $self;
	my ($kind, $gen) = ($params{kind} // '', $params{gen} // 0);
	my $full_name = $kind eq 'TEMP' ? $name : "scenario.$name";
	$session->note_temporary_tables if $kind eq 'TEMP';
	# all-visible, so that no reader changes it
	$session->sql(
		"CALL make_table('$full_name', $nblocks, '$kind', $gen); VACUUM (FREEZE, TRUNCATE off) $full_name;"
		  . "SELECT evict_rel('$full_name')");
	push @{ $self->{unchanged} }, { name => $full_name, gen => $gen, session => $kind eq 'TEMP' ? $session : undef } if !$params{changes};
	return $full_name;
}

# The file of a table's first segment; of a temporary table if its session is given.
sub file_of ($self, $table, $session = undef)
{
	return $self->node->data_dir . '/' . ($session // $self)->sql("SELECT pg_relation_filepath('$table')");
}

# Writes into a file of the server, which does not notice.
sub overwrite ($self, $file, $offset, $bytes)
{
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek $fh, $offset, 0 or die "$file: $!";
	print $fh $bytes or die "$file: $!";
	close $fh or die "$file: $!";
	return;
}

# Evicts a table's blocks from the buffer pool.
sub evict ($self, $table, $session = undef)
{
	($session // $self)->sql("SELECT evict_rel('$table')");
	return;
}

# Reads some blocks into the buffer pool.
sub warm ($self, $table, @blocks)
{
	$self->sql("SELECT count(*) FROM read_stream_for_blocks('$table', ARRAY[" . join(',', @blocks) . ']::int[])');
	return;
}

# Test: the table has all its pages, each once, and as they were written.  Parameters: gen,
# session; blocks, if the table has changed its size; except, the problems that are expected.
sub is_as_written ($self, $table, %params)
{
	@{ $self->{unchanged} } = grep { $_->{name} ne $table } @{ $self->{unchanged} } if grep { defined $params{$_} } qw(gen blocks except);
	my $found = ($params{session} // $self)->sql("SELECT problems('$table', ${\($params{gen} // 0)}, ${\($params{blocks} // 'NULL')})");
	return is($found, $params{except} // '', $params{name} // "$table holds what was written");
}

# Fails if one of the tables that no one was to change does not hold what was written.  A table of which is_as_written() has
# tested that it holds something else was to be changed.
sub check_unchanged_tables ($self)
{
	my %queries;
	push @{ $queries{ $_->{session} // $self } }, $_ for @{ $self->{unchanged} };
	my @found;
	for my $tables (values %queries)
	{
		my $session = $tables->[0]{session} // $self;
		push @found, $session->sql(join ' UNION ALL ', map { "SELECT problems_left('$_->{name}', $_->{gen})" } @$tables) || () if !$tables->[0]{session} || !$session->has_gone;
	}
	return TestAio::Oracles::is_nothing(join("\n", @found), 'tables hold what was written');
}

# The blocks of a table's main fork that are in the buffer pool, separated by commas.
sub cached ($self, $table)
{
	return $self->sql("SELECT coalesce(string_agg(relblocknumber::text, ',' ORDER BY relblocknumber), '')"
		  . " FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0"
		  . ' AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())');
}

# Returns a function for scenario() that calls another one with sessions of these names, if any, and, if it is told how
# many pages, a table, as sessions_and_table() makes them: with('alice bob', 8, changes => 1, sub ($alice, $bob, $t) {…}).
# Several tables have names: with('alice', [ t => 8, changes => 1 ], [ u => 20 ], sub ($alice, $t, $u) {…}).
sub with ($names, @table)
{
	my $body = pop @table;
	return sub ($aio, @row) {
		return $body->($aio->sessions_and_table($names, @table), @row) if @table && !ref $table[0];
		return $body->($aio->sessions(split ' ', $names), (map { $aio->table(@$_) } @table), @row);
	};
}

# The same for a scenario that runs for each of several kinds of tables: the first value of its row.
sub with_kind ($names, @table)
{
	my $body = pop @table;
	return sub ($aio, $kind, @row) { return $body->($aio->sessions_and_table($names, @table, kind => $kind), $kind, @row) };
}

# Returns rows for scenarios: each value of the first array with each value or row of the second one.
sub combined ($values, $rows) { return map { my $value = $_; map { [ $value, ref eq 'ARRAY' ? @$_ : $_ ] } @$rows } @$values }

# Makes a table whose rows are numbered from 0 in physical order (n), a fixed number to a page, and evicts it.
sub numbered_table ($aio, $name, $pages, $per_page)
{
	my $length = int(8000 / $per_page) - 60;
	my $rows = $pages * $per_page;
	$aio->sql("CREATE UNLOGGED TABLE scenario.$name (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO scenario.$name SELECT i, repeat('x', $length) FROM generate_series(0, $rows - 1) i;"
		  . "VACUUM (FREEZE, ANALYZE, TRUNCATE off) scenario.$name; SELECT evict_rel('scenario.$name')");
	$aio->gives("SELECT pg_relation_size('scenario.$name') / 8192", $pages, "$name has $pages pages");
	return "scenario.$name";
}

# Makes a table of four rows a page, with three columns and an index on each: n numbers the
# rows in physical order, k in another order, m has 50 values.
sub indexed_table ($aio, $pages)
{
	my $rows = 4 * $pages;
	$aio->sql("CREATE UNLOGGED TABLE scenario.i (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO scenario.i SELECT i, (i * 7919) % $rows, i % 50, repeat('x', 1900) FROM generate_series(0, $rows - 1) i;"
		  . 'CREATE INDEX i_k ON scenario.i (k); CREATE INDEX i_m ON scenario.i (m); CREATE INDEX i_n ON scenario.i (n);'
		  . 'VACUUM (FREEZE, ANALYZE, TRUNCATE off) scenario.i');
	$aio->gives("SELECT pg_relation_size('scenario.i') / 8192, count(DISTINCT k) FROM scenario.i", "$pages|$rows", 'the table');
	return 'scenario.i';
}

# Has a session start I/O on a block, and returns the buffer.
sub starts_io ($session, $table, $block = 2)
{
	my $b = $session->sql("SELECT buffer_create_toy('$table', $block)");
	$session->gives("SELECT buffer_call_start_io($b, true, true)", 't', 'starts');
	return $b;
}

# Returns these numbers, upwards or downwards, as rows of a result.
sub numbers ($from, $to) { return join "\n", $from <= $to ? $from .. $to : reverse $to .. $from }

# pages with a row, on each side of a boundary
use constant SIDE => 6;

# Returns the first block of the second segment and that of the third one.
sub boundaries ($aio)
{
	my $segment = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'segment_size'");
	return ($segment, 2 * $segment);
}

# Makes a table of two whole segments and the beginning of a third one, and returns its name
# and its first file.  Each page beside a boundary has a row, which an index knows.  The other
# pages are holes in sparse files, and new pages to the server.  Parameters: kind (TEMP), and
# session, which makes the table.
sub long_table ($aio, $name, %params)
{
	my ($segment) = boundaries($aio);
	my $session = $params{session} // $aio;
	my $kind = $params{kind} // '';
	my $t = $kind eq 'TEMP' ? $name : "scenario.$name";
	$session->note_temporary_tables if $kind eq 'TEMP';
	$session->sql("CALL make_table('$t', 0, '$kind', 0); CREATE INDEX ${name}_i ON $t (blk)");
	my $file = $aio->file_of($t, $session);
	for my $boundary (1, 2)
	{
		my $first = $boundary * $segment - SIDE;
		my $last_file = $boundary == 1 ? $file : "$file.1";
		# the last page of the hole takes the first row, once the session has forgotten where its last row is
		truncate $last_file, ($segment - SIDE + 1) * 8192 or die "$last_file: $!";
		$session->sql("SELECT read_rel_block_ll('$t', 0, smgrreleaseall => true)");
		$session->sql("CALL add_pages('$t', $first, $first + 2 * ${\SIDE} - 1)");
	}
	return ($t, $file);
}

# Returns how many blocks of a range have their row, as written.
sub right_rows ($session, $t, $first, $count)
{
	return $session->sql("SELECT count(*) FROM $t WHERE ctid >= '($first,0)' AND ctid < '(${\($first + $count)},0)'"
		  . " AND ctid = format('(%s,1)', blk)::tid AND rel = '$t' AND body = proof('$t', blk, gen)");
}

# Returns the sizes of the three files, in blocks.
sub file_sizes ($file) { return join ' ', map { (-s $_ // -1) / 8192 } $file, "$file.1", "$file.2" }

1;
