/*-------------------------------------------------------------------------
 *
 * claims.c
 *		Starting and ending a buffer's I/O from SQL.
 *
 * Between the two calls lie other statements, other sessions and perhaps the
 * end of this one.  The server's bookkeeping is per resource owner and cannot
 * stretch so far, hence a table of our own: a claim is an I/O that SQL has
 * started and not yet ended.  It ends at the latest with its session.
 *
 * A claim on a shared buffer keeps the buffer in place as the AIO subsystem does,
 * by a reference that belongs to no backend.  A session that drops the relation
 * would wait for the claim without end, and could not be interrupted.  So the
 * session that claims locks the relation.  No other session can drop, truncate or
 * rewrite it, and the session itself cannot commit such a change.
 *
 * A claim for output keeps everybody waiting who writes the block, and that cannot
 * be interrupted either: a checkpoint, and the session itself.  So the gate's
 * worker, where there is one, ends such a claim after "test_aio.longest_hold", and
 * when the server shuts down.
 *
 * Local buffers have no I/O in progress that the server knows of.  A claim on one
 * is but a note, and void when the buffer holds another block.
 *
 * src/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "access/xact.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "rules/rules.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/spin.h"
#include "tcop/utility.h"
#include "utils/relfilenumbermap.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);

#define MAX_CLAIMS 256

/* On a shared buffer; in shared memory. */
typedef struct SharedClaim
{
	Buffer		buffer;			/* InvalidBuffer: free */
	int			pid;			/* whose claim this is */
	uint64		id;
	bool		for_input;
	bool		pinned;
	bool		started;		/* false while start_buffer_io() may wait */
	IoTime		limit;			/* for output: when it is ended regardless */
} SharedClaim;

typedef struct ClaimTable
{
	slock_t		lock;
	uint64		last_id;
	int			noutput;		/* claims for output; read without lock */
	ProcNumber	watcher;		/* ends them in time */
	SharedClaim claims[MAX_CLAIMS];
} ClaimTable;

static ClaimTable *claim_table;

/*
 * A lock on a relation that this session keeps for a claim of its own.  Another
 * session may end the claim; the lock is then given back when this session ends
 * a transaction.  An abort takes even the locks of a session away, so the lock is
 * taken again then.
 */
typedef struct ClaimLock
{
	uint64		id;				/* of the claim; 0: free */
	LockRelId	relation;
	RelFileLocator rlocator;
} ClaimLock;

static ClaimLock claim_locks[MAX_CLAIMS];
static int	nclaim_locks;

/* an abort is under way that takes the locks away */
static bool locks_are_lost;

/* On a local buffer. */
typedef struct LocalClaim
{
	Buffer		buffer;			/* InvalidBuffer: free */
	BufferTag	tag;
	bool		for_input;
} LocalClaim;

static LocalClaim local_claims[MAX_CLAIMS];

DSM_SEGMENT_INIT(init_claim_table)
{
	ClaimTable *table = (ClaimTable *) ptr;

	memset(table, 0, sizeof(ClaimTable));
	SpinLockInit(&table->lock);
	table->watcher = INVALID_PROC_NUMBER;
}

static void claims_end_at_exit(int code, Datum arg);
static void claims_at_transaction_end(XactEvent event, void *arg);
static void claims_at_resource_release(ResourceReleasePhase phase, bool is_commit,
									   bool is_top_level, void *arg);

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
	before_shmem_exit(claims_end_at_exit, 0);
	RegisterXactCallback(claims_at_transaction_end, NULL);
	RegisterResourceReleaseCallback(claims_at_resource_release, NULL);
}

/*
 * Returns the I/O that has been started on this shared buffer, or NULL.  The
 * caller holds the table's lock.
 */
static SharedClaim *
find_started_claim(Buffer buffer)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		SharedClaim *claim = &claim_table->claims[i];

		if (claim->buffer == buffer && claim->started)
			return claim;
	}

	return NULL;
}

/*
 * Takes a claim out of the table.  The caller holds the table's lock.
 */
static void
remove_claim(SharedClaim *claim)
{
	claim->buffer = InvalidBuffer;
	if (!claim->for_input)
		claim_table->noutput--;
}

/*
 * Returns whether SQL has claimed the I/O on this shared buffer.
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
 * Keeps a shared buffer from being given to another block.  Returns false, and
 * does nothing, if it holds none.
 */
static bool
pin_for_claim(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferState state = LockBufHdr(desc);
	bool		has_block = (state & BM_TAG_VALID) != 0;

	buffer_header_unlock(desc, state, 0, 0, has_block ? 1 : 0);

	return has_block;
}

