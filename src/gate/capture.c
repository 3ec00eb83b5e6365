/*
 * Decides which reads are captured, and submits the captured ones.
 *
 * A read is captured in two steps, because the server asks twice: when it
 * stages the read (must this be executed synchronously?) and when it submits
 * what is staged, in a critical section.  The first step decides and records the
 * decision, the second obeys it.  What becomes of a captured read is looked up
 * again in the second step: a filter may have been ended meanwhile.
 */
#include "gate/gate.h"

#include "aio/method.h"
#include "aio/perform.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"

/* how many reads this process has decided to capture and not yet submitted */
static int	ndecided;

/* the read that gate_decide() has last refused: it may be asked again */
static PgAioHandle *refused;
static uint64 refused_generation;

/* the batch that a captured synchronous read was staged in goes on */
static bool batch_interrupted;

/*
 * Returns why reads of this process may not be captured now, or ESCAPE_NONE.
 */
static FilterEscape
reason_not_to_capture(void)
{
	if (gate->closing)
		return ESCAPE_SHUTDOWN;
	if (proc_exit_inprogress)
		return ESCAPE_EXIT;
	if (CritSectionCount > 0)
		return ESCAPE_CRITICAL;
	if (!IsUnderPostmaster || gate->worker_pid == MyProcPid)
		return ESCAPE_PROCESS;

	switch (MyBackendType)
	{
		case B_BACKEND:
		case B_BG_WORKER:
		case B_AUTOVAC_WORKER:
		case B_WAL_SENDER:
			return ESCAPE_NONE;
		default:
			return ESCAPE_PROCESS;
	}
}

/*
 * IoInterceptor.has: returns whether this use of a handle has been captured.
 */
bool
gate_has(PgAioHandle *ioh, uint64 generation)
{
	return gate_io(ioh)->generation == generation;
}

/*
 * IoInterceptor.delays: returns whether a captured and submitted read is or was held,
 * or on a device.
 */
bool
gate_delays(PgAioHandle *ioh)
{
	const GateIo *io = gate_io(ioh);

	return io->effect.hold != 0 || io->device >= 0;
}

/*
 * IoInterceptor.decide: returns whether this staged read is to be captured.
 */
bool
gate_decide(PgAioHandle *ioh)
{
	GateIo	   *io;
	FilterEffect effect;
	bool		judged;
	int			device;
	uint64		device_id;
	FilterEscape escape;

	/* what has been decided stays so, though the filter may have ended */
	if (likely(ndecided == 0 && gate->ndevices == 0 && !filters_any()))
		return false;

	io = gate_io(ioh);
	if (io->generation == ioh->generation)
		return io->phase == GATE_DECIDED;
	if (refused == ioh && refused_generation == ioh->generation)
		return false;

	if (!io_is_read(ioh))
		return false;
	/* unless it is captured after all */
	refused = ioh;
	refused_generation = ioh->generation;

	escape = reason_not_to_capture();
	if (escape != ESCAPE_NONE)
	{
		filters_count_escape(ioh, escape);
		gate_count_device_escape(ioh, escape);
		return false;
	}

	judged = filters_effect_on(ioh, &effect);
	device = gate_find_device(ioh, &device_id);
	if (!judged && device < 0)
		return false;

	io->effect = effect;
	io->device = device;
	io->device_id = device_id;
	io->has_result = false;
	io->released = false;
	io->hold_expired = false;
	io->stopped = INVALID_PROC_NUMBER;
	io->phase = GATE_DECIDED;
	io->generation = ioh->generation;
	ndecided++;

	return true;
}

/*
 * Hands captured reads to the holds, the devices or the worker.  Returns those
 * that the caller has to perform right away, in a critical section.
 */
static int
submit_captured(int ncaptured, PgAioHandle **captured, PgAioHandle **perform)
{
	int			nperform = 0;
	IoTime		now = io_now();
	bool		wake = false;

	/* the server says DEBUG messages of each change of a handle's state */
	CommandDest dest = io_silence_client();

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ncaptured; i++)
	{
		PgAioHandle *ioh = captured[i];
		GateIo	   *io = gate_io(ioh);
		int			fd = ioh->op_data.read.fd;
		bool		holds = !gate->closing && filter_holds(io->effect.hold, ioh);

		if (!holds)
			io->effect.hold = 0;
		if (filter_holds(io->effect.fail, ioh))
		{
			io->has_result = true;
			io->result = io->effect.result;
		}

		/*
		 * The process that performs the read reopens the file.  Without a
		 * descriptor, a close of the file does not wait for the read.
		 */
		ioh->op_data.read.fd = -1;

		/* another process may complete it from here on, once the lock is free */
		pgaio_io_prepare_submit(ioh);

		if (holds)
		{
			gate_start_hold(ioh, io, now);
			wake = true;
		}
		else if (gate_start_due(ioh, io, now))
			wake |= io->due < gate->worker_wakes;
		else
		{
			ioh->op_data.read.fd = fd;
			io->phase = GATE_TAKEN;
			perform[nperform++] = ioh;
		}
	}
	LWLockRelease(gate->lock);
	whereToSendOutput = dest;

	if (wake)
		gate_wake_worker();

	return nperform;
}

/*
 * IoInterceptor.submit: submits the captured ones of the staged reads, and has
 * the I/O method submit the others.
 */
int
gate_submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	PgAioHandle *captured[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *others[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *perform[PGAIO_SUBMIT_BATCH_SIZE];
	int			ncaptured = 0;
	int			nothers = 0;
	int			nperform;

	if (likely(ndecided == 0))
		return io_server_ops->submit(num_staged_ios, staged_ios);

	for (int i = 0; i < num_staged_ios; i++)
	{
		if (gate_has(staged_ios[i], staged_ios[i]->generation))
			captured[ncaptured++] = staged_ios[i];
		else
			others[nothers++] = staged_ios[i];
	}
	ndecided -= ncaptured;

	nperform = submit_captured(ncaptured, captured, perform);
	if (nothers > 0)
		(void) io_server_ops->submit(nothers, others);

	for (int i = 0; i < nperform; i++)
	{
		const GateIo *io = gate_io(perform[i]);

		io_perform_at_submission(perform[i], io->has_result, io->result);
	}

	/* a synchronous read has ended the batch early */
	if (batch_interrupted)
	{
		batch_interrupted = false;
		pgaio_my_backend->in_batchmode = true;
	}

	return num_staged_ios;
}

/*
 * IoStageHook: has a synchronous read that is to be captured take the way of
 * the others.  Its reader does not expect the read to be left in a batch.
 *
 * The server executes a read itself, without asking the I/O method, if the
 * reader has flagged it as synchronous, since it is going to wait at once.
 * Single-block reads, for example of indexes and catalogs, are synchronous, and
 * so are all buffered reads with io_method=sync.
 */
void
gate_capture_synchronous(PgAioHandle *ioh)
{
	if (gate == NULL || !(ioh->flags & PGAIO_HF_SYNCHRONOUS) || !gate_decide(ioh))
		return;

	ioh->flags &= ~PGAIO_HF_SYNCHRONOUS;
	if (pgaio_my_backend->in_batchmode)
	{
		pgaio_my_backend->in_batchmode = false;
		batch_interrupted = true;
	}
}
