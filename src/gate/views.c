/*
 * What is held, who waits for it, and what can be held on this server.
 */
#include "gate/gate.h"

#include "access/htup_details.h"
#include "aio/waiters.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(io_held_get);
PG_FUNCTION_INFO_V1(io_gate_get);

/*
 * Returns an array of pids as SQL sees it.
 */
Datum
io_pids_array(const int *pids, int n)
{
	Datum	   *elements = palloc_array(Datum, Max(n, 1));

	for (int i = 0; i < n; i++)
		elements[i] = Int32GetDatum(pids[i]);

	return PointerGetDatum(construct_array_builtin(elements, n, INT4OID));
}

/* A held read and those who wait for it, copied under the gate's lock. */
typedef struct HeldCopy
{
	int			io_id;
	int			pid;
	GateIo		io;
	PgAioHandle handle;
	int			first_waiter;	/* in the array of all waiters */
	int			nwaiters;
} HeldCopy;

/*
 * Copies all held reads as they are at one moment: a read that is submitted before a process
 * is seen to wait is among them.  Nothing is allocated under the lock.  Returns their
 * number, or -1 if there are more than "max".
 */
static int
copy_held(HeldCopy *copies, int max, int *waiters, int max_waiters)
{
	int			nheld;
	int			nwaiters = 0;

	LWLockAcquire(gate->lock, LW_SHARED);
	nheld = gate->nheld;
	for (int i = 0; i < nheld && nheld <= max; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[gate->held[i]];
		HeldCopy   *copy = &copies[i];

		copy->io_id = gate->held[i];
		copy->io = gate->ios[copy->io_id];
		memcpy(&copy->handle, ioh, sizeof(copy->handle));
		copy->pid = GetPGProcByNumber(ioh->owner_procno)->pid;
		copy->first_waiter = nwaiters;
		copy->nwaiters = io_waiters(ioh, waiters + nwaiters, max_waiters - nwaiters);
		nwaiters += copy->nwaiters;
	}
	LWLockRelease(gate->lock);

	return nheld <= max ? nheld : -1;
}

static int
compare_held(const void *a, const void *b)
{
	return ((const HeldCopy *) a)->io_id - ((const HeldCopy *) b)->io_id;
}

