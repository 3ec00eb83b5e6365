/*
 * The queue of reads that the worker is to perform when they are due.
 *
 * Reads into local memory, which only their owner can perform, are not in it.
 *
 * All functions are called with the gate's lock.
 */
#include "gate/gate.h"

#include "storage/condition_variable.h"

/*
 * Gets the time at which the first read is due.  Returns false if there is
 * none.
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
 * Returns whether a read must not wait for its device any longer.
 */
static bool
must_hurry(const GateIo *io)
{
	return gate->closing || gate_device_of(io) == NULL;
}

/*
 * Makes the reads due at once whose devices have ended or been replaced, or all when
 * the server shuts down.  The owners of those into local memory are woken.
 */
void
gate_hurry_due(void)
{
	for (int i = 0; i < gate->nios; i++)
	{
		PgAioHandle *ioh = &pgaio_ctl->io_handles[i];
		GateIo	   *io = &gate->ios[i];

		if (io->phase != GATE_DUE || !must_hurry(io))
			continue;
		if (!gate_is_local(ioh))
			pairingheap_remove(&gate->due, &io->due_node);
		io->due = 0;
		if (!gate_is_local(ioh))
			pairingheap_add(&gate->due, &io->due_node);
		ConditionVariableBroadcast(&ioh->cv);
	}
}
