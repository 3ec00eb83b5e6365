-- Files of relations: made, replaced, and dropped, in subtransactions and prepared transactions.
-- not replayed: is about crashes already
CREATE TABLE heap (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, repeat('x', 200) FROM generate_series(1, 1000) i;
CREATE INDEX heap_n ON heap (n);
CHECKPOINT;
-- TRUNCATE in subtransactions
BEGIN;
INSERT INTO heap VALUES (2000, 'before');
SAVEPOINT one;
TRUNCATE heap;
INSERT INTO heap SELECT i, 'one' FROM generate_series(1, 100) i;
SAVEPOINT two;
TRUNCATE heap;
INSERT INTO heap SELECT i, 'two' FROM generate_series(1, 50) i;
ROLLBACK TO two;
SELECT count(*), max(body) FROM heap;
RELEASE one;
COMMIT;
SELECT count(*), max(body) FROM heap;
BEGIN;
SAVEPOINT one;
TRUNCATE heap;
INSERT INTO heap VALUES (1, 'gone');
ROLLBACK TO one;
INSERT INTO heap VALUES (101, 'stays');
COMMIT;
SELECT count(*), max(n) FROM heap;
\pages heap
-- tables that are made and dropped in one transaction
BEGIN;
CREATE TABLE made (n int);
INSERT INTO made SELECT generate_series(1, 500);
SAVEPOINT one;
CREATE TABLE made_too (n int PRIMARY KEY);
INSERT INTO made_too SELECT generate_series(1, 500);
ROLLBACK TO one;
DROP TABLE made;
CREATE TABLE kept (n int);
INSERT INTO kept SELECT generate_series(1, 900);
SAVEPOINT two;
DROP TABLE kept;
ROLLBACK TO two;
SAVEPOINT three;
ALTER TABLE kept ALTER n TYPE bigint;
RELEASE three;
COMMIT;
SELECT count(*), sum(n) FROM kept;
\pages kept
BEGIN;
DROP TABLE kept;
ROLLBACK;
SELECT count(*), sum(n) FROM kept;
-- prepared transactions
BEGIN;
CREATE TABLE prepared (n int);
INSERT INTO prepared SELECT generate_series(1, 300);
DELETE FROM kept WHERE n < 100;
TRUNCATE heap;
INSERT INTO heap VALUES (7, 'prepared');
PREPARE TRANSACTION 'one';
SELECT count(*) FROM prepared;
COMMIT PREPARED 'one';
SELECT count(*), (SELECT count(*) FROM heap), (SELECT count(*) FROM kept) FROM prepared;
BEGIN;
DROP TABLE prepared;
CREATE TABLE never (n int);
INSERT INTO never SELECT generate_series(1, 300);
UPDATE kept SET n = 0 WHERE n < 200;
TRUNCATE heap;
PREPARE TRANSACTION 'two';
\crash
SELECT gid FROM pg_prepared_xacts;
ROLLBACK PREPARED 'two';
SELECT count(*), (SELECT count(*) FROM heap), (SELECT sum(n) FROM kept) FROM prepared;
-- no WAL for what is made: with wal_level minimal only; unlogged in all ways
CREATE UNLOGGED TABLE unlogged (n int, a int[], p point, t text) WITH (autovacuum_enabled = off);
INSERT INTO unlogged SELECT i, ARRAY[i % 10, i], point(i % 7, i), 't' || i FROM generate_series(1, 400) i;
CREATE INDEX u_btree ON unlogged (n);
CREATE INDEX u_hash ON unlogged USING hash (n);
CREATE INDEX u_gin ON unlogged USING gin (a);
CREATE INDEX u_brin ON unlogged USING brin (n);
CREATE INDEX u_spgist ON unlogged USING spgist (t);
CREATE INDEX u_gist ON unlogged USING gist (p);
CREATE UNLOGGED SEQUENCE useq;
SELECT nextval('useq');
CREATE TABLE became (n int, t text STORAGE EXTERNAL, s serial) WITH (autovacuum_enabled = off);
INSERT INTO became SELECT i, repeat('t', 2100) FROM generate_series(1, 60) i;
CREATE INDEX became_n ON became (n);
ALTER TABLE became SET UNLOGGED;
\pages became
BEGIN;
ALTER TABLE became SET LOGGED;
ROLLBACK;
INSERT INTO became SELECT i, 'more' FROM generate_series(61, 70) i;
\restart
SELECT count(*), sum(length(t)) FROM became;
SELECT count(*) FROM unlogged;
INSERT INTO unlogged SELECT i, ARRAY[i % 10, i], point(i % 7, i), 't' || i FROM generate_series(401, 500) i;
\crash
SELECT count(*), nextval('became_s_seq') FROM became;
SELECT count(*), nextval('useq') FROM unlogged;
INSERT INTO unlogged SELECT i, ARRAY[i % 10, i], point(i % 7, i), 't' || i FROM generate_series(1, 200) i;
SET enable_seqscan = off;
SELECT count(*) FROM unlogged WHERE n = 5;
SELECT count(*) FROM unlogged WHERE n BETWEEN 50 AND 60;
SELECT count(*) FROM unlogged WHERE a @> '{5}';
SELECT count(*) FROM unlogged WHERE t = 't77';
SELECT count(*) FROM unlogged WHERE p <@ box '((0,0),(9,20))';
ALTER TABLE unlogged SET LOGGED;
ALTER SEQUENCE useq SET LOGGED;
RESET enable_seqscan;
\crash
SELECT count(*), sum(n) FROM unlogged;
SELECT nextval('useq');
\pages u_btree
\pages u_brin
\pages u_gin
-- a copy of a database
\database copied
-- sums only
DROP DATABASE copied;
