/*
 * Claiming, completing and releasing reads, and what ends with filters and
 * sessions.
 *
 * A process that is about to complete a read claims it first, under the lock; then it
 * has the read for itself, and completes it without the lock.
 */
#include "gate/gate.h"

PG_FUNCTION_INFO_V1(io_release);
PG_FUNCTION_INFO_V1(io_release_all);

/* Begins a hold by a filter.  The caller has the lock. */
void
gate_start_hold(GateIo *io, const Filter *filter, IoTime now)
{
	io->phase = GATE_HELD;
	io->hold_limit = now + filter->limits.longest;
	io->since = GetCurrentTimestamp();
	dclist_push_tail(&gate->held, &io->held_node);
}

/*
 * Claims a read that is held or queued: this process completes it now, and nobody else
 * can.  The caller has the lock.
 *
 * From here to gate_complete() there is a critical section: a read that was claimed and
 * not completed would keep its waiters, and the server's end, for ever.
 */
void
gate_claim(PgAioHandle *ioh, GateIo *io)
{
	Assert(LWLockHeldByMeInMode(gate->lock, LW_EXCLUSIVE));

	START_CRIT_SECTION();
	if (io->phase == GATE_HELD)
		dclist_delete_from(&gate->held, &io->held_node);
	else if (!io_is_local(ioh))
		pairingheap_remove(&gate->due, &io->due_node);
	io->phase = GATE_CLAIMED;
}

/*
 * Performs and completes a read that this process has claimed, not before some
 * moment.  What there is to say goes to the log, afterwards: a client may not read
 * its messages.
 */
void
gate_complete(PgAioHandle *ioh, IoTime not_before)
{
	const GateIo *io = gate_io(ioh);
	bool		hold_expired = io->hold_expired;

	/* by then the handle may be in use for another read */
	PgAioTargetData target = ioh->target_data;
	uint8		op = ioh->op;
	int			owner = io_owner_pid(ioh);

	io_perform(ioh, -1, &io->outcome, not_before);
	END_CRIT_SECTION();

	if (hold_expired)
		io_log_hold_expired(op, &target, owner);
}

/*
 * Ends a hold: the process that looks at the read next performs it.  That is this
 * process, unless it wakes the waiters.  The caller has the lock.
 */
static void
release(GateIo *io, bool wake, GatePerformer by)
{
	io->released = true;
	io->by = by;
	if (wake || io_is_local(gate_handle(io)))
		gate_notify(gate_handle(io));
}

/*
 * Claims a held read that has been released or, by this time, held for too long; NULL:
 * there is none.  Reads into local memory only their owner can perform.
 */
static PgAioHandle *
claim_released(IoTime now)
{
	PgAioHandle *claimed = NULL;
	GatePerformer performer = gate->worker == MyProcNumber ? BY_WORKER : BY_ANYBODY;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	foreach_held(io)
	{
		if (io_is_local(gate_handle(io)) ||
			(!gate_is_released_to(io, performer) && io->hold_limit > now))
			continue;
		claimed = gate_handle(io);
		io->hold_expired = !io->released;
		gate_claim(claimed, io);
		break;
	}
	LWLockRelease(gate->lock);

	return claimed;
}

/*
 * Holds no call any longer on account of the filters that there are: others may need a
 * call after the other, and would wait as long for each.  The caller has the lock.
 */
void
gate_lose_calls(void)
{
	gate->calls_lost = io_now();
	foreach_held(io)
	{
		if (io_is_call(gate_handle(io)))
			release(io, true, BY_ANYBODY);
	}
}

/* Performs all that has been released or, by this time, held for too long. */
void
gate_perform_released(IoTime now)
{
	PgAioHandle *ioh;

	while ((ioh = claim_released(now)) != NULL)
		gate_complete(ioh, 0);
}

/*
 * FilterHandler.changed: reads that inj_io_completion_wait() has held go on unless it
 * still holds them, and so do reads and wakeups held by a session that exits.  Reads of
 * devices that have ended are due.  A session that exits leaves reads to others: it can
 * no longer report what it finds in them.
 */
static void
filters_changed(int exiting)
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	foreach_held(io)
	{
		if ((exiting != 0 && io->effect.holder == exiting) ||
			(io->effect.injected && filter_in_force(io->effect.hold_filter, gate_handle(io)) == NULL))
			release(io, exiting != 0, BY_ANYBODY);
	}
	gate_make_due();
	if (exiting != 0 && gate->wakeups_holder == exiting)
		gate_release_wakeups();
	LWLockRelease(gate->lock);

	gate_wake_worker();
	if (exiting == 0)
		gate_perform_released(0);
}

