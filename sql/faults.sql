--
-- Faults, within one session.  There are two expected files:
--	faults.out: the server can have faults
--	faults_1.out: it cannot, and has no gate either
--
\set ECHO none
\pset format unaligned
\pset tuples_only
-- names of files differ from run to run
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE query;
	RETURN 'succeeds';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, 'base/[0-9/t_]+', 'FILE'), nullif(hint, ''));
END $$;
SELECT outcome('SELECT inj_io_completion_continue()') <> 'succeeds' AS no_faults \gset
\if :no_faults
	\echo 'this server cannot have faults'
	-- every fault function says why; none may refuse on a server that has the gate, except
	-- with "io_method" set to "sync"
	SELECT call, outcome('SELECT ' || call) LIKE ANY (CASE
			WHEN gate THEN ARRAY['0A000 | this server has no injection points, and with "io_method" set to "' || nullif(io_method, 'worker') || '" %']
			WHEN current_setting('shared_preload_libraries') !~ 'test_aio' THEN ARRAY['55000 | there are no filters for reads in this server%']
			ELSE ARRAY['0A000 | this server has no injection points%', '55000 | the server''s injection points cannot find test_aio%'] END) AS refused
	FROM io_gate, (
		SELECT format('%s(%s)', proname, CASE WHEN pronargs > pronargdefaults THEN 0 END) FROM pg_proc WHERE proname ~ '^inj_') f(call)
	ORDER BY call COLLATE "C";
	DROP FUNCTION outcome(text);
	\quit
\endif

CREATE TABLE faults_heap (i int);
SELECT FROM grow_rel('faults_heap', 20);
SELECT pg_relation_filenode('faults_heap') AS filenode \gset
SET client_min_messages = error;
\set ECHO all

-- errors
SELECT name, outcome(format('SELECT inj_io_short_read_attach(-errno_from_string(%L), relfilenode => %s)', name, :filenode)),
	outcome($$SELECT read_rel_block_ll('faults_heap', 0, nblocks => 4)$$)
FROM unnest(ARRAY['EIO', 'ENOSPC', 'EROFS', 'EINTR']) name;
-- matched, but as it is; too few bytes
SELECT n, outcome(format('SELECT inj_io_short_read_attach(%L, pid => pg_backend_pid(), relfilenode => %s)', n, :filenode)),
	outcome($$SELECT read_rel_block_ll('faults_heap', 0, nblocks => 4)$$)
FROM unnest(ARRAY[NULL, 0, 1, 8191, 8192, 20000, 32768]) n;
-- not this process, not this relation, not any more
SELECT call, outcome('SELECT ' || call), outcome($$SELECT read_rel_block_ll('faults_heap', 0, nblocks => 4)$$)
FROM unnest(ARRAY['inj_io_short_read_attach(0, pid => 1)', 'inj_io_short_read_attach(0, relfilenode => 1)', 'inj_io_short_read_detach()']) call;

-- bad input
SELECT call, outcome('SELECT ' || call) FROM unnest(ARRAY[
	'inj_io_short_read_attach(-4096)', 'inj_io_short_read_attach(0, pid => 0)', 'inj_io_short_read_attach(0, relfilenode => 0)',
	'inj_io_completion_wait(pid => -1)', 'inj_io_completion_wait(blockno => -1)', 'inj_io_completion_continue()', 'inj_io_completion_continue()']) call;

DROP TABLE faults_heap;
DROP FUNCTION outcome;
