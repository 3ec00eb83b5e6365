# CREATE DATABASE with wal_level = minimal and a template that has unlogged tables
# (doc/reports/create-database-minimal.md).  On a server that has the bug, nobody can use their
# indexes in the new database after a crash.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $strategy ('wal_log', 'file_copy')
		{
			$aio->scenario("STRATEGY $strategy, and a crash", sub {
				$aio->sql("DROP DATABASE IF EXISTS $_") for qw(copy template);
				$aio->sql('CREATE DATABASE template TEMPLATE postgres');
				my $alice = $aio->session('alice', dbname => 'template');
				$alice->sql('CREATE UNLOGGED TABLE u (n int); INSERT INTO u SELECT generate_series(1, 1000); CREATE INDEX u_n ON u (n); CREATE UNLOGGED SEQUENCE s; CREATE TABLE p AS SELECT n, -n AS m FROM u; CREATE INDEX p_n ON p (n)');
				$aio->end_session($alice);
				$aio->sql("CREATE DATABASE copy TEMPLATE template STRATEGY $strategy");
				$aio->recovers;
				my %outcome;
				for my $database (qw(template copy))
				{
					my $bob = $aio->session('bob', dbname => $database);
					my $sql = "SET enable_seqscan = off; INSERT INTO u SELECT generate_series(1, 50); SELECT count(*), nextval('s') FROM u WHERE n BETWEEN 11 AND 20";
					$outcome{$database} = eval { $bob->sql($sql) } // $@;
					if ($outcome{$database} =~ /zero page/)
					{
						$bob->sql('REINDEX INDEX u_n; INSERT INTO u SELECT generate_series(1, 50)');
						$bob->gives('SELECT count(*) FROM u WHERE n BETWEEN 11 AND 20', 10, 'after REINDEX the index can be used');
						# an assertion would fail first
						$bob->fails("SELECT nextval('s')", 'XX000', qr/bad magic number in sequence "s"/, 'the sequence has lost its page, too') if !$aio->has_assertions;
					}
					$bob->gives("SELECT count(*), sum(n), sum(m) FROM p", '1000|500500|-500500', "$database: a table that is not unlogged");
					$bob->gives('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(m) FROM p WHERE n > 10', 990, 'by its index');
					$aio->end_session($bob);
				}
				is($outcome{template}, '10|1', 'the template can be used');
				$strategy eq 'wal_log' && $aio->has_bug('create-database-minimal') ? like($outcome{copy}, qr/index "u_n" contains unexpected zero page at block 0/, 'the index of the copy is of zeroes')
				  : is($outcome{copy}, '10|1', 'the copy can be used');
				$aio->sql("DROP DATABASE $_") for qw(copy template);
			}, dies => 1, log => qr/ERROR:  XX002: index "u_n" contains unexpected zero page at block 0|ERROR:  index "u_n" contains unexpected zero page/);
		}
	}, leaves => 'nothing', conf => { wal_level => 'minimal', max_wal_senders => 0, shared_buffers => '128MB' });
