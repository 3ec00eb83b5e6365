/*
 * For LD_PRELOAD: has I/O workers stand still before they read one file, the one to which
 * the symbolic link $TEST_AIO_STOPS points, until there is no such link.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "preloaded.h"

/* other programs than the server do not have it */
#pragma weak MyBackendType

#define LOOK_EVERY_US 1000

static int
before_read(int fd)
{
	if (&MyBackendType != NULL && MyBackendType == B_IO_WORKER)
		while (is_linked_file(fd, "TEST_AIO_STOPS"))
			usleep(LOOK_EVERY_US);
	return 0;
}
