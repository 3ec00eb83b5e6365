/*-------------------------------------------------------------------------
 *
 * due.c
 *		The queue of reads that the worker is to perform when they are due.
 *
 * It is a heap.  A read that another process performs leaves its entry behind,
 * which is passed over when its turn comes.  Reads into local memory, which only
 * their owner can perform, are not in the queue.
 *
 * All functions are called with the gate's lock.
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "storage/condition_variable.h"

static bool
is_earlier(const GateDue *a, const GateDue *b)
{
	return a->due < b->due;
}

static void
swap_due(int a, int b)
{
	GateDue		due = gate->due[a];

	gate->due[a] = gate->due[b];
	gate->due[b] = due;
}

static void
sift_up(int i)
{
	while (i > 0 && is_earlier(&gate->due[i], &gate->due[(i - 1) / 2]))
	{
		swap_due(i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
}

static void
sift_down(int i)
{
	for (;;)
	{
		int			least = i;

		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < gate->ndue; child++)
		{
			if (is_earlier(&gate->due[child], &gate->due[least]))
				least = child;
		}
		if (least == i)
			return;
		swap_due(i, least);
		i = least;
	}
}

static void
remove_first_due(void)
{
	gate->due[0] = gate->due[--gate->ndue];
	sift_down(0);
}

/*
 * Returns whether the read of this entry is still to be performed.  Another process
 * may have performed it meanwhile.
 */
static bool
is_still_due(const GateDue *due)
{
	const GateIo *io = &gate->ios[due->io];

	return io->phase == GATE_DUE && io->generation == due->generation;
}

/*
 * Adds a read to the queue.  The caller has seen that there is room.
 */
void
gate_add_due(PgAioHandle *ioh, const GateIo *io)
{
	GateDue    *due = &gate->due[gate->ndue];

	due->due = io->due;
	due->generation = io->generation;
	due->io = ioh - pgaio_ctl->io_handles;
	sift_up(gate->ndue++);
}

/*
 * Gets the time at which the first read is due.  Returns false if there is
 * none.
 */
bool
gate_next_due(IoTime *due)
{
	while (gate->ndue > 0 && !is_still_due(&gate->due[0]))
		remove_first_due();
	if (gate->ndue == 0)
		return false;
	*due = gate->due[0].due;
	return true;
}

/*
 * Takes the first read that is due by "until".  Returns NULL if there is none.
 */
PgAioHandle *
gate_pop_due(IoTime until)
{
	IoTime		due;
	PgAioHandle *ioh;

	if (!gate_next_due(&due) || due > until)
		return NULL;

	ioh = &pgaio_ctl->io_handles[gate->due[0].io];
	remove_first_due();
	gate_take(ioh, gate_io(ioh));

	return ioh;
}

/*
 * Makes reads due at once, those in the queue and those into local memory, whose
 * owners are woken.
 */
void
gate_hurry_due(bool (*hurried) (const GateIo *io))
{
	for (int i = 0; i < gate->ndue; i++)
	{
		GateDue    *due = &gate->due[i];

		if (is_still_due(due) && hurried(&gate->ios[due->io]))
			due->due = 0;
	}
	for (int i = gate->ndue / 2 - 1; i >= 0; i--)
		sift_down(i);

	for (int i = 0; i < gate->nios; i++)
	{
		if (gate->ios[i].phase != GATE_DUE || !hurried(&gate->ios[i]))
			continue;
		gate->ios[i].due = 0;
		ConditionVariableBroadcast(&pgaio_ctl->io_handles[i].cv);
	}
}
