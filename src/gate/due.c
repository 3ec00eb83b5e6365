/*-------------------------------------------------------------------------
 *
 * due.c
 *		The queue of reads that the worker is to perform when they are due.
 *
 * Reads into local memory, which only their owner can perform, are not in it.
 *
 * All functions are called with the gate's lock.
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "storage/condition_variable.h"

/* pairingheap_comparator: the read that is due first comes first */
int
gate_compare_due(const pairingheap_node *a, const pairingheap_node *b,
				 void *arg pg_attribute_unused())
{
	IoTime		due_a = pairingheap_const_container(GateIo, due_node, a)->due;
	IoTime		due_b = pairingheap_const_container(GateIo, due_node, b)->due;

	return (due_a < due_b) - (due_a > due_b);
}

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
 * Takes the first read that is due by "until".  Returns NULL if there is none.
 */
PgAioHandle *
gate_pop_due(IoTime until)
{
	IoTime		due;
	GateIo	   *io;
	PgAioHandle *ioh;

	if (!gate_next_due(&due) || due > until)
		return NULL;

	io = pairingheap_container(GateIo, due_node, pairingheap_first(&gate->due));
	ioh = &pgaio_ctl->io_handles[io - gate->ios];
	gate_take(ioh, io);

	return ioh;
}

/*
 * Returns whether a read must not wait for its device any longer.
 */
static bool
must_hurry(const GateIo *io)
{
	return gate->closing || io->device < 0 || !gate->devices[io->device].in_use;
}

/*
 * Makes the reads due at once whose devices are no longer in use, or all when the
 * server shuts down.  The owners of those into local memory are woken.
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
