/*
 * The gate's background worker.
 *
 * It completes the reads that a simulated device has in hand when they are
 * due, performs those that have been held for too long, and ends all holds
 * when the server shuts down.  With io_method=worker it also stands for the I/O
 * workers that inj_io_completion_wait() would stop, by the wait event that it
 * shows.
 */
#include "gate/gate.h"

#ifdef __linux__
#include <sys/timerfd.h>
#endif
#include <unistd.h>

#include "aio/perform.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/waiteventset.h"
#include "utils/guc.h"

/* reads taken at once */
#define BATCH_SIZE 32

/* how often to look whether the server shuts down while sessions wait */
#define LOOK_EVERY NS_PER_S

/*
 * The kernel wakes us a little late, so we ask to be woken a little early, by
 * what experience says, and spin for the rest.  In nanoseconds.
 */
#define MIN_LEAD 20000
#define MAX_LEAD 150000
static IoTime lead = 60000;

extern PGDLLEXPORT void test_aio_gate_main(Datum arg);

/*
 * Registers the worker.  Its library is named as the file that was preloaded:
 * by its plain name the server might find another copy.
 */
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

static bool
end_overdue_hold(IoTime now)
{
	PgAioHandle *ioh = NULL;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gate->nheld; i++)
	{
		GateIo	   *io = &gate->ios[gate->held[i]];
		PgAioHandle *candidate = &pgaio_ctl->io_handles[gate->held[i]];

		/* a read into local memory its owner ends itself */
		if (io->hold_limit > now || gate_is_local(candidate))
			continue;
		ioh = candidate;
		io->hold_expired = true;
		gate_take(ioh, io);
		break;
	}
	LWLockRelease(gate->lock);

	if (ioh == NULL)
		return false;
	gate_complete(ioh, 0);
	return true;
}

/*
 * Returns when there is something to do.  The caller has the lock.
 */
static IoTime
next_event(void)
{
	IoTime		next = IO_TIME_NEVER;

	(void) gate_next_due(&next);
	for (int i = 0; i < gate->nheld; i++)
	{
		if (!gate_is_local(&pgaio_ctl->io_handles[gate->held[i]]))
			next = Min(next, gate->ios[gate->held[i]].hold_limit);
	}

	return next;
}

/*
 * Completes what is due about now.  Returns how many reads that were.  When
 * there are none, "next" is when there will be something to do.
 */
static int
complete_due(IoTime *next)
{
	static int	device[BATCH_SIZE];
	static IoTime late[BATCH_SIZE];
	static int	nlate = 0;
	PgAioHandle *ios[BATCH_SIZE];
	IoTime		until = io_now() + lead;
	int			n = 0;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);

	/* the lateness of the last batch: counted now, to take the lock only once */
	for (int i = 0; i < nlate; i++)
	{
		if (device[i] < 0)
			continue;
		gate->devices[device[i]].lateness_sum += late[i];
		gate->devices[device[i]].lateness_max = Max(gate->devices[device[i]].lateness_max, late[i]);
	}

	while (n < BATCH_SIZE && (ios[n] = gate_first_due(until)) != NULL)
	{
		gate_take(ios[n], gate_io(ios[n]));
		gate_count_served(ios[n++], true);
	}
	*next = n > 0 ? 0 : next_event();
	/* a process that submits a read that is due earlier wakes us */
	gate->worker_wakes = *next;
	LWLockRelease(gate->lock);

	/* a process that waits for a lone read takes as long to wake up as we do */
	if (n == 1)
		ConditionVariableBroadcast(&ios[0]->cv);

	for (int i = 0; i < n; i++)
	{
		/* afterwards the handle may be in use for another read */
		IoTime		due = gate_io(ios[i])->due;

		device[i] = gate_io(ios[i])->device;
		gate_complete(ios[i], due);
		late[i] = due > 0 ? io_now() - due : 0;
	}
	nlate = n;

	return n;
}

static void
worker_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->worker = INVALID_PROC_NUMBER;
	gate->worker_pid = 0;
	LWLockRelease(gate->lock);
}

/*
 * A timer that counts nanoseconds.  Other systems than Linux have none, and no
 * gate either: see io_method_unavailable().
 */
static int
make_timer(void)
{
#ifdef __linux__
	return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
#else
	errno = ENOSYS;
	return -1;
#endif
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
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not set a timer: %m")));
#endif
}

/*
 * Learns from how late we were woken: up at once, down slowly.
 */
static void
adjust_lead(IoTime late)
{
	if (late > lead)
		lead = Min(late, MAX_LEAD);
	else
		lead -= (lead - Max(late, MIN_LEAD)) / 32;
}

/*
 * Sleeps until then, or until woken.  The timeouts of latches count
 * milliseconds, so there is a timer of our own.
 */
static void
sleep_until(WaitEventSet *set, int timer, IoTime next)
{
	WaitEvent	event;
	uint32		wait_event = gate->wait_event_worker;
	IoTime		timed = next == IO_TIME_NEVER ? IO_TIME_NEVER : next - lead;

	if (gate->nstopped > 0 && io_method == IOMETHOD_WORKER)
		wait_event = gate->wait_event_completion;
	else if (next != IO_TIME_NEVER && !pairingheap_is_empty(&gate->due))
		wait_event = gate->wait_event_device;

	arm_timer(timer, timed);
	(void) WaitEventSetWait(set, -1, &event, 1, wait_event);
	if (event.events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	else if (event.events & WL_SOCKET_READABLE)
		adjust_lead(io_now() - timed);
}

/*
 * Closes the gate if the server shuts down.  The worker is not told so until all
 * sessions have ended, in a smart shutdown; so it looks now and then as long as a
 * session may wait for it.
 */
static void
look_at_shutdown(IoTime now)
{
	static IoTime last = 0;

	if (gate->closing || (now - last < LOOK_EVERY && !ShutdownRequestPending))
		return;
	last = now;
	if (server_is_stopping())
	{
		gate_close();
		gate_release_all();
	}
}

/*
 * Returns whether the worker may end.  When the server shuts down, it first
 * performs what is left; else the next worker does, and sessions that wait.
 */
static bool
may_end(void)
{
	bool		left;

	if (!gate->closing)
		return true;

	LWLockAcquire(gate->lock, LW_SHARED);
	left = !pairingheap_is_empty(&gate->due);
	LWLockRelease(gate->lock);

	return !left;
}

void
test_aio_gate_main(Datum arg pg_attribute_unused())
{
	WaitEventSet *set;
	int			timer;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	/* to be seen in pg_stat_activity; no database is needed */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	if (gate == NULL)
		proc_exit(0);
	io_acts_as_worker = true;

	timer = make_timer();
	if (timer < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create a timer: %m")));
	set = CreateWaitEventSet(NULL, 3);
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE, timer, NULL, NULL);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->worker = MyProcNumber;
	gate->worker_pid = MyProcPid;
	LWLockRelease(gate->lock);
	before_shmem_exit(worker_ends, 0);

	for (;;)
	{
		IoTime		next;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		look_at_shutdown(io_now());
		if (ShutdownRequestPending && may_end())
			break;

		while (end_overdue_hold(io_now()))
			;
		if (complete_due(&next) == 0)
		{
			/* a waiting session may depend on us to see that the server stops */
			if (next != IO_TIME_NEVER)
				next = Min(next, io_now() + LOOK_EVERY);
			sleep_until(set, timer, next);
		}
	}

	/* with anything but 0 there will be another one */
	proc_exit(gate->closing ? 0 : 1);
}
