-- Indexes of every kind: built, filled, scanned, vacuumed.
CREATE TABLE heap (n int, a int[], t text, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, ARRAY[i % 97, i % 13], 't' || (i * 7919) % 3000, repeat('x', 60) FROM generate_series(0, 2999) i;
CREATE INDEX by_btree ON heap (n) WITH (fillfactor = 70);
CREATE INDEX by_dup ON heap ((n % 10));
CREATE UNIQUE INDEX by_unique ON heap (t) INCLUDE (n);
CREATE INDEX by_hash ON heap USING hash (n) WITH (fillfactor = 50);
CREATE INDEX by_spgist ON heap USING spgist (t);
CREATE INDEX by_gin ON heap USING gin (a) WITH (fastupdate = on);
CREATE INDEX by_brin ON heap USING brin (n) WITH (pages_per_range = 4, autosummarize = off);
CREATE INDEX by_partial ON heap (t) WHERE n < 500;
\pages by_btree
\pages by_dup
\pages by_hash
\pages by_spgist
\pages by_gin
\pages by_brin
VACUUM (FREEZE, ANALYZE) heap;
SELECT relname, reltuples, relpages FROM pg_class WHERE relname LIKE 'by_%' ORDER BY 1;
-- each index is scanned, cold
SET enable_seqscan = off;
SELECT evict_rel('heap'), evict_rel('by_btree');
SELECT count(*), sum(n) FROM heap WHERE n BETWEEN 700 AND 900;
SELECT evict_rel('heap'), evict_rel('by_hash');
SELECT t FROM heap WHERE n = 777;
SELECT evict_rel('heap'), evict_rel('by_spgist');
SELECT count(*) FROM heap WHERE t > 't1' AND t < 't15';
SELECT evict_rel('heap'), evict_rel('by_gin');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM heap WHERE a @> '{5}';
SELECT count(*) FROM heap WHERE a && '{5, 12}';
SELECT evict_rel('heap'), evict_rel('by_brin');
SET enable_indexscan = off;
DROP INDEX by_btree;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*), sum(n) FROM heap WHERE n BETWEEN 700 AND 900;
RESET enable_indexscan;
CREATE INDEX by_btree ON heap (n) WITH (fillfactor = 70);
SELECT evict_rel('heap'), evict_rel('by_unique');
SELECT n FROM heap WHERE t = 't5';
INSERT INTO heap (t) VALUES ('t5');
SELECT n FROM heap WHERE t = 't5' AND n < 500;
SELECT count(*) FROM heap WHERE n % 10 = 3;
-- more rows, after the bulk
CHECKPOINT;
INSERT INTO heap SELECT i, ARRAY[i % 97, i % 13, 1000], 'u' || (i * 7919) % 3000, repeat('x', 60) FROM generate_series(3000, 3599) i;
SELECT brin_summarize_new_values('by_brin'), gin_clean_pending_list('by_gin');
SELECT brin_desummarize_range('by_brin', 8), brin_summarize_range('by_brin', 8);
SELECT count(*) FROM heap WHERE a @> '{1000}';
\pages by_gin
\pages by_brin
-- dead entries in each
DELETE FROM heap WHERE n % 6 = 0 OR n BETWEEN 1200 AND 1900;
SELECT evict_rel('heap'), evict_rel('by_btree'), evict_rel('by_dup'), evict_rel('by_unique'), evict_rel('by_hash'), evict_rel('by_spgist'), evict_rel('by_gin'), evict_rel('by_brin');
VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL 0) heap;
SELECT relname, reltuples, relpages FROM pg_class WHERE relname LIKE 'by_%' ORDER BY 1;
\pages by_btree
\pages by_dup
\pages by_hash
\pages by_spgist
\pages by_gin
VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL 0) heap;
\pages by_btree
SELECT count(*), sum(n) FROM heap WHERE n BETWEEN 1100 AND 2000;
SELECT count(*) FROM heap WHERE a @> '{5}';
-- dead entries that scans and insertions notice
DELETE FROM heap WHERE n BETWEEN 100 AND 300;
SELECT count(*) FROM heap WHERE n BETWEEN 90 AND 310;
SELECT count(*) FROM heap WHERE n BETWEEN 90 AND 310;
INSERT INTO heap SELECT 200, '{}', 'v' || i, 'y' FROM generate_series(1, 500) i;
UPDATE heap SET body = 'z' WHERE n = 200;
\pages by_btree
-- vacuumed by two workers
DELETE FROM heap WHERE n % 5 = 0;
SET max_parallel_maintenance_workers = 2;
SET min_parallel_index_scan_size = 0;
-- sums only
VACUUM (PARALLEL 2, INDEX_CLEANUP on) heap;
-- built again: by two workers, concurrently, anew
-- sums only
CREATE INDEX by_two ON heap (n, t);
-- sums only
CREATE INDEX by_two_gin ON heap USING gin (a);
SET max_parallel_maintenance_workers = 0;
SELECT count(*), sum(n) FROM heap WHERE n > 2500;
CREATE INDEX CONCURRENTLY by_slow ON heap (n);
REINDEX INDEX by_hash;
REINDEX INDEX CONCURRENTLY by_gin;
REINDEX TABLE heap;
DROP INDEX by_slow;
-- GiST chooses at random where to insert, so rows are only deleted here
CREATE TABLE shapes (n int, r int4range, p point) WITH (autovacuum_enabled = off);
INSERT INTO shapes SELECT i, int4range(i, i + 10), point(i % 40, i / 40) FROM generate_series(0, 2999) i;
CREATE INDEX by_range ON shapes USING gist (r) WITH (buffering = off);
CREATE INDEX by_point ON shapes USING gist (p);
CREATE INDEX by_quad ON shapes USING spgist (p);
VACUUM (FREEZE, ANALYZE) shapes;
SELECT evict_rel('shapes'), evict_rel('by_point');
SELECT count(*) FROM shapes WHERE p <@ box '((3,3),(12,9))';
SELECT n FROM shapes ORDER BY p <-> point '(20,20)' LIMIT 4;
DELETE FROM shapes WHERE n % 6 = 0 OR n BETWEEN 1200 AND 1900;
SELECT evict_rel('shapes'), evict_rel('by_point'), evict_rel('by_quad');
SET client_min_messages = debug2;
VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL 0) shapes;
SET client_min_messages = log;
VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL 0) shapes;
\pages by_point
\pages by_quad
DROP INDEX by_point;
SELECT count(*) FROM shapes WHERE p <@ box '((3,3),(12,49))';
-- a hash index grows, and shrinks
SET enable_bitmapscan = off;
CREATE TABLE hashed (n int) WITH (autovacuum_enabled = off);
CREATE INDEX hashed_n ON hashed USING hash (n);
INSERT INTO hashed SELECT generate_series(1, 6000);
INSERT INTO hashed SELECT 5 FROM generate_series(1, 1500);
SELECT count(*) FROM hashed WHERE n = 5;
DELETE FROM hashed WHERE n = 5 OR n % 3 = 0;
VACUUM (VERBOSE, INDEX_CLEANUP on) hashed;
SELECT count(*) FROM hashed WHERE n = 4;
\pages hashed_n
\crash
\pages hashed_n
SET enable_seqscan = off;
SELECT count(*), sum(n) FROM heap WHERE n BETWEEN 700 AND 2600;
SELECT count(*) FROM heap WHERE a @> '{5}';
