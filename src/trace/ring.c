/*
 * The ring of records in shared memory: finding, locking, reading them.
 *
 * Each number of a record has its place; a new record overwrites the one a full round
 * older.  A process that adds to a record locks it for a few words, and looks whether
 * it is still the record with that number.
 */
#include "trace/trace.h"

TraceRing  *trace;
int			trace_size = 16384;

Size
trace_shmem_size(uint32 nhandles)
{
	Size		size = CACHELINEALIGN(sizeof(TraceRing));

	size = add_size(size, CACHELINEALIGN(mul_size(nhandles, sizeof(pg_atomic_uint64))));
	return add_size(size, mul_size(trace_size, sizeof(TraceRecord)));
}

/* Prepares the shared memory of the trace, as "trace" says where it is. */
void
trace_init_ring(uint32 nhandles, LWLock *lock)
{
	char	   *space = (char *) trace + CACHELINEALIGN(sizeof(TraceRing));

	trace->lock = lock;
	pg_atomic_init_u64(&trace->next, 1);
	pg_atomic_init_u64(&trace->lost_waits, 0);
	trace->first = 1;

	trace->seqs = (pg_atomic_uint64 *) space;
	for (uint32 i = 0; i < nhandles; i++)
		pg_atomic_init_u64(&trace->seqs[i], 0);

	space += CACHELINEALIGN(nhandles * sizeof(pg_atomic_uint64));
	trace->nrecords = trace_size;
	trace->records = (TraceRecord *) space;
	for (int i = 0; i < trace_size; i++)
		SpinLockInit(&trace->records[i].mutex);
}

static TraceRecord *
slot(uint64 seq)
{
	return &trace->records[seq % trace->nrecords];
}

/* Begins a record, as "head" says, about a read that this process has just staged. */
void
trace_begin(PgAioHandle *ioh, TraceRecord *head)
{
	uint64		seq = pg_atomic_fetch_add_u64(&trace->next, 1);
	TraceRecord *record = slot(seq);
	const size_t begin = offsetof(TraceRecord, flags);

	head->seq = seq;
	SpinLockAcquire(&record->mutex);
	/* the others may be a full round ahead by now */
	if (record->seq < seq)
		memcpy((char *) record + begin, (char *) head + begin, TRACE_RECORD_HEAD - begin);
	SpinLockRelease(&record->mutex);

	pg_atomic_write_u64(&trace->seqs[io_index(ioh)], seq);
}

/* Locks the record with this number, or returns NULL if there is none any more. */
TraceRecord *
trace_lock(uint64 seq)
{
	TraceRecord *record = slot(seq);

	SpinLockAcquire(&record->mutex);
	if (record->seq == seq)
		return record;
	SpinLockRelease(&record->mutex);

	return NULL;
}

/* Locks the record about this use of a handle; NULL if there is none (any more). */
TraceRecord *
trace_lock_io(PgAioHandle *ioh, uint64 generation)
{
	uint32		io = io_index(ioh);
	uint64		seq = pg_atomic_read_u64(&trace->seqs[io]);
	TraceRecord *record = slot(seq);

	/* without its lock: under the lock, the number alone decides */
	if (seq == 0 || record->generation != generation || record->io != io)
		return NULL;
	return trace_lock(seq);
}
