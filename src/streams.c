/*-------------------------------------------------------------------------
 *
 * streams.c
 *		Read streams over any blocks in any order, one row a block.
 *
 * src/streams.c
 *
 *-------------------------------------------------------------------------
 */
#include "streams.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "storage/read_stream.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(read_stream_for_blocks);

/* How far a stream has looked ahead. */
typedef struct LookAhead
{
	Int4Array	blocks;
	int			next;
} LookAhead;

/* ReadStreamBlockNumberCB */
static BlockNumber
next_block_for_stream(ReadStream *stream pg_attribute_unused(),
					  void *callback_private_data,
					  void *per_buffer_data pg_attribute_unused())
{
	LookAhead  *ahead = callback_private_data;

	if (ahead->next >= ahead->blocks.n)
		return InvalidBlockNumber;

	return (BlockNumber) int4_array_get(&ahead->blocks, ahead->next++);
}

/*
 * read_stream_for_blocks(rel regclass, blocks int4[])
 *		returns setof (blockoff int4, blocknum int4, buf int4)
 *
 * Reads these blocks of the main fork, in this order, repeats included, by a read
 * stream (read_stream_begin_relation, READ_STREAM_FULL).  One row is one block:
 * its index in the array, the block that the buffer holds, the buffer.  Raises an
 * error if that is not the block asked for, or if the stream ends early or late.
 */
Datum
read_stream_for_blocks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	LookAhead	ahead = {0};
	BufferTag	expected;
	ReadStream *stream;
	Datum		values[3];
	bool		nulls[3] = {0};
	bool		batch_was_open;

	ahead.blocks = int4_array_arg(fcinfo, 1, "block number");
	check_stream_blocks(&ahead.blocks, rel, MAIN_FORKNUM);

	InitMaterializedSRF(fcinfo, 0);
	InitBufferTag(&expected, &rel->rd_locator, MAIN_FORKNUM, 0);

	/* a stream that does not batch waits for what it has just started */
	batch_was_open = suspend_batch();

	stream = read_stream_begin_relation(READ_STREAM_FULL, NULL, rel,
										MAIN_FORKNUM, next_block_for_stream,
										&ahead, 0);

	for (int i = 0; i < ahead.blocks.n; i++)
	{
		Buffer		buffer = read_stream_next_buffer(stream, NULL);

		CHECK_FOR_INTERRUPTS();

		if (unlikely(!BufferIsValid(buffer)))
			raise_stream_too_short(i, ahead.blocks.n);

		expected.blockNum = int4_array_get(&ahead.blocks, i);
		check_streamed_buffer(buffer, &expected, rel);

		values[0] = Int32GetDatum(i);
		values[1] = Int32GetDatum(get_buffer_descriptor(buffer)->tag.blockNum);
		values[2] = Int32GetDatum(buffer);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

		ReleaseBuffer(buffer);
	}

	if (BufferIsValid(read_stream_next_buffer(stream, NULL)))
		raise_stream_too_long(ahead.blocks.n);

	read_stream_end(stream);
	resume_batch(batch_was_open);
	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}
