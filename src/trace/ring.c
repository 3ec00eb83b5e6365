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

#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define MAX_TRACE_SIZE 10000000
#define LWLOCK_TRANCHE "test_aio trace"

TraceRing  *trace;
int			trace_size = 16384;
bool		trace_completions = false;

/* why there is no trace */
static Obstacle obstacle = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "there is no I/O trace in this server",
};

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static void
define_settings(void)
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

static Size
shmem_size(uint32 nhandles)
{
	Size		size = CACHELINEALIGN(sizeof(TraceRing));

	size = add_size(size, CACHELINEALIGN(mul_size(nhandles, sizeof(pg_atomic_uint64))));
	return add_size(size, mul_size(trace_size, sizeof(TraceRecord)));
}

static void
trace_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(shmem_size(io_expected_handles()));
	RequestNamedLWLockTranche(LWLOCK_TRANCHE, 1);
}

static void
init_ring(uint32 nhandles)
{
	char	   *space = (char *) trace + CACHELINEALIGN(sizeof(TraceRing));

	memset(trace, 0, shmem_size(nhandles));
	trace->lock = &GetNamedLWLockTranche(LWLOCK_TRANCHE)->lock;
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

/*
 * Records why there is no trace, and what mends it.
 */
static void
stay_out(const char *reason, const char *hint)
{
	/* what is allocated here now, other processes lose */
	obstacle.reason = MemoryContextStrdup(TopMemoryContext, reason);
	obstacle.hint = hint;
}

static void
trace_shmem_startup(void)
{
	const char *reason;
	uint32		nhandles;
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	reason = io_handles_obstacle();
	if (reason != NULL)
	{
		trace = NULL;
		stay_out(reason, io_compile_anew_hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O trace stays out: %s", reason)));
		return;
	}

	nhandles = pgaio_ctl->io_handle_count;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	trace = ShmemInitStruct("test_aio trace", shmem_size(nhandles), &found);
	if (!found)
		init_ring(nhandles);
	LWLockRelease(AddinShmemInitLock);

	io_set_listener(&trace_listener);
}

/*
 * Prepares the trace.  Called when the library is preloaded, after gate_init():
 * of synchronous reads, the trace sees those that the gate does not capture.
 */
void
trace_init(void)
{
	const char *reason;
	const char *hint;

	define_settings();
	if (trace_size == 0)
	{
		stay_out("\"test_aio.trace_size\" is 0",
				 "Set \"test_aio.trace_size\" to the number of reads that the trace is to have room for, and restart the server.");
		return;
	}

	reason = io_method_obstacle(&hint);
	if (reason == NULL && trace_completions)
	{
		reason = trace_see_completions();
		hint = "Set \"test_aio.trace_completions\" to off and restart the server.";
	}
	if (reason != NULL)
	{
		stay_out(reason, hint);
		ereport(LOG,
				(errmsg("test_aio: the I/O trace stays out: %s", reason)));
		return;
	}

	/* unless the hook below is called, which is up to other libraries */
	stay_out("its shared memory was not set up",
			 "Does another library in \"shared_preload_libraries\" not call the previous shmem_startup_hook?");
	trace_notice_init();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = trace_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = trace_shmem_startup;
}

/*
 * Returns why there is no trace, if there is none.
 */
const Obstacle *
trace_obstacle(void)
{
	if (obstacle.reason == NULL)
	{
		obstacle.reason = not_preloaded.reason;
		obstacle.hint = not_preloaded.hint;
	}
	return &obstacle;
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
	LWLockAcquire(trace->lock, LW_SHARED);
	*first = trace->first;
	LWLockRelease(trace->lock);

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

	LWLockAcquire(trace->lock, LW_SHARED);
	offset = trace->clock_offset;
	LWLockRelease(trace->lock);

	return offset;
}
