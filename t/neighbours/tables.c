/*
 * A library that changes the protection of the page in which the server's table
 * of callbacks lies, as if the server had been linked otherwise, and tells it.
 *
 * The Makefile says which VARIANT it compiles: the protection that the page gets.
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

enum
{
	tables_as_they_are = PROT_NONE, /* it keeps its own */
	tables_executable = PROT_READ | PROT_EXEC,	/* as with -z noseparate-code */
	tables_writable = PROT_READ | PROT_WRITE	/* as with -z norelro */
};

void
_PG_init(void)
{
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	page = (uintptr_t) &aio_shared_buffer_readv_cb & ~(page_size - 1);

	if (VARIANT != PROT_NONE && mprotect((void *) page, page_size, VARIANT) != 0)
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
