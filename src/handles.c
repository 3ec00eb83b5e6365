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

/*
 * Stages one read of consecutive blocks into pinned buffers with I/O started, which
 * then belong to the AIO subsystem.  What completes the read, perhaps in another
 * process, learns of this session's settings by the callback's flags.
 */
void
stage_read(PgAioHandle *ioh, Relation rel, BlockNumber first, const Buffer *buffers,
		   int nblocks, bool zero_on_error, PgAioWaitRef *iow)
{
	bool		is_temp = RelationUsesLocalBuffers(rel);
	uint8		flags = (zero_on_error || zero_damaged_pages ? READ_BUFFERS_ZERO_ON_ERROR : 0) |
		(ignore_checksum_failure ? READ_BUFFERS_IGNORE_CHECKSUM_FAILURES : 0);
	uint32		numbers[MAX_IO_COMBINE_LIMIT];
	void	   *pages[MAX_IO_COMBINE_LIMIT];

	pgaio_io_get_wref(ioh, iow);
	if (is_temp)
		pgaio_io_set_flag(ioh, PGAIO_HF_REFERENCES_LOCAL);
	pgaio_io_register_callbacks(ioh, is_temp ? PGAIO_HCB_LOCAL_BUFFER_READV :
								PGAIO_HCB_SHARED_BUFFER_READV, flags);

	for (int i = 0; i < nblocks; i++)
	{
		numbers[i] = (uint32) buffers[i];
		pages[i] = BufferGetBlock(buffers[i]);
	}
	pgaio_io_set_handle_data_32(ioh, numbers, nblocks);
	smgrstartreadv(ioh, RelationGetSmgr(rel), MAIN_FORKNUM, first, pages, nblocks);
}
