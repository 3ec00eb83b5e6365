/*
 * For LD_PRELOAD: has I/O workers stand still before they read one file, the one to which
 * the symbolic link $TEST_AIO_STOPS points, until there is no such link.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include "miscadmin.h"
#include "preloaded.h"

/* other programs than the server do not have it */
#pragma weak MyBackendType

#define LOOK_EVERY_US 1000

typedef ssize_t (*Pread) (int fd, void *buffer, size_t length, off64_t offset);
typedef ssize_t (*Preadv) (int fd, const struct iovec *iov, int iovcnt, off64_t offset);

static void
stand_still(int fd)
{
	if (&MyBackendType == NULL || MyBackendType != B_IO_WORKER)
		return;
	while (is_linked_file(fd, "TEST_AIO_STOPS"))
		usleep(LOOK_EVERY_US);
}

PRELOADED ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	static Pread next;

	stand_still(fd);
	if (next == NULL)
		next = (Pread) dlsym(RTLD_NEXT, "pread64");
	return next(fd, buffer, length, offset);
}

PRELOADED ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread64(fd, buffer, length, offset);
}

PRELOADED ssize_t
preadv64(int fd, const struct iovec *iov, int iovcnt, off64_t offset)
{
	static Preadv next;

	stand_still(fd);
	if (next == NULL)
		next = (Preadv) dlsym(RTLD_NEXT, "preadv64");
	return next(fd, iov, iovcnt, offset);
}

PRELOADED ssize_t
preadv(int fd, const struct iovec *iov, int iovcnt, off_t offset)
{
	return preadv64(fd, iov, iovcnt, offset);
}
