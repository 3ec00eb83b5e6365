/*
 * Buffer I/O that sessions have started by SQL.
 */
#ifndef TEST_AIO_BUFFER_IO_H
#define TEST_AIO_BUFFER_IO_H

#include "test_aio.h"

#include "aio/clock.h"

extern bool buffer_io_is_ours(Buffer buffer);
extern IoTime end_overdue_buffer_io(IoTime now);

#endif							/* TEST_AIO_BUFFER_IO_H */
