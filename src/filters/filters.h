/*
 * Which reads are held, fail, or are served by a simulated device: one table of
 * filters for io_hold(), io_fail(), io_device() and the inj_ functions.
 *
 * The filters carry nothing out.  That is left to the gate, and on servers without
 * it to the injection points, if there are any.
 */
#ifndef TEST_AIO_FILTERS_H
#define TEST_AIO_FILTERS_H

#include "aio/aio.h"

#define MAX_FILTERS		64

/* devices among them: each has a queue */
#define MAX_DEVICES		8
#define MAX_QUEUE_DEPTH	1024

typedef enum FilterKind
{
	FILTER_NONE = 0,			/* not in use */
	FILTER_HOLD,				/* io_hold() */
	FILTER_DEVICE,				/* io_device() */
	FILTER_FAIL,				/* io_fail() */
	FILTER_CORRUPT,				/* io_corrupt() */
	FILTER_SYNCHRONOUS,			/* io_route() … */
	FILTER_METHOD,				/* … with each of its routes */
	FILTER_COMPLETION_WAIT,		/* inj_io_completion_wait() */
	FILTER_SHORT_READ,			/* inj_io_short_read_attach() */
	FILTER_REOPEN,				/* inj_io_reopen_attach() */
} FilterKind;

#define FILTER_KINDS		(FILTER_REOPEN + 1)

/* what a simulated device is like */
typedef struct DeviceSpeed
{
	IoTime		latency;
	int			depth;
	double		jitter;
	double		spread;
	double		tail;			/* this share of the reads … */
	IoTime		tail_latency;	/* … takes so long instead */
	int64		bytes_per_second;	/* 0: no limit */
	int			iops;			/* 0: no limit */
} DeviceSpeed;

/* how long reads wait on account of a filter */
typedef struct WaitLimits
{
	IoTime		longest;		/* no read waits longer */
	IoTime		patience;		/* nor so long if it cannot be interrupted */
	IoTime		made;			/* when the filter was made */
} WaitLimits;

typedef struct Filter
{
	FilterKind	kind;
	int			id;
	int			holder;			/* pid that it ends with, or 0 */
	int			maker;			/* pid of the session that has made it … */
	TimestampTz maker_start;	/* … and when that session started */
	IoMatch		match;
	int64		skip;			/* this many first */
	int64		times;			/* then so many; < 0: all */
	bool		has_result;
	int32		result;			/* FILTER_CORRUPT: the offset in the block */

	/* of those that make a read wait: FILTER_HOLD, _COMPLETION_WAIT, _DEVICE */
	WaitLimits	limits;
	int			queue;			/* FILTER_DEVICE: index of its queue */
	DeviceSpeed speed;			/* FILTER_DEVICE */
} Filter;

/* What is to be done about a read.  0: no filter says so. */
typedef struct FilterEffect
{
	int			hold_filter;
	bool		injected;		/* held by inj_io_completion_wait() */
	int			holder;			/* the hold ends with this session, or is 0 */
	int			fail_filter;	/* chooses the outcome */
	IoOutcome	outcome;
	FilterKind	route;			/* FILTER_SYNCHRONOUS or FILTER_METHOD */
	int			device_filter;
	int			queue;			/* of the device */
	WaitLimits	limits;			/* of the hold, or else the device */
} FilterEffect;

/* Why a matching read was not intercepted, or not held; the texts are in filters.c. */
typedef enum FilterBypass
{
	BYPASS_NONE = 0,
	BYPASS_PROCESS,				/* a process on which all others depend */
	BYPASS_CRITICAL,			/* in a critical section */
	BYPASS_EXIT,				/* the process exits */
	BYPASS_SHUTDOWN,			/* the server shuts down */
	BYPASS_NO_WORKER,			/* a device needs the gate's worker */
	BYPASS_WAITER,				/* the waiter cannot be interrupted */
	BYPASS_TIMEOUT,				/* a system call was held for too long */
} FilterBypass;

typedef struct FilterCounts
{
	pg_atomic_uint64 matched;
	pg_atomic_uint64 fired;
	pg_atomic_uint64 bypassed;	/* matching reads that went on all the same */
	FilterBypass why;			/* the last one; a stale value is shown */
} FilterCounts;

typedef enum FilterCarrier
{
	CARRIED_BY_NOBODY = 0,
	CARRIED_BY_GATE,
	CARRIED_BY_INJECTION_POINTS,
} FilterCarrier;

/* What the gate is told, which uses filters and is not known to them. */
typedef struct FilterHandler
{
	/* tells the user which matching reads it does not see */
	void		(*tell_unseen) (void);
	/* shows a device in a row of io_filters_get() */
	void		(*show_device) (const Filter *device, Row *row);
	/* filters have changed, perhaps because this session (0: none) exits */
	void		(*changed) (int exiting);
} FilterHandler;

/* table.c: who carries filters out, set once shared memory is set up; or why nobody does */
extern FilterCarrier filter_carriers[FILTER_KINDS];
extern const Unavailable *filters_unavailable[FILTER_KINDS];

/* table.c: for carriers */
extern const FilterHandler *filters_handler;	/* NULL: there is no gate */
extern uint32 filters_ops(void);
extern void filters_effect_on(PgAioHandle *ioh, FilterEffect *effect);
extern void filters_count_bypass(FilterKind kind, PgAioHandle *ioh, FilterBypass reason);
extern const Filter *filter_in_force(int id, PgAioHandle *ioh);
extern void filters_await_change(long timeout_ms);
extern const Filter *filters_first_match(FilterKind kind, PgAioHandle *ioh);

/* table.c: for SQL functions */
extern Subsystem filters_subsystem;
extern void require_filter_kind(FunctionCallInfo fcinfo, FilterKind kind);
extern Filter filter_of_kind(FunctionCallInfo fcinfo, FilterKind kind);
extern int	filters_put(Filter *filter);
extern int	filters_end(FilterKind kind, int id, bool made_here, bool exiting);
extern void filters_end_with_session(void);
extern void filters_copy(Filter *filters, FilterCounts *counts);

/* the setting "test_aio.hold_timeout", in milliseconds */
extern int	filters_hold_timeout;

/* filters.c: arguments that are alike in all functions */
extern int64 filter_count_arg(FunctionCallInfo fcinfo, int arg, const char *name, int minimum, int64 missing);
extern void filter_match_args(FunctionCallInfo fcinfo, int block_arg, int arg, Filter *filter);
extern Datum filters_end_by_args(FunctionCallInfo fcinfo, FilterKind kind);

/* Defines a function that ends filters of a kind, or of all (FILTER_NONE). */
#define FILTERS_END_FUNCTION(function, kind) \
PG_FUNCTION_INFO_V1(function); \
Datum \
function(PG_FUNCTION_ARGS) \
{ \
	return filters_end_by_args(fcinfo, kind); \
}

#endif							/* TEST_AIO_FILTERS_H */
