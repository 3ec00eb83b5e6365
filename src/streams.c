/*
 * Read streams over any blocks in any order: one row a block, or many runs
 * with all that a stream can be asked for.
 */
#include "test_aio.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "pgstat.h"
#include "utils/array.h"
#include "utils/pgstat_internal.h"

PG_FUNCTION_INFO_V1(read_stream_for_blocks);
PG_FUNCTION_INFO_V1(read_stream_run);

#define MAX_RUNS				1000000
#define MAX_PER_BUFFER_DATA		1024
#define MAX_RING_SIZE			(16 * 1024 * 1024)	/* kB, as the server's */

/* An int4[] argument: blocks, or ascending positions in the array of blocks. */
typedef struct Numbers
{
	const int32 *values;
	int			n;
} Numbers;

/* A walk along an array of blocks: a stream runs ahead, its consumer follows. */
typedef struct Walk
{
	Relation	rel;
	ReadStream *stream;
	BufferTag	tag;			/* of the consumer's block */
	Numbers		blocks;
	Numbers		pause_at;
	Numbers		reset_at;
	int			data_size;		/* of per-buffer data */
	uint32		run;			/* makes the data of every run different */

	int			ahead;			/* the stream's position */
	int			pauses;			/* how many are behind it */
	bool		paused;
	int			position;		/* the consumer's */
	int			resets;			/* how many it has done */
} Walk;

static Numbers
numbers_arg(FunctionCallInfo fcinfo, int arg, const char *element)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(arg);

	if (ARR_NDIM(array) > 1)
		ereport(ERROR, errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				errmsg("array of %ss must have one dimension", element));
	check_not_null(element, array_contains_nulls(array));

	return (Numbers)
	{
		.values = (int32 *) ARR_DATA_PTR(array),
			.n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array))
	};
}

static Numbers
blocks_arg(FunctionCallInfo fcinfo, int arg, Relation rel, ForkNumber forknum)
{
	Numbers		blocks = numbers_arg(fcinfo, arg, "block number");
	int64		available = smgrnblocks(RelationGetSmgr(rel), forknum);

	for (int i = 0; i < blocks.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (unlikely(blocks.values[i] < 0 || blocks.values[i] >= available))
			check_block_range(rel, forknum, blocks.values[i], 1);
	}

	return blocks;
}

/* The byte at this offset of the data of the present run's block at this position. */
static inline char
data_byte(const Walk *walk, int position, int offset)
{
	return (char) ((murmurhash32(position ^ (walk->run << 24)) >> (offset % 4 * 8)) + offset);
}

/* ReadStreamBlockNumberCB */
static BlockNumber
next_block(ReadStream *stream, void *callback_private_data, void *per_buffer_data)
{
	Walk	   *walk = callback_private_data;

	if (walk->pauses < walk->pause_at.n && walk->ahead == walk->pause_at.values[walk->pauses])
	{
		walk->pauses++;
		walk->paused = true;
		return stream_pause(stream);
	}
	if (walk->ahead >= walk->blocks.n)
		return InvalidBlockNumber;
	for (int i = 0; i < walk->data_size; i++)
		((char *) per_buffer_data)[i] = data_byte(walk, walk->ahead, i);

	return (BlockNumber) walk->blocks.values[walk->ahead++];
}

static void
look_ahead(Walk *walk)
{
	walk->ahead = walk->position;
	walk->paused = false;
	walk->pauses = 0;
	while (walk->pauses < walk->pause_at.n &&
		   walk->pause_at.values[walk->pauses] < walk->position)
		walk->pauses++;
}

/* Returns the stream's next buffer, after a reset and the end of a pause if due. */
static Buffer
next_buffer(Walk *walk, void **data)
{
	Buffer		buffer;

	if (walk->resets < walk->reset_at.n &&
		walk->position == walk->reset_at.values[walk->resets])
	{
		walk->resets++;
		read_stream_reset(walk->stream);
		look_ahead(walk);
	}

	/* two pauses may follow each other: one before a reset, one after it */
	while (!BufferIsValid(buffer = read_stream_next_buffer(walk->stream, data)) &&
		   walk->paused && walk->ahead == walk->position)
	{
		walk->paused = false;
		stream_resume(walk->stream);
	}

	return buffer;
}

