/*
 * The I/O gate: holds, fails and delays reads on servers as they are
 * packaged.
 *
 * The gate intercepts reads between the AIO subsystem and the I/O method (see
 * aio/method.h).  It captures the reads that a filter or a simulated device
 * matches: the method never sees them, and the process that releases a read
 * performs and completes it.
 */
#ifndef TEST_AIO_GATE_H
#define TEST_AIO_GATE_H

#include "test_aio.h"

#include "aio/clock.h"
#include "aio/match.h"
#include "subsystem.h"
#include "filters/filters.h"

#include "datatype/timestamp.h"
#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#define GATE_MAX_DEVICES	8
#define GATE_MAX_DEPTH		1024
#define GATE_MAX_PROCESSES	(MaxBackends + NUM_AUXILIARY_PROCS)

/*
 * Where a captured read is on its way.  A process that takes a read sets
 * GATE_TAKEN; from then on nobody else may complete it.
 */
typedef enum GatePhase
{
	GATE_TAKEN = 0,				/* somebody completes it, or has */
	GATE_DECIDED,				/* captured, but not yet submitted */
	GATE_HELD,					/* until released */
	GATE_DUE,					/* until it is due */
} GatePhase;

/*
 * What the gate knows of a handle, beyond what the handle says.  "generation"
 * tells whether it is about the handle's present use; it is written before the
 * I/O counts as submitted and stays, so that nobody waits for a captured read
 * by means of the I/O method, neither early nor late.
 *
 * Until the read is submitted only its owner looks at this; then the gate's
 * lock protects it, with two exceptions: "generation" is read without a lock
 * by processes that wait for the read, and "phase" is looked at without a
 * lock and then again under the lock.
 */
typedef struct GateIo
{
	uint64		generation;
	GatePhase	phase;
	FilterEffect effect;		/* "hold" is 0 if the filter had ended at
								 * submission */
	bool		has_result;		/* ends with "result" instead of its own */
	int32		result;
	bool		released;		/* its owner is to perform it, nobody else can */
	bool		hold_expired;	/* it was held for longer than it might be */
	int			device;			/* index, or -1 */
	uint64		device_id;		/* the index may be given to another device */
	ProcNumber	stopped;		/* shows "completion_wait" */
	int			held_index;		/* in GateState.held */
	IoTime		submitted;		/* GATE_DUE */
	IoTime		due;			/* GATE_DUE; 0: at once */
	pairingheap_node due_node;	/* GATE_DUE, unless it reads into local memory */
	IoTime		hold_limit;		/* GATE_HELD: when it is performed regardless */
	TimestampTz since;			/* GATE_HELD */
} GateIo;

typedef struct GateDevice
{
	bool		in_use;
	uint64		id;
	int			holder;			/* pid; 0: nobody, it outlives its session */
	Oid			database;		/* of the session that made it */
	IoMatch		match;
	IoTime		latency;
	int			depth;
	double		jitter;
	int64		bytes_per_second;	/* 0: no limit */
	IoTime		longest;		/* no read is due later */

	IoTime		slot_free[GATE_MAX_DEPTH];
	IoTime		bus_free;

	int64		reads;			/* completed */
	int64		bytes;
	int64		in_flight;		/* captured and not completed */
	int64		by_waiters;		/* completed by those who wanted them */
	IoTime		lateness_sum;	/* of those completed by the worker */
	IoTime		lateness_max;
	int64		escaped;		/* matching reads that were not captured */
	FilterEscape why_escaped;	/* the last one */
} GateDevice;

/* A held wakeup: of a process that has waited for a held read. */
typedef struct HeldWakeup
{
	bool		held;			/* set and cleared by the process itself */
	bool		may_go_on;
	uint32		io;				/* it has waited for this read */
	uint64		generation;
	TimestampTz since;
	IoTime		limit;			/* when it goes on regardless */
} HeldWakeup;

