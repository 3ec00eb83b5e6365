# pgstattuple's functions, which read by streams since 19, count what is there, whatever they skip.
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

		$aio->scenario('of a table whose pages are visible to all in part', sub {
			my $t = $aio->table('t', 100);
			# VACUUM notes the free space that is left
			$aio->sql("DELETE FROM $t WHERE blk = 50; VACUUM (TRUNCATE off) $t");
			# what is deleted, live rows, and dead ones: each DELETE prunes what the one before has left
			for my $case ([ 'blk < 0', 99, 0 ], [ 'blk < 20', 79, 20 ], [ 'blk >= 70', 49, 30 ], [ 'true', 0, 49 ])
			{
				my ($deleted, $live, $dead) = @$case;
				$aio->sql("DELETE FROM $t WHERE $deleted");
				$aio->evict($t);
				my $skipped = $aio->sql("SELECT all_visible FROM pg_visibility_map_summary('$t')");
				$aio->gives("SELECT tuple_count, dead_tuple_count FROM pgstattuple('$t')", "$live|$dead", "$deleted: live and dead rows");
				$aio->gives("SELECT scanned_percent, dead_tuple_count, table_len FROM pgstattuple_approx('$t')", join('|', 100 - $skipped, $dead, 819200), 'pgstattuple_approx() reads what is not visible to all');
			}
		}, skip => $aio->lacks('pgstattuple') // $aio->lacks('pg_visibility'));

		$aio->scenario('of indexes', sub {
			my $t = 'scenario.i';
			$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(1, 20000); CREATE INDEX i_b ON $t (k); CREATE INDEX i_h ON $t USING hash (k);"
				  . "DELETE FROM $t WHERE k BETWEEN 5000 AND 15000; VACUUM $t; SELECT evict_rel('scenario.i_b'), evict_rel('scenario.i_h')");
			my ($pages, $deleted) = split /\|/, $aio->sql("SELECT internal_pages + leaf_pages + empty_pages + deleted_pages + 1, deleted_pages FROM pgstatindex('scenario.i_b')");
			is($pages, $aio->sql("SELECT pg_relation_size('scenario.i_b') / 8192"), 'btree: each page is of one kind');
			is($deleted, $aio->sql("SELECT count(*) FROM generate_series(1, $pages - 1) b, bt_page_stats('scenario.i_b', b) s WHERE s.type IN ('d', 'D')"), 'deleted pages') if !$aio->lacks('pageinspect');
			cmp_ok($deleted, '>', 10, 'there are some');
			my ($hash_pages, $items) = split /\|/, $aio->sql("SELECT bucket_pages + overflow_pages + bitmap_pages + unused_pages + 1, live_items + dead_items FROM pgstathashindex('scenario.i_h')");
			is($hash_pages, $aio->sql("SELECT pg_relation_size('scenario.i_h') / 8192"), 'hash: each page is of one kind');
			is($items, 20000 - 10001, 'entries');
		}, skip => $aio->lacks('pgstattuple'));
	}, conf => { shared_buffers => '16MB' });