/*
 * Returns the buffer of the consumer's next block, pinned.  Raises an error unless
 * the stream has returned just this block, valid and with the data it was given.
 */
static Buffer
walk_on(Walk *walk)
{
	void	   *data = NULL;
	Buffer		buffer = next_buffer(walk, walk->data_size > 0 ? &data : NULL);
	BufferDesc *desc;
	BufferState state;

	if (unlikely(!BufferIsValid(buffer)))
		ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
				errmsg("read stream ended after %d of %d blocks", walk->position, walk->blocks.n));

	desc = get_buffer_descriptor(buffer);
	state = buffer_state_read(desc);
	walk->tag.blockNum = walk->blocks.values[walk->position];
	if (unlikely(BUF_STATE_GET_REFCOUNT(state) == 0 || !(state & BM_VALID)))
		ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
				errmsg("read stream returned buffer %d %s", buffer,
					   state & BM_VALID ? "unpinned" : "not valid"));
	if (unlikely(!BufferTagsEqual(&desc->tag, &walk->tag)))
		ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
				errmsg("read stream returned buffer %d, which does not hold block %u of relation \"%s\"",
					   buffer, walk->tag.blockNum, RelationGetRelationName(walk->rel)),
				errdetail("It holds block %u of fork \"%s\" of file %u/%u/%u.", desc->tag.blockNum,
						  forkNames[BufTagGetForkNum(&desc->tag)], desc->tag.spcOid, desc->tag.dbOid,
						  BufTagGetRelNumber(&desc->tag)));
	for (int i = 0; i < walk->data_size; i++)
		if (unlikely(((char *) data)[i] != data_byte(walk, walk->position, i)))
			ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("read stream returned wrong per-buffer data"),
					errdetail("Position %d, block %u, byte %d.", walk->position, walk->tag.blockNum, i));
	walk->position++;

	return buffer;
}

/* Ends the stream.  Raises an error if it goes on after the last block. */
static void
end_walk(Walk *walk, bool early)
{
	if (!early && BufferIsValid(next_buffer(walk, NULL)))
		ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
				errmsg("read stream returned more than %d blocks", walk->blocks.n));
	read_stream_end(walk->stream);
}

/* ExprContextCallbackFunction: nobody wants more rows of read_stream_for_blocks(). */
static void
end_steps(Datum arg)
{
	Walk	   *walk = (Walk *) DatumGetPointer(arg);
	bool		batch_was_open = leave_batch();

	end_walk(walk, walk->position < walk->blocks.n);
	enter_batch_again(batch_was_open);
	relation_close(walk->rel, AccessShareLock);
}

/* Begins a stream that goes on from call to call, until end_steps(). */
static void
begin_steps(FunctionCallInfo fcinfo)
{
	FuncCallContext *steps = SRF_FIRSTCALL_INIT();
	MemoryContext context = MemoryContextSwitchTo(steps->multi_call_memory_ctx);
	Walk	   *walk = steps->user_fctx = palloc0_object(Walk);

	(void) get_call_result_type(fcinfo, NULL, &steps->tuple_desc);
	(void) BlessTupleDesc(steps->tuple_desc);
	walk->rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	walk->blocks = blocks_arg(fcinfo, 1, walk->rel, MAIN_FORKNUM);
	InitBufferTag(&walk->tag, &walk->rel->rd_locator, MAIN_FORKNUM, 0);
	walk->stream = read_stream_begin_relation(READ_STREAM_FULL, NULL, walk->rel, MAIN_FORKNUM,
											  next_block, walk, 0);
	RegisterExprContextCallback(((ReturnSetInfo *) fcinfo->resultinfo)->econtext,
								end_steps, PointerGetDatum(walk));
	MemoryContextSwitchTo(context);
}

/*
 * Reads these blocks of the main fork, in this order, repeats included, by a read
 * stream (read_stream_begin_relation, READ_STREAM_FULL).  One row is one block, and one
 * call: its index in the array, the block that the buffer holds, the buffer.  Raises an
 * error if that is not the block asked for, or if the stream ends early or late.
 */
