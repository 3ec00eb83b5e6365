-- Indexes, copies and statistics made while rows are in progress or recently dead.
-- not replayed: sessions wait for others
CREATE TABLE heap (n int, k int, t text, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 80);
INSERT INTO heap SELECT i, i % 20, 't' || i % 300, repeat('x', 300) FROM generate_series(0, 799) i;
CREATE INDEX heap_n ON heap (n);
ANALYZE heap;
-- rows of the own transaction
BEGIN;
UPDATE heap SET body = 'hot' WHERE n < 10;
UPDATE heap SET body = 'hot again' WHERE n < 5;
DELETE FROM heap WHERE n BETWEEN 20 AND 25;
INSERT INTO heap VALUES (5000, 1, 'new', '');
SAVEPOINT s;
INSERT INTO heap VALUES (5001, 1, 'aborted', '');
DELETE FROM heap WHERE n BETWEEN 30 AND 35;
ROLLBACK TO s;
CREATE INDEX heap_own ON heap (t);
CREATE UNIQUE INDEX heap_unique ON heap (n, k);
ANALYZE (VERBOSE) heap;
SELECT reltuples, relpages FROM pg_class WHERE relname = 'heap';
COMMIT;
\pages heap_own
SET enable_seqscan = off;
SELECT n, body FROM heap WHERE t IN ('t1', 't7', 't21', 'new', 'aborted') AND n < 100 ORDER BY 1;
-- others' rows, when it is analyzed
bob: BEGIN;
bob: INSERT INTO heap SELECT i, 1, 'bob', '' FROM generate_series(6000, 6009) i;
bob: DELETE FROM heap WHERE n BETWEEN 40 AND 49;
bob: UPDATE heap SET body = 'bob' WHERE n BETWEEN 50 AND 59;
ANALYZE (VERBOSE) heap;
VACUUM (VERBOSE) heap;
bob: ROLLBACK;
VACUUM (VERBOSE) heap;
-- HOT chains that a snapshot keeps are copied as they are
DROP INDEX heap_own;
bob: BEGIN ISOLATION LEVEL REPEATABLE READ;
bob: SELECT 1;
UPDATE heap SET t = 'changed', body = '' WHERE n BETWEEN 100 AND 109;
DELETE FROM heap WHERE n BETWEEN 110 AND 114;
VACUUM (FULL, VERBOSE) heap;
UPDATE heap SET body = 'second' WHERE n BETWEEN 105 AND 107;
UPDATE heap SET n = n + 10000 WHERE n BETWEEN 108 AND 109;
CLUSTER VERBOSE heap USING heap_n;
\pages heap
-- an index of the column that has changed is not for that snapshot
UPDATE heap SET t = 'changed' WHERE n BETWEEN 115 AND 117;
REINDEX (VERBOSE) INDEX heap_n;
CREATE INDEX heap_broken ON heap (t);
SELECT indcheckxmin, indisvalid FROM pg_index WHERE indexrelid = 'heap_broken'::regclass;
EXPLAIN (COSTS off) SELECT n FROM heap WHERE t = 'changed';
bob: SET enable_seqscan = off;
bob: EXPLAIN (COSTS off) SELECT n FROM heap WHERE t = 't105';
bob: SELECT count(*), min(t), max(body) FROM heap WHERE n BETWEEN 100 AND 119;
VACUUM (VERBOSE) heap;
bob: COMMIT;
VACUUM (VERBOSE) heap;
SELECT n, body FROM heap WHERE t = 'changed' ORDER BY 1;
-- redirected items have their roots in new indexes
UPDATE heap SET body = 'r' WHERE n BETWEEN 200 AND 230;
VACUUM heap;
UPDATE heap SET body = 'rr' WHERE n BETWEEN 200 AND 215;
CREATE INDEX heap_k ON heap (k) WHERE body LIKE 'r%';
SELECT count(*), sum(n) FROM heap WHERE k = 3 AND body LIKE 'r%';
\pages heap_k
-- an index built while others insert
carol: BEGIN;
carol: INSERT INTO heap VALUES (7000, 70, 'carol', 'r');
-- waits for carol
bob: CREATE INDEX CONCURRENTLY heap_slow ON heap (k, n) WHERE n > 100;
dave: BEGIN;
dave: INSERT INTO heap SELECT i, 71, 'dave', 'r' FROM generate_series(95, 104) i;
dave: UPDATE heap SET body = 'dave' WHERE n = 300;
-- then bob waits for dave
carol: COMMIT;
-- then bob ends
dave: COMMIT;
\pages heap_slow
SELECT k, n FROM heap WHERE k > 60 AND n > 100 ORDER BY k, n;
REINDEX (VERBOSE) TABLE CONCURRENTLY heap;
-- copies by index and by sort, of partitions, of dropped columns
CREATE TABLE toasted (n int, gone int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
INSERT INTO toasted SELECT (i * 37) % 101, i, repeat('t', 2500 + i) FROM generate_series(0, 100) i;
CREATE INDEX toasted_n ON toasted (n);
ANALYZE toasted;
DELETE FROM toasted WHERE n % 4 = 0;
ALTER TABLE toasted DROP COLUMN gone;
SET enable_sort = off;
CLUSTER VERBOSE toasted USING toasted_n;
SELECT n, length(body), substr(body, 2499, 3), ctid FROM toasted LIMIT 5;
SELECT sum(length(substr(body, 1990, 30))), sum(length(substr(body, 2, 4))) FROM toasted;
RESET enable_sort;
DELETE FROM toasted WHERE n % 4 = 1;
CLUSTER VERBOSE toasted;
CREATE TABLE parted (n int, v text) PARTITION BY RANGE (n);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100) WITH (autovacuum_enabled = off);
CREATE TABLE parted_2 (v text, n int) WITH (autovacuum_enabled = off);
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (100) TO (300);
INSERT INTO parted SELECT i, 'v' || i % 7 FROM generate_series(0, 299) i;
CREATE INDEX parted_n ON parted (n DESC);
CLUSTER VERBOSE parted USING parted_n;
REINDEX (VERBOSE) TABLE parted;
UPDATE parted SET n = n + 100 WHERE n BETWEEN 90 AND 99;
VACUUM (FULL) parted;
-- statistics
ANALYZE (VERBOSE) parted;
ANALYZE (VERBOSE) heap (n, k);
ANALYZE (BUFFER_USAGE_LIMIT '256kB', SKIP_LOCKED) heap, parted;
VACUUM (ANALYZE, BUFFER_USAGE_LIMIT 100) heap;
\crash
\pages heap
SELECT count(*), sum(n) FROM heap;
SELECT count(*), sum(n) FROM parted;
