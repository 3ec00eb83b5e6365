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

#include <fcntl.h>
#include <unistd.h>

#include "gate/gate.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/pidfile.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(inj_io_completion_wait);
PG_FUNCTION_INFO_V1(inj_io_completion_continue);
PG_FUNCTION_INFO_V1(inj_io_short_read_attach);
PG_FUNCTION_INFO_V1(inj_io_short_read_detach);
PG_FUNCTION_INFO_V1(inj_io_reopen_attach);
PG_FUNCTION_INFO_V1(inj_io_reopen_detach);

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
	GateTime	longest_hold;

	bool		falsify;
	ReadMatch	falsify_match;
	bool		has_result;
	int32		result;

	bool		fail_reopen;
} FaultState;

static FaultState *fault_state;
static const FaultObstacle *fault_obstacle;
static bool use_gate;

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static void
faults_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(sizeof(FaultState));
}

/*
 * The gate can hold all reads but synchronous ones, and with io_method=sync
 * there are no others.
 */
static const FaultObstacle *
find_gates_obstacle(void)
{
	static const FaultObstacle all_synchronous = {
		.sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED,
		.message = "this server has no injection points, and synchronous reads cannot be held without",
		.hint = "Set \"test_aio.reach_synchronous_reads\", use another \"io_method\", or a server that has been built with --enable-injection-points.",
	};

	return io_method == IOMETHOD_SYNC && !reach_synchronous_reads ? &all_synchronous : NULL;
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
	if (fault_obstacle != NULL && gate != NULL)
	{
		use_gate = true;
		fault_obstacle = find_gates_obstacle();
	}
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
 * Is the server shutting down?  The postmaster says so in its pid file.  Called
 * in critical sections too, so it allocates nothing.
 */
bool
server_is_stopping(void)
{
	char		text[MAXPGPATH];
	const char *line = text;
	ssize_t		length;
	int			fd = open("postmaster.pid", O_RDONLY | O_CLOEXEC);

	/* it goes away with the postmaster */
	if (fd < 0)
		return errno == ENOENT;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[Max(length, 0)] = '\0';

	for (int i = 1; i < LOCK_FILE_LINE_PM_STATUS && line != NULL; i++)
	{
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}

	return line != NULL &&
		strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/*
 * Holds the calling process for as long as the read is to be held.  It cannot
 * be interrupted, so it looks every now and then whether it has to go on.
 */
void
hold_completion(PgAioHandle *ioh)
{
	GateTime	limit;

	if (!faults_hold_io(ioh))
		return;

	limit = gate_now() + fault_state->longest_hold;
	ConditionVariablePrepareToSleep(&fault_state->hold_ended);
	while (faults_hold_io(ioh))
	{
		GateTime	left = limit - gate_now();

		if (left <= 0)
		{
			gate_report_too_long(ioh);
			break;
		}
		if (ConditionVariableTimedSleep(&fault_state->hold_ended,
										Min(left / NS_PER_MS + 1, 1000),
										fault_state->hold_wait_event) &&
			server_is_stopping())
			break;
	}
	ConditionVariableCancelSleep();
}

/*
 * Zeroes what lies beyond the first "length" bytes of a read.
 */
void
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
 * Is this read to end with a chosen result?
 */
static bool
get_false_result(PgAioHandle *ioh, int32 *result)
{
	bool		falsify;
	ReadMatch	match;

	SpinLockAcquire(&fault_state->lock);
	falsify = fault_state->falsify && fault_state->has_result;
	match = fault_state->falsify_match;
	*result = fault_state->result;
	SpinLockRelease(&fault_state->lock);

	return falsify && read_matches(ioh, &match);
}

/*
 * Puts a chosen result in the place of the one that a read has ended with.
 */
void
falsify_result(PgAioHandle *ioh)
{
	int32		result;

	if (!get_false_result(ioh, &result))
		return;

	if (result < 0)
		ioh->result = result;
	else if (result < ioh->result)
	{
		zero_rest_of_read(ioh, result);
		ioh->result = result;
	}
}

static bool
reopen_fails(void)
{
	bool		fail;

	SpinLockAcquire(&fault_state->lock);
	fail = fault_state->fail_reopen;
	SpinLockRelease(&fault_state->lock);

	return fail;
}

/*
 * Raises an error in an I/O worker that has reopened a file, if so ordered.
 */
void
fail_reopen(void)
{
	if (reopen_fails())
		ereport(ERROR,
				(errmsg("I/O worker fails to reopen a file, as ordered by inj_io_reopen_attach()")));
}

bool
faults_have_injection_points(void)
{
	return fault_state != NULL && !use_gate && fault_obstacle == NULL;
}

/*
 * Is the gate where faults take effect?
 */
bool
faults_use_gate(void)
{
	return use_gate;
}

/*
 * How many faults are in force?
 */
uint32
faults_in_force(void)
{
	uint32		in_force;

	SpinLockAcquire(&fault_state->lock);
	in_force = fault_state->hold + fault_state->falsify + fault_state->fail_reopen;
	SpinLockRelease(&fault_state->lock);

	return in_force;
}

/*
 * What is a read that the gate may capture to end with?  False: what it will.
 */
bool
faults_get_result(PgAioHandle *ioh, int32 *result)
{
	/* an I/O worker would have got this one */
	if (reopen_fails() &&
		!(ioh->flags & (PGAIO_HF_REFERENCES_LOCAL | PGAIO_HF_SYNCHRONOUS)))
	{
		*result = -ENOENT;
		return true;
	}

	return get_false_result(ioh, result);
}

int64
faults_longest_hold(void)
{
	return fault_state->longest_hold;
}

/*
 * Raises an error unless a read can end with this result.
 */
void
check_io_result(int32 result)
{
	if (result < -MAX_ERRNO)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("result must be a number of bytes or a negative errno"),
				 errdetail("The smallest errno is %d.", -MAX_ERRNO)));
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

static bool
is_held_no_more(PgAioHandle *ioh, GateIo *io, void *arg pg_attribute_unused())
{
	return io->injected && !faults_hold_io(ioh);
}

/*
 * A fault has been set or ended.
 */
static void
tell_gate(void)
{
	if (!use_gate)
		return;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	gate_update_active();
	LWLockRelease(gate->lock);
}

static void
set_hold(bool hold, const ReadMatch *match)
{
	SpinLockAcquire(&fault_state->lock);
	fault_state->hold = hold;
	if (hold)
	{
		fault_state->hold_match = *match;
		fault_state->longest_hold = longest_hold * NS_PER_MS;
	}
	SpinLockRelease(&fault_state->lock);

	/* also when one rule takes another's place: it may hold fewer */
	ConditionVariableBroadcast(&fault_state->hold_ended);
	tell_gate();
	if (use_gate)
	{
		(void) gate_release_matching(is_held_no_more, NULL, false, 0);
		/* it shows whether any read is held */
		gate_wake_worker();
	}
}

/*
 * Ends the hold because the server shuts down.
 */
void
faults_end_hold(void)
{
	set_hold(false, NULL);
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
	check_io_result(result);

	SpinLockAcquire(&fault_state->lock);
	fault_state->falsify = true;
	fault_state->falsify_match = match;
	fault_state->has_result = !PG_ARGISNULL(0);
	fault_state->result = result;
	SpinLockRelease(&fault_state->lock);
	tell_gate();

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
	tell_gate();

	PG_RETURN_VOID();
}

static void
set_fail_reopen(bool fail)
{
	SpinLockAcquire(&fault_state->lock);
	fault_state->fail_reopen = fail;
	SpinLockRelease(&fault_state->lock);
	tell_gate();
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
