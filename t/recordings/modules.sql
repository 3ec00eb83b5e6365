-- pg_prewarm, pg_buffercache, pageinspect, pg_visibility, pgstattuple, amcheck
-- not replayed: needs contrib modules
CREATE TABLE t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(0, 399) i;
CREATE INDEX t_n ON t (n);
VACUUM t;
CHECKPOINT;
SELECT evict_rel('t');
SELECT pg_prewarm('t');
SELECT pg_prewarm('t');
SELECT evict_rel('t');
SELECT pg_prewarm('t', 'buffer', 'main', 10, 49);
SELECT pg_prewarm('t', 'buffer', 'main', 99, 99);
SELECT pg_prewarm('t', 'buffer', 'main', NULL, 3);
SELECT pg_prewarm('t', 'buffer', 'main', 90, NULL);
SELECT evict_rel('t');
SELECT pg_prewarm('t', 'read', 'main', 0, 20);
SELECT pg_prewarm('t', 'prefetch', 'main', 0, 20);
SELECT pg_prewarm('t', 'buffer', 'vm');
SELECT pg_prewarm('t', 'buffer', 'fsm');
SELECT pg_prewarm('t', 'buffer', 'init');
SELECT pg_prewarm('t', 'buffer', 'main', 0, 100);
SELECT pg_prewarm('t', 'buffer', 'main', 100, 100);
SELECT pg_prewarm('t', 'buffer', 'main', -1, 10);
SELECT pg_prewarm('t', 'buffer', 'main', 10, 9);
SELECT pg_prewarm('t', 'nothing');
SELECT pg_prewarm('t_n');
SELECT pg_prewarm(NULL);
-- pg_buffercache
SELECT buffers_used > 0, buffers_unused > 0, buffers_pinned FROM pg_buffercache_summary();
SELECT usage_count, buffers > 0, pinned FROM pg_buffercache_usage_counts() WHERE usage_count > 0;
SELECT count(*), count(DISTINCT relblocknumber), min(relblocknumber), max(relblocknumber), sum(pinning_backends) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0;
UPDATE t SET n = n WHERE n < 20;
SELECT * FROM pg_buffercache_evict_relation('t');
SELECT pg_prewarm('t');
SELECT * FROM pg_buffercache_evict((SELECT bufferid FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 AND relblocknumber = 7));
SELECT * FROM pg_buffercache_evict((SELECT bufferid FROM pg_buffercache WHERE relfilenode IS NULL LIMIT 1));
SELECT * FROM pg_buffercache_evict(0);
SELECT * FROM pg_buffercache_evict(1000000);
BEGIN;
DECLARE c CURSOR FOR SELECT body FROM t;
FETCH 1 FROM c;
-- as bob
SELECT * FROM pg_buffercache_evict_relation('t');
-- as bob
SELECT relblocknumber, usagecount, pinning_backends FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 ORDER BY 1 LIMIT 3;
COMMIT;
-- pageinspect
SELECT lower, upper, special, pagesize, version, flags FROM page_header(get_raw_page('t', 3));
SELECT lp, lp_off, lp_flags, lp_len, t_ctid, t_infomask2, t_infomask FROM heap_page_items(get_raw_page('t', 0)) ORDER BY 1;
SELECT get_raw_page('t', 1000);
SELECT get_raw_page('t', 'fsm', 0) = get_raw_page('t', 'vm', 0);
SELECT fsm_page_contents(get_raw_page('t', 'fsm', 2)) = '';
SELECT magic, version, root, level, fastroot, fastlevel, last_cleanup_num_delpages, allequalimage FROM bt_metap('t_n');
SELECT blkno, type, live_items, dead_items, avg_item_size, page_size, free_size, btpo_prev, btpo_next, btpo_level, btpo_flags FROM bt_multi_page_stats('t_n', 1, -1);
SELECT itemoffset, ctid, itemlen, data FROM bt_page_items('t_n', 1) LIMIT 4;
-- pg_visibility, pgstattuple, amcheck
SELECT * FROM pg_visibility_map_summary('t');
SELECT * FROM pg_visibility('t', 5);
SELECT count(*) FROM pg_check_visible('t');
SELECT count(*) FROM pg_check_frozen('t');
VACUUM (FREEZE) t;
SELECT * FROM pg_visibility_map_summary('t');
SELECT pg_truncate_visibility_map('t');
SELECT * FROM pg_visibility_map_summary('t');
DELETE FROM t WHERE n % 3 = 0;
SELECT evict_rel('t'), evict_rel('t_n');
SELECT table_len, tuple_count, tuple_len, dead_tuple_count, dead_tuple_len, free_space FROM pgstattuple('t');
SELECT table_len, scanned_percent, approx_tuple_count, dead_tuple_count, approx_free_space FROM pgstattuple_approx('t');
SELECT version, tree_level, index_size, root_block_no, internal_pages, leaf_pages, empty_pages, deleted_pages FROM pgstatindex('t_n');
SELECT table_len, tuple_count, dead_tuple_count FROM pgstattuple('t_n');
SELECT pg_relpages('t'), pg_relpages('t_n');
SELECT evict_rel('t'), evict_rel('t_n');
SELECT bt_index_check('t_n', heapallindexed => true);
SELECT bt_index_parent_check('t_n', heapallindexed => true, rootdescend => true);
SELECT evict_rel('t');
SELECT * FROM verify_heapam('t', skip => 'all-frozen');
SELECT * FROM verify_heapam('t', startblock => 10, endblock => 20, check_toast => true);
VACUUM t;
SELECT * FROM verify_heapam('t', skip => 'all-visible');
-- free space
SELECT count(*), max(octet_length(fsm_page_contents(get_raw_page('t', 'fsm', b)))) > 0 FROM generate_series(0, 2) b;
