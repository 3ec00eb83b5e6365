/* Wraps the table of the I/O method while it is preloaded. */
#include "neighbour.h"

void
_PG_init(void)
{
	wrap_table();
}
