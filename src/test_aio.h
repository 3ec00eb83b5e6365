/*
 * What the module's source files share.
 */
#ifndef TEST_AIO_H
#define TEST_AIO_H

#include "postgres.h"

#include "access/relation.h"
#include "aio/clock.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

/* server.c: the library and the server around it */
extern const char *library_path(void);
extern bool server_is_stopping(void);
extern bool read_small_file(const char *path, char *contents, size_t size);

/* arguments.c: who may call, the "rel" argument and what comes with it */
extern void require_superuser(FunctionCallInfo fcinfo);
extern void require_monitor(FunctionCallInfo fcinfo);
extern Relation open_relation_for_io(FunctionCallInfo fcinfo, Oid relid, LOCKMODE lockmode);
extern void check_block_range(Relation rel, ForkNumber forknum,
							  int64 startblock, int64 nblocks);
extern void check_not_null(const char *name, bool is_null);
extern void check_range(const char *name, int64 value, int64 least, int64 most);

/* rows.c: rows of results, whose columns are set by name */
typedef struct Row Row;
extern Row *row_begin(FunctionCallInfo fcinfo);
extern void row_set(Row *row, const char *column, Datum value);
extern void row_set_if(Row *row, const char *column, bool known, Datum value);
extern void row_set_text(Row *row, const char *column, const char *text);
extern void row_set_ints(Row *row, const char *column, const int *values, int n);
extern void row_set_ms(Row *row, const char *column, bool known, IoTime length);
extern void row_set_file(Row *row, bool known, const RelFileLocator *rlocator);
extern void row_put(Row *row);
extern Datum row_result(Row *row);

/* Returns the descriptor of a buffer in either pool. */
static inline BufferDesc *
get_buffer_descriptor(Buffer buffer)
{
	return BufferIsLocal(buffer) ? GetLocalBufferDescriptor(-buffer - 1) : GetBufferDescriptor(buffer - 1);
}

/* buffer_header.c: what takes the lock of a buffer's header */
extern BufferState read_buffer_header(BufferDesc *desc, BufferTag *tag);
extern bool refer_to_buffer(BufferDesc *desc, const BufferTag *tag);
extern void drop_buffer_reference(BufferDesc *desc);
extern bool unset_buffer_valid(Buffer buffer);
extern void mark_buffer_failed(BufferDesc *desc);
extern bool forget_block(BufferDesc *desc, const BufferTag *tag, bool orphan);

/* buffers.c: blocks in and out of the buffer pool */
extern void require_evicted(Relation rel, BlockNumber blockno);
extern Buffer pin_block_as_invalid(Relation rel, BlockNumber blockno);
extern BufferDesc *lookup_buffer(Relation rel, const BufferTag *tag);

/* buffer_io.c: buffer I/O that sessions have started by SQL, and reads made by hand */
extern bool buffer_io_is_ours(Buffer buffer);
extern IoTime buffer_io_end(int pid, IoTime now);
extern void stage_read(PgAioHandle *ioh, Relation rel, BlockNumber first, const Buffer *buffers,
					   int nblocks, bool zero_on_error, PgAioWaitRef *iow);

/* reads.c: for a write that is made by hand, too */
extern void start_block_io(Relation rel, BlockNumber first, const Buffer *buffers, int nblocks, bool for_input);
extern void check_combinable(Relation rel, int32 blockno, int32 nblocks);

/* handles.c: batch mode around functions that wait for what they start */
extern bool leave_batch(void);
extern void enter_batch_again(bool was_open);

/* called by _PG_init() when the library is preloaded, in this order */
extern void filters_init(void);
extern void injection_points_init(void);
extern void gate_init(void);
extern void buffer_io_init(void);
extern void trace_init(void);
extern void writes_init(void);

#endif							/* TEST_AIO_H */
