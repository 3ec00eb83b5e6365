/*-------------------------------------------------------------------------
 *
 * reads.c
 *		Reads one by one: built by hand from the AIO subsystem's parts, and by
 *		StartReadBuffers() and WaitReadBuffers().
 *
 * src/reads.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/smgr.h"
#include "utils/array.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(read_rel_block_ll);
PG_FUNCTION_INFO_V1(read_buffers);
PG_FUNCTION_INFO_V1(start_read_buffers);

/*
 * Marks a buffer that is pinned and not valid as having I/O in progress.  Its wait
 * reference is not set yet.
 */
void
claim_buffer_for_read(Buffer buffer, Relation rel, BlockNumber blockno)
{
	/* an error undoes what has been started, and releases the handle */
	if (!start_buffer_io(buffer, true, false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("block %u of relation \"%s\" is being read by another session",
						blockno, RelationGetRelationName(rel))));
}

/*
 * Starts a read of consecutive blocks into claimed buffers, the way bufmgr.c does
 * it.
 */
void
start_claimed_read(PgAioHandle *ioh, Relation rel, BlockNumber blockno,
				   Buffer *buffers, int nblocks, int buffer_flags)
{
	bool		is_temp = RelationUsesLocalBuffers(rel);
	void	   *pages[MAX_IO_COMBINE_LIMIT];

	for (int i = 0; i < nblocks; i++)
		pages[i] = BufferGetBlock(buffers[i]);

	pgaio_io_set_handle_data_32(ioh, (uint32 *) buffers, nblocks);
	pgaio_io_register_callbacks(ioh,
								is_temp ? PGAIO_HCB_LOCAL_BUFFER_READV :
								PGAIO_HCB_SHARED_BUFFER_READV,
								buffer_flags);
	if (is_temp)
		pgaio_io_set_flag(ioh, PGAIO_HF_REFERENCES_LOCAL);

	smgrstartreadv(ioh, RelationGetSmgr(rel), MAIN_FORKNUM, blockno,
				   pages, nblocks);
}

/*
 * Returns the flags by which the completion callbacks, which may run in
 * another process, learn of this session's settings.
 */
int
read_flags(bool zero_on_error)
{
	int			flags = 0;

	if (zero_on_error || zero_damaged_pages)
		flags |= READ_BUFFERS_ZERO_ON_ERROR;
	if (ignore_checksum_failure)
		flags |= READ_BUFFERS_IGNORE_CHECKSUM_FAILURES;

	return flags;
}

/*
 * Raises an error unless one I/O can cover these blocks.
 */
static void
check_combinable(Relation rel, int32 blockno, int32 nblocks)
{
	check_count("nblocks", nblocks, Min(PG_IOV_MAX, io_max_combine_limit));
	check_block_range(rel, blockno, nblocks);

	if (smgrmaxcombine(RelationGetSmgr(rel), MAIN_FORKNUM, blockno) < (uint32) nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("blocks %d..%d of relation \"%s\" cannot be read by one I/O",
						blockno, blockno + nblocks - 1, RelationGetRelationName(rel)),
				 errdetail("A segment of the relation ends in between.")));
}

/*
 * read_rel_block_ll(rel regclass, blockno int, nblocks int DEFAULT 1,
 *					 wait_complete bool DEFAULT true,
 *					 batchmode_enter bool DEFAULT false,
 *					 smgrreleaseall bool DEFAULT false,
 *					 batchmode_exit bool DEFAULT false,
 *					 zero_on_error bool DEFAULT false)
 *
 * Reads 1 to io_max_combine_limit blocks by one asynchronous read
 * (smgrstartreadv).  Blocks that are in the buffer pool are written if dirty, and
 * dropped, before.  The flags enter batch mode before the read is started, close
 * all files of smgr after that, leave batch mode then, and return without waiting.
 * An error of a read that nobody waits for shows nowhere but in the buffers.
 */
