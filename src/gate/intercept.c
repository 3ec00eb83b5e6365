/*
 * Decides which reads are intercepted, and submits those.
 *
 * A read is intercepted in two steps, because the server asks twice: when it stages
 * the read (must this be executed synchronously?) and when it submits what is staged,
 * in a critical section.  The first step decides and records the decision, the second
 * obeys it.  What becomes of an intercepted read is looked up again in the second step:
 * a filter may have been ended meanwhile.
 */
#include "gate/gate.h"

#include "storage/proclist.h"

/* how many reads this process has intercepted and not yet submitted */
static int	nintercepted;

/* the read that intercept() has last refused: it may be asked again */
static PgAioHandle *refused;
static uint64 refused_generation;

/* a filter has a read that was refused take the I/O method's way */
static bool routed_to_method;

/* the batch that such a read, or an intercepted synchronous one, was staged in goes on */
static bool batch_interrupted;

/* Returns why reads of this process may not be intercepted now, or BYPASS_NONE. */
static FilterBypass
reason_to_bypass(void)
{
	if (gate->closing)
		return BYPASS_SHUTDOWN;
	if (proc_exit_inprogress)
		return BYPASS_EXIT;
	if (CritSectionCount > 0)
		return BYPASS_CRITICAL;
	if (!IsUnderPostmaster || gate->worker == MyProcNumber)
		return BYPASS_PROCESS;

	return BYPASS_NONE;
}

/* IoInterceptor.has_intercepted: is the gate concerned with this use of a handle? */
static bool
has_intercepted(PgAioHandle *ioh, uint64 generation)
{
	return gate_io(ioh)->generation == generation;
}

/* IoInterceptor.has_delayed: is or was a submitted read held, or on a device? */
static bool
has_delayed(PgAioHandle *ioh)
{
	const FilterEffect *effect = &gate_io(ioh)->effect;

	return effect->hold_filter != 0 || effect->device_filter != 0;
}

/* IoInterceptor.intercept: returns whether to intercept this staged read. */
static bool
intercept(PgAioHandle *ioh)
{
	GateIo	   *io;
	FilterEffect effect;
	FilterBypass bypass;

	/* what has been decided stays so, though the filter may have ended */
	if (likely(nintercepted == 0 && filters_ops() == 0))
		return false;

	io = gate_io(ioh);
	if (io->generation == ioh->generation)
		return io->phase == GATE_INTERCEPTED;
	if (refused == ioh && refused_generation == ioh->generation)
		return false;

	/* a read or a write of a relation */
	if (ioh->target != PGAIO_TID_SMGR)
		return false;
	/* unless it is intercepted after all */
	refused = ioh;
	refused_generation = ioh->generation;

	bypass = reason_to_bypass();
	if (bypass != BYPASS_NONE)
	{
		filters_count_bypass(FILTER_NONE, ioh, bypass);
		return false;
	}

	filters_effect_on(ioh, &effect);
	routed_to_method = effect.route == FILTER_METHOD;
	/* a device serves nothing without the worker */
	if (effect.device_filter != 0 && gate->worker == INVALID_PROC_NUMBER)
	{
		filters_count_bypass(FILTER_DEVICE, ioh, BYPASS_NO_WORKER);
		effect.device_filter = 0;
	}
	if (effect.hold_filter == 0 && effect.fail_filter == 0 && effect.device_filter == 0 &&
		effect.route != FILTER_SYNCHRONOUS)
		return false;

	io->effect = effect;
	memset(&io->outcome, 0, sizeof(io->outcome));
	io->released = false;
	io->hold_expired = false;
	io->phase = GATE_INTERCEPTED;
	io->generation = ioh->generation;
	nintercepted++;

	return true;
}

/* Looks up which effects of a read are still in force.  The caller has the lock. */
static void
renew_effect(PgAioHandle *ioh, GateIo *io, const Filter **hold, const Filter **device)
{
	*hold = gate->closing ? NULL : filter_in_force(io->effect.hold_filter, ioh);
	*device = filter_in_force(io->effect.device_filter, ioh);
	if (*hold == NULL)
		io->effect.hold_filter = 0;
	if (*device == NULL)
		io->effect.device_filter = 0;
	if (filter_in_force(io->effect.fail_filter, ioh) != NULL)
		io->outcome = io->effect.outcome;
}

/*
 * Hands intercepted reads to holds, devices or the worker.  Returns those
 * that the caller has to perform right away, in a critical section.
 */
