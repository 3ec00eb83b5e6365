/*
 * Blocks in and out of the buffer pool.
 *
 * The server evicts valid buffers (EvictUnpinnedBuffer) and drops those of a
 * relation that goes away.  A test needs something in between: no trace of a
 * relation in the pool, not even the buffer that a failed read has left
 * behind, and nothing lost that was dirty.
 */
#include "filters/filters.h"

#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(evict_rel);
PG_FUNCTION_INFO_V1(invalidate_rel_block);
PG_FUNCTION_INFO_V1(drop_buffer);
PG_FUNCTION_INFO_V1(buffer_create_toy);

/*
 * How often to try before a block that changes under our hands counts as in use.  Only a
 * busy relation gets anywhere near.
 */
#define EVICT_TRIES 100

/*
 * How long to wait for pins to be given back, and for I/O that is not AIO's.  Background
 * processes have their pins for microseconds, but may be put to sleep then; a write may
 * take long.
 */
#define PIN_PATIENCE (500 * NS_PER_MS)
#define IO_PATIENCE (10 * NS_PER_S)
#define PIN_LOOK_EVERY 5		/* milliseconds */

static IoTime aio_time;			/* for which this process has waited for AIO */

typedef enum Eviction
{
	BLOCK_EVICTED,
	BLOCK_CHANGED,				/* look again where it is */
	BLOCK_STAYS,				/* waiting is of no use */
	BLOCK_PINNED,				/* perhaps for a moment only */
	BLOCK_IN_IO,				/* which is not AIO's, and takes longer */
} Eviction;

/*
 * Waits for the asynchronous I/O that a buffer is part of.  Returns false,
 * without waiting, if the I/O does not end by itself: its owner has not
 * submitted it, or inj_io_completion_wait() holds it.
 */
static bool
wait_for_buffer_aio(PgAioWaitRef *iow)
{
	PgAioHandle *ioh = &pgaio_ctl->io_handles[iow->aio_index];
	uint64		generation = ((uint64) iow->generation_upper) << 32 |
		iow->generation_lower;
	PgAioHandleState state;
	IoTime		begin = io_now();

	if (pgaio_io_was_recycled(ioh, generation, &state))
		return true;
	if (state < PGAIO_HS_SUBMITTED ||
		(io_is_read(ioh) && filters_first_match(FILTER_COMPLETION_WAIT, ioh) != NULL))
		return false;

	pgaio_wref_wait(iow);
	aio_time += io_now() - begin;
	return true;
}

/*
 * Removes a block from a shared buffer, writing it first if it is dirty, or waits for
 * I/O that keeps it there.
 */
static Eviction
evict_shared_buffer(BufferDesc *desc, const BufferTag *tag)
{
	BufferState state = LockBufHdr(desc);
	bool		is_there = (state & BM_TAG_VALID) && BufferTagsEqual(&desc->tag, tag);
	PgAioWaitRef iow = desc->io_wref;
	bool		flushed;

	buffer_header_unlock(desc, state, 0, 0, 0);

	if (!is_there)
		return BLOCK_CHANGED;
	if (BUF_STATE_GET_REFCOUNT(state) == 0)
	{
		if (state & BM_VALID)
			(void) EvictUnpinnedBuffer(BufferDescriptorGetBuffer(desc), &flushed);
		else
			(void) forget_block(desc, tag, false);
		return BLOCK_CHANGED;
	}
	if (pgaio_wref_valid(&iow))
		return wait_for_buffer_aio(&iow) ? BLOCK_CHANGED : BLOCK_STAYS;
	if (!(state & BM_IO_IN_PROGRESS))
		return BLOCK_PINNED;

	return buffer_io_is_ours(BufferDescriptorGetBuffer(desc)) ? BLOCK_STAYS : BLOCK_IN_IO;
}

/*
 * Removes a block from a local buffer, writing it first if it is dirty.  Only this
 * session has pins on the buffer, so none of them goes away while it waits.
 */
static Eviction
evict_local_buffer(BufferDesc *desc)
{
	PgAioWaitRef iow = desc->io_wref;

	if (pgaio_wref_valid(&iow) && !wait_for_buffer_aio(&iow))
		return BLOCK_STAYS;

	/* pinned by the session, or by an I/O of it */
	if (BUF_STATE_GET_REFCOUNT(buffer_state_read(desc)) > 0)
		return BLOCK_STAYS;

	if (buffer_state_read(desc) & BM_DIRTY)
	{
		ResourceOwnerEnlarge(CurrentResourceOwner);
		PinLocalBuffer(desc, false);
		FlushLocalBuffer(desc, NULL);
		UnpinLocalBuffer(BufferDescriptorGetBuffer(desc));
	}

	InvalidateLocalBuffer(desc, true);

	return BLOCK_EVICTED;
}

