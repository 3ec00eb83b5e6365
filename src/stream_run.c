/*-------------------------------------------------------------------------
 *
 * stream_run.c
 *		A read stream without a result set, for measuring and for the calls
 *		that read_stream_for_blocks() does not make.
 *
 * src/stream_run.c
 *
 *-------------------------------------------------------------------------
 */
#include "streams.h"

#include <sys/resource.h>

#include "access/htup_details.h"
#include "aio/clock.h"
#include "common/hashfn.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/read_stream.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/pgstat_internal.h"

PG_FUNCTION_INFO_V1(read_stream_run);

#define MAX_RUNS				1000000
#define MAX_PER_BUFFER_DATA		1024
#define MAX_RING_SIZE			(16 * 1024 * 1024)	/* kB, as the server's */

/* What is to be run, and how far the present run has come. */
typedef struct StreamRun
{
	/* arguments */
	Relation	rel;
	ForkNumber	forknum;
	Int4Array	blocks;
	int			flags;
	BufferAccessStrategy strategy;
	int			per_buffer_data;	/* bytes */
	Int4Array	pause_at;
	Int4Array	reset_at;
	int			end_at;			/* or -1 */

	/* positions of the callback, which looks ahead */
	int			next;
	int			next_pause;		/* index in pause_at */
	bool		paused;

	/* positions of the consumer */
	int			nfound;
	int			next_reset;		/* index in reset_at */

	uint32		number;			/* of the run */
	int64		nblocks;		/* of all runs */
	StreamStats stats;
} StreamRun;

/* What this process has read, as pg_stat_io counts it, and its CPU time. */
typedef struct Usage
{
	IoTime		now;
	struct rusage cpu;
	bool		has_io;
	int64		hits;
	int64		reads;
	int64		read_bytes;
	int64		read_time;		/* us */
} Usage;

/*
 * Per-buffer data: every eight bytes are made from the run, the position and the
 * offset, so that data of another position is never the same.
 */
static uint64
per_buffer_word(const StreamRun *run, int position, int offset)
{
	return murmurhash64(((uint64) run->number << 32 | (uint32) position) + (uint64) offset * PG_UINT32_MAX);
}

static void
fill_per_buffer_data(const StreamRun *run, int position, char *data)
{
	for (int offset = 0; offset < run->per_buffer_data; offset += sizeof(uint64))
	{
		uint64		word = per_buffer_word(run, position, offset);

		memcpy(data + offset, &word, Min((int) sizeof(word), run->per_buffer_data - offset));
	}
}

static void
check_per_buffer_data(const StreamRun *run, int position, const char *data)
{
	for (int offset = 0; offset < run->per_buffer_data; offset += sizeof(uint64))
	{
		uint64		word = per_buffer_word(run, position, offset);

		if (memcmp(data + offset, &word, Min((int) sizeof(word), run->per_buffer_data - offset)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("read stream returned wrong per-buffer data"),
					 errdetail("Position %d, block %d, bytes from %d on.",
							   position, int4_array_get(&run->blocks, position), offset)));
	}
}

/* ReadStreamBlockNumberCB of a stream that does not pause and has no data */
static BlockNumber
next_block(ReadStream *stream pg_attribute_unused(), void *callback_private_data,
		   void *per_buffer_data pg_attribute_unused())
{
	StreamRun  *run = callback_private_data;

	if (run->next >= run->blocks.n)
		return InvalidBlockNumber;

	return (BlockNumber) int4_array_get(&run->blocks, run->next++);
}

/* ReadStreamBlockNumberCB of the others */
static BlockNumber
next_block_with_data(ReadStream *stream, void *callback_private_data,
					 void *per_buffer_data)
{
	StreamRun  *run = callback_private_data;

	if (run->next_pause < run->pause_at.n &&
		run->next == int4_array_get(&run->pause_at, run->next_pause))
	{
		run->next_pause++;
		run->paused = true;
		return stream_pause(stream);
	}
	if (run->next < run->blocks.n)
		fill_per_buffer_data(run, run->next, per_buffer_data);

	return next_block(stream, run, per_buffer_data);
}

