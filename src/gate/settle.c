/*
 * Waiting until all is quiet, and who then waits for what.
 *
 * All is quiet when every process of a list is idle or waits for something that
 * comes only if somebody does something: a held read, a held wakeup, another
 * session's lock, pin or staged read, or a wake-up that the server has forgotten.
 *
 * What a process waits for is looked up where that is decided (condition
 * variables, lock queues), because the wait event that it shows lags behind.  A wait
 * for a lightweight lock, a buffer or a submission may end by itself, and nothing in
 * shared memory tells whether it does.  It is believed when the kernel has run no process of the
 * server between two looks, and all of them sleep: then nobody is about to end it.
 */
#include "gate/gate.h"

#include "aio/perform.h"
#include "aio/waiters.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/proclist.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(io_settle);

/* how long to sleep between two looks: briefly at first */
#define SHORT_NAP_US 20
#define LONG_NAP_US 1000
#define SHORT_NAPS 200

#define MAX_SETTLE_PROCESSES 1000

typedef enum ProcessState
{
	PROCESS_RUNNING,
	PROCESS_IDLE,				/* between two statements */
	PROCESS_GONE,
	PROCESS_HELD,				/* waits for a held read */
	PROCESS_HELD_WAKEUP,		/* waits for io_wake() */
	PROCESS_UNSUBMITTED,		/* waits for a read that is not yet submitted */
	PROCESS_SUBMISSION,			/* the same, but nothing tells for which read */
	PROCESS_COMPLETED,			/* waits for a read that is complete */
	PROCESS_LOCK,				/* waits for a heavyweight lock */
	PROCESS_LWLOCK,
	PROCESS_BUFFER,				/* waits for a pin, content lock or I/O of a
								 * buffer */
} ProcessState;

static const char *const process_state_names[] = {
	[PROCESS_RUNNING] = "running",
	[PROCESS_IDLE] = "idle",
	[PROCESS_GONE] = "gone",
	[PROCESS_HELD] = "held read",
	[PROCESS_HELD_WAKEUP] = "held wakeup",
	[PROCESS_UNSUBMITTED] = "unsubmitted read",
	[PROCESS_SUBMISSION] = "unsubmitted read",
	[PROCESS_COMPLETED] = "completed read",
	[PROCESS_LOCK] = "lock",
	[PROCESS_LWLOCK] = "lwlock",
	[PROCESS_BUFFER] = "buffer",
};

/* One process of the list, as it was seen last. */
typedef struct Watched
{
	int			pid;
	ProcessState state;
	int			io;				/* handle that it waits for, or -1 */
	uint32		wait_event;
} Watched;

/*
 * Returns how often the kernel has switched to or from a process, or -1 unless the
 * process sleeps.
 */
static int64
switches_of_sleeper(int pid)
{
	char		path[64];
	char		line[256];
	FILE	   *file;
	char		state = '\0';
	int64		switches = 0;
	int			found = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		long long	count;

		if (sscanf(line, "State: %c", &state) == 1)
			continue;
		if (sscanf(line, "voluntary_ctxt_switches: %lld", &count) == 1 ||
			sscanf(line, "nonvoluntary_ctxt_switches: %lld", &count) == 1)
		{
			switches += count;
			found++;
		}
	}
	FreeFile(file);

	return state == 'S' && found == 2 ? switches : -1;
}

/*
 * Returns how often the kernel has switched to or from the server's processes, or
 * -1 unless all but this one sleep.  Whoever is woken no longer sleeps, even if it
 * has not run yet.  Whoever has found a spinlock taken sleeps for a moment only.
 */
static int64
switches_of_sleepers(void)
{
	int64		sum = 0;

	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);
		int			pid = *(volatile int *) &proc->pid;
		int64		switches;

		if (pid == 0 || pid == MyProcPid)
			continue;
		if (*(volatile uint32 *) &proc->wait_event_info == WAIT_EVENT_SPIN_DELAY)
			return -1;
		switches = switches_of_sleeper(pid);
		if (switches < 0)
			return -1;
		sum += switches;
	}

	return sum;
}

/*
 * Returns whether a wait in this state may end without anybody doing something.
 */
static bool
may_end_by_itself(ProcessState state)
{
	return state == PROCESS_SUBMISSION || state == PROCESS_COMPLETED ||
		state == PROCESS_LWLOCK || state == PROCESS_BUFFER;
}

/*
 * Returns whether a process says that it is between two statements.
 */
