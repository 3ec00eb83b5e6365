/*
 * The queues of simulated devices, and when a read is due.
 *
 * That is settled when the read is submitted.  A device has as many slots as its
 * queue is deep; a read begins when the first slot is free, and is due a latency
 * later.  So a read that is completed late does not make those behind it late, and
 * the worker only completes what is due.  Reads into local memory, left to their
 * owners, are not in its heap.
 */
#include "gate/gate.h"

#include <math.h>

#include "common/pg_prng.h"

static int64
io_length(PgAioHandle *ioh)
{
	return (int64) ioh->target_data.smgr.nblocks * BLCKSZ;
}

/* Returns a number from -1 to 1. */
static double
at_random(void)
{
	return 2 * pg_prng_double(&pg_global_prng_state) - 1;
}

/* Returns when a read that is submitted now is due, and books its slot. */
static IoTime
schedule(GateQueue *queue, const Filter *device, int64 nbytes, IoTime now)
{
	const DeviceSpeed *speed = &device->speed;
	IoTime		latency = speed->latency;
	double		bus = 0;
	int			slot = 0;
	IoTime		begin;
	IoTime		end;

	for (int i = 1; i < speed->depth; i++)
		if (queue->slot_free[i] < queue->slot_free[slot])
			slot = i;

	if (speed->tail > 0 && pg_prng_double(&pg_global_prng_state) < speed->tail)
		latency = speed->tail_latency;

	begin = Max(now, queue->slot_free[slot]);
	end = begin + (IoTime) (latency * (1 + speed->jitter * at_random()) * pow(speed->spread, at_random()));
	if (speed->bytes_per_second > 0)
		bus = (double) nbytes * NS_PER_S / speed->bytes_per_second;
	if (speed->iops > 0)
		bus = Max(bus, NS_PER_S / speed->iops);
	if (bus > 0)
	{
		queue->bus_free = Min(Max(begin, queue->bus_free) + (IoTime) bus, now + device->limits.longest);
		end = Max(end, queue->bus_free);
	}
	end = Min(end, now + device->limits.longest);
	queue->slot_free[slot] = end;

	return end;
}

/* Returns the queue of a device, which begins anew if another device had it before. */
static GateQueue *
queue_of_device(const Filter *device)
{
	GateQueue  *queue = &gate->queues[device->queue];

	if (queue->filter != device->id)
		memset(queue, 0, sizeof(*queue));
	queue->filter = device->id;

	return queue;
}

/*
 * Gives a read to its device, or, if an I/O worker would perform it, to the gate's worker,
 * which performs it at once.  Returns false if neither can take the read; the caller then
 * performs it.  The caller has the lock.
 */
bool
gate_start_queued(PgAioHandle *ioh, GateIo *io, const Filter *device, IoTime now, bool is_awaited)
{
	bool		worker_is_ready = gate->worker != INVALID_PROC_NUMBER && !gate->closing;

	io->submitted = now;
	/* either may have gone since the read was staged */
	if (device == NULL || !worker_is_ready)
	{
		/* the read has nothing to do with the device any more */
		io->effect.device_filter = 0;
		if (io_method != IOMETHOD_WORKER || io_is_local(ioh) || !worker_is_ready)
			return false;
		io->due = 0;
	}
	else
	{
		GateQueue  *queue = queue_of_device(device);

		io->due = schedule(queue, device, io_length(ioh), now);
		if (is_awaited)
			io->due = Min(io->due, now + gate_patience(&device->limits));
		queue->in_flight++;
	}
	io->phase = GATE_QUEUED;

	/* what only the owner can perform, it does when it waits */
	if (!io_is_local(ioh))
		pairingheap_add(&gate->due, &io->due_node);

	return true;
}

/*
 * Counts a queued read that a process has claimed, before it completes, so that a
 * session that gets the blocks finds it counted.  The caller has the lock.
 */
void
gate_count_served(PgAioHandle *ioh, bool by_worker)
{
	const GateIo *io = gate_io(ioh);
	GateQueue  *queue = gate_queue_of(io);
	IoTime		latency = Max(io_now(), io->due) - io->submitted;

	if (queue == NULL)
		return;
	queue->latencies[latency < 1000 ? 0 : Min(1 + (int) (8 * log2(latency / 1000.0)), LATENCY_CLASSES - 1)]++;
	queue->latency_max = Max(queue->latency_max, latency);
	queue->in_flight--;
	*(io_is_read(ioh) ? &queue->reads : &queue->writes) += 1;
	*(io_is_read(ioh) ? &queue->bytes : &queue->written_bytes) += io_length(ioh);
	queue->by_worker += by_worker;
}

/* Returns the read that is due first, or NULL.  The caller has the lock. */
PgAioHandle *
gate_first_due(void)
{
	if (pairingheap_is_empty(&gate->due))
		return NULL;
	return gate_handle(pairingheap_container(GateIo, due_node, pairingheap_first(&gate->due)));
}

/*
 * Makes the reads due at once whose devices have ended or been replaced, or all when
 * the server shuts down.  The owners of those into local memory are woken.  The caller
 * has the lock.
 */
void
gate_make_due(void)
{
	for (int i = 0; i < gate->nios; i++)
	{
		GateIo	   *io = &gate->ios[i];
		PgAioHandle *ioh = gate_handle(io);

		if (io->phase != GATE_QUEUED || io->due == 0 ||
			(!gate->closing && filter_in_force(io->effect.device_filter, ioh) != NULL))
			continue;
		if (!io_is_local(ioh))
			pairingheap_remove(&gate->due, &io->due_node);
		io->due = 0;
		if (!io_is_local(ioh))
			pairingheap_add(&gate->due, &io->due_node);
		gate_notify(ioh);
	}
}
