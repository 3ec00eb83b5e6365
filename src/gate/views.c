/*
 * What is held, who waits for it, and what can be held on this server.
 */
#include "gate/gate.h"

#include "catalog/pg_type_d.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/spin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(io_handles_get);
PG_FUNCTION_INFO_V1(io_gate_get);

/* A handle in use, as it was when all of them were copied. */
typedef struct HandleCopy
{
	int			io_id;
	int			pid;
	bool		held;
	GateIo		io;
	PgAioHandle handle;
	const int  *waiters;
	int			nwaiters;
} HandleCopy;

/*
 * Finds the processes that wait for an I/O: they are in line for its condition
 * variable.  Returns how many there are, at most "max".
 */
static int
io_waiters(PgAioHandle *ioh, int *pids, int max)
{
	proclist_mutable_iter iter;
	int			n = 0;

	SpinLockAcquire(&ioh->cv.mutex);
	proclist_foreach_modify(iter, &ioh->cv.wakeup, cvWaitLink)
	{
		if (n < max)
			pids[n++] = GetPGProcByNumber(iter.cur)->pid;
	}
	SpinLockRelease(&ioh->cv.mutex);

	return n;
}

/*
 * Copies the handles in use, as they are at one moment: a read that is submitted before
 * a process is seen to wait is among them.  Returns their number, or -1 if there are more
 * than "max".
 */
static int
copy_handles(HandleCopy *copies, int max, int *waiters, int max_waiters)
{
	int			n = 0;

	LWLockAcquire(gate->lock, LW_SHARED);
	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		HandleCopy *copy = &copies[n];

		if (ioh->state == PGAIO_HS_IDLE)
			continue;
		if (n == max)
		{
			n = -1;
			break;
		}
		copy->io_id = i;
		copy->pid = GetPGProcByNumber(ioh->owner_procno)->pid;
		copy->io = gate->ios[i];
		memcpy(&copy->handle, ioh, sizeof(copy->handle));
		copy->held = copy->io.phase == GATE_HELD && copy->io.generation == copy->handle.generation;
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
put_handle(FunctionCallInfo fcinfo, HandleCopy *copy)
{
	PgAioHandle *ioh = &copy->handle;
	const PgAioTargetData *target = &ioh->target_data;
	Datum	   *waiters = palloc_array(Datum, Max(copy->nwaiters, 1));
	Row			row = {0};

	for (int i = 0; i < copy->nwaiters; i++)
		waiters[i] = Int32GetDatum(copy->waiters[i]);

	row_add(&row, Int32GetDatum(copy->pid));
	row_add(&row, Int32GetDatum(copy->io_id));
	row_add(&row, Int64GetDatum(ioh->generation));
	row_add_text(&row, pgaio_io_get_state_name(ioh));
	row_add(&row, BoolGetDatum(copy->held));
	if (ioh->state != PGAIO_HS_HANDED_OUT && io_is_read(ioh))
	{
		row_add(&row, Int64GetDatum(ioh->op_data.read.offset));
		row_add(&row, Int64GetDatum((int64) target->smgr.nblocks * BLCKSZ));
		row_add_text(&row, pgaio_io_get_target_description(ioh));
		row_add_file(&row, true, &target->smgr.rlocator);
		row_add_text(&row, forkNames[target->smgr.forkNum]);
		row_add(&row, Int64GetDatum(target->smgr.blockNum));
		row_add(&row, Int32GetDatum(target->smgr.nblocks));
	}
	else
		row_add_nulls(&row, 9);
	row_add_if(&row, copy->held && !gate_is_injected(&copy->io), Int32GetDatum(copy->io.effect.hold));
	row_add_if(&row, copy->held, TimestampTzGetDatum(copy->io.since));
	row_add(&row, PointerGetDatum(construct_array_builtin(waiters, copy->nwaiters, INT4OID)));
	row_add(&row, BoolGetDatum(gate_is_local(ioh)));

	row_put(fcinfo, &row);
}

/*
 * Returns the handles in use and who waits for them, in the order of the handles.  The
 * view "io_held" shows those whose reads are held.
 */
Datum
io_handles_get(PG_FUNCTION_ARGS)
{
	/* a process waits for one read at a time */
	int			max_waiters = GATE_MAX_PROCESSES;
	int		   *waiters = palloc_array(int, max_waiters);
	int			max = 16;
	HandleCopy *copies;
	int			n;

	require_subsystem_to_look(fcinfo, &gate_subsystem);
	InitMaterializedSRF(fcinfo, 0);

	/* nothing is allocated under the lock, and few of the handles are in use */
	copies = palloc_array(HandleCopy, max);
	while ((n = copy_handles(copies, max, waiters, max_waiters)) < 0)
	{
		max *= 2;
		copies = repalloc_huge(copies, max * sizeof(HandleCopy));
	}
	for (int i = 0; i < n; i++)
		put_handle(fcinfo, &copies[i]);

	return (Datum) 0;
}

Datum
io_gate_get(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	bool		injected = filters_carrier(FILTER_COMPLETION_WAIT) == CARRIED_BY_INJECTION_POINTS;

	require_monitor(fcinfo);

	row_add_text(&row, GetConfigOptionByName("io_method", NULL, false));
	row_add(&row, BoolGetDatum(gate != NULL));
	row_add_text(&row, gate == NULL ? gate_subsystem.unavailable.reason : NULL);
	if (gate != NULL)
		row_add_text(&row, injected ? "both" : "gate");
	else
		row_add_text(&row, injected ? "injection points" : NULL);
	row_add_if(&row, gate != NULL, BoolGetDatum(gate_sees_synchronous));
	row_add_if(&row, gate != NULL && gate->worker_pid != 0, Int32GetDatum(gate != NULL ? gate->worker_pid : 0));
	row_add_if(&row, gate != NULL, Int32GetDatum(gate != NULL ? gate->nheld : 0));

	return row_result(fcinfo, &row);
}
