# Hash indexes whose pages come and go.  After a split that could not clean up its old bucket, since a
# scan was there, VACUUM's copy of the metapage is older than the split, and VACUUM, which reads by a
# stream since 19, has to begin anew after this bucket (hashbulkdelete).  Overflow pages that VACUUM
# has freed are used again.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a scan in the bucket that is split', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			my ($t, $i) = ('scenario.h', 'scenario.h_i');
			# a key of bucket 1, before and after the split, with more entries than a page holds
			my $key = $aio->sql('SELECT min(k) FROM generate_series(1, 1000) k WHERE hashint4(k) & 7 = 1');
			$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT $key FROM generate_series(1, 1500); ANALYZE $t; CREATE INDEX h_i ON $t USING hash (k)");
			$aio->gives("SELECT maxbucket FROM hash_metapage_info(get_raw_page('$i', 0))", 4, 'five buckets');
			$_->sql('SET enable_seqscan = off; SET enable_bitmapscan = off') for $alice, $carol;
			$alice->gives("SELECT count(*) FROM $t WHERE k = 0", 0, 'the session has the metapage');
			my @pages = split /,/, $aio->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, pg_relation_size('$i')::int / 8192 - 1) b WHERE hash_page_type(get_raw_page('$i', b)) <> 'overflow'");
			$aio->evict($i);
			$aio->warm($i, @pages);

			# bucket 1 is the first to be split, into 1 and 5; the split reads the bucket's second page
			my $other_keys = "FROM generate_series(1001, 9000) k WHERE hashint4(k) & 3 <> 1";
			$aio->hold(relation => $i, pid => $bob->pid);
			$bob->starts("INSERT INTO $t SELECT k $other_keys LIMIT 300");
			$aio->holds(1);
			$carol->sql("BEGIN; DECLARE c CURSOR FOR SELECT k FROM $t WHERE k = $key; MOVE 1 FROM c");
			$aio->release;
			$bob->returns('', 'the split goes on');
			$aio->gives("SELECT count(*) FROM generate_series(1, pg_relation_size('$i')::int / 8192 - 1) b, get_raw_page('$i', b) p, hash_page_stats(p) s WHERE hash_page_type(p) = 'bucket' AND s.hasho_bucket = 1 AND s.hasho_flag & 64 <> 0",
				1, 'and leaves its cleanup to others');
			$carol->sql('COMMIT');

			$bob->sql("DELETE FROM $t WHERE k <> $key");
			is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 300, 'rows removed');
			$aio->gives("SELECT reltuples FROM pg_class WHERE oid = '$i'::regclass", 1500, 'entries that remain in the index');
			$bob->sql("INSERT INTO $t SELECT -i FROM generate_series(1, 300) i");
			$alice->gives("SELECT count(*) FILTER (WHERE s.found > 0) FROM (SELECT k $other_keys LIMIT 300) g, LATERAL (SELECT count(*) AS found FROM $t WHERE h.k = g.k) s", 0, 'deleted keys have no row');
			$alice->gives("SELECT count(*) FROM $t WHERE k = $key", 1500, 'the rows of the key');
		}, skip => $aio->no_faults // $aio->lacks('pageinspect'));

		# pages that the index has freed are used again without being read
		for my $kind ('', 'TEMP')
		{
			$aio->scenario("overflow pages that are used again $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $insert = 'INSERT INTO h SELECT i % 2 FROM generate_series(1, 4000) i';
				$alice->sql(($kind ? '' : 'SET search_path = scenario, public; ') . "CREATE $kind TABLE h (k int); CREATE INDEX h_i ON h USING hash (k); $insert; DELETE FROM h; VACUUM h");
				my $size = $alice->sql("SELECT pg_relation_size('h_i') / 8192");
				cmp_ok($size, '>', 12, 'the index has overflow pages');
				$aio->evict('h_i', $alice);
				$alice->sql("$insert; SET enable_seqscan = off; SET enable_bitmapscan = off");
				$alice->gives('SELECT count(*) FROM h WHERE k = ' . $_, 2000, "rows of key $_") for 0, 1;
				$aio->evict('h_i', $alice);
				$alice->gives('SELECT count(*) FROM h WHERE k = ' . $_, 2000, "rows of key $_, from disk") for 0, 1;
				$alice->gives("SELECT pg_relation_size('h_i') / 8192", $size, 'the index has not grown');
			});
		}
	}, conf => { 'test_aio.reach_synchronous_reads' => 'on' });
