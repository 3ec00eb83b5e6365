/*-------------------------------------------------------------------------
 *
 * streams.c
 *		Read streams over any blocks in any order.
 *
 * src/streams.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "storage/read_stream.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(read_stream_for_blocks);

/*
 * An array of block numbers, read in place: neither the values nor anything
 * else is kept for each of them.
 */
typedef struct BlockList
{
	AnyArrayType *array;
	int			nblocks;
	int			next;			/* index of the next one to be returned */
	array_iter	iter;
} BlockList;

static void
block_list_rewind(BlockList *list)
{
	int4_array_iter_setup(&list->iter, list->array);
	list->next = 0;
}

/*
 * Gets the next block number.  Returns false after the last one.
 */
static bool
block_list_next(BlockList *list, int32 *blockno, bool *isnull)
{
	Datum		value;

	if (list->next >= list->nblocks)
		return false;

	value = int4_array_iter_next(&list->iter, isnull, list->next++);
	*blockno = *isnull ? 0 : DatumGetInt32(value);

	return true;
}

/*
 * Raises an error unless all elements are blocks of the relation.
 */
static void
check_block_list(BlockList *list, Relation rel)
{
	int64		available = main_fork_nblocks(rel);
	int32		blockno;
	bool		isnull;

	block_list_rewind(list);
	while (block_list_next(list, &blockno, &isnull))
	{
		CHECK_FOR_INTERRUPTS();

		if (isnull)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("block number must not be null"),
					 errdetail("Element %d of the array is null.", list->next)));
		if (blockno < 0 || blockno >= available)
			check_block(rel, blockno);
	}
}

/* ReadStreamBlockNumberCB */
static BlockNumber
next_block_for_stream(ReadStream *stream pg_attribute_unused(),
					  void *callback_private_data,
					  void *per_buffer_data pg_attribute_unused())
{
	BlockList  *list = callback_private_data;
	int32		blockno;
	bool		isnull;

	return block_list_next(list, &blockno, &isnull) ? (BlockNumber) blockno : InvalidBlockNumber;
}

/*
 * Returns which block of the relation this buffer holds.  Raises an error
 * unless the buffer is pinned, valid and holds a block of the relation.
 */
static BlockNumber
block_in_buffer(Buffer buffer, Relation rel)
{
	BufferState state = buffer_state_read(get_buffer_descriptor(buffer));
	RelFileLocator rlocator;
	ForkNumber	forknum;
	BlockNumber blockno;

	if (BUF_STATE_GET_REFCOUNT(state) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d unpinned", buffer)));
	if (!(state & BM_VALID))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d not valid", buffer)));

	BufferGetTag(buffer, &rlocator, &forknum, &blockno);
	if (!RelFileLocatorEquals(rlocator, rel->rd_locator) || forknum != MAIN_FORKNUM)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned buffer %d, which does not hold a block of relation \"%s\"",
						buffer, RelationGetRelationName(rel))));

	return blockno;
}

/*
 * read_stream_for_blocks(rel regclass, blocks int4[])
 *		returns setof (blockoff int4, blocknum int4, buf int4)
 *
 * A read stream (read_stream_begin_relation, READ_STREAM_FULL) over these
 * blocks of the main fork, in this order, repeats included.  One row a block:
 * its index in the array, the block that the buffer holds, the buffer.  It is
 * an error when that is not the block asked for, or when the stream ends
 * early or late.
 */
Datum
read_stream_for_blocks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	AnyArrayType *array = PG_GETARG_ANY_ARRAY_P(1);
	BlockList	to_read;
	BlockList	expected;
	ReadStream *stream;
	int32		blockno;
	bool		isnull;
	bool		batch_was_open;

	if (AARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array of block numbers must have one dimension")));

	to_read.array = array;
	to_read.nblocks = ArrayGetNItems(AARR_NDIM(array), AARR_DIMS(array));
	check_block_list(&to_read, rel);

	InitMaterializedSRF(fcinfo, 0);

	/* the stream runs ahead of us, so there are two positions in the array */
	block_list_rewind(&to_read);
	expected = to_read;

	/* a stream that does not batch waits for what it has just started */
	batch_was_open = suspend_batch();

	stream = read_stream_begin_relation(READ_STREAM_FULL, NULL, rel,
										MAIN_FORKNUM, next_block_for_stream,
										&to_read, 0);

	while (block_list_next(&expected, &blockno, &isnull))
	{
		Buffer		buffer = read_stream_next_buffer(stream, NULL);
		Datum		values[3];
		bool		nulls[3] = {0};
		BlockNumber found;

		CHECK_FOR_INTERRUPTS();

		if (!BufferIsValid(buffer))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("read stream ended after %d of %d blocks",
							expected.next - 1, expected.nblocks)));

		found = block_in_buffer(buffer, rel);
		if (found != (BlockNumber) blockno)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("read stream returned block %u instead of block %d of relation \"%s\"",
							found, blockno, RelationGetRelationName(rel))));

		values[0] = Int32GetDatum(expected.next - 1);
		values[1] = Int32GetDatum(found);
		values[2] = Int32GetDatum(buffer);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

		ReleaseBuffer(buffer);
	}

	if (BufferIsValid(read_stream_next_buffer(stream, NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("read stream returned more than %d blocks", expected.nblocks)));

	read_stream_end(stream);
	resume_batch(batch_was_open);
	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}
