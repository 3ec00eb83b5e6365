/*
 * _PG_init(): starts the subsystems of the library.
 *
 * Most functions work when their first call loads the library.  Interfering with the
 * reads of other processes takes shared memory and code in each, hence preloading.
 */
#include "test_aio.h"

PG_MODULE_MAGIC_EXT(
					.name = "test_aio",
					.version = PG_TEST_AIO_VERSION
);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	filters_init();
	injection_points_init();
	gate_init();
	buffer_io_init();
	trace_init();
	writes_init();
	MarkGUCPrefixReserved("test_aio");
}
