-- What EXPLAIN says of reads and WAL, in each format.
-- not replayed: it is about plans
SET track_io_timing = off;
CREATE TABLE heap (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, (i * 7919) % 1000, i % 20, repeat('x', 300) FROM generate_series(0, 999) i;
CREATE INDEX heap_k ON heap (k);
CREATE INDEX heap_mn ON heap (m, n);
CREATE TABLE small AS SELECT i g FROM generate_series(0, 9) i;
VACUUM (FREEZE, ANALYZE) heap, small;
CHECKPOINT;
SET plan_cache_mode = force_generic_plan;
-- the same scans in each format; the first run leaves nothing to plan
PREPARE by_seq AS SELECT count(*) FROM heap WHERE body <> 'y' AND n % 2 = 0;
PREPARE by_bitmap (int) AS SELECT sum(n) FROM heap WHERE k < $1 OR m = 3;
PREPARE by_only AS SELECT m, n FROM heap WHERE m = ANY ('{2, 5}') AND n < 300;
PREPARE by_tid AS SELECT n FROM heap WHERE ctid < '(3,0)' AND k > 500;
EXECUTE by_seq;
EXECUTE by_bitmap (100);
SET enable_seqscan = off;
EXECUTE by_only;
EXECUTE by_tid;
RESET enable_seqscan;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, WAL, VERBOSE, FORMAT JSON, COSTS off, TIMING off, SUMMARY off) EXECUTE by_seq;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, FORMAT YAML, COSTS off, TIMING off, SUMMARY off) EXECUTE by_bitmap (100);
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, COSTS off, TIMING off, SUMMARY off) EXECUTE by_only;
EXPLAIN (ANALYZE, BUFFERS, FORMAT XML, COSTS off, TIMING off, SUMMARY off) EXECUTE by_tid;
EXPLAIN (VERBOSE, FORMAT XML) EXECUTE by_bitmap (3);
EXPLAIN (FORMAT YAML) SELECT * FROM heap WHERE k = 3;
EXPLAIN (COSTS) SELECT * FROM heap WHERE k = 3;
EXPLAIN (GENERIC_PLAN, COSTS off) SELECT * FROM heap WHERE k = $1;
EXPLAIN (SETTINGS, COSTS off) SELECT n FROM heap TABLESAMPLE BERNOULLI (5) REPEATABLE (1);
EXPLAIN (ANALYZE, SERIALIZE TEXT, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n, body FROM heap WHERE k < 5;
EXPLAIN (ANALYZE, SERIALIZE BINARY, COSTS off, TIMING off, SUMMARY off) EXECUTE by_tid;
-- what writes
CREATE UNIQUE INDEX heap_unique ON heap (n);
CHECKPOINT;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) UPDATE heap SET body = 'u' WHERE k < 5;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) INSERT INTO heap VALUES (5, 5, 5, 'i'), (2000, 5, 5, 'i') ON CONFLICT (n) DO UPDATE SET k = 6 WHERE heap.m < 100;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) INSERT INTO heap VALUES (5, 5, 5, 'i') ON CONFLICT DO NOTHING;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) DELETE FROM heap USING small WHERE k = g RETURNING n;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) MERGE INTO heap USING (VALUES (7), (3000)) v (x) ON n = x WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (x, 1, 1, 'm');
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) SELECT n FROM heap WHERE k < 40 FOR UPDATE;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) CREATE TABLE made AS SELECT n FROM heap WHERE k < 50;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, FORMAT TEXT) EXECUTE by_seq;
