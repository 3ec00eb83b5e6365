/*
 * Holding reads, claiming them and completing them.
 *
 * A process that is about to complete a read claims it first, under the lock; then it
 * has the read for itself, and completes it without the lock.
 */
#include "gate/gate.h"

#include "utils/timestamp.h"

/*
 * Begins a hold by a filter.  The caller has the lock.
 */
void
gate_start_hold(GateIo *io, const Filter *filter)
{
	io->phase = GATE_HELD;
	io->hold_limit = io_now() + filter->longest;
	io->since = GetCurrentTimestamp();
	dclist_push_tail(&gate->held, &io->held_node);
}

/*
 * Claims a read that is held or queued: this process completes it now, and nobody else
 * can.  The caller has the lock.
 *
 * From here to gate_complete() there is a critical section: a read that was claimed and
 * not completed would keep its waiters, and the server's end, for ever.
 */
void
gate_claim(PgAioHandle *ioh, GateIo *io)
{
	Assert(LWLockHeldByMeInMode(gate->lock, LW_EXCLUSIVE));

	START_CRIT_SECTION();
	if (io->phase == GATE_HELD)
		dclist_delete_from(&gate->held, &io->held_node);
	else if (!gate_is_local(ioh))
		pairingheap_remove(&gate->due, &io->due_node);
	io->phase = GATE_CLAIMED;
}

/*
 * Performs and completes a read that this process has claimed, not before some moment.
 * What there is to say of the read goes to the server's log, afterwards: a client that
 * does not read its messages would block the process.
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
	END_CRIT_SECTION();

	if (hold_expired)
		io_log_hold_expired(&description);
}
