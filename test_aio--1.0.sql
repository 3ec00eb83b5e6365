/* test_aio--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION test_aio" to load this file. \quit

-- Other users may be allowed to create functions and operators in the schema
-- that this script creates objects in.  Theirs must not match better than the
-- server's.  So queries name the schema of all that the server provides,
-- operators included, and cast arguments to exactly the function's types.

--
-- Set-up helpers
--

CREATE FUNCTION errno_from_string(sym text)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION grow_rel(rel regclass, nblocks int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION modify_rel_block(rel regclass, blockno int,
	zero bool DEFAULT false,
	corrupt_header bool DEFAULT false,
	corrupt_checksum bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION evict_rel(rel regclass)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION invalidate_rel_block(rel regclass, blockno int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_create_toy(rel regclass, blockno int4)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_call_start_io(buffer int, for_input bool, wait bool)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_start_io(buffer int, for_input bool, wait bool)
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_call_terminate_io(buffer int, for_input bool,
	succeed bool, io_error bool, release_aio bool)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_call_read(buffer int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffer_state(rel regclass, blockno int4,
	OUT buffer int4, OUT flags text[], OUT refcount int4, OUT usage_count int4)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION buffers_in_progress(OUT buffer int4, OUT reltablespace oid,
	OUT reldatabase oid, OUT relfilenode oid, OUT fork text, OUT blockno int8,
	OUT flags text[], OUT refcount int4)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;

CREATE FUNCTION buffers_in_file(file oid, OUT buffer int4, OUT reltablespace oid,
	OUT reldatabase oid, OUT relfilenode oid, OUT fork text, OUT blockno int8,
	OUT flags text[], OUT refcount int4)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION drop_buffer(buffer int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

--
-- Reads
--

CREATE FUNCTION read_rel_block_ll(rel regclass, blockno int,
	nblocks int DEFAULT 1,
	wait_complete bool DEFAULT true,
	batchmode_enter bool DEFAULT false,
	smgrreleaseall bool DEFAULT false,
	batchmode_exit bool DEFAULT false,
	zero_on_error bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION write_rel_block_ll(rel regclass, blockno int, nblocks int DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION read_buffers(rel regclass, startblock int4, nblocks int4,
	OUT blockoff int4, OUT blocknum int4, OUT io_reqd bool,
	OUT foreign_io bool, OUT nblocks int4, OUT buf int4[])
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION wait_read_buffers(rel regclass, startblock int4, nblocks int4,
	OUT blockoff int4, OUT blocknum int4, OUT io_reqd bool,
	OUT foreign_io bool, OUT nblocks int4, OUT buf int4[], OUT waited bool)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION start_read_buffers(rel regclass, startblock int4, nblocks int4,
	OUT blockoff int4, OUT blocknum int4, OUT io_reqd bool,
	OUT foreign_io bool, OUT nblocks int4, OUT buf int4[])
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION read_stream_for_blocks(rel regclass, blocks int4[],
	OUT blockoff int4, OUT blocknum int4, OUT buf int4)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION read_stream_run(rel regclass, blocks int4[],
	fork text DEFAULT 'main',
	nruns int4 DEFAULT 1,
	maintenance bool DEFAULT false,
	sequential bool DEFAULT false,
	"full" bool DEFAULT false,
	use_batching bool DEFAULT false,
	per_buffer_data int4 DEFAULT 0,
	pause_at int4[] DEFAULT '{}',
	reset_at int4[] DEFAULT '{}',
	end_at int4 DEFAULT -1,
	context text DEFAULT 'normal',
	ring_size int4 DEFAULT 0,
	OUT runs int4, OUT blocks int8, OUT hits int8, OUT reads int8,
	OUT read_bytes int8, OUT waits int8, OUT prefetch_count int8, OUT distance_sum int8,
	OUT distance_max int4, OUT distance_capacity int4,
	OUT io_count int8, OUT io_nblocks int8, OUT io_in_progress int8)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

--
-- Handles and batches
--

CREATE FUNCTION handle_get()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION handle_release_last()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION handle_get_and_error()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION handle_get_twice()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION handle_get_release()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION batch_start()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION batch_end()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

--
-- Faults: reads held or failed at their completion.  NULL matches all.
--

CREATE FUNCTION inj_io_completion_wait(pid int DEFAULT NULL,
	relfilenode oid DEFAULT NULL,
	blockno int4 DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION inj_io_completion_continue()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION inj_io_short_read_attach(result int,
	pid int DEFAULT NULL,
	relfilenode oid DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION inj_io_short_read_detach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION inj_io_reopen_attach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION inj_io_reopen_detach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

--
-- The I/O gate: reads held, failed and delayed.  NULL matches all.  A filter
-- that names neither a relation nor a process needs "everybody".
--

CREATE FUNCTION io_hold(rel regclass DEFAULT NULL,
	blockno int8 DEFAULT NULL,
	fork text DEFAULT NULL,
	pid int DEFAULT NULL,
	skip int DEFAULT 0,
	times int DEFAULT NULL,
	keep bool DEFAULT false,
	everybody bool DEFAULT false,
	op text DEFAULT 'read',
	backend_type text DEFAULT NULL,
	leader_pid int DEFAULT NULL,
	family bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_hold_end(filter int DEFAULT NULL, everybody bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_release(pid int, io_id int, result int DEFAULT NULL, by text DEFAULT NULL)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_release_all(result int DEFAULT NULL)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_hold_wakeups("on" bool)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_wake(pid int)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_settle(timeout int DEFAULT 10000)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION io_fail(rel regclass, result int,
	blockno int8 DEFAULT NULL,
	fork text DEFAULT NULL,
	pid int DEFAULT NULL,
	skip int DEFAULT 0,
	times int DEFAULT NULL,
	keep bool DEFAULT false,
	everybody bool DEFAULT false,
	op text DEFAULT 'read',
	backend_type text DEFAULT NULL,
	leader_pid int DEFAULT NULL,
	family bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_fail_end(filter int DEFAULT NULL, everybody bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_corrupt(rel regclass, blockno int8, "offset" int,
	fork text DEFAULT NULL,
	pid int DEFAULT NULL,
	skip int DEFAULT 0,
	times int DEFAULT NULL,
	keep bool DEFAULT false,
	everybody bool DEFAULT false,
	backend_type text DEFAULT NULL,
	leader_pid int DEFAULT NULL,
	family bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_route(rel regclass, route text,
	blockno int8 DEFAULT NULL,
	fork text DEFAULT NULL,
	pid int DEFAULT NULL,
	skip int DEFAULT 0,
	times int DEFAULT NULL,
	keep bool DEFAULT false,
	everybody bool DEFAULT false,
	backend_type text DEFAULT NULL,
	leader_pid int DEFAULT NULL,
	family bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_filter_end(filter int DEFAULT NULL, everybody bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_device(rel regclass, latency text,
	queue_depth int DEFAULT 32,
	jitter float8 DEFAULT 0,
	bytes_per_second int8 DEFAULT NULL,
	blockno int8 DEFAULT NULL,
	fork text DEFAULT NULL,
	pid int DEFAULT NULL,
	skip int DEFAULT 0,
	times int DEFAULT NULL,
	keep bool DEFAULT false,
	everybody bool DEFAULT false,
	op text DEFAULT 'read',
	backend_type text DEFAULT NULL,
	leader_pid int DEFAULT NULL,
	tail float8 DEFAULT 0,
	tail_latency text DEFAULT NULL,
	iops int DEFAULT NULL,
	spread float8 DEFAULT 1,
	family bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_device_end(filter int DEFAULT NULL, everybody bool DEFAULT false)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

-- The views below say what these functions return.
CREATE FUNCTION io_handles_get(OUT pid int4, OUT io_id int4, OUT io_generation int8,
	OUT state text, OUT op text, OUT held bool, OUT off int8, OUT length int8, OUT target_desc text,
	OUT reltablespace oid, OUT reldatabase oid, OUT relfilenode oid,
	OUT fork text, OUT blockno int8, OUT nblocks int4,
	OUT filter int4, OUT since timestamptz, OUT waiters int4[],
	OUT f_localmem bool, OUT device int4, OUT service_time float8, OUT due_in float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE FUNCTION io_held_wakeups_get(OUT pid int4, OUT io_id int4,
	OUT io_generation int8, OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE FUNCTION io_filters_get(OUT filter int4, OUT kind text, OUT op text,
	OUT reltablespace oid, OUT reldatabase oid, OUT relfilenode oid,
	OUT fork text, OUT blockno int8, OUT pid int4, OUT leader_pid int4, OUT backend_type text, OUT result int4,
	OUT skip int8, OUT times int8, OUT matched int8, OUT fired int8,
	OUT bypassed int8, OUT why_bypassed text, OUT hold_timeout int8, OUT holder int4,
	OUT latency float8, OUT queue_depth int4, OUT jitter float8, OUT tail float8, OUT tail_latency float8,
	OUT bytes_per_second int8, OUT iops int4, OUT spread float8, OUT reads int8, OUT read_bytes int8,
	OUT writes int8, OUT write_bytes int8,
	OUT in_progress int8, OUT queued int8,
	OUT p50_latency float8, OUT p99_latency float8, OUT max_latency float8,
	OUT mean_lateness float8, OUT max_lateness float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE FUNCTION io_gate_get(OUT io_method text, OUT gate bool, OUT why_not text,
	OUT handler text, OUT synchronous bool, OUT writes bool,
	OUT worker int4, OUT held int4)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C;

-- null for a relation of another database, or a temporary one whose number another has as well; a table
-- without storage has its OID, and no tablespace
CREATE FUNCTION io_relation(reltablespace oid, reldatabase oid, relfilenode oid)
RETURNS regclass
LANGUAGE SQL STABLE
BEGIN ATOMIC
SELECT CASE WHEN reldatabase OPERATOR(pg_catalog.=) 0::pg_catalog.oid
			OR reldatabase OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database
				WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
		THEN CASE WHEN reltablespace OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN relfilenode::pg_catalog.regclass
			ELSE coalesce(pg_catalog.pg_filenode_relation(reltablespace, relfilenode),
				(SELECT pg_catalog.max(c.oid) FROM pg_catalog.pg_class c, pg_catalog.pg_database d
				 WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
					AND c.relfilenode OPERATOR(pg_catalog.=) io_relation.relfilenode
					AND c.reltablespace OPERATOR(pg_catalog.=) CASE d.dattablespace
						WHEN io_relation.reltablespace THEN 0::pg_catalog.oid ELSE io_relation.reltablespace END
					AND c.relpersistence OPERATOR(pg_catalog.=) 't'
				 HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 1)) END END;
END;

CREATE VIEW io_held AS
SELECT pid, io_id, io_generation, op, off, length, target_desc,
	io_relation(reltablespace, reldatabase, relfilenode) AS relation,
	fork, blockno, nblocks, filter, since, waiters, f_localmem
FROM io_handles_get() WHERE held;

COMMENT ON VIEW io_held IS 'held reads and writes, and the processes that wait for them';

CREATE VIEW io_held_wakeups AS SELECT * FROM io_held_wakeups_get();

COMMENT ON VIEW io_held_wakeups IS 'processes that wait for io_wake(), and the reads that they have waited for';

CREATE VIEW io_filters AS
SELECT filter, kind, op,
	CASE WHEN relfilenode IS NOT NULL THEN
		coalesce(io_relation(reltablespace, reldatabase, relfilenode), 0::pg_catalog.regclass) END AS relation,
	fork, blockno, pid, leader_pid, backend_type, result, skip, times, matched, fired,
	bypassed, why_bypassed, hold_timeout, holder
FROM io_filters_get();

COMMENT ON VIEW io_filters IS 'filters in force: which reads are held or fail, and how many have been';

CREATE VIEW io_devices AS
SELECT filter, op, CASE WHEN relfilenode IS NOT NULL THEN
		coalesce(io_relation(reltablespace, reldatabase, relfilenode), 0::pg_catalog.regclass) END AS relation,
	latency, queue_depth, jitter, spread, tail, tail_latency, bytes_per_second, iops, reads, read_bytes,
	writes, write_bytes, in_progress, queued, p50_latency, p99_latency, max_latency, mean_lateness, max_lateness, bypassed, why_bypassed, holder
FROM io_filters_get() WHERE kind OPERATOR(pg_catalog.=) 'device';

COMMENT ON VIEW io_devices IS 'simulated storage devices; latency in ms, lateness in us';

CREATE VIEW io_device_reads AS
SELECT pid, io_id, io_generation, op,
	io_relation(reltablespace, reldatabase, relfilenode) AS relation,
	fork, blockno, nblocks, service_time, due_in
FROM io_handles_get() WHERE device IS NOT NULL;

COMMENT ON VIEW io_device_reads IS 'reads and writes in the queues of simulated devices; times in ms';

CREATE VIEW io_gate AS SELECT * FROM io_gate_get();

COMMENT ON VIEW io_gate IS 'what can be held on this server';

--
-- The I/O trace: what happened to each read, and when
--

CREATE FUNCTION io_trace_start(rel regclass DEFAULT NULL, pid int DEFAULT NULL,
	op text DEFAULT 'read',
	family bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

CREATE FUNCTION io_trace_stop()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION io_trace_reset()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION io_trace_get(OUT seq int8, OUT pid int4, OUT io_id int4,
	OUT io_generation int8, OUT state text, OUT operation text,
	OUT off int8, OUT length int8, OUT target text, OUT target_desc text,
	OUT raw_result int4, OUT result text,
	OUT f_sync bool, OUT f_localmem bool, OUT f_buffered bool,
	OUT reltablespace oid, OUT reldatabase oid, OUT relfilenode oid,
	OUT fork text, OUT blockno int8, OUT nblocks int4,
	OUT staged_at timestamptz, OUT submitted_at timestamptz,
	OUT completed_at timestamptz, OUT latency float8, OUT in_progress int4, OUT lookahead_distance int4,
	OUT executed_by int4, OUT completed_by int4, OUT joined bool,
	OUT waits int4, OUT wait_time float8, OUT waiters int4[],
	OUT wait_starts timestamptz[], OUT wait_times float8[], OUT wait_calls text[], OUT held bool,
	OUT backend_type text, OUT submitted_together int4, OUT why_issuer text, OUT waits_for_handle int4)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;

CREATE FUNCTION io_trace_status_get(OUT running bool,
	OUT reltablespace oid, OUT reldatabase oid, OUT relfilenode oid, OUT pid int4, OUT op text, OUT size int4, OUT recorded int8, OUT lost int8,
	OUT lost_waits int8, OUT started_at timestamptz, OUT stopped_at timestamptz)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;

CREATE VIEW io_trace AS
SELECT seq, pid, io_id, io_generation, state, operation, off, length, target, target_desc, raw_result, result,
	f_sync, f_localmem, f_buffered,
	-- as io_relation(), which is slow for many rows
	CASE WHEN f_localmem THEN io_relation(reltablespace, reldatabase, relfilenode)
		WHEN reldatabase OPERATOR(pg_catalog.=) 0::pg_catalog.oid
			OR reldatabase OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database
				WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
		THEN pg_catalog.pg_filenode_relation(reltablespace, relfilenode) END AS relation,
	fork, blockno, nblocks, staged_at, submitted_at, completed_at, latency, in_progress, lookahead_distance,
	executed_by, completed_by, joined, waits, wait_time, waiters, wait_starts, wait_times, wait_calls, held,
	backend_type, submitted_together, why_issuer, waits_for_handle
FROM io_trace_get();

COMMENT ON VIEW io_trace IS 'recorded reads and writes; lengths of time in ms';

CREATE VIEW io_trace_status AS
SELECT running, io_relation(reltablespace, reldatabase, relfilenode) AS relation,
	pid, op, size, recorded, lost, lost_waits, started_at, stopped_at
FROM io_trace_status_get();

COMMENT ON VIEW io_trace_status IS 'what is being recorded, and how much was lost';

CREATE VIEW io_trace_summary AS
SELECT relation, fork, pid, operation,
	pg_catalog.count(*) AS ios,
	pg_catalog.sum(nblocks) AS blocks,
	pg_catalog.avg(nblocks)::pg_catalog.float8 AS mean_size,
	pg_catalog.avg(in_progress)::pg_catalog.float8 AS mean_in_progress,
	pg_catalog.max(in_progress) AS max_in_progress,
	pg_catalog.sum(waits) AS waits,
	pg_catalog.round(pg_catalog.sum(wait_time)::pg_catalog.numeric, 6)::pg_catalog.float8 AS wait_time,
	pg_catalog.count(*) FILTER (WHERE joined) AS joined,
	pg_catalog.count(*) FILTER (WHERE result OPERATOR(pg_catalog.=) 'ERROR') AS errors,
	pg_catalog.round(pg_catalog.avg(latency)::pg_catalog.numeric, 6)::pg_catalog.float8 AS mean_latency,
	pg_catalog.percentile_disc(0.5::pg_catalog.float8) WITHIN GROUP (ORDER BY latency) AS p50_latency,
	pg_catalog.percentile_disc(0.99::pg_catalog.float8) WITHIN GROUP (ORDER BY latency) AS p99_latency,
	pg_catalog.max(latency) AS max_latency,
	pg_catalog.avg(lookahead_distance)::pg_catalog.float8 AS mean_lookahead,
	pg_catalog.max(lookahead_distance) AS max_lookahead
FROM io_trace
GROUP BY relation, fork, pid, operation;

COMMENT ON VIEW io_trace_summary IS
'recorded reads and writes by relation, fork, process and operation; lengths of time in ms';

--
-- Descriptions of the functions, and privileges.  The functions in C check them as well: a grant is not enough.
--

-- nothing is for the public, without a list that could be incomplete
DO $$
DECLARE
	command pg_catalog.text;
BEGIN
	FOR command IN
		SELECT CASE WHEN classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
			THEN pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC; COMMENT ON FUNCTION %1$s IS %L', objid::pg_catalog.regprocedure, about)
			ELSE pg_catalog.format('REVOKE ALL ON TABLE %s FROM PUBLIC', objid::pg_catalog.regclass) END
		FROM pg_catalog.pg_depend
		LEFT JOIN pg_catalog.pg_proc ON pg_proc.oid OPERATOR(pg_catalog.=) objid
			AND classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
		LEFT JOIN (VALUES
			('errno_from_string', 'return the number of a named errno, for example EIO'),
			('grow_rel', 'extend the main fork by zeroed blocks'),
			('modify_rel_block', 'rewrite a block on disk: zeroed, with an impossible header, or with a wrong checksum'),
			('evict_rel', 'remove all blocks of all forks from the buffer pool'),
			('invalidate_rel_block', 'remove a block of the main fork from the buffer pool'),
			('buffer_create_toy', 'give this block a buffer that is neither pinned, valid nor dirty, and return its number'),
			('buffer_call_start_io', 'start I/O on a buffer; return true if the session owns the I/O now'),
			('buffer_start_io', 'buffer_call_start_io() with the server''s answer: READY_FOR_IO, IN_PROGRESS or ALREADY_DONE'),
			('buffer_call_terminate_io', 'end I/O on a buffer that buffer_call_start_io() has started'),
			('buffer_call_read', 'submit a read into a buffer with I/O that buffer_call_start_io() has started, and do not wait'),
			('buffer_state', 'show the buffer of a block and the state in its header; nulls if the block is in no buffer'),
			('buffers_in_progress', 'show shared buffers that have I/O in progress'),
			('buffers_in_file', 'shared buffers that hold blocks of this file, and what their headers say'),
			('drop_buffer', 'remove a block without a file from its buffer, without writing it'),
			('read_rel_block_ll', 'read consecutive blocks by one asynchronous read that is built by hand'),
			('write_rel_block_ll', 'write consecutive blocks by one asynchronous write that is built by hand'),
			('read_buffers', 'read a range of blocks by StartReadBuffers() and WaitReadBuffers(); one row is one operation'),
			('start_read_buffers', 'start to read a range of blocks by StartReadBuffers(), and do not wait; one row is one operation'),
			('wait_read_buffers', 'the same as read_buffers(), and whether WaitReadBuffers() waited'),
			('read_stream_for_blocks', 'read these blocks, in this order, by a read stream; one row is one block, and one step of a cursor'),
			('read_stream_run', 'run a read stream over these blocks; reads are counted as in pg_stat_io'),
			('handle_get', 'acquire an AIO handle'),
			('handle_release_last', 'release the AIO handle that handle_get() acquired last'),
			('handle_get_and_error', 'acquire an AIO handle and raise an error'),
			('handle_get_twice', 'acquire a second AIO handle while the first is in use, which the server refuses'),
			('handle_get_release', 'acquire an AIO handle and release it'),
			('batch_start', 'enter batch mode'),
			('batch_end', 'leave batch mode, and submit what is staged'),
			('inj_io_completion_wait', 'hold the completion of matching reads'),
			('inj_io_completion_continue', 'end the hold, and let the held reads go on'),
			('inj_io_short_read_attach', 'give matching reads this result: a number of bytes, or a negative errno'),
			('inj_io_short_read_detach', 'leave the results of reads as they are'),
			('inj_io_reopen_attach', 'make I/O workers fail to reopen files'),
			('inj_io_reopen_detach', 'let I/O workers reopen files'),
			('io_hold', 'hold matching reads, or other operations, until they are released; return the number of the filter'),
			('io_hold_end', 'end a filter of io_hold(), those of this session, or of everybody; reads that are held stay held'),
			('io_release', 'release a held read or write: perform it, or give it a number of bytes or a negative errno as its result'),
			('io_release_all', 'release all held reads and writes'),
			('io_hold_wakeups', 'hold wakeups: have processes that have waited for a held read wait for io_wake()'),
			('io_wake', 'end the held wakeup of a process'),
			('io_settle', 'wait until no other process of the server runs; return whether that is so'),
			('io_fail', 'give matching reads, or other operations, this result: a number of bytes, or a negative errno; return the number of the filter'),
			('io_fail_end', 'end a filter of io_fail(), those of this session, or of everybody'),
			('io_corrupt', 'invert a byte of a block in memory after matching reads; return the number of the filter'),
			('io_route', 'have matching reads executed synchronously, or synchronous ones by the I/O method; return the number of the filter'),
			('io_filter_end', 'end a filter of any kind, those of this session, or of everybody'),
			('io_device', 'simulate a storage device for matching reads, or other operations; return the number of the filter'),
			('io_device_end', 'end a simulated device, those of this session, or of everybody'),
			('io_relation', 'return the relation of this file, if it belongs to the current database'),
			('io_trace_start', 'record matching reads, or other operations, of all processes from now on; NULL matches all'),
			('io_trace_stop', 'stop recording reads'),
			('io_trace_reset', 'forget the reads that have been recorded')) AS comments (name, about) ON name::pg_catalog.name OPERATOR(pg_catalog.=) proname
		WHERE deptype OPERATOR(pg_catalog.=) 'e'
			AND refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND refobjid OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_extension
				WHERE extname OPERATOR(pg_catalog.=) 'test_aio')
			AND (classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
				OR classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass)
	LOOP
		EXECUTE command;
	END LOOP;
END $$;

-- roles that can read pg_aios can read the views of the gate and of the trace
GRANT SELECT ON io_held, io_held_wakeups, io_filters, io_devices, io_device_reads, io_gate,
	io_trace, io_trace_status, io_trace_summary
TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION io_handles_get(), io_held_wakeups_get(), io_filters_get(), io_gate_get(),
	io_relation(oid, oid, oid), io_trace_get(), io_trace_status_get()
TO pg_read_all_stats;
