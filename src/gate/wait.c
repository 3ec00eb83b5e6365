/*
 * Waiting for captured reads.
 *
 * A waiting process performs the read itself if no other process can, or if it has
 * an interrupt that it cannot process while it waits.
 */
#include "gate/gate.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

/* What a process that waits for a captured read is to do next. */
typedef enum WaitAction
{
	WAIT_SLEEP,
	WAIT_HELD,					/* sleep: the read is held */
	WAIT_SPIN,					/* it is completed in a moment */
	WAIT_PERFORM,				/* it has taken the read */
} WaitAction;

/* How near a completion is worth spinning for; reads may be performed long before they are due. */
#define SPIN_BEFORE_DUE NS_PER_MS
#define SPIN_AFTER_DUE 30000

/* WaitLatch takes milliseconds in an int; we look again long before */
#define LONGEST_SLEEP (60 * NS_PER_S)

/* how often to look when the worker does not wake us, or there is none */
#define LOOK_EVERY NS_PER_S

/* The captured read that this process waits for, if it shows "completion_wait". */
static struct
{
	PgAioHandle *ioh;
	uint64		generation;
}			stopped_at;

/*
 * Lets another process show "completion_wait" in our place, when the wait has ended,
 * or by an error, or because the process exits.
 */
static void
forget_stopped(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	PgAioHandle *ioh = stopped_at.ioh;
	GateIo	   *io;

	if (ioh == NULL)
		return;
	stopped_at.ioh = NULL;

	io = gate_io(ioh);
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (io->generation == stopped_at.generation && io->stopped == MyProcNumber)
	{
		io->stopped = INVALID_PROC_NUMBER;
		ConditionVariableBroadcast(&ioh->cv);
	}
	LWLockRelease(gate->lock);
}

/*
 * Returns whether this process shows the wait event "completion_wait" while it
 * waits for a read that inj_io_completion_wait() holds.  It does if it would be
 * the one that completes the read: with io_uring the first process that waits
 * for it, else the owner.  With workers, the gate's worker shows it in the place
 * of an I/O worker.
 */
static bool
shows_completion_wait(PgAioHandle *ioh, GateIo *io)
{
	if (gate_is_local(ioh) || io_method == IOMETHOD_SYNC)
		return ioh->owner_procno == MyProcNumber;
	if (io_method == IOMETHOD_WORKER)
		return false;
	if (io->stopped == INVALID_PROC_NUMBER)
	{
		io->stopped = MyProcNumber;
		stopped_at.ioh = ioh;
		stopped_at.generation = io->generation;
	}
	return io->stopped == MyProcNumber;
}

/*
 * Decides what a process that waits for a held read does next.  Sets the wait
 * event, and until when the decision is good at the latest.
 */
static WaitAction
look_at_held(PgAioHandle *ioh, GateIo *io, IoTime now,
			 uint32 *wait_event, IoTime *until)
{
	bool		is_owner = ioh->owner_procno == MyProcNumber;
	bool		alone = gate_is_local(ioh) || gate->worker == INVALID_PROC_NUMBER;
	IoTime		limit = io->hold_limit;

	if (!gate_is_injected(io))
		*wait_event = gate->wait_event_held;
	else if (shows_completion_wait(ioh, io))
		*wait_event = gate->wait_event_completion;

	if (gate_is_local(ioh) && !is_owner)
		return WAIT_HELD;

	/*
	 * In a critical section nobody could cancel us, and a checkpoint may wait
	 * for us.  The same is true of a process that exits, but the owner of a
	 * read that inj_io_completion_wait() holds is meant to stay.
	 */
	if (io->released || gate->closing || CritSectionCount > 0 ||
		(proc_exit_inprogress && !(is_owner && gate_is_injected(io))) ||
		gate_interrupt_is_blocked())
		return WAIT_PERFORM;

	/* the worker ends the hold; if it is late by a second, this process does */
	if (!alone)
		limit += NS_PER_S;
	if (now >= limit)
	{
		io->hold_expired = true;
		return WAIT_PERFORM;
	}

	*until = alone ? Min(limit, now + LOOK_EVERY) : limit;
	return WAIT_HELD;
}

/*
 * Decides what a process that waits for a read on a device does next.  The
 * worker performs the read when it is due, or this process if the worker is late by a
 * second; a read into local memory only its owner can perform.
 */
