-- Plans of every kind with what they read, in each format.
-- not replayed: it is about plans
SET track_io_timing = off;
CREATE TABLE heap (n int, k int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, (i * 7919) % 1000, i % 20, repeat('x', 300) FROM generate_series(0, 999) i;
CREATE INDEX heap_k ON heap (k);
CREATE INDEX heap_mn ON heap (m, n);
CREATE TABLE small AS SELECT i g FROM generate_series(0, 9) i;
CREATE TABLE parted (n int, v int) PARTITION BY RANGE (n);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (500) WITH (autovacuum_enabled = off);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (500) TO (1000) WITH (autovacuum_enabled = off);
INSERT INTO parted SELECT i, i % 30 FROM generate_series(0, 999) i;
CREATE INDEX parted_n ON parted (n);
VACUUM (FREEZE, ANALYZE) heap, small, parted;
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
-- nodes above the scans
SET enable_hashjoin = off;
SET enable_seqscan = off;
SELECT evict_rel('heap'), evict_rel('heap_k');
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT g, n FROM small LEFT JOIN heap ON k = g AND n > 100;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m, count(*) FROM heap WHERE m < 4 GROUP BY m;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m, n, row_number() OVER (PARTITION BY m ORDER BY n) FROM heap WHERE m < 2;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m, n, k FROM heap WHERE m < 3 ORDER BY m, n, k LIMIT 70;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m, n, k FROM heap WHERE m < 3 ORDER BY m, k;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT DISTINCT k % 7 FROM heap ORDER BY 1 LIMIT 4;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT n FROM parted WHERE n > 300 ORDER BY n LIMIT 300;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT sum(v) FROM parted WHERE n < (SELECT max(g) * 30 FROM small);
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT g, (SELECT min(n) FROM heap WHERE m = g) FROM small WHERE g NOT IN (SELECT m FROM heap WHERE k < 3);
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r WHERE i < 5), c AS MATERIALIZED (SELECT n FROM heap WHERE k < 9) SELECT count(*) FROM r JOIN c ON n > i;
SET enable_nestloop = off;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap a JOIN heap b ON a.k = b.n WHERE a.k < 50 AND b.m < 5;
SET enable_hashjoin = on;
SET enable_mergejoin = off;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap a JOIN small ON a.k = g;
RESET enable_nestloop;
SET enable_hashjoin = off;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(b.body) FROM heap a JOIN heap b ON b.k = a.m WHERE a.k < 200;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m FROM heap WHERE m < 3 INTERSECT SELECT g FROM small;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT m, k % 2, count(*) FROM heap WHERE m < 2 GROUP BY GROUPING SETS ((m, k % 2), (m), ());
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT * FROM (VALUES (1), (2)) v (x), LATERAL (SELECT n FROM heap WHERE ctid = format('(%s,1)', x)::tid) s;
-- what writes
RESET enable_seqscan;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER each BEFORE UPDATE OR INSERT ON heap FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE UNIQUE INDEX heap_unique ON heap (n);
CHECKPOINT;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) UPDATE heap SET body = 'u' WHERE k < 5;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) INSERT INTO heap VALUES (5, 5, 5, 'i'), (2000, 5, 5, 'i') ON CONFLICT (n) DO UPDATE SET k = 6 WHERE heap.m < 100;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) INSERT INTO heap VALUES (5, 5, 5, 'i') ON CONFLICT DO NOTHING;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) DELETE FROM heap USING small WHERE k = g RETURNING n;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) MERGE INTO heap USING (VALUES (7), (3000)) v (x) ON n = x WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (x, 1, 1, 'm');
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) SELECT n FROM heap WHERE k < 40 FOR UPDATE;
EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off) UPDATE parted SET n = n + 500 WHERE n IN (3, 4);
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) CREATE TABLE made AS SELECT n FROM heap WHERE k < 50;
EXPLAIN (COSTS off) UPDATE parted SET v = 1 WHERE n > 400;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, FORMAT TEXT) EXECUTE by_seq;
EXPLAIN (WAL) SELECT 1;
EXPLAIN (FORMAT CSV) SELECT 1;
-- two workers
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- sums only
SELECT count(*), sum(n) FROM heap WHERE m < 15;
-- sums only
SELECT count(*), sum(k) FROM heap WHERE k > 10 AND body <> '';
-- sums only
EXPLAIN (COSTS off) SELECT count(*), sum(n) FROM heap WHERE m < 15;
SET debug_parallel_query = regress;
SELECT n FROM heap WHERE k < 30 ORDER BY k LIMIT 3;
