/*
 * The functions that the server calls in the place of the C library's, and the setting
 * that has it do so.
 *
 * They are called with locks and in critical sections.  While no filter and no trace
 * asks for writes, they cost a look at two words of shared memory.
 */
#include "writes/writes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate/gate.h"
#include "port/pg_iovec.h"
#include "trace/trace.h"

#ifdef WRITES_CAN_BE_REACHED

/* A system call, on a file's range. */
typedef struct Call
{
	uint8		op;				/* as for a relation */
	bool		only_data;		/* IO_OP_SYNC: fdatasync() */
	int			fd;
	const struct iovec *iov;	/* PGAIO_OP_WRITEV */
	int			niov;
	off_t		offset;			/* IO_OP_TRUNCATE: the new size */
	off_t		length;			/* of a range; PGAIO_OP_WRITEV: by iov */
} Call;

/* Makes a call.  Returns what the C library returns, with errno. */
static int64
perform(const Call *call)
{
	switch (call->op)
	{
		case IO_OP_EXTEND:
			errno = posix_fallocate(call->fd, call->offset, call->length);
			return errno == 0 ? 0 : -1;
		case IO_OP_TRUNCATE:
			return ftruncate(call->fd, call->offset);
		case IO_OP_SYNC:
			return call->only_data ? fdatasync(call->fd) : fsync(call->fd);
		default:
			return pg_pwritev(call->fd, call->iov, call->niov, call->offset);
	}
}

/* Makes a call whose result was chosen: a negative errno, or so many bytes. */
static int64
perform_with_result(const Call *call, int32 result)
{
	struct iovec iov[PG_IOV_MAX];
	Call		shorter = *call;
	size_t		left = Max(result, 0);

	if (result < 0)
	{
		errno = -result;
		return -1;
	}
	for (int i = 0; i < call->niov && call->niov <= PG_IOV_MAX; i++)
	{
		iov[i].iov_base = call->iov[i].iov_base;
		iov[i].iov_len = Min(left, call->iov[i].iov_len);
		left -= iov[i].iov_len;
		shorter.iov = iov;
	}
	return perform(&shorter);
}

/* Is this the write of a handle?  The gate has seen it when it was staged. */
static bool
is_of_handle(const Call *call)
{
	dlist_iter	iter;

	if (MyBackendType == B_IO_WORKER)
		return true;
	dclist_foreach(iter, &pgaio_my_backend->in_flight_ios)
	{
		const PgAioHandle *ioh = dclist_container(PgAioHandle, node, iter.cur);

		if (ioh->op == PGAIO_OP_WRITEV && !(ioh->flags & PGAIO_HF_SYNCHRONOUS) &&
			ioh->op_data.write.fd == call->fd && ioh->op_data.write.offset == (uint64) call->offset)
			return true;
	}
	return false;
}

/* Does a filter or a trace ask for any of these operations? */
static bool
is_asked_for(uint32 ops)
{
	return gate != NULL && ((filters_ops() | trace_ops()) & ops) != 0;
}

/* Describes a call by this process's handle.  Returns false if nobody asks for it. */
static bool
describe(const Call *call, PgAioHandle *ioh)
{
	PgAioTargetData *target = &ioh->target_data;
	size_t		length = call->length;
	struct stat status;

	for (int i = 0; i < call->niov; i++)
		length += call->iov[i].iov_len;
	if (!file_of_descriptor(call->fd, target))
		return false;

	ioh->op = call->op;
	ioh->target = PGAIO_TID_SMGR;
	/* nobody else can perform it */
	ioh->flags = PGAIO_HF_SYNCHRONOUS | PGAIO_HF_REFERENCES_LOCAL;
	ioh->generation++;
	ioh->op_data.write.offset = call->offset;
	target->smgr.blockNum += call->offset / BLCKSZ;
	target->smgr.nblocks = (call->offset % BLCKSZ + length + BLCKSZ - 1) / BLCKSZ;

	if (target->smgr.forkNum == InvalidForkNumber)
		ioh->op = call->op == IO_OP_SYNC ? IO_OP_WAL_SYNC : IO_OP_WAL_WRITE;
	else if (call->op == PGAIO_OP_WRITEV && fstat(call->fd, &status) == 0 &&
			 status.st_size < (off_t) (call->offset + length))
		ioh->op = IO_OP_EXTEND;

	return is_asked_for(IO_OP_BIT(ioh->op)) && !(call->op == PGAIO_OP_WRITEV && is_of_handle(call));
}

