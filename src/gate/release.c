/*-------------------------------------------------------------------------
 *
 * release.c
 *		Performing and completing captured reads, in whatever process.
 *
 * Whoever is about to complete a read takes it first, under the gate's lock;
 * then it has it for itself, and completes it without the lock.  To complete
 * another process's read is nothing unusual: I/O workers do nothing else.
 *
 * src/gate/release.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "faults.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "trace/trace.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(io_release);
PG_FUNCTION_INFO_V1(io_release_all);

/*
 * Begins a hold that was decided upon.  The caller has the lock.
 */
void
gate_start_hold(PgAioHandle *ioh, GateIo *io, GateTime now)
{
	io->phase = GATE_HELD;
	io->hold_limit += now;
	io->since = GetCurrentTimestamp();
	io->held_index = gate->nheld;
	gate->held[gate->nheld++] = ioh - pgaio_ctl->io_handles;
	if (io->injected && !(ioh->flags & PGAIO_HF_REFERENCES_LOCAL))
		gate->nstopped++;
}

/*
 * Takes a read that is held or due.  The caller has the lock.
 */
void
gate_take(PgAioHandle *ioh, GateIo *io)
{
	if (io->phase == GATE_HELD)
	{
		uint32		last = gate->held[--gate->nheld];

		gate->held[io->held_index] = last;
		gate->ios[last].held_index = io->held_index;
		if (io->injected && !(ioh->flags & PGAIO_HF_REFERENCES_LOCAL))
			gate->nstopped--;
	}
	io->phase = GATE_PASSED;
}

static int
perform_read(PgAioHandle *ioh)
{
	ssize_t		nbytes;

	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
	nbytes = pg_preadv(ioh->op_data.read.fd, &pgaio_ctl->iovecs[ioh->iovec_off],
					   ioh->op_data.read.iov_length, ioh->op_data.read.offset);
	pgstat_report_wait_end();

	return nbytes < 0 ? -errno : nbytes;
}

/*
 * The read itself, and what it is to end with.
 */
static int
perform_or_pretend(PgAioHandle *ioh, bool has_result, int32 result)
{
	int			nbytes;

	if (has_result && result < 0)
		return result;

	nbytes = perform_read(ioh);
	if (has_result && result < nbytes)
	{
		zero_rest_of_read(ioh, result);
		nbytes = result;
	}

	return nbytes;
}

static void
completion_context(void *arg)
{
	PgAioHandle *ioh = arg;
	int			owner = GetPGProcByNumber(ioh->owner_procno)->pid;

	if (ioh->owner_procno == MyProcNumber)
		return;

	/* what the server would say in these cases, lest log lines differ */
	if (gate->worker_pid == MyProcPid && io_method == IOMETHOD_WORKER)
		errcontext("I/O worker executing I/O on behalf of process %d", owner);
	else
		errcontext("completing I/O on behalf of process %d", owner);
}

static void
complete(PgAioHandle *ioh, int result)
{
	ErrorContextCallback context = {
		.callback = completion_context,
		.arg = ioh,
		.previous = error_context_stack,
	};

	error_context_stack = &context;
	START_CRIT_SECTION();
	trace_process_completion(ioh, result);
	END_CRIT_SECTION();
	error_context_stack = context.previous;
}

/*
 * Performs a read in the process that submits it, which has the file open.
 * Called in a critical section.
 */
void
gate_perform_at_submission(PgAioHandle *ioh, bool has_result, int32 result)
{
	complete(ioh, perform_or_pretend(ioh, has_result, result));
}

/*
 * Opens the file of a read in this process.  That can fail, for want of memory
 * or because the file is gone; the read must end all the same, and with an
 * error of its own, so nothing is raised here.
 */
