/*
 * Carries out the filters of the inj_ functions at the server's injection points,
 * where the gate does not.
 *
 * The injection points see the completion of every I/O, synchronous ones included,
 * but only a server built with --enable-injection-points has them.  The process that
 * completes a read looks at the filters: an I/O worker, the issuing backend, or with
 * io_uring the process that finds the completion in the ring.  That happens in a
 * critical section, where nothing may be allocated and no error raised.
 */
#include "filters/filters.h"

#include "utils/injection_point.h"

#ifdef USE_INJECTION_POINTS

/* the server's limit, which no header tells */
#define LIBRARY_NAME_MAX 127

extern PGDLLEXPORT void test_aio_before_shared_completion(const char *name,
														  const void *private_data,
														  void *arg);
extern PGDLLEXPORT void test_aio_after_reopen(const char *name, const void *private_data,
											  void *arg);

/*
 * Are filters of this kind carried out here, and not about reads of the startup
 * process, which is an auxiliary process, as with the gate?
 */
static bool
is_filtered(FilterKind kind, PgAioHandle *ioh)
{
	return filter_carriers[kind] == CARRIED_BY_INJECTION_POINTS &&
		io_is_read(ioh) && ioh->owner_procno < MaxBackends;
}

/*
 * Holds the calling process until no filter holds the read any more.  The process
 * cannot be interrupted, and cannot complete the reads of others meanwhile.  So the
 * filter holds nothing after its hold timeout, and the process looks once a second
 * whether the server stops.
 */
static void
hold_completion(PgAioHandle *ioh)
{
	const Filter *filter;

	while ((filter = filters_first_match(FILTER_COMPLETION_WAIT, ioh)) != NULL)
	{
		IoTime		left = filter->limits.made + filter->limits.longest - io_now();

		if (left <= 0)
		{
			io_log_hold_expired(ioh->op, &ioh->target_data, io_owner_pid(ioh));
			break;
		}

		/* before the wait, or a stop takes a second for each read */
		if (server_is_stopping())
			break;
		filters_await_change(Min(left / NS_PER_MS + 1, 1000));
	}
	ConditionVariableCancelSleep();
}

/* Replaces the result of a read by the one that a filter has chosen. */
static void
falsify_result(PgAioHandle *ioh)
{
	const Filter *filter = filters_first_match(FILTER_SHORT_READ, ioh);

	if (filter == NULL || !filter->has_result || filter->result >= Max(ioh->result, 0))
		return;

	/* memory of its owner is not there in another process */
	if (filter->result >= 0 && (!io_is_local(ioh) || ioh->owner_procno == MyProcNumber))
		io_zero_rest(ioh, filter->result);
	ioh->result = filter->result;
}

/* InjectionPointCallback: an I/O has ended, nobody has been told yet */
void
test_aio_before_shared_completion(const char *name pg_attribute_unused(),
								  const void *private_data pg_attribute_unused(), void *arg)
{
	PgAioHandle *ioh = arg;

	if (is_filtered(FILTER_COMPLETION_WAIT, ioh))
		hold_completion(ioh);
	if (is_filtered(FILTER_SHORT_READ, ioh))
		falsify_result(ioh);
}

/* InjectionPointCallback: an I/O worker has reopened a file */
void
test_aio_after_reopen(const char *name pg_attribute_unused(),
					  const void *private_data pg_attribute_unused(), void *arg)
{
	PgAioHandle *ioh = arg;

	if (is_filtered(FILTER_REOPEN, ioh) && filters_first_match(FILTER_REOPEN, ioh) != NULL)
		ereport(ERROR,
				errmsg("I/O worker fails to reopen a file, as ordered by inj_io_reopen_attach()"));
}

/*
 * Returns the name under which the server finds this library.  The server
 * looks in pkglibdir only, so for a library that was loaded from elsewhere
 * the name is the path from pkglibdir to the file.
 */
static const char *
library_name(void)
{
	char		library[MAXPGPATH];
	char		pkglibdir[MAXPGPATH];
	const char *name;

	if (realpath(library_path(), library) == NULL ||
		realpath(pkglib_path, pkglibdir) == NULL)
		return NULL;

	library[strlen(library) - strlen(DLSUFFIX)] = '\0';
	if (path_is_prefix_of_path(pkglibdir, library))
		return pstrdup(library + strlen(pkglibdir) + 1);

	name = pstrdup(library + 1);
	for (const char *p = pkglibdir; *p != '\0'; p++)
		if (*p == '/')
			name = psprintf("../%s", name);
	return name;
}

static const Unavailable *
attach_injection_points(void)
{
	static const Unavailable path_too_long = {
		.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		.message = "the server's injection points cannot find test_aio",
		.hint = "Install the library in the server's package library directory, or where the path from there is at most 127 characters long.",
	};
	const char *library = library_name();

	if (library == NULL || strlen(library) > LIBRARY_NAME_MAX)
		return &path_too_long;

	InjectionPointAttach("aio-process-completion-before-shared", library,
						 "test_aio_before_shared_completion", NULL, 0);
	InjectionPointAttach("aio-worker-after-reopen", library, "test_aio_after_reopen", NULL, 0);

	/* processes inherit it; in their critical sections it were too late */
	InjectionPointLoad("aio-process-completion-before-shared");
	InjectionPointLoad("aio-worker-after-reopen");

	return NULL;
}

#else

static const Unavailable *
attach_injection_points(void)
{
	static const Unavailable not_built_in = {
		.sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED,
		.message = "this server has no injection points",
		.hint = "Leave \"test_aio.gate\" on, or use a server that has been built with --enable-injection-points.",
	};

	return &not_built_in;
}

#endif							/* USE_INJECTION_POINTS */

/* Subsystem.begin: attaches to the injection points, if the server has them. */
static void
begin(void)
{
	static const FilterKind kinds[] = {FILTER_COMPLETION_WAIT, FILTER_SHORT_READ, FILTER_REOPEN};
	const Unavailable *unavailable = attach_injection_points();

	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		filter_carriers[kinds[i]] = unavailable == NULL ? CARRIED_BY_INJECTION_POINTS : CARRIED_BY_NOBODY;
		filters_unavailable[kinds[i]] = unavailable;
	}
}

void
injection_points_init(void)
{
	static Subsystem subsystem = {.begin = begin};

	subsystem_register(&subsystem);
}
