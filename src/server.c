/*
 * The library's own file, and whether the server is shutting down.
 */
#include "test_aio.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "utils/pidfile.h"

/* an object of this library, and of no other */
static const char this_library;

/*
 * Returns the file of this library, by an object's address: other files may have its
 * functions.
 */
const char *
library_path(void)
{
	Dl_info		info;

	return dladdr(&this_library, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "test_aio";
}

/*
 * Reads a small file, as a string.  Returns false if there is none.  Allocates nothing.
 */
bool
read_small_file(const char *path, char *contents, size_t size)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t		length;

	if (fd < 0)
		return false;
	length = read(fd, contents, size - 1);
	close(fd);
	contents[Max(length, 0)] = '\0';

	return true;
}

/*
 * Returns whether the postmaster has begun to stop the server.  It says so in
 * its pid file.  Called in critical sections too, so this allocates nothing.
 */
bool
server_is_stopping(void)
{
	char		contents[3 * MAXPGPATH];	/* two of its lines are paths */

	/* it goes away with the postmaster */
	if (!read_small_file("postmaster.pid", contents, sizeof(contents)))
		return errno == ENOENT;

	return strstr(contents, "\n" PM_STATUS_STOPPING "\n") != NULL;
}
