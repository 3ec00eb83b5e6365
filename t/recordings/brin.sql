-- BRIN: summaries that are made, widened, moved, forgotten; a map that grows.
CREATE TABLE heap (n int, t text STORAGE PLAIN, b int) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, repeat('a', 20) || i, i FROM generate_series(1, 3000) i;
CREATE INDEX heap_t ON heap USING brin (t) WITH (pages_per_range = 1, autosummarize = off);
\pages heap_t
-- a summary that has no room in its page moves
UPDATE heap SET t = repeat('z', 1500) || n WHERE n % 400 = 7;
UPDATE heap SET t = repeat('0', 1500) || n WHERE n % 400 = 9;
\pages heap_t
SET enable_seqscan = off;
SELECT count(*), sum(n) FROM heap WHERE t > 'z';
SELECT count(*), sum(n) FROM heap WHERE t < 'a';
-- forgotten, and made again
SELECT brin_desummarize_range('heap_t', 3), brin_desummarize_range('heap_t', 3), brin_desummarize_range('heap_t', 500000);
SELECT count(*), sum(n) FROM heap WHERE t > 'z';
SELECT brin_summarize_range('heap_t', 3), brin_summarize_range('heap_t', 3), brin_summarize_range('heap_t', 500000);
SELECT brin_summarize_new_values('heap_t');
INSERT INTO heap SELECT i, 'new' || i, i FROM generate_series(4000, 4600) i;
SELECT count(*), sum(n) FROM heap WHERE t > 'new';
SELECT evict_rel('heap'), evict_rel('heap_t');
VACUUM (VERBOSE) heap;
SELECT count(*), sum(n) FROM heap WHERE t > 'new';
\pages heap_t
-- the map needs the page that has summaries
SELECT grow_rel('heap', 1500);
SELECT evict_rel('heap_t');
SELECT brin_summarize_range('heap_t', 1450);
SELECT brin_summarize_new_values('heap_t');
SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class WHERE relname IN ('heap', 'heap_t') ORDER BY 1;
SELECT count(*), sum(n) FROM heap WHERE t > 'new';
SELECT count(*), sum(n) FROM heap WHERE t < 'a';
\pages heap_t
INSERT INTO heap SELECT i, 'tail' || i, i FROM generate_series(5000, 5300) i;
SELECT brin_summarize_new_values('heap_t');
SELECT count(*), sum(n) FROM heap WHERE t BETWEEN 'tail' AND 'taim';
SELECT brin_desummarize_range('heap_t', 1499), brin_desummarize_range('heap_t', 0);
SELECT count(*), sum(n) FROM heap WHERE t < 'a';
-- ranges that have no rows
CREATE TABLE sparse (n int, b int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO sparse SELECT i, NULLIF(i % 500, 0), repeat('x', 400) FROM generate_series(1, 1500) i;
DELETE FROM sparse WHERE n > 1000 OR n BETWEEN 200 AND 500;
CREATE INDEX sparse_n ON sparse USING brin (n) WITH (pages_per_range = 2, autosummarize = on);
CREATE INDEX sparse_part ON sparse USING brin (n) WITH (pages_per_range = 2, autosummarize = off) WHERE n < 100;
SELECT count(*) FROM sparse WHERE n BETWEEN 190 AND 510;
EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM sparse WHERE n > 1000;
INSERT INTO sparse SELECT i, i, repeat('y', 400) FROM generate_series(2000, 2100) i;
SELECT count(*) FROM sparse WHERE n > 1000;
SELECT count(*) FROM sparse WHERE n < 50;
VACUUM sparse;
SELECT count(*) FROM sparse WHERE n > 1000;
-- NULLs, and other classes of operators
CREATE TABLE nulls (n int, i inet, r int4range, t text) WITH (autovacuum_enabled = off);
INSERT INTO nulls SELECT CASE WHEN i > 500 THEN i END, NULL, CASE WHEN i % 90 = 0 THEN 'empty' WHEN i > 900 THEN int4range(i, i + 5) END, CASE WHEN i < 300 THEN 't' || i END FROM generate_series(1, 1500) i;
CREATE INDEX nulls_n ON nulls USING brin (n, i, r, t) WITH (pages_per_range = 1);
CREATE INDEX nulls_multi ON nulls USING brin (n int4_minmax_multi_ops (values_per_range = 8)) WITH (pages_per_range = 2);
CREATE INDEX nulls_bloom ON nulls USING brin (t text_bloom_ops (n_distinct_per_range = 50)) WITH (pages_per_range = 2);
SELECT count(*) FROM nulls WHERE n IS NULL;
SELECT count(*) FROM nulls WHERE n IS NOT NULL;
SELECT count(*) FROM nulls WHERE i IS NOT NULL;
SELECT count(*) FROM nulls WHERE n IS NULL AND t > 't2';
SELECT count(*) FROM nulls WHERE r @> 1000;
SELECT count(*) FROM nulls WHERE n < 700;
SELECT count(*) FROM nulls WHERE t = 't77';
SELECT count(*) FROM nulls WHERE n = NULL;
UPDATE nulls SET n = 7, i = '10.0.0.1', t = 'u' WHERE ctid IN ('(0,1)', '(3,1)');
UPDATE nulls SET n = NULL WHERE n = 1200;
SELECT count(*), min(i) FROM nulls WHERE i IS NOT NULL;
SELECT count(*) FROM nulls WHERE n = 7;
SELECT count(*) FROM nulls WHERE t = 'u';
SELECT count(*) FROM nulls WHERE n IS NULL;
DROP INDEX nulls_n, nulls_multi, nulls_bloom;
-- built by several processes, which unite their summaries
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
-- sums only
DO $$ BEGIN
	CREATE INDEX nulls_n ON nulls USING brin (n, i, r, t) WITH (pages_per_range = 3);
	-- it counts what each process has made of a range
	UPDATE pg_class SET reltuples = 0 WHERE oid = 'nulls_n'::regclass;
END $$;
SET max_parallel_maintenance_workers = 0;
-- alone: of empty ranges, how many entries processes make depends on who scans what
CREATE INDEX sparse_two ON sparse USING brin (n) WITH (pages_per_range = 3);
DROP INDEX sparse_n;
SELECT count(*) FROM nulls WHERE n IS NULL;
SELECT count(*) FROM nulls WHERE r @> 1000;
SELECT count(*) FROM sparse WHERE n BETWEEN 190 AND 510;
SELECT count(*) FROM sparse WHERE n > 1000;
-- unlogged, and a crash
CREATE UNLOGGED TABLE unlogged (n int) WITH (autovacuum_enabled = off);
CREATE INDEX unlogged_n ON unlogged USING brin (n);
INSERT INTO unlogged SELECT generate_series(1, 1000);
\crash
SELECT count(*) FROM unlogged;
INSERT INTO unlogged SELECT generate_series(1, 1000);
SET enable_seqscan = off;
SELECT count(*) FROM unlogged WHERE n < 50;
\pages unlogged_n
\pages heap_t
SELECT count(*), sum(n) FROM heap WHERE t > 'z';
SELECT count(*), sum(n) FROM heap WHERE t < 'a';