static void
unpin_for_claim(Buffer buffer)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
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

static BufferState
flags_of_end(bool for_input, bool succeed, bool io_error)
{
	return (succeed && for_input ? BM_VALID : 0) | (io_error ? BM_IO_ERROR : 0);
}

/*
 * Ends the I/O of a claim that has been taken out of the table.
 */
static void
end_shared_io(const SharedClaim *claim, bool succeed, bool io_error, bool release_aio)
{
	TerminateBufferIO(get_buffer_descriptor(claim->buffer), succeed && !claim->for_input,
					  flags_of_end(claim->for_input, succeed, io_error), false, release_aio);

	/* release_aio gives back the AIO subsystem's reference, which is ours */
	if (!release_aio)
		unpin_for_claim(claim->buffer);
}

/*
 * before_shmem_exit callback: nobody will end what this session has started, nor
 * what it was about to start when it was terminated.
 */
static void
claims_end_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		SharedClaim claim;

		SpinLockAcquire(&claim_table->lock);
		claim = claim_table->claims[i];
		if (claim.buffer != InvalidBuffer && claim.pid == MyProcPid)
			remove_claim(&claim_table->claims[i]);
		SpinLockRelease(&claim_table->lock);

		if (claim.buffer == InvalidBuffer || claim.pid != MyProcPid)
			continue;
		if (claim.started)
			end_shared_io(&claim, false, true, true);
		else if (claim.pinned)
			unpin_for_claim(claim.buffer);
	}

	/* the server does not release locks of a session outside a transaction */
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (claim_locks[i].id != 0)
			UnlockRelationIdForSession(&claim_locks[i].relation, AccessShareLock);
		claim_locks[i].id = 0;
	}
	nclaim_locks = 0;
}

static uint64
next_claim_id(void)
{
	uint64		id;

	SpinLockAcquire(&claim_table->lock);
	id = ++claim_table->last_id;
	SpinLockRelease(&claim_table->lock);

	return id;
}

/*
 * Enters a claim into the table before the I/O is started, so that there is a
 * place for it.  Returns NULL when the table is full.
 */
static SharedClaim *
reserve_claim(uint64 id, Buffer buffer, bool for_input)
{
	SharedClaim *claim = NULL;

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS && claim == NULL; i++)
	{
		if (claim_table->claims[i].buffer == InvalidBuffer)
		{
			claim = &claim_table->claims[i];
			*claim = (SharedClaim) {
				.buffer = buffer,.pid = MyProcPid,.id = id,.for_input = for_input,
				.limit = io_now() + rules_longest_hold()
			};
			if (!for_input)
				claim_table->noutput++;
		}
	}
	SpinLockRelease(&claim_table->lock);

	return claim;
}

static void
free_claim(SharedClaim *claim)
{
	SpinLockAcquire(&claim_table->lock);
	remove_claim(claim);
	SpinLockRelease(&claim_table->lock);
}

static bool
claim_exists(uint64 id)
{
	bool		exists = false;

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS && !exists; i++)
		exists = claim_table->claims[i].buffer != InvalidBuffer &&
			claim_table->claims[i].id == id;
	SpinLockRelease(&claim_table->lock);

	return exists;
}

pg_noreturn static void
raise_too_many(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many buffer I/Os started"),
			 errdetail("At most %d can be in progress: in the server for shared buffers, in a session for local ones.",
					   MAX_CLAIMS)));
}

/*
 * Keeps the relation of a claim locked for as long as this session.  The caller
 * has it locked in its transaction, so this does not wait.
 */
static void
keep_relation_locked(uint64 id, Relation rel)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];

		if (lock->id != 0)
			continue;
		lock->relation = rel->rd_lockInfo.lockRelId;
		lock->rlocator = rel->rd_locator;
		LockRelationIdForSession(&lock->relation, AccessShareLock);
		lock->id = id;
		nclaim_locks++;
		return;
	}
	raise_too_many();
}

/*
 * Gives back the locks of claims that have ended.
 */
static void
release_locks(void)
{
	for (int i = 0; nclaim_locks > 0 && i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];

		if (lock->id == 0 || claim_exists(lock->id))
			continue;
		lock->id = 0;
		nclaim_locks--;
		UnlockRelationIdForSession(&lock->relation, AccessShareLock);
	}
}

/*
 * Raises an error if this transaction is about to remove a file of which this
 * session has claimed a buffer: it would wait for itself.
 */
