/*
 * Start-up of the trace: settings and shared memory.
 */
#include "trace/trace.h"

#include "subsystem.h"
#include "utils/guc.h"

#define MAX_TRACE_SIZE 10000000

static const IoListener listener = {
	.staged = trace_staged,
	.submitting = trace_submitting,
	.wait_begins = trace_wait_begins,
	.wait_ends = trace_wait_ends,
};

static void
define_settings(void)
{
	DefineCustomIntVariable("test_aio.trace_size",
							"Number of reads that the I/O trace has room for.",
							"Zero disables the trace.",
							&trace_size,
							16384,
							0,
							MAX_TRACE_SIZE,
							PGC_POSTMASTER,
							0,
							NULL, NULL, NULL);
}

/*
 * Subsystem.begin: has the I/O methods tell the trace what happens to each read.
 */
static void
begin(void)
{
	io_set_listener(&listener);
}

static Subsystem subsystem = {
	.name = "I/O trace",
	.memory = "test_aio trace",
	.address = (void **) &trace,
	.by_handles = true,
	.size = trace_shmem_size,
	.set_up = trace_init_ring,
	.begin = begin,
	.unavailable = UNAVAILABLE_UNLESS_PRELOADED("there is no I/O trace in this server"),
};

/*
 * Prepares the trace.  Called when the library is preloaded, after gate_init(): the
 * gate's stage hook runs first, and a synchronous read that it captures is traced
 * as an asynchronous one.
 */
void
trace_init(void)
{
	const char *reason;
	const char *hint;

	define_settings();
	if (trace_size == 0)
	{
		subsystem_disable(&subsystem, "\"test_aio.trace_size\" is 0",
						  "Set \"test_aio.trace_size\" to the number of reads that the trace is to have room for, and restart the server.");
		return;
	}

	reason = io_method_unavailable(&hint);
	if (reason == NULL)
	{
		reason = trace_see_completions();
		hint = NULL;
	}
	if (reason != NULL)
	{
		subsystem_disable(&subsystem, reason, hint);
		return;
	}

	subsystem_register(&subsystem);
}

/*
 * Raises an error unless there is a trace in this server, and the caller may start and
 * stop it.
 */
void
require_trace(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);
	require_subsystem(&subsystem);
}

/*
 * Raises an error unless there is a trace in this server, and the caller may look at it.
 */
void
require_trace_to_look(FunctionCallInfo fcinfo)
{
	require_monitor(fcinfo);
	require_subsystem(&subsystem);
}
