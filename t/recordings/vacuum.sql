-- VACUUM of heaps: both passes, skipped pages, truncation, freezing, options, failsafe mode.
CREATE TABLE heap (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO heap SELECT i, repeat('x', 400) FROM generate_series(0, 1999) i;
CREATE INDEX heap_n ON heap (n);
CHECKPOINT;
SELECT evict_rel('heap'), evict_rel('heap_n');
-- nothing is all-visible yet
VACUUM (VERBOSE) heap;
\pages heap
VACUUM (VERBOSE) heap;
-- dead rows, in some pages all of them
DELETE FROM heap WHERE n % 7 = 0 OR n BETWEEN 300 AND 500;
UPDATE heap SET body = 'short' WHERE n % 50 = 3;
SELECT evict_rel('heap'), evict_rel('heap_n');
VACUUM (VERBOSE) heap;
\pages heap
\pages heap_n
SELECT count(*), sum(n) FROM heap;
-- no index cleanup, then with it
DELETE FROM heap WHERE n % 11 = 0;
VACUUM (VERBOSE, INDEX_CLEANUP off) heap;
VACUUM (VERBOSE, INDEX_CLEANUP on, TRUNCATE off) heap;
-- few dead pages are left to the indexes' next cleanup
DELETE FROM heap WHERE n = 1000;
VACUUM (VERBOSE) heap;
-- the tail goes
DELETE FROM heap WHERE n > 1500;
VACUUM (VERBOSE, TRUNCATE off) heap;
VACUUM (VERBOSE) heap;
\pages heap
INSERT INTO heap SELECT i, repeat('z', 400) FROM generate_series(3000, 3100) i;
SELECT count(*), max(ctid) FROM heap;
-- pages that are pinned are skipped, unless they must be frozen
DELETE FROM heap WHERE n < 40;
BEGIN;
DECLARE c CURSOR FOR SELECT body FROM heap;
FETCH 1 FROM c;
bob: VACUUM (VERBOSE, TRUNCATE off) heap;
COMMIT;
-- a snapshot keeps the dead
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM heap;
bob: DELETE FROM heap WHERE n BETWEEN 700 AND 800;
bob: VACUUM (VERBOSE) heap;
COMMIT;
bob: VACUUM (VERBOSE) heap;
-- freezing
VACUUM (FREEZE, VERBOSE) heap;
\pages heap
UPDATE heap SET n = n WHERE n = 900;
VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING) heap;
SET vacuum_freeze_min_age = 0;
SET vacuum_freeze_table_age = 0;
DELETE FROM heap WHERE n = 901;
VACUUM (VERBOSE) heap;
RESET vacuum_freeze_min_age;
RESET vacuum_freeze_table_age;
-- all visible, but not frozen; pages in between are read, as long as they are fewer than 32
TRUNCATE heap;
INSERT INTO heap SELECT i, repeat('x', 400) FROM generate_series(0, 3999) i;
VACUUM heap;
DELETE FROM heap WHERE n IN (100, 500, 1500, 3000, 3999);
SELECT evict_rel('heap');
VACUUM (VERBOSE) heap;
DELETE FROM heap WHERE n IN (101, 501, 1501);
SET vacuum_max_eager_freeze_failure_rate = 0;
VACUUM (VERBOSE) heap;
RESET vacuum_max_eager_freeze_failure_rate;
-- memory for few dead items: several index passes
TRUNCATE heap;
INSERT INTO heap SELECT i, '' FROM generate_series(0, 29999) i;
DELETE FROM heap WHERE n % 2 = 0;
SET maintenance_work_mem = '64kB';
SELECT evict_rel('heap'), evict_rel('heap_n');
VACUUM (VERBOSE, PARALLEL 0) heap;
RESET maintenance_work_mem;
-- failsafe mode
TRUNCATE heap;
INSERT INTO heap SELECT i, repeat('x', 400) FROM generate_series(0, 999) i;
DELETE FROM heap WHERE n % 3 = 0;
SET vacuum_failsafe_age = 0;
SET vacuum_multixact_failsafe_age = 0;
SELECT evict_rel('heap');
VACUUM (VERBOSE, FREEZE) heap;
RESET vacuum_failsafe_age;
RESET vacuum_multixact_failsafe_age;
VACUUM (VERBOSE) heap;
-- the ring
DELETE FROM heap WHERE n % 5 = 0;
SELECT evict_rel('heap');
VACUUM (VERBOSE, BUFFER_USAGE_LIMIT '128kB') heap;
DELETE FROM heap WHERE n % 5 = 1;
SELECT evict_rel('heap');
VACUUM (VERBOSE, BUFFER_USAGE_LIMIT 0) heap;
-- costs are counted though nothing waits
DELETE FROM heap WHERE n % 5 = 2;
SET vacuum_cost_delay = '0.001ms';
SET vacuum_cost_limit = 10000;
SET track_cost_delay_timing = on;
VACUUM (PROCESS_TOAST off) heap;
RESET vacuum_cost_delay;
RESET vacuum_cost_limit;
-- toast
CREATE TABLE toasted (n int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off);
INSERT INTO toasted SELECT i, repeat('t', 3000 + i) FROM generate_series(1, 60) i;
DELETE FROM toasted WHERE n % 2 = 0;
VACUUM (VERBOSE, PROCESS_TOAST off) toasted;
VACUUM (VERBOSE, PROCESS_MAIN off) toasted;
VACUUM (VERBOSE) toasted;
-- a page of zeros in the middle, and one that an aborted INSERT has left
BEGIN;
INSERT INTO heap SELECT i, repeat('x', 400) FROM generate_series(5000, 5100) i;
ROLLBACK;
SELECT grow_rel('heap', 3);
VACUUM (VERBOSE) heap;
SELECT count(*), sum(n) FROM heap;
-- crash, and everything again
DELETE FROM heap WHERE n % 4 = 1;
VACUUM heap;
\pages heap
INSERT INTO heap SELECT i, repeat('x', 400) FROM generate_series(6000, 6100) i;
DELETE FROM heap WHERE n % 4 = 2;
VACUUM heap;
\crash
SELECT count(*), sum(n) FROM heap;
\pages heap
\pages heap_n
