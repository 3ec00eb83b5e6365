-- What writes: INSERT, COPY, UPDATE, TRUNCATE, copies of tables and databases, temporary tables, checkpoints.
CREATE TABLE heap (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 60);
CHECKPOINT;
INSERT INTO heap VALUES (1, 'one');
INSERT INTO heap SELECT i, repeat('x', 200) FROM generate_series(2, 1500) i;
COPY (SELECT i, repeat('c', 300) FROM generate_series(1, 3000) i) TO '/dev/null';
COPY heap FROM PROGRAM 'seq 5000 8000 | sed "s/$/\tcopied copied copied copied/"';
UPDATE heap SET body = body || '.' WHERE n BETWEEN 100 AND 200;
UPDATE heap SET n = n + 100000 WHERE n % 100 = 5;
DELETE FROM heap WHERE n BETWEEN 6000 AND 6500;
VACUUM heap;
INSERT INTO heap SELECT i, repeat('f', 200) FROM generate_series(20000, 20200) i;
\pages heap
-- a table made and filled in one transaction
BEGIN;
CREATE TABLE filled (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
COPY filled FROM PROGRAM 'seq 1 2000 | sed "s/$/\tfilled/"' WITH (FREEZE);
COMMIT;
SELECT count(*), sum(n) FROM filled;
\pages filled
CREATE TABLE copied AS SELECT n, body FROM heap WHERE n < 1000;
CREATE MATERIALIZED VIEW seen AS SELECT n FROM heap WHERE n < 500;
REFRESH MATERIALIZED VIEW seen;
ALTER TABLE copied SET UNLOGGED;
SELECT evict_rel('copied');
ALTER TABLE copied SET LOGGED;
SELECT count(*), sum(n) FROM copied;
BEGIN;
TRUNCATE copied;
INSERT INTO copied SELECT i, 'lost' FROM generate_series(1, 100) i;
ROLLBACK;
SELECT count(*), sum(n) FROM copied;
DROP TABLE filled;
-- temporary tables
CREATE TEMP TABLE temporary (n int, body text STORAGE PLAIN);
INSERT INTO temporary SELECT i, repeat('t', 400) FROM generate_series(1, 1000) i;
CREATE INDEX temporary_n ON temporary (n);
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*), sum(n) FROM temporary;
SELECT evict_rel('temporary');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*), max(body) FROM temporary;
SELECT evict_rel('temporary');
SELECT sum(n), count(body) FROM temporary;
UPDATE temporary SET body = 'u' WHERE n % 3 = 0;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) DELETE FROM temporary WHERE n % 2 = 0;
VACUUM (VERBOSE) temporary;
ANALYZE (VERBOSE) temporary;
SELECT relpages, reltuples, relallvisible FROM pg_class WHERE relname = 'temporary';
TRUNCATE temporary;
INSERT INTO temporary SELECT i, 'after' FROM generate_series(1, 50) i;
SELECT count(*), sum(n) FROM temporary;
-- hint bits of single rows
CREATE TEMP TABLE hinted (n int PRIMARY KEY);
INSERT INTO hinted SELECT generate_series(1, 300);
SELECT evict_rel('hinted');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM hinted WHERE ctid = '(0,5)';
SET enable_seqscan = off;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT n FROM hinted WHERE n = 299;
RESET enable_seqscan;
-- indexes of a temporary table, of each kind
CREATE TEMP TABLE kinds (n int, words text[], point point);
CREATE INDEX kinds_hash ON kinds USING hash (n);
CREATE INDEX kinds_gin ON kinds USING gin (words);
CREATE INDEX kinds_brin ON kinds USING brin (n) WITH (pages_per_range = 1);
INSERT INTO kinds SELECT i, ARRAY['w' || i % 7], point(i, i) FROM generate_series(1, 1500) i;
CREATE INDEX kinds_gist ON kinds USING gist (point);
SELECT evict_rel('kinds'), evict_rel('kinds_hash'), evict_rel('kinds_gin'), evict_rel('kinds_gist'), evict_rel('kinds_brin');
SET enable_seqscan = off;
SELECT words FROM kinds WHERE n = 700;
SELECT count(*) FROM kinds WHERE words @> ARRAY['w3'];
SELECT n FROM kinds WHERE point <@ box '((500, 500), (503, 503))';
RESET enable_seqscan;
DELETE FROM kinds WHERE n % 3 = 0;
VACUUM (VERBOSE) kinds;
SELECT count(*), sum(n) FROM kinds;
DROP TABLE kinds;
CREATE TEMP TABLE emptied (n int) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO emptied SELECT generate_series(1, 1000);
SELECT count(*), pg_relation_size('emptied') FROM emptied;
COMMIT;
SELECT count(*), pg_relation_size('emptied') FROM emptied;
BEGIN;
INSERT INTO emptied SELECT generate_series(1, 10);
SELECT count(*), pg_relation_size('emptied') FROM emptied;
COMMIT;
CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT 1;
bob: SELECT count(*) FROM pg_class WHERE relname = 'temporary';
DROP TABLE temporary;
-- few temporary buffers
carol: SET temp_buffers = 100;
carol: CREATE TEMP TABLE small (n int, body text STORAGE PLAIN);
carol: INSERT INTO small SELECT i, repeat('s', 1900) FROM generate_series(1, 1000) i;
carol: EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*), sum(n) FROM small;
carol: SELECT count(*), sum(n) FROM small WHERE ctid < '(120,0)';
carol: UPDATE small SET body = 'u' WHERE n % 100 = 0;
carol: SELECT count(*), sum(n), count(*) FILTER (WHERE body = 'u') FROM small;
carol: DROP TABLE small;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE in_place LOCATION '';
CREATE TEMP TABLE moved (n int, body text STORAGE PLAIN);
INSERT INTO moved SELECT i, repeat('m', 1900) FROM generate_series(1, 40) i;
ALTER TABLE moved SET TABLESPACE in_place;
SELECT count(*), sum(n) FROM moved;
DROP TABLE moved;
DROP TABLESPACE in_place;
-- rows without columns: a page has room for 291, whatever is free
CREATE TABLE hollow () WITH (autovacuum_enabled = off);
INSERT INTO hollow SELECT FROM generate_series(1, 1000);
DELETE FROM hollow WHERE ctid < '(2,0)';
VACUUM (TRUNCATE off) hollow;
INSERT INTO hollow SELECT FROM generate_series(1, 700);
SELECT count(*), max(ctid) FROM hollow;
\pages hollow
-- unlogged
CREATE UNLOGGED TABLE unlogged (n int, s serial) WITH (autovacuum_enabled = off);
INSERT INTO unlogged SELECT generate_series(1, 2000);
CREATE INDEX unlogged_n ON unlogged (n);
CHECKPOINT;
-- sequences and large objects
CREATE SEQUENCE seq CACHE 3;
SELECT nextval('seq'), nextval('seq'), nextval('seq'), nextval('seq');
ALTER SEQUENCE seq RESTART 100;
SELECT nextval('seq'), last_value, is_called FROM seq;
SELECT evict_rel('seq');
SELECT nextval('seq');
-- uniqueness
CREATE TABLE parent (n int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 500);
INSERT INTO parent VALUES (20), (20);
INSERT INTO parent VALUES (20), (1000) ON CONFLICT DO NOTHING;
-- statistics
ANALYZE (VERBOSE) heap;
SELECT attname, null_frac, avg_width, n_distinct, correlation FROM pg_stats WHERE tablename = 'heap' ORDER BY 1;
UPDATE heap SET n = 5 WHERE n % 3 = 0;
ANALYZE heap (n);
SELECT attname, n_distinct, correlation, most_common_vals, most_common_freqs FROM pg_stats WHERE tablename = 'heap' ORDER BY 1;
SET default_statistics_target = 1;
SELECT evict_rel('heap');
-- a sample of 300 blocks at most
ANALYZE (VERBOSE) parent;
RESET default_statistics_target;
-- a sample is brought into the order of the table
CREATE TABLE ordered (n int) WITH (autovacuum_enabled = off);
INSERT INTO ordered SELECT generate_series(1, 20000);
ALTER TABLE ordered ALTER n SET STATISTICS 10;
ANALYZE ordered;
SELECT correlation > 0.99, n_distinct FROM pg_stats WHERE tablename = 'ordered';
DROP TABLE ordered;
-- a bulk load when checkpoints have been, and a crash
CHECKPOINT;
UPDATE heap SET body = 'crash' WHERE n % 7 = 0;
INSERT INTO parent SELECT generate_series(2000, 2100);
\crash
SELECT count(*), sum(n), count(*) FILTER (WHERE body = 'crash') FROM heap;
SELECT count(*), sum(n) FROM parent;
SELECT count(*) FROM unlogged;
SELECT nextval('seq');
\pages heap
\pages parent_pkey
\pages unlogged
