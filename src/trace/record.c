/*
 * Records what happens to reads, as aio/ tells: staging, submission, waits,
 * completions.
 *
 * Reads are submitted in a critical section, so nothing here allocates or raises an
 * error.
 */
#include "trace/trace.h"

#ifdef IO_METHOD_CAN_BE_CHECKED
#include <execinfo.h>
#else
#define backtrace(stack, max) ((void) (stack), 0)
#endif

#define MAX_STACK 24			/* a stream's wait is at most so deep */

/* how many traced reads of this process are not yet submitted */
static int	nstaged;

/* this process's copy of what is asked for */
static uint32 my_version;
static IoMatch my_match;

static bool
is_asked_for(PgAioHandle *ioh)
{
	if (!io_is_read(ioh) && !io_is_call(ioh))
		return false;
	if (my_version != trace->version)
	{
		LWLockAcquire(trace->lock, LW_SHARED);
		my_match = trace->match;
		my_version = trace->version;
		LWLockRelease(trace->lock);
	}
	return io_matches(&my_match, ioh);
}

static bool
is_same_fork(const PgAioTargetData *a, const PgAioTargetData *b)
{
	return RelFileLocatorEquals(a->smgr.rlocator, b->smgr.rlocator) &&
		a->smgr.forkNum == b->smgr.forkNum;
}

/*
 * Returns the number of blocks of the fork of a read in this read, in others that are
 * submitted with it, and in those that this process has submitted and not yet looked at:
 * their handles are in the list for that long.
 */
static int
blocks_ahead(const PgAioTargetData *target, PgAioHandle **others, int nothers)
{
	int			nblocks = target->smgr.nblocks;
	dlist_iter	iter;

	for (int i = 0; i < nothers; i++)
		if (is_same_fork(&others[i]->target_data, target))
			nblocks += others[i]->target_data.smgr.nblocks;
	dclist_foreach(iter, &pgaio_my_backend->in_flight_ios)
	{
		PgAioHandle *ioh = dclist_container(PgAioHandle, node, iter.cur);

		if (is_same_fork(&ioh->target_data, target))
			nblocks += ioh->target_data.smgr.nblocks;
	}

	return nblocks;
}

/*
 * IoListener.staged: begins a record if the read is to be traced.  A synchronous read
 * is executed right away, and neither submitted nor waited for.
 */
static void
staged(PgAioHandle *ioh, bool synchronous)
{
	TraceRecord head;

	if (likely(trace->ops == 0) || !is_asked_for(ioh))
		return;

	memset(&head, 0, TRACE_RECORD_HEAD);
	head.state = TRACE_STAGED;
	head.generation = ioh->generation;
	head.io = io_index(ioh);
	head.op = ioh->op;
	head.owner = ioh->owner_procno;
	head.issuer = MyProcPid;
	head.issuer_type = MyBackendType;
	head.target = ioh->target_data;
	head.offset = ioh->op_data.read.offset;
	head.flags = ioh->flags;
	head.staged = io_now();
	if (synchronous)
	{
		head.state = TRACE_SUBMITTED;
		head.submitted = head.staged;
		head.in_progress = dclist_count(&pgaio_my_backend->in_flight_ios) + 1;
		head.lookahead = blocks_ahead(&ioh->target_data, NULL, 0);
	}
	else
		nstaged++;

	trace_begin(ioh, &head);
}

/*
 * IoListener.submitting: records that this process submits what it has staged.  At
 * the end of the submission the reads may have completed.
 */
static void
submitting(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	IoTime		now;

	if (likely(nstaged == 0))
		return;

	now = io_now();
	for (int i = 0; i < num_staged_ios; i++)
	{
		PgAioHandle *ioh = staged_ios[i];
		int			ahead = blocks_ahead(&ioh->target_data, staged_ios, i);
		TraceRecord *record = trace_lock_io(ioh, ioh->generation);

		if (record == NULL)
			continue;
		record->state = TRACE_SUBMITTED;
		record->submitted = now;
		record->in_progress = dclist_count(&pgaio_my_backend->in_flight_ios) + i + 1;
		record->lookahead = ahead;
		record->together = num_staged_ios;
		SpinLockRelease(&record->mutex);
	}

	nstaged = 0;
}

/* the functions that are looked for on the stack */
static struct
{
	void	   *function;
	const char *name;
	size_t		size;
}			stream_calls[] =

{
	{read_stream_next_buffer, "next", 0},
	{read_stream_reset, "reset", 0},
	{read_stream_end, "end", 0},
	{pgaio_io_acquire, NULL, 0},
};

