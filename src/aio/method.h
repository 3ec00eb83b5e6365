/*
 * The module's place between the AIO subsystem and its I/O method.
 *
 * The server calls its I/O method through pgaio_method_ops, an exported pointer
 * to a table of functions.  This module puts a table of its own there.  The
 * table passes every call on, and lets two parties take part: an interceptor
 * (the gate), which may keep a read from the I/O method, and a listener (the
 * trace), which is told what happens to reads.
 */
#ifndef TEST_AIO_METHOD_H
#define TEST_AIO_METHOD_H

#include "test_aio.h"

#include "aio/clock.h"

/*
 * Keeps reads from the I/O method.  Every function is called in the process
 * that stages, submits or waits for the read; submit in a critical section.
 */
typedef struct IoInterceptor
{
	/*
	 * Returns whether to intercept this staged read.  Repeated calls give the
	 * same answer.
	 */
	bool		(*intercept) (PgAioHandle *ioh);
	/* returns whether this use of a handle has been intercepted */
	bool		(*has_intercepted) (PgAioHandle *ioh, uint64 generation);
	/* returns whether this intercepted read is or was held or on a device */
	bool		(*has_delayed) (PgAioHandle *ioh);
	/* takes the intercepted ones, gives the others to io_server_ops */
	int			(*submit) (uint16 num_staged_ios, PgAioHandle **staged_ios);
	/* waits until an intercepted read is no longer in flight */
	void		(*wait) (PgAioHandle *ioh, uint64 generation);
} IoInterceptor;

/* A process's wait for a read, as a listener keeps it. */
typedef struct IoWait
{
	uint64		seq;
	IoTime		start;
	int			place;
} IoWait;

/*
 * Is told what happens to reads.  It allocates nothing and raises no error.
 */
typedef struct IoListener
{
	/* this process has staged a read; a synchronous one is executed next */
	void		(*staged) (PgAioHandle *ioh, bool synchronous);
	/* this process submits what it has staged */
	void		(*submitting) (uint16 num_staged_ios, PgAioHandle **staged_ios);

	/*
	 * This process waits.  False: wait_ends is not called; nor is it when an
	 * error or the end of the process ends the wait.
	 */
	bool		(*wait_begins) (PgAioHandle *ioh, uint64 generation, IoWait *wait);
	void		(*wait_ends) (const IoWait *wait);
} IoListener;

/* the table that the server would use without us */
extern const IoMethodOps *io_server_ops;

/* NULL if nobody listens */
extern const IoListener *io_listener;

/* may a server of an unknown major version be tried?  set before the next three */
extern bool io_try_unknown_server;

/* in the postmaster: while the library is preloaded */
extern const char *io_method_unavailable(const char **hint);
extern const char *const io_compile_anew_hint;
extern const char *io_server_version(void);
extern uint32 io_expected_handles(void);

/* in the postmaster: once shared memory is set up */
extern const char *io_handles_unavailable(void);
extern void io_set_interceptor(const IoInterceptor *interceptor);
extern void io_set_listener(const IoListener *listener);

extern bool io_is_intercepted(PgAioHandle *ioh);
extern bool io_is_delayed(PgAioHandle *ioh, uint64 generation);

#endif							/* TEST_AIO_METHOD_H */
