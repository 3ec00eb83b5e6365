/*
 * For LD_PRELOAD: system calls that fail now and then, as they may, and a table of which file was
 * written and which was synced.  The generator maps the same file, $TEST_AIO_BELOW; see below.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536

typedef struct Below
{
	/* so many more calls fail: sync_file_range() with EINTR, an extension of a file with ENOSPC; or, of writes, take long */
	atomic_llong interrupts;
	atomic_llong full;
	atomic_llong slow;
	/* number of the last write; for each file of its last write, of the last one that was synced, and the length then */
	atomic_llong last;
	struct
	{
		atomic_llong inode,
					written,
					synced,
					length;
	}			files[FILES];
} Below;

static Below *below;

__attribute__((constructor)) static void
map_below(void)
{
	const char *path = getenv("TEST_AIO_BELOW");
	int			fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
	{
		void	   *map = mmap(NULL, sizeof(Below), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (map != MAP_FAILED)
			below = map;
		close(fd);
	}
}

/* Defines a function, by both of its names, that calls the library's unless it is to fail, and then does something. */
#define BELOW(type, name, other, parameters, arguments, fails_with, after) \
type \
name parameters \
{ \
	static type (*next) parameters; \
	long long	until = below != NULL ? atomic_load(&below->last) : 0; \
	type		result = fails_with; \
\
	if (next == NULL) \
		next = (__typeof__(next)) dlsym(RTLD_NEXT, #name); \
	if (result == 0) \
		result = next arguments; \
	after; \
	return result; \
} \
type		other parameters __attribute__((alias(#name)))

/* Returns true if a call is to fail, of which "left" are left to do so. */
static int
fails(atomic_llong *left)
{
	return below != NULL && atomic_load(left) > 0 && atomic_fetch_sub(left, 1) > 0;
}

static void
note(const struct stat *file, int is_sync, long long until)
{
	int			at = file->st_ino % FILES;

	if (!S_ISREG(file->st_mode))
		return;
	if (!is_sync)
	{
		/* of a file that takes another one's place, nobody knows how much of it has been synced */
		long long	before = atomic_exchange(&below->files[at].inode, (long long) file->st_ino);

		if (before != (long long) file->st_ino)
			atomic_store(&below->files[at].length, before == 0 ? 0 : INT64_MAX);
		atomic_store(&below->files[at].written, atomic_fetch_add(&below->last, 1) + 1);
	}
	else if (below->files[at].inode == (long long) file->st_ino)
	{
		atomic_store(&below->files[at].length, (long long) file->st_size);
		/* another process may have synced it meanwhile */
		if (below->files[at].synced < until)
			atomic_store(&below->files[at].synced, until);
	}
}

static void
note_write(int fd, int succeeded)
{
	struct stat file;
	int			saved = errno;

	if (below != NULL && succeeded && fstat(fd, &file) == 0)
		note(&file, 0, 0);
	errno = saved;
}

/* Is this the file of a table or an index? */
static int
is_relation(int fd)
{
	char		link[32],
				path[4096];
	ssize_t		length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	return strstr(path, "/base/") != NULL || strstr(path, "/pg_tblspc/") != NULL;
}

/* Returns true if a write of a table or an index would make it longer, and is to find the disk full. */
static int
is_full(int fd, off_t offset)
{
	struct stat file;

	if (below == NULL || atomic_load(&below->full) <= 0 || fstat(fd, &file) != 0 || offset < file.st_size || !is_relation(fd) || !fails(&below->full))
		return 0;
	errno = ENOSPC;
	return 1;
}

static int
is_slow(int fd)
{
	if (below != NULL && atomic_load(&below->slow) > 0 && is_relation(fd) && fails(&below->slow))
		usleep(50000);
	return 0;
}

static int
is_interrupted(void)
{
	if (!fails(&below->interrupts))
		return 0;
	errno = EINTR;
	return -1;
}

static void
note_sync(int fd, long long until, int result)
{
	struct stat file;

	if (below != NULL && result == 0 && fstat(fd, &file) == 0)
		note(&file, 1, until);
}

BELOW(ssize_t, pwrite, pwrite64, (int fd, const void *buffer, size_t length, off_t offset), (fd, buffer, length, offset), is_slow(fd), note_write(fd, result > 0));
BELOW(ssize_t, pwritev, pwritev64, (int fd, const struct iovec *iov, int iovcnt, off_t offset), (fd, iov, iovcnt, offset), is_full(fd, offset) ? -1 : 0, note_write(fd, result > 0));
BELOW(ssize_t, write, below_write, (int fd, const void *buffer, size_t length), (fd, buffer, length), 0, note_write(fd, result > 0));
BELOW(int, posix_fallocate, posix_fallocate64, (int fd, off_t offset, off_t length), (fd, offset, length), is_full(fd, offset) ? ENOSPC : 0, note_write(fd, result == 0));
BELOW(int, ftruncate, ftruncate64, (int fd, off_t length), (fd, length), 0, note_write(fd, result == 0));
BELOW(int, fsync, below_fsync, (int fd), (fd), 0, note_sync(fd, until, result));
BELOW(int, fdatasync, below_fdatasync, (int fd), (fd), 0, note_sync(fd, until, result));
BELOW(int, sync_file_range, below_range, (int fd, off64_t offset, off64_t length, unsigned int flags), (fd, offset, length, flags), is_interrupted(), (void) until);
