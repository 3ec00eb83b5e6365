/*-------------------------------------------------------------------------
 *
 * locks.c
 *		The locks that a session keeps on the relations of its claims.
 *
 * src/claims/locks.c
 *
 *-------------------------------------------------------------------------
 */
#include "claims/claims.h"

#include "access/xact.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/resowner.h"

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
	LOCKMODE	mode;
	RelFileLocator rlocator;
} ClaimLock;

static ClaimLock claim_locks[MAX_CLAIMS];
static int	nclaim_locks;

/* an abort is under way that takes the locks away */
static bool locks_are_lost;

pg_noreturn void
claims_raise_too_many(void)
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
void
claims_keep_locked(uint64 id, Relation rel, LOCKMODE mode)
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];

		if (lock->id != 0)
			continue;
		lock->relation = rel->rd_lockInfo.lockRelId;
		lock->rlocator = rel->rd_locator;
		lock->mode = mode;
		LockRelationIdForSession(&lock->relation, lock->mode);
		lock->id = id;
		nclaim_locks++;
		return;
	}
	claims_raise_too_many();
}

/*
 * Gives back the locks of claims that have ended.
 */
void
claims_release_locks(void)
{
	for (int i = 0; nclaim_locks > 0 && i < MAX_CLAIMS; i++)
	{
		ClaimLock  *lock = &claim_locks[i];

		if (lock->id == 0 || claims_exists(lock->id))
			continue;
		lock->id = 0;
		nclaim_locks--;
		UnlockRelationIdForSession(&lock->relation, lock->mode);
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
 * Returns whether another session waits for a lock that conflicts with this one.  The
 * server's LockWaiterCount() also counts the holders of the lock.
 */
static bool
is_awaited(const LOCKTAG *tag, LOCKMODE mode)
{
	LWLock	   *partition_lock = LockHashPartitionLock(LockTagHashCode(tag));
	bool		found = false;

	LWLockAcquire(partition_lock, LW_SHARED);
	for (uint32 i = 0; i < ProcGlobal->allProcCount && !found; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);
		LOCK	   *lock = *(LOCK *volatile *) &proc->waitLock;

		/* a lock of another partition may go away, but not become this one */
		found = lock != NULL && memcmp(&lock->tag, tag, sizeof(LOCKTAG)) == 0 &&
			DoLockModesConflict(mode, proc->waitLockMode);
	}
	LWLockRelease(partition_lock);

	return found;
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
		SET_LOCKTAG_RELATION(tag, lock->relation.dbId, lock->relation.relId);
		if (!is_awaited(&tag, lock->mode))
			continue;
		claims_end(lock->id);
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
			claims_release_locks();
			check_removed_files();
			break;
		case XACT_EVENT_PRE_PREPARE:
			/* the server would forget the locks, and never give them back */
			claims_release_locks();
			if (nclaim_locks > 0)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("cannot PREPARE while this session has started I/O on a buffer"),
						 errhint("End the I/O with buffer_call_terminate_io() first.")));
			break;
		case XACT_EVENT_ABORT:
			claims_release_locks();
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
	/*
	 * the portals' owners come first; only after the topmost are the locks
	 * gone
	 */
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
		if (LockAcquireExtended(&tag, lock->mode, true, true, false, NULL, false) !=
			LOCKACQUIRE_NOT_AVAIL)
			continue;
		claims_end(lock->id);
		lock->id = 0;
		nclaim_locks--;
	}
}

/*
 * before_shmem_exit callback: the server does not release locks of a session
 * outside a transaction.  Registered first, so called when the claims have ended.
 */
static void
locks_end_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	for (int i = 0; i < MAX_CLAIMS; i++)
	{
		if (claim_locks[i].id != 0)
			UnlockRelationIdForSession(&claim_locks[i].relation, claim_locks[i].mode);
		claim_locks[i].id = 0;
	}
	nclaim_locks = 0;
}

/*
 * Has this session look after its locks when it ends a transaction and when it
 * exits.  Called before claims_end_with_session().
 */
void
claims_watch_transactions(void)
{
	static bool registered = false;

	if (registered)
		return;
	before_shmem_exit(locks_end_at_exit, 0);
	RegisterXactCallback(claims_at_transaction_end, NULL);
	RegisterResourceReleaseCallback(claims_at_resource_release, NULL);
	registered = true;
}
