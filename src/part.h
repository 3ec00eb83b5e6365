/*-------------------------------------------------------------------------
 *
 * part.h
 *		Parts of the library that begin when shared memory is set up: the filters, the gate,
 *		the trace.
 *
 * src/part.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PART_H
#define PART_H

#include "test_aio.h"

#include "storage/lwlock.h"

#define MAX_PARTS 4

typedef struct Part
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

	Obstacle	obstacle;		/* why it is not there */
} Part;

/* while the library is preloaded */
extern void part_register(Part *part);
extern void part_stays_out(Part *part, const char *reason, const char *hint);

/* at any time */
extern const Obstacle *part_obstacle(Part *part);
extern void require_part(Part *part);

#endif							/* PART_H */