Datum
read_rel_block_ll(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	int32		nblocks = PG_GETARG_INT32(2);
	bool		wait_complete = PG_GETARG_BOOL(3);
	bool		batchmode_enter = PG_GETARG_BOOL(4);
	bool		smgr_release_all = PG_GETARG_BOOL(5);
	bool		batchmode_exit = PG_GETARG_BOOL(6);
	bool		zero_on_error = PG_GETARG_BOOL(7);
	Buffer		buffers[MAX_IO_COMBINE_LIMIT];
	PgAioReturn *io_return = NULL;
	PgAioHandle *ioh;
	PgAioWaitRef iow;

	check_combinable(rel, blockno, nblocks);
	if (batchmode_exit && !batchmode_enter && !pgaio_my_backend->in_batchmode)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no batch in progress")));

	for (int i = 0; i < nblocks; i++)
		buffers[i] = pin_block_as_invalid(rel, blockno + i);

	/* what a callback reports must not allocate, so this comes before */
	pgstat_prepare_report_checksum_failure(rel->rd_locator.dbOid);

	if (batchmode_enter)
		pgaio_enter_batchmode();

	/*
	 * The result is written when this session learns of the completion, which
	 * may be while an error unwinds the stack; the top transaction's memory
	 * is freed after its resource owners, and those forget the pointer.  When
	 * nobody waits, nobody will read it either.
	 */
	if (wait_complete)
		io_return = MemoryContextAllocZero(TopTransactionContext, sizeof(PgAioReturn));

	ioh = pgaio_io_acquire(CurrentResourceOwner, io_return);
	pgaio_io_get_wref(ioh, &iow);

	for (int i = 0; i < nblocks; i++)
		claim_buffer_for_read(buffers[i], rel, blockno + i);
	start_claimed_read(ioh, rel, blockno, buffers, nblocks, read_flags(zero_on_error));

	if (smgr_release_all)
		smgrreleaseall();

	if (batchmode_exit)
		pgaio_exit_batchmode();

	/* the AIO subsystem has pins of its own now */
	for (int i = 0; i < nblocks; i++)
		ReleaseBuffer(buffers[i]);

	if (wait_complete)
	{
		/*
		 * the batch may still be open, and waiting for a staged I/O is a
		 * PANIC
		 */
		pgaio_submit_staged();
		pgaio_wref_wait(&iow);

		if (io_return->result.status != PGAIO_RS_OK)
			pgaio_result_report(io_return->result, &io_return->target_data,
								io_return->result.status == PGAIO_RS_ERROR ?
								ERROR : WARNING);
		pfree(io_return);
	}

	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}

/* One call of StartReadBuffers(), and what it returned. */
typedef struct StartedRead
{
	ReadBuffersOperation operation;
	int			blockoff;
	int			nblocks;
	bool		io_reqd;
	bool		foreign_io;
} StartedRead;

static void
put_started_read(ReturnSetInfo *rsinfo, const StartedRead *read,
				 BlockNumber startblock, const Buffer *buffers)
{
	Datum		values[6];
	bool		nulls[6] = {0};
	Datum	   *elements = palloc_array(Datum, read->nblocks);

	for (int i = 0; i < read->nblocks; i++)
		elements[i] = Int32GetDatum(buffers[read->blockoff + i]);

	values[0] = Int32GetDatum(read->blockoff);
	values[1] = Int32GetDatum(startblock + read->blockoff);
	values[2] = BoolGetDatum(read->io_reqd);
	values[3] = BoolGetDatum(read->foreign_io);
	values[4] = Int32GetDatum(read->nblocks);
	values[5] = PointerGetDatum(construct_array_builtin(elements, read->nblocks, INT4OID));

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

	pfree(DatumGetPointer(values[5]));
	pfree(elements);
}

/*
 * Prepares the result of read_buffers() or start_read_buffers(), and starts their
 * reads.  Returns how many; "reads" and "buffers" have room for one a block.  All
 * blocks are pinned at once, so at most half of the buffer pool can be asked for.
 */
