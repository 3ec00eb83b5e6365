/*
 * Holding and delaying system calls that write, extend, truncate or sync.
 *
 * No other process can make such a call, so its own process waits, as for a read of a
 * temporary table.  It may be in a critical section, and have pages or WALWriteLock
 * locked.  So it sleeps on a futex, which takes no latch from the server, and it
 * allocates, raises and logs nothing.
 */
#include "gate/gate.h"

#include <unistd.h>

#include "postmaster/interrupt.h"

/*
 * Returns why this process may not wait, or BYPASS_NONE.  Auxiliary processes do not reset
 * InterruptPending.
 */
static FilterBypass
reason_to_go_on(bool stopping)
{
	if (gate->closing || stopping)
		return BYPASS_SHUTDOWN;
	if (proc_exit_inprogress)
		return BYPASS_EXIT;
	if (MyProcNumber < MaxBackends ? InterruptPending : ProcSignalBarrierPending || ShutdownRequestPending || ProcDiePending)
		return BYPASS_WAITER;
	return BYPASS_NONE;
}

/*
 * Waits until the call is released, or until a moment, which others may change.  Returns
 * why the wait has ended, BYPASS_NONE if the call was released.
 */
static FilterBypass
wait_until(GateIo *io, const volatile IoTime *moment, uint32 wait_event)
{
	static bool stopping = false;
	uint32		former_event = *my_wait_event_info;
	FilterBypass reason = BYPASS_NONE;

	pgstat_report_wait_start(wait_event);
	while (!io->released && reason == BYPASS_NONE)
	{
		uint32		wakes = io->wakes;
		IoTime		now = io_now();
		IoTime		until = *moment;

		reason = now >= until ? BYPASS_TIMEOUT : reason_to_go_on(stopping);
		if (reason != BYPASS_NONE || io->released)
			continue;
		gate_sleep(io, wakes, Min(until - now, LOOK_EVERY));
		if (io_now() - now >= LOOK_EVERY)
			stopping = server_is_stopping() || getppid() != PostmasterPid;
	}
	pgstat_report_wait_start(former_event);

	return io->released ? BYPASS_NONE : reason;
}

/* Holds a call of this process, unless the filter has ended. */
void
gate_hold_call(PgAioHandle *ioh)
{
	GateIo	   *io = gate_io(ioh);
	const Filter *filter;
	FilterBypass reason;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	filter = gate->closing ? NULL : filter_in_force(io->effect.hold_filter, ioh);
	if (filter != NULL && filter->limits.made <= gate->calls_lost)
		filter = NULL;
	if (filter != NULL)
		gate_start_hold(io, filter, io_now());
	LWLockRelease(gate->lock);
	if (filter == NULL)
		return;

	reason = wait_until(io, &io->hold_limit, gate->wait_event_held);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	dclist_delete_from(&gate->held, &io->held_node);
	io->phase = GATE_CLAIMED;
	if (io->released)
		reason = BYPASS_NONE;
	if (reason == BYPASS_TIMEOUT)
		gate_lose_calls();
	LWLockRelease(gate->lock);
	if (reason != BYPASS_NONE)
		filters_count_bypass(FILTER_HOLD, ioh, reason);
}

/* Waits until a call of this process, which has been made, is due on its device. */
void
gate_delay_call(PgAioHandle *ioh, IoTime submitted)
{
	GateIo	   *io = gate_io(ioh);
	bool		is_queued;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	io->released = false;
	is_queued = gate_start_queued(ioh, io, filter_in_force(io->effect.device_filter, ioh), submitted, false);
	LWLockRelease(gate->lock);
	if (!is_queued)
		return;

	(void) wait_until(io, &io->due, gate->wait_event_device);

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate_count_served(ioh, false);
	io->phase = GATE_CLAIMED;
	LWLockRelease(gate->lock);
}