/* In the postmaster: what stream_call() needs, and may allocate the first time. */
void
trace_init_calls(void)
{
	void	   *stack[1];

	for (size_t i = 0; i < lengthof(stream_calls); i++)
		stream_calls[i].size = io_symbol_size(stream_calls[i].function);
	(void) backtrace(stack, lengthof(stack));
}

/*
 * Returns which function of a read stream this process is in, the outermost one, or NULL;
 * and whether it wants a free handle.  No hook tells, but the stack does.
 */
static const char *
stream_call(bool *wants_handle)
{
	void	   *stack[MAX_STACK];
	int			depth = backtrace(stack, MAX_STACK);
	const char *name = NULL;

	for (int i = 0; i < depth; i++)
		for (size_t j = 0; j < lengthof(stream_calls); j++)
		{
			if ((uintptr_t) stack[i] - (uintptr_t) stream_calls[j].function >= stream_calls[j].size)
				continue;
			*wants_handle |= stream_calls[j].name == NULL;
			name = stream_calls[j].name != NULL ? stream_calls[j].name : name;
		}

	return name;
}

/* IoListener.wait_begins: records a wait.  Returns whether the read is traced. */
static bool
wait_begins(PgAioHandle *ioh, uint64 generation, IoWait *wait)
{
	TraceRecord *record = trace_lock_io(ioh, generation);
	const char *call;
	bool		wants_handle = false;

	if (likely(record == NULL))
		return false;
	wait->seq = record->seq;
	SpinLockRelease(&record->mutex);

	call = stream_call(&wants_handle);
	wait->start = io_now();
	record = trace_lock(wait->seq);
	if (record == NULL)
		return false;
	wait->place = record->nwaits < TRACE_MAX_WAITS ? record->nwaits : -1;
	record->nwaits++;
	record->nwaits_for_handle += wants_handle;
	if (record->owner != MyProcNumber)
		record->joined = true;
	if (wait->place >= 0)
		record->waits[wait->place] = (TraceWait)
	{
		.pid = MyProcPid,.start = wait->start,.length = -1,.call = call
	};
	SpinLockRelease(&record->mutex);

	if (wait->place < 0)
		pg_atomic_fetch_add_u64(&trace->lost_waits, 1);

	return true;
}

/* IoListener.wait_ends: records its length, unless an error has ended it. */
static void
wait_ends(const IoWait *wait)
{
	IoTime		length = io_now() - wait->start;
	TraceRecord *record = trace_lock(wait->seq);

	if (record == NULL)
		return;
	record->wait_time += length;
	if (wait->place >= 0)
		record->waits[wait->place].length = length;
	SpinLockRelease(&record->mutex);
}

/*
 * Returns the process that has executed a read which this process completes.
 * With io_uring the kernel has, unless the read never came there.
 */
static int
executor_of(PgAioHandle *ioh)
{
	bool		kernel = false;

#ifdef IOMETHOD_IO_URING_ENABLED
	kernel = io_method == IOMETHOD_IO_URING;
#endif
	kernel = kernel && !(ioh->flags & PGAIO_HF_SYNCHRONOUS) && !io_is_intercepted(ioh, ioh->generation);
	return kernel ? 0 : MyProcPid;
}

/* IoListener.completion_begins: md.c is the first that learns of a completion. */
static void
completion_begins(PgAioHandle *ioh, PgAioResult result)
{
	TraceRecord *record = trace_lock_io(ioh, ioh->generation);

	if (record == NULL)
		return;
	record->state = TRACE_COMPLETED;
	record->completed = io_now();
	record->raw_result = ioh->result;
	record->status = result.status;
	record->executor = executor_of(ioh);
	record->held = io_is_delayed(ioh, ioh->generation);
	record->completer = MyProcPid;
	SpinLockRelease(&record->mutex);
}

/*
 * IoListener.completion_ends: the buffer manager has looked at the pages, which settles
 * how the read has ended; for temporary tables the owner does that.
 */
static void
completion_ends(PgAioHandle *ioh, PgAioResult result)
{
	TraceRecord *record = trace_lock_io(ioh, ioh->generation);

	if (record == NULL)
		return;
	if (result.status != PGAIO_RS_UNKNOWN)
		record->status = result.status;
	SpinLockRelease(&record->mutex);
}

const IoListener trace_listener = {
	.staged = staged,
	.submitting = submitting,
	.wait_begins = wait_begins,
	.wait_ends = wait_ends,
	.completion_begins = completion_begins,
	.completion_ends = completion_ends,
};
