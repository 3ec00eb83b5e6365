--
-- Privileges: superusers only
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS test_aio;
RESET client_min_messages;
CREATE TABLE privileges_heap (i int);
SELECT grow_rel('privileges_heap', 4);
CREATE ROLE regress_test_aio;
GRANT ALL ON privileges_heap TO regress_test_aio;

-- not for the public
SELECT p.oid::regprocedure
FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio')
	AND has_function_privilege('regress_test_aio', p.oid, 'EXECUTE');

-- and a grant is not enough: these must fail, not a superuser
DO $$
DECLARE
	f regprocedure;
BEGIN
	FOR f IN SELECT p.oid FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
		WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio')
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO regress_test_aio', f);
	END LOOP;
END $$;
CREATE FUNCTION attempt(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'succeeds';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' | ' || SQLERRM;
END $$;
SET ROLE regress_test_aio;
SELECT call, attempt('SELECT * FROM ' || call) FROM unnest(ARRAY[
	$$errno_from_string('EIO')$$,
	$$grow_rel('privileges_heap', 1)$$,
	$$modify_rel_block('privileges_heap', 0)$$,
	$$evict_rel('privileges_heap')$$,
	$$invalidate_rel_block('privileges_heap', 0)$$,
	$$buffer_create_toy('privileges_heap', 0)$$,
	$$buffer_call_start_io(1, true, false)$$,
	$$buffer_call_terminate_io(1, true, false, false, false)$$,
	$$buffer_state('privileges_heap', 0)$$,
	$$read_rel_block_ll('privileges_heap', 0)$$,
	$$read_buffers('privileges_heap', 0, 1)$$,
	$$read_stream_for_blocks('privileges_heap', '{0}')$$,
	$$handle_get()$$,
	$$handle_release_last()$$,
	$$handle_get_and_error()$$,
	$$handle_get_twice()$$,
	$$handle_get_release()$$,
	$$batch_start()$$,
	$$batch_end()$$,
	$$inj_io_completion_wait()$$,
	$$inj_io_completion_continue()$$,
	$$inj_io_short_read_attach(0)$$,
	$$inj_io_short_read_detach()$$,
	$$inj_io_reopen_attach()$$,
	$$inj_io_reopen_detach()$$]) call;
RESET ROLE;
SELECT pg_relation_size('privileges_heap') / current_setting('block_size')::int AS blocks;

-- none can be created by others either
SELECT superuser, trusted FROM pg_available_extension_versions WHERE name = 'test_aio';

DROP FUNCTION attempt;
DROP TABLE privileges_heap;
DROP OWNED BY regress_test_aio;
DROP ROLE regress_test_aio;
