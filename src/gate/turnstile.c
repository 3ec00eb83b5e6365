/*-------------------------------------------------------------------------
 *
 * turnstile.c
 *		The turnstile: a process that has waited for a held read goes on when told.
 *
 * One release can wake several processes, which then race for the next block.
 * While the turnstile is on, each of them stops at the end of its wait, and
 * io_wake() lets one at a time go on.
 *
 * A process stops here only where it could also have been interrupted while it
 * waited for the read: not in a critical section, not while it exits, and not with
 * an interrupt pending that it cannot process.
 *
 * src/gate/turnstile.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "aio/shutdown.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(io_turnstile);
PG_FUNCTION_INFO_V1(io_wake);
PG_FUNCTION_INFO_V1(io_turnstile_get);

/* how often to look whether the server stops */
#define LOOK_EVERY_MS 1000

/*
 * Returns whether an interrupt is pending that cannot be processed during this
 * wait: a cancel, a termination, a transaction timeout or a barrier.
 */
bool
gate_interrupt_is_blocked(void)
{
	return !INTERRUPTS_CAN_BE_PROCESSED() &&
		(ProcDiePending || QueryCancelPending || TransactionTimeoutPending ||
		 ProcSignalBarrierPending);
}

/*
 * Leaves the turnstile: regularly, by an error, or because the process exits.
 */
static void
leave_turnstile(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	GatePlace  *place = &gate->places[MyProcNumber];

	/* only this process sets it */
	if (!place->stands)
		return;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	place->stands = false;
	LWLockRelease(gate->lock);
}

static bool
cannot_stop(void)
{
	return gate->closing || CritSectionCount > 0 || proc_exit_inprogress ||
		gate_interrupt_is_blocked();
}

/*
 * Stops at the turnstile, if it is on.  Returns whether this process has.
 */
static bool
enter_turnstile(PgAioHandle *ioh, uint64 generation)
{
	GatePlace  *place = &gate->places[MyProcNumber];
	bool		stops;

	/* without lock: usually it is off */
	if (gate->turnstile_holder == 0 || cannot_stop())
		return false;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	/* the session that would have to wake us goes on */
	stops = gate->turnstile_holder != 0 && gate->turnstile_holder != MyProcPid;
	if (stops)
	{
		place->stands = true;
		place->may_pass = false;
		place->io = ioh - pgaio_ctl->io_handles;
		place->generation = generation;
		place->since = GetCurrentTimestamp();
		place->limit = io_now() + gate->turnstile_longest;
	}
	LWLockRelease(gate->lock);

	return stops;
}

static bool
may_pass(void)
{
	bool		result;

	if (cannot_stop())
		return true;

	LWLockAcquire(gate->lock, LW_SHARED);
	result = gate->turnstile_holder == 0 || gate->places[MyProcNumber].may_pass;
	LWLockRelease(gate->lock);

	return result;
}

/*
 * Waits until this process may pass the turnstile, or the limit is reached.
 */
static void
wait_at_turnstile(void)
{
	while (!may_pass())
	{
		IoTime		left = gate->places[MyProcNumber].limit - io_now();

		if (left <= 0)
		{
			ereport(WARNING,
					(errmsg("process %d was kept at the turnstile for too long", MyProcPid),
					 errdetail("It goes on now, after the \"test_aio.hold_timeout\" of the session that has switched the turnstile on.")));
			return;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
						 Min(left / NS_PER_MS + 1, LOOK_EVERY_MS),
						 gate->wait_event_turnstile);
		ResetLatch(MyLatch);
		if (!gate->closing && server_is_stopping())
			gate_close();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Waits at the turnstile, if it is on, after a wait for a held read.
 */
void
gate_pass_turnstile(PgAioHandle *ioh, uint64 generation)
{
	if (!enter_turnstile(ioh, generation))
		return;

	PG_ENSURE_ERROR_CLEANUP(leave_turnstile, (Datum) 0);
	{
		wait_at_turnstile();
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_turnstile, (Datum) 0);

	leave_turnstile(0, 0);
}

/*
 * before_shmem_exit() callback of a session that has switched the turnstile on.
 */
static void
session_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (gate->turnstile_holder == MyProcPid)
		gate_open_turnstile();
	LWLockRelease(gate->lock);
}

/*
 * io_turnstile("on" bool) returns bool
 *
 * Switches the turnstile on or off.  While it is on, a process that has waited for a
 * held read waits for io_wake().  Returns whether it was on.
 */
Datum
io_turnstile(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	bool		on;
	bool		was_on;

	require_gate(fcinfo);

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("on must not be null")));
	on = PG_GETARG_BOOL(0);

	if (on && !registered)
	{
		before_shmem_exit(session_ends, 0);
		registered = true;
	}

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	was_on = gate->turnstile_holder != 0;
	if (on)
	{
		gate->turnstile_longest = filters_hold_timeout();
		gate->turnstile_holder = MyProcPid;
	}
	else
		gate_open_turnstile();
	LWLockRelease(gate->lock);

	PG_RETURN_BOOL(was_on);
}

/*
 * io_wake(pid int) returns bool
 *
 * Lets a process pass the turnstile.  Returns false if it does not stand there.
 */
Datum
io_wake(PG_FUNCTION_ARGS)
{
	int			pid;
	bool		found = false;

	require_gate(fcinfo);

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("pid must not be null")));
	pid = PG_GETARG_INT32(0);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gate->nplaces && !found; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);

		if (!gate_stands_at_turnstile(i) || proc->pid != pid)
			continue;
		gate->places[i].may_pass = true;
		SetLatch(&proc->procLatch);
		found = true;
	}
	LWLockRelease(gate->lock);

	PG_RETURN_BOOL(found);
}

/*
 * io_turnstile_get() returns setof record
 *
 * The processes at the turnstile, and which reads they have waited for; for the
 * view "io_turnstile".
 */
Datum
io_turnstile_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	require_gate_to_look(fcinfo);
	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < gate->nplaces; i++)
	{
		GatePlace	place;
		int			pid;
		Datum		values[4];
		bool		nulls[4] = {0};

		LWLockAcquire(gate->lock, LW_SHARED);
		place = gate->places[i];
		pid = GetPGProcByNumber(i)->pid;
		LWLockRelease(gate->lock);
		if (!place.stands || place.may_pass)
			continue;

		values[0] = Int32GetDatum(pid);
		values[1] = Int32GetDatum(place.io);
		values[2] = Int64GetDatum(place.generation);
		values[3] = TimestampTzGetDatum(place.since);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}
