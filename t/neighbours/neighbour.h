/*
 * neighbour.h
 *		A library that stands beside test_aio in shared_preload_libraries.
 *
 * Its variants put a table of their own into pgaio_method_ops, which passes
 * everything on to the table that it finds there, or take a hook for shared memory and
 * do not call the previous one.
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/aio_internal.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(neighbour_calls);

void		_PG_init(void);

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

static inline void
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
