/*
 * The table of filters in shared memory, and effects on reads.
 *
 * Every read of every process asks for an effect, and few filters match.  So each
 * process has a copy of the filters and renews it when their version has changed.
 * A read that no filter matches costs a look at two words of shared memory.
 */
#include "filters/filters.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

typedef struct FilterCounts
{
	pg_atomic_uint64 matched;
	pg_atomic_uint64 fired;
	pg_atomic_uint64 escaped;	/* matching reads that were not captured */
	FilterEscape why;			/* the last one */
} FilterCounts;

typedef struct FilterTable
{
	LWLock	   *lock;			/* for the filters; counts need none */

	/* read without lock: how many filters, and has any of them changed? */
	uint32		nfilters;
	uint32		version;

	int			next_id;
	Filter		filters[MAX_FILTERS];
	FilterCounts counts[MAX_FILTERS];

	ConditionVariable changed;
	uint32		wait_event;		/* of a process held at a completion */
} FilterTable;

static FilterTable *table;

/* this process's copy */
static uint32 my_version;
static Filter my_filters[MAX_FILTERS];

/* the gate, if there is one */
static const FilterHandler *handler;
static FilterCarrier carriers[FILTER_KINDS];
static const Unavailable *kinds_unavailable[FILTER_KINDS];

static int	hold_timeout = 60000;

static Size
table_size(uint32 nhandles pg_attribute_unused())
{
	return sizeof(FilterTable);
}

static void
set_up_table(uint32 nhandles pg_attribute_unused(), LWLock *lock)
{
	memset(table, 0, sizeof(FilterTable));
	table->lock = lock;
	table->next_id = 1;
	for (int i = 0; i < MAX_FILTERS; i++)
	{
		pg_atomic_init_u64(&table->counts[i].matched, 0);
		pg_atomic_init_u64(&table->counts[i].fired, 0);
		pg_atomic_init_u64(&table->counts[i].escaped, 0);
	}
	ConditionVariableInit(&table->changed);
	/* not where it is needed: registering a name may allocate */
	table->wait_event = WaitEventInjectionPointNew("completion_wait");
}

Subsystem	filters_subsystem = {
	.name = "table of filters",
	.memory = "test_aio filters",
	.address = (void **) &table,
	.size = table_size,
	.set_up = set_up_table,
	.unavailable = UNAVAILABLE_UNLESS_PRELOADED("there are no filters for reads in this server"),
};

void
filters_init(void)
{
	DefineCustomIntVariable("test_aio.hold_timeout",
							"Longest time for which a read is held, or delayed by a device.",
							"After this time the read is performed; of a held one the server's log says so.  A filter or a device keeps the value that it was made with.",
							&hold_timeout,
							60000,
							1,
							INT_MAX,
							PGC_SUSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	subsystem_register(&filters_subsystem);
}

IoTime
filters_hold_timeout(void)
{
	return hold_timeout * NS_PER_MS;
}

void
filters_set_handler(const FilterHandler *gate)
{
	handler = gate;
}

void
filters_set_carrier(FilterKind kind, FilterCarrier carrier, const Unavailable *unavailable)
{
	carriers[kind] = carrier;
	kinds_unavailable[kind] = unavailable;
}

FilterCarrier
filters_carrier(FilterKind kind)
{
	return carriers[kind];
}

/*
 * Raises an error unless the caller is a superuser and filters of this kind can
 * be carried out.
 */
void
require_filter_kind(FunctionCallInfo fcinfo, FilterKind kind)
{
	require_subsystem(fcinfo, &filters_subsystem);

	if (carriers[kind] == CARRIED_BY_NOBODY)
		raise_unavailable(kinds_unavailable[kind]);
}

/* Returns whether any filter is in force.  A look without lock. */
bool
filters_any(void)
{
	return table != NULL && table->nfilters > 0;
}

static void
renew_copy(void)
{
	LWLockAcquire(table->lock, LW_SHARED);
	memcpy(my_filters, table->filters, sizeof(my_filters));
	my_version = table->version;
	LWLockRelease(table->lock);
}

/* Returns whether any filter is in force, of which this process then has a copy. */
static bool
look_at_filters(void)
{
	if (!filters_any())
		return false;
	if (my_version != table->version)
		renew_copy();
	return true;
}

/* Counts a match.  Returns whether the filter has an effect on it. */
static bool
filter_fires(int i)
{
	const Filter *filter = &my_filters[i];
	FilterCounts *counts = &table->counts[i];
	uint64		fired;

	/* the place may have been given to another filter since */
	if (table->filters[i].id != filter->id)
		return false;

	if (pg_atomic_fetch_add_u64(&counts->matched, 1) < (uint64) filter->skip)
		return false;

	fired = pg_atomic_read_u64(&counts->fired);
	do
	{
		if (filter->times >= 0 && fired >= (uint64) filter->times)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&counts->fired, &fired, fired + 1));

	return true;
}

