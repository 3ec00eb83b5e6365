/*
 * Steps that take the lock of a buffer's header.
 *
 * A shared buffer keeps its block by a reference in its header that belongs to no
 * backend, as the AIO subsystem has them.  Local buffers are seen by their own
 * session only, and need no lock.
 */
#include "test_aio.h"

/* Returns the state of a buffer in either pool, and gets the tag of that moment. */
BufferState
read_buffer_header(BufferDesc *desc, BufferTag *tag)
{
	bool		local = BufferIsLocal(BufferDescriptorGetBuffer(desc));
	BufferState state = local ? buffer_state_read(desc) : LockBufHdr(desc);

	*tag = desc->tag;
	if (!local)
		buffer_header_unlock(desc, state, 0, 0, 0);

	return state;
}

/* Has a shared buffer keep its block.  Returns false if it holds another, or none. */
bool
refer_to_buffer(BufferDesc *desc, const BufferTag *tag)
{
	BufferState state = LockBufHdr(desc);
	bool		is_there = (state & BM_TAG_VALID) && BufferTagsEqual(&desc->tag, tag);

	buffer_header_unlock(desc, state, 0, 0, is_there ? 1 : 0);
	return is_there;
}

/* Drops a reference, and wakes LockBufferForCleanup(), which waits for others' pins. */
void
drop_buffer_reference(BufferDesc *desc)
{
	BufferState state = LockBufHdr(desc);
	bool		is_last = (state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 2;
	ProcNumber	waiter = desc->wait_backend_pgprocno;

	buffer_header_unlock(desc, state, 0, is_last ? BM_PIN_COUNT_WAITER : 0, -1);
	if (is_last)
		ProcSendSignal(waiter);
}

/*
 * Clears the "valid" flag of a buffer that only this process has pinned and
 * locked.  Returns false if another process has pinned or dirtied the buffer.
 */
bool
unset_buffer_valid(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state;
	bool		is_ours;

	if (BufferIsLocal(buffer))
	{
		state = buffer_state_read(desc);
		buffer_state_write_local(desc, state & ~(BM_VALID | BM_IO_ERROR));
		return true;
	}

	state = LockBufHdr(desc);
	is_ours = BUF_STATE_GET_REFCOUNT(state) == 1 && !(state & BM_DIRTY);
	buffer_header_unlock(desc, state, 0, is_ours ? BM_VALID | BM_IO_ERROR : 0, 0);

	return is_ours;
}

/* Marks a valid shared buffer as one whose read has failed. */
void
mark_buffer_failed(BufferDesc *desc)
{
	buffer_header_unlock(desc, LockBufHdr(desc), BM_IO_ERROR, BM_VALID, 0);
}

static bool
is_in_file(const BufferTag *tag)
{
	SMgrRelation smgr = smgropen(BufTagGetRelFileLocator(tag), INVALID_PROC_NUMBER);
	ForkNumber	forknum = BufTagGetForkNum(tag);

	return smgrexists(smgr, forknum) && smgrnblocks(smgr, forknum) > tag->blockNum;
}

/*
 * Has a shared buffer forget its block, as the server does when it drops a relation.
 * Returns false if the buffer holds another block, is pinned, has I/O in progress, or
 * is dirty; with "orphan" it may be dirty if its block is in no file, else it must not be
 * valid either.
 */
bool
forget_block(BufferDesc *desc, const BufferTag *tag, bool orphan)
{
	BufferTag	mapped = *tag;
	uint32		hash = BufTableHashCode(&mapped);
	LWLock	   *partition_lock = BufMappingPartitionLock(hash);
	BufferState unless = BM_IO_IN_PROGRESS;
	BufferState state;
	bool		forgets;

	LWLockAcquire(partition_lock, LW_EXCLUSIVE);
	/* who extends the file by this block needs the lock to pin the buffer */
	if (!orphan || is_in_file(tag))
		unless |= BM_DIRTY | (orphan ? 0 : BM_VALID);
	state = LockBufHdr(desc);

	/* with both locks held nobody can pin it, so this decides */
	forgets = (state & BM_TAG_VALID) && BufferTagsEqual(&desc->tag, tag) &&
		BUF_STATE_GET_REFCOUNT(state) == 0 && !(state & unless);
	if (forgets)
		ClearBufferTag(&desc->tag);
	buffer_header_unlock(desc, state, 0, forgets ? BUF_FLAG_MASK | BUF_USAGECOUNT_MASK : 0, 0);
	if (forgets)
		BufTableDelete(&mapped, hash);

	LWLockRelease(partition_lock);

	return forgets;
}
