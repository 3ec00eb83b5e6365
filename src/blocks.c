/*
 * Changes blocks on disk: adds blocks, rewrites them, makes them bad.
 */
#include "test_aio.h"

#include "storage/checksum.h"
#include "tcop/utility.h"

PG_FUNCTION_INFO_V1(grow_rel);
PG_FUNCTION_INFO_V1(modify_rel_block);

/* what one call of grow_rel() may add: 1 GB of the usual blocks */
#define GROW_REL_MAX_BLOCKS 131072

/* blocks added at a time; the server may do with fewer if pins are scarce */
#define GROW_REL_CHUNK 64

/*
 * Extends the main fork by zeroed blocks (ExtendBufferedRelBy), several at a
 * time.  The blocks stay when the transaction aborts.
 */
Datum
grow_rel(PG_FUNCTION_ARGS)
{
	int32		nblocks = PG_GETARG_INT32(1);
	int32		done = 0;
	Relation	rel;

	require_superuser(fcinfo);
	PreventCommandDuringRecovery("grow_rel()");

	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), ShareUpdateExclusiveLock);
	check_range("nblocks", nblocks, 1, GROW_REL_MAX_BLOCKS);

	/* nothing below knows of batches */
	pgaio_submit_staged();

	while (done < nblocks)
	{
		Buffer		buffers[GROW_REL_CHUNK];
		uint32		extended;

		CHECK_FOR_INTERRUPTS();

		(void) ExtendBufferedRelBy(BMR_REL(rel), MAIN_FORKNUM, NULL, 0,
								   Min(GROW_REL_CHUNK, nblocks - done), buffers, &extended);
		for (uint32 i = 0; i < extended; i++)
			ReleaseBuffer(buffers[i]);
		done += extended;
	}

	relation_close(rel, ShareUpdateExclusiveLock);

	PG_RETURN_VOID();
}

/*
 * Rewrites one block of the main fork on disk (smgrread, smgrwrite): zeroed, with an
 * impossible header, with a wrong checksum, or merely with the right one
 * (PageSetChecksum).  A copy in the buffer pool is written before if it is dirty, and
 * dropped.  The change is not WAL-logged, and stays when the transaction aborts.
 */
Datum
modify_rel_block(PG_FUNCTION_ARGS)
{
	Relation	rel;
	int32		blockno = PG_GETARG_INT32(1);
	bool		zero = PG_GETARG_BOOL(2);
	bool		corrupt_header = PG_GETARG_BOOL(3);
	bool		corrupt_checksum = PG_GETARG_BOOL(4);
	PGIOAlignedBlock block;
	Page		page = (Page) block.data;

	require_superuser(fcinfo);
	PreventCommandDuringRecovery("modify_rel_block()");

	/* a change between reading and writing the block would be lost */
	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(0), AccessExclusiveLock);
	check_block_range(rel, MAIN_FORKNUM, blockno, 1);
	require_evicted(rel, blockno);

	/* below the buffer manager nobody looks whether it is a good page */
	if (zero)
		memset(block.data, 0, BLCKSZ);
	else
		smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, blockno, block.data);

	/* of a new page, the server looks at neither header nor checksum */
	if ((corrupt_header || corrupt_checksum) && PageIsNew(page))
		PageInit(page, BLCKSZ, 0);

	if (corrupt_header)
		((PageHeader) page)->pd_special = BLCKSZ + MAXIMUM_ALIGNOF;

	if (corrupt_checksum)
		((PageHeader) page)->pd_checksum = pg_checksum_page(block.data, blockno) ^ 1;
	else
		PageSetChecksum(page, blockno);

	smgrwrite(RelationGetSmgr(rel), MAIN_FORKNUM, blockno, block.data, false);

	/* background processes take no lock on relations and may have read it */
	require_evicted(rel, blockno);

	relation_close(rel, AccessExclusiveLock);

	PG_RETURN_VOID();
}
