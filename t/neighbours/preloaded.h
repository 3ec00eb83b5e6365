/*
 * What the libraries for LD_PRELOAD have in common.  The server must not be linked with
 * them, so they have no magic block.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

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
