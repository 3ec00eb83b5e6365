/*
 * A library that stands beside test_aio in shared_preload_libraries.
 *
 * Its variants put a table of their own into pgaio_method_ops, which passes
 * everything on to the table that it finds there, or take a hook for shared memory and
 * do not call the previous one.  The Makefile says which VARIANT it compiles.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/aio_internal.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(neighbour_calls);

void		_PG_init(void);

enum
{
	wraps_at_once,				/* while it is preloaded */
	wraps_last,					/* after all other shmem_startup_hooks */
	keeps_request_hook			/* does not call the previous hook */
};

static shmem_startup_hook_type prev_shmem_startup_hook;

static const IoMethodOps *next_ops;
static IoMethodOps own_ops;
static int64 calls;

/* how often this process has come through the table */
Datum
neighbour_calls(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	PG_RETURN_INT64(calls);
}

static bool
needs_synchronous_execution(PgAioHandle *ioh)
{
	calls++;
	return next_ops->needs_synchronous_execution != NULL &&
		next_ops->needs_synchronous_execution(ioh);
}

static int
submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	return next_ops->submit(num_staged_ios, staged_ios);
}

static void
wrap_table(void)
{
	if (next_ops != NULL)
		return;
	next_ops = pgaio_method_ops;
	own_ops = *next_ops;
	own_ops.needs_synchronous_execution = needs_synchronous_execution;
	own_ops.submit = submit;
	pgaio_method_ops = &own_ops;
}

static void
shmem_request(void)
{
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	wrap_table();
}

void
_PG_init(void)
{
	if (VARIANT == wraps_at_once)
		wrap_table();
	else if (VARIANT == keeps_request_hook)
		shmem_request_hook = shmem_request;
	else
	{
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = shmem_startup;
	}
}
