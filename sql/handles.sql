--
-- AIO handles and batches, used wrongly too
--
\pset format unaligned
\pset tuples_only
\set VERBOSITY terse
SELECT FROM handle_get_release();
SELECT handle_get() UNION ALL SELECT handle_release_last();
-- nothing to release: in a new session, and after it was done
\c
SELECT FROM handle_release_last();
SELECT handle_get() UNION ALL SELECT handle_release_last() UNION ALL SELECT handle_release_last();

-- leaked: at the end of a statement, of a transaction, of a subtransaction
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
SELECT handle_get_and_error();
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

-- only one at a time
SELECT handle_get_twice();
SELECT FROM handle_get_release();

-- released when it is no longer ours, and when it has been given out again
SELECT FROM handle_get();
SELECT FROM handle_release_last();
SELECT FROM handle_get();
SELECT FROM handle_get_release();
SELECT FROM handle_release_last();

-- batches
BEGIN;
SELECT FROM batch_start();
SELECT FROM batch_end();
COMMIT;
SELECT batch_start() UNION ALL SELECT batch_end();
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

-- more reads than a batch takes, and than handles there are
CREATE TABLE handles_heap (i int);
SELECT FROM grow_rel('handles_heap', 200);
SELECT FROM evict_rel('handles_heap');
DO $$
BEGIN
	PERFORM batch_start();
	FOR b IN 0 .. 199 LOOP
		PERFORM read_rel_block_ll('handles_heap', b, wait_complete => false);
	END LOOP;
	PERFORM batch_end();
END $$;
SELECT sum(nblocks) FROM read_buffers('handles_heap', 0, 100);
SELECT FROM evict_rel('handles_heap');
-- an error when reads have been staged
DO $$
BEGIN
	PERFORM batch_start();
	PERFORM read_rel_block_ll('handles_heap', b, wait_complete => false) FROM generate_series(0, 9) b;
	RAISE EXCEPTION 'in mid-batch';
END $$;
SELECT sum(nblocks) FROM read_buffers('handles_heap', 0, 100);
SELECT FROM handle_get_release();
DROP TABLE handles_heap;
