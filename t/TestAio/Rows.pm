# Tables whose rows are numbered, for tests that know each row and each block of a scan.

package TestAio::Rows;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(numbered_table indexed_table numbers);

# Makes a table whose rows are numbered from 0 in physical order (n), a fixed number to a
# page, and evicts it.
sub numbered_table
{
	my ($aio, $name, $pages, $per_page) = @_;
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
sub indexed_table
{
	my ($aio, $pages) = @_;
	my $rows = 4 * $pages;
	$aio->sql("CREATE UNLOGGED TABLE scenario.i (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO scenario.i SELECT i, (i * 7919) % $rows, i % 50, repeat('x', 1900) FROM generate_series(0, $rows - 1) i;"
		  . 'CREATE INDEX i_k ON scenario.i (k); CREATE INDEX i_m ON scenario.i (m); CREATE INDEX i_n ON scenario.i (n);'
		  . 'VACUUM (FREEZE, ANALYZE, TRUNCATE off) scenario.i');
	$aio->gives("SELECT pg_relation_size('scenario.i') / 8192, count(DISTINCT k) FROM scenario.i", "$pages|$rows", 'the table');
	return 'scenario.i';
}

# Returns these numbers, upwards or downwards, as rows of a result.
sub numbers { my ($from, $to) = @_; return join "\n", $from <= $to ? $from .. $to : reverse $to .. $from }

1;
