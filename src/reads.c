/*
 * Single reads: by hand, from the AIO subsystem's parts, and by
 * StartReadBuffers() and WaitReadBuffers().
 */
#include "test_aio.h"

#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(read_rel_block_ll);
PG_FUNCTION_INFO_V1(read_buffers);
PG_FUNCTION_INFO_V1(wait_read_buffers);
PG_FUNCTION_INFO_V1(start_read_buffers);

/* what one call of read_buffers() may read: 1 GB of the usual blocks */
#define READ_BUFFERS_MAX_BLOCKS 131072

void
start_block_io(Relation rel, BlockNumber first, const Buffer *buffers, int nblocks, bool for_input)
{
	for (int i = 0; i < nblocks; i++)
	{
		if (start_buffer_io(buffers[i], for_input, false) == BUFFER_IO_READY_FOR_IO)
			continue;
		/* before the client is told, which may not read */
		for (int j = 0; j < i && !BufferIsLocal(buffers[j]); j++)
			TerminateBufferIO(get_buffer_descriptor(buffers[j]), false, 0, true, false);
		ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("block %u of relation \"%s\" is being %s by another session",
					   first + i, RelationGetRelationName(rel), for_input ? "read" : "written"));
	}
}

void
check_combinable(Relation rel, int32 blockno, int32 nblocks)
{
	check_range("nblocks", nblocks, 1, Min(PG_IOV_MAX, io_max_combine_limit));
	check_block_range(rel, MAIN_FORKNUM, blockno, nblocks);

	if (smgrmaxcombine(RelationGetSmgr(rel), MAIN_FORKNUM, blockno) < (uint32) nblocks)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("blocks %d..%d of relation \"%s\" cannot be read by one I/O",
					   blockno, blockno + nblocks - 1, RelationGetRelationName(rel)),
				errdetail("A segment of the relation ends in between."));
}

static void
finish_read(PgAioWaitRef *iow, PgAioReturn *result)
{
	/* a batch may still be open, and waiting for a staged I/O is a PANIC */
	pgaio_submit_staged();
	pgaio_wref_wait(iow);

	if (result->result.status != PGAIO_RS_OK)
		pgaio_result_report(result->result, &result->target_data,
							result->result.status == PGAIO_RS_ERROR ? ERROR : WARNING);
	pfree(result);
}

/*
 * Reads 1 to io_max_combine_limit blocks by one asynchronous read
 * (smgrstartreadv).  Blocks that are in the buffer pool are written if dirty, and
 * dropped, before.  The flags enter batch mode before the read is started, close
 * all files of smgr after that, leave batch mode then, and return without waiting.
 * An error of a read that nobody waits for shows nowhere but in the buffers.
 */
Datum
read_rel_block_ll(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	int32		nblocks = PG_GETARG_INT32(2);
	bool		wait_complete = PG_GETARG_BOOL(3);
	bool		enters_batch = PG_GETARG_BOOL(4);
	bool		releases_all = PG_GETARG_BOOL(5);
	bool		leaves_batch = PG_GETARG_BOOL(6);
	bool		zero_on_error = PG_GETARG_BOOL(7);
	Buffer		buffers[MAX_IO_COMBINE_LIMIT] = {0};
	PgAioReturn *result = NULL;
	PgAioHandle *ioh;
	PgAioWaitRef iow;

	check_combinable(rel, blockno, nblocks);
	if (leaves_batch && !enters_batch && !pgaio_my_backend->in_batchmode)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("no batch in progress"));

	/*
	 * The server writes the result when this session learns of the
	 * completion, perhaps while an error unwinds the stack.  The top
	 * transaction's memory outlives its resource owners, which then forget
	 * the pointer.
	 */
	if (wait_complete)
		result = MemoryContextAllocZero(TopTransactionContext, sizeof(PgAioReturn));

	/* what a callback reports must not allocate */
	pgstat_prepare_report_checksum_failure(rel->rd_locator.dbOid);

	/*
	 * Pins come first: whoever has one may want a block with I/O started;
	 * then the handle, as getting one may wait for other reads.
	 */
	for (int i = 0; i < nblocks; i++)
		buffers[i] = pin_block_as_invalid(rel, blockno + i);
	if (enters_batch)
		pgaio_enter_batchmode();
	ioh = pgaio_io_acquire(CurrentResourceOwner, result);
	start_block_io(rel, blockno, buffers, nblocks, true);
	stage_read(ioh, rel, blockno, buffers, nblocks, zero_on_error, &iow);
	for (int i = 0; i < nblocks; i++)
		ReleaseBuffer(buffers[i]);

	if (releases_all)
		smgrreleaseall();
	if (leaves_batch)
		pgaio_exit_batchmode();
	if (result != NULL)
		finish_read(&iow, result);

	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}