Datum
read_stream_for_blocks(PG_FUNCTION_ARGS)
{
	static const bool nulls[3] = {false};
	Datum		values[3];
	FuncCallContext *steps;
	Walk	   *walk;
	bool		batch_was_open;
	Buffer		buffer;

	if (SRF_IS_FIRSTCALL())
		begin_steps(fcinfo);
	steps = SRF_PERCALL_SETUP();
	walk = steps->user_fctx;

	if (walk->position == walk->blocks.n)
	{
		UnregisterExprContextCallback(((ReturnSetInfo *) fcinfo->resultinfo)->econtext,
									  end_steps, PointerGetDatum(walk));
		end_steps(PointerGetDatum(walk));
		SRF_RETURN_DONE(steps);
	}

	/* a stream that does not batch waits for what it has just started */
	batch_was_open = leave_batch();
	buffer = walk_on(walk);
	enter_batch_again(batch_was_open);

	values[0] = Int32GetDatum(walk->position - 1);
	values[1] = Int32GetDatum(get_buffer_descriptor(buffer)->tag.blockNum);
	values[2] = Int32GetDatum(buffer);
	ReleaseBuffer(buffer);
	SRF_RETURN_NEXT(steps, HeapTupleGetDatum(heap_form_tuple(steps->tuple_desc, values, nulls)));
}

static Numbers
positions_arg(FunctionCallInfo fcinfo, int arg, const char *name, int most)
{
	Numbers		positions = numbers_arg(fcinfo, arg, "position");

	for (int i = 0; i < positions.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		check_range(name, positions.values[i], 0, most);
		if (i > 0 && positions.values[i] <= positions.values[i - 1])
			ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("positions in %s must be in ascending order", name));
	}

	return positions;
}

static ForkNumber
fork_arg(FunctionCallInfo fcinfo, int arg, Relation rel)
{
	ForkNumber	forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(arg)));

	if (!smgrexists(RelationGetSmgr(rel), forknum))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("relation \"%s\" has no fork \"%s\"",
					   RelationGetRelationName(rel), forkNames[forknum]));

	return forknum;
}

/* Returns the ring of buffers for a context of pg_stat_io, NULL for "normal". */
static BufferAccessStrategy
strategy_arg(FunctionCallInfo fcinfo, int context_arg, int size_arg)
{
	static const char *const contexts[] = {
		[BAS_NORMAL] = "normal",[BAS_BULKREAD] = "bulkread",
		[BAS_BULKWRITE] = "bulkwrite",[BAS_VACUUM] = "vacuum"
	};
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(context_arg));
	int			size = PG_GETARG_INT32(size_arg);
	int			type = 0;

	while (type < (int) lengthof(contexts) && strcmp(name, contexts[type]) != 0)
		type++;
	if (type == lengthof(contexts))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("unrecognized context \"%s\"", name),
				errhint("Valid contexts are \"normal\", \"bulkread\", \"bulkwrite\" and \"vacuum\"."));
	if (size == 0)
		return GetAccessStrategy(type);
	if (type == BAS_NORMAL)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("context \"normal\" has no ring, so ring_size must be 0"));
	check_range("ring_size", size, BLCKSZ / 1024, MAX_RING_SIZE);

	return GetAccessStrategyWithSize(type, size);
}

/* What this process has read, as pg_stat_io counts it. */
typedef struct ReadCounts
{
	int64		hits;
	int64		reads;
	int64		read_bytes;
} ReadCounts;

static ReadCounts
count_reads(void)
{
	ReadCounts	counts = {0};
	PgStat_EntryRef *entry;

	(void) pgstat_flush_backend(false, PGSTAT_BACKEND_FLUSH_IO);
	entry = pgstat_get_entry_ref(PGSTAT_KIND_BACKEND, InvalidOid, MyProcNumber, false, NULL);
	for (int object = 0; entry != NULL && object < IOOBJECT_NUM_TYPES; object++)
		for (int context = 0; context < IOCONTEXT_NUM_TYPES; context++)
		{
			/* only this process writes to it */
			PgStat_BktypeIO *io = &((PgStatShared_Backend *) entry->shared_stats)->stats.io_stats;

			counts.hits += io->counts[object][context][IOOP_HIT];
			counts.reads += io->counts[object][context][IOOP_READ];
			counts.read_bytes += io->bytes[object][context][IOOP_READ];
		}

	return counts;
}

