/*
 * Reads that are held or to become due: taking them and completing them.
 *
 * A process that is about to complete a read takes it first, under the gate's
 * lock; then it has the read for itself, and completes it without the lock.
 *
 * Reads into local memory, which only their owner can perform, are not in the queue of
 * reads that the worker is to perform when they are due.
 */
#include "gate/gate.h"

#include "aio/perform.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
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

/*
 * Gets the time at which the first read is due.  Returns false if there is none.  The
 * caller has the lock.
 */
bool
gate_next_due(IoTime *due)
{
	if (pairingheap_is_empty(&gate->due))
		return false;
	*due = pairingheap_container(GateIo, due_node, pairingheap_first(&gate->due))->due;
	return true;
}

/*
 * Returns the first read that is due by "until", for the caller to take, or NULL.
 * The caller has the lock.
 */
PgAioHandle *
gate_first_due(IoTime until)
{
	IoTime		due;

	if (!gate_next_due(&due) || due > until)
		return NULL;

	return &pgaio_ctl->io_handles[pairingheap_container(GateIo, due_node, pairingheap_first(&gate->due)) - gate->ios];
}

/*
 * Makes the reads due at once whose devices have ended or been replaced, or all when
 * the server shuts down.  The owners of those into local memory are woken.  The caller
 * has the lock.
 */
void
gate_hurry_due(void)
{
	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		GateIo	   *io = &gate->ios[i];

		if (io->phase != GATE_DUE || (!gate->closing && gate_device_of(io) != NULL))
			continue;
		if (!gate_is_local(ioh))
			pairingheap_remove(&gate->due, &io->due_node);
		io->due = 0;
		if (!gate_is_local(ioh))
			pairingheap_add(&gate->due, &io->due_node);
		ConditionVariableBroadcast(&ioh->cv);
	}
}
