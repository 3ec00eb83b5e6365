/*
 * Whether the table of I/O method functions fits this server: structures and
 * functions are compared with those that this library was compiled with.
 */
#include "aio/aio.h"

#include <dlfcn.h>
#ifdef __linux__
#include <link.h>
#endif

/* for a test to pretend otherwise */
#ifndef PG_TEST_AIO_COMPILED_FOR
#define PG_TEST_AIO_COMPILED_FOR PG_VERSION
#endif

bool		io_try_unknown_server = false;

const char *const io_compile_anew_hint = "Compile test_aio anew with this server's header files.";

/* how many handles shared memory has been requested for */
static uint32 expected_handles;

/* Returns the server's version as it is shown to users, for example "19rc1". */
const char *
io_server_version(void)
{
	return GetConfigOption("server_version", false, false);
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
	uint32		chosen = Min(Max(NBuffers / nprocs, 1), 64);

	expected_handles = nprocs * (io_max_concurrency > 0 ? (uint32) io_max_concurrency : chosen);
	return expected_handles;
}

/*
 * Returns why the handles are not where this library's structures say, or NULL.
 * Called when shared memory is set up and no handle has been used.
 */
const char *
io_handles_unavailable(void)
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

		if (ioh->state != PGAIO_HS_IDLE || ioh->flags != 0 || ioh->generation != 1 ||
			ioh->owner_procno != (int32) (i / io_max_concurrency) ||
			ioh->iovec_off != i * io_max_combine_limit || ioh->report_return != NULL)
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

/* Returns the size of a variable or a function of the server's, or 0. */
size_t
io_symbol_size(const void *address pg_attribute_unused())
{
#ifdef IO_METHOD_CAN_BE_CHECKED
	Dl_info		info;
	void	   *found = NULL;

	if (dladdr1(address, &info, &found, RTLD_DL_SYMENT) != 0 && found != NULL)
		return ((ElfW(Sym) *) found)->st_size;
#endif
	return 0;
}

#ifdef IO_METHOD_CAN_BE_CHECKED

/* the server's tables of functions */
static const IoMethodOps *const server_ops[] = {
	[IOMETHOD_SYNC] = &pgaio_sync_ops,
	[IOMETHOD_WORKER] = &pgaio_worker_ops,
#ifdef IOMETHOD_IO_URING_ENABLED
	[IOMETHOD_IO_URING] = &pgaio_uring_ops,
#endif
};

static bool
is_servers_function(void *function)
{
	Dl_info		info;
	Dl_info		server;

	return dladdr(function, &info) != 0 && dladdr((void *) &pgaio_ctl, &server) != 0 &&
		info.dli_fbase == server.dli_fbase;
}

static bool
has_known_layout(void)
{
	const IoMethodOps *ops = pgaio_method_ops;

	return io_symbol_size(ops) == sizeof(IoMethodOps) &&
		io_symbol_size(&aio_shared_buffer_readv_cb) == sizeof(PgAioHandleCallbacks) &&
		is_servers_function((void *) ops->submit) &&
		(ops->wait_one == NULL || is_servers_function((void *) ops->wait_one)) &&
		(ops->needs_synchronous_execution == NULL ||
		 is_servers_function((void *) ops->needs_synchronous_execution));
}

/* Returns whether a version is a release, not a beta or the like. */
static bool
is_release(const char *version)
{
	return strspn(version, "0123456789.") == strcspn(version, " ");
}

/*
 * Compares the version that the library was compiled for with the server's.  Minor
 * releases rarely differ in what matters here, so that is worth a warning;
 * pre-releases do.
 */
static const char *
version_mismatch(void)
{
	const char *compiled_for = PG_TEST_AIO_COMPILED_FOR;
	const char *server = io_server_version();
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
				errmsg("test_aio was compiled for PostgreSQL %s, and this server is %s",
					   compiled_for, server),
				errdetail("The I/O gate and the I/O trace rely on the server's internal structures."),
				errhint("%s", io_compile_anew_hint));
	warned = true;
	return NULL;
}

/*
 * Returns why this server may not be tried, if the library does not know its major
 * version.  Called when everything else that can be checked is as expected.
 */
static const char *
unknown_server(const char **hint)
{
	if (IO_METHOD_KNOWS_SERVER)
		return NULL;

	if (!io_method_has_known_functions())
	{
		*hint = "Use a version of test_aio that knows this server.";
		return psprintf("the I/O methods or callbacks of PostgreSQL %s have functions that test_aio does not know",
						io_server_version());
	}
	if (io_try_unknown_server)
		return NULL;

	*hint = "Set \"test_aio.gate\" to \"try\" and restart the server, or use a version of test_aio that knows it.";
	return psprintf("this server is PostgreSQL %s, and test_aio knows no version after %d",
					io_server_version(), PG_TEST_AIO_LAST_KNOWN);
}

#endif							/* IO_METHOD_CAN_BE_CHECKED */

/*
 * Returns why the table cannot be put into this server, and what mends that; or NULL.
 */
const char *
io_method_unavailable(const char **hint)
{
#if defined(TEST_AIO_NO_GATE)
	*hint = "Compile test_aio without GATE=no.";
	return "test_aio was compiled without the I/O gate and the I/O trace";
#elif !defined(IO_METHOD_CAN_BE_CHECKED)
	*hint = NULL;
	return "the I/O gate and the I/O trace need Linux, glibc and a server that forks";
#else
	const char *reason;

	*hint = io_compile_anew_hint;
	if (io_method >= (int) lengthof(server_ops) || pgaio_method_ops != server_ops[io_method])
		return "the server's I/O method is not one of its own";
	if (!has_known_layout())
		return "the server's I/O methods or callbacks do not have the layout this library was compiled for";
	reason = version_mismatch();
	if (reason != NULL)
		return reason;

	return unknown_server(hint);
#endif
}
