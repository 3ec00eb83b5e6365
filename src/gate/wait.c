/*
 * Waiting for intercepted reads.
 *
 * A waiting process performs the read itself if no other process can, if it has an
 * interrupt that it cannot process while it waits, or if others wait for the process.
 */
#include "gate/gate.h"

#include "access/xact.h"

/* What a process that waits for an intercepted read is to do next. */
typedef enum WaitAction
{
	WAIT_SLEEP,
	WAIT_HELD,					/* sleep: the read is held */
	WAIT_SPIN,					/* it is completed in a moment */
	WAIT_PERFORM,				/* this process has claimed the read */
	WAIT_BYPASS,				/* likewise: others wait for the process */
} WaitAction;

/* A process's wait, and what was decided last about it. */
typedef struct Wait
{
	PgAioHandle *ioh;
	uint64		generation;
	IoTime		began;
	bool		makes_others_wait;	/* the process cannot be interrupted … */
	bool		is_interrupted; /* … and an interrupt is pending */
	uint32		wait_event;
	IoTime		until;			/* the decision is good so long at the most */
	IoTime		not_before;		/* of a read that is claimed before it is due */
} Wait;

/* How near a completion is worth spinning for; reads may be performed long before they are due. */
#define SPIN_BEFORE_DUE 150000
#define SPIN_AFTER_DUE 30000

/* for how long this statement has waited for held reads */
static TimestampTz waited_in = -1;
static IoTime waited;

static IoTime
patience_ends(const Wait *wait, const GateIo *io)
{
	return wait->began + gate_patience(&io->effect.limits);
}

/*
 * Returns what a process does about a read that it would have to wait for although
 * others may wait for the process, or it has to go on.  WAIT_SLEEP: neither is so.  The
 * owner of a read that inj_io_completion_wait() holds stays for a while as it exits.
 */
static WaitAction
look_at_process(const Wait *wait, const GateIo *io, IoTime now)
{
	bool		stays = io->effect.injected && wait->ioh->owner_procno == MyProcNumber;

	if ((proc_exit_inprogress && !stays) || wait->is_interrupted)
		return WAIT_PERFORM;
	if (wait->makes_others_wait && now >= patience_ends(wait, io))
		return WAIT_BYPASS;
	return WAIT_SLEEP;
}

/* Decides what a process that waits for a held read does next. */
static WaitAction
look_at_held(Wait *wait, GateIo *io, IoTime now)
{
	PgAioHandle *ioh = wait->ioh;
	bool		is_owner = ioh->owner_procno == MyProcNumber;
	bool		alone = io_is_local(ioh) || gate->worker == INVALID_PROC_NUMBER;
	IoTime		limit = io->hold_limit;
	WaitAction	action;

	if (!io->effect.injected)
		wait->wait_event = gate->wait_event_held;

	/* the worker shows it where others may perform the read */
	else if (is_owner && (io_is_local(ioh) || io_method == IOMETHOD_SYNC))
		wait->wait_event = gate->wait_event_completion;

	if (io_is_local(ioh) && !is_owner)
		return WAIT_HELD;
	if (gate_is_released_to(io, is_owner ? BY_OWNER : BY_WAITER))
		return WAIT_PERFORM;

	action = look_at_process(wait, io, now);
	if (action != WAIT_SLEEP)
		return action;

	/* the worker ends the hold; if it is late, this process does */
	if (!alone)
		limit += LOOK_EVERY;
	/* one statement may meet many held reads */
	limit = Min(limit, wait->began + io->effect.limits.longest - waited);
	if (now >= limit)
	{
		io->hold_expired = true;
		return WAIT_PERFORM;
	}

	wait->until = alone ? Min(limit, now + LOOK_EVERY) : limit;
	return WAIT_HELD;
}

/*
 * Decides what a process that waits for a read on a device does next.  It performs the
 * read itself unless the worker is faster: to wake up when told would take too long.
 * What no device serves is the worker's; a read into local memory is its owner's.
 */
static WaitAction
look_at_queued(Wait *wait, const GateIo *io, IoTime now)
{
	IoTime		begin = io->effect.device_filter != 0 ? io->due : io->submitted + LOOK_EVERY;
	WaitAction	action;

	wait->wait_event = gate->wait_event_device;
	if (io_is_local(wait->ioh) && wait->ioh->owner_procno != MyProcNumber)
		return WAIT_SLEEP;

	action = look_at_process(wait, io, now);
	if (action != WAIT_SLEEP)
		return action;

	/* one process at a time spins; a sleep ends too late */
	if (now >= gate->spins_until)
		begin -= SPIN_BEFORE_DUE;
	if (now >= begin)
	{
		gate->spins_until = Max(gate->spins_until, io->due);
		return WAIT_PERFORM;
	}

	wait->until = Min(wait->until, begin);
	return WAIT_SLEEP;
}

