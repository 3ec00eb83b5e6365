/*
 * Ends what outlives its session when the extension or the database is
 * dropped, since no SQL is left there to end it.
 */
#include "filters/filters.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"

static object_access_hook_type prev_object_access_hook;

/* the database that this transaction drops, or drops an extension in */
static Oid	database_without = InvalidOid;

static void
object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);

	if (access == OAT_DROP && classId == ExtensionRelationId)
		database_without = MyDatabaseId;
	else if (access == OAT_DROP && classId == DatabaseRelationId)
		database_without = objectId;
}

/*
 * XactCallback.  A savepoint may have brought the extension back, and another one
 * may have been dropped, so this looks again before the commit.  Nothing fails
 * after it.
 */
static void
transaction_ends(XactEvent event, void *arg pg_attribute_unused())
{
	if (!OidIsValid(database_without))
		return;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (database_without == MyDatabaseId &&
				OidIsValid(get_extension_oid("test_aio", true)))
				database_without = InvalidOid;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			filters_end_kept(database_without);
			database_without = InvalidOid;
			break;
		case XACT_EVENT_ABORT:
			database_without = InvalidOid;
			break;
		default:
			break;
	}
}

/*
 * Returns the holder of a filter or device, by the argument "keep": this session, or 0
 * for one that outlives it.  Then the extension is locked until the end of the
 * transaction, so that whoever drops it sees what is kept.
 */
int
filters_holder_arg(FunctionCallInfo fcinfo, int arg)
{
	Oid			extension;

	if (PG_ARGISNULL(arg) || !PG_GETARG_BOOL(arg))
		return MyProcPid;
	/* replay drops extensions and databases without a word */
	PreventCommandDuringRecovery("keep => true");

	extension = get_extension_oid("test_aio", false);
	if (!ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock))
	{
		before_lock_wait("the extension");
		LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
	}
	if (get_extension_oid("test_aio", true) != extension)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"%s\" does not exist", "test_aio")));

	return 0;
}

void
kept_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_access;
	RegisterXactCallback(transaction_ends, NULL);
}
