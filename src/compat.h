/*
 * The differences between the supported server versions, in one place.
 *
 * Nothing else in the project looks at PG_VERSION_NUM.  The wrappers have the
 * newer server's shape where the two differ, so that dropping the old version
 * means deleting a branch here and nothing more.
 */
#ifndef TEST_AIO_COMPAT_H
#define TEST_AIO_COMPAT_H

#if PG_VERSION_NUM >= 190000
#include "executor/instrument_node.h"
#endif
#include "storage/aio.h"
#include "storage/aio_internal.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/read_stream.h"

#if PG_VERSION_NUM < 180000
#error "test_aio needs PostgreSQL 18 or later"
#endif

/*
 * BufferDesc.state grew from 32 to 64 bits in 19.  The state of a local buffer, which no
 * other process sees, is written without its lock.
 */
#if PG_VERSION_NUM >= 190000
typedef uint64 BufferState;
#define buffer_state_read(desc) pg_atomic_read_u64(&(desc)->state)
#define buffer_state_write_local(desc, value) pg_atomic_unlocked_write_u64(&(desc)->state, value)
#else
typedef uint32 BufferState;
#define buffer_state_read(desc) pg_atomic_read_u32(&(desc)->state)
#define buffer_state_write_local(desc, value) pg_atomic_unlocked_write_u32(&(desc)->state, value)
#endif

/*
 * Unlocks the header of a shared buffer and changes flags and reference count
 * in the same step.  "set" and "unset" must have no bit in common: which of
 * them wins differs between 19beta1 and 19rc1.
 */
static inline void
buffer_header_unlock(BufferDesc *desc, BufferState state,
					 BufferState set, BufferState unset, int refcount_change)
{
	Assert((set & unset) == 0);
#if PG_VERSION_NUM >= 190000
	(void) UnlockBufHdrExt(desc, state, set, unset, refcount_change);
#else
	state = (state | set) & ~unset;
	state += BUF_REFCOUNT_ONE * refcount_change;
	UnlockBufHdr(desc, state);
#endif
}

/*
 * Claims the I/O on a buffer, as the server does before it reads or writes.  18 does not
 * tell whether it is done or is in progress, but the buffer does, afterwards.
 */
#if PG_VERSION_NUM >= 190000
#define start_buffer_io(buffer, for_input, wait) StartBufferIO(buffer, for_input, wait, NULL)
#else
typedef enum StartBufferIOResult
{
	BUFFER_IO_ALREADY_DONE,
	BUFFER_IO_IN_PROGRESS,
	BUFFER_IO_READY_FOR_IO,
} StartBufferIOResult;

static inline StartBufferIOResult
start_buffer_io(Buffer buffer, bool for_input, bool wait)
{
	bool		local = BufferIsLocal(buffer);
	BufferDesc *desc = local ? GetLocalBufferDescriptor(-buffer - 1) : GetBufferDescriptor(buffer - 1);

	if (local ? StartLocalBufferIO(desc, for_input, !wait) : StartBufferIO(desc, for_input, !wait))
		return BUFFER_IO_READY_FOR_IO;
	return !wait && (local ? pgaio_wref_valid(&desc->io_wref) : (buffer_state_read(desc) & BM_IO_IN_PROGRESS) != 0) ?
		BUFFER_IO_IN_PROGRESS : BUFFER_IO_ALREADY_DONE;
}
#endif

/* From 19 on, a page that is being written does not change. */
#if PG_VERSION_NUM < 190000
#define PageSetChecksum(page, blkno) PageSetChecksumInplace(page, blkno)
#else
#define BM_JUST_DIRTIED 0
#endif

/* From 19 on, reads can join another session's I/O, and tell waits; streams can pause, and count. */
#if PG_VERSION_NUM >= 190000
#define read_buffers_joined(operation) ((operation)->foreign_io)
#define WAITS_ARE_TOLD true
#define read_buffers_waited(operation) WaitReadBuffers(operation)
#define STREAM_CAN_PAUSE true
#define STREAM_COUNTS true
typedef IOStats StreamStats;
#define stream_pause(stream) read_stream_pause(stream)
#define stream_resume(stream) read_stream_resume(stream)
#define stream_count(stream, stats) read_stream_enable_stats(stream, stats)
#define stream_stat(stats, field) ((stats).field)
#else
#define read_buffers_joined(operation) ((void) (operation), false)
#define WAITS_ARE_TOLD false
#define read_buffers_waited(operation) (WaitReadBuffers(operation), false)
#define STREAM_CAN_PAUSE false
#define STREAM_COUNTS false
typedef char StreamStats;
#define stream_pause(stream) ((void) (stream), InvalidBlockNumber)
#define stream_resume(stream) ((void) (stream))
#define stream_count(stream, stats) ((void) (stream), (void) (stats))
#define stream_stat(stats, field) 0
#endif

/*
 * Our table of I/O method functions relies on internal interfaces, which every
 * major version may change.  This is the last major version on which the test
 * suite has passed; doc/install.md names it too.  A test may pretend that it is lower.
 */
#ifndef PG_TEST_AIO_LAST_KNOWN
#define PG_TEST_AIO_LAST_KNOWN 19
#endif
#define IO_METHOD_KNOWS_SERVER (PG_VERSION_NUM / 10000 <= PG_TEST_AIO_LAST_KNOWN)

#if PG_VERSION_NUM >= 190000
#define IO_METHOD_HAS_CHECK_ONE
#define IO_METHOD_FUNCTIONS 5
#define IO_METHOD_LAST_FUNCTION check_one
#else
#define IO_METHOD_FUNCTIONS 4
#define IO_METHOD_LAST_FUNCTION wait_one
#endif

/*
 * Returns whether I/O methods and completion callbacks have the functions that we
 * know and no others: the gate has to take part in all of them.
 */
static inline bool
io_method_has_known_functions(void)
{
	Size		last = offsetof(IoMethodOps, IO_METHOD_LAST_FUNCTION);

	return last - offsetof(IoMethodOps, init_backend) ==
		(IO_METHOD_FUNCTIONS - 1) * sizeof(void (*) (void)) &&
		sizeof(IoMethodOps) == last + sizeof(void (*) (void)) &&
		sizeof(PgAioHandleCallbacks) == 4 * sizeof(void (*) (void));
}

/*
 * Before the table is installed, the layout of the server's structures is
 * compared with ours: by dladdr1(), which only glibc has.  And the processes
 * of the server must inherit the table.
 */
#if defined(__linux__) && defined(__GLIBC__) && !defined(EXEC_BACKEND) && !defined(TEST_AIO_NO_GATE)
#define IO_METHOD_CAN_BE_CHECKED
#endif

#endif							/* TEST_AIO_COMPAT_H */
