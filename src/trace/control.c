/*
 * Starting and stopping the trace.
 *
 * There is one trace for the whole server, and it does not end with the
 * session that has started it.
 */
#include "trace/trace.h"

#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(io_trace_start);
PG_FUNCTION_INFO_V1(io_trace_stop);
PG_FUNCTION_INFO_V1(io_trace_reset);
PG_FUNCTION_INFO_V1(io_trace_status_get);

/*
 * Records matching reads of all processes from now on, in place of what an
 * earlier call has asked for.  NULL matches all.
 */
Datum
io_trace_start(PG_FUNCTION_ARGS)
{
	IoMatch		match;
	uint64		recorded = 0;

	require_trace(fcinfo);
	match = io_match_rel_arg(fcinfo, 0);
	io_match_pid_arg(fcinfo, 1, &match);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	trace->match = match;
	if (trace->filter == 0)
	{
		recorded = pg_atomic_read_u64(&trace->next) - trace->first;
		trace->started_at = GetCurrentTimestamp();
		trace->stopped_at = 0;
		trace->clock_offset = trace->started_at - io_now() / 1000;
	}
	/* another number, so that all look at the filter */
	if (++trace->last_filter == 0)
		trace->last_filter = 1;
	trace->filter = trace->last_filter;
	LWLockRelease(trace->lock);

	if (recorded > 0)
		ereport(NOTICE,
				(errmsg("the trace still has " UINT64_FORMAT " reads that were recorded before", recorded),
				 errhint("io_trace_reset() forgets them.")));

	PG_RETURN_VOID();
}

/*
 * Records no more reads.  Reads that have a record already go on to add to
 * it.
 */
Datum
io_trace_stop(PG_FUNCTION_ARGS)
{
	require_trace(fcinfo);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	if (trace->filter != 0)
		trace->stopped_at = GetCurrentTimestamp();
	trace->filter = 0;
	LWLockRelease(trace->lock);

	PG_RETURN_VOID();
}

/*
 * Forgets what has been recorded so far.
 */
Datum
io_trace_reset(PG_FUNCTION_ARGS)
{
	require_trace(fcinfo);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	trace->first = pg_atomic_read_u64(&trace->next);
	pg_atomic_write_u64(&trace->lost_waits, 0);
	LWLockRelease(trace->lock);

	PG_RETURN_VOID();
}

/*
 * Returns what is being recorded, for the view "io_trace_status".
 */
Datum
io_trace_status_get(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	IoMatch		match;
	bool		running;
	TimestampTz started_at;
	TimestampTz stopped_at;
	uint64		recorded;
	uint64		lost_waits;
	Oid			relation = InvalidOid;

	require_trace_to_look(fcinfo);

	LWLockAcquire(trace->lock, LW_SHARED);
	running = trace->filter != 0;
	match = trace->match;
	started_at = trace->started_at;
	stopped_at = trace->stopped_at;
	recorded = pg_atomic_read_u64(&trace->next) - trace->first;
	lost_waits = pg_atomic_read_u64(&trace->lost_waits);
	LWLockRelease(trace->lock);

	if (match.has_rel)
		relation = trace_relation(&match.rlocator, match.temp_owner);

	row_add(&row, BoolGetDatum(running));
	row_add_if(&row, OidIsValid(relation), ObjectIdGetDatum(relation));
	row_add_if(&row, match.pid != 0, Int32GetDatum(match.pid));
	row_add(&row, Int32GetDatum(trace->nrecords));
	row_add(&row, Int64GetDatum(recorded));
	row_add(&row, Int64GetDatum(recorded > trace->nrecords ? recorded - trace->nrecords : 0));
	row_add(&row, Int64GetDatum(lost_waits));
	row_add_if(&row, started_at != 0, TimestampTzGetDatum(started_at));
	row_add_if(&row, stopped_at != 0, TimestampTzGetDatum(stopped_at));

	return row_result(fcinfo, &row);
}