static void
check_removed_files(void)
{
	RelFileLocator *removed;
	int			nremoved = smgrGetPendingDeletes(true, &removed);

	for (int i = 0; i < nremoved; i++)
	{
		for (int j = 0; j < MAX_CLAIMS; j++)
		{
			if (claim_locks[j].id != 0 &&
				RelFileLocatorEquals(claim_locks[j].rlocator, removed[i]))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("cannot commit: this session has started I/O on a buffer of relation file %u/%u/%u, which this transaction removes",
								removed[i].spcOid, removed[i].dbOid, removed[i].relNumber),
						 errhint("End the I/O with buffer_call_terminate_io() first.")));
		}
	}
	if (nremoved > 0)
		pfree(removed);
}

/*
 * Ends a claim of this session as failed, if it has not been ended.
 */
static void
end_claim(uint64 id)
{
	SharedClaim claim = {0};

	SpinLockAcquire(&claim_table->lock);
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (claim_table->claims[i].buffer != InvalidBuffer &&
			claim_table->claims[i].id == id && claim_table->claims[i].started)
		{
			claim = claim_table->claims[i];
			remove_claim(&claim_table->claims[i]);
		}
	}
	SpinLockRelease(&claim_table->lock);

	if (claim.buffer == InvalidBuffer)
		return;
	end_shared_io(&claim, false, true, true);
	ereport(WARNING,
			(errmsg("I/O on buffer %d, started by this session, has been ended as failed",
					claim.buffer),
			 errdetail("The transaction was aborted, and another session wants to lock the relation.")));
}

/*
 * Returns in how many modes this session holds a lock.
 */
static int
held_modes(const LOCKTAG *tag)
{
	int			held = 0;

	for (LOCKMODE mode = AccessShareLock; mode <= MaxLockMode; mode++)
		held += LockHeldByMe(tag, mode, false);

	return held;
}

/*
 * Ends the claims of this session on relations for whose lock another session waits.
 * That session may drop the relation and wait for the claim, all before an abort has
 * taken the lock again.
 */
static void
end_wanted_claims(void)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];
		LOCKTAG		tag;

		if (lock->id == 0)
			continue;

		/*
		 * Our own requests count as well.  They are all in the shared lock table
		 * as soon as another session wants a lock that conflicts with them.
		 */
		SET_LOCKTAG_RELATION(tag, lock->relation.dbId, lock->relation.relId);
		if (LockWaiterCount(&tag) <= held_modes(&tag))
			continue;
		end_claim(lock->id);
		lock->id = 0;
		nclaim_locks--;
	}
}

/* XactCallback */
static void
claims_at_transaction_end(XactEvent event, void *arg pg_attribute_unused())
{
	if (nclaim_locks == 0)
		return;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			release_locks();
			check_removed_files();
			break;
		case XACT_EVENT_PRE_PREPARE:
			/* the server would forget the locks, and never give them back */
			release_locks();
			if (nclaim_locks > 0)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("cannot PREPARE while this session has started I/O on a buffer"),
						 errhint("End the I/O with buffer_call_terminate_io() first.")));
			break;
		case XACT_EVENT_ABORT:
			release_locks();
			end_wanted_claims();
			locks_are_lost = true;
			break;
		default:
			break;
	}
}

/*
 * ResourceReleaseCallback: takes the locks again that an abort has taken away.  If
 * another session has been waiting for one, to drop the relation for example, the
 * claim ends instead.
 */
static void
claims_at_resource_release(ResourceReleasePhase phase, bool is_commit,
						   bool is_top_level, void *arg pg_attribute_unused())
{
	/* the portals' owners come first; only after the topmost are the locks gone */
	if (phase != RESOURCE_RELEASE_LOCKS || is_commit || !is_top_level || !locks_are_lost ||
		CurrentResourceOwner != TopTransactionResourceOwner)
		return;
	locks_are_lost = false;

	for (int i = 0; nclaim_locks > 0 && i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];
		LOCKTAG		tag;

		if (lock->id == 0)
			continue;
		SET_LOCKTAG_RELATION(tag, lock->relation.dbId, lock->relation.relId);
		/* it must not fail here, not even for want of memory */
		if (LockAcquireExtended(&tag, AccessShareLock, true, true, false, NULL, false) !=
			LOCKACQUIRE_NOT_AVAIL)
			continue;
		end_claim(lock->id);
		lock->id = 0;
		nclaim_locks--;
	}
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

pg_noreturn static void
raise_no_block(Buffer buffer)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("buffer %d holds no block", buffer),
			 errhint("Use a number returned by buffer_create_toy().")));
}

/*
 * Locks the relation whose block a shared buffer holds.  Raises an error unless
 * it is a relation of this database that other transactions can see.
 */
