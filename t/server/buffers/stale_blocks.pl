# Commands after which cached blocks are stale: ALTER DATABASE SET TABLESPACE, TRUNCATE, ON COMMIT
# DELETE ROWS, VACUUM that truncates.  No session gets an old block.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('ALTER DATABASE SET TABLESPACE', sub {
			my ($alice) = $aio->sessions('alice');
			$aio->make_tablespace;
			for my $strategy ('wal_log', 'file_copy')
			{
				# a template has no connections while it is copied
				my $bob = $aio->session('bob', dbname => 'other');
				$bob->sql("CREATE TABLE t AS SELECT i AS n, repeat('x', 1800) AS body FROM generate_series(0, 399) i; CREATE UNLOGGED TABLE u AS TABLE t");
				my $sums = 'SELECT (SELECT format(\'%s %s %s\', count(*), sum(n), sum(length(body))) FROM t), (SELECT format(\'%s %s %s\', count(*), sum(n), sum(length(body))) FROM u)';
				my $sum = $bob->sql($sums);
				$aio->end_session($bob);
				$aio->sql("CREATE DATABASE moves TEMPLATE other STRATEGY $strategy");
				my $read = sub { my ($name) = @_;
					my $carol = $aio->session('carol', dbname => 'moves');
					$carol->gives($sums, $sum, "$strategy: $name");
					my $path = $carol->sql("SELECT pg_relation_filepath('t')");
					$carol->sql('UPDATE t SET n = n + 400; UPDATE u SET n = n + 400');
					$sum = $carol->sql($sums);
					$aio->end_session($carol);
					return $path;
				};
				like($read->('the rows of the copy'), qr{^base/}, 'in the default tablespace');
				$aio->sql('ALTER DATABASE moves SET TABLESPACE elsewhere');
				like($read->('the rows after a move, with dirty pages'), qr{^pg_tblspc/}, 'in the other tablespace');
				$aio->sql('ALTER DATABASE moves SET TABLESPACE pg_default');
				like($read->('the rows after the move back'), qr{^base/}, 'in the default tablespace');
				$aio->sql('DROP DATABASE moves');
				$bob = $aio->session('bob', dbname => 'other');
				$bob->sql('DROP TABLE t, u');
				$aio->end_session($bob);
			}
		});

		# way => SQL that replaces the rows of a table %1$s; %2$s inserts the new rows
		my $columns = '(rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN)';
		my %ways = (
			'TRUNCATE' => 'TRUNCATE %1$s; %2$s',
			'TRUNCATE in the transaction of CREATE' =>
			  "DROP TABLE %1\$s; BEGIN; CREATE TABLE %1\$s $columns; %2\$s; SELECT count(*) FROM %1\$s; TRUNCATE %1\$s; %2\$s; COMMIT",
			'DELETE and VACUUM' => 'DELETE FROM %1$s; VACUUM (TRUNCATE on) %1$s; %2$s');
		for my $way (sort keys %ways)
		{
			$aio->scenario("new rows after $way", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 60);
				for my $gen (1 .. 3)
				{
					my $blocks = 20 + 10 * $gen;
					# a scan that looks ahead ends in the middle
					$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 3 FROM c; CLOSE c; COMMIT");
					$alice->sql(sprintf $ways{$way}, $t, "CALL add_pages('$t', 0, $blocks - 1, $gen)");
					$aio->proves($t, gen => $gen, blocks => $blocks);
					$aio->evict($t);
					$aio->proves($t, gen => $gen, blocks => $blocks, name => 'the blocks on disk');
				}
			});
		}

		$aio->scenario('new rows after ON COMMIT DELETE ROWS', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->note_temporary_tables;
			$alice->sql("CREATE TEMP TABLE o $columns ON COMMIT DELETE ROWS");
			for my $gen (1 .. 3)
			{
				my $blocks = 20 + 10 * $gen;
				$alice->gives("SELECT count(*), pg_relation_size('o') FROM o", '0|0', 'the table is empty');
				$alice->sql("BEGIN; CALL add_pages('o', 0, $blocks - 1, $gen); DECLARE c CURSOR FOR SELECT blk FROM o; MOVE 3 FROM c; CLOSE c");
				$aio->proves('o', session => $alice, gen => $gen, blocks => $blocks, name => 'the rows within the transaction');
				$aio->evict('o', $alice);
				$aio->proves('o', session => $alice, gen => $gen, blocks => $blocks, name => 'the blocks on disk');
				$alice->sql('COMMIT');
			}
		});

		# storage that several statements or transactions have used in turn
		$aio->scenario('TOAST tables', sub {
			my ($alice) = $aio->sessions('alice');
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
		});
	},
	prepare => sub { my ($aio) = @_; $aio->sql('CREATE DATABASE other TEMPLATE postgres') });
