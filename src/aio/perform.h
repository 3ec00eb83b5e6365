/*
 * Performing and completing intercepted reads, in any process; and the results
 * that a read can be given.
 */
#ifndef TEST_AIO_PERFORM_H
#define TEST_AIO_PERFORM_H

#include "test_aio.h"

#include "aio/clock.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"

/* the largest number that Linux uses for an errno */
#define MAX_ERRNO			4095

/* this process completes reads in the place of an I/O worker */
extern bool io_acts_as_worker;

/* what a message says of a read, whose handle may be in use for another one by then */
typedef struct IoDescription
{
	PgAioTargetData target;
	int			owner;			/* pid */
} IoDescription;

/*
 * Has messages go to the server's log alone until whereToSendOutput is set to what
 * this returns.  A client that does not read would block this process.
 */
static inline CommandDest
io_silence_client(void)
{
	CommandDest dest = whereToSendOutput;

	whereToSendOutput = DestNone;

	return dest;
}

extern void io_describe(PgAioHandle *ioh, IoDescription *description);
extern void io_log_hold_expired(const IoDescription *description);
extern void io_perform(PgAioHandle *ioh, bool has_result, int32 result,
					   IoTime not_before);
extern void io_perform_at_submission(PgAioHandle *ioh, bool has_result, int32 result);
extern void io_zero_rest(PgAioHandle *ioh, size_t length);
extern void check_io_result(int32 result);

#endif							/* TEST_AIO_PERFORM_H */