/*
 * Waits a little for pins to be given back, or for I/O to end.  Returns false if that is
 * of no use, or once patience is exhausted, which waits for AIO do not count towards.
 */
static bool
wait_for_others(Eviction outcome, IoTime begin)
{
	IoTime		patience = outcome == BLOCK_IN_IO ? IO_PATIENCE : outcome == BLOCK_PINNED ? PIN_PATIENCE : 0;

	if (io_now() - aio_time - begin >= patience)
		return false;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 PIN_LOOK_EVERY, WAIT_EVENT_PG_SLEEP);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();

	return true;
}

/*
 * Returns the buffer that has this tag, or NULL.  The buffer is not pinned:
 * unless the caller does something about it, a shared buffer may have another
 * tag at any time.  The server's hash table of local buffers is out of reach.
 */
BufferDesc *
lookup_buffer(Relation rel, const BufferTag *tag)
{
	BufferTag	wanted = *tag;
	uint32		hash = BufTableHashCode(&wanted);
	LWLock	   *partition_lock = BufMappingPartitionLock(hash);
	int			bufid;

	for (int i = 0; i < NLocBuffer && RelationUsesLocalBuffers(rel); i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if ((buffer_state_read(desc) & BM_TAG_VALID) && BufferTagsEqual(&desc->tag, tag))
			return desc;
	}
	if (RelationUsesLocalBuffers(rel))
		return NULL;

	LWLockAcquire(partition_lock, LW_SHARED);
	bufid = BufTableLookup(&wanted, hash);
	LWLockRelease(partition_lock);

	return bufid < 0 ? NULL : GetBufferDescriptor(bufid);
}

/* Removes one block from the buffer pool, writing it first if it is dirty. */
static Eviction
evict_block(Relation rel, const BufferTag *tag)
{
	for (int i = 0; i < EVICT_TRIES; i++)
	{
		BufferDesc *desc = lookup_buffer(rel, tag);
		Eviction	outcome;

		CHECK_FOR_INTERRUPTS();
		if (desc == NULL)
			return BLOCK_EVICTED;

		/* others may wait for what we have staged, and a write ends no batch */
		pgaio_submit_staged();

		outcome = RelationUsesLocalBuffers(rel) ?
			evict_local_buffer(desc) : evict_shared_buffer(desc, tag);
		if (outcome != BLOCK_CHANGED)
			return outcome;
	}

	return BLOCK_PINNED;
}

/*
 * Removes one block of the main fork from the buffer pool.  Returns true if it is not in
 * the pool afterwards, false if it stays: pinned, or part of I/O that does not end by
 * itself.
 */
static bool
is_evicted(Relation rel, BlockNumber blockno)
{
	IoTime		begin = io_now() - aio_time;
	BufferTag	tag;
	Eviction	outcome;

	InitBufferTag(&tag, &rel->rd_locator, MAIN_FORKNUM, blockno);
	do
	{
		outcome = evict_block(rel, &tag);
	} while (wait_for_others(outcome, begin));

	return outcome == BLOCK_EVICTED;
}

pg_noreturn static void
raise_block_in_use(Relation rel, BlockNumber blockno)
{
	ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
			errmsg("block %u of relation \"%s\" is in use",
				   blockno, RelationGetRelationName(rel)),
			errdetail("It is pinned by this or by another session."));
}

/* Removes a block of the main fork, or raises an error if it stays. */
void
require_evicted(Relation rel, BlockNumber blockno)
{
	if (!is_evicted(rel, blockno))
		raise_block_in_use(rel, blockno);
}

/*
 * Removes all blocks of a relation from its buffer pool.  Returns how many stay, and gets
 * the reason for which it is worth waiting longest.
 */
static int
evict_blocks(Relation rel, Eviction *reason)
{
	bool		local = RelationUsesLocalBuffers(rel);
	int			nbuffers = local ? NLocBuffer : NBuffers;
	int			stay = 0;

	*reason = BLOCK_EVICTED;
	for (int bufid = 0; bufid < nbuffers; bufid++)
	{
		BufferDesc *desc = local ? GetLocalBufferDescriptor(bufid) : GetBufferDescriptor(bufid);
		BufferTag	tag;
		Eviction	outcome;

		CHECK_FOR_INTERRUPTS();

		/* without lock: a block that comes in later need not be found */
		if (!(buffer_state_read(desc) & BM_TAG_VALID) ||
			!BufTagMatchesRelFileLocator(&desc->tag, &rel->rd_locator))
			continue;
		tag = desc->tag;
		/* looking up a local buffer is slow, and nobody else can move it */
		outcome = local ? evict_local_buffer(desc) : evict_block(rel, &tag);
		stay += outcome != BLOCK_EVICTED;
		*reason = Max(*reason, outcome);
	}

	return stay;
}

