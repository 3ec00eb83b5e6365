/*-------------------------------------------------------------------------
 *
 * ops.c
 *		The gate's table of I/O method functions, in the place of the server's.
 *
 * A read is captured in two steps, because the server asks twice: when it
 * stages the read (must this be executed synchronously?) and when it submits
 * what is staged, in a critical section.  What to do is decided in the first
 * and written down, the second obeys.
 *
 * src/gate/ops.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "faults.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "trace/trace.h"

static IoMethodOps gate_ops;

/* reads of this process that are decided upon and not yet submitted */
static int	ndecided;

/* What a process that waits for a captured read is to do next. */
typedef enum WaitAction
{
	WAIT_SLEEP,
	WAIT_SPIN,					/* it is completed in a moment */
	WAIT_PERFORM,				/* it has taken the read */
} WaitAction;

/* To spin longer than that for a read that is late is not worth it. */
#define SPIN_AFTER_DUE 30000

/*
 * Are the reads of this process to be captured at all?  Those of processes
 * that cannot be interrupted while they wait, or on which all others depend,
 * are not; nor are those of a process that is about to exit.
 */
static bool
capturing_is_safe(void)
{
	if (!IsUnderPostmaster || proc_exit_inprogress || CritSectionCount > 0 ||
		gate->worker_pid == MyProcPid)
		return false;

	switch (MyBackendType)
	{
		case B_BACKEND:
		case B_BG_WORKER:
		case B_AUTOVAC_WORKER:
		case B_WAL_SENDER:
			return true;
		default:
			return false;
	}
}

/*
 * Is this read to be captured?  Says the same when asked again for the same
 * use of the handle.
 */
bool
gate_decide(PgAioHandle *ioh)
{
	GateIo	   *io = gate_io(ioh);
	bool		captured;

	if (io->generation == ioh->generation)
		return io->phase == GATE_DECIDED;

	if (ioh->op != PGAIO_OP_READV || ioh->target != PGAIO_TID_SMGR ||
		!capturing_is_safe())
		return false;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	captured = !gate->closing && gate_apply_rules(ioh, io);
	if (captured)
	{
		io->phase = GATE_DECIDED;
		io->generation = ioh->generation;
		ndecided++;
	}
	LWLockRelease(gate->lock);

	return captured;
}

static bool
gate_needs_synchronous_execution(PgAioHandle *ioh)
{
	bool		synchronous = false;

	/* what sync.c has decided upon stays so, though the rule may have ended */
	if (likely(gate->active == 0 && ndecided == 0) || !gate_decide(ioh))
		synchronous = server_ops->needs_synchronous_execution != NULL &&
			server_ops->needs_synchronous_execution(ioh);

	if (unlikely(gate->tracing != 0))
		trace_staged(ioh, synchronous);

	return synchronous;
}

/*
 * Submits captured reads: to the holds or the device.  Returns those that the
 * caller has to perform right away, in a critical section.
 */
static int
submit_captured(int ncaptured, PgAioHandle **captured, PgAioHandle **perform)
{
	int			nperform = 0;
	GateTime	now = gate_now();
	bool		wake = false;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ncaptured; i++)
	{
		PgAioHandle *ioh = captured[i];
		GateIo	   *io = gate_io(ioh);
		int			fd = ioh->op_data.read.fd;

		/*
		 * The file is reopened before the read is performed, whoever does
		 * that.  Until then no close of a file must wait for it.
		 */
		ioh->op_data.read.fd = -1;

		/* somebody may complete it from here on, once the lock is released */
		pgaio_io_prepare_submit(ioh);

		if ((io->injected || gate_rule_holds(io->rule)) && !gate->closing)
		{
			gate_start_hold(ioh, io, now);
			wake = true;
		}
		else if (gate_start_device(ioh, io, now) || gate_start_in_worker(ioh, io))
			wake |= io->due < gate->worker_wakes;
		else
		{
			ioh->op_data.read.fd = fd;
			io->phase = GATE_PASSED;
			perform[nperform++] = ioh;
		}
	}
	LWLockRelease(gate->lock);

	if (wake)
		gate_wake_worker();

	return nperform;
}

static int
submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	PgAioHandle *captured[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *others[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *perform[PGAIO_SUBMIT_BATCH_SIZE];
	int			ncaptured = 0;
	int			nothers = 0;
	int			nperform;

	if (likely(ndecided == 0))
		return server_ops->submit(num_staged_ios, staged_ios);

	for (int i = 0; i < num_staged_ios; i++)
	{
		GateIo	   *io = gate_io(staged_ios[i]);

		if (io->generation == staged_ios[i]->generation)
			captured[ncaptured++] = staged_ios[i];
		else
			others[nothers++] = staged_ios[i];
	}
	ndecided -= ncaptured;

	nperform = submit_captured(ncaptured, captured, perform);
	if (nothers > 0)
		(void) server_ops->submit(nothers, others);

	for (int i = 0; i < nperform; i++)
	{
		GateIo	   *io = gate_io(perform[i]);

		gate_perform_at_submission(perform[i], io->has_result, io->result);
	}

	gate_resume_batch();

	return num_staged_ios;
}

static int
gate_submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	int			submitted;

	if (likely(trace_nstaged == 0))
		return submit(num_staged_ios, staged_ios);

	trace_submitting(num_staged_ios, staged_ios);
	submitted = submit(num_staged_ios, staged_ios);
	trace_submitted();

	return submitted;
}

