/*
 * The table of I/O method functions that takes the place of the server's.
 *
 * It relies on internal structures, at which layout.c looks first, and is installed
 * once shared memory is set up.  Another library may put a table of its own in front
 * of it, or have done so before.
 */
#include "aio/aio.h"

const IoMethodOps *io_server_ops;
const IoInterceptor *io_interceptor;
const IoListener *io_listener;
static IoMethodOps our_ops;

bool
io_is_intercepted(PgAioHandle *ioh, uint64 generation)
{
	return io_interceptor != NULL && io_interceptor->has_intercepted(ioh, generation);
}

bool
io_is_delayed(PgAioHandle *ioh, uint64 generation)
{
	return io_is_intercepted(ioh, generation) && io_interceptor->has_delayed(ioh);
}

/* Returns whether the I/O method leaves a read to the process that stages it. */
bool
io_method_refuses(PgAioHandle *ioh)
{
	return io_server_ops->needs_synchronous_execution != NULL &&
		io_server_ops->needs_synchronous_execution(ioh);
}

static bool
needs_synchronous_execution(PgAioHandle *ioh)
{
	bool		synchronous = (io_interceptor == NULL || !io_interceptor->intercept(ioh)) && io_method_refuses(ioh);

	if (io_listener != NULL)
		io_listener->staged(ioh, synchronous);

	return synchronous;
}

static int
submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	if (io_listener != NULL)
		io_listener->submitting(num_staged_ios, staged_ios);
	return (io_interceptor != NULL ? io_interceptor->submit : io_server_ops->submit) (num_staged_ios, staged_ios);
}

static void
wait_for_read(PgAioHandle *ioh, uint64 generation)
{
	PgAioHandleState state;

	if (io_is_intercepted(ioh, generation))
		io_interceptor->wait(ioh, generation);
	else if (io_server_ops->wait_one != NULL)
		io_server_ops->wait_one(ioh, generation);
	else
	{
		/* the I/O method completes it without our help */
		ConditionVariablePrepareToSleep(&ioh->cv);
		while (!pgaio_io_was_recycled(ioh, generation, &state) && state == PGAIO_HS_SUBMITTED)
			ConditionVariableSleep(&ioh->cv, WAIT_EVENT_AIO_IO_COMPLETION);
		ConditionVariableCancelSleep();
	}
}

/* IoMethodOps.wait_one */
static void
wait_one(PgAioHandle *ioh, uint64 ref_generation)
{
	IoWait		wait;
	bool		is_told = io_listener != NULL && io_listener->wait_begins(ioh, ref_generation, &wait);

	wait_for_read(ioh, ref_generation);
	if (is_told)
		io_listener->wait_ends(&wait);
}

#ifdef IO_METHOD_HAS_CHECK_ONE
static void
check_one(PgAioHandle *ioh, uint64 ref_generation)
{
	if (io_server_ops->check_one != NULL && !io_is_intercepted(ioh, ref_generation))
		io_server_ops->check_one(ioh, ref_generation);
}
#endif

/*
 * Has an interceptor or a listener (NULL: as before) take part.  Installs our table of
 * functions, which begins as a copy of the server's: shared memory callbacks and
 * properties stay what they are.
 */
void
io_install(const IoInterceptor *interceptor, const IoListener *listener)
{
	if (interceptor != NULL)
		io_interceptor = interceptor;
	if (listener != NULL)
		io_listener = listener;
	if (io_server_ops != NULL)
		return;

	io_server_ops = pgaio_method_ops;

	our_ops = *io_server_ops;
	our_ops.needs_synchronous_execution = needs_synchronous_execution;
	our_ops.submit = submit;
	our_ops.wait_one = wait_one;
#ifdef IO_METHOD_HAS_CHECK_ONE
	our_ops.check_one = check_one;
#endif

	pgaio_method_ops = &our_ops;

	if (!IO_METHOD_KNOWS_SERVER)
		ereport(LOG,
				errmsg("test_aio tries PostgreSQL %s, and knows no version after %d",
					   io_server_version(), PG_TEST_AIO_LAST_KNOWN),
				errdetail("\"test_aio.gate\" is \"try\", and all that can be checked is as expected."));
}