static bool
is_idle(ProcNumber procno, int pid)
{
	/* the server's own array, without the copy that a statement sees */
	volatile PgBackendStatus *status = MyBEEntry - MyProcNumber + procno;

	for (;;)
	{
		int			before;
		int			after;
		bool		idle;

		pgstat_begin_read_activity(status, before);
		idle = status->st_procpid == pid &&
			(status->st_state == STATE_IDLE ||
			 status->st_state == STATE_IDLEINTRANSACTION ||
			 status->st_state == STATE_IDLEINTRANSACTION_ABORTED);
		pgstat_end_read_activity(status, after);
		if (pgstat_read_activity_complete(before, after))
			return idle;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Finds the handle on whose condition variable a process sleeps.  Returns -1 if it
 * is none.
 */
static int
handle_waited_for(ProcNumber procno)
{
	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];

		if (!proclist_is_empty(&ioh->cv.wakeup) && io_is_waiter(ioh, procno))
			return i;
	}

	return -1;
}

/*
 * Returns what a process does that is in the line of a handle's condition variable.
 * It gets in line before it looks whether the read is held, and shows a wait event
 * once it has: a process that does not show one yet would miss a release, and not
 * have their wakeups held.
 */
static ProcessState
look_at_sleeper(int io, uint32 wait_event)
{
	if (gate->ios[io].phase == GATE_HELD &&
		gate->ios[io].generation == pgaio_ctl->io_handles[io].generation &&
		!gate->ios[io].released)
		return wait_event == gate->wait_event_held ||
			wait_event == gate->wait_event_completion ||
			wait_event == WAIT_EVENT_AIO_IO_COMPLETION ? PROCESS_HELD : PROCESS_RUNNING;

	switch ((PgAioHandleState) pgaio_ctl->io_handles[io].state)
	{
		case PGAIO_HS_DEFINED:
		case PGAIO_HS_STAGED:
			return PROCESS_UNSUBMITTED;
		case PGAIO_HS_COMPLETED_SHARED:
		case PGAIO_HS_COMPLETED_LOCAL:
			/* it has been woken, or the server has forgotten it */
			return PROCESS_COMPLETED;
		default:
			/* in hand: it goes on by itself */
			return PROCESS_RUNNING;
	}
}

/*
 * Returns what a process does now, and the handle and the wait event of its wait.
 */
static ProcessState
look_at_process(int pid, int *io, uint32 *wait_event)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	ProcNumber	procno;
	bool		wakeup_is_held;

	*io = -1;
	*wait_event = 0;
	if (proc == NULL)
		proc = AuxiliaryPidGetProc(pid);
	if (proc == NULL)
		return PROCESS_GONE;
	procno = GetNumberFromPGProc(proc);
	*wait_event = *(volatile uint32 *) &proc->wait_event_info;

	LWLockAcquire(gate->lock, LW_SHARED);
	wakeup_is_held = gate_wakeup_is_held(procno);
	if (wakeup_is_held)
		*io = gate->wakeups[procno].io;
	LWLockRelease(gate->lock);

	if (wakeup_is_held)
		return PROCESS_HELD_WAKEUP;
	if (is_idle(procno, pid))
		return PROCESS_IDLE;
	if (proc->waitStatus == PROC_WAIT_STATUS_WAITING)
		return PROCESS_LOCK;
	if (proc->cvWaitLink.next != 0 || proc->cvWaitLink.prev != 0)
	{
		*io = handle_waited_for(procno);
		if (*io >= 0)
			return look_at_sleeper(*io, *wait_event);
	}
	if (proc->lwWaiting == LW_WS_WAITING)
		return PROCESS_LWLOCK;
	if (*wait_event == WAIT_EVENT_BUFFER_IO ||
		(*wait_event & WAIT_EVENT_CLASS_BITS) == WAIT_CLASS_BUFFER)
		return PROCESS_BUFFER;
	if (io_awaits_submission(*wait_event))
		return PROCESS_SUBMISSION;
	/* the startup process of a standby that has replayed all that there is */
	if (*wait_event == WAIT_EVENT_RECOVERY_WAL_STREAM)
		return PROCESS_IDLE;

	return PROCESS_RUNNING;
}

/*
 * Looks at all processes.  Returns whether all are quiet, and have been at the last
 * look: one may have woken another that had been looked at before it.  "switches" is
 * what switches_of_sleepers() has returned at the last look, or -1.
 */
static bool
look_at_all(Watched *processes, int n, int64 *switches)
{
	bool		quiet = true;
	bool		is_certain = true;
	int64		switches_before = *switches;

	for (int i = 0; i < n; i++)
	{
		Watched    *process = &processes[i];
		int			io;
		uint32		wait_event;
		ProcessState state = look_at_process(process->pid, &io, &wait_event);

		if (state != process->state || io != process->io)
		{
			process->state = state;
			process->io = io;
			quiet = false;
		}
		process->wait_event = wait_event;
		if (state == PROCESS_RUNNING)
			quiet = false;
		if (may_end_by_itself(state))
			is_certain = false;
	}

	*switches = is_certain ? -1 : switches_of_sleepers();
	if (is_certain)
		return quiet;
	return quiet && *switches >= 0 && *switches == switches_before;
}

