-- Which blocks are pinned before each read of functions of contrib modules.
-- not replayed: the other recordings have these records
SET io_combine_limit = 1;
CREATE TABLE heap (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, repeat('x', 900) FROM generate_series(0, 79) i;
CREATE INDEX heap_n ON heap (n);
CREATE INDEX heap_h ON heap USING hash (n);
CREATE INDEX heap_gin ON heap USING gin ((ARRAY[n]));
VACUUM heap;
DELETE FROM heap WHERE n % 5 = 0 AND n < 40;
-- step by step
SELECT pg_prewarm('heap', first_block => 3, last_block => 6);
SELECT pg_prewarm('heap', fork => 'vm');
SELECT pg_prewarm('heap_n');
SELECT all_visible, all_frozen FROM pg_visibility_map_summary('heap');
SELECT * FROM pg_visibility('heap');
SELECT count(*) FROM pg_check_visible('heap');
SELECT count(*) FROM pg_check_frozen('heap');
SELECT tuple_count, dead_tuple_count FROM pgstattuple('heap');
SELECT scanned_percent, approx_tuple_count FROM pgstattuple_approx('heap');
SELECT index_size, leaf_pages FROM pgstatindex('heap_n');
SELECT bucket_pages, live_items FROM pgstathashindex('heap_h');
SELECT pending_pages FROM pgstatginindex('heap_gin');
SELECT count(*) FROM verify_heapam('heap');
SELECT bt_index_check('heap_n', heapallindexed => true);
SELECT bt_index_parent_check('heap_n', heapallindexed => true, rootdescend => true);
SELECT gin_index_check('heap_gin');
SELECT lp, t_ctid FROM heap_page_items(get_raw_page('heap', 2)) WHERE lp < 3;
SELECT pg_truncate_visibility_map('heap');
SELECT count(*) FROM pg_visibility_map('heap') WHERE all_visible;
