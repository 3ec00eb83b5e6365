/*-------------------------------------------------------------------------
 *
 * gate.c
 *		Start-up of the gate: settings, shared memory, and the question
 *		whether this is a server that it knows.
 *
 * The gate relies on the layout of the AIO subsystem's structures, which no
 * server version promises to keep.  So it looks before it puts itself in, and
 * when something is not as expected it stays out and says why; the rest of the
 * extension does not need it.
 *
 * src/gate/gate.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include <dlfcn.h>
#include <link.h>
#include <time.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "trace/trace.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* more than io_max_concurrency chooses by itself, which comes too late */
#define GUESSED_CONCURRENCY 64

#define LWLOCK_TRANCHE "test_aio gate"

GateState  *gate;
const IoMethodOps *server_ops;

bool		gate_enabled = true;
int			longest_hold = 60000;
bool		reach_synchronous_reads = false;

/* why there is no gate */
const char *gate_why_off = "test_aio was not preloaded";

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

GateTime
gate_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);

	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static uint32
max_handles(void)
{
	return (MaxBackends + NUM_AUXILIARY_PROCS) *
		(io_max_concurrency > 0 ? io_max_concurrency : GUESSED_CONCURRENCY);
}

static Size
shmem_size(uint32 nhandles)
{
	Size		size = MAXALIGN(sizeof(GateState));

	size = add_size(size, MAXALIGN(mul_size(nhandles, sizeof(GateIo))));
	size = add_size(size, MAXALIGN(mul_size(nhandles, sizeof(uint32))));
	/* a read that a waiter performs itself leaves its entry for a while */
	size = add_size(size, mul_size(nhandles, 2 * sizeof(GateDue)));

	return size;
}

static void
gate_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(add_size(shmem_size(max_handles()),
									trace_shmem_size(max_handles())));
	RequestNamedLWLockTranche(LWLOCK_TRANCHE, 1);
}

/*
 * Are the handles where the structures that we have been compiled with say?
 * Returns what is wrong with them, or NULL.
 */
static const char *
check_handles(void)
{
	uint32		nprocs = MaxBackends + NUM_AUXILIARY_PROCS;

	if (pgaio_ctl == NULL || pgaio_ctl->io_handles == NULL)
		return "the server has no AIO handles";
	if (pgaio_ctl->io_handle_count != nprocs * io_max_concurrency ||
		pgaio_ctl->io_handle_count > max_handles())
		return "the server has another number of AIO handles than it should have";

	for (uint32 i = 0; i < pgaio_ctl->io_handle_count; i++)
	{
		const PgAioHandle *ioh = &pgaio_ctl->io_handles[i];

		if (ioh->state != PGAIO_HS_IDLE || ioh->flags != 0 ||
			ioh->generation != 1 ||
			ioh->owner_procno != (int32) (i / io_max_concurrency) ||
			ioh->iovec_off != i * io_max_combine_limit ||
			ioh->report_return != NULL)
			return "the server's AIO handles have another layout than those this library was compiled for";
	}

	for (uint32 i = 0; i < nprocs; i++)
	{
		PgAioBackend *backend = &pgaio_ctl->backend_state[i];
		dlist_node *in_flight = &backend->in_flight_ios.dlist.head;

		/* an empty list points at itself, so it is where we think it is */
		if (backend->io_handle_off != i * io_max_concurrency ||
			dclist_count(&backend->idle_ios) != (uint32) io_max_concurrency ||
			in_flight->next != in_flight || in_flight->prev != in_flight)
			return "the server's AIO state of its processes has another layout than that this library was compiled for";
	}

	return NULL;
}

static void
gate_shmem_startup(void)
{
	const char *obstacle;
	bool		found;
	char	   *space;
	uint32		nhandles;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	obstacle = check_handles();
	if (obstacle != NULL)
	{
		/* what has been put in must go out again */
		pgaio_method_ops = server_ops;
		gate_why_off = obstacle;
		gate = NULL;
		ereport(LOG,
				(errmsg("test_aio: the I/O gate stays out: %s", obstacle)));
		return;
	}

	nhandles = pgaio_ctl->io_handle_count;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	gate = ShmemInitStruct("test_aio gate", shmem_size(nhandles), &found);
	if (!found)
	{
		memset(gate, 0, shmem_size(nhandles));
		gate->lock = &GetNamedLWLockTranche(LWLOCK_TRANCHE)->lock;
		gate->worker = INVALID_PROC_NUMBER;
		gate->next_rule = 1;

		/* not where they are needed: registering a name may allocate */
		gate->wait_event_held = WaitEventExtensionNew("IoGateHeld");
		gate->wait_event_device = WaitEventExtensionNew("IoDevice");
		gate->wait_event_worker = WaitEventExtensionNew("IoGateMain");
		gate->wait_event_completion = WaitEventInjectionPointNew("completion_wait");

		space = (char *) gate + MAXALIGN(sizeof(GateState));
		gate->nios = nhandles;
		gate->ios = (GateIo *) space;
		space += MAXALIGN(nhandles * sizeof(GateIo));
		gate->held = (uint32 *) space;
		space += MAXALIGN(nhandles * sizeof(uint32));
		gate->due = (GateDue *) space;
		gate->max_due = 2 * nhandles;

		for (uint32 i = 0; i < nhandles; i++)
			gate->ios[i].stopped = INVALID_PROC_NUMBER;
	}
	trace_shmem_startup(nhandles);
	LWLockRelease(AddinShmemInitLock);

	gate_why_off = NULL;
}

