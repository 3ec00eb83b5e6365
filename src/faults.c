/*-------------------------------------------------------------------------
 *
 * faults.c
 *		Holding reads at their completion, and falsifying their results.
 *
 * One rule of each kind, in shared memory, set and ended by any session.  The
 * process that completes a read looks at them: an I/O worker, the issuing
 * backend, or with io_uring whoever finds the completion in the ring.  That
 * happens in a critical section, where nothing may be allocated and no error
 * raised.
 *
 * src/faults.c
 *
 *-------------------------------------------------------------------------
 */
#include "faults.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(inj_io_completion_wait);
PG_FUNCTION_INFO_V1(inj_io_completion_continue);
PG_FUNCTION_INFO_V1(inj_io_short_read_attach);
PG_FUNCTION_INFO_V1(inj_io_short_read_detach);
PG_FUNCTION_INFO_V1(inj_io_reopen_attach);
PG_FUNCTION_INFO_V1(inj_io_reopen_detach);

/* the largest number that Linux uses for an errno */
#define MAX_ERRNO 4095

/* Which reads?  A member that is zero (for the block: not set) matches all. */
typedef struct ReadMatch
{
	int			pid;			/* the backend that has issued it */
	RelFileNumber relfilenode;
	bool		has_blockno;
	BlockNumber blockno;		/* it covers this block */
} ReadMatch;

typedef struct FaultState
{
	slock_t		lock;

	bool		hold;
	ReadMatch	hold_match;
	ConditionVariable hold_ended;
	uint32		hold_wait_event;

	bool		falsify;
	ReadMatch	falsify_match;
	bool		has_result;
	int32		result;

	bool		fail_reopen;
} FaultState;

static FaultState *fault_state;
static const FaultObstacle *fault_obstacle;

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static void
faults_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(sizeof(FaultState));
}

static void
faults_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	fault_state = ShmemInitStruct("test_aio faults", sizeof(FaultState), &found);
	if (!found)
	{
		memset(fault_state, 0, sizeof(FaultState));
		SpinLockInit(&fault_state->lock);
		ConditionVariableInit(&fault_state->hold_ended);
		/* not where it is needed: registering a name may allocate */
		fault_state->hold_wait_event = WaitEventInjectionPointNew("completion_wait");
	}
	LWLockRelease(AddinShmemInitLock);

	fault_obstacle = attach_injection_points();
}

/*
 * Called when the library is preloaded.
 */
void
faults_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = faults_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = faults_shmem_startup;
}

static bool
read_matches(PgAioHandle *ioh, const ReadMatch *match)
{
	const PgAioTargetData *td = &ioh->target_data;

	if (ioh->op != PGAIO_OP_READV || ioh->target != PGAIO_TID_SMGR)
		return false;
	if (match->pid != 0 &&
		match->pid != GetPGProcByNumber(pgaio_io_get_owner(ioh))->pid)
		return false;
	if (match->relfilenode != InvalidOid &&
		match->relfilenode != td->smgr.rlocator.relNumber)
		return false;
	if (match->has_blockno &&
		(match->blockno < td->smgr.blockNum ||
		 match->blockno >= td->smgr.blockNum + td->smgr.nblocks))
		return false;

	return true;
}

/*
 * Would this read be held at its completion?
 */
bool
faults_hold_io(PgAioHandle *ioh)
{
	ReadMatch	match;
	bool		hold;

	if (fault_state == NULL)
		return false;

	SpinLockAcquire(&fault_state->lock);
	hold = fault_state->hold;
	match = fault_state->hold_match;
	SpinLockRelease(&fault_state->lock);

	return hold && read_matches(ioh, &match);
}

/*
 * Holds the calling process for as long as the read is to be held.
 */
void
hold_completion(PgAioHandle *ioh)
{
	if (!faults_hold_io(ioh))
		return;

	ConditionVariablePrepareToSleep(&fault_state->hold_ended);
	while (faults_hold_io(ioh))
		ConditionVariableSleep(&fault_state->hold_ended,
							   fault_state->hold_wait_event);
	ConditionVariableCancelSleep();
}

/*
 * Zeroes what lies beyond the first "length" bytes of a read.
 */
static void
zero_rest_of_read(PgAioHandle *ioh, size_t length)
{
	struct iovec *iov = &pgaio_ctl->iovecs[ioh->iovec_off];

	for (int i = 0; i < ioh->op_data.read.iov_length; i++)
	{
		size_t		keep = Min(length, iov[i].iov_len);

		memset((char *) iov[i].iov_base + keep, 0, iov[i].iov_len - keep);
		length -= keep;
	}
}

/*
 * Puts a chosen result in the place of the one that a read has ended with.
 */
void
falsify_result(PgAioHandle *ioh)
{
	bool		falsify;
	ReadMatch	match;
	int32		result;

	SpinLockAcquire(&fault_state->lock);
	falsify = fault_state->falsify && fault_state->has_result;
	match = fault_state->falsify_match;
	result = fault_state->result;
	SpinLockRelease(&fault_state->lock);

	if (!falsify || !read_matches(ioh, &match))
		return;

	if (result < 0)
		ioh->result = result;
	else if (result < ioh->result)
	{
		zero_rest_of_read(ioh, result);
		ioh->result = result;
	}
}

/*
 * Raises an error in an I/O worker that has reopened a file, if so ordered.
 */
