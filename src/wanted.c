/*-------------------------------------------------------------------------
 *
 * wanted.c
 *		A read that goes on only when another session waits for it.
 *
 * The two places where it stops are those where a waiter of some servers is
 * forgotten: doc/io_uring-wait-hang.md, doc/io_uring-buffer-wait-hang.md.
 *
 * src/wanted.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "aio/clock.h"
#include "aio/waiters.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(read_rel_block_when_wanted);

#define LOOK_EVERY_MS 1

/*
 * Returns whether any session waits until another one submits its reads.
 */
static bool
submission_is_awaited(void)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);

		if (proc->pid != 0 && io_awaits_submission(*(volatile uint32 *) &proc->wait_event_info))
			return true;
	}

	return false;
}

/*
 * Returns whether another session waits for a staged read: in line for the
 * condition variable of the read, or for its submission.
 */
static bool
read_is_wanted(void *ioh)
{
	int			pid;

	return io_waiters(ioh, &pid, 1) > 0 || submission_is_awaited();
}

/*
 * Returns whether another session sleeps until a buffer has no I/O in progress.
 * A session in the list that does not sleep yet may still find a wait reference.
 */
static bool
buffer_is_wanted(void *desc)
{
	ConditionVariable *cv = BufferDescriptorGetIOCV((BufferDesc *) desc);
	proclist_mutable_iter iter;
	bool		found = false;

	SpinLockAcquire(&cv->mutex);
	proclist_foreach_modify(iter, &cv->wakeup, cvWaitLink)
	{
		if (GetPGProcByNumber(iter.cur)->wait_event_info == WAIT_EVENT_BUFFER_IO)
			found = true;
	}
	SpinLockRelease(&cv->mutex);

	return found;
}

/*
 * Waits until a condition holds.  Returns false if it does not in time.
 */
static bool
wait_until(bool (*condition) (void *arg), void *arg, int timeout)
{
	IoTime		until = io_now() + timeout * NS_PER_MS;

	while (!condition(arg))
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
 * Stages a read of a block in a batch, and submits it when it is wanted.
 */
static bool
submit_when_wanted(Relation rel, BlockNumber blockno, int timeout)
{
	ReadBuffersOperation *operation;
	Buffer		buffer = InvalidBuffer;
	bool		wanted = false;

	/* the server may write to it until the end of the statement */
	operation = MemoryContextAllocZero(TopTransactionContext, sizeof(*operation));
	operation->rel = rel;
	operation->smgr = RelationGetSmgr(rel);
	operation->persistence = rel->rd_rel->relpersistence;
	operation->forknum = MAIN_FORKNUM;

	pgaio_enter_batchmode();
	if (StartReadBuffer(operation, &buffer, blockno, 0) &&
		pgaio_wref_valid(&operation->io_wref))
		wanted = wait_until(read_is_wanted,
							&pgaio_ctl->io_handles[operation->io_wref.aio_index],
							timeout);
	pgaio_exit_batchmode();

	/* the AIO subsystem has a pin of its own */
	ReleaseBuffer(buffer);

	return wanted;
}

/*
 * Marks the buffer of a block as having I/O in progress, and stages and submits
 * the read when the buffer is wanted.
 */
static bool
stage_when_wanted(Relation rel, BlockNumber blockno, int timeout)
{
	Buffer		buffer = pin_block_as_invalid(rel, blockno);
	PgAioHandle *ioh;
	bool		wanted;

	pgstat_prepare_report_checksum_failure(rel->rd_locator.dbOid);

	/* in the server's order: acquiring could wait */
	ioh = pgaio_io_acquire(CurrentResourceOwner, NULL);
	claim_buffer_for_read(buffer, rel, blockno);
	wanted = wait_until(buffer_is_wanted, get_buffer_descriptor(buffer), timeout);
	start_claimed_read(ioh, rel, blockno, &buffer, 1, read_flags(false));

	ReleaseBuffer(buffer);

	return wanted;
}

/*
 * read_rel_block_when_wanted(rel regclass, blockno int,
 *							  timeout int DEFAULT 10000,
 *							  stage bool DEFAULT true) returns bool
 *
 * Begins a read of one block, and goes on when another session waits for it, at
 * the latest after so many milliseconds.  Does not wait for the end of the read.
 * Returns whether another session came.
 *
 * With "stage" the function stops when the read is staged in a batch and not
 * submitted.  With io_method=sync, or if the block is in the buffer pool, it
 * stages nothing.  Without "stage" it evicts the block, and stops when the buffer
 * has I/O in progress and no wait reference.
 */
Datum
read_rel_block_when_wanted(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	int32		timeout = PG_GETARG_INT32(2);
	bool		stage = PG_GETARG_BOOL(3);
	bool		wanted;

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

	if (stage)
		wanted = submit_when_wanted(rel, blockno, timeout);
	else
		wanted = stage_when_wanted(rel, blockno, timeout);
	relation_close(rel, AccessShareLock);

	PG_RETURN_BOOL(wanted);
}
