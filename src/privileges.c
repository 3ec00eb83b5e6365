/*
 * Who may call.
 */
#include "test_aio.h"

#include "catalog/pg_authid.h"
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
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to call function %s",
						get_func_name(fcinfo->flinfo->fn_oid))));
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
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to call function %s",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errdetail("Only roles with privileges of the \"%s\" role may call this function.",
						   "pg_read_all_stats")));
}
