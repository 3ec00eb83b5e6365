/*-------------------------------------------------------------------------
 *
 * calls.c
 *		buffer_call_start_io() and buffer_call_terminate_io().
 *
 * src/claims/calls.c
 *
 *-------------------------------------------------------------------------
 */
#include "claims/claims.h"

#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/relfilenumbermap.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);

/* On a local buffer. */
typedef struct LocalClaim
{
	Buffer		buffer;			/* InvalidBuffer: free */
	BufferTag	tag;
	bool		for_input;
} LocalClaim;

static LocalClaim local_claims[MAX_CLAIMS];

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

pg_noreturn static void
raise_no_block(Buffer buffer)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("buffer %d holds no block", buffer),
			 errhint("Use a number returned by buffer_create_toy().")));
}

/*
 * Returns the weakest lock that keeps others from removing the file of a relation.
 * ALTER SEQUENCE does that under a lock that lets ACCESS SHARE in.
 */
static LOCKMODE
lock_mode_for(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_SEQUENCE ? RowExclusiveLock : AccessShareLock;
}

/*
 * Locks the relation whose block a shared buffer holds, and sets *mode to how.
 * Raises an error unless it is a relation of this database, not of the catalog, that
 * other transactions can see.
 */
static Relation
lock_relation_of(Buffer buffer, LOCKMODE *mode)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = LockBufHdr(desc);
	BufferTag	tag = desc->tag;
	RelFileLocator rlocator = BufTagGetRelFileLocator(&tag);
	Relation	rel = NULL;
	Oid			relid;

	buffer_header_unlock(desc, state, 0, 0, 0);
	if (!(state & BM_TAG_VALID))
		raise_no_block(buffer);

	relid = rlocator.dbOid == MyDatabaseId || rlocator.dbOid == InvalidOid ?
		RelidByRelfilenumber(rlocator.spcOid, rlocator.relNumber) : InvalidOid;
	if (OidIsValid(relid))
	{
		*mode = lock_mode_for(relid);
		rel = try_relation_open(relid, *mode);
	}
	/* its file may have been replaced before we had the lock */
	if (rel == NULL || !RelFileLocatorEquals(rel->rd_locator, rlocator))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d holds a block of file %u/%u/%u, which is not a relation of this database",
						buffer, rlocator.spcOid, rlocator.dbOid, rlocator.relNumber)));

	/* an exit reads catalogs, perhaps before the claims end */
	if (IsCatalogRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" is a system catalog",
						RelationGetRelationName(rel)),
				 errdetail("At its end this session would wait for the I/O itself.")));

	/* an abort removes the file, and cannot be refused */
	if (rel->rd_createSubid != InvalidSubTransactionId ||
		rel->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" has been created or rewritten in this transaction",
						RelationGetRelationName(rel)),
				 errhint("Commit before you start I/O on its buffers.")));

	return rel;
}

/*
 * Gives up a claim whose I/O has not been started.
 */
static void
drop_claim(SharedClaim *claim)
{
	if (claim->pinned)
		claims_unpin(claim->buffer);
	claims_free(claim);
	claims_release_locks();
}

/*
 * Calls the server's start step for a shared buffer that is kept in place.  Gives
 * the claim up unless the I/O is ours then; claims_end_at_exit() does so if we are
 * terminated meanwhile.
 */
static bool
start_io_of_claim(SharedClaim *claim, bool wait)
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
	ResourceOwnerForgetBufferIO(CurrentResourceOwner, claim->buffer);
	claim->started = true;
	if (!claim->for_input && claim_table->watcher != INVALID_PROC_NUMBER)
		SetLatch(&GetPGProcByNumber(claim_table->watcher)->procLatch);

	return true;
}

static bool
start_shared_io(Buffer buffer, bool for_input, bool wait)
{
	SharedClaim *claim;
	Relation	rel;
	LOCKMODE	mode;
	bool		is_ours;
	uint64		id;

	claims_watch_transactions();
	claims_attach();
	claims_end_with_session();

	SpinLockAcquire(&claim_table->lock);
	claim = claims_find_started(buffer);
	is_ours = claim != NULL && claim->pid == MyProcPid;
	SpinLockRelease(&claim_table->lock);
	if (is_ours && wait)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("I/O on buffer %d has already been started by this session",
						buffer),
				 errdetail("Waiting for it would never end.")));

	/* replay would wait for us */
	PreventCommandDuringRecovery("buffer_call_start_io()");

	rel = lock_relation_of(buffer, &mode);
	claims_release_locks();
	id = claims_next_id();
	claims_keep_locked(id, rel, mode);
	/* until the end of the transaction as well */
	relation_close(rel, NoLock);

	claim = claims_reserve(id, buffer, for_input);
	if (claim == NULL)
	{
		claims_release_locks();
		claims_raise_too_many();
	}
	claim->pinned = claims_pin(buffer);
	if (!claim->pinned)
	{
		drop_claim(claim);
		raise_no_block(buffer);
	}

	return start_io_of_claim(claim, wait);
}

/*
 * Returns this session's claim on a local buffer, if the buffer still holds the
 * same block.
 */
