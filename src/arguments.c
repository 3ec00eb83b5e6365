/*
 * Who may call a function, and the arguments that nearly every function takes: a
 * relation, and blocks of its main fork.
 *
 * The functions go beneath the checks that the server makes on its way down
 * to the storage, so everything is checked here, before anything is touched.
 */
#include "test_aio.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

/*
 * Raises an error unless the caller is a superuser.  EXECUTE is revoked from PUBLIC
 * as well, but a grant must not be enough: the functions can corrupt tables and stop
 * other sessions.  Nothing but the server's cache of the caller's privileges is read:
 * a read of a catalog may be held, perhaps by what the caller is about to end.
 */
void
require_superuser(FunctionCallInfo fcinfo)
{
	if (!superuser())
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be superuser to call function %s",
					   get_func_name(fcinfo->flinfo->fn_oid)));
}

/*
 * Raises an error unless the caller may see all statistics.  Functions that
 * show what the reads of all sessions do, and change nothing, follow the filter
 * of pg_aios: superusers and roles with the privileges of pg_read_all_stats.
 */
void
require_monitor(FunctionCallInfo fcinfo)
{
	if (!superuser() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied to call function %s",
					   get_func_name(fcinfo->flinfo->fn_oid)),
				errdetail("Only roles with privileges of the \"%s\" role may call this function.",
						  "pg_read_all_stats"));
}

/* Opens a relation, or raises an error if its blocks cannot be reached from here. */
Relation
open_relation_for_io(FunctionCallInfo fcinfo, Oid relid, LOCKMODE lockmode)
{
	Relation	rel;

	require_superuser(fcinfo);

	/* the holder of the lock may wait for what this session has staged */
	if (!ConditionalLockRelationOid(relid, lockmode))
	{
		pgaio_submit_staged();
		LockRelationOid(relid, lockmode);
	}
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		ereport(ERROR, errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation with OID %u does not exist", relid));

	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		ereport(ERROR, errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("relation \"%s\" has no storage",
					   RelationGetRelationName(rel)),
				errdetail_relkind_not_supported(rel->rd_rel->relkind));

	/* its buffers are in the memory of that other session */
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot access temporary tables of other sessions"));

	return rel;
}

void
check_not_null(const char *name, bool is_null)
{
	if (is_null)
		ereport(ERROR, errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("%s must not be null", name));
}

void
check_range(const char *name, int64 value, int64 least, int64 most)
{
	if (value < least || value > most)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("%s must be between " INT64_FORMAT " and " INT64_FORMAT,
					   name, least, most));
}

void
check_block_range(Relation rel, ForkNumber forknum, int64 startblock, int64 nblocks)
{
	BlockNumber available = smgrnblocks(RelationGetSmgr(rel), forknum);
	const char *name = RelationGetRelationName(rel);

	if (startblock >= 0 && startblock + nblocks <= available)
		return;

	ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("%s out of range for %s", nblocks == 1 ?
				   psprintf("block number " INT64_FORMAT " is", startblock) :
				   psprintf("block numbers " INT64_FORMAT ".." INT64_FORMAT " are",
							startblock, startblock + nblocks - 1),
				   forknum == MAIN_FORKNUM ? psprintf("relation \"%s\"", name) :
				   psprintf("fork \"%s\" of relation \"%s\"", forkNames[forknum], name)),
			errdetail("The %s has %u blocks.",
					  forknum == MAIN_FORKNUM ? "relation" : "fork", available));
}
