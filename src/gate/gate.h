/*-------------------------------------------------------------------------
 *
 * gate.h
 *		The I/O gate: reads held, failed and delayed between the AIO subsystem
 *		and the I/O method.
 *
 * The server's AIO subsystem calls its I/O method through an exported pointer
 * to a table of functions.  The gate puts a table of its own there, which
 * passes everything on but the reads that a rule matches.  Those it captures:
 * the method never sees them, and whoever releases one performs and completes
 * it.
 *
 *		gate.c		start-up: settings, shared memory, is this server known?
 *		ops.c		the table: capturing, and waiting for what is captured
 *		rules.c		which reads are to be captured
 *		release.c	performing and completing captured reads
 *		device.c	simulated storage: when is a read due?
 *		worker.c	the process that serves the device, and ends holds that
 *					have lasted too long
 *		sync.c		capturing reads that never get to an I/O method
 *		constant.c	changing tables that are meant to be constant
 *		views.c		what is held, and what can be
 *
 * src/gate/gate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_GATE_H
#define TEST_AIO_GATE_H

#include "test_aio.h"

#include "datatype/timestamp.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/wait_event.h"

#define GATE_MAX_RULES		64
#define GATE_MAX_DEVICES	8
#define GATE_MAX_DEPTH		1024

/* the largest number that Linux uses for an errno */
#define MAX_ERRNO			4095

/* nanoseconds of CLOCK_MONOTONIC, which all processes share */
typedef int64 GateTime;

#define GATE_NEVER			PG_INT64_MAX
#define NS_PER_MS			INT64CONST(1000000)
#define NS_PER_S			INT64CONST(1000000000)

/*
 * Where a captured read is on its way.  From GATE_PASSED on it is the business
 * of whoever has taken it: nobody else may complete it.
 */
typedef enum GatePhase
{
	GATE_PASSED = 0,			/* somebody completes it, or has */
	GATE_DECIDED,				/* will be captured as soon as it is submitted */
	GATE_HELD,					/* until released */
	GATE_DUE,					/* the device completes it when it is due */
} GatePhase;

/*
 * What the gate knows of a handle, beyond what the handle says.  "generation"
 * tells whether it is about the handle's present use; it is written before the
 * I/O counts as submitted and stays, so that nobody waits for a captured read
 * by means of the I/O method, neither early nor late.
 */
typedef struct GateIo
{
	uint64		generation;
	GatePhase	phase;
	bool		injected;		/* held by inj_io_completion_wait() */
	bool		released;		/* its owner is to perform it, nobody else can */
	bool		too_long;		/* it was held for longer than it might be */
	bool		has_result;		/* ends with "result" instead of its own */
	int32		result;
	int			rule;			/* held by this rule, if not injected */
	int			holder;			/* ends with this backend, or is 0 */
	int			device;			/* index, or -1 */
	ProcNumber	stopped;		/* shows "completion_wait" */
	int			held_index;		/* in GateState.held */
	GateTime	due;			/* GATE_DUE */
	GateTime	hold_limit;		/* GATE_HELD: when it is performed regardless */
	TimestampTz since;
} GateIo;

/* Which reads?  A member that is zero (or not set) matches all. */
typedef struct GateMatch
{
	bool		has_rel;
	RelFileLocator rlocator;
	ProcNumber	temp_owner;		/* of a temporary table */
	ForkNumber	fork;			/* InvalidForkNumber matches all */
	bool		has_block;
	BlockNumber block;			/* it covers this block */
	int			pid;			/* the backend that has issued it */
} GateMatch;

typedef enum GateRuleKind
{
	GATE_RULE_NONE = 0,			/* not in use */
	GATE_RULE_HOLD,
	GATE_RULE_FAIL,
} GateRuleKind;

typedef struct GateRule
{
	GateRuleKind kind;
	int			id;
	int			holder;			/* pid; 0: nobody, it outlives its session */
	GateMatch	match;
	int64		skip;			/* this many first */
	int64		times;			/* then so many; < 0: all */
	int64		matched;
	int64		fired;
	int32		result;			/* of GATE_RULE_FAIL */
	GateTime	longest;		/* of GATE_RULE_HOLD */
} GateRule;