typedef struct GateState
{
	LWLock	   *lock;			/* for all below, unless said otherwise */

	/* read without lock: how many devices are there? */
	uint32		ndevices;

	/* the server shuts down: capture no more, and hold nothing */
	bool		closing;

	uint64		last_device_id;
	GateDevice	devices[GATE_MAX_DEVICES];

	/* the background worker: alive while "worker" is set */
	ProcNumber	worker;
	int			worker_pid;
	IoTime		worker_wakes;	/* when it will look by itself */

	uint32		wait_event_held;
	uint32		wait_event_device;
	uint32		wait_event_worker;
	uint32		wait_event_completion;
	uint32		wait_event_held_wakeup;

	/* held wakeups; "wakeups_holder" is also read without lock */
	int			wakeups_holder; /* pid; 0: none are held */
	IoTime		wakeups_timeout;	/* none is held longer */
	int			nwakeups;
	HeldWakeup *wakeups;		/* one for each process */

	int			nios;
	GateIo	   *ios;			/* one for each handle */
	int			nheld;
	int			nstopped;		/* held, and the worker shows it */
	uint32	   *held;			/* handles in phase GATE_HELD */
	pairingheap due;			/* those that the worker is to complete */
} GateState;

/* state.c */
extern GateState *gate;
extern Subsystem gate_subsystem;
extern bool gate_sees_synchronous;
extern void gate_wake_worker(void);
extern void gate_release_wakeups(void);
extern void gate_tell_unseen(void);

static inline GateIo *
gate_io(PgAioHandle *ioh)
{
	return &gate->ios[ioh - pgaio_ctl->io_handles];
}

static inline bool
gate_is_local(PgAioHandle *ioh)
{
	return (ioh->flags & PGAIO_HF_REFERENCES_LOCAL) != 0;
}

/* the device that serves a read, or NULL if it has ended or been replaced */
static inline GateDevice *
gate_device_of(const GateIo *io)
{
	GateDevice *device = io->device >= 0 ? &gate->devices[io->device] : NULL;

	return device != NULL && device->in_use && device->id == io->device_id ? device : NULL;
}

/* held by inj_io_completion_wait() */
static inline bool
gate_is_injected(const GateIo *io)
{
	return io->effect.hold_kind == FILTER_COMPLETION_WAIT;
}

/* capture.c */
extern bool gate_decide(PgAioHandle *ioh);
extern bool gate_has(PgAioHandle *ioh, uint64 generation);
extern bool gate_delays(PgAioHandle *ioh);
extern int	gate_submit(uint16 num_staged_ios, PgAioHandle **staged_ios);
extern void gate_capture_synchronous(PgAioHandle *ioh);

/* wait.c */
extern void gate_wait(PgAioHandle *ioh, uint64 generation);

/* wakeups.c */
extern void gate_hold_wakeup(PgAioHandle *ioh, uint64 generation);
extern bool gate_interrupt_is_blocked(void);

/* held.c */
extern void gate_start_hold(PgAioHandle *ioh, GateIo *io, IoTime now);
extern void gate_take(PgAioHandle *ioh, GateIo *io);
extern void gate_complete(PgAioHandle *ioh, IoTime not_before);
extern bool gate_next_due(IoTime *due);
extern PgAioHandle *gate_first_due(IoTime until);
extern void gate_hurry_due(void);

/* release.c */
extern const FilterHandler gate_handler;
extern void gate_release_all(void);

/* device.c */
extern int	gate_find_device(PgAioHandle *ioh, uint64 *id);
extern void gate_count_device_escape(PgAioHandle *ioh, FilterEscape reason);
extern bool gate_start_due(PgAioHandle *ioh, GateIo *io, IoTime now);
extern void gate_count_served(PgAioHandle *ioh, bool by_worker);
extern void gate_close(void);
extern int	gate_end_devices(int holder, const IoMatch *match, Oid database);

/* worker.c */
extern void gate_register_worker(void);

#endif							/* TEST_AIO_GATE_H */