static int
submit_intercepted(int nintercepted_ios, PgAioHandle **intercepted, PgAioHandle **perform)
{
	int			nperform = 0;
	bool		wake = false;
	IoTime		now = io_now();

	/* the server says DEBUG messages of each change of a handle's state */
	CommandDest dest = io_silence_client();

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < nintercepted_ios; i++)
	{
		PgAioHandle *ioh = intercepted[i];
		GateIo	   *io = gate_io(ioh);
		int			fd = ioh->op_data.read.fd;
		const Filter *hold;
		const Filter *device;

		/*
		 * A process that began to wait before the submission sleeps in the
		 * server, not in gate_wait(): the worker is to end its wait, if there
		 * is one, when its patience would.
		 */
		bool		is_awaited = !proclist_is_empty(&ioh->cv.wakeup);

		renew_effect(ioh, io, &hold, &device);
		if (is_awaited && gate->worker == INVALID_PROC_NUMBER)
		{
			hold = NULL;
			io->effect.hold_filter = 0;
		}

		/*
		 * The process that performs the read reopens the file.  Without a
		 * descriptor, a close of the file does not wait for the read.
		 */
		ioh->op_data.read.fd = -1;

		/* another process may complete it from here on, once the lock is free */
		pgaio_io_prepare_submit(ioh);

		if (hold != NULL)
		{
			gate_start_hold(io, hold, now);
			if (is_awaited)
				io->hold_limit = Min(io->hold_limit, now + gate_patience(&hold->limits));
			wake = true;
		}
		else if ((device != NULL || io->effect.route != FILTER_SYNCHRONOUS) &&
				 gate_start_queued(ioh, io, device, now, is_awaited))
			wake |= io->due < gate->worker_wakes;
		else
		{
			ioh->op_data.read.fd = fd;
			io->phase = GATE_CLAIMED;
			perform[nperform++] = ioh;
		}
	}
	LWLockRelease(gate->lock);
	whereToSendOutput = dest;

	if (wake)
		gate_wake_worker();

	return nperform;
}

/* IoInterceptor.submit: submits intercepted reads, and others to the I/O method. */
static int
submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	PgAioHandle *intercepted[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *others[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioHandle *perform[PGAIO_SUBMIT_BATCH_SIZE];
	int			n = 0;
	int			nothers = 0;
	int			nperform;

	if (likely(nintercepted == 0 && !batch_interrupted))
		return io_server_ops->submit(num_staged_ios, staged_ios);

	for (int i = 0; i < num_staged_ios; i++)
	{
		if (has_intercepted(staged_ios[i], staged_ios[i]->generation))
			intercepted[n++] = staged_ios[i];
		else
			others[nothers++] = staged_ios[i];
	}
	nintercepted -= n;

	nperform = submit_intercepted(n, intercepted, perform);
	if (nothers > 0)
		(void) io_server_ops->submit(nothers, others);

	for (int i = 0; i < nperform; i++)
		io_perform(perform[i], perform[i]->op_data.read.fd, &gate_io(perform[i])->outcome, 0);

	/* a synchronous read has ended the batch early */
	if (batch_interrupted)
	{
		batch_interrupted = false;
		pgaio_my_backend->in_batchmode = true;
	}

	return num_staged_ios;
}

/*
 * IoInterceptor.intercept_synchronous: has a synchronous read that is to be
 * intercepted, or routed, take the way of the others.  Its reader does not expect the read to be
 * left in a batch.
 *
 * The server executes a read itself if the reader has flagged it as synchronous:
 * reads of single blocks, for example of indexes, and with io_method=sync all
 * buffered reads.
 */
static void
intercept_synchronous(PgAioHandle *ioh)
{
	routed_to_method = false;
	if (!gate_sees_synchronous || !(ioh->flags & PGAIO_HF_SYNCHRONOUS) ||
		!(intercept(ioh) || routed_to_method))
		return;

	ioh->flags &= ~PGAIO_HF_SYNCHRONOUS;
	if (pgaio_my_backend->in_batchmode)
	{
		pgaio_my_backend->in_batchmode = false;
		batch_interrupted = true;
	}
}

const IoInterceptor gate_interceptor = {
	.intercept = intercept,
	.intercept_synchronous = intercept_synchronous,
	.has_intercepted = has_intercepted,
	.has_delayed = has_delayed,
	.submit = submit,
	.wait = gate_wait,
};