/*
 * Sets the callback to a position, and the pauses from there on.
 */
static void
set_position(StreamRun *run, int position)
{
	run->next = position;
	run->paused = false;
	run->next_pause = 0;
	while (run->next_pause < run->pause_at.n &&
		   int4_array_get(&run->pause_at, run->next_pause) < position)
		run->next_pause++;
}

/*
 * Resets the stream if this is to be done at the consumer's position.
 */
static void
reset_if_due(StreamRun *run, ReadStream *stream)
{
	if (likely(run->next_reset >= run->reset_at.n ||
			   run->nfound != int4_array_get(&run->reset_at, run->next_reset)))
		return;

	read_stream_reset(stream);
	set_position(run, run->nfound);
	run->next_reset++;
}

/*
 * Returns the stream's next buffer, and resumes a stream that has paused.
 */
static Buffer
next_buffer(StreamRun *run, ReadStream *stream, void **data)
{
	Buffer		buffer = read_stream_next_buffer(stream, data);

	/* two pauses may follow each other: one before a reset, one after it */
	while (unlikely(!BufferIsValid(buffer)) && run->paused && run->next == run->nfound)
	{
		run->paused = false;
		stream_resume(stream);
		buffer = read_stream_next_buffer(stream, data);
	}

	return buffer;
}

/*
 * Runs the stream once.
 */
static void
run_once(StreamRun *run)
{
	bool		is_plain = run->per_buffer_data == 0 && run->pause_at.n == 0;
	int			end = run->end_at >= 0 ? run->end_at : run->blocks.n;
	void	   *data = NULL;
	void	  **data_arg = run->per_buffer_data > 0 ? &data : NULL;
	BufferTag	expected;
	ReadStream *stream;

	InitBufferTag(&expected, &run->rel->rd_locator, run->forknum, 0);
	set_position(run, 0);
	run->nfound = 0;
	run->next_reset = 0;

	stream = read_stream_begin_relation(run->flags, run->strategy, run->rel, run->forknum,
										is_plain ? next_block : next_block_with_data,
										run, run->per_buffer_data);
	stream_count(stream, &run->stats);

	while (run->nfound < end)
	{
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		reset_if_due(run, stream);

		buffer = next_buffer(run, stream, data_arg);
		if (unlikely(!BufferIsValid(buffer)))
			raise_stream_too_short(run->nfound, run->blocks.n);

		expected.blockNum = int4_array_get(&run->blocks, run->nfound);
		check_streamed_buffer(buffer, &expected, run->rel);
		if (run->per_buffer_data > 0)
			check_per_buffer_data(run, run->nfound, data);

		ReleaseBuffer(buffer);
		run->nfound++;
	}

	reset_if_due(run, stream);
	if (run->end_at < 0 && BufferIsValid(next_buffer(run, stream, data_arg)))
		raise_stream_too_long(run->blocks.n);

	read_stream_end(stream);
	run->nblocks += run->nfound;
}

/*
 * Returns what this process has used up to now.
 */
static Usage
get_usage(void)
{
	Usage		usage = {0};
	PgStat_EntryRef *entry;

	(void) pgstat_flush_backend(false, PGSTAT_BACKEND_FLUSH_IO);
	entry = pgstat_get_entry_ref(PGSTAT_KIND_BACKEND, InvalidOid, MyProcNumber, false, NULL);
	if (entry != NULL)
	{
		/* only this process writes to it */
		PgStat_BktypeIO *io = &((PgStatShared_Backend *) entry->shared_stats)->stats.io_stats;

		usage.has_io = true;
		for (int object = 0; object < IOOBJECT_NUM_TYPES; object++)
			for (int context = 0; context < IOCONTEXT_NUM_TYPES; context++)
			{
				usage.hits += io->counts[object][context][IOOP_HIT];
				usage.reads += io->counts[object][context][IOOP_READ];
				usage.read_bytes += io->bytes[object][context][IOOP_READ];
				usage.read_time += io->times[object][context][IOOP_READ];
			}
	}
	getrusage(RUSAGE_SELF, &usage.cpu);
	usage.now = io_now();

	return usage;
}