/*
 * Removes all blocks of all forks from the buffer pool; dirty blocks are
 * written first (EvictUnpinnedBuffer, FlushLocalBuffer).  Waits for I/O that
 * ends by itself, for half a second for pins to be given back, and for ten for
 * I/O that buffer_call_start_io() has started.  Does not wait for I/O that its
 * owner has not submitted, or that inj_io_completion_wait() holds.
 * Blocks that are still pinned stay, and a WARNING counts them.
 */
Datum
evict_rel(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	IoTime		begin = io_now() - aio_time;
	int			pinned;
	Eviction	reason;

	pgaio_submit_staged();

	do
	{
		pinned = evict_blocks(rel, &reason);
	} while (wait_for_others(reason, begin));

	if (pinned > 0)
		ereport(WARNING, errcode(ERRCODE_OBJECT_IN_USE),
				errmsg_plural("%d block of relation \"%s\" is pinned and stays in the buffer pool",
							  "%d blocks of relation \"%s\" are pinned and stay in the buffer pool",
							  pinned, pinned, RelationGetRelationName(rel)));

	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}

/*
 * Removes one block of the main fork from the buffer pool, as evict_rel()
 * does.  It is no error if the block is in no buffer.
 */
Datum
invalidate_rel_block(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);

	check_block_range(rel, MAIN_FORKNUM, blockno, 1);

	if (!is_evicted(rel, blockno))
		ereport(WARNING, errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("block %d of relation \"%s\" is pinned and stays in the buffer pool",
					   blockno, RelationGetRelationName(rel)));

	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}

/* Removes a shared buffer's block without writing it; a dirty one that is in a file stays. */
Datum
drop_buffer(PG_FUNCTION_ARGS)
{
	Buffer		buffer = PG_GETARG_INT32(0);
	BufferState state;
	BufferTag	tag;

	require_superuser(fcinfo);
	check_range("buffer", buffer, 1, NBuffers);
	state = read_buffer_header(get_buffer_descriptor(buffer), &tag);
	if (!(state & BM_TAG_VALID))
		PG_RETURN_VOID();

	if (!forget_block(get_buffer_descriptor(buffer), &tag, true))
		ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("buffer %d is in use", buffer),
				errdetail("It is pinned, or it is dirty and its block is in a file."));

	PG_RETURN_VOID();
}

/*
 * Reads a block into the buffer that we have made out of zeroes.  Another session
 * came in between and waits for our content lock; it must not find the zeroes.
 *
 * If the block cannot be read, the buffer does not count as valid any more, so
 * that everybody who comes later reads the block and gets the error.  Only the
 * session that waits has looked already, and finds a new page.
 */
static void
restore_block(Relation rel, BlockNumber blockno, Buffer buffer)
{
	PG_TRY();
	{
		smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, blockno, BufferGetPage(buffer));
	}
	PG_CATCH();
	{
		mark_buffer_failed(get_buffer_descriptor(buffer));
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Pins a buffer for this block that is neither valid nor dirty, so that a read
 * into it can be started.  A copy of the block in the buffer pool is written if
 * dirty, and dropped, first.  Raises an error if another session uses the block.
 */
Buffer
pin_block_as_invalid(Relation rel, BlockNumber blockno)
{
	Buffer		buffer;

	require_evicted(rel, blockno);

	/* the only way to a buffer for a block without reading it */
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, blockno, RBM_ZERO_AND_LOCK, NULL);

	if (!unset_buffer_valid(buffer))
	{
		if (!(buffer_state_read(get_buffer_descriptor(buffer)) & BM_DIRTY))
			restore_block(rel, blockno, buffer);
		UnlockReleaseBuffer(buffer);
		raise_block_in_use(rel, blockno);
	}

	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	return buffer;
}

/*
 * Returns the number of a buffer that holds this block and is neither pinned,
 * valid nor dirty.  The number is negative for a temporary table.  The buffer
 * is for buffer_call_start_io().
 */
Datum
buffer_create_toy(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	Buffer		buffer;

	check_block_range(rel, MAIN_FORKNUM, blockno, 1);

	buffer = pin_block_as_invalid(rel, blockno);
	ReleaseBuffer(buffer);

	relation_close(rel, AccessShareLock);

	PG_RETURN_INT32(buffer);
}