/*
 * Returns whether a synchronous read of the session that has made a filter could
 * be one that it needs to end the filter, such as of a catalog.
 */
static bool
may_serve_maker(const Filter *filter, bool synchronous)
{
	return synchronous && filter->maker == MyProcPid &&
		!filter->match.has_rel && filter->match.pid == 0;
}

/*
 * Returns whether a filter that the gate carries out has an effect on a read that this
 * process is staging, and which effect.  Counts the match.
 */
bool
filters_effect_on(PgAioHandle *ioh, FilterEffect *effect)
{
	bool		synchronous = (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0;

	memset(effect, 0, sizeof(*effect));

	if (!look_at_filters())
		return false;

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		const Filter *filter = &my_filters[i];
		bool		holds = filter->kind == FILTER_HOLD || filter->kind == FILTER_COMPLETION_WAIT;

		if (carriers[filter->kind] != CARRIED_BY_GATE ||
			(holds ? effect->hold : effect->fail) != 0 ||
			!io_matches(&filter->match, ioh) || may_serve_maker(filter, synchronous))
			continue;

		/* an I/O worker would not have got such a read */
		if (filter->kind == FILTER_REOPEN &&
			(synchronous || (ioh->flags & PGAIO_HF_REFERENCES_LOCAL)))
			continue;
		if (!filter_fires(i))
			continue;

		if (holds)
		{
			effect->hold = filter->id;
			effect->hold_kind = filter->kind;
			effect->holder = filter->holder;
			effect->longest = filter->longest;
		}
		else if (filter->kind == FILTER_REOPEN || filter->has_result)
		{
			effect->fail = filter->id;
			effect->result = filter->kind == FILTER_REOPEN ? -ENOENT : filter->result;
		}
	}

	return effect->hold != 0 || effect->fail != 0;
}

/*
 * Counts a read that filters match and that the gate does not capture.  Called in
 * critical sections, too.
 */
void
filters_count_escape(PgAioHandle *ioh, FilterEscape reason)
{
	if (!look_at_filters())
		return;

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		const Filter *filter = &my_filters[i];

		if (carriers[filter->kind] != CARRIED_BY_GATE ||
			table->filters[i].id != filter->id || !io_matches(&filter->match, ioh))
			continue;
		pg_atomic_fetch_add_u64(&table->counts[i].escaped, 1);
		table->counts[i].why = reason;
	}
}

const char *
escape_reason(FilterEscape reason)
{
	static const char *const reasons[] = {
		[ESCAPE_NONE] = NULL,
		[ESCAPE_PROCESS] = "a process on which others depend reads it",
		[ESCAPE_CRITICAL] = "the process is in a critical section",
		[ESCAPE_EXIT] = "the process exits",
		[ESCAPE_SHUTDOWN] = "the server shuts down",
		[ESCAPE_NO_WORKER] = "the gate's worker is not running",
	};

	return reasons[reason];
}

/*
 * Returns whether this filter is in force and matches a read.  A filter that matched
 * may have been ended since, or, by the inj_ functions, been changed.  Allocates
 * nothing.
 */
bool
filter_holds(int id, PgAioHandle *ioh)
{
	bool		holds = false;

	if (id == 0)
		return false;

	LWLockAcquire(table->lock, LW_SHARED);
	for (int i = 0; i < MAX_FILTERS && !holds; i++)
	{
		const Filter *filter = &table->filters[i];

		holds = filter->kind != FILTER_NONE && filter->id == id && io_matches(&filter->match, ioh);
	}
	LWLockRelease(table->lock);

	return holds;
}

/*
 * Copies the first filter of a kind that matches a read.  Returns whether there
 * is one.  Does not count the match, so io_filters shows 0 for filters that
 * injection points carry out.  Called at completions, in critical sections.
 */
bool
filters_first_match(FilterKind kind, PgAioHandle *ioh, Filter *found)
{
	if (!look_at_filters())
		return false;

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		if (my_filters[i].kind == kind && io_matches(&my_filters[i].match, ioh))
		{
			*found = my_filters[i];
			return true;
		}
	}

	return false;
}

/*
 * Waits for a change of the filters, at most this long, with the wait event of a
 * process that is held at a completion.
 */
void
filters_await_change(long timeout_ms)
{
	(void) ConditionVariableTimedSleep(&table->changed, timeout_ms, table->wait_event);
}

