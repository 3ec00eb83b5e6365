/*
 * Simulated storage devices, and when a read is due on them.
 *
 * That is settled when the read is submitted.  A device has as many slots as
 * its queue is deep; a read goes to the slot that is free first, begins when
 * it is, and is due a latency later.  So a read that is completed late does not
 * make those behind it late as well, and the worker has nothing to do but to
 * complete what is due.
 */
#include "gate/gate.h"

#include "common/pg_prng.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(io_device);
PG_FUNCTION_INFO_V1(io_device_end);
PG_FUNCTION_INFO_V1(io_devices_get);
PG_FUNCTION_INFO_V1(io_device_reads_get);

#define MAX_LATENCY_S 60

/*
 * Returns the device that matches a read, or -1.  One for a relation comes before
 * one for all.
 */
static int
find_device(PgAioHandle *ioh, uint64 *id)
{
	int			found = -1;

	*id = 0;
	if (gate->ndevices == 0)
		return -1;

	LWLockAcquire(gate->lock, LW_SHARED);
	for (int i = 0; i < GATE_MAX_DEVICES; i++)
	{
		GateDevice *device = &gate->devices[i];

		if (!device->in_use || !io_matches(&device->match, ioh))
			continue;
		found = i;
		if (device->match.has_rel)
			break;
	}
	if (found >= 0)
		*id = gate->devices[found].id;
	LWLockRelease(gate->lock);

	return found;
}

/*
 * Returns the device that is to serve a read that is being staged, or -1.  A device
 * serves nothing without the worker.
 */
int
gate_find_device(PgAioHandle *ioh, uint64 *id)
{
	int			found = find_device(ioh, id);

	if (found >= 0 && gate->worker == INVALID_PROC_NUMBER)
	{
		gate_count_device_escape(ioh, ESCAPE_NO_WORKER);
		return -1;
	}
	return found;
}

/*
 * Counts a read that a device matches and does not get.  Called in critical
 * sections, too.
 */
void
gate_count_device_escape(PgAioHandle *ioh, FilterEscape reason)
{
	uint64		id;
	int			found = find_device(ioh, &id);

	if (found < 0)
		return;
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	if (gate->devices[found].id == id)
	{
		gate->devices[found].escaped++;
		gate->devices[found].why_escaped = reason;
	}
	LWLockRelease(gate->lock);
}

static int64
read_length(PgAioHandle *ioh)
{
	return (int64) ioh->target_data.smgr.nblocks * BLCKSZ;
}

/* Returns when a read that is submitted now is due, and books its slot. */
static IoTime
schedule(GateDevice *device, int64 nbytes, IoTime now)
{
	double		deviation = 0;
	int			slot = 0;
	IoTime		begin;
	IoTime		end;

	for (int i = 1; i < device->depth; i++)
	{
		if (device->slot_free[i] < device->slot_free[slot])
			slot = i;
	}

	if (device->jitter > 0)
		deviation = device->jitter * (2 * pg_prng_double(&pg_global_prng_state) - 1);

	begin = Max(now, device->slot_free[slot]);
	end = begin + (IoTime) (device->latency * (1 + deviation));
	if (device->bytes_per_second > 0)
	{
		device->bus_free = Max(begin, device->bus_free) +
			(IoTime) ((double) nbytes * NS_PER_S / device->bytes_per_second);
		device->bus_free = Min(device->bus_free, now + device->longest);
		end = Max(end, device->bus_free);
	}
	end = Min(end, now + device->longest);
	device->slot_free[slot] = end;

	return end;
}

/*
 * Gives a read to its device, or, if an I/O worker would perform it, to the gate's worker,
 * which performs it at once.  Returns false if neither can take the read; the caller then
 * performs it.  The caller has the lock.
 */
bool
gate_start_due(PgAioHandle *ioh, GateIo *io, IoTime now)
{
	bool		worker_is_ready = gate->worker != INVALID_PROC_NUMBER && !gate->closing;
	GateDevice *device = gate_device_of(io);

	io->submitted = now;
	/* either may have gone since the read was staged */
	if (device == NULL || !worker_is_ready)
	{
		/* the read has nothing to do with the device any more */
		io->device = -1;
		if (io_method != IOMETHOD_WORKER || gate_is_local(ioh) || !worker_is_ready)
			return false;
		io->due = 0;
	}
	else
	{
		io->due = schedule(device, read_length(ioh), now);
		device->in_flight++;
	}
	io->phase = GATE_DUE;

	/* what only the owner can perform, it does when it waits */
	if (!gate_is_local(ioh))
		pairingheap_add(&gate->due, &io->due_node);

	return true;
}

