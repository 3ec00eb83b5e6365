/*
 * The I/O gate: holds, fails and delays I/O on servers as they are packaged.
 *
 * The gate intercepts reads that a filter matches, so that the I/O method never sees
 * them.  The process that releases a read, or for which it is due, performs and
 * completes it.
 */
#ifndef TEST_AIO_GATE_H
#define TEST_AIO_GATE_H

#include "filters/filters.h"

#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "utils/timestamp.h"

/* how often to look whether the server stops, and how late the worker may be */
#define LOOK_EVERY NS_PER_S

/*
 * Where an intercepted read is on its way.  A process that claims a read sets
 * GATE_CLAIMED; from then on nobody else may complete it.
 */
typedef enum GatePhase
{
	GATE_CLAIMED = 0,			/* somebody completes it, or has */
	GATE_INTERCEPTED,			/* not yet submitted */
	GATE_HELD,					/* until released */
	GATE_QUEUED,				/* until it is due */
} GatePhase;

/* Who performs a read that has been released. */
typedef enum GatePerformer
{
	BY_ANYBODY = 0,
	BY_OWNER,
	BY_WAITER,					/* another process that waits for it */
	BY_WORKER,					/* the gate's */
} GatePerformer;

/*
 * What the gate knows of a handle, beyond what the handle says.
 *
 * "generation" tells whether it is about the handle's present use.  It stays, so that
 * nobody waits for an intercepted read by means of the I/O method, neither early nor
 * late.  It is read without a lock, see "Words read without a lock" in
 * doc/architecture.md.  Until the read is submitted only its owner looks at the rest;
 * then the lock protects it.
 */
typedef struct GateIo
{
	uint64		generation;
	GatePhase	phase;
	FilterEffect effect;		/* 0: has ended by the submission */
	IoOutcome	outcome;
	bool		released;		/* who looks next performs it … */
	GatePerformer by;			/* … of these */
	bool		hold_expired;	/* it was held for longer than it might be */
	dlist_node	held_node;		/* GATE_HELD */
	IoTime		submitted;		/* GATE_QUEUED */
	IoTime		due;			/* GATE_QUEUED; 0: at once */
	pairingheap_node due_node;	/* GATE_QUEUED, unless local */
	IoTime		hold_limit;		/* GATE_HELD: when it is performed regardless */
	TimestampTz since;			/* GATE_HELD */
	volatile uint32 wakes;		/* a futex: where the process of a system call
								 * sleeps */
} GateIo;

/* Latencies are counted in eighths of octaves from 1 us on, up to more than a minute. */
#define LATENCY_CLASSES (8 * 26 + 2)

/* The queue of the device with this number; another device with it begins anew. */
typedef struct GateQueue
{
	int			filter;
	IoTime		slot_free[MAX_QUEUE_DEPTH];
	IoTime		bus_free;
	uint32		latencies[LATENCY_CLASSES]; /* of what is completed */
	IoTime		latency_max;

	int64		reads;			/* completed */
	int64		bytes;
	int64		writes;			/* the same, of all other operations */
	int64		written_bytes;
	int64		in_flight;		/* submitted and not completed */
	int64		by_worker;		/* completed by the worker */
	IoTime		lateness_sum;	/* of those completed by the worker */
	IoTime		lateness_max;
} GateQueue;

/*
 * A held wakeup: of a process that has waited for a held read.  That process looks at it
 * without the lock, after its latch was set: SetLatch() and ResetLatch() have barriers.
 */
typedef struct HeldWakeup
{
	bool		held;			/* set by the process itself */
	uint32		io;				/* it has waited for this read */
	uint64		generation;
	TimestampTz since;
	IoTime		limit;			/* when it goes on regardless … */
	IoTime		patience_ends;	/* … or, if others may wait for it, earlier */
} HeldWakeup;

/*
 * The filters' lock protects all of this.  "closing", "worker" and
 * "wakeups_holder" are also read without it, as doc/architecture.md says.
 */
