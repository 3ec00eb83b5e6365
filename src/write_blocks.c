/*
 * Writes by AIO, which the server does not make itself: one is built by hand, from the
 * AIO subsystem's parts.
 */
#include "test_aio.h"

#include "access/xlog.h"
#include "storage/md.h"

PG_FUNCTION_INFO_V1(write_rel_block_ll);

/* Locks pinned buffers, and makes them as FlushBuffer() would find them: dirty and ready. */
static void
prepare_buffers(Relation rel, BlockNumber first, const Buffer *buffers, int nblocks)
{
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	/* before there are locks, so that readers do not wait for it */
	for (int i = 0; i < nblocks; i++)
		lsn = Max(lsn, BufferGetLSNAtomic(buffers[i]));
	if (RelationIsPermanent(rel))
		XLogFlush(lsn);

	for (int i = 0; i < nblocks; i++)
	{
		BufferDesc *desc = get_buffer_descriptor(buffers[i]);

		/* never wait for a lock while others are held */
		if (!ConditionalLockBuffer(buffers[i]))
			ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
					errmsg("block %u of relation \"%s\" is locked by another session",
						   first + i, RelationGetRelationName(rel)));
		MarkBufferDirty(buffers[i]);
		buffer_header_unlock(desc, LockBufHdr(desc), 0, BM_JUST_DIRTIED, 0);
		if (RelationIsPermanent(rel))
			XLogFlush(PageGetLSN(BufferGetPage(buffers[i])));
		PageSetChecksum(BufferGetPage(buffers[i]), first + i);
	}
}

/* Stages one write of buffers, which must stay as they are until it has ended. */
static void
stage_write(PgAioHandle *ioh, Relation rel, BlockNumber first, const Buffer *buffers,
			int nblocks, PgAioWaitRef *iow)
{
	SMgrRelation smgr = RelationGetSmgr(rel);
	struct iovec *iov;
	uint32		offset;
	int			fd;

	pgaio_io_get_wref(ioh, iow);
	pgaio_io_get_iovec(ioh, &iov);
	for (int i = 0; i < nblocks; i++)
	{
		iov[i].iov_base = BufferGetBlock(buffers[i]);
		iov[i].iov_len = BLCKSZ;
	}
	pgaio_io_set_target_smgr(ioh, smgr, MAIN_FORKNUM, first, nblocks, false);
	fd = mdfd(smgr, MAIN_FORKNUM, first, &offset);
	pgaio_io_start_writev(ioh, fd, nblocks, offset);
}

/*
 * Writes 1 to io_max_combine_limit blocks by one asynchronous write
 * (pgaio_io_start_writev), and waits for it.  The blocks are read if need be; they are
 * written from the buffer pool, whether they are dirty or not, and are clean then.
 */
Datum
write_rel_block_ll(PG_FUNCTION_ARGS)
{
	Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessShareLock);
	int32		blockno = PG_GETARG_INT32(1);
	int32		nblocks = PG_GETARG_INT32(2);
	Buffer		buffers[MAX_IO_COMBINE_LIMIT];
	PgAioReturn result;
	PgAioHandle *ioh;
	PgAioWaitRef iow;
	bool		is_written;

	/* replay may wait for our locks */
	PreventCommandDuringRecovery("write_rel_block_ll()");
	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot write blocks of temporary table \"%s\" by AIO", RelationGetRelationName(rel)));
	check_combinable(rel, blockno, nblocks);

	for (int i = 0; i < nblocks; i++)
		buffers[i] = ReadBuffer(rel, blockno + i);
	ioh = pgaio_io_acquire(CurrentResourceOwner, &result);
	/* the result is on our stack, and the file must stay open */
	HOLD_INTERRUPTS();
	prepare_buffers(rel, blockno, buffers, nblocks);
	start_block_io(rel, blockno, buffers, nblocks, false);
	stage_write(ioh, rel, blockno, buffers, nblocks, &iow);
	pgaio_submit_staged();
	pgaio_wref_wait(&iow);

	/* the next checkpoint is to sync the file before it forgets the blocks */
	is_written = result.result.result == nblocks * BLCKSZ;
	if (is_written)
		smgrregistersync(RelationGetSmgr(rel), MAIN_FORKNUM);
	for (int i = 0; i < nblocks; i++)
	{
		TerminateBufferIO(get_buffer_descriptor(buffers[i]), is_written, is_written ? 0 : BM_IO_ERROR, true, false);
		UnlockReleaseBuffer(buffers[i]);
	}
	RESUME_INTERRUPTS();

	errno = result.result.result < 0 ? -result.result.result : ENOSPC;
	if (!is_written)
		ereport(ERROR, errcode_for_file_access(),
				errmsg("could not write blocks %d..%d of relation \"%s\": %m",
					   blockno, blockno + nblocks - 1, RelationGetRelationName(rel)),
				errdetail("Wrote %d of %d bytes.", Max(result.result.result, 0), nblocks * BLCKSZ));
	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}
