/*
 * What the libraries for LD_PRELOAD have in common: functions in place of the C library's that
 * read at an offset.  They call before_read(), which each library defines.  The server must not be
 * linked with these libraries, so they have no magic block.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* PGXS hides what is not marked */
#define PRELOADED __attribute__((visibility("default")))

/*
 * Called before each read of a file.  Returns 0, or the errno with which the read fails.
 */
static int	before_read(int fd);

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
	int			error = before_read(fd);

	if (error != 0)
		errno = error;
	return error == 0;
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
