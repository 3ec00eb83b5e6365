/*-------------------------------------------------------------------------
 *
 * method.c
 *		The table of I/O method functions that takes the place of the server's.
 *
 * The table relies on internal structures, whose layout no server version
 * promises to keep.  io_method_obstacle() looks before the table is installed.
 *
 * It is installed once shared memory is set up.  Another library may then put a
 * table of its own in front of it, or have done so before.
 *
 * src/aio/method.c
 *
 *-------------------------------------------------------------------------
 */
#include "aio/method.h"

#include <dlfcn.h>
#ifdef __linux__
#include <link.h>
#endif

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

/* for a test to pretend otherwise */
#ifndef PG_TEST_AIO_COMPILED_FOR
#define PG_TEST_AIO_COMPILED_FOR PG_VERSION
#endif

const IoMethodOps *io_server_ops;
const IoListener *io_listener;
bool		io_try_unknown_server = false;

const char *const io_compile_anew_hint = "Compile test_aio anew with this server's header files.";

/* how many handles shared memory has been requested for */
static uint32 expected_handles;

static const IoInterceptor *io_interceptor;
static IoMethodOps our_ops;

bool
io_is_captured(PgAioHandle *ioh)
{
	return io_interceptor != NULL && io_interceptor->has(ioh, ioh->generation);
}

bool
io_is_delayed(PgAioHandle *ioh)
{
	return io_is_captured(ioh) && io_interceptor->delays(ioh);
}

static bool
needs_synchronous_execution(PgAioHandle *ioh)
{
	bool		synchronous = false;

	if (io_interceptor == NULL || !io_interceptor->decide(ioh))
		synchronous = io_server_ops->needs_synchronous_execution != NULL &&
			io_server_ops->needs_synchronous_execution(ioh);

	if (io_listener != NULL)
		io_listener->staged(ioh, synchronous);

	return synchronous;
}

static int
submit(uint16 num_staged_ios, PgAioHandle **staged_ios)
{
	if (io_listener != NULL)
		io_listener->submitting(num_staged_ios, staged_ios);
	if (io_interceptor == NULL)
		return io_server_ops->submit(num_staged_ios, staged_ios);

	return io_interceptor->submit(num_staged_ios, staged_ios);
}

/*
 * Waits for a read that an I/O method without wait_one has in hand: the method
 * completes it without our help.
 */
static void
wait_for_method(PgAioHandle *ioh, uint64 generation)
{
	PgAioHandleState state;

	ConditionVariablePrepareToSleep(&ioh->cv);
	while (!pgaio_io_was_recycled(ioh, generation, &state) &&
		   state == PGAIO_HS_SUBMITTED)
		ConditionVariableSleep(&ioh->cv, WAIT_EVENT_AIO_IO_COMPLETION);
	ConditionVariableCancelSleep();
}

static void
wait_for_read(PgAioHandle *ioh, uint64 generation)
{
	if (io_interceptor != NULL && io_interceptor->has(ioh, generation))
		io_interceptor->wait(ioh, generation);
	else if (io_server_ops->wait_one != NULL)
		io_server_ops->wait_one(ioh, generation);
	else
		wait_for_method(ioh, generation);
}

/* An error, or the end of the process, ends the wait for a read. */
static void
wait_ends_early(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	io_listener->wait_ends();
}

/*
 * IoMethodOps.wait_one.  The server may wait within PG_ENSURE_ERROR_CLEANUP(), which
 * wants the exit callbacks at its end to be those at its beginning.
 */
static void
wait_one(PgAioHandle *ioh, uint64 ref_generation)
{
	if (io_listener == NULL)
	{
		wait_for_read(ioh, ref_generation);
		return;
	}

	if (io_listener->wait_begins(ioh, ref_generation))
	{
		PG_ENSURE_ERROR_CLEANUP(wait_ends_early, (Datum) 0);
		{
			wait_for_read(ioh, ref_generation);
		}
		PG_END_ENSURE_ERROR_CLEANUP(wait_ends_early, (Datum) 0);
	}
	else
		wait_for_read(ioh, ref_generation);

	io_listener->wait_ends();
}