/* Makes a call of the server's, as filters say, and lets the trace know. */
static int64
intercept(const Call *call)
{
	PgAioHandle *ioh;
	GateIo	   *io;
	PgAioResult outcome = {0};
	IoTime		submitted;
	int64		result;
	int			error = errno;

	/*
	 * The postmaster, the logger and a process that is nearly gone cannot
	 * wait, and may have no shared memory.
	 */
	if (MyProc == NULL || pgaio_my_backend == NULL ||
		likely(!is_asked_for(IO_ALL_OPS & ~IO_OP_BIT(PGAIO_OP_READV))) ||
		!describe(call, &io_calls[MyProcNumber]))
		return perform(call);

	ioh = &io_calls[MyProcNumber];
	io = gate_io(ioh);
	io->generation = ioh->generation;
	io->phase = GATE_CLAIMED;
	io->released = false;
	memset(&io->effect, 0, sizeof(io->effect));
	ioh->state = PGAIO_HS_SUBMITTED;
	if (io_listener != NULL)
		io_listener->staged(ioh, true);

	submitted = io_now();
	if (!gate->closing)
		filters_effect_on(ioh, &io->effect);
	io->outcome = io->effect.outcome;
	if (io->effect.hold_filter != 0)
		gate_hold_call(ioh);
	errno = error;
	result = io->outcome.has_result ? perform_with_result(call, io->outcome.result) : perform(call);
	error = errno;
	if (io->effect.device_filter != 0)
		gate_delay_call(ioh, submitted);

	ioh->result = result < 0 ? -error : result;
	outcome.status = result < 0 ? PGAIO_RS_ERROR : PGAIO_RS_OK;
	if (io_listener != NULL)
		io_listener->completion_begins(ioh, outcome);
	ioh->state = PGAIO_HS_IDLE;
	errno = error;

	return result;
}

static ssize_t
our_pwrite(int fd, const void *data, size_t length, off_t offset)
{
	struct iovec iov = {.iov_base = (void *) data,.iov_len = length};
	Call		call = {.op = PGAIO_OP_WRITEV,.fd = fd,.iov = &iov,.niov = 1,.offset = offset};

	return intercept(&call);
}

static ssize_t
our_pwritev(int fd, const struct iovec *iov, int niov, off_t offset)
{
	Call		call = {.op = PGAIO_OP_WRITEV,.fd = fd,.iov = iov,.niov = niov,.offset = offset};

	return intercept(&call);
}

static int
our_posix_fallocate(int fd, off_t offset, off_t length)
{
	Call		call = {.op = IO_OP_EXTEND,.fd = fd,.offset = offset,.length = length};

	return intercept(&call) < 0 ? errno : 0;
}

static int
our_ftruncate(int fd, off_t length)
{
	Call		call = {.op = IO_OP_TRUNCATE,.fd = fd,.offset = length};

	return intercept(&call);
}

static int
our_fsync(int fd)
{
	Call		call = {.op = IO_OP_SYNC,.fd = fd};

	return intercept(&call);
}

static int
our_fdatasync(int fd)
{
	Call		call = {.op = IO_OP_SYNC,.only_data = true,.fd = fd};

	return intercept(&call);
}

/* Has the server call these functions.  Returns why not, or NULL. */
static const char *
replace_functions(void)
{
	static const struct
	{
		const char *name;
		void	   *function;
	}			functions[] = {
		{"pwrite", our_pwrite},
		{"pwritev", our_pwritev},
		{"posix_fallocate", our_posix_fallocate},
		{"ftruncate", our_ftruncate},
		{"fsync", our_fsync},
		{"fdatasync", our_fdatasync},
	};
	const char *reason = NULL;

	/* a function that is there alone changes nothing */
	for (int i = 0; i < (int) lengthof(functions) && reason == NULL; i++)
		reason = slot_replace(functions[i].name, functions[i].function);
	return reason;
}

#endif							/* WRITES_CAN_BE_REACHED */

/* In the postmaster, after gate_init(): has system calls seen if the setting says so. */
void
writes_init(void)
{
	static bool reach_writes = false;
	Unavailable *unavailable = &io_calls_unavailable;

	DefineCustomBoolVariable("test_aio.reach_writes",
							 "Enables the I/O gate and the I/O trace for writes, too.",
							 "This changes which functions of the C library the server calls.",
							 &reach_writes, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);

	unavailable->reason = gate_subsystem.unavailable.reason;
	unavailable->hint = gate_subsystem.unavailable.hint;
	if (!reach_writes)
	{
		unavailable->reason = "\"test_aio.reach_writes\" is off";
		unavailable->hint = "Set \"test_aio.reach_writes\" to on and restart the server.";
		return;
	}
	if (gate_subsystem.begin != NULL)
	{
		unavailable->hint = NULL;
#ifdef WRITES_CAN_BE_REACHED
		unavailable->reason = replace_functions();
#else
		unavailable->reason = "it is known only of Linux with glibc, on x86-64 and aarch64, how a server writes";
#endif
	}
	if (unavailable->reason != NULL)
		ereport(LOG, errmsg("test_aio: the I/O gate does not see writes: %s", unavailable->reason));
}
