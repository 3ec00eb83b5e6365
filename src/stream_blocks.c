/*-------------------------------------------------------------------------
 *
 * stream_blocks.c
 *		The blocks of a read stream: as an argument, and as the stream returns
 *		them.
 *
 * src/stream_blocks.c
 *
 *-------------------------------------------------------------------------
 */
#include "streams.h"

#include "miscadmin.h"
#include "storage/smgr.h"

/*
 * Returns the index of the first null element of an array, or -1.
 */
static int
find_null(AnyArrayType *array, int n)
{
	const bool *nulls = NULL;
	const uint8 *bitmap = NULL;

	if (!VARATT_IS_EXPANDED_HEADER(array))
		bitmap = ARR_NULLBITMAP(&array->flt);
	else if (array->xpn.dvalues == NULL)
		bitmap = ARR_NULLBITMAP(array->xpn.fvalue);
	else
		nulls = array->xpn.dnulls;

	if (nulls == NULL && bitmap == NULL)
		return -1;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls != NULL ? nulls[i] : !(bitmap[i / 8] & (1 << (i % 8))))
			return i;
	}

	return -1;
}

/*
 * Returns an int4[] argument.  Raises an error if it has more than one dimension
 * or a null element; "element" is the message's word for an element.
 */
Int4Array
int4_array_arg(FunctionCallInfo fcinfo, int arg, const char *element)
{
	AnyArrayType *array = PG_GETARG_ANY_ARRAY_P(arg);
	Int4Array	result = {0};
	int			null_index;

	if (AARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array of %ss must have one dimension", element)));

	result.n = ArrayGetNItems(AARR_NDIM(array), AARR_DIMS(array));
	null_index = find_null(array, result.n);
	if (null_index >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", element),
				 errdetail("Element %d of the array is null.", null_index + 1)));

	if (!VARATT_IS_EXPANDED_HEADER(array))
		result.values = (int32 *) ARR_DATA_PTR(&array->flt);
	else if (array->xpn.dvalues == NULL)
		result.values = (int32 *) ARR_DATA_PTR(array->xpn.fvalue);
	else
		result.datums = array->xpn.dvalues;

	return result;
}

/*
 * Raises an error unless all elements are blocks of this fork.
 */
void
check_stream_blocks(const Int4Array *blocks, Relation rel, ForkNumber forknum)
{
	int64		available = smgrnblocks(RelationGetSmgr(rel), forknum);

	for (int i = 0; i < blocks->n; i++)
	{
		int32		blockno = int4_array_get(blocks, i);

		CHECK_FOR_INTERRUPTS();
		if (unlikely(blockno < 0 || blockno >= available))
			check_fork_block_range(rel, forknum, blockno, 1);
	}
}

/*
 * Raises the error that tells how a buffer that a stream has returned is wrong.
 */
void
raise_wrong_buffer(Buffer buffer, const BufferTag *expected, Relation rel)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = buffer_state_read(desc);
	BufferTag	found = desc->tag;

	if (BUF_STATE_GET_REFCOUNT(state) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d unpinned", buffer)));
	if (!(state & BM_VALID))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d not valid", buffer)));

	found.blockNum = expected->blockNum;
	if (!BufferTagsEqual(&found, expected))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d, which does not hold a block of relation \"%s\"",
						buffer, RelationGetRelationName(rel))));

	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("read stream returned block %u instead of block %u of relation \"%s\"",
					desc->tag.blockNum, expected->blockNum,
					RelationGetRelationName(rel))));
}

/*
 * Raises the error of a stream that has ended before its last block.
 */
void
raise_stream_too_short(int nfound, int nblocks)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("read stream ended after %d of %d blocks", nfound, nblocks)));
}

/*
 * Raises the error of a stream that goes on after its last block.
 */
void
raise_stream_too_long(int nblocks)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("read stream returned more than %d blocks", nblocks)));
}
