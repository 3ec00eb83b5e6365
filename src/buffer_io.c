/*
 * Buffer I/O that SQL starts and ends: StartBufferIO() and
 * TerminateBufferIO() as two statements.
 *
 * The I/O belongs to the session, outlives its transactions and ends with it.  Each
 * session keeps a list of what it has started.  A shared buffer keeps its block by a
 * reference that belongs to no backend, as the AIO subsystem has them.
 *
 * Others may wait for such I/O without listening to a cancel: DROP TABLE and VACUUM
 * for a buffer that goes away, a checkpoint for output, an INSERT that looks for a
 * duplicate.  All of them go on when the session ends, so the session itself must
 * never wait in such a way, neither for its own I/O nor for an LWLock of somebody
 * who waits for it.  Hence three rules: a session has no lock on a relation, and does
 * not use it, while it has I/O started on one of its buffers; it changes nothing,
 * neither by queries, whose triggers may look into any table, nor by utility commands
 * that could remove or write buffers; and it calls no C functions of others, which
 * may lock pages.  session.c keeps the last two rules.
 *
 * Of local buffers, the server does not note that I/O is in progress, so no process
 * waits.  The list says what was started, until the buffer has another block.
 */
#include "test_aio.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/lsyscache.h"
#include "utils/relfilenumbermap.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(buffer_call_start_io);
PG_FUNCTION_INFO_V1(buffer_call_terminate_io);

#define MAX_STARTED 256

typedef struct StartedIO
{
	Buffer		buffer;			/* InvalidBuffer: free */
	BufferTag	tag;
	Oid			relid;			/* of a shared buffer's relation */
	bool		for_input;
} StartedIO;

static StartedIO started[MAX_STARTED];
static int	nshared;			/* how many are on shared buffers */
static int	watching_exit;		/* as before_session_exits() counts */

/* Returns whether an entry is in use: a local buffer may have another block by now. */
static bool
is_started(const StartedIO *io)
{
	return io->buffer != InvalidBuffer &&
		BufferTagsEqual(&get_buffer_descriptor(io->buffer)->tag, &io->tag);
}

static StartedIO *
find_started(Buffer buffer)
{
	for (int i = 0; i < MAX_STARTED; i++)
		if (started[i].buffer == buffer && is_started(&started[i]))
			return &started[i];

	return NULL;
}

/* Returns an entry for I/O on a buffer: the one it has, or a free one. */
static StartedIO *
place_for(Buffer buffer)
{
	StartedIO  *place = find_started(buffer);

	for (int i = 0; place == NULL && i < MAX_STARTED; i++)
		if (!is_started(&started[i]))
			place = &started[i];
	if (place == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many buffer I/Os started"),
				 errdetail("A session can have at most %d in progress.", MAX_STARTED)));

	return place;
}

/*
 * Refers to a shared buffer, so that it keeps its block.  Returns false if it holds
 * another block, or none.
 */
static bool
refer_to_buffer(BufferDesc *desc, const BufferTag *tag)
{
	BufferState state = LockBufHdr(desc);
	bool		is_there = (state & BM_TAG_VALID) && BufferTagsEqual(&desc->tag, tag);

	buffer_header_unlock(desc, state, 0, 0, is_there ? 1 : 0);

	return is_there;
}

static void
drop_reference(BufferDesc *desc)
{
	BufferState state = LockBufHdr(desc);
	bool		is_last = (state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 2;
	ProcNumber	waiter = desc->wait_backend_pgprocno;

	buffer_header_unlock(desc, state, 0, is_last ? BM_PIN_COUNT_WAITER : 0, -1);

	/* LockBufferForCleanup() waits for the last pin but its own */
	if (is_last)
		ProcSendSignal(waiter);
}

static void
drop_reference_at_error(int code pg_attribute_unused(), Datum buffer)
{
	drop_reference(get_buffer_descriptor(DatumGetInt32(buffer)));
}

/*
 * Raises an error if this transaction uses a relation with I/O started on one of
 * its buffers.  It then has a lock on the relation.
 */
static void
check_started_not_used(void)
{
	for (int i = 0; i < MAX_STARTED; i++)
		if (started[i].buffer > 0 &&
			CheckRelationOidLockedByMe(started[i].relid, AccessShareLock, true))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot use relation \"%s\" while this session has started I/O on one of its buffers",
							get_rel_name(started[i].relid)),
					 errhint("End the I/O with buffer_call_terminate_io() first.")));
}

