/*-------------------------------------------------------------------------
 *
 * streams.h
 *		What the functions that run read streams share.
 *
 * src/streams.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_STREAMS_H
#define TEST_AIO_STREAMS_H

#include "test_aio.h"

/*
 * An int4[] argument without nulls, read in place: nothing is copied.
 */
typedef struct Int4Array
{
	const int32 *values;		/* of a flat array, else NULL */
	const Datum *datums;		/* of an expanded one */
	int			n;
} Int4Array;

static inline int32
int4_array_get(const Int4Array *array, int i)
{
	return array->values != NULL ? array->values[i] :
		DatumGetInt32(array->datums[i]);
}

extern Int4Array int4_array_arg(FunctionCallInfo fcinfo, int arg, const char *element);
extern void check_stream_blocks(const Int4Array *blocks, Relation rel, ForkNumber forknum);
pg_noreturn extern void raise_wrong_buffer(Buffer buffer, const BufferTag *expected,
										   Relation rel);
pg_noreturn extern void raise_stream_too_short(int nfound, int nblocks);
pg_noreturn extern void raise_stream_too_long(int nblocks);

/*
 * Raises an error unless a buffer that a stream has returned is pinned and
 * valid, and holds this block.
 */
static inline void
check_streamed_buffer(Buffer buffer, const BufferTag *expected, Relation rel)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = buffer_state_read(desc);

	if (unlikely(!(state & BM_VALID) || BUF_STATE_GET_REFCOUNT(state) == 0 ||
				 !BufferTagsEqual(&desc->tag, expected)))
		raise_wrong_buffer(buffer, expected, rel);
}

#endif							/* TEST_AIO_STREAMS_H */
