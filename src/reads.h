/*
 * Reads that are built by hand.
 */
#ifndef TEST_AIO_READS_H
#define TEST_AIO_READS_H

#include "test_aio.h"

extern void stage_read(PgAioHandle *ioh, Relation rel, BlockNumber first, const Buffer *buffers,
					   int nblocks, bool zero_on_error, PgAioWaitRef *iow);

#endif							/* TEST_AIO_READS_H */
