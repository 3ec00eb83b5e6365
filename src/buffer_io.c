/*
 * Buffer I/O that SQL starts and ends: StartBufferIO() and TerminateBufferIO() as two
 * statements.
 *
 * The I/O outlives the statement and the transaction.  It is an entry in a table, in
 * shared memory if the library is preloaded, so that it has an end that does not
 * depend on its session: buffer_call_terminate_io(), the exit of the session, or, after
 * test_aio.hold_timeout, the gate's worker.  The process that takes the entry from the
 * table ends the I/O.  A shared buffer keeps its block meanwhile by a reference that
 * belongs to no backend.
 */
#include "gate/gate.h"

#include "pgstat.h"
#include "tcop/utility.h"
#include "utils/relfilenumbermap.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);
PG_FUNCTION_INFO_V1(buffer_call_read);

#define MAX_STARTED 64

typedef struct StartedIO
{
	Buffer		buffer;			/* InvalidBuffer: free */
	bool		for_input;
	int			pid;
	IoTime		limit;			/* when the gate's worker ends it */
} StartedIO;

typedef struct StartedTable
{
	LWLock	   *lock;			/* NULL: not shared */
	StartedIO	ios[MAX_STARTED];
} StartedTable;

/* of shared buffers if the library is preloaded; of local buffers, or else of all */
static StartedTable *shared_table;
static StartedTable own_table;

static void
set_up_table(uint32 nhandles pg_attribute_unused(), LWLock *lock)
{
	shared_table->lock = lock;
}

void
buffer_io_init(void)
{
	static Subsystem subsystem = {
		.name = "table of started buffer I/O",
		.memory = "test_aio buffer I/O",
		.has_lock = true,
		.address = (void **) &shared_table,
		.size = sizeof(StartedTable),
		.set_up = set_up_table,
	};

	subsystem_register(&subsystem);
}

/* Locks the table that a buffer's I/O is in. */
static StartedTable *
lock_table(Buffer buffer)
{
	StartedTable *table = BufferIsLocal(buffer) || shared_table == NULL ? &own_table : shared_table;

	if (table->lock != NULL)
		LWLockAcquire(table->lock, LW_EXCLUSIVE);
	return table;
}

static void
unlock_table(StartedTable *table)
{
	if (table->lock != NULL)
		LWLockRelease(table->lock);
}

static Buffer
buffer_arg(FunctionCallInfo fcinfo)
{
	Buffer		buffer = PG_GETARG_INT32(0);

	require_superuser(fcinfo);
	if (buffer == InvalidBuffer || buffer > NBuffers || buffer < -NLocBuffer)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("buffer number %d is out of range", buffer),
				errdetail("Shared buffers have the numbers 1 to %d; this session has %d local buffers, with negative numbers.",
						  NBuffers, NLocBuffer));

	return buffer;
}

static BufferTag
require_block(Buffer buffer)
{
	BufferTag	tag;

	if (!(read_buffer_header(get_buffer_descriptor(buffer), &tag) & BM_TAG_VALID))
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("buffer %d holds no block", buffer),
				errhint("Use a number returned by buffer_create_toy()."));

	return tag;
}

/* Returns the entry of a buffer and a process, or NULL; InvalidBuffer: a free one. */
static StartedIO *
find_entry(StartedTable *table, Buffer buffer, int pid)
{
	for (int i = 0; i < MAX_STARTED; i++)
		if (table->ios[i].buffer == buffer && (buffer == InvalidBuffer || table->ios[i].pid == pid))
			return &table->ios[i];
	return NULL;
}

bool
buffer_io_is_ours(Buffer buffer)
{
	StartedTable *table = lock_table(buffer);
	bool		is_ours = find_entry(table, buffer, MyProcPid) != NULL;

	unlock_table(table);
	return is_ours;
}

/*
 * Raises an error if this session has not started this I/O.  Takes its entry from the
 * table if "take" says so; then the caller ends the I/O.
 */
static void
require_started(Buffer buffer, bool for_input, bool take)
{
	StartedTable *table = lock_table(buffer);
	StartedIO  *io = find_entry(table, buffer, MyProcPid);
	StartedIO	found = io != NULL ? *io : (StartedIO) {0};
	BufferTag	tag;

	/* the relation of a local buffer may be gone */
	if (BufferIsLocal(buffer) && !(read_buffer_header(get_buffer_descriptor(buffer), &tag) & BM_TAG_VALID))
		found.buffer = InvalidBuffer;
	if (take && found.for_input == for_input && io != NULL)
		io->buffer = InvalidBuffer;
	unlock_table(table);

	if (found.buffer == InvalidBuffer)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("no I/O on buffer %d has been started by this session", buffer),
				errhint("Start it with buffer_call_start_io()."));
	if (found.for_input != for_input)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("I/O on buffer %d has been started for %s",
					   buffer, found.for_input ? "input" : "output"));
}