#ifdef IO_METHOD_HAS_CHECK_ONE
static void
check_one(PgAioHandle *ioh, uint64 ref_generation)
{
	bool		captured = io_interceptor != NULL &&
		io_interceptor->has(ioh, ref_generation);

	if (io_server_ops->check_one != NULL && !captured)
		io_server_ops->check_one(ioh, ref_generation);
}
#endif

/*
 * Returns the server's version as it is shown to users, for example "19rc1".
 */
static const char *
server_version(void)
{
	return GetConfigOption("server_version", false, false);
}

/*
 * Installs our table of functions instead of the server's.  Our table begins as a
 * copy: shared memory callbacks and properties stay what they are.
 */
static void
install(void)
{
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
				(errmsg("test_aio tries PostgreSQL %s, and knows no version after %d",
						server_version(), PG_TEST_AIO_LAST_KNOWN),
				 errdetail("\"test_aio.gate\" is \"try\", and all that can be checked is as expected.")));
}

void
io_set_interceptor(const IoInterceptor *interceptor)
{
	io_interceptor = interceptor;
	install();
}

void
io_set_listener(const IoListener *listener)
{
	io_listener = listener;
	install();
}

/*
 * Returns how many AIO handles the server is going to have.  The server itself
 * chooses io_max_concurrency only when shared memory has been requested; this is
 * its formula (AioChooseMaxConcurrency).
 */
uint32
io_expected_handles(void)
{
	uint32		nprocs = MaxBackends + NUM_AUXILIARY_PROCS;
	uint32		concurrency = io_max_concurrency;

	if (io_max_concurrency <= 0)
		concurrency = Min(Max(NBuffers / nprocs, 1), 64);

	expected_handles = nprocs * concurrency;
	return expected_handles;
}

/*
 * Returns why the handles are not where the structures say that this library was
 * compiled with, or NULL.  Called when shared memory is set up and no handle has
 * been used.
 */
const char *
io_handles_obstacle(void)
{
	uint32		nprocs = MaxBackends + NUM_AUXILIARY_PROCS;

	if (pgaio_ctl == NULL || pgaio_ctl->io_handles == NULL)
		return "the server has no AIO handles";
	if (pgaio_ctl->io_handle_count != nprocs * io_max_concurrency ||
		pgaio_ctl->io_handle_count > expected_handles)
		return "the server does not have the expected number of AIO handles";

	for (uint32 i = 0; i < pgaio_ctl->io_handle_count; i++)
	{
		const PgAioHandle *ioh = &pgaio_ctl->io_handles[i];

		if (ioh->state != PGAIO_HS_IDLE || ioh->flags != 0 ||
			ioh->generation != 1 ||
			ioh->owner_procno != (int32) (i / io_max_concurrency) ||
			ioh->iovec_off != i * io_max_combine_limit ||
			ioh->report_return != NULL)
			return "the server's AIO handles do not have the layout this library was compiled for";
	}

	for (uint32 i = 0; i < nprocs; i++)
	{
		PgAioBackend *backend = &pgaio_ctl->backend_state[i];
		dlist_node *in_flight = &backend->in_flight_ios.dlist.head;

		/* an empty list points at itself, so it is where we think it is */
		if (backend->io_handle_off != i * io_max_concurrency ||
			dclist_count(&backend->idle_ios) != (uint32) io_max_concurrency ||
			in_flight->next != in_flight || in_flight->prev != in_flight)
			return "the per-process AIO state does not have the layout this library was compiled for";
	}

	return NULL;
}

/*
 * Returns the table of functions that belongs to the server's io_method, or
 * NULL.
 */
static const IoMethodOps *
expected_ops(void)
{
	switch (io_method)
	{
		case IOMETHOD_SYNC:
			return &pgaio_sync_ops;
		case IOMETHOD_WORKER:
			return &pgaio_worker_ops;
#ifdef IOMETHOD_IO_URING_ENABLED
		case IOMETHOD_IO_URING:
			return &pgaio_uring_ops;
#endif
		default:
			return NULL;
	}
}

#ifdef IO_METHOD_CAN_BE_CHECKED

/*
 * Returns whether a function belongs to the server's program.
 */
static bool
is_servers_function(void *function)
{
	Dl_info		info;
	Dl_info		server;

	return dladdr(function, &info) != 0 &&
		dladdr((void *) &pgaio_ctl, &server) != 0 &&
		info.dli_fbase == server.dli_fbase;
}

