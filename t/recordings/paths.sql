-- Scans: of TIDs, samples, bitmaps, indexes; again, backward, from marks, of rows that changed meanwhile.
-- not replayed: sessions wait for others
CREATE TABLE heap (n int, k int, m int, p point, r text, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, (i * 7919) % 2000, i % 50, point(i % 40, i / 40), 'r' || i % 100, repeat('x', 330) FROM generate_series(0, 1999) i;
CREATE INDEX heap_k ON heap (k);
CREATE INDEX heap_mn ON heap (m, n);
CREATE TABLE shapes (n int, p point, y polygon) WITH (autovacuum_enabled = off);
INSERT INTO shapes SELECT i, point(i % 40, i / 40), polygon(box(point(i % 40, i / 40), point(i % 40 + 1.5, i / 40 + i % 3))) FROM generate_series(0, 1999) i;
CREATE INDEX shapes_p ON shapes USING gist (p);
CREATE INDEX shapes_y ON shapes USING spgist (y);
CREATE TABLE small (g int, t tid, a int[]) WITH (autovacuum_enabled = off);
INSERT INTO small SELECT i, format('(%s,%s)', i * 3, 1 + i % 5)::tid, ARRAY[i, i + 1, NULL] FROM generate_series(0, 19) i;
VACUUM (FREEZE, ANALYZE) heap, small, shapes;
CHECKPOINT;
-- TIDs
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT sum(n) FROM small JOIN heap ON heap.ctid = small.t;
SELECT sum(n) FROM small JOIN heap ON heap.ctid = small.t;
SELECT count(*), sum(b.n) FROM heap a JOIN heap b ON a.ctid = b.ctid WHERE a.ctid < '(4,0)';
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT g, (SELECT count(*) FROM heap WHERE ctid BETWEEN t AND format('(%s,3)', g * 4)::tid) FROM small WHERE g < 6;
SELECT g, (SELECT count(*) FROM heap WHERE t < ctid AND format('(%s,3)', g * 4)::tid >= ctid) FROM small WHERE g < 6;
SELECT n FROM heap WHERE ctid = ANY (ARRAY['(1,1)', NULL, '(0,2)', '(1,1)', '(9000,1)', '(3,2)', '(2,1)', '(5,5)', '(4,4)']::tid[]) OR '(7,7)' = ctid;
SELECT count(*) FROM heap WHERE ctid = NULL OR ctid > NULL;
SELECT count(*) FROM heap WHERE ctid > (SELECT NULL::tid);
SELECT currtid2('recorded.heap', '(3,3)'), currtid2('recorded.heap', '(3,300)');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n FROM heap WHERE ctid IN ('(3,3)', '(1,1)', '(77,2)');
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 1 FROM c;
FETCH LAST FROM c;
DECLARE d SCROLL CURSOR FOR SELECT n FROM heap WHERE ctid >= '(10,5)' AND ctid < '(13,2)';
FETCH LAST FROM d;
FETCH BACKWARD 7 FROM d;
FETCH FORWARD 3 FROM d;
FETCH FIRST FROM d;
MOVE ABSOLUTE -4 IN d;
FETCH ALL FROM d;
COMMIT;
-- by the position of a cursor
BEGIN;
DECLARE c CURSOR FOR SELECT n, k FROM heap WHERE m = 4 FOR UPDATE;
FETCH 2 FROM c;
UPDATE heap SET body = 'first' WHERE CURRENT OF c RETURNING n, ctid;
UPDATE heap SET body = 'second' WHERE CURRENT OF c RETURNING n, ctid;
FETCH 1 FROM c;
DELETE FROM heap WHERE CURRENT OF c RETURNING n;
DELETE FROM heap WHERE CURRENT OF c RETURNING n;
COMMIT;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n FROM heap WHERE k < 9;
FETCH 3 FROM c;
UPDATE heap SET m = m + 1 WHERE CURRENT OF c RETURNING n, m, ctid;
FETCH RELATIVE -1 FROM c;
DELETE FROM heap WHERE CURRENT OF c RETURNING n;
ROLLBACK;
UPDATE heap SET body = 'moved' WHERE n IN (40, 41) RETURNING ctid;
SELECT currtid2('recorded.heap', ctid) = ctid FROM heap WHERE n = 40;
-- by other sessions meanwhile: TIDs are checked again
BEGIN;
UPDATE heap SET body = 'other' WHERE ctid IN ('(12,1)', '(12,2)');
UPDATE heap SET body = 'other' WHERE m = 0 AND n = 300;
bob: SET enable_seqscan = off;
-- waits for alice
bob: UPDATE heap SET body = body || ' again' WHERE ctid = '(12,1)' RETURNING n, body;
carol: SET enable_seqscan = off;
-- waits for alice
carol: DELETE FROM heap WHERE ctid >= '(12,2)' AND ctid < '(12,3)' RETURNING n, body;
dave: SET enable_bitmapscan = off;
-- waits for alice
dave: SELECT n, body FROM heap WHERE m = 0 AND n BETWEEN 290 AND 310 FOR UPDATE;
-- then bob ends
-- then carol ends
-- then dave ends
COMMIT;
-- samples again
SELECT evict_rel('heap');
SELECT g, (SELECT count(*) FROM heap TABLESAMPLE SYSTEM (g + 5) REPEATABLE (g)) FROM small WHERE g < 4 ORDER BY g;
SELECT g, c FROM small, LATERAL (SELECT count(*) c, sum(n) s FROM heap TABLESAMPLE BERNOULLI (g) REPEATABLE (3)) s WHERE g IN (0, 2, 60) ORDER BY g;
SELECT count(*) FROM heap TABLESAMPLE SYSTEM (101);
SELECT count(*) FROM heap TABLESAMPLE BERNOULLI (5) REPEATABLE (NULL);
SELECT count(*), sum(n) FROM heap TABLESAMPLE BERNOULLI (100);
DELETE FROM heap WHERE n BETWEEN 500 AND 600;
SELECT count(*), sum(n) FROM heap TABLESAMPLE SYSTEM (60) REPEATABLE (1);
SELECT count(*), sum(n) FROM heap TABLESAMPLE BERNOULLI (60) REPEATABLE (1);
-- index scans ordered by distance, whose distances the heap corrects
SET enable_sort = off;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT n FROM shapes ORDER BY p <-> point '(20.2,20.1)' LIMIT 6;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n FROM shapes ORDER BY y <-> point '(11.3,7.2)', n LIMIT 8;
SELECT n FROM shapes ORDER BY y <-> point '(-11.3,7.2)' LIMIT 4;
SELECT n FROM shapes WHERE y <<| polygon '((0,20),(9,22))' ORDER BY y <-> point '(13.3,29.1)' LIMIT 4;
SELECT g, (SELECT array_agg(n) FROM (SELECT n FROM shapes WHERE n > 40 ORDER BY y <-> point(g - 3.1, g / 3.0 - 2.3) LIMIT 3) s) FROM small WHERE g < 4 ORDER BY g;
SELECT p FROM shapes WHERE p <@ box '((3,3),(4,9))' ORDER BY p <-> point '(3.2,3.1)' LIMIT 4;
SELECT count(*) FROM shapes WHERE y && polygon '((3,3),(9,5),(7,9))';
RESET enable_sort;
-- array keys, rows, NULLs, keys known when it runs
SET enable_bitmapscan = off;
SELECT count(*), sum(n) FROM heap WHERE m = ANY ('{3, 5, 49, NULL}') AND n > 1500;
SELECT count(*) FROM heap WHERE (m, n) > (47, 1900) AND (m, n) <= (49, 60);
SELECT g, (SELECT count(*) FROM heap WHERE (m, n) < (g, g * 100)) FROM small WHERE g < 3 ORDER BY g;
SELECT g, (SELECT count(*) FROM heap WHERE m = ANY (a) AND r <> '') FROM small WHERE g < 3 ORDER BY g;
SELECT count(*) FROM heap WHERE m IS NULL;
SELECT count(*), min(n) FROM heap WHERE m IS NOT NULL AND n = 77;
SELECT g, (SELECT min(n) FROM heap WHERE m = NULLIF(g, 1)) FROM small WHERE g < 3 ORDER BY g;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n, m FROM heap WHERE m IN (2, 3) AND n < 300 ORDER BY m, n;
FETCH 8 FROM c;
FETCH BACKWARD 4 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
DECLARE d SCROLL CURSOR FOR SELECT k, r FROM heap WHERE k > 1990 ORDER BY k DESC;
FETCH 4 FROM d;
FETCH BACKWARD 2 FROM d;
FETCH ALL FROM d;
COMMIT;
-- merge joins mark and restore
SET enable_mergejoin = on;
SET enable_nestloop = off;
SELECT evict_rel('heap'), evict_rel('heap_mn');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap a JOIN heap b USING (m) WHERE a.m < 4;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(a.r), count(b.r) FROM heap a JOIN heap b USING (m) WHERE a.m < 4;
SELECT count(a.r), count(b.r), sum(a.n), sum(b.n) FROM heap a JOIN heap b USING (m) WHERE a.m < 4;
RESET enable_nestloop;
-- bitmaps: nothing, lossy and exact together, rows that changed
RESET enable_bitmapscan;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET work_mem = '64kB';
SELECT evict_rel('heap');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*), sum(n) FROM heap WHERE (k < 1200 OR m = 3) AND p <@ box '((0,0),(39,30))';
SELECT count(*), sum(n) FROM heap WHERE k = 5 OR k = 6 OR m = 9;
SELECT count(*) FROM heap WHERE k = 5 AND m = 7 AND r <> '';
SELECT g, (SELECT sum(n) FROM heap WHERE k < g * 5 OR m = g) FROM small WHERE g < 5 ORDER BY g;
RESET work_mem;
BEGIN;
UPDATE heap SET m = 49, body = 'bitmap' WHERE k IN (7, 8);
bob: SET enable_seqscan = off; SET enable_indexscan = off;
-- waits for alice
bob: SELECT n, m, body FROM heap WHERE k = 7 AND m < 60 FOR UPDATE;
-- then bob ends
COMMIT;
RESET ALL;
SET search_path = recorded, public;
SELECT count(*), sum(n), max(ctid) FROM heap;