static void
put_held(ReturnSetInfo *rsinfo, HeldCopy *copy, const int *waiters)
{
	const PgAioTargetData *target = &copy->handle.target_data;
	Datum		values[16] = {0};
	bool		nulls[16] = {0};

	values[0] = Int32GetDatum(copy->pid);
	values[1] = Int32GetDatum(copy->io_id);
	values[2] = Int64GetDatum(copy->io.generation);
	values[3] = Int64GetDatum(copy->handle.op_data.read.offset);
	values[4] = Int64GetDatum((int64) target->smgr.nblocks * BLCKSZ);
	values[5] = CStringGetTextDatum(pgaio_io_get_target_description(&copy->handle));
	values[6] = ObjectIdGetDatum(target->smgr.rlocator.spcOid);
	values[7] = ObjectIdGetDatum(target->smgr.rlocator.dbOid);
	values[8] = ObjectIdGetDatum(target->smgr.rlocator.relNumber);
	values[9] = CStringGetTextDatum(forkNames[target->smgr.forkNum]);
	values[10] = Int64GetDatum(target->smgr.blockNum);
	values[11] = Int32GetDatum(target->smgr.nblocks);
	values[12] = Int32GetDatum(copy->io.effect.hold);
	nulls[12] = gate_is_injected(&copy->io);
	values[13] = TimestampTzGetDatum(copy->io.since);
	values[14] = io_pids_array(waiters + copy->first_waiter, copy->nwaiters);
	values[15] = BoolGetDatum(copy->handle.flags & PGAIO_HF_REFERENCES_LOCAL);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * io_held_get() returns setof record
 *
 * The reads that are held, at one moment; the view "io_held" puts names to them.
 */
Datum
io_held_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HeldCopy   *copies;
	int		   *waiters;
	int			max_waiters = MaxBackends + NUM_AUXILIARY_PROCS;
	int			max;
	int			n;

	require_gate_to_look(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	/* a process waits for one read at a time */
	waiters = palloc_array(int, max_waiters);

	/* more may be held when we come to look */
	do
	{
		max = gate->nheld + 16;
		copies = palloc_array(HeldCopy, max);
		n = copy_held(copies, max, waiters, max_waiters);
	} while (n < 0);

	qsort(copies, n, sizeof(HeldCopy), compare_held);
	for (int i = 0; i < n; i++)
		put_held(rsinfo, &copies[i], waiters);

	return (Datum) 0;
}

static void
add_text(ArrayBuildState **array, const char *text)
{
	*array = accumArrayResult(*array, CStringGetTextDatum(text), false,
							  TEXTOID, CurrentMemoryContext);
}

static Datum
text_array(ArrayBuildState *array)
{
	if (array == NULL)
		return PointerGetDatum(construct_empty_array(TEXTOID));
	return makeArrayResult(array, CurrentMemoryContext);
}

/*
 * Sorts the kinds of read by whether the gate can capture them on this server.
 */
static void
sort_kinds(ArrayBuildState **captured, ArrayBuildState **passing)
{
	bool		synchronous = gate != NULL && gate_sees_synchronous;

	if (gate == NULL)
	{
		add_text(passing, psprintf("all: %s", subsystem_unavailable(&gate_subsystem)->reason));
		return;
	}

	if (io_method != IOMETHOD_SYNC || synchronous)
		add_text(captured, "asynchronous reads into shared buffers and temporary tables");
	if (synchronous)
		add_text(captured, "synchronous reads, such as of single blocks of indexes and catalogs");
	else if (io_method == IOMETHOD_SYNC)
		add_text(passing, "buffered reads: with io_method=sync all of them are synchronous, and \"test_aio.reach_synchronous_reads\" is off");
	else
		add_text(passing, "synchronous reads, such as of single blocks of indexes and catalogs, streams with effective_io_concurrency = 0, and (19) lone misses of a stream: the I/O method never sees them, and \"test_aio.reach_synchronous_reads\" is off");
	add_text(passing, "reads of processes that cannot be interrupted or are about to exit: startup, checkpointer, background writer, autovacuum launcher, anyone in a critical section");
	add_text(passing, "reads that bypass the buffer manager's asynchronous path: smgrread(), as for WAL-logged copies");
}

/*
 * io_gate_get() returns record
 *
 * Returns what can be held on this server, for the view "io_gate".
 */
Datum
io_gate_get(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[8] = {0};
	bool		nulls[8] = {0};
	ArrayBuildState *captured = NULL;
	ArrayBuildState *passing = NULL;
	const FilterHandler *handler = filters_handler(FILTER_COMPLETION_WAIT);

	require_monitor(fcinfo);

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	sort_kinds(&captured, &passing);

	values[0] = CStringGetTextDatum(GetConfigOptionByName("io_method", NULL, false));
	values[1] = BoolGetDatum(gate != NULL);
	if (gate == NULL)
		values[2] = CStringGetTextDatum(subsystem_unavailable(&gate_subsystem)->reason);
	else
		nulls[2] = true;
	if (gate != NULL)
		values[3] = CStringGetTextDatum(handler == &gate_handler || handler == NULL ? "gate" : "both");
	else if (handler != NULL)
		values[3] = CStringGetTextDatum(handler->name);
	else
		nulls[3] = true;
	values[4] = text_array(captured);
	values[5] = text_array(passing);
	if (gate != NULL && gate->worker_pid != 0)
		values[6] = Int32GetDatum(gate->worker_pid);
	else
		nulls[6] = true;
	if (gate != NULL)
		values[7] = Int32GetDatum(gate->nheld);
	else
		nulls[7] = true;

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}
