/*
 * For LD_PRELOAD: has pread() of one file fail with EIO, the one to which the symbolic link
 * $TEST_AIO_UNREADABLE points, while there is such a link.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* PGXS hides what is not marked */
#define PRELOADED __attribute__((visibility("default")))

typedef ssize_t (*Pread) (int fd, void *buffer, size_t length, off64_t offset);

static int
is_unreadable(int fd)
{
	const char *link = getenv("TEST_AIO_UNREADABLE");
	struct stat unreadable,
				file;

	return link != NULL && stat(link, &unreadable) == 0 && fstat(fd, &file) == 0 &&
		file.st_dev == unreadable.st_dev && file.st_ino == unreadable.st_ino;
}

PRELOADED ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	static Pread next;

	if (is_unreadable(fd))
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
