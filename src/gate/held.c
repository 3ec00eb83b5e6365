/*
 * Holding reads, taking them and completing them.
 *
 * A process that is about to complete a read takes it first, under the gate's
 * lock; then it has the read for itself, and completes it without the lock.
 */
#include "gate/gate.h"

#include "aio/perform.h"
#include "miscadmin.h"
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
	io->hold_limit = now + io->effect.longest;
	io->since = GetCurrentTimestamp();
	io->held_index = gate->nheld;
	gate->held[gate->nheld++] = ioh - pgaio_ctl->io_handles;
	if (counts_as_stopped(ioh, io))
		gate->nstopped++;
}

/*
 * Takes a read that is held or to become due: this process completes it now, and
 * nobody else can.  The caller has the lock.
 *
 * From here on nothing may fail, end the process, wait for another process or
 * write to a client, until gate_complete() has completed the read.  So interrupts
 * are held from here to there.
 */
void
gate_take(PgAioHandle *ioh, GateIo *io)
{
	Assert(LWLockHeldByMeInMode(gate->lock, LW_EXCLUSIVE));
	HOLD_INTERRUPTS();

	if (io->phase == GATE_HELD)
	{
		uint32		last = gate->held[--gate->nheld];

		gate->held[io->held_index] = last;
		gate->ios[last].held_index = io->held_index;
		if (counts_as_stopped(ioh, io))
			gate->nstopped--;
	}
	else if (!gate_is_local(ioh))
		pairingheap_remove(&gate->due, &io->due_node);
	io->phase = GATE_TAKEN;
}

/*
 * Performs and completes a read that this process has taken, not before some
 * moment.  What there is to say of the read goes to the server's log, afterwards:
 * a client that does not read its messages would block the process.
 */
void
gate_complete(PgAioHandle *ioh, IoTime not_before)
{
	const GateIo *io = gate_io(ioh);
	bool		hold_expired = io->hold_expired;
	IoDescription description;

	if (hold_expired)
		io_describe(ioh, &description);
	io_perform(ioh, io->has_result, io->result, not_before);
	RESUME_INTERRUPTS();

	if (hold_expired)
		io_log_hold_expired(&description);
}
