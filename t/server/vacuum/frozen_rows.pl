# relfrozenxid is not younger than any row that is not frozen, whichever pages VACUUM skips: rows on
# all-visible pages keep their old xmin.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# VACUUM cannot freeze the row, and does not wait for the page
		$aio->scenario('a page that a cursor has pinned', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = 'scenario.p';
			my $insert = sub { $aio->sql("INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series($_[0], $_[1]) i"); $aio->sql('SELECT txid_current()') for 1 .. 20 };
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
			$insert->(0, 0);
			$insert->(1, 39);
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t WHERE ctid = '(0,1)'; MOVE 1 FROM c");
			$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
			$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE age(xmin) < 1000000) FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the row on the pinned page');
			$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
			$bob->sql('COMMIT');
			$alice->sql("VACUUM (FREEZE) $t");
			$aio->gives("SELECT age(relfrozenxid) < 20 FROM pg_class WHERE oid = '$t'::regclass", 't', 'later, FREEZE makes it young');
			$aio->gives("SELECT count(*), sum(n) FROM $t", '40|780', 'the rows');
		});

		# each of the ranges is long enough to be skipped; the first alone has rows that are not frozen
		$aio->scenario('skips visible pages, then frozen ones', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.v';
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series(0, 199) i");
			$alice->sql("VACUUM (FREEZE) $t");
			$alice->sql("DELETE FROM $t WHERE n < 100");
			$alice->sql("VACUUM (FREEZE, TRUNCATE off) $t");
			# an insert and twenty transactions, twice: two ages
			for my $rows ('0, 49', '50, 99')
			{
				$aio->sql("INSERT INTO $t SELECT i, repeat('y', 7000) FROM generate_series($rows) i");
				$aio->sql('SELECT txid_current()') for 1 .. 20;
			}
			$aio->gives("SELECT max(ctid) < '(100,0)' FROM $t WHERE n < 100", 't', 'new rows on the pages that were empty');
			$alice->sql('SET vacuum_freeze_min_age = 1000000; SET vacuum_max_eager_freeze_failure_rate = 0');
			$alice->sql("VACUUM $t");
			$aio->gives("SELECT count(*) FILTER (WHERE blkno < 50 AND all_visible AND NOT all_frozen), count(*) FILTER (WHERE blkno >= 111 AND all_frozen) FROM pg_visibility_map('$t')", '50|89', 'visible to all, and frozen')
			  if !$aio->lacks('pg_visibility');
			for my $skipped ($aio->lacks('amcheck') || $aio->lacks('pg_visibility') ? () : qw(all_frozen all_visible))
			{
				$aio->evict($t);
				my $skip = $skipped =~ s/_/-/r;
				my $bytes = $aio->sql("SELECT sum(8192 * (NOT $skipped)::int) FROM pg_visibility_map('$t')");
				like($aio->io_during($alice, 'relation/bulkread', sub { $alice->gives("SELECT msg FROM verify_heapam('$t', skip => '$skip')", '', "amcheck skips pages that are $skip") }),
					qr{/$bytes$}, "and reads the others: $bytes bytes");
			}
			$aio->sql('SELECT txid_current()') for 1 .. 20;
			$alice->sql("UPDATE $t SET n = n WHERE ctid IN ('(90,1)', '(110,1)')");
			$aio->sql('SELECT txid_current()') for 1 .. 20;
			$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
			$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE ctid < '(90,0)') FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the oldest row that is not frozen');
			$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
			$aio->gives("SELECT count(*), sum(n) FROM $t", '200|19900', 'the rows');
		});

		# the last block that is changed, and settings
		my %cases = (
			'skips a long range' => [ 150, '' ],
			'skips no short range' => [ 20, '' ],
			'skips all but the last page' => [ 199, '' ],
			'eager' => [ 150, 'SET vacuum_max_eager_freeze_failure_rate = 1' ]);
		for my $name (sort keys %cases)
		{
			$aio->scenario($name, sub {
				my ($alice) = $aio->sessions('alice');
				my ($changed, $settings) = @{ $cases{$name} };
				my $t = 'scenario.f';
				$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 7000) FROM generate_series(0, 199) i");
				# all-visible, but too young to be frozen
				$alice->sql("SET vacuum_freeze_min_age = 1000000; SET vacuum_max_eager_freeze_failure_rate = 0");
				$alice->sql("VACUUM $t");
				$aio->gives("SELECT all_visible, all_frozen FROM pg_visibility_map_summary('$t')", '200|0', 'visible to all, not frozen') if !$aio->lacks('pg_visibility');
				$aio->sql('SELECT txid_current()') for 1 .. 20;
				$alice->sql("UPDATE $t SET n = n WHERE n = $changed");
				$aio->sql('SELECT txid_current()') for 1 .. 20;
				$alice->sql("$settings;") if $settings;
				$aio->evict($t);
				$alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
				$aio->gives("SELECT age(relfrozenxid) >= (SELECT max(age(xmin)) FROM $t WHERE age(xmin) < 1000000) FROM pg_class WHERE oid = '$t'::regclass", 't', 'relfrozenxid is as old as the oldest row');
				$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
				# now nothing is skipped that is not frozen
				$alice->sql("VACUUM (FREEZE) $t");
				$aio->gives("SELECT age(relfrozenxid) < 20 FROM pg_class WHERE oid = '$t'::regclass", 't', 'FREEZE makes it young');
				$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
				$aio->gives("SELECT count(*), sum(n) FROM $t", '200|19900', 'the rows');
			});
		}
	}, conf => { shared_buffers => '16MB' });
