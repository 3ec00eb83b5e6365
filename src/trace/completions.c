/*-------------------------------------------------------------------------
 *
 * completions.c
 *		Exact completions.
 *
 * The gate completes reads itself, and knows.  For those of others, the
 * server's own callbacks are replaced, in tables that it means to be constant;
 * only if asked for by "test_aio.trace_completions".  With those in reach, so
 * are the synchronous reads, which no I/O method ever sees.
 *
 * The callback of md.c is the first that learns of a completion.  After it the
 * buffer manager looks at the pages, which settles how the read has ended; for
 * temporary tables that is done by the owner.
 *
 * src/trace/completions.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "gate/constant.h"
#include "storage/bufmgr.h"
#include "storage/md.h"
#include "storage/spin.h"

static PgAioHandleCallbackStage server_stage_shared;
static PgAioHandleCallbackStage server_stage_local;
static PgAioHandleCallbackComplete server_complete_md;
static PgAioHandleCallbackComplete server_complete_shared;
static PgAioHandleCallbackComplete server_complete_local;

/*
 * Who has executed a read that this process completes?  With io_uring the
 * kernel, unless it never came there.
 */
static TraceProcess
executor_of(PgAioHandle *ioh)
{
#ifdef IOMETHOD_IO_URING_ENABLED
	if (io_method == IOMETHOD_IO_URING &&
		!(ioh->flags & PGAIO_HF_SYNCHRONOUS) &&
		gate_io(ioh)->generation != ioh->generation)
		return (TraceProcess) {0};
#endif
	return trace_myself();
}

/*
 * Notes that this process completes a read.  The caller has locked the record,
 * which is unlocked.
 */
static void
begin_completion(TraceRecord *record, PgAioHandle *ioh, GateTime now, int32 raw,
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
 * Notes that it has, likewise.
 */
static void
end_completion(TraceRecord *record, GateTime now, PgAioResultStatus status)
{
	if (record->completer.pid == MyProcPid)
		record->finished = now;
	if (status != PGAIO_RS_UNKNOWN)
		record->outcome.status = status;
	SpinLockRelease(&record->mutex);
}

/*
 * What a raw result says by itself, before anybody has looked at the pages.
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
 * pgaio_io_process_completion() for reads that the gate has in hand.
 */
void
trace_process_completion(PgAioHandle *ioh, int result)
{
	TraceRecord *record = NULL;
	PgAioReturn *report_return = NULL;
	PgAioResultStatus status = PGAIO_RS_UNKNOWN;
	GateTime	now = gate_now();
	uint64		seq;

	if (trace != NULL && !trace_completions)
		record = trace_lock_io(ioh, ioh->generation);
	if (record == NULL)
	{
		pgaio_io_process_completion(ioh, result);
		return;
	}

	/* first, so that who has got its blocks finds it completed */
	seq = record->seq;
	begin_completion(record, ioh, now, result, status_of_raw(ioh, result));

	/* its owner reuses the handle at once; others have to wait for the owner */
	if (ioh->owner_procno == MyProcNumber)
		report_return = ioh->report_return;

	pgaio_io_process_completion(ioh, result);

	if (report_return != NULL)
		status = report_return->result.status;
	now = gate_now();
	record = trace_lock(seq);
	if (record != NULL)
		end_completion(record, now, status);
	trace_notice(seq);
}

static bool
is_traced(PgAioHandle *ioh)
{
	return trace != NULL && trace_may_have(ioh, ioh->generation);
}

static PgAioResult
complete_md(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data)
{
	PgAioResult result;
	GateTime	now;
	TraceRecord *record;

	if (!is_traced(ioh))
		return server_complete_md(ioh, prior_result, cb_data);

	now = gate_now();
	result = server_complete_md(ioh, prior_result, cb_data);
	record = trace_lock_io(ioh, ioh->generation);
	if (record != NULL)
		begin_completion(record, ioh, now, ioh->result, result.status);

	return result;
}

static PgAioResult
complete_buffers(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data,
				 PgAioHandleCallbackComplete server_complete)
{
	PgAioResult result = server_complete(ioh, prior_result, cb_data);
	GateTime	now;
	TraceRecord *record;

	if (!is_traced(ioh))
		return result;

	now = gate_now();
	record = trace_lock_io(ioh, ioh->generation);
	if (record != NULL)
		end_completion(record, now, result.status);

	return result;
}

static PgAioResult
complete_shared(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data)
{
	return complete_buffers(ioh, prior_result, cb_data, server_complete_shared);
}

static PgAioResult
complete_local(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data)
{
	return complete_buffers(ioh, prior_result, cb_data, server_complete_local);
}

/*
 * Synchronous reads are executed as soon as they are staged.
 */
static void
see_synchronous(PgAioHandle *ioh)
{
	if (trace != NULL && unlikely(gate->tracing != 0) &&
		(ioh->flags & PGAIO_HF_SYNCHRONOUS))
		trace_staged(ioh, true);
}

static void
stage_shared(PgAioHandle *ioh, uint8 cb_data)
{
	server_stage_shared(ioh, cb_data);
	see_synchronous(ioh);
}

static void
stage_local(PgAioHandle *ioh, uint8 cb_data)
{
	server_stage_local(ioh, cb_data);
	see_synchronous(ioh);
}

/*
 * Called in the postmaster.  Returns why the callbacks cannot be replaced, or
 * NULL.
 */
const char *
trace_see_completions(void)
{
	/* these may be the gate's */
	server_stage_shared = aio_shared_buffer_readv_cb.stage;
	server_stage_local = aio_local_buffer_readv_cb.stage;
	server_complete_md = aio_md_readv_cb.complete_shared;
	server_complete_shared = aio_shared_buffer_readv_cb.complete_shared;
	server_complete_local = aio_local_buffer_readv_cb.complete_local;

	if (server_stage_shared == NULL || server_stage_local == NULL ||
		server_complete_md == NULL || server_complete_shared == NULL ||
		server_complete_local == NULL)
		return "the server completes reads in another way than those it was compiled for";

	if (!replace_stage(&aio_shared_buffer_readv_cb.stage, stage_shared) ||
		!replace_stage(&aio_local_buffer_readv_cb.stage, stage_local) ||
		!replace_complete(&aio_md_readv_cb.complete_shared, complete_md) ||
		!replace_complete(&aio_shared_buffer_readv_cb.complete_shared, complete_shared) ||
		!replace_complete(&aio_local_buffer_readv_cb.complete_local, complete_local))
		return psprintf("the server's tables of callbacks cannot be written to: %m");

	return NULL;
}
