/*-------------------------------------------------------------------------
 *
 * table.c
 *		Claims on shared buffers, in shared memory.
 *
 * src/claims/table.c
 *
 *-------------------------------------------------------------------------
 */
#include "claims/claims.h"

#include "miscadmin.h"
#include "filters/filters.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/spin.h"

ClaimTable *claim_table;

DSM_SEGMENT_INIT(init_claim_table)
{
	ClaimTable *table = (ClaimTable *) ptr;

	memset(table, 0, sizeof(ClaimTable));
	SpinLockInit(&table->lock);
	table->watcher = INVALID_PROC_NUMBER;
}

/*
 * Returns the I/O that has been started on this shared buffer, or NULL.  The
 * caller holds the table's lock.
 */
SharedClaim *
claims_find_started(Buffer buffer)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		SharedClaim *claim = &claim_table->claims[i];

		if (claim->buffer == buffer && claim->started)
			return claim;
	}

	return NULL;
}

/*
 * Takes a claim out of the table.  The caller holds the table's lock.
 */
void
claims_remove(SharedClaim *claim)
{
	claim->buffer = InvalidBuffer;
	if (!claim->for_input)
		claim_table->noutput--;
}

/*
 * Returns whether SQL has claimed the I/O on this shared buffer.
 */
bool
buffer_is_claimed(Buffer buffer)
{
	bool		claimed;

	claims_attach();

	SpinLockAcquire(&claim_table->lock);
	claimed = claims_find_started(buffer) != NULL;
	SpinLockRelease(&claim_table->lock);

	return claimed;
}

/*
 * Keeps a shared buffer from being given to another block.  Returns false, and
 * does nothing, if it holds none.
 */
bool
claims_pin(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = LockBufHdr(desc);
	bool		has_block = (state & BM_TAG_VALID) != 0;

	buffer_header_unlock(desc, state, 0, 0, has_block ? 1 : 0);

	return has_block;
}

void
claims_unpin(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = LockBufHdr(desc);
	ProcNumber	waiter = INVALID_PROC_NUMBER;

	/* somebody may wait in LockBufferForCleanup() for us to go */
	if ((state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 2)
		waiter = desc->wait_backend_pgprocno;
	buffer_header_unlock(desc, state, 0,
						 waiter == INVALID_PROC_NUMBER ? 0 : BM_PIN_COUNT_WAITER,
						 -1);
	if (waiter != INVALID_PROC_NUMBER)
		ProcSendSignal(waiter);
}

BufferState
claims_end_flags(bool for_input, bool succeed, bool io_error)
{
	return (succeed && for_input ? BM_VALID : 0) | (io_error ? BM_IO_ERROR : 0);
}

/*
 * Ends the I/O of a claim that has been taken out of the table.
 */
void
claims_end_io(const SharedClaim *claim, bool succeed, bool io_error, bool release_aio)
{
	TerminateBufferIO(get_buffer_descriptor(claim->buffer), succeed && !claim->for_input,
					  claims_end_flags(claim->for_input, succeed, io_error), false, release_aio);

	/* release_aio gives back the AIO subsystem's reference, which is ours */
	if (!release_aio)
		claims_unpin(claim->buffer);
}

/*
 * before_shmem_exit callback: nobody will end what this session has started, nor
 * what it was about to start when it was terminated.
 */
static void
claims_end_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		SharedClaim claim;

		SpinLockAcquire(&claim_table->lock);
		claim = claim_table->claims[i];
		if (claim.buffer != InvalidBuffer && claim.pid == MyProcPid)
			claims_remove(&claim_table->claims[i]);
		SpinLockRelease(&claim_table->lock);

		if (claim.buffer == InvalidBuffer || claim.pid != MyProcPid)
			continue;
		if (claim.started)
			claims_end_io(&claim, false, true, true);
		else if (claim.pinned)
			claims_unpin(claim.buffer);
	}
}

/*
 * Attaches to the table of claims, which the first caller in the server makes.
 */