static float8
ms_between(struct timeval begin, struct timeval end)
{
	return (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_usec - begin.tv_usec) / 1e3;
}

static void
check_range(const char *name, int64 value, int64 least, int64 most)
{
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between " INT64_FORMAT " and " INT64_FORMAT,
						name, least, most)));
}

/*
 * Returns an argument that is a list of positions in the array of blocks.
 */
static Int4Array
positions_arg(FunctionCallInfo fcinfo, int arg, const char *name, int most)
{
	Int4Array	positions = int4_array_arg(fcinfo, arg, "position");
	int			previous = -1;

	for (int i = 0; i < positions.n; i++)
	{
		int32		position = int4_array_get(&positions, i);

		CHECK_FOR_INTERRUPTS();
		if (position < 0 || position > most)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("position %d is out of range for %s", position, name),
					 errdetail("There are %d blocks.", most)));
		if (position <= previous)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("positions in %s must be in ascending order", name)));
		previous = position;
	}

	return positions;
}

static ForkNumber
fork_arg(FunctionCallInfo fcinfo, int arg, Relation rel)
{
	ForkNumber	forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(arg)));

	if (!smgrexists(RelationGetSmgr(rel), forknum))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("relation \"%s\" has no fork \"%s\"",
						RelationGetRelationName(rel), forkNames[forknum])));

	return forknum;
}

/*
 * Returns the ring of buffers for a context of pg_stat_io, NULL for "normal".
 */
static BufferAccessStrategy
strategy_arg(FunctionCallInfo fcinfo, int context_arg, int size_arg)
{
	static const struct
	{
		IOContext	context;
		BufferAccessStrategyType type;
	}			types[] = {
		{IOCONTEXT_NORMAL, BAS_NORMAL},
		{IOCONTEXT_BULKREAD, BAS_BULKREAD},
		{IOCONTEXT_BULKWRITE, BAS_BULKWRITE},
		{IOCONTEXT_VACUUM, BAS_VACUUM}
	};
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(context_arg));
	size_t		i;

	for (i = 0; i < lengthof(types); i++)
		if (strcmp(name, pgstat_get_io_context_name(types[i].context)) == 0)
			break;
	if (i == lengthof(types))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized context \"%s\"", name),
				 errhint("Valid contexts are \"normal\", \"bulkread\", \"bulkwrite\" and \"vacuum\".")));

	if (PG_ARGISNULL(size_arg))
		return GetAccessStrategy(types[i].type);

	if (types[i].type == BAS_NORMAL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("context \"normal\" has no ring, so ring_size must be null")));
	check_range("ring_size", PG_GETARG_INT32(size_arg), BLCKSZ / 1024, MAX_RING_SIZE);

	return GetAccessStrategyWithSize(types[i].type, PG_GETARG_INT32(size_arg));
}

/*
 * read_stream_run(rel regclass, blocks int4[], fork text DEFAULT 'main',
 *				   nruns int4 DEFAULT 1, maintenance bool DEFAULT false,
 *				   sequential bool DEFAULT false, full bool DEFAULT false,
 *				   use_batching bool DEFAULT false,
 *				   per_buffer_data int4 DEFAULT 0,
 *				   pause_at int4[] DEFAULT '{}', reset_at int4[] DEFAULT '{}',
 *				   end_at int4 DEFAULT NULL, context text DEFAULT 'normal',
 *				   ring_size int4 DEFAULT NULL)
 *		returns (runs int4, blocks int8, elapsed float8, user_time float8,
 *				 system_time float8, hits int8, reads int8, read_bytes int8,
 *				 read_time float8, waits int8)
 *
 * Runs a read stream (read_stream_begin_relation) over these blocks, in this
 * order, nruns times.  The four flags are those of read_stream.h;
 * per_buffer_data is a size in bytes; ring_size is in kB.  Positions are indexes
 * in the array, from 0 on: at pause_at the stream pauses, and goes on when all
 * blocks before have come; at reset_at and end_at it is reset or ended instead of
 * returning this block, whatever it has read ahead.
 *
 * Raises an error if a block does not come, or with the per-buffer data of
 * another one.  Times are in ms.  Reads are counted as in pg_stat_io, waits as by
 * EXPLAIN (IO); waits is null on 18, which does not count them.
 */