static void end_started_io(void);

/* Counts I/O on shared buffers, of which session.c is told whether there is any. */
static void
count_shared(int change)
{
	nshared += change;
	session_has_started_io(nshared > 0 ? check_started_not_used : NULL, nshared > 0 ? end_started_io : NULL);
}

static void
end_io(StartedIO *io, bool succeed, bool io_error, bool release_aio)
{
	BufferDesc *desc = get_buffer_descriptor(io->buffer);
	BufferState set = (succeed && io->for_input ? BM_VALID : 0) | (io_error ? BM_IO_ERROR : 0);
	bool		is_local = BufferIsLocal(io->buffer);

	io->buffer = InvalidBuffer;
	if (is_local)
	{
		/* the reference that the server then drops */
		if (release_aio)
			buffer_state_write_local(desc, buffer_state_read(desc) + BUF_REFCOUNT_ONE);
		TerminateLocalBufferIO(desc, false, set, release_aio);
		return;
	}

	count_shared(-1);
	TerminateBufferIO(desc, false, set, false, release_aio);
	if (!release_aio)
		drop_reference(desc);
}

/* Ends all I/O on shared buffers, since the session waits where nobody can end it. */
static void
end_started_io(void)
{
	for (int i = 0; i < MAX_STARTED; i++)
		if (started[i].buffer > 0)
			end_io(&started[i], false, true, true);
}

static void
end_all_at_exit(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	end_started_io();
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
 * Opens the relation of a block.  Raises an error unless this is the main fork of a
 * table whose buffers may have I/O started: of catalogs and indexes others read
 * blocks while they have LWLocks on blocks that this session needs.
 */
static Relation
open_table_of(Buffer buffer, const BufferTag *tag)
{
	RelFileLocator file = BufTagGetRelFileLocator(tag);
	Oid			relid = file.dbOid != MyDatabaseId ? InvalidOid :
		RelidByRelfilenumber(file.spcOid, file.relNumber);
	bool		is_used = OidIsValid(relid) && CheckRelationOidLockedByMe(relid, AccessShareLock, true);
	Relation	rel = OidIsValid(relid) ? lock_and_open(relid, AccessShareLock) : NULL;

	if (rel == NULL || !RelFileLocatorEquals(rel->rd_locator, file) ||
		BufTagGetForkNum(tag) != MAIN_FORKNUM || IsCatalogRelation(rel) ||
		(rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_MATVIEW))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d does not hold a block of a user's table of this database", buffer),
				 errdetail("It holds block %u of fork \"%s\" of file %u/%u/%u.", tag->blockNum,
						   forkNames[BufTagGetForkNum(tag)], file.spcOid, file.dbOid, file.relNumber)));
	if (is_used)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("relation \"%s\" is in use in this transaction", RelationGetRelationName(rel)),
				 errhint("Start I/O on its buffers in another transaction.")));

	return rel;
}

