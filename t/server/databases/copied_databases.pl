# CREATE DATABASE by each strategy: the copy has the rows of all tables of the template, logged and
# unlogged, although the template's pages are not written yet, and the same pages in the other forks.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $case ([ wal_log => 0 ], [ file_copy => 0 ], [ wal_log => 1 ], [ file_copy => 1 ])
		{
			my ($strategy, $crashes) = @$case;
			$aio->scenario("STRATEGY $strategy" . ($crashes ? ', and a crash' : ''), sub {
				my $bob = $aio->session('bob', dbname => 'template');
				$bob->sql('DROP TABLE IF EXISTS p, u; DROP SEQUENCE IF EXISTS s, us');
				for my $kind ('', 'UNLOGGED')
				{
					my ($t, $s) = $kind ? qw(u us) : qw(p s);
					$bob->sql("CREATE $kind TABLE $t (n int, body text STORAGE PLAIN); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 199) i; CREATE INDEX ON $t (n); CREATE $kind SEQUENCE $s");
				}
				$bob->sql('VACUUM p, u');
				$aio->sql('CHECKPOINT');
				# not written yet
				$bob->sql("UPDATE $_ SET n = n + 1000 WHERE n % 5 = 0; DELETE FROM $_ WHERE n % 5 = 1") for qw(p u);
				$bob->sql("SELECT nextval('s'), nextval('us') FROM generate_series(1, 70)");
				my $look = sub {
					my ($session) = @_;
					my @found;
					for my $t (qw(p u))
					{
						$session->sql('SET enable_seqscan = on; SET enable_indexscan = on; SET enable_bitmapscan = on');
						push @found, $session->sql("SELECT count(*), sum(n), sum(length(body)), pg_relation_size('$t') FROM $t");
						$session->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
						push @found, $session->sql("SELECT count(body) FROM $t WHERE n >= 1000");
					}
					return join '/', @found, $session->sql("SELECT nextval('s'), nextval('us')");
				};
				# pages without their headers, which tell when they were written
				my $forks = sub {
					my ($session) = @_;
					return '' if $aio->lacks('pageinspect');
					return $session->sql(<<'END');
SELECT c, fork, b, md5(substring(get_raw_page(c, fork, b) FROM 25))
FROM unnest(ARRAY['p', 'u', 'u_n_idx']) c, unnest(ARRAY['fsm', 'vm', 'init']) fork, generate_series(0, pg_relation_size(c::regclass, fork)::int / 8192 - 1) b
ORDER BY c, fork, b
END
				};
				my $expected = $look->($bob);
				my $expected_forks = $forks->($bob);
				cmp_ok(scalar(() = $expected_forks =~ /\|(?:fsm|vm|init)\|/g), '>=', 5, 'pages of other forks') if !$aio->lacks('pageinspect');
				$expected =~ s/71\|71$/72|72/;
				my ($rows) = $expected =~ /^(\d+\|\d+\|\d+)/;
				$aio->end_session($bob);
				$aio->sql("CREATE DATABASE copy TEMPLATE template STRATEGY $strategy");
				if ($crashes)
				{
					# the copy and the template have lost the rows of unlogged tables
					$aio->recovers;
					for my $database (qw(copy template))
					{
						my $dave = $aio->session('dave', dbname => $database);
						$dave->gives('SELECT count(*) FROM u', 0, "$database after a crash: no row");
						$dave->gives("INSERT INTO u SELECT i, '' FROM generate_series(1, 50) i; SET enable_seqscan = off; SELECT count(*) FROM u WHERE n BETWEEN 11 AND 20", 10, 'the table and its index can be used');
						$dave->sql('SET enable_seqscan = on');
						$dave->gives("SELECT count(*), sum(n), sum(length(body)), nextval('us') FROM p", "$rows|1", 'the rows of the other table; a sequence begins again');
						$dave->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
						$dave->gives('SELECT count(body) FROM p WHERE n >= 0', $rows =~ s/\|.*//r, 'by its index');
						$aio->end_session($dave);
					}
					$aio->sql('DROP DATABASE copy');
					return;
				}
				my $carol = $aio->session('carol', dbname => 'copy');
				is($forks->($carol), $expected_forks, 'the same pages in the other forks');
				is($look->($carol), $expected, 'the copy has what the template has');
				$carol->sql('UPDATE p SET n = -n; UPDATE u SET n = -n');
				$aio->sql('CHECKPOINT');
				$aio->end_session($carol);
				$bob = $aio->session('bob', dbname => 'template');
				is($look->($bob) =~ s{/[^/]*$}{}r, $expected =~ s{/[^/]*$}{}r, 'and the template stays as it is');
				$aio->end_session($bob);
				my $oid = $aio->sql("SELECT oid FROM pg_database WHERE datname = 'copy'");
				$aio->sql('DROP DATABASE copy');
				$aio->gives("SELECT count(*) FROM pg_buffercache WHERE reldatabase = $oid", 0, 'no buffer is left of a database that was dropped') if !$aio->lacks('pg_buffercache');
				$aio->sql('CHECKPOINT');
			}, dies => $crashes);
		}
	# not with wal_level = minimal (t/server/bugs/unlogged_indexes_of_copies.pl)
	}, streaming => 1,
	# with a ring so large that CREATE DATABASE does not write its pages, to use their buffers again
	conf => { shared_buffers => '128MB' },
	prepare => sub { my ($aio) = @_; $aio->lacks('pageinspect'); $aio->sql('CREATE DATABASE template TEMPLATE postgres') });
