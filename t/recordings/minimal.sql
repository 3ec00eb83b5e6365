-- Without WAL for what a transaction makes (wal_level = minimal): files are synced at its end instead.
-- not replayed: depends on wal_level
SET wal_skip_threshold = 0;
BEGIN;
CREATE TABLE made (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO made SELECT i, repeat('x', 300) FROM generate_series(1, 1000) i;
CREATE INDEX made_n ON made (n);
UPDATE made SET body = 'u' WHERE n % 10 = 0;
COMMIT;
\pages made
UPDATE made SET body = 'v' WHERE n % 20 = 0;
BEGIN;
TRUNCATE made;
COPY made FROM PROGRAM 'seq 1 500 | sed "s/$/\tcopied/"' WITH (FREEZE);
COMMIT;
-- small relations are cheaper to write into the WAL
SET wal_skip_threshold = '1MB';
BEGIN;
CREATE TABLE small (n int);
INSERT INTO small SELECT generate_series(1, 100);
COMMIT;
-- so many that they are sorted
SET wal_skip_threshold = 0;
BEGIN;
CREATE FUNCTION many(action text) RETURNS void LANGUAGE plpgsql AS 'BEGIN FOR i IN 1 .. 30 LOOP EXECUTE format(action, i); END LOOP; END';
SELECT many('CREATE TABLE many_%s (n int); INSERT INTO many_%1$s SELECT generate_series(1, 300)');
COMMIT;
BEGIN;
CREATE TABLE rolled (n int);
INSERT INTO rolled SELECT generate_series(1, 300);
SAVEPOINT s;
TRUNCATE rolled;
INSERT INTO rolled SELECT generate_series(1, 10);
ROLLBACK TO s;
SELECT count(*) FROM rolled;
COMMIT;
CREATE TABLE copied AS SELECT n FROM made;
ALTER TABLE made ALTER n TYPE bigint;
CREATE MATERIALIZED VIEW seen AS SELECT n FROM made;
CLUSTER made USING made_n;
\crash
SELECT count(*), sum(n) FROM made;
SELECT count(*), sum(n) FROM small;
SELECT many('SELECT 1 / (CASE WHEN count(*) = 300 THEN 1 ELSE 0 END) FROM many_%s');
SELECT count(*) FROM rolled;
SELECT count(*), sum(n) FROM copied;
SELECT count(*), sum(n) FROM seen;
\pages made
\pages made_n
