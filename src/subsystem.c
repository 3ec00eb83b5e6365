/*
 * Start-up of the subsystems of the library.
 *
 * One that cannot work in this server is disabled and says why; the rest does without
 * it.
 */
#include "subsystem.h"

#include "aio/aio.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

/* in the order in which they begin */
static Subsystem *subsystems[MAX_SUBSYSTEMS];
static int	nsubsystems;
static bool memory_requested = false;

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

void
raise_unavailable(const Unavailable *unavailable)
{
	ereport(ERROR, errcode(unavailable->sqlerrcode),
			errmsg("%s", unavailable->message),
			unavailable->reason ? errdetail("The reason is that %s.", unavailable->reason) : 0,
			unavailable->hint ? errhint("%s", unavailable->hint) : 0);
}

/* Records and logs why a subsystem does not work in this server, and what mends it. */
void
subsystem_disable(Subsystem *subsystem, const char *reason, const char *hint)
{
	/* what is allocated here now, other processes lose */
	subsystem->unavailable.reason = MemoryContextStrdup(TopMemoryContext, reason);
	subsystem->unavailable.hint = hint;
	ereport(LOG, errmsg("test_aio: the %s is disabled: %s", subsystem->name, reason));
}

static Size
memory_size(const Subsystem *subsystem, uint32 nhandles)
{
	return subsystem->size_for != NULL ? subsystem->size_for(nhandles) : subsystem->size;
}

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < nsubsystems; i++)
	{
		Subsystem  *subsystem = subsystems[i];

		if (subsystem->memory == NULL)
			continue;
		RequestAddinShmemSpace(memory_size(subsystem, io_expected_handles() + IO_MAX_PROCESSES));
		if (subsystem->has_lock)
			RequestNamedLWLockTranche(subsystem->memory, 1);
	}
	memory_requested = true;
}

/*
 * Gives a subsystem its shared memory.  Returns false if it cannot work in this server.
 */
static bool
set_up_memory(Subsystem *subsystem)
{
	bool		by_handles = subsystem->size_for != NULL;
	const char *reason = by_handles ? io_handles_unavailable() : NULL;
	uint32		nhandles;
	Size		size;
	bool		found;

	*subsystem->address = NULL;
	if (reason != NULL)
	{
		subsystem_disable(subsystem, reason, io_compile_anew_hint);
		return false;
	}

	nhandles = by_handles ? pgaio_ctl->io_handle_count + IO_MAX_PROCESSES : 0;
	size = memory_size(subsystem, nhandles);
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	*subsystem->address = ShmemInitStruct(subsystem->memory, size, &found);
	if (!found)
	{
		memset(*subsystem->address, 0, size);
		subsystem->set_up(nhandles, subsystem->has_lock ?
						  &GetNamedLWLockTranche(subsystem->memory)->lock : NULL);
	}
	LWLockRelease(AddinShmemInitLock);

	return true;
}

static void
begin_subsystems(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	/* another library may not have called our other hook */
	if (!memory_requested)
		return;
	for (int i = 0; i < nsubsystems; i++)
	{
		Subsystem  *subsystem = subsystems[i];

		if (subsystem->memory != NULL && !set_up_memory(subsystem))
			continue;
		if (subsystem->begin != NULL)
			subsystem->begin();
	}
}

/* Registers a subsystem, which begins after the earlier ones, during preloading. */
void
subsystem_register(Subsystem *subsystem)
{
	/* unless the hooks are called, which is up to other libraries */
	subsystem->unavailable.reason = "its shared memory was not set up";
	subsystem->unavailable.hint = "Does another library in \"shared_preload_libraries\" not call the previous shmem_request_hook or shmem_startup_hook?";

	if (nsubsystems == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_memory;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = begin_subsystems;
	}
	Assert(nsubsystems < MAX_SUBSYSTEMS);
	subsystems[nsubsystems++] = subsystem;
}

/*
 * Raises an error unless a subsystem is there, and the caller may change what it does.
 */
void
require_subsystem(FunctionCallInfo fcinfo, Subsystem *subsystem)
{
	require_superuser(fcinfo);
	if (*subsystem->address == NULL)
		raise_unavailable(&subsystem->unavailable);
}

/*
 * Begins the rows of a view, or raises an error unless the subsystem that it shows is
 * there, and the caller may look at what it does.
 */
Row *
begin_view(FunctionCallInfo fcinfo, Subsystem *subsystem)
{
	require_monitor(fcinfo);
	if (*subsystem->address == NULL)
		raise_unavailable(&subsystem->unavailable);
	return row_begin(fcinfo);
}
