--
-- Bad input: an error with the right SQLSTATE, and nothing has happened
--
\set ECHO none
\pset format unaligned
\pset tuples_only
CREATE FUNCTION attempt(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE 'SELECT * FROM ' || query;
	RETURN 'succeeds';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
-- every function that takes a relation, and block 0
CREATE FUNCTION attempt_all(rel text) RETURNS TABLE (attempts bigint, outcome text) LANGUAGE sql AS $$
	SELECT count(*), attempt(format(call, quote_literal(rel))) FROM unnest(ARRAY[
		'grow_rel(%s, 1)', 'modify_rel_block(%s, 0)', 'evict_rel(%s)', 'invalidate_rel_block(%s, 0)',
		'buffer_create_toy(%s, 0)', 'buffer_state(%s, 0)', 'read_rel_block_ll(%s, 0)', 'write_rel_block_ll(%s, 0)', 'read_buffers(%s, 0, 1)',
		'start_read_buffers(%s, 0, 1)', 'read_stream_for_blocks(%s, ''{0}'')', 'read_stream_run(%s, ''{0}'')']) call
	GROUP BY 2 ORDER BY 2
$$;
\set ECHO all
CREATE TABLE bad_heap (i int);
SELECT FROM grow_rel('bad_heap', 200);
CREATE TABLE bad_empty (i int);

-- relations without storage
CREATE VIEW bad_view AS SELECT 1;
CREATE TABLE bad_partitioned (i int) PARTITION BY RANGE (i);
CREATE INDEX bad_partitioned_index ON bad_partitioned (i);
CREATE TYPE bad_composite AS (i int);
CREATE FOREIGN DATA WRAPPER bad_wrapper;
CREATE SERVER bad_server FOREIGN DATA WRAPPER bad_wrapper;
CREATE FOREIGN TABLE bad_foreign (i int) SERVER bad_server;
SELECT kind, a.* FROM unnest(ARRAY['bad_view', 'bad_partitioned', 'bad_partitioned_index', 'bad_composite', 'bad_foreign']) WITH ORDINALITY AS k(kind, n),
	attempt_all(kind) a ORDER BY n;
-- relations that are not there
SELECT * FROM attempt_all('bad_nothing');
SELECT attempts, regexp_replace(outcome, '\d{9}', 'OID') AS outcome FROM attempt_all('999999999');
-- NULL is no relation, and no number
SELECT grow_rel(NULL, 1), modify_rel_block(NULL, 0), evict_rel(NULL), invalidate_rel_block(NULL, 0), buffer_create_toy(NULL, 0), buffer_state(NULL, 0), read_rel_block_ll(NULL, 0);
SELECT count(*) FROM read_buffers(NULL, 0, 1);
SELECT count(*) FROM read_stream_for_blocks(NULL, '{0}');
SELECT count(*) FROM read_stream_for_blocks('bad_heap', NULL);

-- blocks outside of the fork
SELECT attempt(format(call, b)) AS outcome, string_agg(call, ' ' ORDER BY call COLLATE "C") FROM unnest(ARRAY[
	'modify_rel_block(''bad_heap'', %s)', 'invalidate_rel_block(''bad_heap'', %s)', 'buffer_create_toy(''bad_heap'', %s)', 'buffer_state(''bad_heap'', %s)',
	'read_rel_block_ll(''bad_heap'', %s)', 'read_rel_block_ll(''bad_heap'', %s, nblocks => 2)', 'write_rel_block_ll(''bad_heap'', %s)', 'read_buffers(''bad_heap'', %s, 2)', 'start_read_buffers(''bad_heap'', %s, 2)',
	'read_stream_for_blocks(''bad_heap'', ''{0,%s}'')', 'read_stream_run(''bad_heap'', ''{0,%s}'')']) call,
	unnest(ARRAY[-1, 200, 2147483647, -2147483648]) b
GROUP BY outcome, b ORDER BY b, outcome;
SELECT attempt('read_rel_block_ll(''bad_heap'', 199, nblocks => 2)');
SELECT attempt('read_buffers(''bad_heap'', 199, 2)');
SELECT call, attempt(format(call, quote_literal('bad_empty'))) FROM unnest(ARRAY['modify_rel_block(%s, 0)', 'evict_rel(%s)', 'read_buffers(%s, 0, 1)', 'read_stream_for_blocks(%s, ''{0}'')']) call;
SELECT grow_rel('bad_empty', 1), pg_relation_size('bad_empty') / current_setting('block_size')::int AS blocks;

-- counts of zero, below, beyond the limit
SELECT attempt(format('grow_rel(''bad_heap'', %s)', n)) AS outcome, string_agg(n::text, ' ' ORDER BY n) FROM unnest(ARRAY[0, -1, 131073, 2147483647, -2147483648]) n GROUP BY outcome;
SELECT call, regexp_replace(attempt(format(call, n)), '\d+$', 'N') AS outcome, string_agg(n::text, ' ' ORDER BY n)
FROM unnest(ARRAY['read_rel_block_ll(''bad_heap'', 0, nblocks => %s)', 'write_rel_block_ll(''bad_heap'', 0, %s)', 'read_buffers(''bad_heap'', 0, %s)', 'start_read_buffers(''bad_heap'', 0, %s)']) call,
	unnest(ARRAY[0, -1, 129, 2147483647, -2147483648]) n
GROUP BY call, outcome ORDER BY call, outcome;
SELECT pg_relation_size('bad_heap') / current_setting('block_size')::int AS blocks;

SELECT call, attempt(format('read_stream_run(''bad_heap'', ''{0,1}'', %s)', call)) FROM unnest(ARRAY[
	'nruns => 0', 'nruns => -1', 'nruns => 1000001', 'per_buffer_data => -1', 'per_buffer_data => 1025',
	'end_at => -2', 'end_at => 3', 'reset_at => ''{-1}''', 'reset_at => ''{3}''', 'reset_at => ''{1,1}''', 'reset_at => ''{2,1}''',
	'reset_at => ''{{1}}''', 'reset_at => ''{NULL}''', 'pause_at => ''{3}''', 'pause_at => ''{1,0}''',
	'context => ''normal'', ring_size => 8', 'context => ''x''', 'context => ''vacuum'', ring_size => 16777217',
	'context => ''vacuum'', ring_size => -1', 'context => ''vacuum'', ring_size => 7', 'fork => ''x''', 'fork => ''init''']) call;
SELECT read_stream_run(NULL, '{0}'), read_stream_run('bad_heap', NULL);

-- arrays
SELECT a, attempt(format(call, a)) AS outcome, count(*) FROM unnest(ARRAY['read_stream_run(''bad_heap'', %L, nruns => 2, end_at => 0)', 'read_stream_for_blocks(''bad_heap'', %L)']) call,
	unnest(ARRAY['{0,NULL,1}', '{NULL}', '{{1,2},{3,4}}', '{{1}}', '{1,x}', '{}']) a
GROUP BY a, outcome ORDER BY outcome, a COLLATE "C";

-- buffers
SELECT n, regexp_replace(attempt(format(call, n)), '1 to \d+; this session has \d+', '1 to N; this session has M') AS outcome, count(*)
FROM unnest(ARRAY['buffer_call_start_io(%s, true, false)', 'buffer_call_terminate_io(%s, true, false, false, false)']) call,
	unnest(ARRAY[0, 2147483647, -2147483648, -1000000]) n
GROUP BY n, outcome ORDER BY n, outcome;
SELECT regexp_replace(attempt(format('drop_buffer(%s)', n)), 'and \d+', 'and N') AS outcome, count(*) FROM unnest(ARRAY[0, -1, 2147483647]) n GROUP BY 1;
-- I/O that nobody has started, or has started for something else
SELECT buffer_create_toy('bad_heap', 7) AS toy \gset
SELECT regexp_replace(attempt('buffer_call_terminate_io(' || :toy || ', true, true, false, true)'), '\d+ has', 'N has');
SELECT buffer_call_start_io(:toy, true, false);
SELECT regexp_replace(attempt('buffer_call_terminate_io(' || :toy || ', false, true, false, true)'), '\d+ has', 'N has');
-- which pins its buffer
SELECT regexp_replace(attempt('drop_buffer(' || :toy || ')'), '\d+ is', 'N is');
SELECT FROM buffer_call_terminate_io(:toy, true, false, false, true);
SELECT regexp_replace(attempt('buffer_call_terminate_io(' || :toy || ', true, true, false, true)'), '\d+ has', 'N has');

-- names
SELECT attempt(format('errno_from_string(%L)', n)) AS outcome, string_agg(n, ' ' ORDER BY n COLLATE "C") FROM unnest(ARRAY['EIO', 'EAGAIN', 'EINTR', 'ENOSPC', 'EROFS', 'eio', 'ENOTHING', '']) n
GROUP BY outcome ORDER BY min(n COLLATE "C");
SELECT errno_from_string('EIO') > 0 AS positive, errno_from_string('EIO') <> errno_from_string('ENOSPC') AS different, errno_from_string(NULL);

-- what filters and the trace refuse; a server may have neither
SELECT call, outcome FROM (VALUES
	('inj_io_short_read_attach(-4096)', '22023 | result must be a number of bytes or a negative errno | The smallest errno is -4095.'),
	('inj_io_short_read_attach(0, pid => 0)', '22023 | pid must be between 1 and 2147483647'),
	('inj_io_short_read_attach(0, relfilenode => 0)', '22023 | relfilenode must be between 1 and 4294967295'),
	('inj_io_completion_wait(pid => -1)', '22023 | pid must be between 1 and 2147483647'),
	('inj_io_completion_wait(blockno => -1)', '22023 | blockno must be between 0 and 4294967294'),
	('io_trace_start(pid => 0)', '22023 | pid must be between 1 and 2147483647'),
	('io_trace_start(''bad_view'')', '42809 | relation "bad_view" has no storage | This operation is not supported for views.'),
	('io_trace_start(1::regclass)', '42P01 | relation with OID 1 does not exist')) calls (call, expected), attempt(call) outcome
WHERE outcome <> expected AND outcome !~ '^(0A000 \| this server has no injection points|55000 \| (there |the server''s injection points ))';

-- batches and handles
SELECT attempt('batch_end()');
SELECT attempt('read_rel_block_ll(''bad_heap'', 0, batchmode_exit => true)');

-- loops can be ended
SET statement_timeout = 100;
SELECT count(*) FROM read_stream_for_blocks('bad_heap', ARRAY(SELECT i % 200 FROM generate_series(1, 3000000) i)), generate_series(1, 1000000000);
SELECT * FROM read_stream_run('bad_heap', ARRAY(SELECT i % 200 FROM generate_series(1, 1000) i), nruns => 1000000);
RESET statement_timeout;

-- nothing is left behind: all can be evicted, and is whole
SELECT FROM evict_rel('bad_heap');
SELECT sum(nblocks) FROM read_buffers('bad_heap', 0, 200);
SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN (SELECT oid FROM pg_class WHERE relname LIKE 'bad\_%');

DROP TABLE bad_heap, bad_empty, bad_partitioned;
DROP VIEW bad_view;
DROP TYPE bad_composite;
DROP FOREIGN DATA WRAPPER bad_wrapper CASCADE;
DROP FUNCTION attempt, attempt_all;
