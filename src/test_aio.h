/*
 * What the module's source files share.
 */
#ifndef TEST_AIO_H
#define TEST_AIO_H

#include "postgres.h"

#include "access/relation.h"
#include "compat.h"
#include "fmgr.h"
#include "storage/aio_internal.h"
#include "storage/ipc.h"
#include "utils/rel.h"

/* Why something cannot be done in this server. */
typedef struct Unavailable
{
	int			sqlerrcode;
	const char *message;
	const char *reason;			/* or NULL */
	const char *hint;			/* or NULL */
} Unavailable;

/* subsystem.c: what is there, and why something is not */
extern const char *library_path(void);
pg_noreturn extern void raise_unavailable(const Unavailable *unavailable);

/* aio/shutdown.c */
extern bool server_is_stopping(void);

/* arguments.c: the "rel" argument and what comes with it */
extern void require_superuser(FunctionCallInfo fcinfo);
extern void require_monitor(FunctionCallInfo fcinfo);
extern Relation lock_and_open(Oid relid, LOCKMODE lockmode);
extern Relation open_relation_for_io(FunctionCallInfo fcinfo, Oid relid,
									 LOCKMODE lockmode);
extern void check_block_range(Relation rel, ForkNumber forknum,
							  int64 startblock, int64 nblocks);
extern void check_not_null(const char *name, bool is_null);
extern void check_range(const char *name, int64 value, int64 least, int64 most);

/* rows.c: rows of results; nulls and n begin as zeros */
typedef struct Row
{
	Datum		values[35];
	bool		nulls[35];
	int			n;
} Row;
extern void row_add(Row *row, Datum value);
extern void row_add_if(Row *row, bool known, Datum value);
extern void row_add_text(Row *row, const char *text);
extern void row_add_nulls(Row *row, int n);
extern void row_add_file(Row *row, bool known, const RelFileLocator *rlocator);
extern void row_put(FunctionCallInfo fcinfo, Row *row);
extern Datum row_result(FunctionCallInfo fcinfo, Row *row);

/*
 * Returns the descriptor of a buffer in either pool.
 */
static inline BufferDesc *
get_buffer_descriptor(Buffer buffer)
{
	Assert(BufferIsValid(buffer));

	return BufferIsLocal(buffer) ?
		GetLocalBufferDescriptor(-buffer - 1) :
		GetBufferDescriptor(buffer - 1);
}

/*
 * Returns the state of a buffer in either pool, and gets the tag that it has at that
 * moment.
 */
static inline BufferState
read_buffer_header(BufferDesc *desc, BufferTag *tag)
{
	bool		local = BufferIsLocal(BufferDescriptorGetBuffer(desc));
	BufferState state = local ? buffer_state_read(desc) : LockBufHdr(desc);

	*tag = desc->tag;
	if (!local)
		buffer_header_unlock(desc, state, 0, 0, 0);

	return state;
}

/* buffers.c: blocks in and out of the buffer pool */
extern void require_evicted(Relation rel, BlockNumber blockno);
extern Buffer pin_block_as_invalid(Relation rel, BlockNumber blockno);
extern BufferDesc *lookup_buffer(Relation rel, const BufferTag *tag);

/* buffer_io.c: buffer I/O that this session has started by SQL */
extern bool buffer_io_is_ours(Buffer buffer);
extern Oid	started_input(Buffer buffer, BlockNumber *blockno);
extern void hand_over_started(Buffer buffer);

/* session.c: what a session does not do meanwhile, or outside of a batch only */
typedef void (*StartedIOCallback) (void);
extern void session_has_started_io(StartedIOCallback check, StartedIOCallback end);
extern void before_lock_wait(const char *object);
extern void before_session_exits(pg_on_exit_callback callback, int *registered);
extern void require_started_io_allowed(FunctionCallInfo fcinfo);
extern void enter_batch(FunctionCallInfo fcinfo);
extern bool in_query_of_client(void);
extern void submit_staged(void);
extern bool suspend_batch(void);
extern void resume_batch(bool was_open);

/* called by _PG_init(): the first always, the others when the library is preloaded, in this order */
extern void session_init(void);
extern void filters_init(void);
extern void kept_init(void);
extern void injection_points_init(void);
extern void gate_init(void);
extern void trace_init(void);

#endif							/* TEST_AIO_H */