/*
 * Waits until all is quiet or the time is up.
 */
static void
settle(Watched *processes, int n, IoTime deadline)
{
	int64		switches = -1;

	for (int naps = 0; !look_at_all(processes, n, &switches); naps++)
	{
		if (io_now() >= deadline)
		{
			for (int i = 0; i < n; i++)
			{
				if (may_end_by_itself(processes[i].state))
					processes[i].state = PROCESS_RUNNING;
			}
			return;
		}
		CHECK_FOR_INTERRUPTS();
		pg_usleep(naps < SHORT_NAPS ? SHORT_NAP_US : LONG_NAP_US);
	}
}

static void
put_process(FunctionCallInfo fcinfo, const Watched *process)
{
	Row			row = {0};

	row_add_text(&row, "process");
	row_add(&row, Int32GetDatum(process->pid));
	row_add_text(&row, process_state_names[process->state]);
	row_add_text(&row, pgstat_get_wait_event(process->wait_event));
	row_add_if(&row, process->io >= 0, Int32GetDatum(process->io));
	/* what only a handle has */
	row_add_nulls(&row, 6);
	row_put(fcinfo, &row);
}

static void
put_handle(FunctionCallInfo fcinfo, HandleCopy *copy)
{
	const PgAioTargetData *target = &copy->handle.target_data;
	Row			row = {0};

	row_add_text(&row, "handle");
	row_add(&row, Int32GetDatum(copy->pid));
	row_add_text(&row, pgaio_io_get_state_name(&copy->handle));
	row_add_nulls(&row, 1);
	row_add(&row, Int32GetDatum(copy->io_id));
	row_add(&row, BoolGetDatum(copy->held));
	if (copy->handle.state != PGAIO_HS_HANDED_OUT && io_is_read(&copy->handle))
	{
		row_add(&row, ObjectIdGetDatum(target->smgr.rlocator.relNumber));
		row_add_text(&row, forkNames[target->smgr.forkNum]);
		row_add(&row, Int64GetDatum(target->smgr.blockNum));
		row_add(&row, Int32GetDatum(target->smgr.nblocks));
	}
	else
		row_add_nulls(&row, 4);
	row_add(&row, gate_waiters_of(copy));
	row_put(fcinfo, &row);
}

/*
 * Takes the list of processes out of the first argument.
 */
static Watched *
get_processes(FunctionCallInfo fcinfo, int *n)
{
	ArrayType  *array;
	Datum	   *elements;
	bool	   *nulls;
	Watched    *processes;

	check_not_null("processes", PG_ARGISNULL(0));
	array = PG_GETARG_ARRAYTYPE_P(0);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("processes must be a one-dimensional array")));
	deconstruct_array_builtin(array, INT4OID, &elements, &nulls, n);
	if (*n > MAX_SETTLE_PROCESSES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must not be more than %d processes", MAX_SETTLE_PROCESSES)));

	processes = palloc0_array(Watched, Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("processes must not contain nulls")));
		processes[i].pid = DatumGetInt32(elements[i]);
		processes[i].io = -1;
		if (processes[i].pid == MyProcPid)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("this session cannot wait until it is quiet itself")));
	}

	return processes;
}

static int
get_timeout(FunctionCallInfo fcinfo, int arg)
{
	int			timeout;

	check_not_null("timeout", PG_ARGISNULL(arg));
	timeout = PG_GETARG_INT32(arg);
	if (timeout < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return timeout;
}

/*
 * Releases a held read as io_release() does, unless pid is NULL; waits until all these
 * processes are quiet, at most for "timeout" milliseconds; and returns a row for
 * each process and a row for each AIO handle that they have in use.  A process that is not
 * quiet by then has the state "running".
 */
Datum
io_settle(PG_FUNCTION_ARGS)
{
	int			nprocesses;
	int			timeout;
	int			nhandles;
	int		   *pids;
	Watched    *processes;
	HandleCopy *copies;

	require_gate(fcinfo);
	processes = get_processes(fcinfo, &nprocesses);
	timeout = get_timeout(fcinfo, 4);
	InitMaterializedSRF(fcinfo, 0);

	if (!PG_ARGISNULL(1) || !PG_ARGISNULL(2) || !PG_ARGISNULL(3))
		(void) gate_release_one(fcinfo, 1);

	settle(processes, nprocesses, io_now() + timeout * NS_PER_MS);

	pids = palloc_array(int, Max(nprocesses, 1));
	for (int i = 0; i < nprocesses; i++)
	{
		pids[i] = processes[i].pid;
		put_process(fcinfo, &processes[i]);
	}
	nhandles = gate_copy_handles(pids, nprocesses, &copies);
	for (int i = 0; i < nhandles; i++)
		put_handle(fcinfo, &copies[i]);

	return (Datum) 0;
}
