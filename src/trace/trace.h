/*
 * The I/O trace: what happened to each read, and when.
 *
 * While a trace is asked for, every read that is staged gets a record in a ring in
 * shared memory.  The processes that submit, wait for and complete the read add to
 * it.
 */
#ifndef TEST_AIO_TRACE_H
#define TEST_AIO_TRACE_H

#include "aio/aio.h"

#include "port/atomics.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* waits of which a record keeps the details */
#define TRACE_MAX_WAITS 4

typedef enum TraceState
{
	TRACE_STAGED,
	TRACE_SUBMITTED,
	TRACE_COMPLETED,
} TraceState;

typedef struct TraceWait
{
	int			pid;
	IoTime		start;
	IoTime		length;			/* < 0: not over, or ended by an error */
	const char *call;			/* of a read stream, or NULL; static */
} TraceWait;

/* What every read writes to comes first, to keep that in few cache lines. */
typedef struct TraceRecord
{
	slock_t		mutex;
	uint8		flags;			/* PgAioHandleFlags, when it was staged */
	bool		held;			/* complete, and was held or on a device */
	bool		joined;			/* others than the issuer have waited for it */
	TraceState	state;
	uint64		seq;			/* 0: not used yet */

	/* which I/O */
	uint64		generation;
	uint32		io;
	uint8		op;
	ProcNumber	owner;
	int			issuer;			/* pid */
	BackendType issuer_type;
	PgAioTargetData target;
	uint64		offset;

	IoTime		staged;
	IoTime		submitted;
	int			in_progress;
	int			lookahead;
	int			together;		/* how many were submitted; 0: synchronous */
	IoTime		completed;
	int32		raw_result;
	PgAioResultStatus status;
	int			executor;		/* pid; 0: the kernel */
	int			completer;		/* pid */

	int			nwaits;			/* the first ones are in waits[] */
	int			nwaits_for_handle;
	IoTime		wait_time;		/* of all that are over */
	TraceWait	waits[TRACE_MAX_WAITS];
} TraceRecord;

/* the bytes that are set when a record begins: all before the waits */
#define TRACE_RECORD_HEAD	offsetof(TraceRecord, waits)

/* "next" is written to by every read, the rest hardly ever. */
typedef struct TraceRing
{
	pg_atomic_uint64 next;		/* number of the next record, from 1 */
	char		pad[PG_CACHE_LINE_SIZE];

	uint64		nrecords;
	TraceRecord *records;		/* record n is at n % nrecords */
	pg_atomic_uint64 *seqs;		/* of each handle's last record, or 0; others
								 * look after the state SUBMITTED, see GateIo */
	pg_atomic_uint64 lost_waits;

	/* read without lock */
	volatile uint32 version;	/* of "match" */
	volatile uint32 ops;		/* what is traced; 0: nothing */

	LWLock	   *lock;			/* for all below */
	IoMatch		match;
	uint64		first;			/* earlier records are forgotten */
	TimestampTz started_at;		/* 0: never */
	TimestampTz stopped_at;
	TimestampTz clock_offset;	/* time of day where IoTime is 0 */
} TraceRing;

/* ring.c */
extern TraceRing *trace;
extern int	trace_size;
extern Size trace_shmem_size(uint32 nhandles);
extern void trace_init_ring(uint32 nhandles, LWLock *lock);
extern void trace_begin(PgAioHandle *ioh, TraceRecord *head);
extern TraceRecord *trace_lock(uint64 seq);
extern TraceRecord *trace_lock_io(PgAioHandle *ioh, uint64 generation);

/* record.c */
extern const IoListener trace_listener;
extern void trace_init_calls(void);

/* Returns the operations that are traced.  A look without lock. */
static inline uint32
trace_ops(void)
{
	return trace != NULL ? trace->ops : 0;
}

/* start.c */
extern Subsystem trace_subsystem;

#endif							/* TEST_AIO_TRACE_H */
