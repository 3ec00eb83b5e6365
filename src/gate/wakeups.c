/*
 * Held wakeups: a process that has waited for a held read goes on when told.
 *
 * One release can wake several processes, which then race for the next block.
 * While wakeups are held, each of them stops at the end of its wait, and
 * io_wake() lets one at a time go on.
 *
 * A process that exits, or has an interrupt pending that it cannot process, does not
 * stop here, and one that others may wait for does not for longer than a second.
 */
#include "gate/gate.h"

PG_FUNCTION_INFO_V1(io_hold_wakeups);
PG_FUNCTION_INFO_V1(io_wake);
PG_FUNCTION_INFO_V1(io_held_wakeups_get);

/*
 * Is a cancel, a termination, a recovery conflict … pending that must wait until we
 * are done?
 */
bool
gate_interrupt_is_blocked(void)
{
	return InterruptPending && !INTERRUPTS_CAN_BE_PROCESSED();
}

/*
 * Returns whether others may wait for this process, and no cancel helps them: it
 * cannot be interrupted, for example with a page locked, or is an auxiliary process,
 * unless a filter has named it, and it waits for a read of its own.
 */
bool
gate_makes_others_wait(ProcNumber owner)
{
	return !INTERRUPTS_CAN_BE_PROCESSED() || (MyProcNumber >= MaxBackends && owner != MyProcNumber);
}

/* Ends the hold of this process's wakeup: regularly, by an error, or because it exits. */
static void
end_hold(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->wakeups[MyProcNumber].held = false;
	LWLockRelease(gate->lock);
}

static bool
cannot_stop(void)
{
	return gate->closing || proc_exit_inprogress || gate_interrupt_is_blocked();
}

/* Begins to hold the wakeup of this process.  Returns false unless wakeups are held. */
static bool
begin_hold(PgAioHandle *ioh, uint64 generation, IoTime waited)
{
	HeldWakeup *wakeup = &gate->wakeups[MyProcNumber];
	const WaitLimits *limits = &gate->wakeups_limits;
	bool		stops;

	/* without lock: usually it is off */
	if (gate->wakeups_holder == 0 || cannot_stop())
		return false;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	/* the session that would have to wake us goes on */
	stops = gate->wakeups_holder != 0 && gate->wakeups_holder != MyProcPid;
	if (stops)
	{
		wakeup->held = true;
		wakeup->io = io_index(ioh);
		wakeup->generation = generation;
		wakeup->since = GetCurrentTimestamp();
		wakeup->limit = io_now() + Max(limits->longest - waited, 0);
		wakeup->patience_ends = io_now() + gate_patience(limits);
	}
	LWLockRelease(gate->lock);

	return stops;
}

static void
wait_for_wake(void)
{
	const HeldWakeup *wakeup = &gate->wakeups[MyProcNumber];

	/* who changes any of this sets our latch afterwards */
	while (!cannot_stop() && wakeup->held)
	{
		IoTime		limit = gate_makes_others_wait(INVALID_PROC_NUMBER) ? Min(wakeup->limit, wakeup->patience_ends) : wakeup->limit;
		IoTime		left = limit - io_now();

		if (left <= 0 && limit == wakeup->limit)
		{
			/* perhaps interrupts are held, and the client does not read */
			ereport(LOG_SERVER_ONLY,
					errmsg("the wakeup of process %d was held for too long", MyProcPid),
					errdetail("It goes on now, after the \"test_aio.hold_timeout\" of the session that holds the wakeups."));
		}
		else if (left <= 0)
		{
			LWLockAcquire(gate->lock, LW_EXCLUSIVE);
			gate_lose_patience(gate->wakeups_limits.made);
			LWLockRelease(gate->lock);
		}
		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
						 Min(left, LOOK_EVERY) / NS_PER_MS + 1,
						 gate->wait_event_held_wakeup);
		ResetLatch(MyLatch);
		if (!gate->closing && server_is_stopping())
			gate_close();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Stops, while wakeups are held, after a wait for a held read.  The statement has waited
 * for so long already.
 */
void
gate_hold_wakeup(PgAioHandle *ioh, uint64 generation, IoTime waited)
{
	if (!begin_hold(ioh, generation, waited))
		return;

	PG_ENSURE_ERROR_CLEANUP(end_hold, (Datum) 0);
	{
		wait_for_wake();
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_hold, (Datum) 0);

	end_hold(0, 0);
}

/*
 * Holds wakeups from now on, or no longer.  While they are held, a process that has
 * waited for a held read waits for io_wake().  Returns whether they were held.
 */
Datum
io_hold_wakeups(PG_FUNCTION_ARGS)
{
	WaitLimits	limits;
	bool		on;
	bool		was_on;

	require_subsystem(fcinfo, &gate_subsystem);
	check_not_null("on", PG_ARGISNULL(0));
	on = PG_GETARG_BOOL(0);
	limits = filter_of_kind(fcinfo, FILTER_HOLD).limits;
	if (on)
		filters_end_with_session();

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	was_on = gate->wakeups_holder != 0;
	if (on)
	{
		gate->wakeups_limits = limits;
		gate->wakeups_holder = MyProcPid;
	}
	else
		gate_release_wakeups();
	LWLockRelease(gate->lock);

	PG_RETURN_BOOL(was_on);
}

/* Ends a held wakeup.  Returns false if the process has none. */
Datum
io_wake(PG_FUNCTION_ARGS)
{
	int			pid;
	bool		found = false;

	require_subsystem(fcinfo, &gate_subsystem);
	check_not_null("pid", PG_ARGISNULL(0));
	pid = PG_GETARG_INT32(0);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < IO_MAX_PROCESSES && !found; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);

		if (!gate->wakeups[i].held || proc->pid != pid)
			continue;
		gate->wakeups[i].held = false;
		SetLatch(&proc->procLatch);
		found = true;
	}
	LWLockRelease(gate->lock);

	PG_RETURN_BOOL(found);
}

/* The held wakeups, for the view "io_held_wakeups". */
Datum
io_held_wakeups_get(PG_FUNCTION_ARGS)
{
	Row		   *row = begin_view(fcinfo, &gate_subsystem);

	for (int i = 0; i < IO_MAX_PROCESSES; i++)
	{
		HeldWakeup	wakeup;
		int			pid;

		LWLockAcquire(gate->lock, LW_SHARED);
		wakeup = gate->wakeups[i];
		pid = GetPGProcByNumber(i)->pid;
		LWLockRelease(gate->lock);
		if (!wakeup.held)
			continue;

		row_set(row, "pid", Int32GetDatum(pid));
		row_set(row, "io_id", Int32GetDatum(wakeup.io));
		row_set(row, "io_generation", Int64GetDatum(wakeup.generation));
		row_set(row, "since", TimestampTzGetDatum(wakeup.since));
		row_put(row);
	}

	return (Datum) 0;
}
