/*-------------------------------------------------------------------------
 *
 * trace.c
 *		Start-up of the trace: settings and shared memory.
 *
 * src/trace/trace.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define MAX_TRACE_SIZE 10000000
#define LWLOCK_TRANCHE "test_aio trace"

/* why there is no trace */
static Obstacle obstacle = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "there is no I/O trace in this server",
};

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static const IoListener listener = {
	.staged = trace_staged,
	.submitting = trace_submitting,
	.submitted = trace_submitted,
	.wait_begins = trace_wait_begins,
	.wait_ends = trace_wait_ends,
	.check_begins = trace_check_begins,
	.check_ends = trace_check_ends,
	.completing = trace_completing,
	.completed = trace_completed,
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
	DefineCustomBoolVariable("test_aio.trace_completions",
							 "Makes the completion times of the I/O trace exact, and records synchronous reads.",
							 "This changes tables of functions that the server means to be constant.",
							 &trace_completions,
							 false,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
}

static void
trace_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(trace_shmem_size(io_expected_handles()));
	RequestNamedLWLockTranche(LWLOCK_TRANCHE, 1);
}

/*
 * Records why there is no trace, and what mends it.
 */
static void
stay_out(const char *reason, const char *hint)
{
	/* what is allocated here now, other processes lose */
	obstacle.reason = MemoryContextStrdup(TopMemoryContext, reason);
	obstacle.hint = hint;
}

static void
trace_shmem_startup(void)
{
	const char *reason;
	uint32		nhandles;
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	if (!shmem_requested)
		return;

	reason = io_handles_obstacle();
	if (reason != NULL)
	{
		trace = NULL;
		stay_out(reason, io_compile_anew_hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O trace stays out: %s", reason)));
		return;
	}

	nhandles = pgaio_ctl->io_handle_count;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	trace = ShmemInitStruct("test_aio trace", trace_shmem_size(nhandles), &found);
	if (!found)
		trace_init_ring(nhandles, &GetNamedLWLockTranche(LWLOCK_TRANCHE)->lock);
	LWLockRelease(AddinShmemInitLock);

	io_set_listener(&listener);
}

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
		stay_out("\"test_aio.trace_size\" is 0",
				 "Set \"test_aio.trace_size\" to the number of reads that the trace is to have room for, and restart the server.");
		return;
	}

	reason = io_method_obstacle(&hint);
	if (reason == NULL && trace_completions)
	{
		reason = trace_see_completions();
		hint = "Set \"test_aio.trace_completions\" to off and restart the server.";
	}
	if (reason != NULL)
	{
		stay_out(reason, hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O trace stays out: %s", reason)));
		return;
	}

	/* unless the hook below is called */
	stay_out(not_set_up.reason, not_set_up.hint);
	trace_notice_init();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = trace_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = trace_shmem_startup;
}

/*
 * Returns why there is no trace, if there is none.
 */
static const Obstacle *
trace_obstacle(void)
{
	if (obstacle.reason == NULL)
	{
		obstacle.reason = not_preloaded.reason;
		obstacle.hint = not_preloaded.hint;
	}
	return &obstacle;
}

static void
require_trace_present(void)
{
	if (trace == NULL)
		raise_obstacle(trace_obstacle());
}

/*
 * Raises an error unless there can be a trace, and the caller may start and
 * stop it.
 */
void
require_trace(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);
	require_trace_present();
}

/*
 * Raises an error unless there can be a trace, and the caller may look at it.
 */
void
require_trace_to_look(FunctionCallInfo fcinfo)
{
	require_monitor(fcinfo);
	require_trace_present();
}
