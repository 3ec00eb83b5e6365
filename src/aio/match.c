/*
 * Matching I/O, and the arguments that say which I/O to match.
 */
#include "aio/aio.h"

#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"

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

/* Sets the columns about what is read or written, as in pg_aios.  WAL has no blocks. */
void
io_set_target(Row *row, const PgAioTargetData *target)
{
	PgAioHandle described = {.target = PGAIO_TID_SMGR,.target_data = *target};
	const RelFileLocator *file = &target->smgr.rlocator;
	bool		is_wal = target->smgr.forkNum == InvalidForkNumber;

	row_set(row, "length", Int64GetDatum((int64) target->smgr.nblocks * BLCKSZ));
	row_set_text(row, "target_desc", !is_wal ? pgaio_io_get_target_description(&described) :
				 file->spcOid == 0 ? "new segment of WAL" :
				 psprintf("file \"pg_wal/%08X%08X%08X\"", file->spcOid, file->dbOid, file->relNumber));
	row_set_file(row, !is_wal, file);
	row_set_text(row, "fork", is_wal ? NULL : forkNames[target->smgr.forkNum]);
	row_set_if(row, "blockno", !is_wal, Int64GetDatum(target->smgr.blockNum));
	row_set_if(row, "nblocks", !is_wal, Int32GetDatum(target->smgr.nblocks));
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

static bool
names_relation(const IoMatch *match, const RelFileLocator *rlocator)
{
	for (int i = 0; i < match->nrels; i++)
		if (RelFileLocatorEquals(match->rels[i], *rlocator))
			return true;
	return false;
}

/* Returns whether an I/O matches.  Allocates nothing. */
bool
io_matches(const IoMatch *match, PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;

	if (!(match->ops & IO_OP_BIT(ioh->op)))
		return false;
	if (match->nrels > 0)
	{
		if (ioh->op >= IO_OP_WAL_WRITE || !names_relation(match, &td->smgr.rlocator))
			return false;
		if (match->temp_owner != (td->smgr.is_temp ? ioh->owner_procno : INVALID_PROC_NUMBER))
			return false;
	}
	if (match->relfilenumber != InvalidRelFileNumber &&
		match->relfilenumber != td->smgr.rlocator.relNumber)
		return false;
	if (td->smgr.rlocator.relNumber < match->first_relfilenumber)
		return false;
	if (match->fork != InvalidForkNumber && match->fork != td->smgr.forkNum)
		return false;
	if (match->block != InvalidBlockNumber &&
		(match->block < td->smgr.blockNum ||
		 match->block >= td->smgr.blockNum + td->smgr.nblocks))
		return false;
	if (match->pid != 0 && match->pid != io_owner_pid(ioh))
		return false;
	if (match->leader_pid != 0 && match->leader_pid != leader_pid(ioh))
		return false;
	/* another process has looked when it began the I/O */
	if (match->backend_type != B_INVALID && ioh->owner_procno == MyProcNumber &&
		(match->backend_type != MyBackendType ||
		 (match->worker_type[0] != '\0' && strcmp(match->worker_type, MyBgworkerEntry->bgw_type) != 0)))
		return false;

	return true;
}

IoMatch
io_match_all(void)
{
	return (IoMatch)
	{
		.ops = IO_OP_BIT(PGAIO_OP_READV),.fork = InvalidForkNumber,.temp_owner = INVALID_PROC_NUMBER,
			.block = InvalidBlockNumber
	};
}

static void
add_relation(IoMatch *match, RelFileLocator rlocator)
{
	if (match->nrels == IO_MATCH_MAX_RELS)
		ereport(ERROR, errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("there are more than %d relations in the family", IO_MATCH_MAX_RELS));
	match->rels[match->nrels++] = rlocator;
}

/* Adds a relation if it has storage, its indexes and its TOAST table. */
static void
add_with_indexes(IoMatch *match, Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		add_relation(match, rel->rd_locator);
	foreach_oid(index, RelationGetIndexList(rel))
		add_with_indexes(match, index);
	if (OidIsValid(rel->rd_rel->reltoastrelid))
		add_with_indexes(match, rel->rd_rel->reltoastrelid);
	relation_close(rel, AccessShareLock);
}

/*
 * Reads a relation; with "family", with all that is stored with it, and its partitions and
 * theirs.  A partitioned table is shown by a locator that has its OID and no tablespace.
 */
IoMatch
io_match_rel_arg(FunctionCallInfo fcinfo, int arg, bool family)
{
	IoMatch		match = io_match_all();
	Oid			relid = PG_ARGISNULL(arg) ? InvalidOid : PG_GETARG_OID(arg);
	RelFileLocator locator = {.dbOid = MyDatabaseId,.relNumber = relid};
	bool		has_storage;

	if (PG_ARGISNULL(arg))
		return match;
	has_storage = !family || !RELKIND_HAS_PARTITIONS(get_rel_relkind(relid));
	if (has_storage)
	{
		Relation	rel = open_relation_for_io(fcinfo, relid, AccessShareLock);

		locator = rel->rd_locator;
		relation_close(rel, AccessShareLock);
	}
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		match.temp_owner = MyProcNumber;
	if (!family || !has_storage)
		add_relation(&match, locator);
	if (family)
	{
		/* holders of locks may wait for what this session has staged */
		pgaio_submit_staged();
		foreach_oid(member, find_all_inheritors(relid, NoLock, NULL))
			add_with_indexes(&match, member);
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

/* Has a type of processes match, as pg_stat_activity shows it. */
void
io_match_backend_type(const char *name, IoMatch *match)
{
	int			type = B_INVALID + 1;

	if (name[0] == '\0' || strlen(name) >= sizeof(match->worker_type))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("\"%s\" is no type of processes", name));
	while (type < BACKEND_NUM_TYPES && strcmp(GetBackendTypeDesc(type), name) != 0)
		type++;
	if (type == BACKEND_NUM_TYPES)
	{
		/* the postmaster's log has no notices */
		ereport(IsUnderPostmaster ? NOTICE : LOG, errmsg("\"%s\" is taken for a type of background workers", name));
		type = B_BG_WORKER;
		strlcpy(match->worker_type, name, sizeof(match->worker_type));
	}
	match->backend_type = type;
}

/* Puts a block number, read by the caller since its type differs, into the match. */
void
io_match_block_arg(FunctionCallInfo fcinfo, int arg, int64 blockno, IoMatch *match)
{
	if (PG_ARGISNULL(arg))
		return;

	check_range("blockno", blockno, 0, MaxBlockNumber);
	match->block = (BlockNumber) blockno;
}
