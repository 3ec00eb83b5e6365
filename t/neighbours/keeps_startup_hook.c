/* Does not call the previous shmem_startup_hook. */
#include "neighbour.h"

static void
shmem_startup(void)
{
}

void
_PG_init(void)
{
	shmem_startup_hook = shmem_startup;
	(void) wrap_table;
}
