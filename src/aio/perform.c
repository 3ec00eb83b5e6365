/*
 * Performing and completing intercepted reads, perhaps of another process: I/O
 * workers do nothing else; and the results that a read can be given.
 */
#include "aio/aio.h"

#include <fcntl.h>
#include <unistd.h>

#include "pgstat.h"
#include "storage/fd.h"

/* the largest number that Linux uses for an errno */
#define MAX_ERRNO 4095

bool		io_acts_as_worker = false;

/* Zeroes what lies beyond the first "length" bytes of a read. */
void
io_zero_rest(PgAioHandle *ioh, size_t length)
{
	struct iovec *iov = &pgaio_ctl->iovecs[ioh->iovec_off];

	for (int i = 0; i < ioh->op_data.read.iov_length; i++)
	{
		size_t		keep = Min(length, iov[i].iov_len);

		memset((char *) iov[i].iov_base + keep, 0, iov[i].iov_len - keep);
		length -= keep;
	}
}

/* Inverts a byte of what has been read, counted from 1. */
static void
invert_byte(PgAioHandle *ioh, size_t byte)
{
	struct iovec *iov = &pgaio_ctl->iovecs[ioh->iovec_off];

	for (; byte > iov->iov_len; iov++)
		byte -= iov->iov_len;
	((unsigned char *) iov->iov_base)[byte - 1] ^= 0xFF;
}

/* Has a write end after so many bytes. */
static void
cut_write(PgAioHandle *ioh, size_t length)
{
	struct iovec *iov = &pgaio_ctl->iovecs[ioh->iovec_off];

	for (int i = 0; i < ioh->op_data.write.iov_length; i++)
	{
		iov[i].iov_len = Min(length, iov[i].iov_len);
		length -= iov[i].iov_len;
	}
}

/* Reads a result for reads.  Returns false if it is null. */
bool
io_result_arg(FunctionCallInfo fcinfo, int arg, int32 *result)
{
	if (PG_ARGISNULL(arg))
		return false;
	*result = PG_GETARG_INT32(arg);
	if (*result < -MAX_ERRNO)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("result must be a number of bytes or a negative errno"),
				errdetail("The smallest errno is %d.", -MAX_ERRNO));

	return true;
}

/*
 * Logs that a hold has lasted too long, to the server alone: a client that does not
 * read would block this process, perhaps in a critical section.
 */
void
io_log_hold_expired(uint8 op, const PgAioTargetData *target, int owner)
{
	ereport(LOG_SERVER_ONLY,
			errmsg("%s of blocks %u..%u of relation %u/%u/%u by process %d was held for too long",
				   io_op_names(IO_OP_BIT(op)), target->smgr.blockNum, target->smgr.blockNum + target->smgr.nblocks - 1,
				   target->smgr.rlocator.spcOid, target->smgr.rlocator.dbOid,
				   target->smgr.rlocator.relNumber, owner),
			errdetail("It is performed now, after the \"test_aio.hold_timeout\" of the hold."));
}

/* Reads or writes the buffers of an I/O.  Returns the number of bytes, or -errno. */
static int
transfer(PgAioHandle *ioh, int fd)
{
	const struct iovec *iov = &pgaio_ctl->iovecs[ioh->iovec_off];
	const PgAioOpData *data = &ioh->op_data;
	bool		is_read = ioh->op == PGAIO_OP_READV;
	ssize_t		nbytes;

	pgstat_report_wait_start(is_read ? WAIT_EVENT_DATA_FILE_READ : WAIT_EVENT_DATA_FILE_WRITE);
	nbytes = is_read ? pg_preadv(fd, iov, data->read.iov_length, data->read.offset) :
		pg_pwritev(fd, iov, data->write.iov_length, data->write.offset);
	pgstat_report_wait_end();

	return nbytes < 0 ? -errno : nbytes;
}

/*
 * Opens the file of an I/O, performs the I/O and closes the file again.  Returns
 * the number of bytes, or a negative errno.  What is no regular file does not block.
 *
 * The server's own pgaio_io_reopen() raises errors and allocates memory, which
 * nothing may do here.
 */