/*
 * Counts a read that a process has taken to perform it.  This comes before
 * the read completes, so that a session that gets the blocks finds the read
 * counted.  The caller has the lock.
 */
void
gate_count_served(PgAioHandle *ioh, bool by_worker)
{
	const GateIo *io = gate_io(ioh);
	GateDevice *device;

	if (io->device < 0)
		return;

	gate->devices[io->device].in_flight--;
	device = gate_device_of(io);
	if (device == NULL)
		return;
	device->reads++;
	device->bytes += read_length(ioh);
	if (!by_worker)
		device->by_waiters++;
}

/*
 * Captures no more reads, and holds none, because the server shuts down.  Shutdown
 * waits for every session, and a session may wait for a held read without being
 * able to end.  Every waiting process then performs the read that it waits for.
 */
void
gate_close(void)
{
	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate->closing = true;
	gate_hurry_due();
	gate_release_wakeups();
	LWLockRelease(gate->lock);
}

/*
 * Ends devices: those of a session, or for a relation, or without a holder of a
 * database, or all.  Returns how many.
 */
int
gate_end_devices(int holder, const IoMatch *match, Oid database)
{
	int			ended = 0;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < GATE_MAX_DEVICES; i++)
	{
		GateDevice *device = &gate->devices[i];

		if (!device->in_use ||
			(holder != 0 && device->holder != holder) ||
			(match != NULL && !io_match_is_same(&device->match, match)) ||
			(OidIsValid(database) && (device->holder != 0 || device->database != database)))
			continue;
		device->in_use = false;
		gate->ndevices--;
		ended++;
	}
	if (ended > 0)
		gate_hurry_due();
	LWLockRelease(gate->lock);

	if (ended > 0)
		gate_wake_worker();

	return ended;
}

static IoTime
get_latency(FunctionCallInfo fcinfo, int arg)
{
	Interval   *latency;

	check_not_null("latency", PG_ARGISNULL(arg));

	latency = PG_GETARG_INTERVAL_P(arg);
	if (INTERVAL_NOT_FINITE(latency) || latency->month != 0 || latency->day != 0 ||
		latency->time < 0 || latency->time > MAX_LATENCY_S * USECS_PER_SEC)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("latency must be between 0 and %d seconds", MAX_LATENCY_S)));

	return latency->time * 1000;
}

/* Waits until the worker is there; it takes a moment after server start. */
static void
require_worker(void)
{
	for (int i = 0; gate->worker == INVALID_PROC_NUMBER; i++)
	{
		if (i == 500)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the background worker of the I/O gate is not running"),
					 errhint("\"max_worker_processes\" may be too low.")));
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
}

/*
 * Replaces the device for the same relation, whose reads are performed at once, or
 * puts the device in a free place.
 */
static void
add_device(const GateDevice *new_device)
{
	int			place = -1;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < GATE_MAX_DEVICES; i++)
	{
		GateDevice *device = &gate->devices[i];

		if (device->in_use && io_match_is_same(&device->match, &new_device->match))
		{
			place = i;
			break;
		}
		/* a former device's reads are still counted where they came from */
		if (!device->in_use && device->in_flight == 0 && place < 0)
			place = i;
	}
	if (place >= 0)
	{
		int64		in_flight = gate->devices[place].in_flight;

		gate->ndevices += !gate->devices[place].in_use;
		gate->devices[place] = *new_device;
		gate->devices[place].id = ++gate->last_device_id;
		gate->devices[place].in_flight = in_flight;
		gate_hurry_due();
	}
	LWLockRelease(gate->lock);
	gate_wake_worker();

	if (place < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are too many devices already"),
				 errdetail("There can be %d at once.", GATE_MAX_DEVICES)));
}

/*
 * Simulates a device: from now on matching reads take at least this long, and
 * at most "queue_depth" of them are served at once.  With jitter, the latency
 * is spread evenly between (1 - jitter) and (1 + jitter) times what it is.
 */
