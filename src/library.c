/*-------------------------------------------------------------------------
 *
 * library.c
 *		The library itself: which copy of it works in this server, whether its
 *		version is the extension's, and errors about what it cannot do here.
 *
 * The server may find several copies: one is preloaded by its path, say, and
 * another is where CREATE EXTENSION looks.  Only one of them may put itself into
 * the server.
 *
 * src/library.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include <dlfcn.h>

#include "access/htup_details.h"
#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* the copy of the library that was preloaded; shared by all copies */
#define RENDEZVOUS "test_aio preloaded copy"

Obstacle	not_preloaded = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "test_aio must be loaded via \"shared_preload_libraries\"",
	.reason = "test_aio was not preloaded",
	.hint = "Add test_aio to \"shared_preload_libraries\" and restart the server.",
};

/*
 * Raises the error that tells of an obstacle.
 */
void
raise_obstacle(const Obstacle *obstacle)
{
	ereport(ERROR,
			(errcode(obstacle->sqlerrcode),
			 errmsg("%s", obstacle->message),
			 obstacle->reason ? errdetail("The reason is that %s.", obstacle->reason) : 0,
			 obstacle->hint ? errhint("%s", obstacle->hint) : 0));
}

/*
 * Returns the file that this library was loaded from.
 *
 * This looks up the address of a static object.  A function's name may be found in
 * another library: the dynamic linker takes the first one loaded.
 */
const char *
library_path(void)
{
	static const char lies_here;
	Dl_info		info;

	if (dladdr(&lies_here, &info) == 0 || info.dli_fname == NULL)
		return "test_aio";
	return info.dli_fname;
}

/*
 * Records that another copy of the library was preloaded, and this one does
 * without its gate, filters and trace.
 */
static void
stay_behind(const char *preloaded)
{
	not_preloaded.reason =
		MemoryContextStrdup(TopMemoryContext,
							psprintf("another copy of the library was preloaded, from \"%s\"", preloaded));
	not_preloaded.hint = "Preload the copy that CREATE EXTENSION finds, or remove one.";

	if (process_shared_preload_libraries_in_progress)
		ereport(WARNING,
				(errmsg("test_aio is preloaded already, from \"%s\"", preloaded),
				 errdetail("The copy \"%s\" does without its gate, filters and trace.",
						   library_path())));
}

/*
 * Registers this copy as the one that puts itself into the server.  Returns false
 * if it is not being preloaded, or another copy is that one.
 */
bool
library_begins(void)
{
	const char **preloaded = (const char **) find_rendezvous_variable(RENDEZVOUS);

	if (*preloaded != NULL)
	{
		/*
		 * both would take the place of the server's functions, and define
		 * settings
		 */
		stay_behind(*preloaded);
		return false;
	}
	if (!process_shared_preload_libraries_in_progress)
		return false;
	*preloaded = MemoryContextStrdup(TopMemoryContext, library_path());

	return true;
}

/*
 * Returns the version of the extension in this database, or NULL if there is no
 * extension, because somebody has made its functions by hand.
 */
static char *
extension_version(void)
{
	HeapTuple	tuple = SearchSysCache1(EXTENSIONNAME, CStringGetDatum("test_aio"));
	char	   *version;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	version = TextDatumGetCString(SysCacheGetAttrNotNull(EXTENSIONNAME, tuple,
														 Anum_pg_extension_extversion));
	ReleaseSysCache(tuple);

	return version;
}

/*
 * Returns whether version a, such as 1.10, is older than version b, such as 1.9.
 */
static bool
version_is_older(const char *a, const char *b)
{
	int			a_major = 0,
				a_minor = 0,
				b_major = 0,
				b_minor = 0;

	(void) sscanf(a, "%d.%d", &a_major, &a_minor);
	(void) sscanf(b, "%d.%d", &b_major, &b_minor);

	return a_major < b_major || (a_major == b_major && a_minor < b_minor);
}

/*
 * Raises an error unless the library and the SQL script that made its functions
 * are of the same version.  Their arguments and results may differ otherwise.
 */
void
require_same_version(void)
{
	char	   *version = extension_version();

	if (version == NULL)
		return;
	if (strcmp(version, PG_TEST_AIO_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library of test_aio %s cannot serve extension of version %s",
						PG_TEST_AIO_VERSION, version),
				 errdetail("The library is \"%s\".", library_path()),
				 version_is_older(version, PG_TEST_AIO_VERSION) ?
				 errhint("Run \"ALTER EXTENSION test_aio UPDATE\" in this database.") :
				 errhint("Install test_aio %s, and restart the server if the library is preloaded.", version)));
	pfree(version);
}
