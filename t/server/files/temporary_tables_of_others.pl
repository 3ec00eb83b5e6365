# Temporary tables of other sessions: the server itself refuses to read, write and extend
# them, whichever way their blocks are asked for, and reads nothing before it does.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my $refused = qr/cannot access temporary tables of other sessions/;

# What is refused, and with which message.  "S" stands for the schema of the other session;
# S.t has rows and an index, S.e is empty.
my @statements = (
	[ 'a scan' => 'SELECT count(*) FROM S.t', $refused ],
	[ 'a cursor' => 'DECLARE c CURSOR WITH HOLD FOR SELECT blk FROM S.t', $refused ],
	[ 'by TID' => "SELECT blk FROM S.t WHERE ctid = '(7,1)'", $refused ],
	[ 'by a range of TIDs' => "SELECT blk FROM S.t WHERE ctid >= '(7,1)' AND ctid < '(9,0)'", $refused ],
	[ 'a sample' => 'SELECT count(*) FROM S.t TABLESAMPLE SYSTEM (100)', $refused ],
	[ 'an index scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT gen FROM S.t WHERE blk = 7', $refused ],
	[ 'an index-only scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT blk FROM S.t WHERE blk = 7', $refused ],
	[ 'a bitmap scan' => 'SET enable_seqscan = off; SET enable_indexscan = off; SELECT gen FROM S.t WHERE blk = 7', $refused ],
	[ 'COPY' => 'COPY S.t TO STDOUT', $refused ],
	[ 'UPDATE' => 'UPDATE S.t SET gen = 1', $refused ],
	[ 'DELETE' => 'DELETE FROM S.t', $refused ],
	[ 'INSERT' => "INSERT INTO S.t VALUES ('t', 20, 0, 'x')", $refused ],
	[ 'INSERT into an empty table' => "INSERT INTO S.e VALUES ('e', 0, 0, 'x')", $refused ],
	[ 'TRUNCATE' => 'TRUNCATE S.t', qr/cannot truncate temporary tables of other sessions/ ],
	[ 'CREATE INDEX' => 'CREATE INDEX ON S.t (gen)', qr/cannot create indexes on temporary tables of other sessions/ ],
	[ 'REINDEX' => 'REINDEX TABLE S.t', qr/cannot reindex temporary tables of other sessions/ ],
	[ 'pg_prewarm, buffer' => "SELECT pg_prewarm('S.t', 'buffer')", $refused ],
	[ 'pg_prewarm, prefetch' => "SELECT pg_prewarm('S.t', 'prefetch')", $refused ],
	[ 'get_raw_page' => "SELECT get_raw_page('S.t', 7)", $refused ]);

for_each_io_method(
	sub {
		my ($aio) = @_;
		my %without = map { $_ => $aio->lacks($_) } qw(pg_prewarm pageinspect);
		# corrected in 18.5 and in the second beta version of 19
		my $has_bug = $aio->setting('server_version') =~ /^(?:18\.[0-4]|19beta1)\b/;

		$aio->scenario('what is refused', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20, kind => 'TEMP', session => $alice);
			my $e = $aio->table('e', 0, kind => 'TEMP', session => $alice);
			$alice->sql('CREATE INDEX t_i ON t (blk); SET enable_seqscan = off; SELECT gen FROM t WHERE blk = 7; RESET enable_seqscan');
			my $schema = $alice->sql('SELECT pg_my_temp_schema()::regnamespace');
			my $sizes = sub { return $alice->sql("SELECT pg_relation_size('t'), pg_relation_size('t_i'), pg_relation_size('e')") };
			my $before = $sizes->();
			my $did = "SELECT coalesce(sum(reads), 0), coalesce(sum(hits), 0), coalesce(sum(extends), 0), coalesce(sum(writes), 0) FROM pg_stat_get_backend_io(${\$bob->pid}) WHERE object = 'temp relation'";
			is($aio->change_during($did, sub {
						for my $statement (@statements)
						{
							my ($name, $sql, $message) = @$statement;
							my $reason = $name =~ /pg_prewarm/ ? $without{pg_prewarm} : $name =~ /raw_page/ ? $without{pageinspect} : undef;
							$reason //= 'this release extends an empty table of another session' if $name =~ /empty/ && $has_bug;
						  SKIP: {
								skip "$name: $reason", 1 if $reason;
								$bob->sql('RESET ALL');
								$bob->fails($sql =~ s/\bS\./$schema./gr, '0A000', $message, $name);
							}
						}
						$bob->sql('RESET ALL');
						# these leave such tables out
						$bob->sql("$_ $schema.t") for 'VACUUM', 'ANALYZE';
					}, $bob), '0/0/0/0', 'nothing was read, found, extended or written');
			is($sizes->(), $before, 'the files are as they were');
			$aio->proves($t, session => $alice);
			$alice->gives('SELECT count(*) FROM e', 0, 'the empty table is empty');
			# none of the other session's local buffers is taken
			$bob->sql('SET temp_buffers = 100');
			my $own = $aio->table('own', 150, kind => 'TEMP', session => $bob);
			$aio->proves($own, session => $bob);
		});
	}, conf => { shared_buffers => '16MB' });