static int
start_reads(FunctionCallInfo fcinfo, Relation rel, StartedRead **reads, Buffer **buffers)
{
	int32		startblock = PG_GETARG_INT32(1);
	int32		nblocks = PG_GETARG_INT32(2);
	bool		is_temp = RelationUsesLocalBuffers(rel);
	int			nreads = 0;
	int			started = 0;

	check_count("nblocks", nblocks, (is_temp ? num_temp_buffers : NBuffers) / 2);
	check_block_range(rel, startblock, nblocks);

	InitMaterializedSRF(fcinfo, 0);

	/* zeroed: no buffer is InvalidBuffer, unless an earlier call forwards it */
	*reads = palloc0_array(StartedRead, nblocks);
	*buffers = palloc0_array(Buffer, nblocks);

	while (started < nblocks)
	{
		StartedRead *read = &(*reads)[nreads++];

		CHECK_FOR_INTERRUPTS();

		read->operation.rel = rel;
		read->operation.smgr = RelationGetSmgr(rel);
		read->operation.persistence = rel->rd_rel->relpersistence;
		read->operation.forknum = MAIN_FORKNUM;
		read->operation.strategy = NULL;

		read->blockoff = started;
		read->nblocks = Min(nblocks - started, io_combine_limit);
		read->io_reqd = StartReadBuffers(&read->operation, &(*buffers)[started],
										 startblock + started,
										 &read->nblocks, 0);
		/* a retry in WaitReadBuffers() could change it */
		read->foreign_io = read->io_reqd && read_buffers_joined(&read->operation);

		started += read->nblocks;
	}

	return nreads;
}

/*
 * read_buffers(rel regclass, startblock int4, nblocks int4)
 *		returns setof (blockoff int4, blocknum int4, io_reqd bool,
 *					   foreign_io bool, nblocks int4, buf int4[])
 *
 * Calls StartReadBuffers() over the range, as often as it takes.  When all reads
 * are started, calls WaitReadBuffers() for each that needs it.  One row is one
 * operation.
 */
Datum
read_buffers(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	StartedRead *reads;
	Buffer	   *buffers;
	int			nreads = start_reads(fcinfo, rel, &reads, &buffers);

	/* the retry of a short read must not be staged */
	bool		batch_was_open = suspend_batch();

	for (int i = 0; i < nreads; i++)
	{
		if (reads[i].io_reqd)
			(void) WaitReadBuffers(&reads[i].operation);
		put_started_read((ReturnSetInfo *) fcinfo->resultinfo, &reads[i],
						 PG_GETARG_INT32(1), buffers);
	}

	resume_batch(batch_was_open);

	for (int i = 0; i < PG_GETARG_INT32(2); i++)
		ReleaseBuffer(buffers[i]);

	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}

/*
 * Makes sure that the server does not write the result of a read to the
 * operation, which nobody will look at.
 */
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
 * start_read_buffers(rel regclass, startblock int4, nblocks int4)
 *		returns setof (blockoff int4, blocknum int4, io_reqd bool,
 *					   foreign_io bool, nblocks int4, buf int4[])
 *
 * The same as read_buffers(), without WaitReadBuffers(): the reads are abandoned.
 * The buffers stay pinned by the AIO subsystem until the reads complete.  An error
 * of such a read shows nowhere but in the buffers, and the rest of a short read is
 * not read.  With a batch open, what is staged is submitted when the batch ends.
 */
Datum
start_read_buffers(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	StartedRead *reads;
	Buffer	   *buffers;
	int			nreads = start_reads(fcinfo, rel, &reads, &buffers);

	for (int i = 0; i < nreads; i++)
	{
		if (reads[i].io_reqd)
			abandon_read(&reads[i].operation);
		put_started_read((ReturnSetInfo *) fcinfo->resultinfo, &reads[i],
						 PG_GETARG_INT32(1), buffers);
	}

	for (int i = 0; i < PG_GETARG_INT32(2); i++)
		ReleaseBuffer(buffers[i]);

	relation_close(rel, AccessShareLock);

	return (Datum) 0;
}