typedef struct GateState
{
	LWLock	   *lock;

	/* the server shuts down: intercept no more, and hold nothing */
	volatile bool closing;

	/* the background worker: alive while "worker" is set */
	volatile ProcNumber worker;
	IoTime		worker_wakes;	/* when it will look by itself */
	IoTime		spins_until;	/* a process that waits for a read */

	/* when a process that cannot be interrupted has last gone on early */
	IoTime		patience_lost;
	/* when a call was last held for too long */
	IoTime		calls_lost;

	uint32		wait_event_held;
	uint32		wait_event_device;
	uint32		wait_event_worker;
	uint32		wait_event_completion;
	uint32		wait_event_held_wakeup;

	volatile int wakeups_holder;	/* pid; 0: none are held */
	WaitLimits	wakeups_limits;
	HeldWakeup *wakeups;		/* one for each process */

	GateQueue	queues[MAX_DEVICES];

	int			nios;
	GateIo	   *ios;			/* one for each handle */
	dclist_head held;			/* reads in phase GATE_HELD */
	pairingheap due;			/* those that the worker is to complete */
} GateState;

/* state.c */
extern GateState *gate;
extern Subsystem gate_subsystem;
extern bool gate_sees_synchronous;
extern void gate_wake_worker(void);
extern void gate_require_worker(void);
extern void gate_notify(PgAioHandle *ioh);
extern void gate_sleep(GateIo *io, uint32 wakes, IoTime length);
extern void gate_release_wakeups(void);
extern IoTime gate_patience(const WaitLimits *limits);
extern void gate_lose_patience(IoTime made);

static inline GateIo *
gate_io(PgAioHandle *ioh)
{
	return &gate->ios[io_index(ioh)];
}

static inline PgAioHandle *
gate_handle(const GateIo *io)
{
	return io_handle(io - gate->ios);
}

/* Returns the next read that is held, or the first one after NULL. */
static inline GateIo *
gate_next_held(GateIo *io)
{
	if (io == NULL ? dclist_is_empty(&gate->held) : !dclist_has_next(&gate->held, &io->held_node))
		return NULL;
	return dclist_container(GateIo, held_node, io == NULL ? dclist_head_node(&gate->held) :
							dclist_next_node(&gate->held, &io->held_node));
}

#define foreach_held(io) for (GateIo *io = gate_next_held(NULL); io != NULL; io = gate_next_held(io))

static inline bool
gate_is_released_to(const GateIo *io, GatePerformer performer)
{
	return io->released && (io->by == BY_ANYBODY || io->by == performer);
}

/* the queue that a read is in, or NULL if its device has ended */
static inline GateQueue *
gate_queue_of(const GateIo *io)
{
	GateQueue  *queue = &gate->queues[io->effect.queue];

	return io->effect.device_filter != 0 && queue->filter == io->effect.device_filter ? queue : NULL;
}

/* intercept.c */
extern const IoInterceptor gate_interceptor;

/* wait.c */
extern void gate_wait(PgAioHandle *ioh, uint64 generation);

/* wakeups.c */
extern void gate_hold_wakeup(PgAioHandle *ioh, uint64 generation, IoTime waited);
extern bool gate_makes_others_wait(ProcNumber owner);
extern bool gate_interrupt_is_blocked(void);

/* hold.c */
extern const FilterHandler gate_handler;
extern void gate_start_hold(GateIo *io, const Filter *filter, IoTime now);
extern void gate_claim(PgAioHandle *ioh, GateIo *io);
extern void gate_complete(PgAioHandle *ioh, IoTime not_before);
extern void gate_perform_released(IoTime now);
extern void gate_close(void);
extern void gate_lose_calls(void);

/* queue.c */
extern bool gate_start_queued(PgAioHandle *ioh, GateIo *io, const Filter *device,
							  IoTime now, bool is_awaited);
extern void gate_count_served(PgAioHandle *ioh, bool by_worker);
extern PgAioHandle *gate_first_due(void);
extern void gate_make_due(void);

/* calls.c */
extern void gate_hold_call(PgAioHandle *ioh);
extern void gate_delay_call(PgAioHandle *ioh, IoTime submitted);

/* devices.c */
extern void gate_show_device(const Filter *device, Row *row);

/* worker.c */
extern void gate_register_worker(void);

#endif							/* TEST_AIO_GATE_H */