Datum
io_device(PG_FUNCTION_ARGS)
{
	GateDevice *device;

	require_subsystem(fcinfo, &gate_subsystem);

	device = palloc0_object(GateDevice);
	device->in_use = true;
	device->latency = get_latency(fcinfo, 0);

	check_not_null("queue_depth and jitter", PG_ARGISNULL(1) || PG_ARGISNULL(2));
	check_range("queue_depth", PG_GETARG_INT32(1), 1, GATE_MAX_DEPTH);
	device->depth = PG_GETARG_INT32(1);
	device->jitter = PG_GETARG_FLOAT8(2);
	if (!(device->jitter >= 0 && device->jitter <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("jitter must be between 0 and 1")));
	if (!PG_ARGISNULL(3))
	{
		check_range("bytes_per_second", PG_GETARG_INT64(3), 1, PG_INT64_MAX);
		device->bytes_per_second = PG_GETARG_INT64(3);
	}

	/*
	 * who waits may have locked a page, and others need it who listen to
	 * nobody
	 */
	device->longest = filters_hold_timeout();
	device->match = io_match_rel_arg(fcinfo, 4);
	device->holder = filters_holder_arg(fcinfo, 5);
	device->database = MyDatabaseId;

	gate_tell_unseen();
	require_worker();
	if (device->holder != 0)
		filters_end_with_session();
	add_device(device);
	pfree(device);

	PG_RETURN_VOID();
}

/*
 * Ends the device for a relation, or all.  The reads on them are performed at once.
 * Returns how many have ended.
 */
Datum
io_device_end(PG_FUNCTION_ARGS)
{
	IoMatch		match;

	require_subsystem(fcinfo, &gate_subsystem);

	match = io_match_rel_arg(fcinfo, 0);

	PG_RETURN_INT32(gate_end_devices(0, match.has_rel ? &match : NULL, InvalidOid));
}

Datum
io_devices_get(PG_FUNCTION_ARGS)
{
	GateDevice *device;

	require_subsystem_to_look(fcinfo, &gate_subsystem);
	InitMaterializedSRF(fcinfo, 0);
	device = palloc_object(GateDevice);

	for (int i = 0; i < GATE_MAX_DEVICES; i++)
	{
		Row			row = {0};
		int64		by_worker;
		int64		in_progress;

		LWLockAcquire(gate->lock, LW_SHARED);
		*device = gate->devices[i];
		LWLockRelease(gate->lock);
		if (!device->in_use)
			continue;

		by_worker = device->reads - device->by_waiters;
		in_progress = Min(device->in_flight, device->depth);

		row_add_file(&row, device->match.has_rel, &device->match.rlocator);
		row_add(&row, Float8GetDatum((double) device->latency / NS_PER_MS));
		row_add(&row, Int32GetDatum(device->depth));
		row_add(&row, Float8GetDatum(device->jitter));
		row_add_if(&row, device->bytes_per_second != 0, Int64GetDatum(device->bytes_per_second));
		row_add(&row, Int64GetDatum(device->reads));
		row_add(&row, Int64GetDatum(device->bytes));
		row_add(&row, Int64GetDatum(in_progress));
		row_add(&row, Int64GetDatum(device->in_flight - in_progress));
		row_add_if(&row, by_worker != 0, Float8GetDatum(by_worker > 0 ? device->lateness_sum / by_worker / 1000.0 : 0));
		row_add_if(&row, by_worker != 0, Float8GetDatum(device->lateness_max / 1000.0));
		row_add(&row, Int64GetDatum(device->escaped));
		row_add_text(&row, escape_reason(device->why_escaped));
		row_add_if(&row, device->holder != 0, Int32GetDatum(device->holder));

		row_put(fcinfo, &row);
	}

	return (Datum) 0;
}

Datum
io_device_reads_get(PG_FUNCTION_ARGS)
{
	IoTime		now = io_now();

	require_subsystem_to_look(fcinfo, &gate_subsystem);
	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < gate->nios; i++)
	{
		Row			row = {0};
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		PgAioTargetData target;
		GateIo		io;
		int			pid;

		if (gate->ios[i].phase != GATE_DUE)
			continue;
		LWLockAcquire(gate->lock, LW_SHARED);
		io = gate->ios[i];
		target = ioh->target_data;
		pid = GetPGProcByNumber(ioh->owner_procno)->pid;
		LWLockRelease(gate->lock);
		if (io.phase != GATE_DUE || io.device < 0)
			continue;

		row_add(&row, Int32GetDatum(pid));
		row_add(&row, Int32GetDatum(i));
		row_add(&row, Int64GetDatum(io.generation));
		row_add_file(&row, true, &target.smgr.rlocator);
		row_add_text(&row, forkNames[target.smgr.forkNum]);
		row_add(&row, Int64GetDatum(target.smgr.blockNum));
		row_add(&row, Int32GetDatum(target.smgr.nblocks));
		/* without a time when its device has ended, or the server stops */
		row_add_if(&row, io.due != 0, Float8GetDatum((double) (io.due - io.submitted) / NS_PER_MS));
		row_add_if(&row, io.due != 0, Float8GetDatum((double) (io.due - now) / NS_PER_MS));

		row_put(fcinfo, &row);
	}

	return (Datum) 0;
}