/*
 * May this process perform a read?  Reopening allocates, so not in a critical
 * section; and nobody but its owner can reach local memory.
 */
static bool
can_perform(PgAioHandle *ioh)
{
	return CritSectionCount == 0 &&
		(!(ioh->flags & PGAIO_HF_REFERENCES_LOCAL) ||
		 ioh->owner_procno == MyProcNumber);
}

/*
 * Has this process been told to end, or to cancel, without being able to obey
 * as long as it waits?
 */
static bool
interrupted_in_vain(void)
{
	return (ProcDiePending || QueryCancelPending) && !INTERRUPTS_CAN_BE_PROCESSED();
}

/*
 * Does this process show the wait event "completion_wait" while it waits for a
 * read that inj_io_completion_wait() holds?  It does if it would be the one
 * that completes the read: with io_uring whoever waits for it first, the
 * worker of the gate in the place of an I/O worker, else the owner.
 */
static bool
shows_completion_wait(PgAioHandle *ioh, GateIo *io)
{
	if ((ioh->flags & PGAIO_HF_REFERENCES_LOCAL) || io_method == IOMETHOD_SYNC)
		return ioh->owner_procno == MyProcNumber;
	if (io_method == IOMETHOD_WORKER)
		return false;
	if (io->stopped == INVALID_PROC_NUMBER)
		io->stopped = MyProcNumber;
	return io->stopped == MyProcNumber;
}

/*
 * What is the process that waits for a held read to do?  Sets the wait event,
 * and until when that will be true at the latest.
 */
static WaitAction
look_at_held(PgAioHandle *ioh, GateIo *io, GateTime now,
			 uint32 *wait_event, GateTime *until)
{
	bool		is_owner = ioh->owner_procno == MyProcNumber;
	bool		is_local = (ioh->flags & PGAIO_HF_REFERENCES_LOCAL) != 0;
	GateTime	limit = io->hold_limit;

	if (!io->injected)
		*wait_event = gate->wait_event_held;
	else if (shows_completion_wait(ioh, io))
		*wait_event = gate->wait_event_completion;

	if (!can_perform(ioh))
		return WAIT_SLEEP;

	/* what the worker can end, it ends; this is for when there is none */
	if (!is_local && gate->worker != INVALID_PROC_NUMBER)
		limit += NS_PER_S;

	if (io->released || gate->closing ||
		(is_owner && proc_exit_inprogress && !io->injected) ||
		interrupted_in_vain())
		return WAIT_PERFORM;
	if (now >= limit)
	{
		io->too_long = true;
		return WAIT_PERFORM;
	}

	*until = limit;
	return WAIT_SLEEP;
}

/*
 * The same for a read that the device is to complete.
 */
static WaitAction
look_at_due(PgAioHandle *ioh, GateIo *io, GateTime now,
			uint32 *wait_event, GateTime *until)
{
	bool		is_owner = ioh->owner_procno == MyProcNumber;
	bool		is_local = (ioh->flags & PGAIO_HF_REFERENCES_LOCAL) != 0;

	*wait_event = gate->wait_event_device;
	if (!can_perform(ioh))
		return WAIT_SLEEP;

	if (is_local)
	{
		*until = io->due;
		if (now >= io->due)
			return WAIT_PERFORM;
	}
	else
		*until = now + NS_PER_S;

	if (gate->closing || interrupted_in_vain() ||
		(is_owner && proc_exit_inprogress) ||
		(!is_local && gate->worker == INVALID_PROC_NUMBER && now >= io->due))
		return WAIT_PERFORM;

	return WAIT_SLEEP;
}

/*
 * Takes the read if this process is to perform it.
 */
static WaitAction
look_at_captured(PgAioHandle *ioh, uint64 generation, GateTime now,
				 uint32 *wait_event, GateTime *until)
{
	GateIo	   *io = gate_io(ioh);
	WaitAction	action = WAIT_SLEEP;

	*wait_event = WAIT_EVENT_AIO_IO_COMPLETION;
	*until = GATE_NEVER;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (io->generation == generation)
	{
		if (io->phase == GATE_HELD)
			action = look_at_held(ioh, io, now, wait_event, until);
		else if (io->phase == GATE_DUE)
			action = look_at_due(ioh, io, now, wait_event, until);
		else if (io->device >= 0)
		{
			/* the worker has it in hand, and has woken us early */
			*wait_event = gate->wait_event_device;
			if (now < io->due + SPIN_AFTER_DUE)
			{
				*until = io->due + SPIN_AFTER_DUE;
				action = WAIT_SPIN;
			}
		}
		if (action == WAIT_PERFORM)
		{
			if (io->phase == GATE_DUE)
				gate_count_served(ioh, false);
			gate_take(ioh, io);
		}
	}
	LWLockRelease(gate->lock);

	return action;
}

