# VACUUM of indexes that other sessions make grow, before it or while it scans them: it comes to the new
# pages, too, and ends.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# hashbulkdelete() begins with the copy of the metapage that the session has
		$aio->scenario('a hash index that another session has split', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = 'scenario.h';
			$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); CREATE INDEX h_i ON $t USING hash (k); INSERT INTO $t SELECT generate_series(0, 199)");
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
			$alice->gives("SELECT count(*) FROM $t WHERE k = 7", 1, 'the session has the metapage');
			my $pages = $aio->sql("SELECT pg_relation_size('scenario.h_i') / 8192");
			$bob->sql("INSERT INTO $t SELECT generate_series(200, 5999); DELETE FROM $t WHERE k % 3 = 0");
			$aio->gives("SELECT pg_relation_size('scenario.h_i') / 8192 > 2 * $pages", 't', 'there are more buckets now');
			is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 2000, 'rows removed');
			$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.h_i'::regclass", 4000, 'entries that remain in the index');
			$bob->sql("INSERT INTO $t SELECT generate_series(10000, 11999)");
			$alice->gives("SELECT count(*) FILTER (WHERE s.found <> (i % 3 <> 0 OR i >= 10000)::int), sum(s.found) FROM (SELECT generate_series(0, 5999) UNION ALL SELECT generate_series(10000, 11999)) g(i), LATERAL (SELECT count(*) AS found FROM $t WHERE k = i) s",
				'0|6000', 'each key has its row, and deleted keys have none');
		});

		$aio->scenario('a B-tree that grows meanwhile', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = 'scenario.g';
			$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); CREATE INDEX g_i ON $t (k); INSERT INTO $t SELECT i * 10 FROM generate_series(0, 2999) i; DELETE FROM $t WHERE k % 30 = 0");
			my $pages = $aio->sql("SELECT pg_relation_size('scenario.g_i') / 8192");
			$aio->sql("SELECT evict_rel('scenario.g_i')");
			$bob->sql("SELECT read_rel_block_ll('scenario.g_i', 0, nblocks => $pages - 1)");
			$aio->hold(relation => 'scenario.g_i', block => $pages - 1, pid => $alice->pid);
			$alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
			$aio->holds(1, 'it has come to the last page');
			# not into the last page, which has the largest keys
			$bob->sql("INSERT INTO $t SELECT i FROM generate_series(1, 8000) i WHERE i % 10 <> 0");
			$aio->gives("SELECT pg_relation_size('scenario.g_i') / 8192 > 2 * $pages", 't', 'the index has more pages now');
			$aio->release;
			$alice->ends('VACUUM');
			$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
			$alice->gives("SELECT count(*), sum(k) FROM $t WHERE k >= 0", '9200|58800000', 'the rows by the index');
			$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.g_i', true)) c", 1, 'amcheck finds nothing') if !$aio->lacks('amcheck');
		}, skip => $aio->no_faults);
	});
