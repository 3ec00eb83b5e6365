/* Does not call the previous shmem_request_hook. */
#include "neighbour.h"

#include "miscadmin.h"

static void
shmem_request(void)
{
}

void
_PG_init(void)
{
	shmem_request_hook = shmem_request;
	(void) wrap_table;
}
