/*
 * Thin calls of the server's functions for AIO handles and batch mode.
 *
 * They exist to show what the server itself does about their misuse, so they
 * only prevent what it has nothing but an assertion against.
 */
#include "test_aio.h"

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

static PgAioHandle *
acquire_handle(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);
	return pgaio_io_acquire(CurrentResourceOwner, NULL);
}

/*
 * Acquires a handle (pgaio_io_acquire), and remembers it for handle_release_last().
 * The server releases the handle with a warning at the end of the statement.
 */
Datum
handle_get(PG_FUNCTION_ARGS)
{
	last_handle = acquire_handle(fcinfo);
	last_generation = last_handle->generation;
	PG_RETURN_VOID();
}

/* Releases the handle that handle_get() acquired last in this session (pgaio_io_release). */
Datum
handle_release_last(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);
	if (last_handle == NULL)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("no handle"),
				errhint("Call handle_get() first."));

	/*
	 * The server compares pointers only.  If the handle has been handed out
	 * again since, it would release another's, so give its answer here.
	 */
	if (last_handle->generation != last_generation)
		elog(ERROR, "release in unexpected state");

	pgaio_io_release(last_handle);
	last_handle = NULL;

	PG_RETURN_VOID();
}

Datum
handle_get_and_error(PG_FUNCTION_ARGS)
{
	(void) acquire_handle(fcinfo);
	elog(ERROR, "as you command");
}

Datum
handle_get_twice(PG_FUNCTION_ARGS)
{
	(void) acquire_handle(fcinfo);
	(void) acquire_handle(fcinfo);
	PG_RETURN_VOID();
}

Datum
handle_get_release(PG_FUNCTION_ARGS)
{
	pgaio_io_release(acquire_handle(fcinfo));
	PG_RETURN_VOID();
}

/*
 * Enters batch mode (pgaio_enter_batchmode).  If a batch is open at the end
 * of the (sub-)transaction, the server warns and submits what is staged.
 */
Datum
batch_start(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);
	pgaio_enter_batchmode();
	PG_RETURN_VOID();
}

Datum
batch_end(PG_FUNCTION_ARGS)
{
	require_superuser(fcinfo);
	/* the server has but an assertion */
	if (!pgaio_my_backend->in_batchmode)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("no batch in progress"),
				errhint("Call batch_start() first, in the same transaction."));

	pgaio_exit_batchmode();

	PG_RETURN_VOID();
}

/*
 * Leaves batch mode, if the session is in it, for a function that waits for its own
 * reads: the server PANICs if a process waits for what it has only staged.  Returns
 * whether the session was in batch mode.
 */
bool
leave_batch(void)
{
	bool		was_open = pgaio_my_backend->in_batchmode;

	if (was_open)
		pgaio_exit_batchmode();
	return was_open;
}

/*
 * Enters batch mode again if it was left by leave_batch().  After an error it stays left,
 * as the server would have it.
 */
void
enter_batch_again(bool was_open)
{
	if (was_open)
		pgaio_enter_batchmode();
}