/*
 * The table of functions that belongs to the server's io_method, or NULL.
 */
static const IoMethodOps *
expected_ops(void)
{
	switch (io_method)
	{
		case IOMETHOD_SYNC:
			return &pgaio_sync_ops;
		case IOMETHOD_WORKER:
			return &pgaio_worker_ops;
#ifdef IOMETHOD_IO_URING_ENABLED
		case IOMETHOD_IO_URING:
			return &pgaio_uring_ops;
#endif
		default:
			return NULL;
	}
}

/*
 * Does this function belong to the server's program?
 */
static bool
is_servers_function(void *function)
{
	Dl_info		info;
	Dl_info		server;

	return dladdr(function, &info) != 0 &&
		dladdr((void *) &pgaio_ctl, &server) != 0 &&
		info.dli_fbase == server.dli_fbase;
}

/*
 * Is a variable of the server's as large as its declaration says?
 */
static bool
has_size(const void *variable, size_t size)
{
	Dl_info		info;
	const ElfW(Sym) *symbol = NULL;

	return dladdr1(variable, &info, (void **) &symbol, RTLD_DL_SYMENT) != 0 &&
		symbol != NULL && symbol->st_size == size;
}

/*
 * Returns why the gate cannot be put into this server, or NULL.
 */
static const char *
check_server(void)
{
	const char *version = GetConfigOption("server_version_num", false, false);

	if (!GATE_KNOWS_SERVER)
		return psprintf("this server's version, %s, is not one that it knows", version);
	if (pgaio_method_ops == NULL || pgaio_method_ops != expected_ops())
		return "the server's I/O method is not one of its own";
	if (!has_size(pgaio_method_ops, sizeof(IoMethodOps)) ||
		!has_size(&aio_shared_buffer_readv_cb, sizeof(PgAioHandleCallbacks)) ||
		!is_servers_function((void *) pgaio_method_ops->submit) ||
		(pgaio_method_ops->wait_one != NULL &&
		 !is_servers_function((void *) pgaio_method_ops->wait_one)) ||
		(pgaio_method_ops->needs_synchronous_execution != NULL &&
		 !is_servers_function((void *) pgaio_method_ops->needs_synchronous_execution)))
		return "the server's I/O methods or callbacks have another layout than those it was compiled for";

	return NULL;
}

static void
define_settings(void)
{
	DefineCustomBoolVariable("test_aio.gate",
							 "Lets reads be held, failed and delayed.",
							 "When off, the server's I/O method is left alone.",
							 &gate_enabled,
							 true,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("test_aio.longest_hold",
							"Longest time for which a read is held.",
							"After it the read is performed and a warning logged.  What counts is the value when the hold is asked for.",
							&longest_hold,
							60000,
							1,
							INT_MAX,
							PGC_SUSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("test_aio.reach_synchronous_reads",
							 "Lets synchronous reads be held, failed and delayed, too.",
							 "Changes a table of functions that the server means to be constant.",
							 &reach_synchronous_reads,
							 false,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
	trace_define_settings();
	MarkGUCPrefixReserved("test_aio");
}

/*
 * Called when the library is preloaded.
 */
void
gate_init(void)
{
	const char *obstacle;

	define_settings();

	if (!gate_enabled)
	{
		gate_why_off = "\"test_aio.gate\" is off";
		return;
	}

	obstacle = check_server();
	if (obstacle == NULL && reach_synchronous_reads)
		obstacle = gate_reach_synchronous_reads();
	if (obstacle == NULL && trace_completions && trace_size > 0)
		obstacle = trace_see_completions();
	if (obstacle != NULL)
	{
		/* what is allocated here now, other processes lose */
		gate_why_off = MemoryContextStrdup(TopMemoryContext, obstacle);
		ereport(LOG,
				(errmsg("test_aio: the I/O gate stays out: %s", obstacle)));
		return;
	}

	gate_install();
	trace_notice_init();
	gate_register_worker();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = gate_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = gate_shmem_startup;
}

/*
 * Raises an error unless there is a gate.
 */
void
require_gate(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);

	if (gate == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no I/O gate in this server"),
				 errdetail("The reason is that %s.", gate_why_off),
				 errhint("Add test_aio to \"shared_preload_libraries\", leave \"test_aio.gate\" on, and restart the server.")));
}
