-- Databases and tablespaces: made, copied, moved, renamed, dropped.
-- not replayed: makes databases
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE there LOCATION '';
CREATE TABLESPACE extra LOCATION '';
-- relations move
CREATE TABLE heap (n int, body text STORAGE PLAIN, big text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, repeat('x', 300), CASE WHEN i % 20 = 0 THEN repeat('b', 4000) END FROM generate_series(1, 800) i;
CREATE INDEX heap_n ON heap (n) TABLESPACE extra;
CREATE MATERIALIZED VIEW seen TABLESPACE extra AS SELECT n FROM heap WHERE n < 500;
CREATE UNLOGGED TABLE unlogged (n int) WITH (autovacuum_enabled = off);
INSERT INTO unlogged SELECT generate_series(1, 1000);
CREATE INDEX unlogged_n ON unlogged (n);
CREATE SEQUENCE seq;
SELECT nextval('seq');
VACUUM heap;
CHECKPOINT;
SELECT evict_rel('heap');
ALTER TABLE heap SET TABLESPACE there;
SELECT count(*), sum(n), sum(length(big)) FROM heap;
ALTER TABLE heap SET TABLESPACE there;
ALTER INDEX heap_n SET TABLESPACE there;
ALTER MATERIALIZED VIEW seen SET TABLESPACE there;
ALTER TABLE unlogged SET TABLESPACE there;
ALTER INDEX unlogged_n SET TABLESPACE extra;
\pages heap
SET enable_seqscan = off;
SELECT count(*), sum(n) FROM heap WHERE n BETWEEN 100 AND 200;
SELECT count(*) FROM seen;
SELECT count(*) FROM unlogged WHERE n < 50;
-- dirty pages move, too; and what is taken back stays
UPDATE heap SET body = 'dirty' WHERE n < 100;
ALTER TABLE heap SET TABLESPACE extra;
BEGIN;
ALTER TABLE heap SET TABLESPACE pg_default;
ROLLBACK;
SELECT count(*), sum(n), count(*) FILTER (WHERE body = 'dirty') FROM heap;
BEGIN;
SAVEPOINT one;
ALTER TABLE heap SET TABLESPACE there;
SAVEPOINT two;
ALTER TABLE heap SET TABLESPACE pg_default;
ROLLBACK TO two;
RELEASE one;
INSERT INTO heap VALUES (3000, 'after', NULL);
COMMIT;
SELECT count(*), sum(n) FROM heap;
ALTER TABLE ALL IN TABLESPACE there SET TABLESPACE extra;
ALTER INDEX ALL IN TABLESPACE there SET TABLESPACE extra NOWAIT;
ALTER MATERIALIZED VIEW ALL IN TABLESPACE there SET TABLESPACE extra;
SELECT relname, spcname FROM pg_class JOIN pg_tablespace s ON s.oid = reltablespace WHERE relnamespace = 'recorded'::regnamespace ORDER BY 1;
REINDEX (TABLESPACE there) TABLE heap;
REINDEX (TABLESPACE extra) INDEX CONCURRENTLY heap_n;
ALTER INDEX heap_n RESET (fillfactor);
SET temp_tablespaces = there;
CREATE TEMP TABLE temporary AS SELECT generate_series(1, 1000) n;
ALTER TABLE temporary SET TABLESPACE extra;
SELECT count(*), sum(n) FROM temporary;
DROP TABLE temporary;
-- a crash: what is unlogged is empty, elsewhere as well
INSERT INTO heap VALUES (4000, 'kept', NULL);
\crash
SELECT count(*), sum(n) FROM heap;
SELECT count(*) FROM unlogged;
SELECT count(*) FROM seen;
\pages unlogged
\pages unlogged_n
-- a database, and copies of it
SET allow_in_place_tablespaces = on;
-- sums only
CREATE DATABASE other TEMPLATE template0 STRATEGY wal_log LOCALE 'C' ENCODING 'UTF8' CONNECTION LIMIT 10;
-- dora is in other
dora: CREATE TABLE t (n int PRIMARY KEY, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
dora: INSERT INTO t SELECT i, repeat('x', 2500) FROM generate_series(1, 50) i;
dora: CREATE UNLOGGED TABLE u (n int, s serial);
dora: INSERT INTO u SELECT generate_series(1, 700);
dora: CREATE UNLOGGED SEQUENCE useq;
dora: SELECT nextval('useq'), nextval('useq');
dora: CREATE TABLE e (n int) TABLESPACE extra;
dora: INSERT INTO e SELECT generate_series(1, 300);
dora: VACUUM t;
\end dora
-- sums only
CREATE DATABASE by_log TEMPLATE other STRATEGY wal_log;
-- sums only
CREATE DATABASE by_file TEMPLATE other STRATEGY file_copy TABLESPACE there;
-- emil is in by_log
emil: SELECT count(*), sum(length(body)), (SELECT count(*) FROM u), (SELECT sum(n) FROM e), nextval('useq'), nextval('u_s_seq') FROM t;
emil: INSERT INTO t VALUES (1000, 'emil');
emil: UPDATE u SET n = n WHERE n < 5;
-- fay is in by_file
fay: SELECT count(*), sum(length(body)), (SELECT count(*) FROM u), (SELECT sum(n) FROM e), nextval('useq'), nextval('u_s_seq') FROM t;
fay: UPDATE t SET body = 'fay' WHERE n < 10;
\end emil
\end fay
-- they move, there and back
ALTER DATABASE by_log SET TABLESPACE there;
ALTER DATABASE by_log SET TABLESPACE there;
ALTER DATABASE by_log SET TABLESPACE extra;
ALTER DATABASE by_file SET TABLESPACE pg_default;
emil: SELECT count(*), max(n), (SELECT count(*) FROM u), (SELECT sum(n) FROM e) FROM t;
fay: SELECT count(*), count(*) FILTER (WHERE body = 'fay'), (SELECT count(*) FROM u), (SELECT sum(n) FROM e) FROM t;
\end emil
\end fay
ALTER DATABASE by_log SET TABLESPACE pg_default;
SELECT datname, datconnlimit, datistemplate, datallowconn, datlocprovider, spcname FROM pg_database d JOIN pg_tablespace s ON s.oid = dattablespace WHERE datname ~ '^(by|other)' ORDER BY 1;
-- names
ALTER DATABASE by_log RENAME TO renamed;
-- emil is in renamed
emil: SELECT count(*), max(n) FROM t;
\end emil
-- sums only
CREATE DATABASE again TEMPLATE renamed STRATEGY file_copy;
BEGIN;
CREATE DATABASE wrong;
ROLLBACK;
\crash
emil: SELECT count(*), max(n), (SELECT count(*) FROM u), (SELECT sum(n) FROM e), nextval('useq'), nextval('u_s_seq') FROM t;
fay: SELECT count(*), count(*) FILTER (WHERE body = 'fay'), (SELECT count(*) FROM u), (SELECT sum(n) FROM e), nextval('useq'), nextval('u_s_seq') FROM t;
\end emil
\end fay
DROP DATABASE renamed WITH (FORCE);
DROP DATABASE by_file;
DROP DATABASE again;
DROP DATABASE other;
DROP TABLE heap, unlogged CASCADE;
DROP TABLESPACE there;
DROP TABLESPACE extra;
