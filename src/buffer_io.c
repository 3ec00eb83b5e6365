/*
 * Buffer I/O that SQL starts and ends: StartBufferIO() and TerminateBufferIO() as two
 * statements.
 *
 * The I/O outlives the statement and the transaction.  It is an entry in a table, in
 * shared memory if the library is preloaded, so that it has an end that does not
 * depend on its session: buffer_call_terminate_io(), the exit of the session, or, after
 * test_aio.hold_timeout, the gate's worker.  Whoever takes the entry from the table
 * ends the I/O.  A shared buffer keeps its block meanwhile by a reference that belongs
 * to no backend.
 *
 * Of local buffers, the server does not note that I/O is in progress, so no process
 * waits.  A table of the session says what was started, until the buffer has another
 * block.
 */
#include "buffer_io.h"

#include "access/xact.h"
#include "filters/filters.h"
#include "gate/gate.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/relfilenumbermap.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);

#define MAX_STARTED 64

typedef struct StartedIO
{
	Buffer		buffer;			/* InvalidBuffer: free */
	BufferTag	tag;
	bool		for_input;
	bool		is_started;		/* otherwise the session waits to start it */
	int			pid;
	IoTime		limit;			/* when the gate's worker ends it */
} StartedIO;

typedef struct StartedTable
{
	LWLock	   *lock;			/* NULL: not shared */
	volatile int nstarted;		/* the worker looks at it without the lock, when
								 * it was woken after a change, or once more
								 * later */
	StartedIO	ios[MAX_STARTED];
} StartedTable;

/* of shared buffers if the library is preloaded; of local buffers, or else of all */
static StartedTable *shared_table;
static StartedTable own_table;

static Size
table_size(uint32 nhandles pg_attribute_unused())
{
	return sizeof(StartedTable);
}

static void
set_up_table(uint32 nhandles pg_attribute_unused(), LWLock *lock)
{
	memset(shared_table, 0, sizeof(*shared_table));
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
		.size = table_size,
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

/*
 * Returns this session's entry for a buffer, or NULL.  A local buffer may have another
 * block by now.
 */
static StartedIO *
find_started(StartedTable *table, Buffer buffer)
{
	for (int i = 0; i < MAX_STARTED; i++)
	{
		StartedIO  *io = &table->ios[i];

		if (io->buffer == buffer && io->pid == MyProcPid && io->is_started &&
			BufferTagsEqual(&get_buffer_descriptor(buffer)->tag, &io->tag))
			return io;
	}

	return NULL;
}

/* Takes an entry from the table, whose lock the caller has.  The caller ends the I/O. */
static StartedIO
take(StartedTable *table, StartedIO *io)
{
	StartedIO	taken = *io;

	io->buffer = InvalidBuffer;
	table->nstarted--;

	return taken;
}

/* Ends I/O whose entry this process has taken. */
static void
end_io(const StartedIO *io, bool succeed, bool io_error, bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(io->buffer);
	BufferState set = (succeed && io->for_input ? BM_VALID : 0) | (io_error ? BM_IO_ERROR : 0);

	if (BufferIsLocal(io->buffer))
	{
		/* the reference that the server then drops */
		if (release_aio)
			buffer_state_write_local(desc, buffer_state_read(desc) + BUF_REFCOUNT_ONE);
		TerminateLocalBufferIO(desc, false, set, release_aio);
		return;
	}

	if (io->is_started)
		TerminateBufferIO(desc, false, set, false, release_aio);
	/* the server has dropped the reference otherwise */
	if (!io->is_started || !release_aio)
		drop_buffer_reference(desc);
}

/* Ends what this session has started on shared buffers, or waits to start. */
static void
end_all_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	StartedTable *table = lock_table(1);

	for (int i = 0; i < MAX_STARTED; i++)
		if (table->ios[i].buffer > 0 && table->ios[i].pid == MyProcPid)
		{
			StartedIO	io = take(table, &table->ios[i]);

			end_io(&io, false, true, true);
		}
	unlock_table(table);
}

/*
 * Ends, in the gate's worker, what was started for too long by any session.  Returns
 * when to look again.
 */
