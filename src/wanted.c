/*-------------------------------------------------------------------------
 *
 * wanted.c
 *		A read that is submitted only when another session waits for it.
 *
 * See doc/io_uring-wait-hang.md for what that does to some servers.
 *
 * src/wanted.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "gate/gate.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(read_rel_block_when_wanted);

#define LOOK_EVERY_MS 1

/*
 * Waits until another session waits for this I/O.  Returns false if none does
 * in time.
 */
static bool
wait_until_wanted(PgAioHandle *ioh, IoTime until)
{
	int			pid;

	while (io_waiters(ioh, &pid, 1) == 0)
	{
		if (io_now() >= until)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOOK_EVERY_MS, WAIT_EVENT_PG_SLEEP);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}

	return true;
}

/*
 * read_rel_block_when_wanted(rel regclass, blockno int,
 *							  timeout int DEFAULT 10000) returns bool
 *
 * Stages a read of one block in a batch, and submits it only when another
 * session waits for it, at the latest after so many milliseconds.  Does not wait
 * for the read.  True if another session came.  With io_method=sync, or if the
 * block is in the buffer pool already, nothing is staged.
 */
Datum
read_rel_block_when_wanted(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	int32		timeout = PG_GETARG_INT32(2);
	ReadBuffersOperation *operation;
	Buffer		buffer = InvalidBuffer;
	bool		wanted = false;

	check_block(rel, blockno);
	check_count("timeout", timeout, PG_INT32_MAX);
	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("no other session can want a block of a temporary table")));
	if (pgaio_my_backend->in_batchmode)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a batch is in progress already")));

	/* the server may write to it until the end of the statement */
	operation = MemoryContextAllocZero(TopTransactionContext, sizeof(*operation));
	operation->rel = rel;
	operation->smgr = RelationGetSmgr(rel);
	operation->persistence = rel->rd_rel->relpersistence;
	operation->forknum = MAIN_FORKNUM;

	pgaio_enter_batchmode();
	if (StartReadBuffer(operation, &buffer, blockno, 0) &&
		pgaio_wref_valid(&operation->io_wref))
		wanted = wait_until_wanted(&pgaio_ctl->io_handles[operation->io_wref.aio_index],
								   io_now() + timeout * NS_PER_MS);
	pgaio_exit_batchmode();

	/* the AIO subsystem has a pin of its own */
	ReleaseBuffer(buffer);
	relation_close(rel, AccessShareLock);

	PG_RETURN_BOOL(wanted);
}
