-- Scans, commands and synchronized scans of a table larger than a quarter of the buffer pool, which use rings.
CREATE TABLE wide (n int, m int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO wide SELECT i, i % 10, repeat('y', 1900) FROM generate_series(0, 2799) i;
VACUUM (VERBOSE, FREEZE) wide;
CHECKPOINT;
SELECT count(*), sum(n) FROM wide;
CREATE INDEX wide_m ON wide (m);
VACUUM (VERBOSE, ANALYZE) wide;
CHECKPOINT;
SELECT evict_rel('wide');
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM wide;
SELECT count(*), sum(n) FROM wide;
SET synchronize_seqscans = on;
SELECT evict_rel('wide');
SELECT n FROM wide LIMIT 1 OFFSET 900;
SELECT n FROM wide LIMIT 1;
BEGIN;
DECLARE s CURSOR FOR SELECT n FROM wide;
MOVE 2000 IN s;
bob: SET synchronize_seqscans = on;
bob: SELECT n FROM wide LIMIT 1;
COMMIT;
RESET synchronize_seqscans;
DELETE FROM wide WHERE n % 50 = 0;
SELECT evict_rel('wide');
VACUUM (VERBOSE) wide;
SELECT evict_rel('wide');
ANALYZE (VERBOSE) wide;
-- a ring takes another buffer if the WAL of its own has not been written yet, which is luck
-- sums only
COPY wide FROM PROGRAM 'seq 10000 10999 | sed "s/$/\t3\tcopied/"';
-- sums only
SELECT count(*) FROM wide;
-- sums only
CLUSTER wide USING wide_m;
SELECT evict_rel('wide');
-- sums only
CREATE TABLE wider AS SELECT n, body FROM wide;
-- sums only
SELECT count(*), sum(n) FROM wider;
-- sums only
ALTER TABLE wide SET UNLOGGED;
