/*-------------------------------------------------------------------------
 *
 * gate.c
 *		Start-up of the gate: settings and shared memory.
 *
 * The gate relies on the layout of the AIO subsystem's structures.  When
 * something is not as expected it stays out and says why; the rest of the
 * extension does not need it.
 *
 * src/gate/gate.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "aio/callbacks.h"
#include "aio/method.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#define LWLOCK_TRANCHE "test_aio gate"

GateState  *gate;
bool		reach_synchronous_reads = false;

static bool gate_enabled = true;

/* why there is no gate */
static Obstacle obstacle = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "there is no I/O gate in this server",
};

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static const IoInterceptor interceptor = {
	.decide = gate_decide,
	.has = gate_has,
	.delays = gate_delays,
	.submit = gate_submit,
	.wait = gate_wait,
};

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

	RequestAddinShmemSpace(shmem_size(io_expected_handles()));
	RequestNamedLWLockTranche(LWLOCK_TRANCHE, 1);
}

static void
init_state(uint32 nhandles)
{
	char	   *space = (char *) gate + MAXALIGN(sizeof(GateState));

	memset(gate, 0, shmem_size(nhandles));
	gate->lock = &GetNamedLWLockTranche(LWLOCK_TRANCHE)->lock;
	gate->worker = INVALID_PROC_NUMBER;

	/* not where they are needed: registering a name may allocate */
	gate->wait_event_held = WaitEventExtensionNew("IoGateHeld");
	gate->wait_event_device = WaitEventExtensionNew("IoDevice");
	gate->wait_event_worker = WaitEventExtensionNew("IoGateMain");
	gate->wait_event_completion = WaitEventInjectionPointNew("completion_wait");

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

/*
 * Records why there is no gate, and what mends it.
 */
static void
stay_out(const char *reason, const char *hint)
{
	/* what is allocated here now, other processes lose */
	obstacle.reason = MemoryContextStrdup(TopMemoryContext, reason);
	obstacle.hint = hint;
}

/*
 * Carries out the rules of io_hold() and io_fail(), and those of the inj_
 * functions if injection points do not.  The gate can hold all reads but
 * synchronous ones, and with io_method=sync there are no others.
 */
static void
become_provider(void)
{
	static const Obstacle all_synchronous = {
		.sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED,
		.message = "this server has no injection points, and synchronous reads cannot be held without",
		.hint = "Set \"test_aio.reach_synchronous_reads\", use another \"io_method\", or a server that has been built with --enable-injection-points.",
	};
	static const RuleKind injected[] = {RULE_COMPLETION_WAIT, RULE_SHORT_READ, RULE_REOPEN};

	rules_set_provider(RULE_HOLD, &gate_provider);
	rules_set_provider(RULE_FAIL, &gate_provider);
	for (size_t i = 0; i < lengthof(injected); i++)
	{
		const RuleProvider *provider = rules_provider(injected[i]);

		if (provider != NULL && provider != &gate_provider)
			continue;
		if (io_method == IOMETHOD_SYNC && !reach_synchronous_reads)
			rules_set_obstacle(injected[i], &all_synchronous);
		else
			rules_set_provider(injected[i], &gate_provider);
	}
}

static void
gate_shmem_startup(void)
{
	const char *reason;
	bool		found;
	uint32		nhandles;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	reason = io_handles_obstacle();
	if (reason != NULL)
	{
		gate = NULL;
		stay_out(reason, io_compile_anew_hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O gate stays out: %s", reason)));
		return;
	}

	nhandles = pgaio_ctl->io_handle_count;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	gate = ShmemInitStruct("test_aio gate", shmem_size(nhandles), &found);
	if (!found)
		init_state(nhandles);
	LWLockRelease(AddinShmemInitLock);

	io_set_interceptor(&interceptor);
	become_provider();
}

static void
define_settings(void)
{
	DefineCustomBoolVariable("test_aio.gate",
							 "Lets reads be held, failed and delayed.",
							 "When off, all reads are left to the server's I/O method.",
							 &gate_enabled,
							 true,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("test_aio.reach_synchronous_reads",
							 "Lets synchronous reads be held, failed and delayed, too.",
							 "Changes a table of functions that the server means to be constant.",
							 &reach_synchronous_reads,
							 false,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
}

/*
 * Prepares the gate.  Called when the library is preloaded.
 */
void
gate_init(void)
{
	const char *reason = NULL;
	const char *hint = NULL;

	define_settings();
	rules_set_obstacle(RULE_HOLD, &obstacle);
	rules_set_obstacle(RULE_FAIL, &obstacle);

	if (!gate_enabled)
	{
		stay_out("\"test_aio.gate\" is off",
				 "Set \"test_aio.gate\" to on and restart the server.");
		return;
	}

	reason = io_method_obstacle(&hint);
	if (reason == NULL && reach_synchronous_reads)
	{
		reason = io_on_stage(gate_capture_synchronous);
		hint = "Set \"test_aio.reach_synchronous_reads\" to off and restart the server.";
	}
	if (reason != NULL)
	{
		stay_out(reason, hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O gate stays out: %s", reason)));
		return;
	}

	/* unless the hook below is called, which is up to other libraries */
	stay_out("its shared memory was not set up",
			 "Does another library in \"shared_preload_libraries\" not call the previous shmem_startup_hook?");
	gate_register_worker();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = gate_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = gate_shmem_startup;
}

/*
 * Returns why there is no gate, if there is none.
 */
const Obstacle *
gate_obstacle(void)
{
	if (obstacle.reason == NULL)
	{
		obstacle.reason = not_preloaded.reason;
		obstacle.hint = not_preloaded.hint;
	}
	return &obstacle;
}

static void
require_gate_present(void)
{
	if (gate == NULL)
		raise_obstacle(gate_obstacle());
}

/*
 * Raises an error unless there is a gate, and the caller may change what it
 * does.
 */
void
require_gate(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);
	require_gate_present();
}

/*
 * Raises an error unless there is a gate, and the caller may look at what it
 * does.
 */
void
require_gate_to_look(FunctionCallInfo fcinfo)
{
	require_monitor(fcinfo);
	require_gate_present();
}