/* Decides what a process does next, and claims the read if it is to perform it. */
static WaitAction
look(Wait *wait, IoTime now)
{
	GateIo	   *io = gate_io(wait->ioh);
	WaitAction	action = WAIT_SLEEP;

	wait->wait_event = WAIT_EVENT_AIO_IO_COMPLETION;
	wait->until = now + LOOK_EVERY;
	/* the lock holds interrupts, too */
	wait->makes_others_wait = gate_makes_others_wait(wait->ioh->owner_procno);
	wait->is_interrupted = gate_interrupt_is_blocked();

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (io->generation == wait->generation)
	{
		if (io->phase == GATE_HELD)
			action = look_at_held(wait, io, now);
		else if (io->phase == GATE_QUEUED)
			action = look_at_queued(wait, io, now);
		else if (io->effect.device_filter != 0)
		{
			/* the worker performs it, and has woken us early */
			wait->wait_event = gate->wait_event_device;
			if (now >= io->due - SPIN_BEFORE_DUE && now < io->due + SPIN_AFTER_DUE)
			{
				wait->until = io->due + SPIN_AFTER_DUE;
				action = WAIT_SPIN;
			}
		}
		if (wait->makes_others_wait && io->phase != GATE_CLAIMED)
			wait->until = Min(wait->until, patience_ends(wait, io));
		if (action == WAIT_PERFORM || action == WAIT_BYPASS)
		{
			if (action == WAIT_BYPASS)
				gate_lose_patience(io->effect.limits.made);
			if (io->phase == GATE_QUEUED)
				gate_count_served(wait->ioh, false);
			wait->not_before = io->due <= now + SPIN_BEFORE_DUE ? io->due : 0;
			gate_claim(wait->ioh, io);
		}
	}
	LWLockRelease(gate->lock);

	return action;
}

/*
 * Sleeps until then or the latch is set; latches do not count parts of a millisecond.
 */
static void
sleep_until(const Wait *wait, IoTime now)
{
	/* WaitLatch takes milliseconds in an int; we look again long before */
	IoTime		length = Min(Max(wait->until - now, 0), 60 * LOOK_EVERY);

	if (length < NS_PER_MS)
	{
		pgstat_report_wait_start(wait->wait_event);
		pg_usleep(length / 1000);
		pgstat_report_wait_end();
		return;
	}
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
					 length / NS_PER_MS, wait->wait_event);
	ResetLatch(MyLatch);
}

/* Waits for a completion that is too near to fall asleep. */
static void
spin_while_submitted(const Wait *wait)
{
	PgAioHandleState state;

	while (!pgaio_io_was_recycled(wait->ioh, wait->generation, &state) &&
		   state == PGAIO_HS_SUBMITTED && io_now() < wait->until)
		SPIN_DELAY();
}

/*
 * IoInterceptor.wait: waits until an intercepted read is no longer in flight, and
 * then, if it was held and wakeups are held, for io_wake().  The completion
 * broadcasts the handle's condition variable; each round gets back in line before it
 * looks.
 */
pg_noinline void
gate_wait(PgAioHandle *ioh, uint64 generation)
{
	Wait		wait = {.ioh = ioh,.generation = generation,.began = io_now()};
	bool		was_held = false;

	if (waited_in != GetCurrentStatementStartTimestamp())
		waited = 0;
	waited_in = GetCurrentStatementStartTimestamp();

	for (;;)
	{
		PgAioHandleState state;
		IoTime		now = io_now();
		WaitAction	action;

		ConditionVariablePrepareToSleep(&ioh->cv);
		if (pgaio_io_was_recycled(ioh, generation, &state) || state != PGAIO_HS_SUBMITTED)
			break;

		action = look(&wait, now);
		if (action == WAIT_PERFORM || action == WAIT_BYPASS)
		{
			ConditionVariableCancelSleep();
			if (action == WAIT_BYPASS)
				filters_count_bypass(FILTER_NONE, ioh, BYPASS_WAITER);
			gate_complete(ioh, wait.not_before);
			break;
		}
		if (action == WAIT_SPIN)
			spin_while_submitted(&wait);
		else
			sleep_until(&wait, now);
		was_held |= action == WAIT_HELD;

		/*
		 * The worker, if there is one, sees that the server stops, too.  Some
		 * processes get no signal, in a smart shutdown none.
		 */
		if (!gate->closing && io_now() - now >= LOOK_EVERY / 2 && server_is_stopping())
			gate_close();

		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
	if (!was_held)
		return;
	gate_hold_wakeup(ioh, generation, waited + io_now() - wait.began);
	waited += io_now() - wait.began;
}
