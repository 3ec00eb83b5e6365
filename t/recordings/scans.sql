-- Scans of every kind, cold and warm.
CREATE TABLE heap (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, (i * 7919) % 2000, i % 50, repeat('x', 380) FROM generate_series(0, 1999) i;
CREATE INDEX heap_k ON heap (k);
CREATE INDEX heap_m ON heap (m);
VACUUM (FREEZE, ANALYZE) heap;
CHECKPOINT;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap;
SELECT count(*), sum(n), sum(k), sum(m) FROM heap;
SELECT evict_rel('heap');
SELECT n FROM heap LIMIT 3;
SELECT n FROM heap LIMIT 100 OFFSET 700;
-- cursors
SELECT evict_rel('heap');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n FROM heap WHERE n % 19 = 0;
FETCH 3 FROM c;
FETCH 20 FROM c;
FETCH BACKWARD 5 FROM c;
MOVE LAST IN c;
SELECT evict_rel('heap');
FETCH BACKWARD 4 FROM c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
COMMIT;
-- by index
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT sum(n) FROM heap WHERE k BETWEEN 100 AND 250;
SELECT evict_rel('heap'), evict_rel('heap_k');
SELECT sum(n), count(*) FROM heap WHERE k BETWEEN 100 AND 250;
SELECT array_agg(n) FROM (SELECT n FROM heap WHERE k < 20 ORDER BY k DESC) s;
SELECT count(*) FROM heap WHERE k = ANY ('{5, 900, 1999, 4000}');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT k FROM heap WHERE k < 500;
-- pages that are not all-visible have index-only scans look at the heap
UPDATE heap SET body = body WHERE n = 13;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT k FROM heap WHERE k < 500;
RESET enable_bitmapscan;
-- by bitmap: exact, lossy, and of two indexes
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT evict_rel('heap'), evict_rel('heap_k'), evict_rel('heap_m');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT sum(n) FROM heap WHERE k BETWEEN 100 AND 250;
SELECT evict_rel('heap');
SELECT sum(n), count(*) FROM heap WHERE k BETWEEN 100 AND 250;
SELECT evict_rel('heap');
SELECT sum(n), count(*) FROM heap WHERE k BETWEEN 100 AND 250 OR m = 7;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT sum(n) FROM heap WHERE k < 900 AND m IN (3, 4);
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap WHERE k < 900;
SELECT n FROM heap WHERE m = 7 LIMIT 4;
CREATE TABLE wide WITH (autovacuum_enabled = off) AS SELECT i n, i % 10 m, repeat('y', 1900) body FROM generate_series(0, 4799) i;
CREATE INDEX wide_m ON wide (m);
VACUUM (FREEZE, ANALYZE) wide;
SET work_mem = '64kB';
SELECT evict_rel('wide');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT sum(n) FROM wide WHERE m IN (1, 4);
SELECT evict_rel('wide');
SELECT sum(n), count(*) FROM wide WHERE m IN (1, 4);
RESET work_mem;
-- a nested loop starts an inner scan anew
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM generate_series(1, 5) g JOIN heap ON heap.m = g;
SELECT evict_rel('heap');
SELECT g, sum(n) FROM generate_series(1, 3) g JOIN LATERAL (SELECT n FROM heap WHERE m = g LIMIT 5) h ON true GROUP BY g ORDER BY g;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_seqscan;
-- sums only
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT evict_rel('wide'), evict_rel('heap');
-- sums only
EXPLAIN (COSTS off) SELECT count(*), sum(n) FROM wide;
-- sums only
SELECT count(*), sum(n) FROM wide;
SELECT evict_rel('wide'), evict_rel('heap');
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
-- sums only
EXPLAIN (COSTS off) SELECT count(*), sum(n) FROM heap WHERE k < 1500;
-- sums only
SELECT count(*), sum(n) FROM heap WHERE k < 1500;
SET work_mem = '64kB';
-- sums only
SELECT count(*), sum(n) FROM wide WHERE m < 6;
RESET work_mem;
SET enable_indexscan = on;
SET enable_bitmapscan = off;
SELECT evict_rel('heap'), evict_rel('heap_k');
-- sums only
SELECT count(*), sum(n) FROM heap WHERE k < 1500;
