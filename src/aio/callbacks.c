/*
 * Replaces functions in the server's tables of functions.
 *
 * The tables are constant, so their memory is made writable for a moment, in the
 * postmaster before it has any children, and gets back the protection that it had.
 */
#include "aio/aio.h"

#include <sys/mman.h>
#include <unistd.h>

#include "storage/md.h"

static PgAioHandleCallbackStage server_stage_shared;
static PgAioHandleCallbackStage server_stage_local;
static PgAioHandleCallbackComplete server_complete_md;
static PgAioHandleCallbackComplete server_complete_shared;
static PgAioHandleCallbackComplete server_complete_local;

/*
 * The buffer manager stages a read.  The interceptor comes first: a synchronous read
 * that it takes is traced as an asynchronous one.
 */
static void
stage(PgAioHandle *ioh, uint8 cb_data)
{
	(io_is_local(ioh) ? server_stage_local : server_stage_shared) (ioh, cb_data);
	if (io_interceptor != NULL)
		io_interceptor->intercept_synchronous(ioh);
	if (io_listener != NULL && (ioh->flags & PGAIO_HF_SYNCHRONOUS))
		io_listener->staged(ioh, true);
}

static PgAioResult
complete_md(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data)
{
	PgAioResult result = server_complete_md(ioh, prior_result, cb_data);

	if (io_listener != NULL)
		io_listener->completion_begins(ioh, result);
	return result;
}

static PgAioResult
complete(PgAioHandle *ioh, PgAioResult prior_result, uint8 cb_data)
{
	PgAioResult result = (io_is_local(ioh) ? server_complete_local : server_complete_shared) (ioh, prior_result, cb_data);

	if (io_listener != NULL)
		io_listener->completion_ends(ioh, result);
	return result;
}

/* Returns the protection of an address, as mprotect takes it, or -1. */
static int
protection_of(uintptr_t address)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[MAXPGPATH + 128];
	int			protection = -1;

	if (maps == NULL)
		return -1;
	while (protection < 0 && fgets(line, sizeof(line), maps) != NULL)
	{
		unsigned long begin;
		unsigned long end;
		char		flags[5];

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, flags) != 3 ||
			address < begin || address >= end)
			continue;
		protection = (flags[0] == 'r' ? PROT_READ : 0) |
			(flags[1] == 'w' ? PROT_WRITE : 0) |
			(flags[2] == 'x' ? PROT_EXEC : 0);
	}
	fclose(maps);

	return protection;
}

/*
 * Writes a function pointer into memory that is meant to be constant.  Returns
 * why not, or NULL.
 *
 * A page that is executable holds code too (as in a server linked with
 * -z noseparate-code), perhaps the very code that runs here.  A page that is
 * writable anyway (-z norelro) is written to as it is.
 */
const char *
io_replace_pointer(const void *where, const void *pointer)
{
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	first = (uintptr_t) where & ~(page_size - 1);
	int			protection = protection_of((uintptr_t) where);

	if (protection < 0)
		return "/proc/self/maps does not tell how the server's tables of functions are protected";
	if (protection & PROT_EXEC)
		return "the server's tables of functions are in executable memory";

	if (!(protection & PROT_WRITE) &&
		mprotect((void *) first, page_size, protection | PROT_WRITE) != 0)
		return psprintf("the server's tables of functions cannot be written to: %m");
	memcpy((void *) where, &pointer, sizeof(pointer));
	if (!(protection & PROT_WRITE) && mprotect((void *) first, page_size, protection) != 0)
		return psprintf("the server's tables of functions cannot be protected again: %m");

	return NULL;
}

/*
 * Has the interceptor and the listener see synchronous reads.  Returns why not, or NULL.
 */
const char *
io_see_synchronous(void)
{
	static const char *reason = NULL;

	/* what did not succeed the first time is not tried again */
	if (server_stage_shared != NULL || reason != NULL)
		return reason;

	server_stage_shared = aio_shared_buffer_readv_cb.stage;
	server_stage_local = aio_local_buffer_readv_cb.stage;
	if (server_stage_shared == NULL || server_stage_local == NULL)
		return reason = "the server does not stage buffered reads by callbacks";

	reason = io_replace_pointer(&aio_shared_buffer_readv_cb.stage, stage);
	if (reason == NULL)
		reason = io_replace_pointer(&aio_local_buffer_readv_cb.stage, stage);

	return reason;
}

/* Has the listener see completions where they are.  Returns why not, or NULL. */
const char *
io_see_completions(void)
{
	const char *reason;

	server_complete_md = aio_md_readv_cb.complete_shared;
	server_complete_shared = aio_shared_buffer_readv_cb.complete_shared;
	server_complete_local = aio_local_buffer_readv_cb.complete_local;
	if (server_complete_md == NULL || server_complete_shared == NULL ||
		server_complete_local == NULL)
		return "the server does not complete buffered reads by the callbacks that test_aio knows";

	reason = io_replace_pointer(&aio_md_readv_cb.complete_shared, complete_md);
	if (reason == NULL)
		reason = io_replace_pointer(&aio_shared_buffer_readv_cb.complete_shared, complete);
	if (reason == NULL)
		reason = io_replace_pointer(&aio_local_buffer_readv_cb.complete_local, complete);

	return reason;
}
