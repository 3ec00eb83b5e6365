-- What the views of progress say, and which blocks are pinned, before each read of a statement.
-- not replayed: the other recordings have these records
SET io_combine_limit = 1;
CREATE TABLE heap (n int, point point, word text, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, point(i, i), 'w' || i % 9, repeat('x', 900) FROM generate_series(0, 79) i;
-- queries
-- step by step
SELECT count(*) FROM heap WHERE n < 40;
SELECT n FROM heap TABLESAMPLE system (40) REPEATABLE (1);
SELECT n FROM heap WHERE ctid IN ('(3,1)', '(7,2)', '(3,4)');
SELECT count(*) FROM heap WHERE ctid >= '(6,1)' AND ctid < '(8,4)';
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n FROM heap;
FETCH 20 FROM c;
FETCH BACKWARD 15 FROM c;
MOVE ALL IN c;
FETCH BACKWARD 5 FROM c;
COMMIT;
-- indexes
CREATE INDEX heap_n ON heap (n);
CREATE UNIQUE INDEX heap_u ON heap (n) WHERE n > 20;
CREATE INDEX heap_h ON heap USING hash (n);
CREATE INDEX heap_gist ON heap USING gist (point);
CREATE INDEX heap_spgist ON heap USING spgist (point);
CREATE INDEX heap_gin ON heap USING gin ((ARRAY[word]));
CREATE INDEX heap_brin ON heap USING brin (n) WITH (pages_per_range = 2);
SELECT brin_summarize_new_values('heap_brin');
-- scans of indexes
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT n FROM heap WHERE n BETWEEN 30 AND 33;
SET enable_indexonlyscan = off;
SELECT n, length(body) FROM heap WHERE n BETWEEN 30 AND 45 ORDER BY n DESC;
RESET enable_bitmapscan;
SET enable_indexscan = off;
SELECT count(body) FROM heap WHERE n BETWEEN 30 AND 45;
SELECT count(body) FROM heap WHERE point <@ box '((10, 10), (30, 30))';
SELECT count(body) FROM heap WHERE ARRAY[word] @> ARRAY['w3'];
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
-- VACUUM
DELETE FROM heap WHERE n % 5 = 0;
VACUUM (TRUNCATE off) heap;
DELETE FROM heap WHERE n > 60;
VACUUM (INDEX_CLEANUP off, TRUNCATE off) heap;
VACUUM heap;
SET enable_seqscan = off;
SELECT n FROM heap WHERE n BETWEEN 30 AND 33;
RESET enable_seqscan;
UPDATE heap SET word = 'w99' WHERE n = 11;
VACUUM (FREEZE, PARALLEL 0) heap;
VACUUM (DISABLE_PAGE_SKIPPING) heap;
DELETE FROM heap WHERE n = 12;
VACUUM (ANALYZE) heap;
-- ANALYZE
CREATE STATISTICS heap_s ON n, word FROM heap;
ANALYZE heap;
CREATE TABLE child () INHERITS (heap) WITH (autovacuum_enabled = off);
INSERT INTO child SELECT i, point(i, i), 'child', repeat('x', 900) FROM generate_series(100, 120) i;
CREATE TABLE second_child () INHERITS (heap) WITH (autovacuum_enabled = off);
INSERT INTO second_child SELECT i, point(i, i), 'second', repeat('x', 900) FROM generate_series(200, 220) i;
ANALYZE heap;
-- rewrites
VACUUM FULL heap;
CLUSTER heap USING heap_n;
ALTER TABLE heap SET (fillfactor = 50);
ALTER TABLE heap ADD COLUMN made bool DEFAULT random() < 2;
REINDEX TABLE heap;
REINDEX INDEX heap_h;
COPY heap TO '/dev/null';
COPY (SELECT n FROM heap WHERE n < 30) TO '/dev/null';
-- writes
UPDATE heap SET n = 1000 WHERE n = 3;
INSERT INTO heap VALUES (1001, '(1, 1)', 'w0', 'x', true);
DELETE FROM heap WHERE n = 1001;
SELECT n FROM ONLY heap WHERE n IN (4, 6, 1000) FOR UPDATE;
MERGE INTO heap USING child ON heap.n = child.n - 50 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (n, word) VALUES (child.n, 'merged');
SELECT gin_clean_pending_list('heap_gin');
SELECT brin_desummarize_range('heap_brin', 2);
CREATE TABLE copy AS SELECT * FROM ONLY heap;
CREATE MATERIALIZED VIEW seen AS SELECT n FROM copy;
REFRESH MATERIALIZED VIEW seen;
ALTER TABLE copy ADD CHECK (n >= 0);
ALTER TABLE copy ALTER word SET NOT NULL;
CREATE SEQUENCE numbers;
SELECT nextval('numbers');
SELECT last_value FROM numbers;
-- values that are stored out of line
CREATE TABLE long (n int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
INSERT INTO long SELECT i, repeat('x', 10000) FROM generate_series(0, 5) i;
SELECT sum(length(body)) FROM long WHERE n > 2;
SELECT max(substr(body, 4000, 3)) FROM long WHERE n = 4;
DELETE FROM long WHERE n = 1;
VACUUM long;
-- partitions
CREATE TABLE parts (n int, body text STORAGE PLAIN) PARTITION BY RANGE (n);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (20) WITH (autovacuum_enabled = off);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (20) TO (40) WITH (autovacuum_enabled = off);
CREATE TABLE part_3 PARTITION OF parts FOR VALUES FROM (40) TO (60) WITH (autovacuum_enabled = off);
INSERT INTO parts SELECT i, repeat('x', 2000) FROM generate_series(0, 59) i;
CREATE INDEX parts_n ON parts (n);
ANALYZE parts;
VACUUM parts;
-- without steps
-- indexes, while others work
bob: BEGIN;
bob: UPDATE heap SET word = 'w0' WHERE n = 7;
carol: BEGIN;
carol: UPDATE heap SET word = 'w0' WHERE n = 8;
-- waits for bob
CREATE INDEX CONCURRENTLY heap_c ON heap (n);
-- then alice waits for carol
bob: COMMIT;
-- then alice ends
carol: COMMIT;
bob: BEGIN ISOLATION LEVEL REPEATABLE READ;
bob: SELECT count(*) FROM part_1;
-- waits for bob
CREATE INDEX CONCURRENTLY heap_d ON heap (n);
-- then alice ends
bob: COMMIT;
-- step by step
CREATE INDEX CONCURRENTLY heap_e ON heap (word);
REINDEX INDEX CONCURRENTLY heap_e;
-- without steps
bob: BEGIN;
bob: SELECT count(*) FROM heap;
-- waits for bob
REINDEX INDEX CONCURRENTLY heap_d;
-- then alice ends
bob: COMMIT;
SELECT count(*), sum(n) FROM heap;
