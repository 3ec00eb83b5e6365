/*
 * Shows what the headers of buffers say.
 *
 * pg_buffercache shows valid buffers only.  What a failed read leaves behind,
 * and what temporary tables have, is to be seen nowhere else.
 */
#include "test_aio.h"

#include "catalog/pg_type_d.h"
#include "utils/array.h"

PG_FUNCTION_INFO_V1(buffer_state);
PG_FUNCTION_INFO_V1(buffers_in_progress);
PG_FUNCTION_INFO_V1(buffers_in_file);

/* the flags that all versions have, by the names of buf_internals.h */
static const struct
{
	BufferState flag;
	const char *name;
}			buffer_flags[] =

{
	{BM_DIRTY, "DIRTY"},
	{BM_VALID, "VALID"},
	{BM_IO_IN_PROGRESS, "IO_IN_PROGRESS"},
	{BM_IO_ERROR, "IO_ERROR"},
	{BM_PIN_COUNT_WAITER, "PIN_COUNT_WAITER"},
	{BM_CHECKPOINT_NEEDED, "CHECKPOINT_NEEDED"},
	{BM_PERMANENT, "PERMANENT"},
};

static ArrayType *
flag_names(BufferState state)
{
	Datum		names[lengthof(buffer_flags)];
	int			n = 0;

	for (size_t i = 0; i < lengthof(buffer_flags); i++)
		if (state & buffer_flags[i].flag)
			names[n++] = CStringGetTextDatum(buffer_flags[i].name);

	return construct_array_builtin(names, n, TEXTOID);
}

/*
 * Returns the buffer of a block of the main fork, its flags (BM_...), how many
 * processes have pinned it (for a local buffer: how many pins there are) and how
 * recently it was used.  All columns are NULL if the block is in no buffer.  The
 * block must exist.  The buffer is not pinned, and nothing is read.
 */
Datum
buffer_state(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	BufferTag	tag;
	BufferTag	found;
	BufferDesc *desc;
	BufferState state = 0;
	Row		   *row = row_begin(fcinfo);

	check_block_range(rel, MAIN_FORKNUM, blockno, 1);

	InitBufferTag(&tag, &rel->rd_locator, MAIN_FORKNUM, blockno);
	desc = lookup_buffer(rel, &tag);
	if (desc != NULL)
		state = read_buffer_header(desc, &found);

	/* it may have been given to another block since */
	if ((state & BM_TAG_VALID) && BufferTagsEqual(&found, &tag))
	{
		Buffer		buffer = BufferDescriptorGetBuffer(desc);

		row_set(row, "buffer", Int32GetDatum(buffer));
		row_set(row, "flags", PointerGetDatum(flag_names(state)));
		row_set(row, "refcount", Int32GetDatum(BufferIsLocal(buffer) ?
											   LocalRefCount[-buffer - 1] :
											   (int32) BUF_STATE_GET_REFCOUNT(state)));
		row_set(row, "usage_count", Int32GetDatum(BUF_STATE_GET_USAGECOUNT(state)));
	}

	relation_close(rel, AccessShareLock);

	return row_result(row);
}

/*
 * Returns the shared buffers with a flag and a block of this file here, or of any
 * file.
 */
static Datum
put_buffers(FunctionCallInfo fcinfo, BufferState flag, RelFileNumber relfilenumber)
{
	Row		   *row;

	require_superuser(fcinfo);
	row = row_begin(fcinfo);

	for (int i = 0; i < NBuffers; i++)
	{
		BufferDesc *desc = GetBufferDescriptor(i);
		BufferTag	tag;
		BufferState state = read_buffer_header(desc, &tag);
		RelFileLocator file = BufTagGetRelFileLocator(&tag);

		CHECK_FOR_INTERRUPTS();
		if (!(state & flag) ||
			(relfilenumber != InvalidRelFileNumber &&
			 (BufTagGetRelNumber(&tag) != relfilenumber || tag.dbOid != MyDatabaseId)))
			continue;

		row_set(row, "buffer", Int32GetDatum(BufferDescriptorGetBuffer(desc)));
		row_set_file(row, true, &file);
		row_set_text(row, "fork", forkNames[BufTagGetForkNum(&tag)]);
		row_set(row, "blockno", Int64GetDatum(tag.blockNum));
		row_set(row, "flags", PointerGetDatum(flag_names(state)));
		row_set(row, "refcount", Int32GetDatum(BUF_STATE_GET_REFCOUNT(state)));

		row_put(row);
	}

	return (Datum) 0;
}

/* Returns the shared buffers with I/O in progress; local ones have no such mark. */
Datum
buffers_in_progress(PG_FUNCTION_ARGS)
{
	return put_buffers(fcinfo, BM_IO_IN_PROGRESS, InvalidRelFileNumber);
}

/*
 * Returns the shared buffers that hold blocks of a file of this database, valid or
 * not.  The relation is not locked, and need not exist any more.
 */
Datum
buffers_in_file(PG_FUNCTION_ARGS)
{
	return put_buffers(fcinfo, BM_TAG_VALID, PG_GETARG_OID(0));
}
