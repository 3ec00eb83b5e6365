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
-- step by step
SELECT pg_prewarm('heap', fork => 'vm');
-- step by step
SELECT pg_prewarm('heap_n');
-- step by step
SELECT all_visible, all_frozen FROM pg_visibility_map_summary('heap');
-- step by step
SELECT * FROM pg_visibility('heap');
-- step by step
SELECT count(*) FROM pg_check_visible('heap');
-- step by step
SELECT count(*) FROM pg_check_frozen('heap');
-- step by step
SELECT tuple_count, dead_tuple_count FROM pgstattuple('heap');
-- step by step
SELECT scanned_percent, approx_tuple_count FROM pgstattuple_approx('heap');
-- step by step
SELECT index_size, leaf_pages FROM pgstatindex('heap_n');
-- step by step
SELECT bucket_pages, live_items FROM pgstathashindex('heap_h');
-- step by step
SELECT pending_pages FROM pgstatginindex('heap_gin');
-- step by step
SELECT count(*) FROM verify_heapam('heap');
-- step by step
SELECT bt_index_check('heap_n', heapallindexed => true);
-- step by step
SELECT bt_index_parent_check('heap_n', heapallindexed => true, rootdescend => true);
-- step by step
SELECT gin_index_check('heap_gin');
-- step by step
SELECT lp, t_ctid FROM heap_page_items(get_raw_page('heap', 2)) WHERE lp < 3;
-- step by step
SELECT pg_truncate_visibility_map('heap');
-- step by step
SELECT count(*) FROM pg_visibility_map('heap') WHERE all_visible;
