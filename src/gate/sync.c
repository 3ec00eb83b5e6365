/*-------------------------------------------------------------------------
 *
 * sync.c
 *		Capturing reads that never get to an I/O method.
 *
 * The server executes a read itself, without asking the I/O method, if the
 * reader has flagged it as synchronous: it is going to wait at once anyway.
 * That are single-block reads, such as those of indexes and catalogs, and with
 * io_method=sync all buffered reads.
 *
 * There is one place in between that can be got at: the callback by which the
 * buffer manager stages a read.  Its table is constant, so its memory has to be
 * made writable for a moment, in the postmaster before it has any children.
 * That is done only if asked for by "test_aio.reach_synchronous_reads".
 *
 * src/gate/sync.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "gate/constant.h"
#include "storage/bufmgr.h"

static PgAioHandleCallbackStage server_stage_shared;
static PgAioHandleCallbackStage server_stage_local;

/* the batch that a captured synchronous read was staged in goes on */
static bool batch_interrupted;

/*
 * Lets a synchronous read that is to be captured take the way of the others.
 * Its reader does not expect it to be left in a batch.
 */
static void
capture_synchronous(PgAioHandle *ioh)
{
	/* there is none if it has found something amiss after all */
	if (gate == NULL || likely(gate->active == 0) ||
		!(ioh->flags & PGAIO_HF_SYNCHRONOUS) || !gate_decide(ioh))
		return;

	ioh->flags &= ~PGAIO_HF_SYNCHRONOUS;
	if (pgaio_my_backend->in_batchmode)
	{
		pgaio_my_backend->in_batchmode = false;
		batch_interrupted = true;
	}
}

/*
 * Called after the submission.
 */
void
gate_resume_batch(void)
{
	if (batch_interrupted)
	{
		batch_interrupted = false;
		pgaio_my_backend->in_batchmode = true;
	}
}

static void
stage_shared(PgAioHandle *ioh, uint8 cb_data)
{
	server_stage_shared(ioh, cb_data);
	capture_synchronous(ioh);
}

static void
stage_local(PgAioHandle *ioh, uint8 cb_data)
{
	server_stage_local(ioh, cb_data);
	capture_synchronous(ioh);
}

/*
 * Returns why that cannot be done, or NULL.
 */
const char *
gate_reach_synchronous_reads(void)
{
	server_stage_shared = aio_shared_buffer_readv_cb.stage;
	server_stage_local = aio_local_buffer_readv_cb.stage;
	if (server_stage_shared == NULL || server_stage_local == NULL)
		return "the server stages buffer reads in another way than those it was compiled for";

	if (!replace_stage(&aio_shared_buffer_readv_cb.stage, stage_shared) ||
		!replace_stage(&aio_local_buffer_readv_cb.stage, stage_local))
		return psprintf("the server's table of callbacks cannot be written to: %m");

	return NULL;
}