static LocalClaim *
find_local_claim(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);

	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		LocalClaim *claim = &local_claims[i];

		if (claim->buffer == buffer && BufferTagsEqual(&claim->tag, &desc->tag))
			return claim;
	}

	return NULL;
}

/*
 * Starts I/O on a local buffer.  The server does not keep a note of that: a second
 * call returns the same.
 */
static bool
start_local_io(Buffer buffer, bool for_input, bool wait)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	LocalClaim *claim = NULL;

	if (!(buffer_state_read(desc) & BM_TAG_VALID))
		raise_no_block(buffer);

	/* the place of this buffer's claim, or a free place */
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (local_claims[i].buffer == buffer ||
			(claim == NULL && local_claims[i].buffer == InvalidBuffer))
			claim = &local_claims[i];
		if (local_claims[i].buffer == buffer)
			break;
	}
	if (claim == NULL)
		claims_raise_too_many();

	if (wait)
		pgaio_submit_staged();
	if (!start_buffer_io(buffer, for_input, wait))
		return false;

	claim->buffer = buffer;
	claim->tag = desc->tag;
	claim->for_input = for_input;

	return true;
}

/*
 * buffer_call_start_io(buffer int, for_input bool, wait bool) returns bool
 *
 * Calls StartBufferIO().  Returns true if the caller owns the I/O now, until
 * buffer_call_terminate_io() or the end of the session.  Returns false if the
 * block is valid (or, for output, clean) already, or, without "wait", if another
 * session owns the I/O.  The relation of a shared buffer stays locked meanwhile
 * (ACCESS SHARE, a sequence ROW EXCLUSIVE).
 */
Datum
buffer_call_start_io(PG_FUNCTION_ARGS)
{
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		wait = PG_GETARG_BOOL(2);

	require_superuser(fcinfo);
	check_buffer_number(buffer);

	PG_RETURN_BOOL(BufferIsLocal(buffer) ?
				   start_local_io(buffer, for_input, wait) :
				   start_shared_io(buffer, for_input, wait));
}

pg_noreturn static void
raise_not_started(Buffer buffer)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("no I/O on buffer %d has been started", buffer),
			 errhint("Start it with buffer_call_start_io().")));
}

static void
check_direction(Buffer buffer, bool started_for_input, bool for_input)
{
	if (started_for_input != for_input)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("I/O on buffer %d has been started for %s",
						buffer, started_for_input ? "input" : "output")));
}

static void
terminate_shared_io(Buffer buffer, bool for_input, bool succeed, bool io_error,
					bool release_aio)
{
	SharedClaim ended = {0};
	SharedClaim *claim;

	claims_attach();

	/* once it is out of the table nobody else can end it */
	SpinLockAcquire(&claim_table->lock);
	claim = claims_find_started(buffer);
	if (claim != NULL)
	{
		ended = *claim;
		if (ended.for_input == for_input)
			claims_remove(claim);
	}
	SpinLockRelease(&claim_table->lock);

	if (ended.buffer == InvalidBuffer)
		raise_not_started(buffer);
	check_direction(buffer, ended.for_input, for_input);

	claims_end_io(&ended, succeed, io_error, release_aio);
	claims_release_locks();
}

static void
terminate_local_io(Buffer buffer, bool for_input, bool succeed, bool io_error,
				   bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	LocalClaim *claim = find_local_claim(buffer);

	if (claim == NULL)
		raise_not_started(buffer);

	/* its reference and its end are not ours */
	if (pgaio_wref_valid(&desc->io_wref))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("buffer %d is being read", buffer),
				 errdetail("This session has begun to read into it since the I/O was started.")));
	check_direction(buffer, claim->for_input, for_input);
	claim->buffer = InvalidBuffer;

	/* the reference that the server then gives back */
	if (release_aio)
		buffer_state_write_local(desc, buffer_state_read(desc) + BUF_REFCOUNT_ONE);
	TerminateLocalBufferIO(desc, succeed && !for_input,
						   claims_end_flags(for_input, succeed, io_error), release_aio);
}

/*
 * buffer_call_terminate_io(buffer int, for_input bool, succeed bool,
 *							io_error bool, release_aio bool)
 *
 * Calls TerminateBufferIO() for an I/O that buffer_call_start_io() has started,
 * in this session or, for a shared buffer, in any.  "succeed" makes the block
 * valid (for output: clean), "io_error" marks it as failed, "release_aio" leaves
 * it to the server to drop the AIO subsystem's reference.
 */
Datum
buffer_call_terminate_io(PG_FUNCTION_ARGS)
{
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		succeed = PG_GETARG_BOOL(2);
	bool		io_error = PG_GETARG_BOOL(3);
	bool		release_aio = PG_GETARG_BOOL(4);

	require_superuser(fcinfo);
	check_buffer_number(buffer);

	if (BufferIsLocal(buffer))
		terminate_local_io(buffer, for_input, succeed, io_error, release_aio);
	else
		terminate_shared_io(buffer, for_input, succeed, io_error, release_aio);

	PG_RETURN_VOID();
}