static bool
reopen(PgAioHandle *ioh)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool reopened = false;

	PG_TRY();
	{
		pgaio_io_reopen(ioh);
		reopened = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		/* raising an error has forgotten about these */
		InterruptHoldoffCount = holdoff;
		ereport(LOG,
				(errmsg("could not reopen the file of a read: %s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();

	return reopened;
}

/*
 * Waits for a moment that is very near.
 */
static void
spin_until(GateTime when)
{
	while (when != 0 && gate_now() < when)
		SPIN_DELAY();
}

/*
 * Says that a hold has lasted too long.
 */
void
gate_report_too_long(PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;

	ereport(WARNING,
			(errmsg("read of blocks %u..%u of relation %u/%u/%u by process %d was held for too long",
					td->smgr.blockNum, td->smgr.blockNum + td->smgr.nblocks - 1,
					td->smgr.rlocator.spcOid, td->smgr.rlocator.dbOid,
					td->smgr.rlocator.relNumber,
					GetPGProcByNumber(ioh->owner_procno)->pid),
			 errdetail("It is performed now, after the \"test_aio.longest_hold\" of the hold.")));
}

/*
 * Performs a read that the caller has taken, and completes it, though not
 * before some moment.
 */
void
gate_perform(PgAioHandle *ioh, bool has_result, int32 result,
			 GateTime not_before)
{
	Assert(CritSectionCount == 0);

	/*
	 * Lest the file is closed between opening and reading, or an interrupt
	 * leaves nobody to complete the read.
	 */
	HOLD_INTERRUPTS();

	if (gate_io(ioh)->too_long)
		gate_report_too_long(ioh);

	if (!(has_result && result < 0))
	{
		if (reopen(ioh))
			result = perform_or_pretend(ioh, has_result, result);
		else
			result = -ENOENT;
	}
	spin_until(not_before);
	complete(ioh, result);

	RESUME_INTERRUPTS();
}

/*
 * Releases one held read: performs it, or leaves that to its owner if it reads
 * into local memory.  The caller has the lock, and loses it.
 */
static void
release_and_unlock(PgAioHandle *ioh, GateIo *io, bool has_result, int32 result)
{
	if (has_result)
	{
		io->has_result = true;
		io->result = result;
	}

	if ((ioh->flags & PGAIO_HF_REFERENCES_LOCAL) &&
		ioh->owner_procno != MyProcNumber)
	{
		io->released = true;
		LWLockRelease(gate->lock);
		ConditionVariableBroadcast(&ioh->cv);
		return;
	}

	has_result = io->has_result;
	result = io->result;
	gate_take(ioh, io);
	LWLockRelease(gate->lock);

	gate_perform(ioh, has_result, result, 0);
}

/*
 * Releases all held reads that match, of those that are held now.  Returns
 * their number.
 */
int
gate_release_matching(bool (*matches) (PgAioHandle *ioh, GateIo *io, void *arg),
					  void *arg, bool has_result, int32 result)
{
	int			released = 0;

	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		GateIo	   *io = &gate->ios[i];

		/* look again when nobody can change it */
		if (io->phase != GATE_HELD)
			continue;
		LWLockAcquire(gate->lock, LW_EXCLUSIVE);
		if (io->phase == GATE_HELD && !io->released &&
			(matches == NULL || matches(ioh, io, arg)))
		{
			release_and_unlock(ioh, io, has_result, result);
			released++;
		}
		else
			LWLockRelease(gate->lock);
	}

	return released;
}

int
gate_release_all(bool has_result, int32 result)
{
	return gate_release_matching(NULL, NULL, has_result, result);
}

/*
 * io_release(pid int, io_id int, result int DEFAULT NULL) returns bool
 *
 * Releases one held read.  NULL performs it, a number of bytes makes it that
 * short, a negative errno fails it.  False if it is not held.
 */
Datum
io_release(PG_FUNCTION_ARGS)
{
	int			pid;
	int			io_id;
	bool		has_result = !PG_ARGISNULL(2);
	int32		result = has_result ? PG_GETARG_INT32(2) : 0;
	PgAioHandle *ioh;
	GateIo	   *io;

	require_gate(fcinfo);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("pid and io_id must not be null")));
	pid = PG_GETARG_INT32(0);
	io_id = PG_GETARG_INT32(1);
	check_io_result(result);
	if (io_id < 0 || io_id >= gate->nios)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("io_id must be between 0 and %d", gate->nios - 1)));

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
 * io_release_all(result int DEFAULT NULL) returns int
 *
 * Releases all reads that are held now.  Returns their number.
 */
Datum
io_release_all(PG_FUNCTION_ARGS)
{
	bool		has_result = !PG_ARGISNULL(0);
	int32		result = has_result ? PG_GETARG_INT32(0) : 0;

	require_gate(fcinfo);
	check_io_result(result);

	PG_RETURN_INT32(gate_release_all(has_result, result));
}
