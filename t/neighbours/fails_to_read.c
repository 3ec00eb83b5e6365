/*
 * For LD_PRELOAD: has pread() of one file fail with EIO, the one to which the symbolic link
 * $TEST_AIO_UNREADABLE points, while there is such a link.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include "preloaded.h"

typedef ssize_t (*Pread) (int fd, void *buffer, size_t length, off64_t offset);

PRELOADED ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	static Pread next;

	if (is_linked_file(fd, "TEST_AIO_UNREADABLE"))
	{
		errno = EIO;
		return -1;
	}
	if (next == NULL)
		next = (Pread) dlsym(RTLD_NEXT, "pread64");
	return next(fd, buffer, length, offset);
}

PRELOADED ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread64(fd, buffer, length, offset);
}
