/*
 * For LD_PRELOAD: functions in place of the C library's that read at an offset.  While there is a
 * symbolic link $TEST_AIO_UNREADABLE, reads of the file to which it points fail with EIO.  While
 * there is one $TEST_AIO_STOPS, I/O workers stand still before they read its file.  The server must
 * not be linked with this library, so it has no magic block.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "miscadmin.h"

/* other programs than the server do not have it */
#pragma weak MyBackendType

#define LOOK_EVERY_US 1000

/* PGXS hides what is not marked */
#define PRELOADED __attribute__((visibility("default")))

/*
 * Returns whether a file is the one to which a symbolic link points, whose path is in this
 * variable of the environment.  No file is, while there is no such link.
 */
static bool
is_linked_file(int fd, const char *variable)
{
	const char *link = getenv(variable);
	struct stat linked,
				file;

	return link != NULL && stat(link, &linked) == 0 && fstat(fd, &file) == 0 &&
		file.st_dev == linked.st_dev && file.st_ino == linked.st_ino;
}

static bool
may_read(int fd)
{
	if (&MyBackendType != NULL && MyBackendType == B_IO_WORKER)
		while (is_linked_file(fd, "TEST_AIO_STOPS"))
			usleep(LOOK_EVERY_US);
	if (!is_linked_file(fd, "TEST_AIO_UNREADABLE"))
		return true;
	errno = EIO;
	return false;
}

PRELOADED ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	static ssize_t (*next) (int, void *, size_t, off64_t);

	if (!may_read(fd))
		return -1;
	if (next == NULL)
		next = dlsym(RTLD_NEXT, "pread64");
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
	static ssize_t (*next) (int, const struct iovec *, int, off64_t);

	if (!may_read(fd))
		return -1;
	if (next == NULL)
		next = dlsym(RTLD_NEXT, "preadv64");
	return next(fd, iov, iovcnt, offset);
}

PRELOADED ssize_t
preadv(int fd, const struct iovec *iov, int iovcnt, off_t offset)
{
	return preadv64(fd, iov, iovcnt, offset);
}
