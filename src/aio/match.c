/*
 * Matching reads, and the arguments that say which reads to match.
 */
#include "aio/aio.h"

#include "storage/procarray.h"

bool
io_is_read(PgAioHandle *ioh)
{
	return ioh->op == PGAIO_OP_READV && ioh->target == PGAIO_TID_SMGR;
}

/* Returns whether a read of a relation's blocks matches.  Allocates nothing. */
bool
io_matches(const IoMatch *match, PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;

	if (match->has_rel)
	{
		if (!RelFileLocatorEquals(match->rlocator, td->smgr.rlocator))
			return false;
		if (td->smgr.is_temp != (match->temp_owner != INVALID_PROC_NUMBER))
			return false;
		if (td->smgr.is_temp && match->temp_owner != ioh->owner_procno)
			return false;
	}
	if (match->relfilenumber != InvalidRelFileNumber &&
		match->relfilenumber != td->smgr.rlocator.relNumber)
		return false;
	if (match->fork != InvalidForkNumber && match->fork != td->smgr.forkNum)
		return false;
	if (match->has_block &&
		(match->block < td->smgr.blockNum ||
		 match->block >= td->smgr.blockNum + td->smgr.nblocks))
		return false;
	if (match->pid != 0 && match->pid != io_owner_pid(ioh))
		return false;

	return true;
}

/* Returns whether two matches are about the same reads. */
bool
io_match_is_same(const IoMatch *a, const IoMatch *b)
{
	return a->has_rel == b->has_rel &&
		(!a->has_rel || RelFileLocatorEquals(a->rlocator, b->rlocator)) &&
		a->temp_owner == b->temp_owner && a->relfilenumber == b->relfilenumber &&
		a->fork == b->fork && a->pid == b->pid &&
		a->has_block == b->has_block && (!a->has_block || a->block == b->block);
}

IoMatch
io_match_all(void)
{
	return (IoMatch)
	{
		.fork = InvalidForkNumber,.temp_owner = INVALID_PROC_NUMBER
	};
}

IoMatch
io_match_rel_arg(FunctionCallInfo fcinfo, int arg)
{
	IoMatch		match = io_match_all();

	if (!PG_ARGISNULL(arg))
	{
		Relation	rel = open_relation_for_io(fcinfo, PG_GETARG_OID(arg), AccessShareLock);

		match.has_rel = true;
		match.rlocator = rel->rd_locator;
		if (RelationUsesLocalBuffers(rel))
			match.temp_owner = rel->rd_backend;
		relation_close(rel, AccessShareLock);
	}

	return match;
}

/* Reads the process id of the backend that issues the reads. */
void
io_match_pid_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match)
{
	if (PG_ARGISNULL(arg))
		return;

	match->pid = PG_GETARG_INT32(arg);
	check_range("pid", match->pid, 1, PG_INT32_MAX);
	if (BackendPidGetProc(match->pid) == NULL && AuxiliaryPidGetProc(match->pid) == NULL)
		ereport(NOTICE, errmsg("PID %d is not a PostgreSQL backend process", match->pid));
}

/* Puts a block number, read by the caller since its type differs, into the match. */
void
io_match_block_arg(FunctionCallInfo fcinfo, int arg, int64 blockno, IoMatch *match)
{
	if (PG_ARGISNULL(arg))
		return;

	check_range("blockno", blockno, 0, MaxBlockNumber);
	match->has_block = true;
	match->block = (BlockNumber) blockno;
}

void
io_match_relfilenode_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match)
{
	if (PG_ARGISNULL(arg))
		return;

	match->relfilenumber = PG_GETARG_OID(arg);
	check_range("relfilenode", match->relfilenumber, 1, PG_UINT32_MAX);
}
