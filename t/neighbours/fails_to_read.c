/*
 * For LD_PRELOAD: has reads of one file fail with EIO, the one to which the symbolic link
 * $TEST_AIO_UNREADABLE points, while there is such a link.
 */
#define _GNU_SOURCE
#include "preloaded.h"

static int
before_read(int fd)
{
	return is_linked_file(fd, "TEST_AIO_UNREADABLE") ? EIO : 0;
}
