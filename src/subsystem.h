/*
 * Parts of the library that begin when shared memory is set up: the filters, the gate,
 * the trace.
 */
#ifndef PART_H
#define PART_H

#include "test_aio.h"

#include "storage/lwlock.h"

#define MAX_SUBSYSTEMS 4

typedef struct Subsystem
{
	const char *name;			/* in messages, such as "I/O gate" */
	const char *memory;			/* name of its shared memory and of its lock,
								 * NULL if it has none */
	void	  **address;		/* where it keeps the address of that memory */

	/*
	 * does the size depend on the number of AIO handles?  Otherwise nhandles
	 * is 0.
	 */
	bool		by_handles;
	Size		(*size) (uint32 nhandles);
	/* fills the memory in, once */
	void		(*set_up) (uint32 nhandles, LWLock *lock);
	/* called in the postmaster when the memory is there; or NULL */
	void		(*begin) (void);

	Unavailable unavailable;	/* why it is not there */
} Subsystem;

/* while the library is preloaded */
extern void subsystem_register(Subsystem *subsystem);
extern void subsystem_disable(Subsystem *subsystem, const char *reason, const char *hint);

/* at any time */
extern const Unavailable *subsystem_unavailable(Subsystem *subsystem);
extern void require_subsystem(Subsystem *subsystem);

#endif							/* PART_H */
