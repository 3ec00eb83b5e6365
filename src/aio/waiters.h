/*
 * Who waits for an I/O.
 */
#ifndef TEST_AIO_WAITERS_H
#define TEST_AIO_WAITERS_H

#include "test_aio.h"

extern int	io_waiters(PgAioHandle *ioh, int *pids, int max);
extern bool io_is_waiter(PgAioHandle *ioh, ProcNumber procno);
extern bool io_awaits_submission(uint32 wait_event);

#endif							/* TEST_AIO_WAITERS_H */