/*
 * Runs a read stream (read_stream_begin_relation) over these blocks, in this order, nruns
 * times, with all that doc/functions.md says of its arguments.  Raises an error if a
 * block does not come, or with the per-buffer data of another one.
 */
Datum
read_stream_run(PG_FUNCTION_ARGS)
{
	Walk		walk = {.rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock)};
	ForkNumber	forknum;
	int32		nruns = PG_GETARG_INT32(3);
	int			flags = (PG_GETARG_BOOL(4) ? READ_STREAM_MAINTENANCE : 0) |
		(PG_GETARG_BOOL(5) ? READ_STREAM_SEQUENTIAL : 0) |
		(PG_GETARG_BOOL(6) ? READ_STREAM_FULL : 0) |
		(PG_GETARG_BOOL(7) ? READ_STREAM_USE_BATCHING : 0);
	int32		end_at = PG_GETARG_INT32(11);
	int64		nblocks = 0;
	StreamStats stats = {0};
	BufferAccessStrategy strategy;
	bool		batch_was_open;
	ReadCounts	before;
	ReadCounts	after;
	Row		   *row = row_begin(fcinfo);

	forknum = fork_arg(fcinfo, 2, walk.rel);
	InitBufferTag(&walk.tag, &walk.rel->rd_locator, forknum, 0);
	check_range("nruns", nruns, 1, MAX_RUNS);
	walk.data_size = PG_GETARG_INT32(8);
	check_range("per_buffer_data", walk.data_size, 0, MAX_PER_BUFFER_DATA);
	walk.blocks = blocks_arg(fcinfo, 1, walk.rel, forknum);
	walk.pause_at = positions_arg(fcinfo, 9, "pause_at", walk.blocks.n);
	if (walk.pause_at.n > 0 && !STREAM_CAN_PAUSE)
		ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("read streams of this server cannot pause"));
	walk.reset_at = positions_arg(fcinfo, 10, "reset_at", walk.blocks.n);
	check_range("end_at", end_at, -1, walk.blocks.n);
	strategy = strategy_arg(fcinfo, 12, 13);

	/* the stream may open a batch of its own, or wait for what it has started */
	batch_was_open = leave_batch();
	before = count_reads();
	for (walk.run = 0; walk.run < (uint32) nruns; walk.run++)
	{
		walk.position = walk.resets = 0;
		look_ahead(&walk);
		walk.stream = read_stream_begin_relation(flags, strategy, walk.rel, forknum,
												 next_block, &walk, walk.data_size);
		stream_count(walk.stream, &stats);
		while (walk.position < (end_at >= 0 ? end_at : walk.blocks.n))
		{
			CHECK_FOR_INTERRUPTS();
			ReleaseBuffer(walk_on(&walk));
		}
		end_walk(&walk, end_at >= 0);
		nblocks += walk.position;
		CHECK_FOR_INTERRUPTS();
	}
	after = count_reads();
	enter_batch_again(batch_was_open);
	relation_close(walk.rel, AccessShareLock);

	row_set(row, "runs", Int32GetDatum(nruns));
	row_set(row, "blocks", Int64GetDatum(nblocks));
	row_set(row, "hits", Int64GetDatum(after.hits - before.hits));
	row_set(row, "reads", Int64GetDatum(after.reads - before.reads));
	row_set(row, "read_bytes", Int64GetDatum(after.read_bytes - before.read_bytes));
	row_set_if(row, "waits", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, wait_count)));
	row_set_if(row, "prefetch_count", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, prefetch_count)));
	row_set_if(row, "distance_sum", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, distance_sum)));
	row_set_if(row, "distance_max", STREAM_COUNTS, Int32GetDatum(stream_stat(stats, distance_max)));
	row_set_if(row, "distance_capacity", STREAM_COUNTS, Int32GetDatum(stream_stat(stats, distance_capacity)));
	row_set_if(row, "io_count", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, io_count)));
	row_set_if(row, "io_nblocks", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, io_nblocks)));
	row_set_if(row, "io_in_progress", STREAM_COUNTS, Int64GetDatum(stream_stat(stats, io_in_progress)));
	return row_result(row);
}