/* One call of StartReadBuffers(), and what it returned. */
typedef struct StartedRead
{
	ReadBuffersOperation operation;
	int			offset;
	int			nblocks;
	bool		io_reqd;
	bool		foreign_io;
} StartedRead;

/* Calls StartReadBuffers() from "offset" on, for as many blocks as it takes. */
static StartedRead *
start_read(Relation rel, BlockNumber start, int offset, int nblocks, Buffer *buffers)
{
	StartedRead *read = palloc0_object(StartedRead);

	read->operation.rel = rel;
	read->operation.smgr = RelationGetSmgr(rel);
	read->operation.persistence = rel->rd_rel->relpersistence;
	read->operation.forknum = MAIN_FORKNUM;
	read->offset = offset;
	read->nblocks = Min(nblocks - offset, io_combine_limit);
	read->io_reqd = StartReadBuffers(&read->operation, buffers + offset, start + offset,
									 &read->nblocks, 0);
	/* a retry in WaitReadBuffers() could change it */
	read->foreign_io = read->io_reqd && read_buffers_joined(&read->operation);

	return read;
}

/* Has the server not write the result of a read to the operation, which is to go. */
static void
abandon_read(ReadBuffersOperation *operation)
{
	PgAioHandle *ioh;

	if (!pgaio_wref_valid(&operation->io_wref))
		return;

	/* the handle may serve another read by now; then it points elsewhere */
	ioh = &pgaio_ctl->io_handles[operation->io_wref.aio_index];
	if (ioh->owner_procno == MyProcNumber && ioh->report_return == &operation->io_return)
		ioh->report_return = NULL;
}

/*
 * Reads a range of blocks, at most half of the pool, since all are pinned at once, by as
 * many operations as it takes; one row is one operation.
 */
static Datum
read_range(FunctionCallInfo fcinfo, bool wait, bool tells_waits)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		start = PG_GETARG_INT32(1);
	int32		nblocks = PG_GETARG_INT32(2);
	int			pool = RelationUsesLocalBuffers(rel) ? num_temp_buffers : NBuffers;
	Row		   *row = row_begin(fcinfo);
	List	   *reads = NIL;
	StartedRead *started;
	Buffer	   *buffers;
	bool		batch_was_open = false;

	check_range("nblocks", nblocks, 1, Min(pool / 2, READ_BUFFERS_MAX_BLOCKS));
	check_block_range(rel, MAIN_FORKNUM, start, nblocks);

	/* zeroed: no buffer is InvalidBuffer, unless an earlier call forwards it */
	buffers = palloc0_array(Buffer, nblocks);
	for (int done = 0; done < nblocks; done += started->nblocks)
	{
		CHECK_FOR_INTERRUPTS();
		started = start_read(rel, start, done, nblocks, buffers);
		reads = lappend(reads, started);
	}
	/* the retry of a short read must not be staged */
	if (wait)
		batch_was_open = leave_batch();
	foreach_ptr(StartedRead, read, reads)
	{
		bool		waited = false;

		if (read->io_reqd && wait)
			waited = read_buffers_waited(&read->operation);
		else if (read->io_reqd)
			abandon_read(&read->operation);

		row_set(row, "blockoff", Int32GetDatum(read->offset));
		row_set(row, "blocknum", Int32GetDatum(start + read->offset));
		row_set(row, "io_reqd", BoolGetDatum(read->io_reqd));
		row_set(row, "foreign_io", BoolGetDatum(read->foreign_io));
		row_set(row, "nblocks", Int32GetDatum(read->nblocks));
		row_set_ints(row, "buf", buffers + read->offset, read->nblocks);
		row_set_if(row, "waited", tells_waits && WAITS_ARE_TOLD, BoolGetDatum(waited));
		row_put(row);
	}
	for (int i = 0; i < nblocks; i++)
		ReleaseBuffer(buffers[i]);
	relation_close(rel, AccessShareLock);
	enter_batch_again(batch_was_open);

	return (Datum) 0;
}

/*
 * Calls StartReadBuffers() over the range, as often as it takes.  When all reads
 * are started, calls WaitReadBuffers() for each that needs it.
 */
Datum
read_buffers(PG_FUNCTION_ARGS)
{
	return read_range(fcinfo, true, false);
}

/* The same as read_buffers(), and whether WaitReadBuffers() waited, which 19 tells. */
Datum
wait_read_buffers(PG_FUNCTION_ARGS)
{
	return read_range(fcinfo, true, true);
}

/*
 * The same as read_buffers(), without WaitReadBuffers(): the reads are abandoned.
 * The buffers stay pinned by the AIO subsystem until the reads complete.  An error
 * of such a read shows nowhere but in the buffers, and the rest of a short read is
 * not read.  With a batch open, what is staged is submitted when the batch ends.
 */
Datum
start_read_buffers(PG_FUNCTION_ARGS)
{
	return read_range(fcinfo, false, false);
}
