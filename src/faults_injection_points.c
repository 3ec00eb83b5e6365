/*-------------------------------------------------------------------------
 *
 * faults_injection_points.c
 *		The server's injection points as the place where faults take effect.
 *
 * They see the completion of every I/O, synchronous ones included, but only a
 * server built with --enable-injection-points has them.
 *
 * src/faults_injection_points.c
 *
 *-------------------------------------------------------------------------
 */
#include "faults.h"

#include <dlfcn.h>

#include "miscadmin.h"
#include "utils/injection_point.h"

#ifdef USE_INJECTION_POINTS

/* the server's limit, which no header tells */
#define LIBRARY_NAME_MAX 127

extern PGDLLEXPORT void test_aio_before_shared_completion(const char *name,
														  const void *private_data,
														  void *arg);
extern PGDLLEXPORT void test_aio_after_reopen(const char *name,
											  const void *private_data,
											  void *arg);

/* InjectionPointCallback: an I/O has ended, nobody has been told yet */
void
test_aio_before_shared_completion(const char *name pg_attribute_unused(),
								  const void *private_data pg_attribute_unused(),
								  void *arg)
{
	PgAioHandle *ioh = arg;

	hold_completion(ioh);
	falsify_result(ioh);
}

/* InjectionPointCallback: an I/O worker has reopened a file */
void
test_aio_after_reopen(const char *name pg_attribute_unused(),
					  const void *private_data pg_attribute_unused(),
					  void *arg pg_attribute_unused())
{
	fail_reopen();
}

/*
 * The name under which the server finds this very library.  It looks in
 * pkglibdir only, so for a library that has been loaded from elsewhere the
 * name is the way there from pkglibdir.
 */
static bool
get_library_name(char *name, size_t size)
{
	Dl_info		info;
	char		library[MAXPGPATH];
	char		pkglibdir[MAXPGPATH];
	StringInfoData path;

	if (dladdr((void *) test_aio_before_shared_completion, &info) == 0 ||
		realpath(info.dli_fname, library) == NULL ||
		realpath(pkglib_path, pkglibdir) == NULL)
		return false;

	library[strlen(library) - strlen(DLSUFFIX)] = '\0';

	initStringInfo(&path);
	if (strncmp(library, pkglibdir, strlen(pkglibdir)) == 0 &&
		library[strlen(pkglibdir)] == '/')
		appendStringInfoString(&path, library + strlen(pkglibdir) + 1);
	else
	{
		for (const char *p = pkglibdir; *p != '\0'; p++)
		{
			if (*p == '/')
				appendStringInfoString(&path, path.len == 0 ? ".." : "/..");
		}
		appendStringInfoString(&path, library);
	}

	return strlcpy(name, path.data, size) < size;
}

/*
 * Attaches a function to an injection point, and loads it so that the server's
 * processes inherit it: it is called in critical sections, where it would be
 * too late for that.
 */
static void
attach_callback(const char *point, const char *library, const char *function)
{
	InjectionPointAttach(point, library, function, NULL, 0);
	InjectionPointLoad(point);
}

const FaultObstacle *
attach_injection_points(void)
{
	static const FaultObstacle path_too_long = {
		.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		.message = "the server's injection points cannot find test_aio",
		.hint = "Install the library in the server's package library directory, or nearer to it: the way there must not be longer than 127 characters.",
	};
	char		library[LIBRARY_NAME_MAX + 1];

	if (!get_library_name(library, sizeof(library)))
		return &path_too_long;

	attach_callback("aio-process-completion-before-shared", library,
					"test_aio_before_shared_completion");
	attach_callback("aio-worker-after-reopen", library, "test_aio_after_reopen");

	return NULL;
}

#else

const FaultObstacle *
attach_injection_points(void)
{
	static const FaultObstacle not_built_in = {
		.sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED,
		.message = "this server has no injection points",
		.hint = "Leave \"test_aio.gate\" on, or use a server that has been built with --enable-injection-points.",
	};

	return &not_built_in;
}

#endif							/* USE_INJECTION_POINTS */
