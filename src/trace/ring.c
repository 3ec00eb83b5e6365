/*-------------------------------------------------------------------------
 *
 * ring.c
 *		The records of the trace in shared memory.
 *
 * Records are numbered, and each number has its place in the ring; a new
 * record overwrites the one that is a full round older.  Whoever adds to a
 * record locks it, for as long as it takes to write a few words, and looks
 * whether it is still the one with that number.
 *
 * src/trace/ring.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/guc.h"

#define MAX_TRACE_SIZE 10000000

TraceRing  *trace;
int			trace_size = 16384;
bool		trace_completions = false;

void
trace_define_settings(void)
{
	DefineCustomIntVariable("test_aio.trace_size",
							"Number of reads that the I/O trace has room for.",
							"Zero leaves no room for a trace.",
							&trace_size,
							16384,
							0,
							MAX_TRACE_SIZE,
							PGC_POSTMASTER,
							0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("test_aio.trace_completions",
							 "Lets the I/O trace see when reads complete, and synchronous reads.",
							 "Changes tables of functions that the server means to be constant.",
							 &trace_completions,
							 false,
							 PGC_POSTMASTER,
							 0,
							 NULL, NULL, NULL);
}

Size
trace_shmem_size(uint32 nhandles)
{
	Size		size = CACHELINEALIGN(sizeof(TraceRing));

	if (trace_size == 0)
		return 0;

	size = add_size(size, CACHELINEALIGN(mul_size(nhandles, sizeof(pg_atomic_uint64))));
	return add_size(size, mul_size(trace_size, sizeof(TraceRecord)));
}

/*
 * The caller has the lock for initialising shared memory.
 */
void
trace_shmem_startup(uint32 nhandles)
{
	bool		found;
	char	   *space;

	if (trace_size == 0)
		return;

	trace = ShmemInitStruct("test_aio trace", trace_shmem_size(nhandles), &found);
	if (found)
		return;

	memset(trace, 0, trace_shmem_size(nhandles));
	pg_atomic_init_u64(&trace->next, 1);
	pg_atomic_init_u64(&trace->lost_waits, 0);
	trace->first = 1;

	space = (char *) trace + CACHELINEALIGN(sizeof(TraceRing));
	trace->seqs = (pg_atomic_uint64 *) space;
	for (uint32 i = 0; i < nhandles; i++)
		pg_atomic_init_u64(&trace->seqs[i], 0);

	space += CACHELINEALIGN(nhandles * sizeof(pg_atomic_uint64));
	trace->nrecords = trace_size;
	trace->records = (TraceRecord *) space;
	for (int i = 0; i < trace_size; i++)
		SpinLockInit(&trace->records[i].mutex);
}

/*
 * Begins a record about a read that this process has just staged: "head" is
 * what it is to begin with.  Returns its number.  Whoever completes or waits
 * for the read finds it by the handle.
 */
uint64
trace_begin(PgAioHandle *ioh, TraceRecord *head)
{
	uint64		seq = pg_atomic_fetch_add_u64(&trace->next, 1);
	TraceRecord *record = trace_slot(seq);
	const size_t begin = offsetof(TraceRecord, flags);

	head->seq = seq;
	SpinLockAcquire(&record->mutex);
	/* the others may be a full round ahead by now */
	if (record->seq < seq)
		memcpy((char *) record + begin, (char *) head + begin, TRACE_RECORD_HEAD - begin);
	SpinLockRelease(&record->mutex);

	pg_atomic_write_u64(&trace->seqs[ioh - pgaio_ctl->io_handles], seq);

	return seq;
}

/*
 * Locks the record about this use of a handle, or returns NULL if there is
 * none, or it has been overwritten.
 */
TraceRecord *
trace_lock_io(PgAioHandle *ioh, uint64 generation)
{
	uint32		io = ioh - pgaio_ctl->io_handles;
	uint64		seq;
	TraceRecord *record;

	if (!trace_may_have(ioh, generation))
		return NULL;

	seq = pg_atomic_read_u64(&trace->seqs[io]);
	record = trace_slot(seq);
	SpinLockAcquire(&record->mutex);
	if (record->seq == seq && record->generation == generation && record->io == io)
		return record;
	SpinLockRelease(&record->mutex);

	return NULL;
}

/*
 * The number of that record, or 0.
 */
uint64
trace_find(PgAioHandle *ioh, uint64 generation)
{
	TraceRecord *record = trace_lock_io(ioh, generation);
	uint64		seq = 0;

	if (record != NULL)
	{
		seq = record->seq;
		SpinLockRelease(&record->mutex);
	}

	return seq;
}

/*
 * Locks the record with this number, or returns NULL if there is none any more.
 */
TraceRecord *
trace_lock(uint64 seq)
{
	TraceRecord *record = trace_slot(seq);

	SpinLockAcquire(&record->mutex);
	if (record->seq == seq)
		return record;
	SpinLockRelease(&record->mutex);

	return NULL;
}

/*
 * The numbers of the records that there are.  Some of them may be overwritten
 * before they are read.
 */
void
trace_range(uint64 *first, uint64 *end)
{
	LWLockAcquire(gate->lock, LW_SHARED);
	*first = trace->first;
	LWLockRelease(gate->lock);

	*end = pg_atomic_read_u64(&trace->next);
	if (*end - *first > trace->nrecords)
		*first = *end - trace->nrecords;
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
 * Copies a record.  False if it is not there, or not yet.
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

TimestampTz
trace_clock_offset(void)
{
	TimestampTz offset;

	LWLockAcquire(gate->lock, LW_SHARED);
	offset = trace->clock_offset;
	LWLockRelease(gate->lock);

	return offset;
}