/* Ends I/O whose entry this process has taken, or not made. */
static void
end_io(Buffer buffer, BufferState set, bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);

	if (BufferIsLocal(buffer))
	{
		/* the reference that the server then drops */
		if (release_aio)
			buffer_state_write_local(desc, buffer_state_read(desc) + BUF_REFCOUNT_ONE);
		TerminateLocalBufferIO(desc, false, set, release_aio);
		return;
	}
	TerminateBufferIO(desc, false, set, false, release_aio);
	if (!release_aio)
		drop_buffer_reference(desc);
}

/*
 * Ends what a session, or with 0 any session, has started on shared buffers and has not
 * ended by this time.  Returns when to look again.
 */
IoTime
buffer_io_end(int pid, IoTime now)
{
	StartedTable *table = lock_table(1);
	IoTime		next = IO_TIME_NEVER;

	for (int i = 0; i < MAX_STARTED; i++)
	{
		StartedIO	io = table->ios[i];

		if (io.buffer <= 0 || (pid != 0 && io.pid != pid))
			continue;
		if (io.limit > now)
		{
			next = Min(next, io.limit);
			continue;
		}
		table->ios[i].buffer = InvalidBuffer;
		end_io(io.buffer, BM_IO_ERROR, true);
		if (pid == 0)
			ereport(LOG,
					errmsg("I/O on buffer %d was started for too long by process %d", io.buffer, io.pid),
					errdetail("It has been ended, after \"test_aio.hold_timeout\"."));
	}
	unlock_table(table);

	return next;
}

static void
end_all_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	(void) buffer_io_end(MyProcPid, IO_TIME_NEVER);
}

/* Makes an entry for I/O that this session has started, or ends the I/O if there is no room. */
static void
add_entry(Buffer buffer, bool for_input)
{
	static bool registered = false;
	StartedIO	entry = {buffer, for_input, MyProcPid, io_now() + filters_hold_timeout * NS_PER_MS};
	StartedTable *table;
	StartedIO  *io;

	/* a callback that nobody cancels, so that this works anywhere */
	if (!registered)
		on_shmem_exit(end_all_at_exit, 0);
	registered = true;

	table = lock_table(buffer);
	io = find_entry(table, buffer, MyProcPid);
	if (io == NULL)
		io = find_entry(table, InvalidBuffer, 0);
	if (io != NULL)
		*io = entry;
	unlock_table(table);
	gate_wake_worker();

	if (io != NULL)
		return;
	end_io(buffer, 0, !BufferIsLocal(buffer));
	ereport(ERROR, errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			errmsg("there are too many buffer I/Os already"),
			errdetail("At most %d can be started at once.", MAX_STARTED));
}

static void
drop_reference_at_error(int code pg_attribute_unused(), Datum buffer)
{
	drop_buffer_reference(get_buffer_descriptor(DatumGetInt32(buffer)));
}

static StartBufferIOResult
start_shared_io(Buffer buffer, const BufferTag *tag, bool for_input, bool wait)
{
	StartBufferIOResult answer;

	/* replay would wait for us */
	PreventCommandDuringRecovery("StartBufferIO()");
	if (!refer_to_buffer(get_buffer_descriptor(buffer), tag))
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("buffer %d has been given to another block", buffer));
	PG_ENSURE_ERROR_CLEANUP(drop_reference_at_error, Int32GetDatum(buffer));
	{
		answer = start_buffer_io(buffer, for_input, wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(drop_reference_at_error, Int32GetDatum(buffer));

	/* it is to outlive the statement */
	if (answer == BUFFER_IO_READY_FOR_IO)
		ResourceOwnerForgetBufferIO(CurrentResourceOwner, buffer);
	else
		drop_buffer_reference(get_buffer_descriptor(buffer));

	return answer;
}

/* Reads the arguments of the two functions below, and calls StartBufferIO(). */
static StartBufferIOResult
start_io_by_args(FunctionCallInfo fcinfo)
{
	Buffer		buffer = buffer_arg(fcinfo);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		wait = PG_GETARG_BOOL(2);
	BufferTag	tag = require_block(buffer);
	StartBufferIOResult answer;

	/* others may wait for what we have staged while we wait for them */
	if (wait)
		pgaio_submit_staged();
	answer = BufferIsLocal(buffer) ? start_buffer_io(buffer, for_input, wait) :
		start_shared_io(buffer, &tag, for_input, wait);
	if (answer == BUFFER_IO_READY_FOR_IO)
		add_entry(buffer, for_input);

	return answer;
}

/*
 * Calls StartBufferIO().  Returns true if the session owns the I/O now, until
 * buffer_call_terminate_io(), its own end, or, if the gate has its worker, after
 * "test_aio.hold_timeout".  Returns false if the block is valid (or, for output, clean)
 * already, or, without "wait", if I/O is in progress.  Of local buffers the server does
 * not note that, and lets the I/O be started again.
 */
Datum
buffer_call_start_io(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(start_io_by_args(fcinfo) == BUFFER_IO_READY_FOR_IO);
}

/* The same, with the server's answer by its name in 19. */
Datum
buffer_start_io(PG_FUNCTION_ARGS)
{
	static const char *const answers[] = {
		[BUFFER_IO_ALREADY_DONE] = "ALREADY_DONE",[BUFFER_IO_IN_PROGRESS] = "IN_PROGRESS",
		[BUFFER_IO_READY_FOR_IO] = "READY_FOR_IO"
	};

	PG_RETURN_TEXT_P(cstring_to_text(answers[start_io_by_args(fcinfo)]));
}

/* Reads the block of started input: a buffer becomes valid with what is in the file. */
static void
read_started(Buffer buffer, const BufferTag *tag, char *page)
{
	ProcNumber	backend = BufferIsLocal(buffer) ? MyProcNumber : INVALID_PROC_NUMBER;
	bool		checksum_failure;

	smgrread(smgropen(BufTagGetRelFileLocator(tag), backend), BufTagGetForkNum(tag),
			 tag->blockNum, page);
	if (!PageIsVerified(page, tag->blockNum, 0, &checksum_failure))
		ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED),
				errmsg("invalid page in block %u of the relation of buffer %d", tag->blockNum, buffer));
}

