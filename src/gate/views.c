/*
 * What is held, who waits for it, and what can be held on this server.
 */
#include "gate/gate.h"

#include "storage/proclist.h"
#include "storage/spin.h"

PG_FUNCTION_INFO_V1(io_handles_get);
PG_FUNCTION_INFO_V1(io_gate_get);

/* A handle in use, as it was when all of them were copied. */
typedef struct HandleCopy
{
	int			io_id;
	int			pid;
	GateIo		io;
	PgAioHandle handle;
	const int  *waiters;
	int			nwaiters;
} HandleCopy;

/* Gets those who wait for an I/O: they are in line for its condition variable. */
static int
io_waiters(PgAioHandle *ioh, int *pids, int max)
{
	proclist_mutable_iter iter;
	int			n = 0;

	SpinLockAcquire(&ioh->cv.mutex);
	proclist_foreach_modify(iter, &ioh->cv.wakeup, cvWaitLink)
		if (n < max)
		pids[n++] = GetPGProcByNumber(iter.cur)->pid;
	SpinLockRelease(&ioh->cv.mutex);

	return n;
}

/*
 * Copies the handles in use as they are at one moment, so that a read that was
 * submitted before a process is seen to wait is among them.  Returns their number.
 */
static int
copy_handles(HandleCopy *copies, int *waiters, int max_waiters)
{
	int			n = 0;

	LWLockAcquire(gate->lock, LW_SHARED);
	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = io_handle(i);
		HandleCopy *copy = &copies[n];

		if (ioh->state == PGAIO_HS_IDLE)
			continue;
		copy->io_id = i;
		copy->pid = io_owner_pid(ioh);
		copy->io = gate->ios[i];
		memcpy(&copy->handle, ioh, sizeof(copy->handle));
		if (copy->handle.state == PGAIO_HS_IDLE)
			continue;
		copy->waiters = waiters;
		copy->nwaiters = io_waiters(ioh, waiters, max_waiters);
		waiters += copy->nwaiters;
		max_waiters -= copy->nwaiters;
		n++;
	}
	LWLockRelease(gate->lock);

	return n;
}

static void
put_handle(Row *row, HandleCopy *copy, IoTime now)
{
	PgAioHandle *ioh = &copy->handle;
	bool		held = copy->io.phase == GATE_HELD && copy->io.generation == ioh->generation;
	bool		is_call = copy->io_id >= (int) pgaio_ctl->io_handle_count;

	row_set(row, "pid", Int32GetDatum(copy->pid));
	row_set(row, "io_id", Int32GetDatum(copy->io_id));
	row_set(row, "io_generation", Int64GetDatum(ioh->generation));
	row_set_text(row, "state", pgaio_io_get_state_name(ioh));
	row_set(row, "held", BoolGetDatum(held));
	if (ioh->state != PGAIO_HS_HANDED_OUT && ioh->target == PGAIO_TID_SMGR)
	{
		row_set_text(row, "op", io_op_names(IO_OP_BIT(ioh->op)));
		row_set(row, "off", Int64GetDatum(ioh->op_data.read.offset));
		io_set_target(row, &ioh->target_data);
	}
	row_set_if(row, "filter", held && !copy->io.effect.injected, Int32GetDatum(copy->io.effect.hold_filter));
	row_set_if(row, "since", held, TimestampTzGetDatum(copy->io.since));
	/* for a system call, only its own process is known to wait */
	row_set_ints(row, "waiters", is_call ? &copy->pid : copy->waiters, is_call ? 1 : copy->nwaiters);
	if (copy->io.phase == GATE_QUEUED && copy->io.effect.device_filter != 0 && copy->io.generation == ioh->generation)
	{
		row_set(row, "device", Int32GetDatum(copy->io.effect.device_filter));
		/* without a time when its device has ended, or the server stops */
		row_set_ms(row, "service_time", copy->io.due != 0, copy->io.due - copy->io.submitted);
		row_set_ms(row, "due_in", copy->io.due != 0, copy->io.due - now);
	}
	row_set(row, "f_localmem", BoolGetDatum(ioh->target == PGAIO_TID_SMGR && ioh->target_data.smgr.is_temp));

	row_put(row);
}

/* Returns the handles in use and who waits for them; "io_held" shows those held. */
Datum
io_handles_get(PG_FUNCTION_ARGS)
{
	/* a process waits for one read at a time */
	int			max_waiters = IO_MAX_PROCESSES;
	int		   *waiters = palloc_array(int, max_waiters);
	HandleCopy *copies;
	IoTime		now;
	int			n;
	Row		   *row = begin_view(fcinfo, &gate_subsystem);

	/* before the lock; memory for handles not in use is not touched */
	copies = palloc_extended(gate->nios * sizeof(HandleCopy), MCXT_ALLOC_HUGE);
	n = copy_handles(copies, waiters, max_waiters);
	now = io_now();
	for (int i = 0; i < n; i++)
		put_handle(row, &copies[i], now);

	return (Datum) 0;
}

Datum
io_gate_get(PG_FUNCTION_ARGS)
{
	FilterCarrier carrier = filter_carriers[FILTER_COMPLETION_WAIT];
	Row		   *row;

	require_monitor(fcinfo);
	row = row_begin(fcinfo);

	row_set_text(row, "io_method", GetConfigOptionByName("io_method", NULL, false));
	row_set(row, "gate", BoolGetDatum(gate != NULL));
	row_set_text(row, "handler", carrier == CARRIED_BY_GATE ? "gate" :
				 carrier == CARRIED_BY_INJECTION_POINTS ? "injection points" : NULL);
	if (gate != NULL)
	{
		row_set(row, "synchronous", BoolGetDatum(gate_sees_synchronous));
		row_set(row, "writes", BoolGetDatum(io_calls_unavailable.reason == NULL));
		/* the worker resets its number before it exits */
		LWLockAcquire(gate->lock, LW_SHARED);
		if (gate->worker != INVALID_PROC_NUMBER)
			row_set(row, "worker", Int32GetDatum(GetPGProcByNumber(gate->worker)->pid));
		LWLockRelease(gate->lock);
		row_set(row, "held", Int32GetDatum(dclist_count(&gate->held)));
	}
	else
		row_set_text(row, "why_not", gate_subsystem.unavailable.reason);

	return row_result(row);
}