IoTime
end_overdue_buffer_io(IoTime now)
{
	IoTime		next = IO_TIME_NEVER;
	StartedIO	ended[MAX_STARTED];
	int			nended = 0;
	StartedTable *table;

	if (shared_table == NULL || shared_table->nstarted == 0)
		return next;

	table = lock_table(1);
	for (int i = 0; i < MAX_STARTED; i++)
	{
		StartedIO  *io = &table->ios[i];

		if (io->buffer == InvalidBuffer || !io->is_started)
			continue;
		if (io->limit > now)
			next = Min(next, io->limit);
		else
		{
			ended[nended] = take(table, io);
			end_io(&ended[nended++], false, true, true);
		}
	}
	unlock_table(table);

	for (int i = 0; i < nended; i++)
		ereport(LOG,
				(errmsg("I/O on buffer %d, with block %u of relation %u/%u/%u, was started for too long by process %d",
						ended[i].buffer, ended[i].tag.blockNum, ended[i].tag.spcOid,
						ended[i].tag.dbOid, BufTagGetRelNumber(&ended[i].tag), ended[i].pid),
				 errdetail("It has been ended, after \"test_aio.hold_timeout\".")));

	return next;
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

static BufferTag
require_block(Buffer buffer)
{
	BufferTag	tag;

	if (!(read_buffer_header(get_buffer_descriptor(buffer), &tag) & BM_TAG_VALID))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d holds no block", buffer),
				 errhint("Use a number returned by buffer_create_toy().")));

	return tag;
}

/*
 * Makes an entry for I/O that is about to be started, or takes over the one that a local
 * buffer has.
 */
static StartedIO *
make_entry(Buffer buffer, const BufferTag *tag, bool for_input)
{
	StartedTable *table = lock_table(buffer);
	StartedIO  *io = BufferIsLocal(buffer) ? find_started(table, buffer) : NULL;

	table->nstarted += io == NULL;
	for (int i = 0; io == NULL && i < MAX_STARTED; i++)
	{
		StartedIO  *candidate = &table->ios[i];

		/* a local buffer may have been given to another block */
		if (candidate->buffer == InvalidBuffer ||
			(BufferIsLocal(candidate->buffer) && find_started(table, candidate->buffer) == NULL))
			io = candidate;
	}
	if (io != NULL)
		*io = (StartedIO)
	{
		.buffer = buffer,.tag = *tag,.for_input = for_input,.pid = MyProcPid
	};
	else
		table->nstarted--;
	unlock_table(table);

	if (io == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are too many buffer I/Os already"),
				 errdetail("At most %d can be started at once.", MAX_STARTED)));

	return io;
}

static void
give_up_entry(StartedIO *io)
{
	StartedTable *table = lock_table(io->buffer);
	StartedIO	given_up = take(table, io);

	unlock_table(table);
	if (given_up.buffer > 0)
		end_io(&given_up, false, false, false);
}

/*
 * Calls StartBufferIO().  Returns true if the session owns the I/O now, until
 * buffer_call_terminate_io(), its own end, or, if the gate has its worker, after
 * "test_aio.hold_timeout".  Returns false if the block is valid (or, for output, clean)
 * already, or, without "wait", if I/O is in progress.
 */
Datum
buffer_call_start_io(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		wait = PG_GETARG_BOOL(2);
	bool		is_ours;
	BufferTag	tag;
	StartedIO  *volatile io;

	require_superuser(fcinfo);
	check_buffer_number(buffer);
	/* replay would wait for us */
	if (!BufferIsLocal(buffer))
		PreventCommandDuringRecovery("buffer_call_start_io()");
	tag = require_block(buffer);

	io = make_entry(buffer, &tag, for_input);
	if (!BufferIsLocal(buffer) && !refer_to_buffer(get_buffer_descriptor(buffer), &tag))
	{
		io->buffer = InvalidBuffer;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d has been given to another block", buffer)));
	}
	/* a callback that nobody cancels, so that this works anywhere */
	if (!registered)
		on_shmem_exit(end_all_at_exit, 0);
	registered = true;

	PG_TRY();
	{
		/* others may wait for what we have staged while we wait for them */
		if (wait)
			pgaio_submit_staged();
		is_ours = start_buffer_io(buffer, for_input, wait);
	}
	PG_CATCH();
	{
		give_up_entry(io);
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (is_ours)
	{
		StartedTable *table = lock_table(buffer);

		io->is_started = true;
		io->limit = io_now() + filters_hold_timeout();
		unlock_table(table);
		/* it is to outlive the statement */
		if (!BufferIsLocal(buffer))
			ResourceOwnerForgetBufferIO(CurrentResourceOwner, buffer);
		gate_wake_worker();
	}
	else
		give_up_entry(io);

	PG_RETURN_BOOL(is_ours);
}

bool
buffer_io_is_ours(Buffer buffer)
{
	StartedTable *table = lock_table(buffer);
	bool		is_ours = find_started(table, buffer) != NULL;

	unlock_table(table);

	return is_ours;
}

/*
 * Takes this session's entry for a buffer from the table, or with "look" only copies it.
 * Raises an error if there is none.
 */
static StartedIO
require_started(Buffer buffer, bool for_input, bool look)
{
	StartedTable *table;
	StartedIO  *io;
	StartedIO	found = {0};

	check_buffer_number(buffer);
	table = lock_table(buffer);
	io = find_started(table, buffer);
	if (io != NULL)
		found = look || io->for_input != for_input ? *io : take(table, io);
	unlock_table(table);

	if (found.buffer == InvalidBuffer)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no I/O on buffer %d has been started by this session", buffer),
				 errhint("Start it with buffer_call_start_io().")));
	if (found.for_input != for_input)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("I/O on buffer %d has been started for %s",
						buffer, found.for_input ? "input" : "output")));

	return found;
}

