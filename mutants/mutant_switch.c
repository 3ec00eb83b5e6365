/* Becomes a part of the server's aio.c, which every process has. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int			mutant_on = 0;

static unsigned char unshared[MUTANTS + 1];
unsigned char *mutants_reached = unshared;

__attribute__((constructor)) static void
mutant_switch_init(void)
{
	const char *number = getenv("MUTANT");
	const char *path = getenv("MUTANTS_REACHED");

	if (number)
		mutant_on = atoi(number);
	if (path)
	{
		int			fd = open(path, O_RDWR | O_CREAT, 0666);

		/* a point that is reached unseen would never be tried */
		if (fd < 0 || ftruncate(fd, sizeof(unshared)) != 0)
			abort();
		mutants_reached = mmap(NULL, sizeof(unshared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (mutants_reached == MAP_FAILED)
			abort();
		close(fd);
	}
}
