/*-------------------------------------------------------------------------
 *
 * completions.c
 *		Records exact completions, as the server's callbacks tell them.
 *
 * Completions of reads that the gate has captured are announced.  Those of other
 * reads the trace learns from the server's callbacks, if that is asked for by
 * "test_aio.trace_completions".  With the callbacks in reach, so are the
 * synchronous reads, which no I/O method ever sees.
 *
 * The callback of md.c is the first that learns of a completion.  After it the
 * buffer manager looks at the pages, which settles how the read has ended; for
 * temporary tables the owner does that.
 *
 * src/trace/completions.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "aio/callbacks.h"
#include "storage/spin.h"

/* The captured read that this process completes, if "seq" is set. */
static struct
{
	uint64		seq;
	PgAioReturn *report_return;
}			completing;

/*
 * Returns the process that has executed a read which this process completes.
 * With io_uring the kernel has, unless the read never came there.
 */
static TraceProcess
executor_of(PgAioHandle *ioh)
{
#ifdef IOMETHOD_IO_URING_ENABLED
	const TraceProcess none = {0};

	if (io_method == IOMETHOD_IO_URING &&
		!(ioh->flags & PGAIO_HF_SYNCHRONOUS) &&
		!io_is_captured(ioh))
		return none;
#endif
	return trace_myself();
}

/*
 * Records that this process completes a read.  The caller has locked the record;
 * this unlocks it.
 */
static void
begin_completion(TraceRecord *record, PgAioHandle *ioh, IoTime now, int32 raw,
				 PgAioResultStatus status)
{
	record->state = TRACE_COMPLETED;
	record->exact = true;
	record->completed = now;
	record->outcome.has_raw = true;
	record->outcome.raw = raw;
	record->outcome.status = status;
	record->executor = executor_of(ioh);
	record->completer = trace_myself();
	SpinLockRelease(&record->mutex);
}

/*
 * Records that this process has completed a read.  Unlocks the record.
 */
static void
end_completion(TraceRecord *record, IoTime now, PgAioResultStatus status)
{
	if (record->completer.pid == MyProcPid)
		record->finished = now;
	if (status != PGAIO_RS_UNKNOWN)
		record->outcome.status = status;
	SpinLockRelease(&record->mutex);
}

/*
 * Returns the status that a raw result has by itself, before the pages have
 * been checked.
 */
static PgAioResultStatus
status_of_raw(PgAioHandle *ioh, int32 raw)
{
	if (raw < BLCKSZ)
		return PGAIO_RS_ERROR;
	if ((BlockNumber) raw / BLCKSZ < ioh->target_data.smgr.nblocks)
		return PGAIO_RS_PARTIAL;
	return PGAIO_RS_UNKNOWN;
}

/*
 * IoListener.completing: records that this process completes a captured read.
 */
void
trace_completing(PgAioHandle *ioh, int32 raw_result)
{
	TraceRecord *record;

	completing.seq = 0;
	if (trace_completions || !trace_may_have(ioh, ioh->generation))
		return;
	record = trace_lock_io(ioh, ioh->generation);
	if (record == NULL)
		return;

	/* at once, so that a process that gets its blocks finds it completed */
	completing.seq = record->seq;
	begin_completion(record, ioh, io_now(), raw_result, status_of_raw(ioh, raw_result));

	/* its owner reuses the handle at once; others have to wait for the owner */
	completing.report_return =
		ioh->owner_procno == MyProcNumber ? ioh->report_return : NULL;
}

/*
 * IoListener.completed: records that this process has completed the captured
 * read.
 */
void
trace_completed(void)
{
	PgAioResultStatus status = PGAIO_RS_UNKNOWN;
	IoTime		now;
	TraceRecord *record;

	if (completing.seq == 0)
		return;

	if (completing.report_return != NULL)
		status = completing.report_return->result.status;
	now = io_now();
	record = trace_lock(completing.seq);
	if (record != NULL)
		end_completion(record, now, status);
	trace_notice(completing.seq);
	completing.seq = 0;
}

static bool
is_traced(PgAioHandle *ioh)
{
	return trace != NULL && trace_may_have(ioh, ioh->generation);
}

static void
callbacks_begin(PgAioHandle *ioh, PgAioResult result)
{
	TraceRecord *record = trace_lock_io(ioh, ioh->generation);

	if (record != NULL)
		begin_completion(record, ioh, io_now(), ioh->result, result.status);
}

static void
callbacks_end(PgAioHandle *ioh, PgAioResult result)
{
	IoTime		now = io_now();
	TraceRecord *record = trace_lock_io(ioh, ioh->generation);

	if (record != NULL)
		end_completion(record, now, result.status);
}

/*
 * IoStageHook: begins a record for a synchronous read, which is executed
 * next.
 */
static void
see_synchronous(PgAioHandle *ioh)
{
	if (trace != NULL && (ioh->flags & PGAIO_HF_SYNCHRONOUS))
		trace_staged(ioh, true);
}

/*
 * Takes part in the server's callbacks.  Returns an obstacle, or NULL.
 */
const char *
trace_see_completions(void)
{
	static const IoCompletionHooks hooks = {
		.wanted = is_traced,
		.begins = callbacks_begin,
		.ends = callbacks_end,
	};
	const char *obstacle = io_on_stage(see_synchronous);

	return obstacle != NULL ? obstacle : io_on_completion(&hooks);
}