static WaitAction
look_at_due(PgAioHandle *ioh, GateIo *io, IoTime now,
			uint32 *wait_event, IoTime *until)
{
	bool		is_owner = ioh->owner_procno == MyProcNumber;
	bool		is_ours = gate_is_local(ioh) || gate->worker == INVALID_PROC_NUMBER;

	*wait_event = gate->wait_event_device;
	if (gate_is_local(ioh) && !is_owner)
		return WAIT_SLEEP;

	if (gate->closing || CritSectionCount > 0 || proc_exit_inprogress ||
		gate_interrupt_is_blocked() || (is_ours && now >= io->due) ||
		now >= Max(io->due, io->submitted) + NS_PER_S)
		return WAIT_PERFORM;

	*until = now + LOOK_EVERY;
	if (is_ours)
		*until = Min(*until, io->due);
	return WAIT_SLEEP;
}

/*
 * Decides what a process that waits for a captured read does next, and takes the
 * read if this process is to perform it.
 */
static WaitAction
look_at_captured(PgAioHandle *ioh, uint64 generation, IoTime now,
				 uint32 *wait_event, IoTime *until)
{
	GateIo	   *io = gate_io(ioh);
	WaitAction	action = WAIT_SLEEP;

	*wait_event = WAIT_EVENT_AIO_IO_COMPLETION;
	*until = now + LOOK_EVERY;

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
			if (now >= io->due - SPIN_BEFORE_DUE && now < io->due + SPIN_AFTER_DUE)
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
 * Sleeps until then at the latest, or until the latch is set.  The last part of
 * a millisecond is too short for a latch.
 */
static void
sleep_until(IoTime now, IoTime until, uint32 wait_event)
{
	IoTime		length = Min(Max(until - now, 0), LONGEST_SLEEP);

	if (length < NS_PER_MS)
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep(length / 1000);
		pgstat_report_wait_end();
		return;
	}
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
					 length / NS_PER_MS, wait_event);
	ResetLatch(MyLatch);
}

/*
 * Waits for a completion that is only microseconds away, too few to fall asleep
 * and be woken again.
 */
static void
spin_while_submitted(PgAioHandle *ioh, uint64 generation, IoTime until)
{
	PgAioHandleState state;

	while (!pgaio_io_was_recycled(ioh, generation, &state) &&
		   state == PGAIO_HS_SUBMITTED && io_now() < until)
		SPIN_DELAY();
}

/*
 * Waits until a captured read is no longer in flight.  Its completion broadcasts
 * the handle's condition variable; each round gets back in line for that before
 * it looks.  Returns whether the read was held meanwhile.
 */
static pg_noinline bool
wait_for_captured(PgAioHandle *ioh, uint64 generation)
{
	bool		was_held = false;

	for (;;)
	{
		PgAioHandleState state;
		IoTime		now = io_now();
		IoTime		until;
		uint32		wait_event;

		ConditionVariablePrepareToSleep(&ioh->cv);
		if (pgaio_io_was_recycled(ioh, generation, &state) ||
			state != PGAIO_HS_SUBMITTED)
			break;

		switch (look_at_captured(ioh, generation, now, &wait_event, &until))
		{
			case WAIT_HELD:
				was_held = true;
				sleep_until(now, until, wait_event);
				break;
			case WAIT_SLEEP:
				sleep_until(now, until, wait_event);
				break;
			case WAIT_SPIN:
				spin_while_submitted(ioh, generation, until);
				break;
			case WAIT_PERFORM:
				ConditionVariableCancelSleep();
				gate_complete(ioh, 0);
				return was_held;
		}

		/*
		 * The worker sees that the server stops, too, if there is one.  Some
		 * processes get no signal of that, and in a smart shutdown none does.
		 */
		if (!gate->closing && io_now() - now >= LOOK_EVERY / 2 && server_is_stopping())
			gate_close();

		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
	return was_held;
}

/*
 * IoInterceptor.wait: waits until a captured read is no longer in flight, and if
 * it was held, and, while wakeups are held, for io_wake().
 */
void
gate_wait(PgAioHandle *ioh, uint64 generation)
{
	bool		was_held;

	PG_ENSURE_ERROR_CLEANUP(forget_stopped, (Datum) 0);
	{
		was_held = wait_for_captured(ioh, generation);
	}
	PG_END_ENSURE_ERROR_CLEANUP(forget_stopped, (Datum) 0);

	forget_stopped(0, 0);
	if (was_held)
		gate_hold_wakeup(ioh, generation);
}