/* Writes a block whose output has been started, and ended, by this session. */
static void
write_ended(Buffer buffer, const BufferTag *tag)
{
	if (!ReadRecentBuffer(BufTagGetRelFileLocator(tag), BufTagGetForkNum(tag), tag->blockNum, buffer))
		return;
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsLocal(buffer))
		FlushOneBuffer(buffer);
	else if (buffer_state_read(get_buffer_descriptor(buffer)) & BM_DIRTY)
		FlushLocalBuffer(get_buffer_descriptor(buffer), NULL);
	UnlockReleaseBuffer(buffer);
}

/*
 * Calls TerminateBufferIO() for I/O that this session has started with
 * buffer_call_start_io().  "succeed" makes the block valid, with what the file has, or
 * for output clean, after it has been written; "io_error" marks it as failed;
 * "release_aio" leaves it to the server to drop the AIO subsystem's reference.
 */
Datum
buffer_call_terminate_io(PG_FUNCTION_ARGS)
{
	Buffer		buffer = buffer_arg(fcinfo);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		succeed = PG_GETARG_BOOL(2);
	bool		io_error = PG_GETARG_BOOL(3);
	bool		release_aio = PG_GETARG_BOOL(4);
	PGIOAlignedBlock block;
	BufferTag	tag;

	require_started(buffer, for_input, false);
	tag = require_block(buffer);

	/* a read's reference and end are not ours; shared buffers make it wait */
	if (BufferIsLocal(buffer) && pgaio_wref_valid(&get_buffer_descriptor(buffer)->io_wref))
		ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("buffer %d is being read", buffer),
				errdetail("This session has begun to read into it since the I/O was started."));

	/* not into the buffer: the worker may end the I/O meanwhile */
	if (succeed && for_input)
		read_started(buffer, &tag, block.data);
	require_started(buffer, for_input, true);
	if (succeed && for_input)
		memcpy(BufferGetPage(buffer), block.data, BLCKSZ);
	end_io(buffer, (succeed && for_input ? BM_VALID : 0) | (io_error ? BM_IO_ERROR : 0), release_aio);
	if (succeed && !for_input && !io_error)
		write_ended(buffer, &tag);

	PG_RETURN_VOID();
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

/*
 * Stages a read into a shared buffer on which this session has started I/O for
 * input (smgrstartreadv), and submits it unless a batch is open.  Does not wait; the
 * completion ends the I/O.
 */
Datum
buffer_call_read(PG_FUNCTION_ARGS)
{
	Buffer		buffer = buffer_arg(fcinfo);
	BufferTag	tag;
	Oid			relid;
	Relation	rel;
	PgAioHandle *ioh;
	PgAioWaitRef iow;

	require_started(buffer, true, false);
	tag = require_block(buffer);
	relid = BufferIsLocal(buffer) || tag.dbOid != MyDatabaseId || BufTagGetForkNum(&tag) != MAIN_FORKNUM ?
		InvalidOid : RelidByRelfilenumber(tag.spcOid, BufTagGetRelNumber(&tag));
	if (!OidIsValid(relid))
		ereport(ERROR, errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("buffer %d is not a shared buffer with a block of a main fork of this database", buffer));

	/* what may wait, and fail, comes before the I/O is taken from the table */
	rel = open_relation_for_io(fcinfo, relid, AccessShareLock);
	pgstat_prepare_report_checksum_failure(rel->rd_locator.dbOid);
	ioh = pgaio_io_acquire(CurrentResourceOwner, NULL);
	ResourceOwnerEnlarge(CurrentResourceOwner);
	require_started(buffer, true, true);

	/* from here on the statement owns the I/O, and then the AIO subsystem */
	ResourceOwnerRememberBufferIO(CurrentResourceOwner, buffer);
	PG_TRY();
	{
		stage_read(ioh, rel, tag.blockNum, &buffer, 1, false, &iow);
	}
	PG_FINALLY();
	{
		drop_buffer_reference(get_buffer_descriptor(buffer));
	}
	PG_END_TRY();

	relation_close(rel, AccessShareLock);

	PG_RETURN_VOID();
}
