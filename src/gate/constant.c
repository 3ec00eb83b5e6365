/*-------------------------------------------------------------------------
 *
 * constant.c
 *		Changing function pointers in memory that is meant to be constant.
 *
 * The server's tables of callbacks are constant, so their memory has to be made
 * writable for a moment.  That is done in the postmaster, before it has any
 * children, and only if a setting asks for it.
 *
 * src/gate/constant.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/constant.h"

#include <sys/mman.h>
#include <unistd.h>

/*
 * Allows or forbids writing to the pages of a function pointer.
 */
static bool
set_protection(const void *where, int protection)
{
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	first = (uintptr_t) where & ~(page_size - 1);
	uintptr_t	end = (uintptr_t) where + sizeof(void (*) (void));

	return mprotect((void *) first, end - first, protection) == 0;
}

/*
 * Both return false, and leave errno, if that is not possible.
 */
bool
replace_stage(const PgAioHandleCallbackStage *where, PgAioHandleCallbackStage stage)
{
	if (!set_protection(where, PROT_READ | PROT_WRITE))
		return false;
	*(PgAioHandleCallbackStage *) where = stage;
	return set_protection(where, PROT_READ);
}

bool
replace_complete(const PgAioHandleCallbackComplete *where,
				 PgAioHandleCallbackComplete complete)
{
	if (!set_protection(where, PROT_READ | PROT_WRITE))
		return false;
	*(PgAioHandleCallbackComplete *) where = complete;
	return set_protection(where, PROT_READ);
}