/*
 * Reads the block of started input, so that a buffer that becomes valid has what is
 * in the file.
 */
static void
read_started(const StartedIO *io, char *page)
{
	ProcNumber	backend = BufferIsLocal(io->buffer) ? MyProcNumber : INVALID_PROC_NUMBER;
	bool		checksum_failure;

	smgrread(smgropen(BufTagGetRelFileLocator(&io->tag), backend), BufTagGetForkNum(&io->tag),
			 io->tag.blockNum, page);
	if (!PageIsVerified(page, io->tag.blockNum, 0, &checksum_failure))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid page in block %u of the relation of buffer %d",
						io->tag.blockNum, io->buffer)));
}

/* Writes a block whose output has been started, and ended, by this session. */
static void
write_ended(const StartedIO *io)
{
	BufferTag	tag = io->tag;

	if (!ReadRecentBuffer(BufTagGetRelFileLocator(&tag), BufTagGetForkNum(&tag), tag.blockNum, io->buffer))
		return;
	LockBuffer(io->buffer, BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsLocal(io->buffer))
		FlushOneBuffer(io->buffer);
	else if (buffer_state_read(get_buffer_descriptor(io->buffer)) & BM_DIRTY)
		FlushLocalBuffer(get_buffer_descriptor(io->buffer), NULL);
	UnlockReleaseBuffer(io->buffer);
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
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		succeed = PG_GETARG_BOOL(2);
	bool		io_error = PG_GETARG_BOOL(3);
	bool		release_aio = PG_GETARG_BOOL(4);
	PGIOAlignedBlock block;
	StartedIO	io;

	require_superuser(fcinfo);
	io = require_started(buffer, for_input, true);

	/*
	 * a read's reference and end are not ours; shared buffers would have made
	 * it wait
	 */
	if (BufferIsLocal(buffer) && pgaio_wref_valid(&get_buffer_descriptor(buffer)->io_wref))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("buffer %d is being read", buffer),
				 errdetail("This session has begun to read into it since the I/O was started.")));

	/* not into the buffer: the worker may end the I/O meanwhile, and others read */
	if (succeed && for_input)
		read_started(&io, block.data);
	io = require_started(buffer, for_input, false);
	if (succeed && for_input)
		memcpy(BufferGetPage(buffer), block.data, BLCKSZ);
	end_io(&io, succeed, io_error, release_aio);
	if (succeed && !for_input && !io_error)
		write_ended(&io);

	PG_RETURN_VOID();
}

/*
 * Opens the relation of a shared buffer on which this session has started I/O for
 * input, and gets the block that the buffer holds.
 */
Relation
open_started_input(FunctionCallInfo fcinfo, Buffer buffer, BlockNumber *blockno)
{
	StartedIO	io = require_started(buffer, true, true);
	RelFileLocator file = BufTagGetRelFileLocator(&io.tag);
	Oid			relid = InvalidOid;

	if (BufferIsLocal(buffer))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("buffer %d is a local buffer", buffer)));
	if (file.dbOid == MyDatabaseId || file.dbOid == InvalidOid)
		relid = RelidByRelfilenumber(file.spcOid, file.relNumber);
	if (!OidIsValid(relid) || BufTagGetForkNum(&io.tag) != MAIN_FORKNUM)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d does not hold a block of a main fork of this database", buffer)));
	*blockno = io.tag.blockNum;

	return open_relation_for_io(fcinfo, relid, AccessShareLock);
}

/*
 * Has a read staged that ends I/O for input, which this session has started, in the
 * place of the session.  If that fails, the I/O ends with the error.
 */
void
hand_over_started_input(Buffer buffer, void (*stage) (void *arg), void *arg)
{
	StartedIO	io;

	ResourceOwnerEnlarge(CurrentResourceOwner);
	io = require_started(buffer, true, false);
	ResourceOwnerRememberBufferIO(CurrentResourceOwner, buffer);
	PG_TRY();
	{
		stage(arg);
	}
	PG_FINALLY();
	{
		/* the AIO subsystem has a reference of its own now */
		io.is_started = false;
		end_io(&io, false, false, false);
	}
	PG_END_TRY();
}
