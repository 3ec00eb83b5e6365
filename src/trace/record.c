/*-------------------------------------------------------------------------
 *
 * record.c
 *		What reads do on their way, as the gate sees it.
 *
 * Reads are submitted in a critical section, so nothing here allocates or
 * raises an error.  When nothing is traced, the gate does not even call.
 *
 * src/trace/record.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "storage/spin.h"

/* traced reads of this process that are not yet submitted */
int			trace_nstaged;

/* the filter that is in force, as of gate->tracing */
static uint32 my_filter;
static GateMatch my_match;

static void
refresh_filter(void)
{
	LWLockAcquire(gate->lock, LW_SHARED);
	my_match = trace->match;
	my_filter = gate->tracing;
	LWLockRelease(gate->lock);
}

static bool
is_asked_for(PgAioHandle *ioh)
{
	if (ioh->op != PGAIO_OP_READV || ioh->target != PGAIO_TID_SMGR)
		return false;
	if (my_filter != gate->tracing)
		refresh_filter();
	return my_filter != 0 && gate_match(&my_match, ioh);
}

static bool
is_same_fork(const PgAioTargetData *a, const PgAioTargetData *b)
{
	return RelFileLocatorEquals(a->smgr.rlocator, b->smgr.rlocator) &&
		a->smgr.forkNum == b->smgr.forkNum;
}

/*
 * Number of blocks of a fork that this process has submitted reads for and not
 * yet looked at: the handles are in the list for that long.
 */
static int
blocks_ahead(const PgAioTargetData *target)
{
	int			nblocks = 0;
	dlist_iter	iter;

	dclist_foreach(iter, &pgaio_my_backend->in_flight_ios)
	{
		PgAioHandle *ioh = dclist_container(PgAioHandle, node, iter.cur);

		if (is_same_fork(&ioh->target_data, target))
			nblocks += ioh->target_data.smgr.nblocks;
	}

	return nblocks;
}

/*
 * Is this read held by the gate, or on its way to a device?
 */
static bool
is_held(PgAioHandle *ioh)
{
	const GateIo *io = gate_io(ioh);

	return io->generation == ioh->generation &&
		(io->rule != 0 || io->injected || io->device >= 0);
}

/*
 * This process has staged a read; is it one to be traced?  A synchronous one
 * will be executed right away, and be neither submitted nor waited for.
 */
void
trace_staged(PgAioHandle *ioh, bool synchronous)
{
	TraceRecord head;

	if (trace_watches())
		trace_notice_own(false);
	if (!is_asked_for(ioh))
		return;

	memset(&head, 0, TRACE_RECORD_HEAD);
	head.state = TRACE_STAGED;
	head.generation = ioh->generation;
	head.io = ioh - pgaio_ctl->io_handles;
	head.owner = ioh->owner_procno;
	head.issuer = trace_myself();
	head.target = ioh->target_data;
	head.offset = ioh->op_data.read.offset;
	head.flags = ioh->flags;
	head.staged = gate_now();
	if (synchronous)
	{
		head.state = TRACE_SUBMITTED;
		head.submitted = head.staged;
		head.in_progress = dclist_count(&pgaio_my_backend->in_flight_ios) + 1;
		head.lookahead = blocks_ahead(&ioh->target_data) + ioh->target_data.smgr.nblocks;
		head.executor = head.completer = head.issuer;
	}
	else
		trace_nstaged++;

	trace_watch(ioh, trace_begin(ioh, &head));
}

/*
 * This process is about to submit what it has staged.  Afterwards would be too
 * late: the reads may have completed by then.
 */
void
trace_submitting(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	GateTime	now = gate_now();
	int			before = dclist_count(&pgaio_my_backend->in_flight_ios);
	const PgAioTargetData *target = NULL;
	int			ahead = 0;

	for (int i = 0; i < num_staged_ios; i++)
	{
		PgAioHandle *ioh = staged_ios[i];
		bool		held = is_held(ioh);
		TraceRecord *record;

		/* those of a batch are mostly for the same relation */
		if (target == NULL || !is_same_fork(target, &ioh->target_data))
		{
			target = &ioh->target_data;
			ahead = blocks_ahead(target);
			for (int j = 0; j < i; j++)
			{
				if (is_same_fork(target, &staged_ios[j]->target_data))
					ahead += staged_ios[j]->target_data.smgr.nblocks;
			}
		}
		ahead += ioh->target_data.smgr.nblocks;

		record = trace_lock_io(ioh, ioh->generation);
		if (record == NULL)
			continue;
		record->state = TRACE_SUBMITTED;
		record->submitted = now;
		record->in_progress = before + i + 1;
		record->lookahead = ahead;
		record->held = held;
		SpinLockRelease(&record->mutex);
	}

	trace_nstaged = 0;
	if (io_method == IOMETHOD_WORKER && trace_watches())
		trace_before_returns();
}

/*
 * It has done so.  If the queue of the I/O workers was full, it has executed
 * some itself.
 */
void
trace_submitted(void)
{
	if (io_method == IOMETHOD_WORKER && trace_watches())
		trace_notice_own(true);
}

/* This process waits for a read. */
typedef struct OngoingWait
{
	uint64		seq;
	GateTime	start;
	int			place;			/* of the details, or -1 */
} OngoingWait;

static void
begin_wait(OngoingWait *wait)
{
	TraceRecord *record = trace_lock(wait->seq);
	bool		lost = false;

	if (record == NULL)
		return;
	record->nwaits++;
	if (record->owner != MyProcNumber)
		record->joined = true;
	if (record->nkept < TRACE_MAX_WAITS)
	{
		wait->place = record->nkept++;
		record->waits[wait->place].process = trace_myself();
		record->waits[wait->place].start = wait->start;
		record->waits[wait->place].length = -1;
	}
	else
		lost = true;
	SpinLockRelease(&record->mutex);

	if (lost)
		pg_atomic_fetch_add_u64(&trace->lost_waits, 1);
}

static void
end_wait(const OngoingWait *wait)
{
	GateTime	length = gate_now() - wait->start;
	TraceRecord *record = trace_lock(wait->seq);

	if (record == NULL)
		return;
	record->wait_time += length;
	if (wait->place >= 0)
		record->waits[wait->place].length = length;
	SpinLockRelease(&record->mutex);
}

static pg_noinline void
wait_and_note(PgAioHandle *ioh, uint64 generation, uint64 seq,
			  void (*wait_one) (PgAioHandle *ioh, uint64 generation))
{
	OngoingWait wait = {.seq = seq,.start = gate_now(),.place = -1};

	begin_wait(&wait);
	PG_TRY();
	{
		wait_one(ioh, generation);
	}
	PG_FINALLY();
	{
		end_wait(&wait);
	}
	PG_END_TRY();
}

/*
 * Waits for a read by means of "wait_one", and notes who waits how long.
 */
void
trace_wait(PgAioHandle *ioh, uint64 generation,
		   void (*wait_one) (PgAioHandle *ioh, uint64 generation))
{
	uint64		seq = trace_find(ioh, generation);

	if (trace_watches())
		trace_before_returns();

	if (seq == 0)
		wait_one(ioh, generation);
	else
	{
		wait_and_note(ioh, generation, seq, wait_one);
		/* the first to see it, perhaps */
		if (!trace_completions)
			trace_notice(seq);
	}

	if (trace_watches())
		trace_notice_own(true);
}
