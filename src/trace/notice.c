/*-------------------------------------------------------------------------
 *
 * notice.c
 *		Notices completions that are not announced.
 *
 * That a read has completed is seen from its handle: by its state, or because
 * it is already in use for another read.  Each process keeps a list of the
 * reads that it has issued and that are not known to have completed, and looks
 * at them whenever it comes by: when it stages, submits or waits for a read,
 * and when a statement or a transaction ends.  What it sees is that the read
 * has completed before.
 *
 * The result is in the handle, until the owner reuses it.  When the server does
 * that while we wait or submit, the result is left at the place that the reader
 * has named for it.  That place belongs to the reader, and may be gone at any
 * other time.
 *
 * src/trace/notice.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "storage/spin.h"
#include "utils/resowner.h"

/* the largest io_max_concurrency */
#define MAX_WATCHED 1024

typedef struct WatchedRead
{
	PgAioHandle *ioh;
	uint64		generation;
	uint64		seq;
	PgAioReturn *report_return; /* valid after trace_prepare_results(), until
								 * trace_notice_own(true) */
} WatchedRead;

static WatchedRead watched[MAX_WATCHED];
int			trace_nwatched;

/*
 * Puts a read that this process has issued on the list of reads that it looks at
 * now and then.
 */
void
trace_watch(PgAioHandle *ioh, uint64 seq)
{
	if (trace_completions || trace_nwatched == MAX_WATCHED)
		return;
	watched[trace_nwatched].ioh = ioh;
	watched[trace_nwatched].generation = ioh->generation;
	watched[trace_nwatched].seq = seq;
	trace_nwatched++;
}

/*
 * Returns whether this use of the handle has come to an end, and with which
 * outcome if that can be seen.
 */
static bool
has_completed(PgAioHandle *ioh, uint64 generation, TraceOutcome *outcome)
{
	PgAioHandleState state;
	TraceOutcome seen = {0};

	*outcome = seen;
	if (pgaio_io_was_recycled(ioh, generation, &state))
		return true;
	if (state < PGAIO_HS_COMPLETED_IO)
		return false;

	seen.has_raw = true;
	seen.raw = ioh->result;
	if (state != PGAIO_HS_COMPLETED_IO)
		seen.status = ioh->distilled_result.status;

	/* is that still about the same read? */
	pg_read_barrier();
	if (ioh->generation == generation)
		*outcome = seen;

	return true;
}

/*
 * Reads a result that the server has delivered.
 */
static void
read_return(const PgAioReturn *delivered, TraceOutcome *outcome)
{
	const PgAioResult *result = &delivered->result;

	outcome->status = result->status;
	if (result->status == PGAIO_RS_OK)
	{
		outcome->has_raw = true;
		outcome->raw = delivered->target_data.smgr.nblocks * BLCKSZ;
	}
	else if (result->status == PGAIO_RS_ERROR &&
			 result->id == PGAIO_HCB_MD_READV && result->error_data > 0)
	{
		outcome->has_raw = true;
		outcome->raw = -(int32) result->error_data;
	}
}

/*
 * Records that a read has completed, no later than now, or adds to its
 * outcome.
 */
static void
note_completion(uint64 seq, IoTime now, const TraceOutcome *outcome)
{
	TraceRecord *record = trace_lock(seq);

	if (record == NULL)
		return;
	if (record->state != TRACE_COMPLETED)
	{
		record->state = TRACE_COMPLETED;
		record->completed = now;
	}
	if (outcome->has_raw && !record->outcome.has_raw)
	{
		record->outcome.has_raw = true;
		record->outcome.raw = outcome->raw;
	}
	if (outcome->status != PGAIO_RS_UNKNOWN)
		record->outcome.status = outcome->status;
	SpinLockRelease(&record->mutex);
}

/*
 * Prepares for results that the server delivers between this call and
 * trace_notice_own(true).  The places for the results last for as long.
 */
void
trace_prepare_results(void)
{
	for (int i = 0; i < trace_nwatched; i++)
	{
		WatchedRead *read = &watched[i];

		read->report_return = read->ioh->generation == read->generation ?
			read->ioh->report_return : NULL;
	}
}

/*
 * Records which of the reads that this process watches have completed.
 */
void
trace_notice_own(bool returned)
{
	IoTime		now = 0;

	for (int i = trace_nwatched - 1; i >= 0; i--)
	{
		const WatchedRead *read = &watched[i];
		TraceOutcome outcome;

		if (!has_completed(read->ioh, read->generation, &outcome))
			continue;
		if (outcome.status == PGAIO_RS_UNKNOWN && returned &&
			read->ioh->generation != read->generation && read->report_return != NULL)
			read_return(read->report_return, &outcome);

		if (now == 0)
			now = io_now();
		note_completion(read->seq, now, &outcome);
		watched[i] = watched[--trace_nwatched];
	}
}

/*
 * Records the completion of a read of any process, if it has completed.
 */
void
trace_notice(uint64 seq)
{
	TraceRecord *record = trace_lock(seq);
	TraceOutcome outcome;
	PgAioHandle *ioh;
	uint64		generation;

	if (record == NULL)
		return;
	ioh = &pgaio_ctl->io_handles[record->io];
	generation = record->generation;
	SpinLockRelease(&record->mutex);

	if (has_completed(ioh, generation, &outcome))
		note_completion(seq, io_now(), &outcome);
}

static bool
copy_record(uint64 seq, TraceRecord *copy)
{
	TraceRecord *record = trace_lock(seq);

	if (record == NULL)
		return false;
	memcpy(copy, record, sizeof(TraceRecord));
	SpinLockRelease(&record->mutex);

	return true;
}

/*
 * Copies a record.  Returns false if there is none, or not yet.
 */
bool
trace_read(uint64 seq, TraceRecord *copy)
{
	if (!copy_record(seq, copy))
		return false;
	if (copy->state == TRACE_COMPLETED)
		return true;

	/* its owner may not come back for a long time to notice that it is done */
	trace_notice(seq);
	return copy_record(seq, copy);
}

/*
 * ResourceReleaseCallback: looks at watched reads when a statement or
 * transaction ends.
 */
static void
resources_released(ResourceReleasePhase phase,
				   bool is_commit pg_attribute_unused(),
				   bool is_top_level pg_attribute_unused(),
				   void *arg pg_attribute_unused())
{
	if (trace_nwatched > 0 && phase == RESOURCE_RELEASE_BEFORE_LOCKS)
		trace_notice_own(false);
}

void
trace_notice_init(void)
{
	RegisterResourceReleaseCallback(resources_released, NULL);
}
