/*-------------------------------------------------------------------------
 *
 * held.c
 *		The list of held reads, and taking reads.
 *
 * A process that is about to complete a read takes it first, under the gate's
 * lock; then it has the read for itself, and completes it without the lock.
 *
 * src/gate/held.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "utils/timestamp.h"

static bool
counts_as_stopped(PgAioHandle *ioh, const GateIo *io)
{
	return gate_is_injected(io) && !gate_is_local(ioh);
}

/*
 * Begins a hold that was decided upon.  The caller has the lock.
 */
void
gate_start_hold(PgAioHandle *ioh, GateIo *io, IoTime now)
{
	io->phase = GATE_HELD;
	io->hold_limit = now + io->verdict.longest;
	io->since = GetCurrentTimestamp();
	io->held_index = gate->nheld;
	gate->held[gate->nheld++] = ioh - pgaio_ctl->io_handles;
	if (counts_as_stopped(ioh, io))
		gate->nstopped++;
}

/*
 * Takes a read that is held or to become due.  The caller has the lock.
 */
void
gate_take(PgAioHandle *ioh, GateIo *io)
{
	if (io->phase == GATE_HELD)
	{
		uint32		last = gate->held[--gate->nheld];

		gate->held[io->held_index] = last;
		gate->ios[last].held_index = io->held_index;
		if (counts_as_stopped(ioh, io))
			gate->nstopped--;
	}
	io->phase = GATE_PASSED;
}
