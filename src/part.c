/*-------------------------------------------------------------------------
 *
 * part.c
 *		Start-up of the parts of the library, and why one is not there.
 *
 * A part that cannot work in this server stays out and says why.  The rest of
 * the library does without it.
 *
 * src/part.c
 *
 *-------------------------------------------------------------------------
 */
#include "part.h"

#include <dlfcn.h>

#include "aio/method.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

const Obstacle not_preloaded = {
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	.message = "test_aio must be loaded via \"shared_preload_libraries\"",
	.reason = "test_aio was not preloaded",
	.hint = "Add test_aio to \"shared_preload_libraries\" and restart the server.",
};

/* in the order in which they begin */
static Part *parts[MAX_PARTS];
static int	nparts;
static bool memory_requested = false;

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

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
 * Returns the file that this library was loaded from: by the address of an object,
 * as another library may have a function of the same name.
 */
const char *
library_path(void)
{
	Dl_info		info;

	return dladdr(&parts, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "test_aio";
}

static void
record_obstacle(Part *part, const char *reason, const char *hint)
{
	/* what is allocated here now, other processes lose */
	part->obstacle.reason = MemoryContextStrdup(TopMemoryContext, reason);
	part->obstacle.hint = hint;
}

/*
 * Records why a part does not work in this server and what mends it, and logs
 * the reason.
 */
void
part_stays_out(Part *part, const char *reason, const char *hint)
{
	record_obstacle(part, reason, hint);
	ereport(LOG,
			(errmsg("test_aio: the %s stays out: %s", part->name, reason)));
}

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < nparts; i++)
	{
		Part	   *part = parts[i];

		if (part->memory == NULL)
			continue;
		RequestAddinShmemSpace(part->size(part->by_handles ? io_expected_handles() : 0));
		RequestNamedLWLockTranche(part->memory, 1);
	}
	memory_requested = true;
}

/*
 * Gives a part its shared memory.  Returns false if it cannot work in this server.
 */
static bool
set_up_memory(Part *part)
{
	const char *reason = part->by_handles ? io_handles_obstacle() : NULL;
	uint32		nhandles;
	bool		found;

	*part->address = NULL;
	if (reason != NULL)
	{
		part_stays_out(part, reason, io_compile_anew_hint);
		return false;
	}

	nhandles = part->by_handles ? pgaio_ctl->io_handle_count : 0;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	*part->address = ShmemInitStruct(part->memory, part->size(nhandles), &found);
	if (!found)
		part->set_up(nhandles, &GetNamedLWLockTranche(part->memory)->lock);
	LWLockRelease(AddinShmemInitLock);

	return true;
}

static void
begin_parts(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	/* another library may not have called our other hook */
	if (!memory_requested)
		return;
	for (int i = 0; i < nparts; i++)
	{
		Part	   *part = parts[i];

		if (part->memory != NULL && !set_up_memory(part))
			continue;
		if (part->begin != NULL)
			part->begin();
	}
}

/*
 * Registers a part, which begins after those that were registered before.  Called
 * while the library is preloaded.
 */
void
part_register(Part *part)
{
	/* unless the hooks are called, which is up to other libraries */
	record_obstacle(part, "its shared memory was not set up",
					"Does another library in \"shared_preload_libraries\" not call the previous shmem_request_hook or shmem_startup_hook?");

	if (nparts == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_memory;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = begin_parts;
	}
	Assert(nparts < MAX_PARTS);
	parts[nparts++] = part;
}

/*
 * Returns why a part is not there.
 */
const Obstacle *
part_obstacle(Part *part)
{
	if (part->obstacle.reason == NULL)
	{
		part->obstacle.reason = not_preloaded.reason;
		part->obstacle.hint = not_preloaded.hint;
	}
	return &part->obstacle;
}

/*
 * Raises an error unless a part is there.
 */
void
require_part(Part *part)
{
	if (*part->address == NULL)
		raise_obstacle(part_obstacle(part));
}
