/*
 * The clock that all processes share, for deadlines and for traces.
 */
#ifndef TEST_AIO_CLOCK_H
#define TEST_AIO_CLOCK_H

#include <time.h>

/* nanoseconds of CLOCK_MONOTONIC */
typedef int64 IoTime;

#define IO_TIME_NEVER		PG_INT64_MAX
#define NS_PER_MS			INT64CONST(1000000)
#define NS_PER_S			INT64CONST(1000000000)

static inline IoTime
io_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif							/* TEST_AIO_CLOCK_H */
