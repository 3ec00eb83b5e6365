-- Pages of indexes: deleted, emptied, used again, moved; by VACUUM and by insertions.
-- a posting tree of GIN loses leaves
CREATE TABLE words (n int, a int[]) WITH (autovacuum_enabled = off);
COPY words FROM PROGRAM 'seq 1 36000 | sed "s/$/\\t{1}/"';
CREATE INDEX words_a ON words USING gin (a) WITH (fastupdate = off);
INSERT INTO words SELECT i, ARRAY[1, 2 + i % 3] FROM generate_series(36001, 36100) i;
DELETE FROM words WHERE n BETWEEN 10000 AND 27000;
SELECT evict_rel('words'), evict_rel('words_a');
VACUUM (VERBOSE, TRUNCATE off) words;
\pages words_a
SET enable_seqscan = off;
SELECT count(*), sum(n) FROM words WHERE a @> '{1}';
SELECT count(*), sum(n) FROM words WHERE a @> '{1, 3}';
SELECT pg_current_xact_id() > '3';
DELETE FROM words WHERE n = 30000;
VACUUM (VERBOSE, TRUNCATE off, INDEX_CLEANUP on) words;
INSERT INTO words SELECT i, ARRAY[1, 2 + i % 3] FROM generate_series(40000, 42000) i;
SELECT count(*), sum(n) FROM words WHERE a @> '{1}';
DELETE FROM words;
VACUUM (VERBOSE, TRUNCATE off) words;
\pages words_a
INSERT INTO words VALUES (1, '{1}');
SELECT n FROM words WHERE a @> '{1}';
-- the pending list: long, of wide rows, cleaned up in several rounds
CREATE TABLE pending (n int, a int[]) WITH (autovacuum_enabled = off);
CREATE INDEX pending_a ON pending USING gin (a) WITH (fastupdate = on, gin_pending_list_limit = 64);
INSERT INTO pending SELECT 1, array_agg(i) FROM generate_series(1, 1500) i;
INSERT INTO pending VALUES (2, NULL), (3, '{}'), (4, ARRAY[NULL, 5]::int[]);
SELECT n FROM pending WHERE a @> '{5}';
INSERT INTO pending SELECT i, ARRAY[i, i + 1, i + 2] FROM generate_series(10, 1500) i;
SELECT n FROM pending WHERE a @> '{500}' ORDER BY 1;
SET gin_pending_list_limit = '1MB';
ALTER INDEX pending_a RESET (gin_pending_list_limit);
INSERT INTO pending SELECT i, ARRAY[i, i + 1, 3000 + i % 7] FROM generate_series(2000, 4000) i;
SET maintenance_work_mem = '64kB';
DELETE FROM pending WHERE n % 5 = 0;
VACUUM (VERBOSE, INDEX_CLEANUP on) pending;
SELECT count(*) FROM pending WHERE a @> '{3003}';
RESET maintenance_work_mem;
INSERT INTO pending SELECT i, ARRAY[i] FROM generate_series(5000, 5200) i;
ALTER INDEX pending_a SET (fastupdate = off);
INSERT INTO pending VALUES (6000, '{5001}');
SELECT gin_clean_pending_list('pending_a');
SELECT n FROM pending WHERE a @> '{5001}';
\pages pending_a
-- SP-GiST: redirections that an open transaction keeps, then placeholders that go
CREATE TABLE tries (n int, t text) WITH (autovacuum_enabled = off);
CREATE INDEX tries_t ON tries USING spgist (t);
INSERT INTO tries SELECT i, 'root' || i FROM generate_series(1, 30) i;
INSERT INTO tries VALUES (31, NULL);
DELETE FROM tries WHERE t IS NULL;
VACUUM (VERBOSE, INDEX_CLEANUP on) tries;
DELETE FROM tries WHERE n < 10;
bob: CREATE TABLE other (n int);
bob: BEGIN;
bob: INSERT INTO other VALUES (1);
INSERT INTO tries SELECT i, md5(i::text) || repeat('y', i % 30) FROM generate_series(100, 1800) i;
SELECT evict_rel('tries'), evict_rel('tries_t');
VACUUM (VERBOSE, INDEX_CLEANUP on) tries;
bob: COMMIT;
SELECT count(*) FROM tries WHERE t ^@ 'a';
DELETE FROM tries WHERE n % 3 = 0;
VACUUM (VERBOSE, INDEX_CLEANUP on) tries;
\pages tries_t
INSERT INTO tries SELECT i, md5(i::text) FROM generate_series(2000, 2600) i;
SELECT count(*), min(t) FROM tries WHERE t >= 'f';
DELETE FROM tries;
VACUUM (VERBOSE, TRUNCATE off) tries;
INSERT INTO tries VALUES (1, 'one');
SELECT n FROM tries WHERE t = 'one';
-- btree of wide keys: whole branches go, their pages come back, the fast root descends and splits
CREATE TABLE wide (n int, t text STORAGE PLAIN) WITH (autovacuum_enabled = off);
CREATE INDEX wide_t ON wide (t);
INSERT INTO wide SELECT i, repeat('k', 1200) || to_char(i, 'FM00000') FROM generate_series(1, 1000) i;
SELECT relpages FROM pg_class WHERE oid = 'wide_t'::regclass;
DELETE FROM wide WHERE n BETWEEN 100 AND 700;
SELECT evict_rel('wide'), evict_rel('wide_t');
VACUUM (VERBOSE, TRUNCATE off) wide;
\pages wide_t
SELECT pg_current_xact_id() > '3';
VACUUM (VERBOSE, INDEX_CLEANUP on, TRUNCATE off) wide;
INSERT INTO wide SELECT i, repeat('k', 1200) || to_char(i, 'FM00000') FROM generate_series(300, 450) i;
SELECT count(*), min(n), max(n) FROM wide WHERE t > repeat('k', 1200) || '00050';
DELETE FROM wide WHERE n < 990;
VACUUM (VERBOSE, TRUNCATE off) wide;
SELECT count(*) FROM wide WHERE t > 'k';
SELECT pg_current_xact_id() > '3';
DELETE FROM wide WHERE n = 995;
VACUUM (VERBOSE, TRUNCATE off, INDEX_CLEANUP on) wide;
INSERT INTO wide SELECT i, repeat('k', 1200) || to_char(i, 'FM00000') FROM generate_series(1001, 1300) i;
SELECT count(*), min(n), max(n) FROM wide WHERE t > 'k';
\pages wide_t
-- duplicates: lists of TIDs, with and without, shortened by VACUUM, and versions that insertions remove
CREATE TABLE dup (n int, k int, v int) WITH (autovacuum_enabled = off, fillfactor = 60);
CREATE INDEX dup_k ON dup (k);
CREATE INDEX dup_plain ON dup (k) WITH (deduplicate_items = off);
CREATE UNIQUE INDEX dup_n ON dup (n);
CREATE INDEX dup_v ON dup (v);
INSERT INTO dup SELECT i, i % 4, i FROM generate_series(1, 3000) i;
\pages dup_k
DELETE FROM dup WHERE n % 3 = 0;
VACUUM (VERBOSE, INDEX_CLEANUP on) dup;
\pages dup_k
UPDATE dup SET v = v + 10000 WHERE n < 200;
UPDATE dup SET v = v + 10000 WHERE n < 200;
UPDATE dup SET v = v + 10000 WHERE n < 200;
UPDATE dup SET v = v + 10000 WHERE n < 200;
UPDATE dup SET v = v + 10000 WHERE n < 200;
UPDATE dup SET v = v + 10000 WHERE n < 200;
\pages dup_n
SELECT count(*), sum(v) FROM dup WHERE k = 1;
SELECT count(*), sum(v) FROM dup WHERE n < 100;
-- everything goes
DELETE FROM dup;
VACUUM (VERBOSE) dup;
\crash
\pages words_a
\pages wide_t
\pages dup_k
SET enable_seqscan = off;
SELECT count(*) FROM pending WHERE a @> '{3003}';
SELECT count(*), min(n), max(n) FROM wide WHERE t > 'k';
