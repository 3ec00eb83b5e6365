/*
 * Matching I/O, and the arguments that say which I/O to match.
 */
#include "aio/aio.h"

#include "storage/procarray.h"
#include "utils/builtins.h"

PgAioHandle *io_calls;

Unavailable io_calls_unavailable = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "writes are not seen in this server",
};

static const char *const op_names[] = {
	[PGAIO_OP_READV] = "read",
	[PGAIO_OP_WRITEV] = "write",
	[IO_OP_EXTEND] = "extend",
	[IO_OP_TRUNCATE] = "truncate",
	[IO_OP_SYNC] = "sync",
	[IO_OP_WAL_WRITE] = "wal_write",
	[IO_OP_WAL_SYNC] = "wal_sync",
};

/* Returns the names of operations, as io_match_op_arg() reads them; NULL: all. */
const char *
io_op_names(uint32 ops)
{
	const char *names = NULL;

	for (int op = PGAIO_OP_READV; op < (int) lengthof(op_names) && ops != IO_ALL_OPS; op++)
		if (ops & IO_OP_BIT(op))
			names = names == NULL ? op_names[op] : psprintf("%s,%s", names, op_names[op]);
	return names;
}

/* Returns what is read or written, as pg_aios does. */
const char *
io_describe_target(const PgAioTargetData *target)
{
	PgAioHandle described = {.target = PGAIO_TID_SMGR,.target_data = *target};
	const RelFileLocator *segment = &target->smgr.rlocator;

	if (target->smgr.forkNum != InvalidForkNumber)
		return pgaio_io_get_target_description(&described);
	if (segment->spcOid == 0)
		return "new segment of WAL";
	return psprintf("file \"pg_wal/%08X%08X%08X\"", segment->spcOid, segment->dbOid, segment->relNumber);
}

bool
io_is_read(PgAioHandle *ioh)
{
	return ioh->op == PGAIO_OP_READV && ioh->target == PGAIO_TID_SMGR;
}

/* Returns the leader of the parallel query that issues an I/O as a worker, or 0. */
static int
leader_pid(PgAioHandle *ioh)
{
	const PGPROC *volatile *place = (const PGPROC *volatile *) &GetPGProcByNumber(ioh->owner_procno)->lockGroupLeader;
	const PGPROC *leader = *place;

	return leader != NULL && leader != GetPGProcByNumber(ioh->owner_procno) ? leader->pid : 0;
}

/* Returns whether an I/O matches.  Allocates nothing. */
bool
io_matches(const IoMatch *match, PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;

	if (!(match->ops & IO_OP_BIT(ioh->op)))
		return false;
	if (match->has_rel)
	{
		if (ioh->op >= IO_OP_WAL_WRITE || !RelFileLocatorEquals(match->rlocator, td->smgr.rlocator))
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
	if (match->leader_pid != 0 && match->leader_pid != leader_pid(ioh))
		return false;
	/* another process has looked when it began the I/O */
	if (match->backend_type != B_INVALID && ioh->owner_procno == MyProcNumber &&
		match->backend_type != MyBackendType)
		return false;

	return true;
}

/* Returns whether two matches are about the same I/O. */
bool
io_match_is_same(const IoMatch *a, const IoMatch *b)
{
	return a->ops == b->ops && a->has_rel == b->has_rel &&
		(!a->has_rel || RelFileLocatorEquals(a->rlocator, b->rlocator)) &&
		a->temp_owner == b->temp_owner && a->relfilenumber == b->relfilenumber &&
		a->fork == b->fork && a->pid == b->pid &&
		a->leader_pid == b->leader_pid && a->backend_type == b->backend_type &&
		a->has_block == b->has_block && (!a->has_block || a->block == b->block);
}

IoMatch
io_match_all(void)
{
	return (IoMatch)
	{
		.ops = IO_OP_BIT(PGAIO_OP_READV),.fork = InvalidForkNumber,.temp_owner = INVALID_PROC_NUMBER
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

/* Reads the names of operations, with commas between them.  NULL: all that are seen. */
void
io_match_op_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match)
{
	char	   *rest;

	if (PG_ARGISNULL(arg))
	{
		if (io_calls_unavailable.reason == NULL)
			match->ops = IO_ALL_OPS;
		return;
	}
	match->ops = 0;
	rest = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	while (rest != NULL)
	{
		const char *name = strsep(&rest, ",");
		int			op = PGAIO_OP_READV;

		name += strspn(name, " ");
		while (op < (int) lengthof(op_names) && strcmp(name, op_names[op]) != 0)
			op++;
		if (op == lengthof(op_names))
			ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("unknown operation \"%s\"", name),
					errhint("Operations are read, write, extend, truncate, sync, wal_write and wal_sync."));
		match->ops |= IO_OP_BIT(op);
		if (op != PGAIO_OP_READV && io_calls_unavailable.reason != NULL)
			raise_unavailable(&io_calls_unavailable);
	}
}

/* Reads the process id of a backend; NULL: 0. */
int
io_pid_arg(FunctionCallInfo fcinfo, int arg, const char *name)
{
	int			pid;

	if (PG_ARGISNULL(arg))
		return 0;
	pid = PG_GETARG_INT32(arg);
	check_range(name, pid, 1, PG_INT32_MAX);
	if (BackendPidGetProc(pid) == NULL && AuxiliaryPidGetProc(pid) == NULL)
		ereport(NOTICE, errmsg("PID %d is not a PostgreSQL backend process", pid));
	return pid;
}

/* Reads a type of processes, as in pg_stat_activity. */
void
io_match_backend_type_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match)
{
	const char *name;
	int			type = B_INVALID + 1;

	if (PG_ARGISNULL(arg))
		return;
	name = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	while (type < BACKEND_NUM_TYPES && strcmp(GetBackendTypeDesc(type), name) != 0)
		type++;
	if (type == BACKEND_NUM_TYPES)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("unknown backend type \"%s\"", name),
				errhint("For example \"client backend\", \"autovacuum worker\", \"checkpointer\" or \"background worker\"."));
	match->backend_type = type;
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