static Relation
lock_relation_of(Buffer buffer)
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
		rel = try_relation_open(relid, AccessShareLock);
	/* its file may have been replaced before we had the lock */
	if (rel == NULL || !RelFileLocatorEquals(rel->rd_locator, rlocator))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d holds a block of file %u/%u/%u, which is not a relation of this database",
						buffer, rlocator.spcOid, rlocator.dbOid, rlocator.relNumber)));

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
		unpin_for_claim(claim->buffer);
	free_claim(claim);
	release_locks();
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
	bool		is_ours;
	uint64		id;

	attach_claim_table();

	SpinLockAcquire(&claim_table->lock);
	claim = find_started_claim(buffer);
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

	rel = lock_relation_of(buffer);
	release_locks();
	id = next_claim_id();
	keep_relation_locked(id, rel);
	/* until the end of the transaction as well */
	relation_close(rel, NoLock);

	claim = reserve_claim(id, buffer, for_input);
	if (claim == NULL)
	{
		release_locks();
		raise_too_many();
	}
	claim->pinned = pin_for_claim(buffer);
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
 * Starts I/O on a local buffer.  The server does not note that, and answers the
 * same again.
 */
static bool
start_local_io(Buffer buffer, bool for_input, bool wait)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	LocalClaim *claim = NULL;

	if (!(buffer_state_read(desc) & BM_TAG_VALID))
		raise_no_block(buffer);

	/* a place: that of this buffer, or one that is free */
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (local_claims[i].buffer == buffer ||
			(claim == NULL && local_claims[i].buffer == InvalidBuffer))
			claim = &local_claims[i];
		if (local_claims[i].buffer == buffer)
			break;
	}
	if (claim == NULL)
		raise_too_many();

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
 * Calls StartBufferIO().  True: the caller owns the I/O now, until
 * buffer_call_terminate_io() or the end of the session.  False: the block is
 * valid (or, for output, clean) already, or, without "wait", somebody has the
 * I/O.  The relation of a shared buffer stays locked (ACCESS SHARE) meanwhile.
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

	attach_claim_table();

	/* once it is out of the table nobody else can end it */
	SpinLockAcquire(&claim_table->lock);
	claim = find_started_claim(buffer);
	if (claim != NULL)
	{
		ended = *claim;
		if (ended.for_input == for_input)
			remove_claim(claim);
	}
	SpinLockRelease(&claim_table->lock);

	if (ended.buffer == InvalidBuffer)
		raise_not_started(buffer);
	check_direction(buffer, ended.for_input, for_input);

	end_shared_io(&ended, succeed, io_error, release_aio);
	release_locks();
}

static void
terminate_local_io(Buffer buffer, bool for_input, bool succeed, bool io_error,
				   bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	LocalClaim *claim = find_local_claim(buffer);

	if (claim == NULL)
		raise_not_started(buffer);
	check_direction(buffer, claim->for_input, for_input);
	claim->buffer = InvalidBuffer;

	/* the reference that the server then gives back */
	if (release_aio)
		buffer_state_write_local(desc, buffer_state_read(desc) + BUF_REFCOUNT_ONE);
	TerminateLocalBufferIO(desc, succeed && !for_input,
						   flags_of_end(for_input, succeed, io_error), release_aio);
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

/*
 * Makes this process the one that ends claims for output in time, or, if "watch" is
 * false, no process.
 */
void
claims_watch(bool watch)
{
	attach_claim_table();
	claim_table->watcher = watch ? MyProcNumber : INVALID_PROC_NUMBER;
}

/*
 * Ends claims for output that have lasted longer than they may, or all of them.
 * Returns when the next one has lasted long enough.
 */
IoTime
claims_end_overdue(IoTime now, bool all)
{
	IoTime		next = IO_TIME_NEVER;

	for (int i = 0; claim_table->noutput > 0 && i < MAX_CLAIMS; i++)
	{
		SharedClaim *claim = &claim_table->claims[i];
		SharedClaim ended = {0};

		SpinLockAcquire(&claim_table->lock);
		if (claim->buffer != InvalidBuffer && claim->started && !claim->for_input)
		{
			if (all || now >= claim->limit)
			{
				ended = *claim;
				remove_claim(claim);
			}
			else
				next = Min(next, claim->limit);
		}
		SpinLockRelease(&claim_table->lock);

		if (ended.buffer == InvalidBuffer)
			continue;
		if (!all)
			ereport(WARNING,
					(errmsg("I/O on buffer %d, started for output by process %d, has lasted for too long",
							ended.buffer, ended.pid),
					 errdetail("It is ended as failed now, after \"test_aio.longest_hold\".")));
		end_shared_io(&ended, false, true, true);
	}

	return next;
}