static int
open_and_transfer(PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;
	BlockNumber segment = td->smgr.blockNum / ((BlockNumber) RELSEG_SIZE);
	RelPathStr	relation = relpathbackend(td->smgr.rlocator,
										  td->smgr.is_temp ? ioh->owner_procno : INVALID_PROC_NUMBER,
										  td->smgr.forkNum);
	char		path[MAXPGPATH];
	int			flags = (ioh->op == PGAIO_OP_READV ? O_RDONLY : O_WRONLY) | O_CLOEXEC | O_NONBLOCK;
	CommandDest dest;
	int			fd;
	int			result;

	if (segment == 0)
		strlcpy(path, relation.str, sizeof(path));
	else
		snprintf(path, sizeof(path), "%s.%u", relation.str, segment);
	if (io_direct_flags & IO_DIRECT_DATA)
		flags |= PG_O_DIRECT;

	/* closes another file, and logs that, if too many are open */
	dest = io_silence_client();
	fd = BasicOpenFile(path, flags);
	whereToSendOutput = dest;
	if (fd < 0)
		return -errno;
	result = transfer(ioh, fd);
	close(fd);

	return result;
}

/*
 * Reads or writes by this descriptor, or by one of our own if it is negative.  A result that
 * was chosen cuts a write before, and a read afterwards, whose rest is zeroed; a negative
 * one takes the place of the I/O.  Returns the number of bytes, or -errno.
 */
static int
carry_out(PgAioHandle *ioh, int fd, const IoOutcome *outcome)
{
	int			nbytes;

	if (outcome->has_result && outcome->result < 0)
		return outcome->result;
	if (outcome->has_result && ioh->op == PGAIO_OP_WRITEV)
		cut_write(ioh, outcome->result);
	nbytes = fd >= 0 ? transfer(ioh, fd) : open_and_transfer(ioh);
	if (outcome->has_result && outcome->result < nbytes)
	{
		nbytes = outcome->result;
		io_zero_rest(ioh, nbytes);
	}
	if (outcome->wrong_byte > 0 && outcome->wrong_byte <= nbytes)
		invert_byte(ioh, outcome->wrong_byte);

	return nbytes;
}

/* error context callback: says for whom a read is completed */
static void
completion_context(void *arg)
{
	PgAioHandle *ioh = arg;
	int			owner = io_owner_pid(ioh);

	if (ioh->owner_procno == MyProcNumber)
		return;

	/* what the server itself says in these cases */
	if (io_acts_as_worker && io_method == IOMETHOD_WORKER)
		errcontext("I/O worker executing I/O on behalf of process %d", owner);
	else
		errcontext("completing I/O on behalf of process %d", owner);
}

static void
complete(PgAioHandle *ioh, int result)
{
	ErrorContextCallback context = {
		.callback = completion_context,
		.arg = ioh,
		.previous = error_context_stack,
	};
	CommandDest dest = io_silence_client();

	error_context_stack = &context;
	pgaio_io_process_completion(ioh, result);
	error_context_stack = context.previous;
	whereToSendOutput = dest;
}

/*
 * Performs a read that the caller has claimed, and completes it, not before
 * "not_before".  The file is open if "fd" is not negative.
 *
 * Nobody else completes a claimed read.  So this is called in a critical section, as
 * the server's own completions are: nothing here is meant to fail, and a library whose
 * hook does fail here causes a PANIC instead of a read that never ends.  A file that
 * cannot be opened makes the read fail, as it does for the server.
 */
void
io_perform(PgAioHandle *ioh, int fd, const IoOutcome *outcome, IoTime not_before)
{
	int			result;

	Assert(CritSectionCount > 0);
	result = carry_out(ioh, fd, outcome);

	/* the moment is very near */
	while (not_before != 0 && io_now() < not_before)
		SPIN_DELAY();
	complete(ioh, result);
}
