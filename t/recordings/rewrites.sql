-- Tables and indexes that are written anew: ALTER TABLE, CLUSTER, REINDEX, CREATE INDEX CONCURRENTLY.
CREATE TABLE heap (n int, k int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, 7919 * i % 1000, repeat('x', 100) FROM generate_series(1, 1000) i;
CREATE INDEX heap_n ON heap (n);
CREATE INDEX heap_k ON heap (k) INCLUDE (n) WHERE n > 100;
DELETE FROM heap WHERE n % 9 = 0;
CHECKPOINT;
SELECT evict_rel('heap');
ALTER TABLE heap ALTER n TYPE bigint, ADD COLUMN v int DEFAULT 3;
SELECT evict_rel('heap');
ALTER TABLE heap ADD COLUMN w timestamptz DEFAULT clock_timestamp();
ALTER TABLE heap DROP COLUMN w;
ALTER TABLE heap ADD COLUMN s bigserial;
SELECT count(*), sum(s), sum(v) FROM heap;
ALTER TABLE heap ADD COLUMN g bigint GENERATED ALWAYS AS (n * 2) STORED;
SELECT sum(g) FROM heap;
ALTER TABLE heap ALTER body TYPE varchar(200);
ALTER TABLE heap ALTER body TYPE varchar(50) USING left(body, 50);
\pages heap
-- checks scan without writing
SELECT evict_rel('heap');
ALTER TABLE heap ALTER n SET NOT NULL;
ALTER TABLE heap ADD CONSTRAINT positive CHECK (n > 0) NOT VALID;
SELECT evict_rel('heap');
ALTER TABLE heap VALIDATE CONSTRAINT positive;
ALTER TABLE heap ADD CHECK (n > 5);
ALTER TABLE heap ALTER n TYPE smallint USING n / 0;
SELECT count(*), sum(n) FROM heap;
CLUSTER heap USING heap_k;
CREATE INDEX heap_all_k ON heap (k);
CLUSTER VERBOSE heap USING heap_all_k;
SELECT n, k FROM heap LIMIT 3;
CLUSTER;
ALTER TABLE heap SET WITHOUT CLUSTER;
VACUUM (FULL, VERBOSE) heap;
ALTER TABLE heap SET ACCESS METHOD heap;
-- a partition with rows
CREATE TABLE parted (n bigint, k int) PARTITION BY RANGE (n);
CREATE INDEX parted_k ON parted (k);
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT i, i % 10 FROM generate_series(1000, 1300) i;
CREATE TABLE part (n bigint, k int) WITH (autovacuum_enabled = off);
INSERT INTO part SELECT i, i % 10 FROM generate_series(0, 699) i;
CREATE INDEX part_k ON part (k);
SELECT evict_rel('part'), evict_rel('parted_rest');
ALTER TABLE parted ATTACH PARTITION part FOR VALUES FROM (0) TO (700);
ALTER TABLE parted ATTACH PARTITION heap FOR VALUES FROM (700) TO (800);
SELECT k, count(*) FROM parted WHERE k < 3 GROUP BY 1 ORDER BY 1;
ALTER TABLE parted DETACH PARTITION part;
ALTER TABLE parted DETACH PARTITION parted_rest CONCURRENTLY;
SELECT count(*) FROM parted;
-- concurrently
CREATE INDEX CONCURRENTLY heap_slow ON heap (k, n);
CREATE UNIQUE INDEX CONCURRENTLY heap_bad ON heap (v);
SELECT indisvalid, indisready, indislive FROM pg_index WHERE indexrelid = 'heap_bad'::regclass;
UPDATE heap SET v = s;
REINDEX INDEX CONCURRENTLY heap_bad;
SELECT indisvalid, indisready, indislive FROM pg_index WHERE indexrelid = 'heap_bad'::regclass;
REINDEX TABLE CONCURRENTLY heap;
REINDEX (VERBOSE) TABLE parted;
REINDEX SCHEMA recorded;
DROP INDEX CONCURRENTLY heap_slow;
BEGIN;
REINDEX INDEX heap_bad;
INSERT INTO heap (n, k, v) VALUES (6000, 1, 6000);
ROLLBACK;
BEGIN;
CREATE INDEX heap_never ON heap (k);
ROLLBACK;
SELECT relname, relpages, reltuples FROM pg_class WHERE relname LIKE 'heap%' ORDER BY 1;
-- catalogs
VACUUM (FULL) pg_class;
REINDEX TABLE pg_class;
REINDEX INDEX pg_class_oid_index;
REINDEX TABLE CONCURRENTLY pg_class;
BEGIN;
REINDEX TABLE pg_attribute;
ROLLBACK;
SELECT count(*), sum(n) FROM heap;
\crash
SELECT count(*), sum(n) FROM heap;
SELECT count(*), sum(n) FROM parted;
\pages heap
\pages heap_bad
