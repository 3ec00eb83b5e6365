/*-------------------------------------------------------------------------
 *
 * claims.c
 *		Starting and ending a buffer's I/O from SQL.
 *
 * Between the two calls lie other statements, other sessions and perhaps the
 * end of this one.  The server's bookkeeping is per resource owner and cannot
 * stretch so far, hence a table of our own.  A claim keeps the buffer in place
 * the way the AIO subsystem does, by a reference that belongs to no backend,
 * and ends at the latest with the session that has made it.
 *
 * src/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/spin.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);

#define MAX_CLAIMS 256

typedef struct BufferClaim
{
	Buffer		buffer;			/* InvalidBuffer: free; negative: local */
	int			pid;			/* who has started the I/O */
	bool		for_input;
	bool		started;		/* false while start_buffer_io() may wait */
} BufferClaim;

typedef struct ClaimTable
{
	slock_t		lock;
	BufferClaim claims[MAX_CLAIMS];
} ClaimTable;

static ClaimTable *claim_table;

DSM_SEGMENT_INIT(init_claim_table)
{
	ClaimTable *table = (ClaimTable *) ptr;

	memset(table, 0, sizeof(ClaimTable));
	SpinLockInit(&table->lock);
}

static void end_claims_at_exit(int code, Datum arg);

/*
 * Attaches to the table of claims, which the first caller in the server makes.
 */
static void
attach_claim_table(void)
{
	bool		found;

	if (claim_table != NULL)
		return;

	claim_table = get_named_dsm_segment("test_aio claims", sizeof(ClaimTable),
										init_claim_table, &found);
	before_shmem_exit(end_claims_at_exit, 0);
}

/*
 * The I/O that has been started on this buffer, or NULL.  Local buffers of
 * different sessions have the same numbers.  The caller holds the table's lock.
 */
static BufferClaim *
find_started_claim(Buffer buffer)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		BufferClaim *claim = &claim_table->claims[i];

		if (claim->buffer == buffer && claim->started &&
			(!BufferIsLocal(buffer) || claim->pid == MyProcPid))
			return claim;
	}

	return NULL;
}

/*
 * Has SQL claimed the I/O on this buffer?
 */
bool
buffer_is_claimed(Buffer buffer)
{
	bool		claimed;

	attach_claim_table();

	SpinLockAcquire(&claim_table->lock);
	claimed = find_started_claim(buffer) != NULL;
	SpinLockRelease(&claim_table->lock);

	return claimed;
}

/*
 * Keeps a buffer from being given to another block.  False if it holds none.
 */
static bool
pin_for_claim(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state;
	bool		has_block;

	if (BufferIsLocal(buffer))
	{
		state = buffer_state_read(desc);
		has_block = (state & BM_TAG_VALID) != 0;
		if (has_block)
			buffer_state_write_local(desc, state + BUF_REFCOUNT_ONE);
	}
	else
	{
		state = LockBufHdr(desc);
		has_block = (state & BM_TAG_VALID) != 0;
		buffer_header_unlock(desc, state, 0, 0, has_block ? 1 : 0);
	}

	return has_block;
}

static void
unpin_for_claim(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);

	if (BufferIsLocal(buffer))
		buffer_state_write_local(desc, buffer_state_read(desc) - BUF_REFCOUNT_ONE);
	else
	{
		BufferState state = LockBufHdr(desc);
		ProcNumber	waiter = INVALID_PROC_NUMBER;

		/* somebody may wait in LockBufferForCleanup() for us to go */
		if ((state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 2)
			waiter = desc->wait_backend_pgprocno;
		buffer_header_unlock(desc, state, 0,
							 waiter == INVALID_PROC_NUMBER ? 0 : BM_PIN_COUNT_WAITER,
							 -1);
		if (waiter != INVALID_PROC_NUMBER)
			ProcSendSignal(waiter);
	}
}

/*
 * Ends the I/O of a claim that has been taken out of the table.
 */
static void
end_buffer_io(const BufferClaim *claim, bool succeed, bool io_error, bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(claim->buffer);
	bool		clear_dirty = succeed && !claim->for_input;
	BufferState set_flags = 0;

	if (succeed && claim->for_input)
		set_flags |= BM_VALID;
	if (io_error)
		set_flags |= BM_IO_ERROR;

	/*
	 * With release_aio the server gives back the reference that the AIO
	 * subsystem would hold, which is ours.
	 */
	if (BufferIsLocal(claim->buffer))
		TerminateLocalBufferIO(desc, clear_dirty, set_flags, release_aio);
	else
		TerminateBufferIO(desc, clear_dirty, set_flags, false, release_aio);

	if (!release_aio)
		unpin_for_claim(claim->buffer);
}

/*
 * before_shmem_exit callback: nobody will end what this session has started.
 */
static void
end_claims_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		BufferClaim claim;

		SpinLockAcquire(&claim_table->lock);
		claim = claim_table->claims[i];
		if (claim.buffer != InvalidBuffer && claim.pid == MyProcPid)
			claim_table->claims[i].buffer = InvalidBuffer;
		SpinLockRelease(&claim_table->lock);

		if (claim.buffer != InvalidBuffer && claim.pid == MyProcPid && claim.started)
			end_buffer_io(&claim, false, true, true);
	}
}

