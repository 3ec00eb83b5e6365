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
 * Begins a record about a read that this process has just staged, and returns
 * its number.  Whoever completes or waits for the read finds it by the handle.
 */
uint64
trace_reserve(PgAioHandle *ioh)
{
	uint64		seq = pg_atomic_fetch_add_u64(&trace->next, 1);
	TraceRecord *record = trace_slot(seq);

	SpinLockAcquire(&record->mutex);
	/* the others may be a full round ahead by now */
	if (record->seq < seq)
	{
		memset((char *) record + offsetof(TraceRecord, seq), 0,
			   sizeof(TraceRecord) - offsetof(TraceRecord, seq));
		record->seq = seq;
		record->generation = ioh->generation;
		record->io = ioh - pgaio_ctl->io_handles;
		record->owner = ioh->owner_procno;
		record->issuer = trace_myself();
		record->target = ioh->target_data;
		record->offset = ioh->op_data.read.offset;
		record->flags = ioh->flags;
	}
	SpinLockRelease(&record->mutex);

	pg_atomic_write_u64(&trace->seqs[ioh - pgaio_ctl->io_handles], seq);

	return seq;
}

/*
 * The number of the record about this use of a handle, or 0.  It may have been
 * overwritten by the time that it is looked for.
 */
uint64
trace_find(PgAioHandle *ioh, uint64 generation)
{
	uint32		io = ioh - pgaio_ctl->io_handles;
	uint64		seq = pg_atomic_read_u64(&trace->seqs[io]);
	TraceRecord *record;
	bool		found;

	if (seq == 0)
		return 0;

	/* a look without the lock is enough for most that are not traced */
	record = trace_slot(seq);
	if (record->generation != generation || record->io != io)
		return 0;

	SpinLockAcquire(&record->mutex);
	found = record->seq == seq && record->generation == generation && record->io == io;
	SpinLockRelease(&record->mutex);

	return found ? seq : 0;
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
	*copy = *record;
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