/*
 * FilterHandler.tell_unseen: tells the user which reads pass the filter that he makes.
 */
static void
tell_unseen(void)
{
	if (gate_sees_synchronous)
		return;
	ereport(NOTICE,
			errmsg("the I/O gate does not see synchronous reads on this server"),
			io_method == IOMETHOD_SYNC ?
			errdetail("With \"io_method\" set to \"sync\", all buffered reads are synchronous.") :
			errdetail("Reads of single blocks, for example of indexes and catalogs, are synchronous."),
			errhint("Set \"test_aio.reach_synchronous_reads\" to on and restart the server."));
}

const FilterHandler gate_handler = {
	.tell_unseen = tell_unseen,
	.show_device = gate_show_device,
	.changed = filters_changed,
};

/*
 * Intercepts no more reads, and holds none, because the server shuts down.  Shutdown
 * waits for every session, and a session may wait for a held read without being
 * able to end.  Every waiting process then performs the read that it waits for.
 */
void
gate_close(void)
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->closing = true;
	foreach_held(io)
		release(io, true, BY_ANYBODY);
	gate_make_due();
	gate_release_wakeups();
	LWLockRelease(gate->lock);
	gate_wake_worker();
	/* a session may wait for I/O that it has started itself */
	(void) buffer_io_end(0, IO_TIME_NEVER);
}

static void
choose_result(GateIo *io, int32 result)
{
	io->outcome.has_result = true;
	io->outcome.result = result;
}

/* Reads who is to perform a read, as far as that is possible. */
static GatePerformer
performer_arg(FunctionCallInfo fcinfo, int arg, PgAioHandle *ioh)
{
	static const char *const names[] = {[BY_OWNER] = "owner",[BY_WAITER] = "waiter",[BY_WORKER] = "worker"};
	const char *name = PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
	int			by = BY_OWNER;

	if (name == NULL)
		return BY_ANYBODY;
	while (by < (int) lengthof(names) && strcmp(names[by], name) != 0)
		by++;
	if (by == lengthof(names))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("\"by\" must be \"owner\", \"waiter\" or \"worker\""));
	if (io_is_local(ioh) && by != BY_OWNER)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("only its owner can perform a read of a temporary table, or a system call"));
	if (by == BY_WORKER)
		gate_require_worker();
	return by;
}

/*
 * Releases one held read.  NULL performs it, a number of bytes makes it that
 * short, a negative errno fails it.  This session performs it, or the processes named
 * by "by" do.  Returns false if it is not held.
 */
Datum
io_release(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	int			io_id = PG_GETARG_INT32(1);
	bool		has_result;
	int32		result = 0;
	bool		is_held;
	bool		is_ours;
	PgAioHandle *ioh;
	GateIo	   *io;
	GatePerformer by;

	require_subsystem(fcinfo, &gate_subsystem);
	check_not_null("pid and io_id", PG_ARGISNULL(0) || PG_ARGISNULL(1));
	check_range("io_id", io_id, 0, gate->nios - 1);
	has_result = io_result_arg(fcinfo, 2, &result);

	ioh = io_handle(io_id);
	io = &gate->ios[io_id];
	by = performer_arg(fcinfo, 3, ioh);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	is_held = io->phase == GATE_HELD && !io->released &&
		io_owner_pid(ioh) == pid;
	is_ours = is_held && by == BY_ANYBODY && (!io_is_local(ioh) || ioh->owner_procno == MyProcNumber);
	if (is_held && has_result)
		choose_result(io, result);
	if (is_ours)
		gate_claim(ioh, io);
	else if (is_held)
		release(io, true, by);
	LWLockRelease(gate->lock);
	if (by == BY_WORKER)
		gate_wake_worker();
	if (is_ours)
		gate_complete(ioh, 0);

	PG_RETURN_BOOL(is_held);
}

/*
 * Releases all reads that are held now, by filters of any session.  Returns their number.
 */
Datum
io_release_all(PG_FUNCTION_ARGS)
{
	bool		has_result;
	int32		result = 0;
	int			released = 0;

	require_subsystem(fcinfo, &gate_subsystem);
	has_result = io_result_arg(fcinfo, 0, &result);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	foreach_held(io)
	{
		if (io->released)
			continue;
		if (has_result)
			choose_result(io, result);
		release(io, false, BY_ANYBODY);
		released++;
	}
	LWLockRelease(gate->lock);
	gate_perform_released(0);

	PG_RETURN_INT32(released);
}
