/*
 * Which reads are held or fail: one table of filters for io_hold(),
 * io_fail() and the inj_ functions.
 *
 * The filters say which reads are held, and which end with a chosen result.  They
 * carry nothing out.  That is left to the gate, and on servers that have them to the
 * injection points.
 */
#ifndef TEST_AIO_FILTERS_H
#define TEST_AIO_FILTERS_H

#include "test_aio.h"

#include "aio/clock.h"
#include "aio/match.h"
#include "subsystem.h"

#define MAX_FILTERS		64

typedef enum FilterKind
{
	FILTER_NONE = 0,			/* not in use */
	FILTER_HOLD,				/* io_hold() */
	FILTER_FAIL,				/* io_fail() */
	FILTER_COMPLETION_WAIT,		/* inj_io_completion_wait() */
	FILTER_SHORT_READ,			/* inj_io_short_read_attach() */
	FILTER_REOPEN,				/* inj_io_reopen_attach() */
} FilterKind;

#define FILTER_KINDS		(FILTER_REOPEN + 1)

typedef struct Filter
{
	FilterKind	kind;
	int			id;
	int			holder;			/* pid; 0: nobody, it outlives its session */
	int			maker;			/* pid */
	Oid			database;		/* of the maker; a filter without a holder
								 * ends with it */
	IoMatch		match;
	int64		skip;			/* this many first */
	int64		times;			/* then so many; < 0: all */
	bool		has_result;
	int32		result;			/* of FILTER_FAIL and FILTER_SHORT_READ */
	IoTime		longest;		/* of FILTER_HOLD and FILTER_COMPLETION_WAIT */
} Filter;

/* What is to be done about a read.  0: no filter says so. */
typedef struct FilterEffect
{
	int			hold;			/* the filter that holds it */
	FilterKind	hold_kind;
	int			holder;			/* the hold ends with this backend, or is 0 */
	IoTime		longest;		/* of the hold */
	int			fail;			/* the filter that chooses its result */
	int32		result;
} FilterEffect;

/* Why a matching read was not captured; the reasons' texts are in table.c. */
typedef enum FilterEscape
{
	ESCAPE_NONE = 0,
	ESCAPE_PROCESS,				/* a process on which all others depend */
	ESCAPE_CRITICAL,			/* in a critical section */
	ESCAPE_EXIT,				/* the process exits */
	ESCAPE_SHUTDOWN,			/* the server shuts down */
	ESCAPE_NO_WORKER,			/* a device needs the gate's worker */
} FilterEscape;

/* A filter as the view shows it. */
typedef struct CountedFilter
{
	Filter		filter;
	int64		matched;
	int64		fired;
	int64		escaped;		/* matching reads that were not captured */
	FilterEscape why_escaped;	/* the last one */
} CountedFilter;

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
	/* filters have changed: lets reads go on that none holds now */
	void		(*changed) (void);
	/* ends what else this session holds, as it exits */
	void		(*session_ended) (int pid);
	/* the filters without a holder of this database have been ended */
	void		(*kept_ended) (Oid database);
} FilterHandler;

/* table.c: for carriers, which name themselves once shared memory is set up */
extern void filters_set_handler(const FilterHandler *gate);
extern void filters_set_carrier(FilterKind kind, FilterCarrier carrier, const Unavailable *unavailable);
extern FilterCarrier filters_carrier(FilterKind kind);
extern bool filters_any(void);
extern bool filters_effect_on(PgAioHandle *ioh, FilterEffect *effect);
extern void filters_count_escape(PgAioHandle *ioh, FilterEscape reason);
extern const char *escape_reason(FilterEscape reason);
extern bool filter_holds(int id, PgAioHandle *ioh);
extern void filters_await_change(long timeout_ms);
extern bool filters_first_match(FilterKind kind, PgAioHandle *ioh, Filter *found);

/* table.c: for SQL functions */
extern Subsystem filters_subsystem;
extern void require_filter_kind(FunctionCallInfo fcinfo, FilterKind kind);
extern int	filters_add(const Filter *filter);
extern int	filters_replace(const Filter *filter);
extern int	filters_end(FilterKind kind, int id);
extern void filters_end_with_session(void);
extern void filters_end_kept(Oid database);
extern int	filters_holder_arg(FunctionCallInfo fcinfo, int arg);
extern void filters_copy(CountedFilter *copies);

/* the setting "test_aio.hold_timeout" as a time */
extern IoTime filters_hold_timeout(void);

#endif							/* TEST_AIO_FILTERS_H */