Datum
read_stream_run(PG_FUNCTION_ARGS)
{
	StreamRun	run = {.end_at = -1};
	TupleDesc	tupdesc;
	Datum		values[10];
	bool		nulls[10] = {0};
	int32		nruns;
	bool		batch_was_open;
	Usage		begin;
	Usage		end;

	require_superuser(fcinfo);
	for (int arg = 0; arg < PG_NARGS(); arg++)
	{
		/* end_at and ring_size */
		if (PG_ARGISNULL(arg) && arg != 11 && arg != 13)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("only end_at and ring_size may be null")));
	}

	run.rel = open_relation_for_io(fcinfo, AccessShareLock);
	run.forknum = fork_arg(fcinfo, 2, run.rel);
	nruns = PG_GETARG_INT32(3);
	check_count("nruns", nruns, MAX_RUNS);
	run.flags = (PG_GETARG_BOOL(4) ? READ_STREAM_MAINTENANCE : 0) |
		(PG_GETARG_BOOL(5) ? READ_STREAM_SEQUENTIAL : 0) |
		(PG_GETARG_BOOL(6) ? READ_STREAM_FULL : 0) |
		(PG_GETARG_BOOL(7) ? READ_STREAM_USE_BATCHING : 0);
	run.per_buffer_data = PG_GETARG_INT32(8);
	check_range("per_buffer_data", run.per_buffer_data, 0, MAX_PER_BUFFER_DATA);
	run.blocks = int4_array_arg(fcinfo, 1, "block number");
	run.pause_at = positions_arg(fcinfo, 9, "pause_at", run.blocks.n);
	if (run.pause_at.n > 0 && !STREAM_CAN_PAUSE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("read streams of this server cannot pause")));
	run.reset_at = positions_arg(fcinfo, 10, "reset_at", run.blocks.n);
	if (!PG_ARGISNULL(11))
	{
		run.end_at = PG_GETARG_INT32(11);
		check_range("end_at", run.end_at, 0, run.blocks.n);
	}
	run.strategy = strategy_arg(fcinfo, 12, 13);
	check_stream_blocks(&run.blocks, run.rel, run.forknum);

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	/* the stream may open a batch of its own, or wait for what it has started */
	batch_was_open = suspend_batch();

	begin = get_usage();
	for (run.number = 0; run.number < (uint32) nruns; run.number++)
	{
		CHECK_FOR_INTERRUPTS();
		run_once(&run);
	}
	end = get_usage();

	resume_batch(batch_was_open);
	if (run.strategy != NULL)
		FreeAccessStrategy(run.strategy);
	relation_close(run.rel, AccessShareLock);

	values[0] = Int32GetDatum(nruns);
	values[1] = Int64GetDatum(run.nblocks);
	values[2] = Float8GetDatum((end.now - begin.now) / (float8) NS_PER_MS);
	values[3] = Float8GetDatum(ms_between(begin.cpu.ru_utime, end.cpu.ru_utime));
	values[4] = Float8GetDatum(ms_between(begin.cpu.ru_stime, end.cpu.ru_stime));
	values[5] = Int64GetDatum(end.hits - begin.hits);
	values[6] = Int64GetDatum(end.reads - begin.reads);
	values[7] = Int64GetDatum(end.read_bytes - begin.read_bytes);
	values[8] = Float8GetDatum((end.read_time - begin.read_time) / 1e3);
	for (int i = 5; i <= 8; i++)
		nulls[i] = !begin.has_io || !end.has_io;
	values[9] = Int64GetDatum(run.stats.wait_count);
	nulls[9] = !STREAM_COUNTS_WAITS;

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