typedef struct GateDevice
{
	bool		in_use;
	int			holder;
	GateMatch	match;
	GateTime	latency;
	int			depth;
	double		jitter;
	int64		bytes_per_second;	/* 0: no limit */

	GateTime	slot_free[GATE_MAX_DEPTH];
	GateTime	bus_free;

	int64		reads;			/* completed */
	int64		bytes;
	int64		in_flight;		/* captured and not completed */
	int64		by_waiters;		/* completed by those who wanted them */
	GateTime	lateness_sum;	/* of those completed by the worker */
	GateTime	lateness_max;
} GateDevice;

/* One read that the device is to complete, in a heap ordered by "due". */
typedef struct GateDue
{
	GateTime	due;
	uint64		generation;
	uint32		io;
} GateDue;

typedef struct GateState
{
	LWLock	   *lock;			/* for all below, unless said otherwise */

	/* read without lock: is there anything that might match? */
	uint32		active;

	/* likewise: are reads traced?  (trace/) */
	uint32		tracing;

	/* the server shuts down: capture no more, and hold nothing */
	bool		closing;

	int			next_rule;
	GateRule	rules[GATE_MAX_RULES];
	GateDevice	devices[GATE_MAX_DEVICES];

	/* the background worker: alive while "worker" is set */
	ProcNumber	worker;
	int			worker_pid;
	bool		draining;		/* it takes no more reads, and will then exit */
	GateTime	worker_wakes;	/* when it will look by itself */

	uint32		wait_event_held;
	uint32		wait_event_device;
	uint32		wait_event_worker;
	uint32		wait_event_completion;

	int			nios;
	GateIo	   *ios;			/* one for each handle */
	int			nheld;
	int			nstopped;		/* held, and the worker shows it */
	uint32	   *held;			/* handles in phase GATE_HELD */
	int			ndue;
	int			max_due;
	GateDue    *due;
} GateState;

/* gate.c */
extern GateState *gate;
extern const IoMethodOps *server_ops;
extern bool gate_enabled;
extern int	longest_hold;
extern bool reach_synchronous_reads;
extern const char *gate_why_off;
extern void require_gate(FunctionCallInfo fcinfo);
extern GateTime gate_now(void);

static inline GateIo *
gate_io(PgAioHandle *ioh)
{
	return &gate->ios[ioh - pgaio_ctl->io_handles];
}

/* ops.c */
extern void gate_install(void);
extern bool gate_decide(PgAioHandle *ioh);

/* rules.c */
extern bool gate_match(const GateMatch *match, PgAioHandle *ioh);
extern bool gate_rule_holds(int id);
extern GateMatch gate_get_rel_match(FunctionCallInfo fcinfo, int rel_arg);
extern void gate_get_pid_match(FunctionCallInfo fcinfo, int arg, GateMatch *match);
extern void gate_update_active(void);
extern void gate_end_with_session(void);
extern bool gate_apply_rules(PgAioHandle *ioh, GateIo *io);

/* release.c */
extern void gate_start_hold(PgAioHandle *ioh, GateIo *io, GateTime now);
extern void gate_take(PgAioHandle *ioh, GateIo *io);
extern void gate_perform(PgAioHandle *ioh, bool has_result, int32 result,
						 GateTime not_before);
extern void gate_perform_at_submission(PgAioHandle *ioh, bool has_result,
									   int32 result);
extern void gate_report_too_long(PgAioHandle *ioh);
extern int	gate_release_matching(bool (*matches) (PgAioHandle *ioh, GateIo *io, void *arg),
								  void *arg, bool has_result, int32 result);
extern int	gate_release_all(bool has_result, int32 result);

/* device.c */
extern int	gate_find_device(PgAioHandle *ioh);
extern bool gate_start_device(PgAioHandle *ioh, GateIo *io, GateTime now);
extern bool gate_start_in_worker(PgAioHandle *ioh, GateIo *io);
extern bool gate_next_due(GateTime *due);
extern PgAioHandle *gate_pop_due(GateTime until);
extern void gate_count_served(PgAioHandle *ioh, bool by_worker);
extern void gate_count_lateness(int device, GateTime late);
extern void gate_hurry_devices(void);
extern int	gate_end_devices(int holder, const GateMatch *match);

/* worker.c */
extern void gate_register_worker(void);
extern void gate_wake_worker(void);

/* sync.c */
extern const char *gate_reach_synchronous_reads(void);
extern void gate_resume_batch(void);

/* views.c */
extern int	io_waiters(PgAioHandle *ioh, int *pids, int max);

#endif							/* TEST_AIO_GATE_H */
