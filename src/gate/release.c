/*
 * Releasing held reads.
 */
#include "gate/gate.h"

#include "aio/perform.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"

PG_FUNCTION_INFO_V1(io_release);
PG_FUNCTION_INFO_V1(io_release_all);

/* Returns whether this held read is to be released.  Called with the gate's lock. */
typedef bool (*HeldTest) (PgAioHandle *ioh, const GateIo *io, void *arg);

/*
 * Releases one held read, with a result that was chosen for it if there is one: performs
 * it, or leaves that to its owner if it reads into local memory.  The caller has the lock,
 * and loses it.
 */
static void
release_and_unlock(PgAioHandle *ioh, GateIo *io, bool has_result, int32 result)
{
	if (has_result)
	{
		io->has_result = true;
		io->result = result;
	}
	if (gate_is_local(ioh) && ioh->owner_procno != MyProcNumber)
	{
		io->released = true;
		LWLockRelease(gate->lock);
		ConditionVariableBroadcast(&ioh->cv);
		return;
	}

	gate_take(ioh, io);
	LWLockRelease(gate->lock);
	gate_complete(ioh, 0);
}

/*
 * Releases the reads that are held now and pass a test.  Returns their number.
 */
static int
release_matching(HeldTest test, void *arg, bool has_result, int32 result)
{
	int			released = 0;

	/*
	 * A process that submits a read has perhaps seen a filter that has ended
	 * since, and holds the read before it gives the lock back.
	 */
	LWLockAcquire(gate->lock, LW_SHARED);
	LWLockRelease(gate->lock);

	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		GateIo	   *io = &gate->ios[i];

		/* look again when nobody can change it */
		if (io->phase != GATE_HELD)
			continue;
		LWLockAcquire(gate->lock, LW_EXCLUSIVE);
		if (io->phase == GATE_HELD && !io->released &&
			(test == NULL || test(ioh, io, arg)))
		{
			release_and_unlock(ioh, io, has_result, result);
			released++;
		}
		else
			LWLockRelease(gate->lock);
	}

	return released;
}

void
gate_release_all(void)
{
	(void) release_matching(NULL, NULL, false, 0);
}

static bool
is_held_no_more(PgAioHandle *ioh, const GateIo *io, void *arg pg_attribute_unused())
{
	return gate_is_injected(io) && !filter_holds(io->effect.hold, ioh);
}

/*
 * FilterHandler.changed: inj_io_completion_continue() lets reads go on, and a
 * filter that takes another's place may hold fewer.
 */
static void
filters_changed(void)
{
	if (gate == NULL)
		return;
	(void) release_matching(is_held_no_more, NULL, false, 0);
	/* it shows whether any read is held at its completion */
	gate_wake_worker();
}

static bool
is_held_for(PgAioHandle *ioh pg_attribute_unused(), const GateIo *io, void *arg)
{
	return io->effect.holder == *(int *) arg;
}

/*
 * FilterHandler.session_ended: ends the session's devices, performs what it has held,
 * and lets go on whose wakeups it holds.
 */
static void
session_ended(int pid)
{
	if (gate == NULL)
		return;
	(void) gate_end_devices(pid, NULL, InvalidOid);
	(void) release_matching(is_held_for, &pid, false, 0);
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (gate->wakeups_holder == pid)
		gate_release_wakeups();
	LWLockRelease(gate->lock);
}

static bool
is_kept_no_more(PgAioHandle *ioh, const GateIo *io, void *arg pg_attribute_unused())
{
	return io->effect.holder == 0 && !filter_holds(io->effect.hold, ioh);
}

/*
 * FilterHandler.kept_ended: ends the devices as well, and performs what no filter
 * holds any more.
 */
static void
kept_ended(Oid database)
{
	if (gate == NULL)
		return;
	(void) gate_end_devices(0, NULL, database);
	(void) release_matching(is_kept_no_more, NULL, false, 0);
}

const FilterHandler gate_handler = {
	.tell_unseen = gate_tell_unseen,
	.changed = filters_changed,
	.session_ended = session_ended,
	.kept_ended = kept_ended,
};

/*
 * Releases one held read.  NULL performs it, a number of bytes makes it that
 * short, a negative errno fails it.  Returns false if it is not held.
 */
Datum
io_release(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	int			io_id = PG_GETARG_INT32(1);
	bool		has_result = !PG_ARGISNULL(2);
	int32		result = has_result ? PG_GETARG_INT32(2) : 0;
	PgAioHandle *ioh;
	GateIo	   *io;

	require_subsystem(fcinfo, &gate_subsystem);
	check_not_null("pid and io_id", PG_ARGISNULL(0) || PG_ARGISNULL(1));
	check_io_result(result);
	check_range("io_id", io_id, 0, gate->nios - 1);

	ioh = &pgaio_ctl->io_handles[io_id];
	io = &gate->ios[io_id];

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (io->phase != GATE_HELD || io->released ||
		GetPGProcByNumber(ioh->owner_procno)->pid != pid)
	{
		LWLockRelease(gate->lock);
		PG_RETURN_BOOL(false);
	}
	release_and_unlock(ioh, io, has_result, result);

	PG_RETURN_BOOL(true);
}

/*
 * Releases all reads that are held now.  Returns their number.
 */
Datum
io_release_all(PG_FUNCTION_ARGS)
{
	bool		has_result = !PG_ARGISNULL(0);
	int32		result = has_result ? PG_GETARG_INT32(0) : 0;

	require_subsystem(fcinfo, &gate_subsystem);
	check_io_result(result);

	PG_RETURN_INT32(release_matching(NULL, NULL, has_result, result));
}
