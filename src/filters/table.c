/*
 * The table of filters in shared memory, and effects on reads.
 *
 * Every read of every process asks for an effect, and few filters match.  So each
 * process has a copy of the filters and renews it when their version has changed.
 * A read that no filter matches costs a look at two words of shared memory.
 *
 * "version" and "ops" are read without the lock, as doc/architecture.md says.
 */
#include "filters/filters.h"

typedef struct FilterTable
{
	LWLock	   *lock;			/* for the filters, and all that the gate has */

	volatile uint32 version;
	volatile uint32 ops;		/* all that filters match */

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

const FilterHandler *filters_handler;
FilterCarrier filter_carriers[FILTER_KINDS];
const Unavailable *filters_unavailable[FILTER_KINDS];

int			filters_hold_timeout = 60000;
static int	uninterruptible_timeout = 1000;

static void
set_up_table(uint32 nhandles pg_attribute_unused(), LWLock *lock)
{
	table->lock = lock;
	table->next_id = 1;
	for (int i = 0; i < MAX_FILTERS; i++)
	{
		pg_atomic_init_u64(&table->counts[i].matched, 0);
		pg_atomic_init_u64(&table->counts[i].fired, 0);
		pg_atomic_init_u64(&table->counts[i].bypassed, 0);
	}
	ConditionVariableInit(&table->changed);
	/* not where it is needed: registering a name may allocate */
	table->wait_event = WaitEventInjectionPointNew("completion_wait");
}

Subsystem	filters_subsystem = {
	.name = "table of filters",
	.memory = "test_aio filters",
	.has_lock = true,
	.address = (void **) &table,
	.size = sizeof(FilterTable),
	.set_up = set_up_table,
	.unavailable = UNAVAILABLE_UNLESS_PRELOADED("there are no filters for reads in this server"),
};

void
filters_init(void)
{
	DefineCustomIntVariable("test_aio.hold_timeout",
							"Longest time for which a read is held, or delayed by a device, or I/O on a buffer stays started.",
							"After this time the read is performed, or the I/O ended; the server's log says so.  A filter or a device keeps the value that it was made with.",
							&filters_hold_timeout, 60000, 1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("test_aio.uninterruptible_timeout",
							"Longest time for which a process that cannot be interrupted waits for a held or delayed read.",
							"Such a process may have locked a page, so others wait for it that cannot be interrupted, either.  It then performs the read.",
							&uninterruptible_timeout, 1000, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);

	subsystem_register(&filters_subsystem);
}

/*
 * Raises an error unless a superuser calls and filters of this kind can be carried
 * out.
 */
void
require_filter_kind(FunctionCallInfo fcinfo, FilterKind kind)
{
	require_subsystem(fcinfo, &filters_subsystem);

	if (filter_carriers[kind] == CARRIED_BY_NOBODY)
		raise_unavailable(filters_unavailable[kind]);
}

/* Returns the operations that filters match; 0: there are none.  A look without lock. */
uint32
filters_ops(void)
{
	return table != NULL ? table->ops : 0;
}

/* Returns how many places of my_filters to look at: none if no filter is in force. */
static int
look_at_filters(void)
{
	if (filters_ops() == 0)
		return 0;
	if (my_version != table->version)
	{
		LWLockAcquire(table->lock, LW_SHARED);
		memcpy(my_filters, table->filters, sizeof(my_filters));
		my_version = table->version;
		LWLockRelease(table->lock);
	}
	return MAX_FILTERS;
}

/* Counts a match.  Returns whether the filter has an effect on it. */
static bool
filter_fires(const Filter *filter)
{
	int			i = filter - my_filters;
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

static bool
is_made_here(const Filter *filter)
{
	return filter->maker == MyProcPid && filter->maker_start == MyStartTimestamp;
}

/* Could the maker of a filter need this read to end it, such as one of a catalog? */
static bool
may_serve_maker(const Filter *filter, bool synchronous)
{
	return synchronous && filter->kind != FILTER_DEVICE && is_made_here(filter) &&
		filter->match.nrels == 0 && filter->match.pid == 0;
}

/* Counts a match that goes on, unless the filter's place has been given to another. */
static void
count_bypass(const Filter *filter, FilterBypass reason)
{
	int			i = filter - my_filters;

	if (table->filters[i].id != filter->id)
		return;
	pg_atomic_fetch_add_u64(&table->counts[i].bypassed, 1);
	table->counts[i].why = reason;
}

/*
 * Finds which effect filters that the gate carries out have on a read that this process
 * is staging.  Counts the match.
 */
void
filters_effect_on(PgAioHandle *ioh, FilterEffect *effect)
{
	bool		synchronous = (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0;
	bool		is_auxiliary = MyProcNumber >= MaxBackends && !io_is_call(ioh);
	const Filter *device = NULL;

	memset(effect, 0, sizeof(*effect));

	for (int i = 0, n = look_at_filters(); i < n; i++)
	{
		const Filter *filter = &my_filters[i];
		bool		holds = filter->kind == FILTER_HOLD || filter->kind == FILTER_COMPLETION_WAIT;
		bool		routes = filter->kind == FILTER_SYNCHRONOUS || filter->kind == FILTER_METHOD;

		if (filter_carriers[filter->kind] != CARRIED_BY_GATE ||
			!io_matches(&filter->match, ioh) || may_serve_maker(filter, synchronous))
			continue;
		/* on the startup process all others may depend */
		if (is_auxiliary && filter->match.backend_type == B_INVALID)
		{
			count_bypass(filter, BYPASS_PROCESS);
			continue;
		}
		if (filter->kind == FILTER_DEVICE)
		{
			bool		is_special = filter->match.nrels > 0;

			/* one for a relation comes before one for all, then the newest */
			if (device == NULL || is_special > (device->match.nrels > 0) ||
				(is_special == (device->match.nrels > 0) && filter->id > device->id))
				device = filter;
			continue;
		}
		if ((holds ? effect->hold_filter : routes ? (int) effect->route : effect->fail_filter) != 0)
			continue;
		if (filter->kind == FILTER_METHOD && (!synchronous || io_method_refuses(ioh)))
			continue;

		/* an I/O worker would not have got such a read */
		if (filter->kind == FILTER_REOPEN &&
			(synchronous || io_is_local(ioh)))
			continue;
		if (!filter_fires(filter))
			continue;

		if (holds)
		{
			effect->hold_filter = filter->id;
			effect->injected = filter->kind == FILTER_COMPLETION_WAIT;
			effect->holder = filter->holder;
			effect->limits = filter->limits;
		}
		else if (routes)
			effect->route = filter->kind;
		else if (filter->kind == FILTER_REOPEN || filter->has_result)
		{
			effect->fail_filter = filter->id;
			effect->outcome.has_result = filter->kind != FILTER_CORRUPT;
			effect->outcome.result = filter->kind == FILTER_REOPEN ? -ENOENT : filter->result;
			if (filter->kind == FILTER_CORRUPT)
				effect->outcome.wrong_byte = 1 + filter->result +
					(int64) BLCKSZ * (filter->match.block - ioh->target_data.smgr.blockNum);
		}
	}
	if (device != NULL && filter_fires(device))
	{
		effect->device_filter = device->id;
		effect->queue = device->queue;
		if (effect->hold_filter == 0)
			effect->limits = device->limits;
	}
}

/*
 * Counts a read that filters of a kind (FILTER_NONE: all) match and that goes on.
 * Called in critical sections, too.
 */
void
filters_count_bypass(FilterKind kind, PgAioHandle *ioh, FilterBypass reason)
{
	for (int i = 0, n = look_at_filters(); i < n; i++)
	{
		const Filter *filter = &my_filters[i];

		if (filter_carriers[filter->kind] == CARRIED_BY_GATE && (kind == FILTER_NONE || filter->kind == kind) &&
			io_matches(&filter->match, ioh))
			count_bypass(filter, reason);
	}
}

/*
 * Returns a filter if it is in force and matches a read: it may have been ended since
 * it matched, or been changed by the inj_ functions.  The caller has the lock.
 */
const Filter *
filter_in_force(int id, PgAioHandle *ioh)
{
	for (int i = 0; i < MAX_FILTERS && id != 0; i++)
	{
		const Filter *filter = &table->filters[i];

		if (filter->kind != FILTER_NONE && filter->id == id)
			return io_matches(&filter->match, ioh) ? filter : NULL;
	}

	return NULL;
}

/*
 * Returns the first filter of a kind that matches a read, or NULL; it is good until
 * the next call.  Does not count the match.  Called in critical sections.
 */
const Filter *
filters_first_match(FilterKind kind, PgAioHandle *ioh)
{
	for (int i = 0, n = look_at_filters(); i < n; i++)
		if (my_filters[i].kind == kind && io_matches(&my_filters[i].match, ioh))
			return &my_filters[i];

	return NULL;
}

/* Waits for a change, with the wait event of a process held at a completion. */
void
filters_await_change(long timeout_ms)
{
	(void) ConditionVariableTimedSleep(&table->changed, timeout_ms, table->wait_event);
}

/* Tells processes held at a completion, and the gate, that the filters have changed. */
static void
announce_change(int exiting)
{
	ConditionVariableBroadcast(&table->changed);
	if (filters_handler != NULL)
		filters_handler->changed(exiting);
}

/* Has all processes see that the filters have changed.  The caller has the lock. */
static void
publish_change(void)
{
	uint32		ops = 0;

	for (int i = 0; i < MAX_FILTERS; i++)
		if (table->filters[i].kind != FILTER_NONE)
			ops |= table->filters[i].match.ops;
	table->ops = ops;
	table->version++;
}

/*
 * Ends the filters of a kind (FILTER_NONE: of every kind): one (0: all), or only what this
 * session has made, or what it holds as it exits.  Returns how many.
 */
int
filters_end(FilterKind kind, int id, bool made_here, bool exiting)
{
	int			ended = 0;

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_FILTERS; i++)
	{
		Filter	   *filter = &table->filters[i];

		if (filter->kind == FILTER_NONE || (kind != FILTER_NONE && filter->kind != kind) ||
			(id != 0 && filter->id != id) || (made_here && !is_made_here(filter)) ||
			(exiting && filter->holder != MyProcPid))
			continue;
		filter->kind = FILTER_NONE;
		ended++;
	}
	publish_change();
	LWLockRelease(table->lock);
	announce_change(exiting ? MyProcPid : 0);

	return ended;
}

static void
session_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	(void) filters_end(FILTER_NONE, 0, false, true);
}

/* Has the exit of this session end what it holds, by a callback that nobody cancels. */
void
filters_end_with_session(void)
{
	static bool registered = false;

	if (!registered)
		on_shmem_exit(session_ends, 0);
	registered = true;
}

/*
 * Returns a filter of this kind that matches all, with the settings of now, and ends with
 * this session unless an inj_ function makes it, or the postmaster (fcinfo is NULL).
 * Raises an error unless the caller may make it and it can be carried out.
 */
Filter
filter_of_kind(FunctionCallInfo fcinfo, FilterKind kind)
{
	if (fcinfo != NULL)
		require_filter_kind(fcinfo, kind);

	return (Filter)
	{
		.kind = kind,
			.holder = fcinfo != NULL && kind < FILTER_COMPLETION_WAIT ? MyProcPid : 0,
			.maker = MyProcPid,
			.maker_start = MyStartTimestamp,
			.match = io_match_all(),
			.times = -1,
			.limits.longest = filters_hold_timeout * NS_PER_MS,
			.limits.patience = uninterruptible_timeout * NS_PER_MS,
			.limits.made = io_now(),
	};
}

/*
 * Does a new filter take the place of this one?  There is one of each inj_ function, and
 * one device for the same reads.
 */
static bool
is_replaced_by(const Filter *filter, const Filter *new_filter)
{
	return filter->kind == new_filter->kind &&
		(filter->kind >= FILTER_COMPLETION_WAIT ||
		 (filter->kind == FILTER_DEVICE && memcmp(&filter->match, &new_filter->match, sizeof(IoMatch)) == 0));
}

/*
 * Finds a place, and a device's queue.  Returns -1 if there is none.  The caller has
 * the lock.
 */
static int
find_place(Filter *filter)
{
	bool		queues[MAX_DEVICES] = {0};
	int			place = -1;

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		const Filter *other = &table->filters[i];

		if (is_replaced_by(other, filter))
		{
			filter->queue = other->queue;
			return i;
		}
		if (other->kind == FILTER_DEVICE)
			queues[other->queue] = true;
		if (other->kind == FILTER_NONE && place < 0)
			place = i;
	}
	filter->queue = 0;
	while (filter->kind == FILTER_DEVICE && queues[filter->queue])
		if (++filter->queue == MAX_DEVICES)
			return -1;

	return place;
}

/*
 * Puts a filter into force, which ends with the session unless it has no holder.  A
 * filter of an inj_ function keeps the number of the one that it replaces: a read that
 * is held stays held if the new filter matches it, too.  Returns the number.
 */
int
filters_put(Filter *filter)
{
	int			place;

	if (filter->kind < FILTER_COMPLETION_WAIT)
		filters_handler->tell_unseen();
	if (filter->holder != 0)
		filters_end_with_session();

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	place = find_place(filter);
	if (place >= 0)
	{
		filter->id = table->filters[place].kind == FILTER_NONE || filter->kind == FILTER_DEVICE ?
			table->next_id++ : table->filters[place].id;
		table->filters[place] = *filter;
		pg_atomic_write_u64(&table->counts[place].matched, 0);
		pg_atomic_write_u64(&table->counts[place].fired, 0);
		pg_atomic_write_u64(&table->counts[place].bypassed, 0);
		table->counts[place].why = BYPASS_NONE;
		publish_change();
	}
	LWLockRelease(table->lock);

	if (place < 0)
		ereport(ERROR, errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				errmsg("there are too many filters already"),
				errdetail("At most %d filters can be in force at once, %d of them devices.", MAX_FILTERS, MAX_DEVICES),
				errhint("See the view \"io_filters\"."));
	/* in the postmaster, nobody waits yet */
	if (IsUnderPostmaster)
		announce_change(0);

	return filter->id;
}

/* Copies the table and the counts.  Places without a filter have no kind. */
void
filters_copy(Filter *filters, FilterCounts *counts)
{
	LWLockAcquire(table->lock, LW_SHARED);
	memcpy(filters, table->filters, sizeof(table->filters));
	memcpy(counts, table->counts, sizeof(table->counts));
	LWLockRelease(table->lock);
}