/*
 * Returns whether a variable of the server's is as large as its declaration
 * says.
 */
static bool
has_size(const void *variable, size_t size)
{
	Dl_info		info;
	void	   *found = NULL;

	return dladdr1(variable, &info, &found, RTLD_DL_SYMENT) != 0 &&
		found != NULL && ((ElfW(Sym) *) found)->st_size == size;
}

static bool
has_known_layout(void)
{
	const IoMethodOps *ops = pgaio_method_ops;

	return has_size(ops, sizeof(IoMethodOps)) &&
		has_size(&aio_shared_buffer_readv_cb, sizeof(PgAioHandleCallbacks)) &&
		is_servers_function((void *) ops->submit) &&
		(ops->wait_one == NULL ||
		 is_servers_function((void *) ops->wait_one)) &&
		(ops->needs_synchronous_execution == NULL ||
		 is_servers_function((void *) ops->needs_synchronous_execution));
}

#else

static bool
has_known_layout(void)
{
	return false;
}

#endif							/* IO_METHOD_CAN_BE_CHECKED */

/*
 * Returns whether a version is a release, not a beta or the like.
 */
static bool
is_release(const char *version)
{
	return strspn(version, "0123456789.") == strcspn(version, " ");
}

/*
 * Compares the version that the library was compiled for with the server's.
 * Two minor releases are rarely different in what matters here, so that is
 * worth a warning; two pre-releases often are.
 */
static const char *
version_obstacle(void)
{
	const char *compiled_for = PG_TEST_AIO_COMPILED_FOR;
	const char *server = server_version();
	size_t		length = strlen(compiled_for);
	static bool warned = false;

	/* a packager may have added something to it, after a space */
	if (strncmp(compiled_for, server, length) == 0 && strchr(" ", server[length]) != NULL)
		return NULL;

	if (!is_release(compiled_for) || !is_release(server))
		return psprintf("this server is %s and test_aio was compiled for %s, and pre-releases differ",
						server, compiled_for);

	if (!warned)
		ereport(WARNING,
				(errmsg("test_aio was compiled for PostgreSQL %s, and this server is %s",
						compiled_for, server),
				 errdetail("The I/O gate and the I/O trace rely on the server's internal structures."),
				 errhint("%s", io_compile_anew_hint)));
	warned = true;
	return NULL;
}

/*
 * Returns why this server may not be tried, if the library does not know its major
 * version.  Called when everything else that can be checked is as expected.
 */
static const char *
unknown_server_obstacle(const char **hint)
{
	if (IO_METHOD_KNOWS_SERVER)
		return NULL;

	if (!io_method_has_known_functions())
	{
		*hint = "Use a version of test_aio that knows this server.";
		return psprintf("the I/O methods or callbacks of PostgreSQL %s have functions that test_aio does not know",
						server_version());
	}
	if (io_try_unknown_server)
		return NULL;

	*hint = "Set \"test_aio.gate\" to \"try\" and restart the server, or use a version of test_aio that knows it.";
	return psprintf("this server is PostgreSQL %s, and test_aio knows no version after %d",
					server_version(), PG_TEST_AIO_LAST_KNOWN);
}

/*
 * Returns why the table cannot be put into this server, and what mends that; or
 * NULL.
 */
const char *
io_method_obstacle(const char **hint)
{
	const char *reason;

#ifdef TEST_AIO_NO_GATE
	*hint = "Compile test_aio without GATE=no.";
	return "test_aio was compiled without the I/O gate and the I/O trace";
#endif
#ifndef IO_METHOD_CAN_BE_CHECKED
	*hint = NULL;
	return "the I/O gate and the I/O trace need Linux, glibc and a server that forks";
#endif

	*hint = io_compile_anew_hint;
	if (pgaio_method_ops == NULL || pgaio_method_ops != expected_ops())
		return "the server's I/O method is not one of its own";
	if (!has_known_layout())
		return "the server's I/O methods or callbacks do not have the layout this library was compiled for";
	reason = version_obstacle();
	if (reason != NULL)
		return reason;

	return unknown_server_obstacle(hint);
}