/*
 * Sleeps for some time or until the latch is set.  The last part of a
 * millisecond is too short for a latch.
 */
static void
sleep_until(GateTime now, GateTime until, uint32 wait_event)
{
	long		timeout = -1;
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	if (until != GATE_NEVER)
	{
		timeout = Max(until - now, 0) / NS_PER_MS;
		events |= WL_TIMEOUT;
		if (timeout == 0)
		{
			pgstat_report_wait_start(wait_event);
			pg_usleep(Max(until - now, 0) / 1000);
			pgstat_report_wait_end();
			return;
		}
	}
	(void) WaitLatch(MyLatch, events, timeout, wait_event);
	ResetLatch(MyLatch);
}

/*
 * Waits for a completion that is only microseconds away, too few to fall asleep
 * and be woken again.
 */
static void
spin_while_submitted(PgAioHandle *ioh, uint64 generation, GateTime until)
{
	PgAioHandleState state;

	while (!pgaio_io_was_recycled(ioh, generation, &state) &&
		   state == PGAIO_HS_SUBMITTED && gate_now() < until)
		SPIN_DELAY();
}

static void
forget_stopped(PgAioHandle *ioh, uint64 generation)
{
	GateIo	   *io = gate_io(ioh);

	if (io->stopped != MyProcNumber)
		return;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (io->generation == generation && io->stopped == MyProcNumber)
	{
		io->stopped = INVALID_PROC_NUMBER;
		/* somebody else may show it now */
		ConditionVariableBroadcast(&ioh->cv);
	}
	LWLockRelease(gate->lock);
}

/*
 * Waits until a captured read is no longer in flight.  Completion broadcasts
 * the handle's condition variable; each round gets back in line for that
 * before it looks.
 */
static void
wait_for_captured(PgAioHandle *ioh, uint64 generation)
{
	GateIo	   *io = gate_io(ioh);

	for (;;)
	{
		PgAioHandleState state;
		GateTime	now = gate_now();
		GateTime	until;
		uint32		wait_event;

		ConditionVariablePrepareToSleep(&ioh->cv);
		if (pgaio_io_was_recycled(ioh, generation, &state) ||
			state != PGAIO_HS_SUBMITTED)
			break;

		switch (look_at_captured(ioh, generation, now, &wait_event, &until))
		{
			case WAIT_SLEEP:
				sleep_until(now, until, wait_event);
				break;
			case WAIT_SPIN:
				spin_while_submitted(ioh, generation, until);
				break;
			case WAIT_PERFORM:
				ConditionVariableCancelSleep();
				gate_perform(ioh, io->has_result, io->result, 0);
				return;
		}
		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
}

/*
 * The same for what an I/O method without wait_one has in hand: it completes
 * its I/O without our help.
 */
static void
wait_for_method(PgAioHandle *ioh, uint64 generation)
{
	PgAioHandleState state;

	ConditionVariablePrepareToSleep(&ioh->cv);
	while (!pgaio_io_was_recycled(ioh, generation, &state) &&
		   state == PGAIO_HS_SUBMITTED)
		ConditionVariableSleep(&ioh->cv, WAIT_EVENT_AIO_IO_COMPLETION);
	ConditionVariableCancelSleep();
}

static void
wait_one(PgAioHandle *ioh, uint64 ref_generation)
{
	if (gate_io(ioh)->generation == ref_generation)
	{
		PG_TRY();
		{
			wait_for_captured(ioh, ref_generation);
		}
		PG_FINALLY();
		{
			forget_stopped(ioh, ref_generation);
		}
		PG_END_TRY();
	}
	else if (server_ops->wait_one != NULL)
		server_ops->wait_one(ioh, ref_generation);
	else
		wait_for_method(ioh, ref_generation);
}

static void
gate_wait_one(PgAioHandle *ioh, uint64 ref_generation)
{
	if (trace != NULL)
		trace_wait(ioh, ref_generation, wait_one);
	else
		wait_one(ioh, ref_generation);
}

#ifdef IO_METHOD_HAS_CHECK_ONE
static void
gate_check_one(PgAioHandle *ioh, uint64 ref_generation)
{
	bool		watches = trace_watches();

	if (watches)
		trace_before_returns();
	if (server_ops->check_one != NULL &&
		gate_io(ioh)->generation != ref_generation)
		server_ops->check_one(ioh, ref_generation);
	if (watches)
		trace_notice_own(true);
}
#endif

/*
 * Puts the gate's functions in the place of the server's.  All of the table is
 * copied: shared memory callbacks and properties stay what they are.
 */
void
gate_install(void)
{
	server_ops = pgaio_method_ops;

	gate_ops = *server_ops;
	gate_ops.needs_synchronous_execution = gate_needs_synchronous_execution;
	gate_ops.submit = gate_submit;
	gate_ops.wait_one = gate_wait_one;
#ifdef IO_METHOD_HAS_CHECK_ONE
	gate_ops.check_one = gate_check_one;
#endif

	pgaio_method_ops = &gate_ops;
}