void
fail_reopen(void)
{
	bool		fail;

	SpinLockAcquire(&fault_state->lock);
	fail = fault_state->fail_reopen;
	SpinLockRelease(&fault_state->lock);

	if (fail)
		ereport(ERROR,
				(errmsg("I/O worker fails to reopen a file, as ordered by inj_io_reopen_attach()")));
}

/*
 * Raises an error unless faults can be put into effect.
 */
static void
require_faults(FunctionCallInfo fcinfo)
{
	require_superuser(fcinfo);

	if (fault_state == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("test_aio must be loaded via \"shared_preload_libraries\""),
				 errhint("Add test_aio to \"shared_preload_libraries\" and restart the server.")));
	if (fault_obstacle != NULL)
		ereport(ERROR,
				(errcode(fault_obstacle->sqlerrcode),
				 errmsg("%s", fault_obstacle->message),
				 errhint("%s", fault_obstacle->hint)));
}

/*
 * Reads the arguments that say which reads are meant; NULL matches all.
 */
static ReadMatch
get_read_match(FunctionCallInfo fcinfo, int pid_arg, int relfilenode_arg)
{
	ReadMatch	match = {0};

	if (!PG_ARGISNULL(pid_arg))
	{
		match.pid = PG_GETARG_INT32(pid_arg);
		if (match.pid <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("pid must be positive")));
	}
	if (!PG_ARGISNULL(relfilenode_arg))
	{
		match.relfilenode = PG_GETARG_OID(relfilenode_arg);
		if (match.relfilenode == InvalidOid)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("relfilenode must not be zero"),
					 errhint("pg_relation_filenode() tells a relation's number.")));
	}

	return match;
}

static void
set_hold(bool hold, const ReadMatch *match)
{
	SpinLockAcquire(&fault_state->lock);
	fault_state->hold = hold;
	if (hold)
		fault_state->hold_match = *match;
	SpinLockRelease(&fault_state->lock);

	/* also when one rule takes another's place: it may hold fewer */
	ConditionVariableBroadcast(&fault_state->hold_ended);
}

/*
 * inj_io_completion_wait(pid int DEFAULT NULL, relfilenode oid DEFAULT NULL,
 *						  blockno int4 DEFAULT NULL)
 *
 * From now on the completion of every matching read is held, until
 * inj_io_completion_continue() in any session.  The process that would
 * complete it shows the wait event "completion_wait".  A later call takes the
 * place of an earlier one.
 */
Datum
inj_io_completion_wait(PG_FUNCTION_ARGS)
{
	ReadMatch	match;

	require_faults(fcinfo);

	match = get_read_match(fcinfo, 0, 1);
	if (!PG_ARGISNULL(2))
	{
		if (PG_GETARG_INT32(2) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("blockno must not be negative")));
		match.has_blockno = true;
		match.blockno = PG_GETARG_INT32(2);
	}

	set_hold(true, &match);

	PG_RETURN_VOID();
}

/*
 * inj_io_completion_continue()
 *
 * Lets all held reads go on and holds no more.
 */
Datum
inj_io_completion_continue(PG_FUNCTION_ARGS)
{
	require_faults(fcinfo);

	set_hold(false, NULL);

	PG_RETURN_VOID();
}

/*
 * inj_io_short_read_attach(result int, pid int DEFAULT NULL,
 *							relfilenode oid DEFAULT NULL)
 *
 * From now on matching reads end with this result: a number of bytes, if they
 * have read more (the rest is zeroed), or a negative errno.  NULL changes
 * nothing.  A later call takes the place of an earlier one.
 */
Datum
inj_io_short_read_attach(PG_FUNCTION_ARGS)
{
	ReadMatch	match;
	int32		result = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT32(0);

	require_faults(fcinfo);

	match = get_read_match(fcinfo, 1, 2);
	if (result < -MAX_ERRNO)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("result must be a number of bytes or a negative errno"),
				 errdetail("The smallest errno is %d.", -MAX_ERRNO)));

	SpinLockAcquire(&fault_state->lock);
	fault_state->falsify = true;
	fault_state->falsify_match = match;
	fault_state->has_result = !PG_ARGISNULL(0);
	fault_state->result = result;
	SpinLockRelease(&fault_state->lock);

	PG_RETURN_VOID();
}

/*
 * inj_io_short_read_detach()
 *
 * Reads end with their own results again.
 */
Datum
inj_io_short_read_detach(PG_FUNCTION_ARGS)
{
	require_faults(fcinfo);

	SpinLockAcquire(&fault_state->lock);
	fault_state->falsify = false;
	SpinLockRelease(&fault_state->lock);

	PG_RETURN_VOID();
}

static void
set_fail_reopen(bool fail)
{
	SpinLockAcquire(&fault_state->lock);
	fault_state->fail_reopen = fail;
	SpinLockRelease(&fault_state->lock);
}

/*
 * inj_io_reopen_attach()
 *
 * From now on I/O workers fail to reopen files; reads through them fail with
 * ENOENT.
 */
Datum
inj_io_reopen_attach(PG_FUNCTION_ARGS)
{
	require_faults(fcinfo);

	if (io_method != IOMETHOD_WORKER)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("files are reopened only with \"io_method\" set to \"worker\"")));

	set_fail_reopen(true);

	PG_RETURN_VOID();
}

/*
 * inj_io_reopen_detach()
 *
 * I/O workers reopen files again.
 */
Datum
inj_io_reopen_detach(PG_FUNCTION_ARGS)
{
	require_faults(fcinfo);

	set_fail_reopen(false);

	PG_RETURN_VOID();
}
