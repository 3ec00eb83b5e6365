-- Rows that several sessions lock, update and delete, and rows of subtransactions.
-- not replayed: sessions wait for others
CREATE TABLE heap (n int PRIMARY KEY, v int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 70);
INSERT INTO heap SELECT i, 0, repeat('x', 300) FROM generate_series(1, 400) i;
VACUUM (FREEZE) heap;
CREATE VIEW items AS SELECT n, ctid, v FROM heap;
-- several lock the same rows
BEGIN;
SELECT n FROM heap WHERE n < 4 FOR KEY SHARE;
bob: BEGIN;
bob: SELECT n FROM heap WHERE n < 4 FOR SHARE;
bob: SELECT n FROM heap WHERE n < 4 FOR SHARE;
carol: BEGIN;
carol: SELECT n FROM heap WHERE n < 4 FOR NO KEY UPDATE SKIP LOCKED;
carol: SELECT n FROM heap WHERE n = 3 FOR KEY SHARE;
dave: SELECT n FROM heap WHERE n = 3 FOR UPDATE NOWAIT;
-- waits for bob
dave: UPDATE heap SET v = v + 1 WHERE n = 3;
-- then dave ends
bob: COMMIT;
carol: COMMIT;
\pages heap
-- an update beside key shares; who locks the key sees the old row
bob: BEGIN;
bob: UPDATE heap SET v = v + 10 WHERE n < 4;
carol: BEGIN;
carol: SELECT n, v FROM heap WHERE n < 4 FOR KEY SHARE;
SELECT n, v FROM heap WHERE n < 4 FOR KEY SHARE;
bob: UPDATE heap SET v = v + 10 WHERE n = 1;
-- waits for alice
dave: DELETE FROM heap WHERE n = 1;
bob: ROLLBACK;
carol: COMMIT;
-- then dave ends
COMMIT;
SELECT * FROM items WHERE n < 5;
-- with multixacts in the rows: VACUUM, freezing
BEGIN;
SELECT n FROM heap WHERE n BETWEEN 10 AND 14 FOR KEY SHARE;
bob: BEGIN;
bob: UPDATE heap SET v = 5 WHERE n BETWEEN 10 AND 12;
bob: SELECT n FROM heap WHERE n BETWEEN 13 AND 14 FOR SHARE;
carol: VACUUM (VERBOSE) heap;
bob: COMMIT;
carol: VACUUM (FREEZE, VERBOSE) heap;
\pages heap
bob: SELECT * FROM items WHERE n BETWEEN 9 AND 15;
COMMIT;
carol: VACUUM (FREEZE) heap;
\pages heap
-- an updated row is found and locked anew
BEGIN;
UPDATE heap SET v = 100 WHERE n BETWEEN 20 AND 22;
-- waits for alice
bob: UPDATE heap SET v = v + 1 WHERE n = 20 RETURNING n, v;
erin: SELECT n FROM heap WHERE n BETWEEN 19 AND 23 FOR UPDATE SKIP LOCKED;
-- then bob ends
COMMIT;
BEGIN;
UPDATE heap SET v = 49 + v WHERE n = 21;
-- waits for alice
carol: SELECT n, v FROM heap WHERE n = 21 AND v < 120 FOR UPDATE;
-- then carol ends
COMMIT;
BEGIN;
UPDATE heap SET v = 150 WHERE n = 22;
-- waits for alice
dave: DELETE FROM heap WHERE n = 22 AND v < 200 RETURNING ctid, v;
-- then dave ends
COMMIT;
-- two updates, then a delete: the chain is followed
BEGIN;
UPDATE heap SET v = 1 WHERE n IN (30, 31);
UPDATE heap SET v = 2 WHERE n IN (30, 31);
SAVEPOINT s;
DELETE FROM heap WHERE n = 31;
-- waits for alice
bob: SELECT n, v FROM heap WHERE n = 30 FOR SHARE;
-- then bob ends
COMMIT;
-- a snapshot that is older: locks follow the chain, updates fail
bob: BEGIN ISOLATION LEVEL REPEATABLE READ;
bob: SELECT sum(v) FROM heap WHERE n < 50;
UPDATE heap SET v = 50 WHERE n IN (40, 41);
UPDATE heap SET v = 51 WHERE n IN (40, 41);
BEGIN;
UPDATE heap SET v = 52 WHERE n = 40;
bob: SELECT n, v FROM heap WHERE n = 40 FOR KEY SHARE;
bob: SELECT n, v FROM heap WHERE n = 41;
ROLLBACK;
bob: UPDATE heap SET v = 60 WHERE n = 41;
bob: ROLLBACK;
-- subtransactions lock and update what their parents have locked
BEGIN;
SELECT n FROM heap WHERE n BETWEEN 50 AND 55 FOR SHARE;
SAVEPOINT a;
UPDATE heap SET v = 7 WHERE n BETWEEN 50 AND 52;
SAVEPOINT b;
SELECT n FROM heap WHERE n BETWEEN 51 AND 54 FOR UPDATE;
UPDATE heap SET v = 8 WHERE n BETWEEN 52 AND 55;
ROLLBACK TO b;
SELECT * FROM items WHERE n BETWEEN 50 AND 55;
DELETE FROM heap WHERE n = 50;
INSERT INTO heap VALUES (50, 9, 'again'), (1001, 9, 'new');
ROLLBACK TO a;
UPDATE heap SET v = 6 WHERE n = 55;
bob: SELECT n FROM heap WHERE n BETWEEN 49 AND 56 FOR UPDATE SKIP LOCKED;
COMMIT;
SELECT * FROM items WHERE n BETWEEN 50 AND 55;
\pages heap
VACUUM (VERBOSE) heap;
-- the command's own changes
BEGIN;
DECLARE c CURSOR FOR SELECT n, v FROM heap WHERE n BETWEEN 60 AND 63;
FETCH 1 FROM c;
UPDATE heap SET v = 1 WHERE CURRENT OF c;
UPDATE heap SET v = 2 WHERE n = 61;
DELETE FROM heap WHERE n = 62;
FETCH ALL FROM c;
FETCH PRIOR FROM c;
UPDATE heap SET v = s.g FROM generate_series(1, 3) s (g) WHERE n = 63;
MERGE INTO heap USING generate_series(1, 2) g ON n = 63 WHEN MATCHED THEN UPDATE SET v = g;
ROLLBACK;
-- keys: a parent's update waits only if the key changes
CREATE TABLE child (n int REFERENCES heap) WITH (autovacuum_enabled = off);
BEGIN;
INSERT INTO child VALUES (70), (71);
bob: UPDATE heap SET v = 3 WHERE n = 70;
-- waits for alice
bob: UPDATE heap SET n = 2000 WHERE n = 71;
INSERT INTO child VALUES (70);
-- then bob ends
COMMIT;
-- one key inserted by two
BEGIN;
INSERT INTO heap VALUES (3000, 1, '');
-- waits for alice
bob: INSERT INTO heap VALUES (3000, 2, '') ON CONFLICT (n) DO UPDATE SET v = heap.v + excluded.v RETURNING v;
-- then bob ends
COMMIT;
INSERT INTO heap VALUES (3000, 3, '') ON CONFLICT DO NOTHING;
-- one has written its row, but not yet the index, when the other's is there
CREATE FUNCTION slow(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('slow.calls', true) <> '' THEN
		PERFORM set_config('slow.calls', current_setting('slow.calls') || '+', false);
		IF current_setting('slow.calls') = '1++' THEN
			PERFORM pg_advisory_lock_shared(1);
		END IF;
	END IF;
	RETURN n;
END $$;
CREATE TABLE keys (n int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
CREATE UNIQUE INDEX keys_n ON keys (slow(n));
SELECT pg_advisory_lock(1);
bob: SET slow.calls = '1';
-- waits for alice
bob: INSERT INTO keys VALUES (1, repeat('b', 3000)) ON CONFLICT DO NOTHING;
carol: INSERT INTO keys VALUES (1, 'carol');
-- then bob ends
SELECT pg_advisory_unlock(1);
SELECT n, left(body, 5), ctid FROM keys;
\pages keys
-- serializable
bob: BEGIN ISOLATION LEVEL SERIALIZABLE;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM heap WHERE n BETWEEN 80 AND 85;
bob: SELECT sum(v) FROM heap WHERE n BETWEEN 80 AND 85;
UPDATE heap SET v = 1 WHERE n = 80;
bob: UPDATE heap SET v = 1 WHERE n = 81;
COMMIT;
bob: COMMIT;
SELECT sum(v) FROM heap WHERE n BETWEEN 80 AND 85;
VACUUM (FREEZE, VERBOSE) heap;
\crash
SELECT count(*), sum(v) FROM heap;
\pages heap
