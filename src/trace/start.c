/*
 * Start-up of the trace, and its start and stop by users, for the whole server: it
 * does not end with the session that has started it.
 */
#include "trace/trace.h"

PG_FUNCTION_INFO_V1(io_trace_start);
PG_FUNCTION_INFO_V1(io_trace_stop);
PG_FUNCTION_INFO_V1(io_trace_reset);

#define MAX_TRACE_SIZE 10000000

/* Subsystem.begin: has the I/O methods tell the trace what happens to each read. */
static void
begin(void)
{
	trace_init_calls();
	io_install(NULL, &trace_listener);
}

Subsystem	trace_subsystem = {
	.name = "I/O trace",
	.memory = "test_aio trace",
	.address = (void **) &trace,
	.has_lock = true,
	.size_for = trace_shmem_size,
	.set_up = trace_init_ring,
	.begin = begin,
	.unavailable = UNAVAILABLE_UNLESS_PRELOADED("there is no I/O trace in this server"),
};

void
trace_init(void)
{
	const char *reason;
	const char *hint;

	DefineCustomIntVariable("test_aio.trace_size",
							"Number of reads that the I/O trace has room for.",
							"Zero disables the trace.",
							&trace_size, 16384, 0, MAX_TRACE_SIZE,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	if (trace_size == 0)
	{
		reason = "\"test_aio.trace_size\" is 0";
		hint = "Set \"test_aio.trace_size\" to the number of reads that the trace is to have room for, and restart the server.";
	}
	else if ((reason = io_method_unavailable(&hint)) == NULL)
	{
		hint = NULL;
		reason = io_see_synchronous();
		if (reason == NULL)
			reason = io_see_completions();
	}

	if (reason != NULL)
		subsystem_disable(&trace_subsystem, reason, hint);
	else
		subsystem_register(&trace_subsystem);
}

/*
 * Records matching reads from now on, in place of what was asked for.  NULL matches
 * all.
 */
Datum
io_trace_start(PG_FUNCTION_ARGS)
{
	IoMatch		match;
	uint64		recorded = 0;

	require_subsystem(fcinfo, &trace_subsystem);
	match = io_match_rel_arg(fcinfo, 0, !PG_ARGISNULL(3) && PG_GETARG_BOOL(3));
	match.pid = io_pid_arg(fcinfo, 1, "pid");
	io_match_op_arg(fcinfo, 2, &match);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	trace->match = match;
	if (trace->ops == 0)
	{
		recorded = pg_atomic_read_u64(&trace->next) - trace->first;
		trace->started_at = GetCurrentTimestamp();
		trace->stopped_at = 0;
		trace->clock_offset = trace->started_at - io_now() / 1000;
	}
	trace->version++;
	trace->ops = match.ops;
	LWLockRelease(trace->lock);

	if (recorded > 0)
		ereport(NOTICE,
				errmsg("the trace still has " UINT64_FORMAT " reads that were recorded before", recorded),
				errhint("io_trace_reset() forgets them."));

	PG_RETURN_VOID();
}

/*
 * Records no more reads.  Reads that have a record already go on to add to it.
 */
Datum
io_trace_stop(PG_FUNCTION_ARGS)
{
	require_subsystem(fcinfo, &trace_subsystem);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	if (trace->ops != 0)
		trace->stopped_at = GetCurrentTimestamp();
	trace->ops = 0;
	LWLockRelease(trace->lock);

	PG_RETURN_VOID();
}

Datum
io_trace_reset(PG_FUNCTION_ARGS)
{
	require_subsystem(fcinfo, &trace_subsystem);

	LWLockAcquire(trace->lock, LW_EXCLUSIVE);
	trace->first = pg_atomic_read_u64(&trace->next);
	pg_atomic_write_u64(&trace->lost_waits, 0);
	LWLockRelease(trace->lock);

	PG_RETURN_VOID();
}
