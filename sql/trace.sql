--
-- The I/O trace: bad input.  There are two expected files:
--	trace.out: there is an I/O trace
--	trace_1.out: there is none, and no gate either, or "test_aio.trace_size" is 0
--
\set ECHO none
\pset format unaligned
\pset tuples_only
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE query;
	RETURN 'succeeds';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, 'OID [0-9]+', 'OID'), nullif(detail, ''));
END $$;
SELECT outcome('SELECT * FROM io_trace') LIKE '55000 | there is no I/O trace in this server%' AS no_trace \gset
\if :no_trace
	\echo 'this server has no I/O trace'
	-- a server that has the gate has the trace, too, unless it is switched off
	SELECT NOT gate OR current_setting('test_aio.trace_size') = '0' AS confirmed FROM io_gate;
	DROP FUNCTION outcome(text);
	\quit
\endif
\set ECHO all

-- on a running server, a trace may be left of what ran before
SELECT io_trace_stop(), io_trace_reset();

CREATE TABLE trace_heap (i int);
CREATE VIEW trace_view AS SELECT 1;
SELECT FROM grow_rel('trace_heap', 20);

-- bad input, and good
SELECT call, outcome('SELECT * FROM ' || call) FROM unnest(ARRAY[
	$$io_trace_start(pid => 0)$$,
	$$io_trace_start(pid => -1)$$,
	$$io_trace_start('trace_view')$$,
	$$io_trace_start(1::regclass)$$,
	$$io_trace_start('trace_heap', 2147483647)$$]) call;
SELECT outcome('SELECT running, relation, pid FROM io_trace_status');
SELECT FROM io_trace_start('trace_heap', 2147483647);
SELECT running, relation, pid, recorded, lost, lost_waits, stopped_at FROM io_trace_status;
SELECT io_trace_stop(), io_trace_stop(), io_trace_reset();
SELECT running, relation, pid, recorded, stopped_at >= started_at AS stopped FROM io_trace_status;

-- a relation that has gone
CREATE TABLE trace_gone (i int);
SELECT FROM grow_rel('trace_gone', 4);
SELECT FROM evict_rel('trace_gone');
SELECT FROM io_trace_start('trace_gone');
SELECT FROM read_rel_block_ll('trace_gone', 1, nblocks => 2);
DROP TABLE trace_gone;
SELECT FROM io_trace_stop();
SELECT relation, blockno, nblocks, state, target_desc ~ '^blocks 1\.\.2 in file "base/' AS described FROM io_trace;
SELECT relation, ios, blocks FROM io_trace_summary;
SELECT FROM io_trace_reset();

DROP FUNCTION outcome(text);
DROP VIEW trace_view;
DROP TABLE trace_heap;
