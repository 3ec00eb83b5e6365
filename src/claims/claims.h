/*-------------------------------------------------------------------------
 *
 * claims.h
 *		Buffer I/O that SQL has started and not yet ended.
 *
 * Between the two calls lie other statements, other sessions and perhaps the
 * end of this one.  The server's bookkeeping is per resource owner and cannot
 * stretch so far, hence a table of our own: a claim is an I/O that SQL has
 * started and not yet ended.  It ends at the latest with its session.
 *
 * A claim on a shared buffer keeps the buffer in place as the AIO subsystem does,
 * by a reference that belongs to no backend.  A session that drops the relation
 * would wait for the claim without end, and could not be interrupted.  So the
 * session that claims locks the relation.  No other session can drop, truncate or
 * rewrite it, and the session itself cannot commit such a change.
 *
 * A claim for output makes every process wait that writes the block, without a way
 * to interrupt it: a checkpoint, and the session itself.  So the gate's
 * worker, where there is one, ends such a claim after "test_aio.hold_timeout", and
 * when the server shuts down.
 *
 * Local buffers have no I/O in progress that the server knows of.  A claim on one
 * is only a note, and void when the buffer holds another block.
 *
 *		table.c		claims on shared buffers, in shared memory
 *		locks.c		the locks that a session keeps for its claims
 *		calls.c		the SQL functions, and claims on local buffers
 *
 * src/claims/claims.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_CLAIMS_H
#define TEST_AIO_CLAIMS_H

#include "test_aio.h"

#include "aio/clock.h"

#define MAX_CLAIMS 256

/* On a shared buffer; in shared memory. */
typedef struct SharedClaim
{
	Buffer		buffer;			/* InvalidBuffer: free */
	int			pid;			/* whose claim this is */
	uint64		id;
	bool		for_input;
	bool		pinned;
	bool		started;		/* false while start_buffer_io() may wait */
	IoTime		limit;			/* for output: when it is ended regardless */
} SharedClaim;

typedef struct ClaimTable
{
	slock_t		lock;
	uint64		last_id;
	int			noutput;		/* claims for output; read without lock */
	ProcNumber	watcher;		/* ends them in time */
	SharedClaim claims[MAX_CLAIMS];
} ClaimTable;

/* table.c */
extern ClaimTable *claim_table;
extern void claims_attach(void);
extern void claims_end_with_session(void);
extern SharedClaim *claims_find_started(Buffer buffer);
extern void claims_remove(SharedClaim *claim);
extern bool claims_pin(Buffer buffer);
extern void claims_unpin(Buffer buffer);
extern BufferState claims_end_flags(bool for_input, bool succeed, bool io_error);
extern void claims_end_io(const SharedClaim *claim, bool succeed, bool io_error,
						  bool release_aio);
extern uint64 claims_next_id(void);
extern SharedClaim *claims_reserve(uint64 id, Buffer buffer, bool for_input);
extern void claims_free(SharedClaim *claim);
extern bool claims_exists(uint64 id);
extern void claims_end(uint64 id);

/* locks.c */
extern void claims_watch_transactions(void);
extern void claims_keep_locked(uint64 id, Relation rel, LOCKMODE mode);
extern void claims_release_locks(void);
pg_noreturn extern void claims_raise_too_many(void);

#endif							/* TEST_AIO_CLAIMS_H */