/*
 * Enters a claim into the table before the I/O is started, so that there is a
 * place for it.  NULL when the table is full.
 */
static BufferClaim *
reserve_claim(Buffer buffer, bool for_input)
{
	BufferClaim *claim = NULL;

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS && claim == NULL; i++)
	{
		if (claim_table->claims[i].buffer == InvalidBuffer)
		{
			claim = &claim_table->claims[i];
			claim->buffer = buffer;
			claim->pid = MyProcPid;
			claim->for_input = for_input;
			claim->started = false;
		}
	}
	SpinLockRelease(&claim_table->lock);

	return claim;
}

static void
free_claim(BufferClaim *claim)
{
	SpinLockAcquire(&claim_table->lock);
	claim->buffer = InvalidBuffer;
	SpinLockRelease(&claim_table->lock);
}

static void
check_buffer_number(Buffer buffer)
{
	if (buffer == InvalidBuffer || buffer > NBuffers || buffer < -NLocBuffer)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("buffer number %d is out of range", buffer),
				 errdetail("Shared buffers have the numbers 1 to %d; this session has %d local buffers, with negative numbers.",
						   NBuffers, NLocBuffer)));
}

/*
 * Gives up a claim whose I/O has not been started.
 */
static void
drop_claim(BufferClaim *claim)
{
	unpin_for_claim(claim->buffer);
	free_claim(claim);
}

/*
 * Calls the server's start step for a buffer that is kept in place, and gives
 * the place up again unless that makes the I/O ours.
 */
static bool
start_io_of_claim(BufferClaim *claim, bool wait)
{
	bool		started;

	PG_TRY();
	{
		/* others may wait for what we have staged while we wait for them */
		if (wait)
			pgaio_submit_staged();

		started = start_buffer_io(claim->buffer, claim->for_input, wait);
	}
	PG_CATCH();
	{
		drop_claim(claim);
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (!started)
	{
		drop_claim(claim);
		return false;
	}

	/* it is to outlive the statement */
	if (!BufferIsLocal(claim->buffer))
		ResourceOwnerForgetBufferIO(CurrentResourceOwner, claim->buffer);
	claim->started = true;

	return true;
}

/*
 * buffer_call_start_io(buffer int, for_input bool, wait bool) returns bool
 *
 * StartBufferIO().  True: the caller owns the I/O now, until
 * buffer_call_terminate_io() or the end of the session.  False: the block is
 * valid (or, for output, clean) already, or, without "wait", somebody else has
 * the I/O.
 */
Datum
buffer_call_start_io(PG_FUNCTION_ARGS)
{
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		wait = PG_GETARG_BOOL(2);
	bool		is_ours;
	BufferClaim *claim;

	require_superuser(fcinfo);
	check_buffer_number(buffer);
	attach_claim_table();

	SpinLockAcquire(&claim_table->lock);
	claim = find_started_claim(buffer);
	is_ours = claim != NULL && claim->pid == MyProcPid;
	SpinLockRelease(&claim_table->lock);

	/* the server does not track I/O on local buffers, so that is up to us */
	if (is_ours && !wait)
		PG_RETURN_BOOL(false);
	if (is_ours)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("I/O on buffer %d has already been started by this session",
						buffer),
				 errdetail("Waiting for it would never end.")));

	claim = reserve_claim(buffer, for_input);
	if (claim == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many buffer I/Os started"),
				 errdetail("At most %d can be in progress.", MAX_CLAIMS)));

	if (!pin_for_claim(buffer))
	{
		free_claim(claim);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d holds no block", buffer),
				 errhint("Use a number returned by buffer_create_toy().")));
	}

	PG_RETURN_BOOL(start_io_of_claim(claim, wait));
}

/*
 * buffer_call_terminate_io(buffer int, for_input bool, succeed bool,
 *							io_error bool, release_aio bool)
 *
 * TerminateBufferIO() for an I/O that buffer_call_start_io() has started, in
 * this session or, for a shared buffer, in any.  "succeed" makes the block
 * valid (for output: clean), "io_error" marks it as failed, "release_aio"
 * leaves it to the server to drop the AIO subsystem's reference.
 */
Datum
buffer_call_terminate_io(PG_FUNCTION_ARGS)
{
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		succeed = PG_GETARG_BOOL(2);
	bool		io_error = PG_GETARG_BOOL(3);
	bool		release_aio = PG_GETARG_BOOL(4);
	BufferClaim ended = {0};
	BufferClaim *claim;

	require_superuser(fcinfo);
	check_buffer_number(buffer);
	attach_claim_table();

	/* once it is out of the table nobody else can end it */
	SpinLockAcquire(&claim_table->lock);
	claim = find_started_claim(buffer);
	if (claim != NULL)
	{
		ended = *claim;
		if (ended.for_input == for_input)
			claim->buffer = InvalidBuffer;
	}
	SpinLockRelease(&claim_table->lock);

	if (ended.buffer == InvalidBuffer)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no I/O on buffer %d has been started", buffer),
				 errhint("Start it with buffer_call_start_io().")));
	if (ended.for_input != for_input)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("I/O on buffer %d has been started for %s",
						buffer, ended.for_input ? "input" : "output")));

	end_buffer_io(&ended, succeed, io_error, release_aio);

	PG_RETURN_VOID();
}
