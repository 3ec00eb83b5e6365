/*
 * Taking part in the server's callbacks on buffered reads.
 *
 * The callbacks see what no I/O method sees: synchronous reads, and the
 * completion of every read.
 */
#ifndef TEST_AIO_CALLBACKS_H
#define TEST_AIO_CALLBACKS_H

#include "test_aio.h"

/* The buffer manager has staged a read.  Called in the order of registration. */
typedef void (*IoStageHook) (PgAioHandle *ioh);

/* md.c has looked at the raw result; then the buffer manager at the pages. */
typedef struct IoCompletionHooks
{
	void		(*begins) (PgAioHandle *ioh, PgAioResult result);
	void		(*ends) (PgAioHandle *ioh, PgAioResult result);
} IoCompletionHooks;

/* in the postmaster; they return why not, or NULL */
extern const char *io_on_stage(IoStageHook hook);
extern const char *io_on_completion(const IoCompletionHooks *hooks);

#endif							/* TEST_AIO_CALLBACKS_H */