static bool
start_shared_io(FunctionCallInfo fcinfo, Buffer buffer, bool for_input, bool wait)
{
	BufferDesc *desc = get_buffer_descriptor(buffer);
	BufferTag	tag = require_block(buffer);
	StartedIO  *io = find_started(buffer);
	Relation	rel;
	bool		is_ours;

	/* replay would wait for us */
	PreventCommandDuringRecovery("buffer_call_start_io()");
	if (io != NULL && wait)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("I/O on buffer %d has already been started by this session", buffer),
				 errdetail("Waiting for it would never end.")));
	require_started_io_allowed(fcinfo);
	rel = open_table_of(buffer, &tag);
	io = place_for(buffer);
	before_session_exits(end_all_at_exit, &watching_exit);

	/* the relation's lock may have been waited for */
	if (!refer_to_buffer(desc, &tag))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffer %d has been given to another block", buffer)));

	PG_ENSURE_ERROR_CLEANUP(drop_reference_at_error, Int32GetDatum(buffer));
	{
		/* others may wait for what we have staged while we wait for them */
		if (wait)
			submit_staged();
		is_ours = start_buffer_io(buffer, for_input, wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(drop_reference_at_error, Int32GetDatum(buffer));

	if (is_ours)
	{
		/* it is to outlive the statement */
		ResourceOwnerForgetBufferIO(CurrentResourceOwner, buffer);
		*io = (StartedIO)
		{
			.buffer = buffer,.tag = tag,.relid = RelationGetRelid(rel),.for_input = for_input
		};
		count_shared(1);
	}
	else
		drop_reference(desc);
	relation_close(rel, AccessShareLock);

	return is_ours;
}

static bool
start_local_io(Buffer buffer, bool for_input, bool wait)
{
	BufferTag	tag = require_block(buffer);
	StartedIO  *io = place_for(buffer);

	if (wait)
		submit_staged();
	if (!start_buffer_io(buffer, for_input, wait))
		return false;
	*io = (StartedIO)
	{
		.buffer = buffer,.tag = tag,.for_input = for_input
	};

	return true;
}

/*
 * Calls StartBufferIO().  Returns true if the session owns the I/O now, until
 * buffer_call_terminate_io() or its end.  Returns false if the block is valid (or,
 * for output, clean) already, or, without "wait", if I/O is in progress.
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
				   start_shared_io(fcinfo, buffer, for_input, wait));
}

bool
buffer_io_is_ours(Buffer buffer)
{
	return find_started(buffer) != NULL;
}

static StartedIO *
require_started(Buffer buffer, bool for_input)
{
	StartedIO  *io = find_started(buffer);

	if (io == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no I/O on buffer %d has been started by this session", buffer),
				 errhint("Start it with buffer_call_start_io().")));
	if (io->for_input != for_input)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("I/O on buffer %d has been started for %s",
						buffer, io->for_input ? "input" : "output")));

	return io;
}

/*
 * Reads the block of started input, so that a buffer that becomes valid has what is
 * in the file.
 */
static void
read_started(const StartedIO *io)
{
	Page		page = BufferGetPage(io->buffer);
	ProcNumber	backend = BufferIsLocal(io->buffer) ? MyProcNumber : INVALID_PROC_NUMBER;
	bool		checksum_failure;

	smgrread(smgropen(BufTagGetRelFileLocator(&io->tag), backend), MAIN_FORKNUM,
			 io->tag.blockNum, page);
	if (!PageIsVerified(page, io->tag.blockNum, 0, &checksum_failure))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid page in block %u of the relation of buffer %d",
						io->tag.blockNum, io->buffer)));
}

/* Writes a block whose output has been started, and ended, by this session. */
static void
write_ended(Buffer buffer, BufferTag tag)
{
	if (!ReadRecentBuffer(BufTagGetRelFileLocator(&tag), BufTagGetForkNum(&tag), tag.blockNum, buffer))
		return;
	/* whoever has the lock may wait for other I/O of this session */
	while (!ConditionalLockBuffer(buffer))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
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
	Buffer		buffer = PG_GETARG_INT32(0);
	bool		for_input = PG_GETARG_BOOL(1);
	bool		succeed = PG_GETARG_BOOL(2);
	bool		io_error = PG_GETARG_BOOL(3);
	bool		release_aio = PG_GETARG_BOOL(4);
	StartedIO  *io;
	BufferTag	tag;

	require_superuser(fcinfo);
	check_buffer_number(buffer);

	io = require_started(buffer, for_input);
	tag = io->tag;

	/*
	 * a read's reference and end are not ours; shared buffers would have made
	 * it wait
	 */
	if (BufferIsLocal(buffer) && pgaio_wref_valid(&get_buffer_descriptor(buffer)->io_wref))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("buffer %d is being read", buffer),
				 errdetail("This session has begun to read into it since the I/O was started.")));

	if (succeed && for_input)
		read_started(io);
	end_io(io, succeed, io_error, release_aio);
	if (succeed && !for_input && !io_error)
		write_ended(buffer, tag);

	PG_RETURN_VOID();
}

/*
 * Returns the relation of a shared buffer on which this session has started I/O for
 * input, and the block that it holds.
 */
Oid
started_input(Buffer buffer, BlockNumber *blockno)
{
	StartedIO  *io;

	check_buffer_number(buffer);
	if (BufferIsLocal(buffer))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("buffer %d is a local buffer", buffer)));
	io = require_started(buffer, true);
	*blockno = io->tag.blockNum;

	return io->relid;
}

/* Forgets I/O that somebody else will end. */
void
hand_over_started(Buffer buffer)
{
	find_started(buffer)->buffer = InvalidBuffer;
	count_shared(-1);
	drop_reference(get_buffer_descriptor(buffer));
}
