/*
 * The gate's background worker.
 *
 * It completes reads that are due or have been held for too long, ends I/O on buffers
 * that has been started for too long, and all holds when the server shuts down.
 */
#include "gate/gate.h"

#ifdef __linux__
#include <sys/timerfd.h>
#endif

#include "postmaster/interrupt.h"
#include "storage/waiteventset.h"

/*
 * The kernel wakes us a little late, so we ask to be woken a little early, by
 * what experience says, and spin for the rest.  In nanoseconds.
 */
#define MIN_LEAD 20000
#define MAX_LEAD 150000
static IoTime lead = 60000;

extern PGDLLEXPORT void test_aio_gate_main(Datum arg);

/* Registers the worker, by the file that was preloaded: there may be another copy. */
void
gate_register_worker(void)
{
	BackgroundWorker worker = {
		.bgw_name = "test_aio gate",
		.bgw_type = "test_aio gate",
		.bgw_function_name = "test_aio_gate_main",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = 1,
	};

	strlcpy(worker.bgw_library_name, library_path(), sizeof(worker.bgw_library_name));
	RegisterBackgroundWorker(&worker);
}

/* Returns when there is something to do.  The caller has the lock. */
static IoTime
next_event(void)
{
	PgAioHandle *first = gate_first_due();
	IoTime		next = first != NULL ? gate_io(first)->due : IO_TIME_NEVER;

	foreach_held(io)
	{
		if (!io_is_local(gate_handle(io)))
			next = Min(next, gate_is_released_to(io, BY_WORKER) ? 0 : io->hold_limit);
	}

	return next;
}

/*
 * Completes a read that is due about now.  If there is none, returns false, and "next"
 * is when there will be something to do.
 *
 * It is one read at a time: a file that cannot be read, for example of a network file
 * system, keeps no other read from those that wait for it.
 */
static bool
complete_due(IoTime *next)
{
	/* of the read before: counted now, to take the lock only once */
	static IoTime late = 0;
	static GateIo last;
	PgAioHandle *ioh;
	GateQueue  *queue;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	queue = gate_queue_of(&last);
	if (queue != NULL)
	{
		queue->lateness_sum += late;
		queue->lateness_max = Max(queue->lateness_max, late);
	}
	last.effect.device_filter = 0;

	ioh = gate_first_due();
	if (ioh != NULL && gate_io(ioh)->due > io_now() + lead)
		ioh = NULL;
	if (ioh != NULL)
	{
		gate_count_served(ioh, true);
		last = *gate_io(ioh);
		gate_claim(ioh, gate_io(ioh));
	}
	*next = ioh != NULL ? 0 : next_event();
	/* a process that submits a read that is due earlier wakes us */
	gate->worker_wakes = *next;
	LWLockRelease(gate->lock);

	if (ioh == NULL)
		return false;

	/* a process that waits for the read takes as long to wake up as we do */
	ConditionVariableBroadcast(&ioh->cv);
	gate_complete(ioh, last.due);
	late = last.due > 0 ? io_now() - last.due : 0;

	return true;
}

static void
worker_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->worker = INVALID_PROC_NUMBER;
	LWLockRelease(gate->lock);
}

static void
arm_timer(int timer pg_attribute_unused(), IoTime when pg_attribute_unused())
{
#ifdef __linux__
	struct itimerspec spec = {0};

	if (when != IO_TIME_NEVER)
	{
		/* zero would disarm it */
		when = Max(when, 1);
		spec.it_value.tv_sec = when / NS_PER_S;
		spec.it_value.tv_nsec = when % NS_PER_S;
	}
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL) != 0)
		ereport(ERROR, errcode_for_file_access(),
				errmsg("could not set a timer: %m"));
#endif
}

/* Learns from how late we were woken: up at once, down slowly. */
static void
adjust_lead(IoTime late)
{
	if (late > lead)
		lead = Min(late, MAX_LEAD);
	else
		lead -= (lead - Max(late, MIN_LEAD)) / 32;
}

/*
 * Returns the wait event to show: "completion_wait" in the place of the process that
 * would complete what inj_io_completion_wait() holds.
 */
static uint32
wait_event_to_show(IoTime next)
{
	uint32		wait_event = gate->wait_event_worker;

	LWLockAcquire(gate->lock, LW_SHARED);
	if (next != IO_TIME_NEVER && !pairingheap_is_empty(&gate->due))
		wait_event = gate->wait_event_device;
	foreach_held(io)
	{
		if (io->effect.injected && !io_is_local(gate_handle(io)) && io_method != IOMETHOD_SYNC)
			wait_event = gate->wait_event_completion;
	}
	LWLockRelease(gate->lock);

	return wait_event;
}

/*
 * Sleeps until then, or until woken.  Latches count milliseconds, so there is a
 * timer.
 */
static void
sleep_until(WaitEventSet *set, int timer, IoTime next)
{
	WaitEvent	event;
	IoTime		timed = next == IO_TIME_NEVER ? IO_TIME_NEVER : next - lead;

	arm_timer(timer, timed);
	(void) WaitEventSetWait(set, -1, &event, 1, wait_event_to_show(next));
	if (event.events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	else if (event.events & WL_SOCKET_READABLE)
		adjust_lead(io_now() - timed);
}

/*
 * Closes the gate if the server stops: a smart shutdown tells only when sessions have
 * ended.
 */
static void
look_at_shutdown(IoTime now)
{
	static IoTime last = 0;

	if (gate->closing || (now - last < LOOK_EVERY && !ShutdownRequestPending))
		return;
	last = now;
	if (server_is_stopping())
		gate_close();
}

void
test_aio_gate_main(Datum arg pg_attribute_unused())
{
	WaitEventSet *set;
	int			timer = -1;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	/* to be seen in pg_stat_activity; no database is needed */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	if (gate == NULL)
		proc_exit(0);
	io_acts_as_worker = true;

	/* elsewhere there is no gate */
#ifdef __linux__
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
#endif
	if (timer < 0)
		ereport(ERROR, errcode_for_file_access(),
				errmsg("could not create a timer: %m"));
	set = CreateWaitEventSet(NULL, 3);
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE, timer, NULL, NULL);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->worker = MyProcNumber;
	LWLockRelease(gate->lock);
	before_shmem_exit(worker_ends, 0);

	for (;;)
	{
		IoTime		started_until;
		IoTime		next;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		look_at_shutdown(io_now());
		/* the next worker performs what is left, and sessions that wait */
		if (ShutdownRequestPending && !gate->closing)
			break;

		started_until = buffer_io_end(0, io_now());
		gate_perform_released(io_now());
		if (complete_due(&next))
			continue;
		/* nothing is left */
		if (ShutdownRequestPending && gate->closing)
			break;
		next = Min(next, started_until);
		/* a waiting session may depend on us to see that the server stops */
		if (next != IO_TIME_NEVER)
			next = Min(next, io_now() + LOOK_EVERY);
		sleep_until(set, timer, next);
	}

	/* with anything but 0 there will be another one */
	proc_exit(gate->closing ? 0 : 1);
}
