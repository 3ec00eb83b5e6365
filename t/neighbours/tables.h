/*
 * tables.h
 *		A library that changes the protection of the page in which the server's table
 *		of callbacks lies, as if the server had been linked otherwise, and tells it.
 *
 * Its variants say which PROTECTION the page gets.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fmgr.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(tables_protection);

void		_PG_init(void);

void
_PG_init(void)
{
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	page = (uintptr_t) &aio_shared_buffer_readv_cb & ~(page_size - 1);

	if (PROTECTION != PROT_NONE && mprotect((void *) page, page_size, PROTECTION) != 0)
		elog(LOG, "cannot change the protection: %m");
}

/* such as "r--p" */
Datum
tables_protection(PG_FUNCTION_ARGS)
{
	uintptr_t	address = (uintptr_t) &aio_shared_buffer_readv_cb;
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[1024];
	char		flags[5] = "";
	char		found[5] = "";

	(void) fcinfo;
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
	{
		unsigned long begin;
		unsigned long end;

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, flags) == 3 &&
			begin <= address && address < end)
			strlcpy(found, flags, sizeof(found));
	}
	if (maps != NULL)
		fclose(maps);

	PG_RETURN_TEXT_P(cstring_to_text(found));
}
