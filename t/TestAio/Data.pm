# Tables of which each page says which relation and block it is.
#
# Each page has one row, which fills the page with a text made from relation, block and generation.  A page that is
# read in part, a page of another relation or block, and an older page differ from that text.  The table's comment is
# the number of its pages, so that a lost tail is noticed.

package TestAio::Data;

use v5.36;
use warnings FATAL => 'all';

use Test::More;

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

# Sessions of these names, and a table "t" of so many pages.  Parameters are those of table(); with a kind,
# the first of the sessions makes the table.
sub sessions_and_table ($self, $names, $nblocks, %params)
{
	my @sessions = $self->sessions(split ' ', $names);
	return (@sessions, $self->table('t', $nblocks, exists $params{kind} ? (session => $sessions[0]) : (), %params));
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
sub proves ($self, $table, %params)
{
	@{ $self->{unchanged} } = grep { $_->{name} ne $table } @{ $self->{unchanged} } if grep { defined $params{$_} } qw(gen blocks except);
	my $found = ($params{session} // $self)->sql("SELECT problems('$table', ${\($params{gen} // 0)}, ${\($params{blocks} // 'NULL')})");
	return is($found, $params{except} // '', $params{name} // "$table holds what was written");
}

# Fails if one of the tables that no one was to change does not hold what was written.  A table of which proves() has
# tested that it holds something else was to be changed.
sub prove_unchanged ($self)
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

1;
