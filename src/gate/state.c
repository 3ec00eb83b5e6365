/*
 * The gate's shared memory, whether there is a gate, and what all of its parts share.
 */
#include "gate/gate.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include <unistd.h>

GateState  *gate;
bool		gate_sees_synchronous = false;

/* pairingheap_comparator: the read that is due first comes first */
static int
compare_due(const pairingheap_node *a, const pairingheap_node *b,
			void *arg pg_attribute_unused())
{
	IoTime		due_a = pairingheap_const_container(GateIo, due_node, a)->due;
	IoTime		due_b = pairingheap_const_container(GateIo, due_node, b)->due;

	return (due_a < due_b) - (due_a > due_b);
}

static Size
gate_shmem_size(uint32 nhandles)
{
	Size		size = MAXALIGN(sizeof(GateState));

	size = add_size(size, MAXALIGN(mul_size(nhandles, sizeof(GateIo))));
	size = add_size(size, MAXALIGN(mul_size(IO_MAX_PROCESSES, sizeof(PgAioHandle))));
	return add_size(size, MAXALIGN(mul_size(IO_MAX_PROCESSES, sizeof(HeldWakeup))));
}

static void
gate_init_state(uint32 nhandles, LWLock *lock pg_attribute_unused())
{
	char	   *space = (char *) gate + MAXALIGN(sizeof(GateState));

	/* of filters, too: what a filter does is looked up under it */
	gate->lock = &GetNamedLWLockTranche(filters_subsystem.memory)->lock;
	gate->worker = INVALID_PROC_NUMBER;
	/* the server's processes are forked, and have the function there as well */
	gate->due.ph_compare = compare_due;

	/* not where they are needed: registering a name may allocate */
	gate->wait_event_held = WaitEventExtensionNew("IoGateHeld");
	gate->wait_event_device = WaitEventExtensionNew("IoDevice");
	gate->wait_event_worker = WaitEventExtensionNew("IoGateMain");
	gate->wait_event_completion = WaitEventInjectionPointNew("completion_wait");
	gate->wait_event_held_wakeup = WaitEventExtensionNew("IoHeldWakeup");

	gate->nios = nhandles;
	gate->ios = (GateIo *) space;
	space += MAXALIGN(nhandles * sizeof(GateIo));
	dclist_init(&gate->held);
	io_calls = (PgAioHandle *) space;
	space += MAXALIGN(IO_MAX_PROCESSES * sizeof(PgAioHandle));
	for (int i = 0; i < IO_MAX_PROCESSES; i++)
	{
		io_calls[i].owner_procno = i;
		ConditionVariableInit(&io_calls[i].cv);
	}
	gate->wakeups = (HeldWakeup *) space;
}

Subsystem	gate_subsystem = {
	.name = "I/O gate",
	.memory = "test_aio gate",
	.address = (void **) &gate,
	.size_for = gate_shmem_size,
	.set_up = gate_init_state,
	.unavailable = UNAVAILABLE_UNLESS_PRELOADED("there is no I/O gate in this server"),
};

void
gate_wake_worker(void)
{
	ProcNumber	worker = gate != NULL ? gate->worker : INVALID_PROC_NUMBER;

	if (worker != INVALID_PROC_NUMBER)
		SetLatch(&GetPGProcByNumber(worker)->procLatch);
}

/* Wakes the processes that wait for an I/O. */
void
gate_notify(PgAioHandle *ioh)
{
	ConditionVariableBroadcast(&ioh->cv);
#ifdef __linux__
	if (io_is_call(ioh))
	{
		gate_io(ioh)->wakes++;
		(void) syscall(SYS_futex, &gate_io(ioh)->wakes, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
#endif
}

/*
 * Sleeps until gate_notify() has been called for a system call of this process since, or
 * for so long.
 */
void
gate_sleep(GateIo *io pg_attribute_unused(), uint32 wakes pg_attribute_unused(),
		   IoTime length pg_attribute_unused())
{
#ifdef __linux__
	struct timespec timeout = {.tv_sec = length / NS_PER_S,.tv_nsec = length % NS_PER_S};

	(void) syscall(SYS_futex, &io->wakes, FUTEX_WAIT, wakes, &timeout, NULL, 0);
#endif
}

/* Waits until the worker is there; it takes a moment after server start. */
void
gate_require_worker(void)
{
	for (int i = 0; gate->worker == INVALID_PROC_NUMBER; i++)
	{
		if (i == 500)
			ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the background worker of the I/O gate is not running"),
					errhint("\"max_worker_processes\" may be too low."));
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
}

/* Wakeups are no longer held: everybody goes on.  The caller has the lock. */
void
gate_release_wakeups(void)
{
	gate->wakeups_holder = 0;
	for (int i = 0; i < IO_MAX_PROCESSES; i++)
	{
		if (!gate->wakeups[i].held)
			continue;
		gate->wakeups[i].held = false;
		SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}

/*
 * Returns for how long a process that cannot be interrupted waits on account of a
 * filter, or of held wakeups, of that time.  Others queue behind the process, for example
 * for a page that it has locked, and would wait as long one after the other.  So
 * patience is lost once, for all that there is then.  The caller has the lock.
 */
IoTime
gate_patience(const WaitLimits *limits)
{
	return limits->made > gate->patience_lost ? limits->patience : 0;
}

/*
 * Has no process wait any longer that cannot be interrupted, unless patience with a
 * filter of that time has been lost before.  The caller has the lock.
 */
void
gate_lose_patience(IoTime made)
{
	if (made <= gate->patience_lost)
		return;
	gate->patience_lost = io_now();
	for (int i = 0; i < gate->nios; i++)
		if (gate->ios[i].phase == GATE_HELD || gate->ios[i].phase == GATE_QUEUED)
			ConditionVariableBroadcast(&gate_handle(&gate->ios[i])->cv);
	for (int i = 0; i < IO_MAX_PROCESSES; i++)
	{
		gate->wakeups[i].patience_ends = 0;
		if (gate->wakeups[i].held)
			SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}
