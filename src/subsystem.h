/*
 * Parts of the library that begin when shared memory is set up.
 */
#ifndef TEST_AIO_SUBSYSTEM_H
#define TEST_AIO_SUBSYSTEM_H

#include "test_aio.h"

#define MAX_SUBSYSTEMS 5

/* Why something cannot be done in this server. */
typedef struct Unavailable
{
	int			sqlerrcode;
	const char *message;
	const char *reason;			/* or NULL */
	const char *hint;			/* or NULL */
} Unavailable;

typedef struct Subsystem
{
	const char *name;			/* in messages, such as "I/O gate" */
	const char *memory;			/* name of its shared memory, or NULL */
	bool		has_lock;		/* a lock of the same name, given to set_up() */
	void	  **address;		/* where it keeps the address of that memory */
	Size		size;			/* or by the number of handles, of AIO and
								 * io_calls: */
	Size		(*size_for) (uint32 nhandles);
	/* fills the zeroed memory in, once; nhandles is 0 if it has a fixed size */
	void		(*set_up) (uint32 nhandles, LWLock *lock);
	/* called in the postmaster when the memory is there; or NULL */
	void		(*begin) (void);

	Unavailable unavailable;	/* why it is not there */
} Subsystem;

/* what "unavailable" begins as */
#define UNAVAILABLE_UNLESS_PRELOADED(what) { \
	.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, \
	.message = what, \
	.reason = "test_aio was not preloaded", \
	.hint = "Add test_aio to \"shared_preload_libraries\" and restart the server.", \
}

/* while the library is preloaded */
extern void subsystem_register(Subsystem *subsystem);
extern void subsystem_disable(Subsystem *subsystem, const char *reason, const char *hint);

/* at any time */
pg_noreturn extern void raise_unavailable(const Unavailable *unavailable);
extern void require_subsystem(FunctionCallInfo fcinfo, Subsystem *subsystem);
extern Row *begin_view(FunctionCallInfo fcinfo, Subsystem *subsystem);

#endif							/* TEST_AIO_SUBSYSTEM_H */
