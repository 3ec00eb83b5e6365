--
-- AIO handles and batches that are left at the end of a statement, a transaction, a subtransaction.
-- t/server/handles/handles.pl has the rest of their lives.
--
\pset format unaligned
\pset tuples_only
\set VERBOSITY terse
-- released twice
SELECT handle_get() UNION ALL SELECT handle_release_last() UNION ALL SELECT handle_release_last();
-- leaked
SELECT FROM handle_get();
BEGIN;
SELECT FROM handle_get();
COMMIT;
BEGIN;
SAVEPOINT s;
SELECT FROM handle_get();
RELEASE s;
COMMIT;
-- by an error: without a warning
BEGIN;
SAVEPOINT s;
SELECT handle_get_and_error();
ROLLBACK TO s;
SELECT FROM handle_get_release();
COMMIT;
DO $$
BEGIN
	PERFORM handle_get_and_error();
EXCEPTION WHEN OTHERS THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
-- released when it has been given out again
SELECT FROM handle_get();
SELECT FROM handle_get_release();
SELECT FROM handle_release_last();

-- a batch of several statements
BEGIN;
SELECT FROM batch_start();
SELECT FROM batch_end();
COMMIT;
-- open at the end
SELECT FROM batch_start();
BEGIN;
SELECT FROM batch_start();
COMMIT;
BEGIN;
SELECT FROM batch_start();
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT FROM batch_start();
RELEASE s;
COMMIT;
-- ended by an error: without a warning
BEGIN;
SELECT FROM batch_start();
SELECT 1 / 0;
ROLLBACK;
-- nested
BEGIN;
SELECT FROM batch_start();
SELECT FROM batch_start();
ROLLBACK;
-- an error when reads have been staged
CREATE TABLE handles_heap (i int);
SELECT FROM grow_rel('handles_heap', 10);
SELECT FROM evict_rel('handles_heap');
DO $$
BEGIN
	PERFORM batch_start();
	PERFORM read_rel_block_ll('handles_heap', b, wait_complete => false) FROM generate_series(0, 9) b;
	RAISE EXCEPTION 'in mid-batch';
END $$;
SELECT sum(nblocks) FROM read_buffers('handles_heap', 0, 10);
DROP TABLE handles_heap;
