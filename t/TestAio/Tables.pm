# What a scenario begins with: sessions and a table; tables whose rows are numbered, for tests that know each
# row and each block of a scan; tables of three segments, of which only the pages beside the boundaries take room.

package TestAio::Tables;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(with with_kind combined numbered_table indexed_table starts_io numbers SIDE boundaries long_table right_rows file_sizes);

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
	$session->sql("CREATE $kind TABLE $t (rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN)"
		  . ($kind eq 'TEMP' ? '' : ' WITH (autovacuum_enabled = off)')
		  . "; CREATE INDEX ${name}_i ON $t (blk)");
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
