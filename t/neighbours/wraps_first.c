/* Wraps the table of the I/O method before the other shmem_startup_hooks run. */
#include "neighbour.h"

static shmem_startup_hook_type prev_shmem_startup_hook;

static void
shmem_startup(void)
{
	wrap_table();
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
}

void
_PG_init(void)
{
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}
