/* Wraps the table of the I/O method after the other shmem_startup_hooks. */
#include "neighbour.h"

static shmem_startup_hook_type prev_shmem_startup_hook;

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	wrap_table();
}

void
_PG_init(void)
{
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}
