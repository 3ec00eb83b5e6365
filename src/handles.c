/*
 * Thin calls of the server's functions for AIO handles and batch mode.
 *
 * They exist to show what the server itself does about their misuse, so they
 * only prevent what it has nothing but an assertion against.
 */
#include "test_aio.h"

#include "executor/executor.h"
#include "replication/walsender.h"
#include "tcop/utility.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(handle_get);
PG_FUNCTION_INFO_V1(handle_release_last);
PG_FUNCTION_INFO_V1(handle_get_and_error);
PG_FUNCTION_INFO_V1(handle_get_twice);
PG_FUNCTION_INFO_V1(handle_get_release);
PG_FUNCTION_INFO_V1(batch_start);
PG_FUNCTION_INFO_V1(batch_end);

/* What handle_get() got last.  Handles are reused: the generation tells. */
static PgAioHandle *last_handle;
static uint64 last_generation;

static ExecutorStart_hook_type prev_executor_start;
static ExecutorRun_hook_type prev_executor_run;
static ProcessUtility_hook_type prev_process_utility;

/* Is a query that reads tables being run, perhaps by way of others? */
static bool in_table_query = false;

/*
 * Leaves batch mode, if the session is in it, before something is waited for
 * that the waiting itself may stage: nobody would submit that.
 */
bool
suspend_batch(void)
{
	bool		was_open = pgaio_my_backend != NULL && pgaio_my_backend->in_batchmode;

	if (was_open)
		pgaio_exit_batchmode();

	return was_open;
}

/*
 * Enters batch mode again if it has been left by suspend_batch().  After an
 * error it stays left, as the server would have it.
 */
void
resume_batch(bool was_open)
{
	if (was_open)
		pgaio_enter_batchmode();
}

/*
 * Enters batch mode, unless that would be within a query that reads tables: such
 * a query may wait for a page whose owner waits for what is staged.
 */
void
enter_batch(void)
{
	if (in_table_query)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot start a batch in a query that reads tables")));
	pgaio_enter_batchmode();
}

static bool
reads_tables(const PlannedStmt *plan)
{
	foreach_node(RangeTblEntry, entry, plan->rtable)
	{
		if (entry->rtekind == RTE_RELATION)
			return true;
	}
	return false;
}

/* ExecutorStart_hook: a query that reads tables is outside of batch mode; catalogs are read here */
static void
start_outside_batch(QueryDesc *queryDesc, int eflags)
{
	bool		batch_was_open = reads_tables(queryDesc->plannedstmt) && suspend_batch();

	(prev_executor_start ? prev_executor_start : standard_ExecutorStart) (queryDesc, eflags);
	resume_batch(batch_was_open);
}

static void
run_table_query(QueryDesc *queryDesc, ScanDirection direction, uint64 count)
{
	const bool	was_in_table_query = in_table_query;

	in_table_query = true;
	PG_TRY();
	{
		(prev_executor_run ? prev_executor_run : standard_ExecutorRun) (queryDesc, direction, count);
	}
	PG_FINALLY();
	{
		in_table_query = was_in_table_query;
	}
	PG_END_TRY();
}

/* ExecutorRun_hook */
static void
run_outside_batch(QueryDesc *queryDesc, ScanDirection direction, uint64 count)
{
	if (reads_tables(queryDesc->plannedstmt))
	{
		bool		batch_was_open = suspend_batch();

		run_table_query(queryDesc, direction, count);
		resume_batch(batch_was_open);
	}
	else
		(prev_executor_run ? prev_executor_run : standard_ExecutorRun) (queryDesc, direction, count);
}

/* ProcessUtility_hook: and so is a command that may read or write them */
static void
process_utility_outside_batch(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
							  ProcessUtilityContext context, ParamListInfo params,
							  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	bool		batch_was_open = !leaves_buffers_alone(pstmt->utilityStmt) && suspend_batch();

	(prev_process_utility ? prev_process_utility : standard_ProcessUtility)
		(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	resume_batch(batch_was_open);
}

void
handles_init(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = start_outside_batch;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = run_outside_batch;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility_outside_batch;
}

static PgAioHandle *
acquire_handle(void)
{
	return pgaio_io_acquire(CurrentResourceOwner, NULL);
}

/*
 * handle_get()
 *
 * Acquires a handle (pgaio_io_acquire), and remembers it for
 * handle_release_last().  The server releases the handle with a warning at
 * the end of the statement.
 */
Datum
handle_get(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	last_handle = acquire_handle();
	last_generation = last_handle->generation;

	PG_RETURN_VOID();
}

/*
 * handle_release_last()
 *
 * Releases the handle that handle_get() acquired last in this session
 * (pgaio_io_release).
 */
Datum
handle_release_last(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	if (last_handle == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no handle"),
				 errhint("Call handle_get() first.")));

	/*
	 * The server compares pointers only.  If the same handle has been handed
	 * out again since, it would release what belongs to someone else, so give
	 * the server's answer in its place.
	 */
	if (last_handle->generation != last_generation)
		elog(ERROR, "release in unexpected state");

	pgaio_io_release(last_handle);
	last_handle = NULL;

	PG_RETURN_VOID();
}

/*
 * handle_get_and_error()
 *
 * Raises an error while it holds a handle.
 */
Datum
handle_get_and_error(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	(void) acquire_handle();
	elog(ERROR, "as you command");
}

/*
 * handle_get_twice()
 *
 * Acquires a second handle while the first is neither used nor released, which
 * the server refuses.
 */
Datum
handle_get_twice(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	(void) acquire_handle();
	(void) acquire_handle();

	PG_RETURN_VOID();
}

/*
 * handle_get_release()
 *
 * Acquires a handle and releases it unused.
 */
Datum
handle_get_release(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	pgaio_io_release(acquire_handle());

	PG_RETURN_VOID();
}

/*
 * batch_start()
 *
 * Enters batch mode (pgaio_enter_batchmode).  If a batch is open at the end
 * of the (sub-)transaction, the server warns and submits what is staged.  A
 * query that reads tables submits it, too, and leaves batch mode for its duration.
 */
Datum
batch_start(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);
	/* a fast shutdown ends them last, and others may wait for what is staged */
	if (am_walsender)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("batch_start() cannot be called in a replication connection")));

	enter_batch();

	PG_RETURN_VOID();
}

/*
 * batch_end()
 *
 * Leaves batch mode and submits what is staged (pgaio_exit_batchmode).
 */
Datum
batch_end(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);

	/* the server has but an assertion */
	if (!pgaio_my_backend->in_batchmode)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no batch in progress"),
				 errhint("Call batch_start() first, in the same transaction.")));

	pgaio_exit_batchmode();

	PG_RETURN_VOID();
}
