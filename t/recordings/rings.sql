-- Scans, commands and synchronized scans of a table larger than a quarter of the buffer pool, which use rings.
CREATE TABLE wide WITH (autovacuum_enabled = off) AS SELECT i n, i % 10 m, repeat('y', 1900) body FROM generate_series(0, 2799) i;
SELECT count(*), sum(n) FROM wide;
CREATE INDEX wide_m ON wide (m);
VACUUM (VERBOSE, ANALYZE) wide;
VACUUM (VERBOSE, FREEZE) wide;
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
-- as bob
SET synchronize_seqscans = on;
-- as bob
SELECT n FROM wide LIMIT 1;
COMMIT;
RESET synchronize_seqscans;
DELETE FROM wide WHERE n % 50 = 0;
SELECT evict_rel('wide');
VACUUM (VERBOSE) wide;
SELECT evict_rel('wide');
ANALYZE (VERBOSE) wide;
COPY wide FROM PROGRAM 'seq 10000 10999 | sed "s/$/\t3\tcopied/"';
SELECT count(*) FROM wide;
CLUSTER wide USING wide_m;
SELECT evict_rel('wide');
CREATE TABLE wider AS SELECT n, body FROM wide;
SELECT count(*), sum(n) FROM wider;
ALTER TABLE wide SET UNLOGGED;