/* Tells held processes and the gate that the filters have changed. */
static void
announce_change(void)
{
	ConditionVariableBroadcast(&table->changed);
	if (handler != NULL)
		handler->changed();
}

/*
 * Ends the filters of a kind (FILTER_NONE: of every kind), with this number unless it
 * is 0, of this session unless it is 0; with a database, only those without a
 * holder that were made there.  Returns how many.
 */
static int
end_filters(FilterKind kind, int id, int holder, Oid database)
{
	int			ended = 0;

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_FILTERS; i++)
	{
		Filter	   *filter = &table->filters[i];

		if (filter->kind == FILTER_NONE ||
			(kind != FILTER_NONE && filter->kind != kind) ||
			(id != 0 && filter->id != id) ||
			(holder != 0 && filter->holder != holder) ||
			(OidIsValid(database) && (filter->holder != 0 || filter->database != database)))
			continue;
		filter->kind = FILTER_NONE;
		table->nfilters--;
		ended++;
	}
	table->version++;
	LWLockRelease(table->lock);

	return ended;
}

/* Ends the filters of a kind, or the one with this number.  Returns how many. */
int
filters_end(FilterKind kind, int id)
{
	int			ended = end_filters(kind, id, 0, InvalidOid);

	announce_change();

	return ended;
}

/*
 * Ends the filters without a holder that were made in this database.  Raises no
 * error.
 */
void
filters_end_kept(Oid database)
{
	if (table == NULL)
		return;
	if (end_filters(FILTER_NONE, 0, 0, database) > 0)
		announce_change();
	if (handler != NULL)
		handler->kept_ended(database);
}

static void
session_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	(void) end_filters(FILTER_NONE, 0, MyProcPid, InvalidOid);
	if (handler != NULL)
		handler->session_ended(MyProcPid);
}

/* Has the exit of this session end what it holds. */
void
filters_end_with_session(void)
{
	static int	watching_exit = 0;

	before_session_exits(session_ends, &watching_exit);
}

/*
 * Returns a place for a filter, or -1 if the table is full.  With "replace", the place
 * of the present filter of this kind comes first.  The caller has the lock.
 */
static int
find_place(FilterKind kind, bool replace)
{
	int			place = -1;

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		if (replace && table->filters[i].kind == kind)
			return i;
		if (table->filters[i].kind == FILTER_NONE && place < 0)
			place = i;
	}

	return place;
}

static int
put_filter(const Filter *new_filter, bool replace)
{
	int			id = 0;
	int			place;

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	place = find_place(new_filter->kind, replace);
	if (place >= 0)
	{
		Filter	   *filter = &table->filters[place];
		bool		is_new = filter->kind == FILTER_NONE;

		id = is_new ? table->next_id++ : filter->id;
		*filter = *new_filter;
		filter->id = id;
		filter->maker = MyProcPid;
		filter->database = MyDatabaseId;
		pg_atomic_write_u64(&table->counts[place].matched, 0);
		pg_atomic_write_u64(&table->counts[place].fired, 0);
		pg_atomic_write_u64(&table->counts[place].escaped, 0);
		table->counts[place].why = ESCAPE_NONE;
		table->nfilters += is_new;
		table->version++;
	}
	LWLockRelease(table->lock);

	if (place < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are too many filters already"),
				 errdetail("At most %d filters can be in force at once.", MAX_FILTERS),
				 errhint("See the view \"io_filters\".")));

	return id;
}

/*
 * Adds a filter, which ends with the session unless it has no holder.  Returns
 * the number.
 */
int
filters_add(const Filter *filter)
{
	handler->tell_unseen();
	if (filter->holder != 0)
		filters_end_with_session();

	return put_filter(filter, false);
}

/*
 * Replaces the filter of the same kind, and keeps its number: a read that the
 * old filter holds stays held if the new filter matches it, too.  Returns the
 * number.
 */
int
filters_replace(const Filter *filter)
{
	int			id = put_filter(filter, true);

	announce_change();

	return id;
}

/* Copies the table and the counts.  Places without a filter have no kind. */
void
filters_copy(CountedFilter *copies)
{
	LWLockAcquire(table->lock, LW_SHARED);
	for (int i = 0; i < MAX_FILTERS; i++)
	{
		copies[i].filter = table->filters[i];
		copies[i].matched = pg_atomic_read_u64(&table->counts[i].matched);
		copies[i].fired = pg_atomic_read_u64(&table->counts[i].fired);
		copies[i].escaped = pg_atomic_read_u64(&table->counts[i].escaped);
		copies[i].why_escaped = table->counts[i].why;
	}
	LWLockRelease(table->lock);
}