void
claims_attach(void)
{
	bool		found;

	if (claim_table != NULL)
		return;

	claim_table = get_named_dsm_segment("test_aio claims", sizeof(ClaimTable),
										init_claim_table, &found);
}

/*
 * Has the claims of this session end when it exits.
 */
void
claims_end_with_session(void)
{
	static bool registered = false;

	if (registered)
		return;
	before_shmem_exit(claims_end_at_exit, 0);
	registered = true;
}

uint64
claims_next_id(void)
{
	uint64		id;

	SpinLockAcquire(&claim_table->lock);
	id = ++claim_table->last_id;
	SpinLockRelease(&claim_table->lock);

	return id;
}

/*
 * Enters a claim into the table before the I/O is started, so that there is a
 * place for it.  Returns NULL when the table is full.
 */
SharedClaim *
claims_reserve(uint64 id, Buffer buffer, bool for_input)
{
	SharedClaim *claim = NULL;

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS && claim == NULL; i++)
	{
		if (claim_table->claims[i].buffer == InvalidBuffer)
		{
			claim = &claim_table->claims[i];
			*claim = (SharedClaim)
			{
				.buffer = buffer,.pid = MyProcPid,.id = id,.for_input = for_input,
					.limit = io_now() + filters_hold_timeout()
			};
			if (!for_input)
				claim_table->noutput++;
		}
	}
	SpinLockRelease(&claim_table->lock);

	return claim;
}

void
claims_free(SharedClaim *claim)
{
	SpinLockAcquire(&claim_table->lock);
	claims_remove(claim);
	SpinLockRelease(&claim_table->lock);
}

bool
claims_exists(uint64 id)
{
	bool		exists = false;

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS && !exists; i++)
		exists = claim_table->claims[i].buffer != InvalidBuffer &&
			claim_table->claims[i].id == id;
	SpinLockRelease(&claim_table->lock);

	return exists;
}

/*
 * Ends a claim of this session as failed, if it has not been ended.
 */
void
claims_end(uint64 id)
{
	SharedClaim claim = {0};

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (claim_table->claims[i].buffer != InvalidBuffer &&
			claim_table->claims[i].id == id && claim_table->claims[i].started)
		{
			claim = claim_table->claims[i];
			claims_remove(&claim_table->claims[i]);
		}
	}
	SpinLockRelease(&claim_table->lock);

	if (claim.buffer == InvalidBuffer)
		return;
	claims_end_io(&claim, false, true, true);
	ereport(WARNING,
			(errmsg("I/O on buffer %d, started by this session, has been ended as failed",
					claim.buffer),
			 errdetail("The transaction was aborted, and another session wants to lock the relation.")));
}

/*
 * Makes this process the one that ends claims for output in time, or, if "watch" is
 * false, no process.
 */
void
claims_watch(bool watch)
{
	claims_attach();
	claim_table->watcher = watch ? MyProcNumber : INVALID_PROC_NUMBER;
}

/*
 * Ends claims for output that have lasted longer than they may, or all of them.
 * Returns when the next one has lasted long enough.
 */
IoTime
claims_end_overdue(IoTime now, bool all)
{
	IoTime		next = IO_TIME_NEVER;

	for (int i = 0; claim_table->noutput > 0 && i < MAX_CLAIMS; i++)
	{
		SharedClaim *claim = &claim_table->claims[i];
		SharedClaim ended = {0};

		SpinLockAcquire(&claim_table->lock);
		if (claim->buffer != InvalidBuffer && claim->started && !claim->for_input)
		{
			if (all || now >= claim->limit)
			{
				ended = *claim;
				claims_remove(claim);
			}
			else
				next = Min(next, claim->limit);
		}
		SpinLockRelease(&claim_table->lock);

		if (ended.buffer == InvalidBuffer)
			continue;
		if (!all)
			ereport(WARNING,
					(errmsg("I/O on buffer %d, started for output by process %d, has lasted for too long",
							ended.buffer, ended.pid),
					 errdetail("It is ended as failed now, after \"test_aio.hold_timeout\".")));
		claims_end_io(&ended, false, true, true);
	}

	return next;
}
