/*
 * io_hold() and io_fail(): filters that the gate carries out.
 *
 * Filters concern the reads of all sessions.  They end with the session that has
 * made them, unless it asked for them to be kept.
 */
#include "filters/filters.h"

#include "aio/perform.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(io_hold);
PG_FUNCTION_INFO_V1(io_hold_end);
PG_FUNCTION_INFO_V1(io_fail);
PG_FUNCTION_INFO_V1(io_fail_end);
PG_FUNCTION_INFO_V1(io_filters_get);

static const char *const kind_names[] = {
	[FILTER_HOLD] = "hold",
	[FILTER_FAIL] = "fail",
	[FILTER_COMPLETION_WAIT] = "completion_wait",
	[FILTER_SHORT_READ] = "short_read",
	[FILTER_REOPEN] = "reopen",
};

/*
 * Reads an optional number that is at least "minimum", or returns "missing".
 */
static int64
get_count(FunctionCallInfo fcinfo, int arg, const char *name, int minimum, int64 missing)
{
	if (PG_ARGISNULL(arg))
		return missing;
	check_range(name, PG_GETARG_INT32(arg), minimum, PG_INT32_MAX);
	return PG_GETARG_INT32(arg);
}

/*
 * Holds matching reads from now on, until they are released.  NULL matches all.
 * Returns the filter's number.
 */
Datum
io_hold(PG_FUNCTION_ARGS)
{
	Filter		filter = {.kind = FILTER_HOLD};

	require_filter_kind(fcinfo, filter.kind);

	filter.match = io_match_rel_arg(fcinfo, 0);
	io_match_block_arg(fcinfo, 1, PG_GETARG_INT64(1), &filter.match);
	io_match_fork_arg(fcinfo, 2, &filter.match);
	io_match_pid_arg(fcinfo, 3, &filter.match);
	filter.times = get_count(fcinfo, 4, "max_reads", 1, -1);
	filter.holder = filters_holder_arg(fcinfo, 5);
	filter.longest = filters_hold_timeout();

	PG_RETURN_INT32(filters_add(&filter));
}

/*
 * Gives matching reads this result from now on: a number of bytes, if they
 * have read more (the rest is zeroed), or a negative errno.  Returns the
 * filter's number.
 */
Datum
io_fail(PG_FUNCTION_ARGS)
{
	Filter		filter = {.kind = FILTER_FAIL,.has_result = true};

	require_filter_kind(fcinfo, filter.kind);

	filter.match = io_match_rel_arg(fcinfo, 0);
	check_not_null("result", PG_ARGISNULL(1));
	filter.result = PG_GETARG_INT32(1);
	check_io_result(filter.result);
	if (filter.result > 0 && filter.result < BLCKSZ)
		ereport(NOTICE,
				(errmsg("matching reads end after %d bytes", filter.result),
				 errhint("For an error, negate its number: -errno_from_string('EIO').")));
	io_match_block_arg(fcinfo, 2, PG_GETARG_INT64(2), &filter.match);
	io_match_pid_arg(fcinfo, 3, &filter.match);
	filter.skip = get_count(fcinfo, 4, "skip", 0, 0);
	filter.times = get_count(fcinfo, 5, "times", 1, -1);
	io_match_fork_arg(fcinfo, 6, &filter.match);
	filter.holder = filters_holder_arg(fcinfo, 7);

	PG_RETURN_INT32(filters_add(&filter));
}

static Datum
end_filters_of_kind(FunctionCallInfo fcinfo, FilterKind kind)
{
	require_filter_kind(fcinfo, kind);

	PG_RETURN_INT32(filters_end(kind, get_count(fcinfo, 0, "filter", 1, 0)));
}

/*
 * Ends this filter of io_hold(), or all of them, of any session.  Reads that
 * are held stay held.  Returns how many filters have ended.
 */
Datum
io_hold_end(PG_FUNCTION_ARGS)
{
	return end_filters_of_kind(fcinfo, FILTER_HOLD);
}

/*
 * Ends this filter of io_fail(), or all of them, of any session.  Reads that
 * have been submitted keep the result that was chosen for them.  Returns how
 * many filters have ended.
 */
Datum
io_fail_end(PG_FUNCTION_ARGS)
{
	return end_filters_of_kind(fcinfo, FILTER_FAIL);
}

Datum
io_filters_get(PG_FUNCTION_ARGS)
{
	CountedFilter *filters = palloc_array(CountedFilter, MAX_FILTERS);

	require_subsystem_to_look(fcinfo, &filters_subsystem);
	InitMaterializedSRF(fcinfo, 0);

	filters_copy(filters);

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		const Filter *filter = &filters[i].filter;
		const IoMatch *match = &filter->match;
		Row			row = {0};

		if (filter->kind == FILTER_NONE)
			continue;

		row_add(&row, Int32GetDatum(filter->id));
		row_add_text(&row, kind_names[filter->kind]);
		row_add_file(&row, match->has_rel, &match->rlocator);
		row_add_text(&row, match->fork != InvalidForkNumber ? forkNames[match->fork] : NULL);
		row_add_if(&row, match->has_block, Int64GetDatum(match->block));
		row_add_if(&row, match->pid != 0, Int32GetDatum(match->pid));
		row_add_if(&row, filter->has_result, Int32GetDatum(filter->result));
		row_add(&row, Int64GetDatum(filter->skip));
		row_add_if(&row, filter->times >= 0, Int64GetDatum(filter->times));
		row_add(&row, Int64GetDatum(filters[i].matched));
		row_add(&row, Int64GetDatum(filters[i].fired));
		row_add(&row, Int64GetDatum(filters[i].escaped));
		row_add_text(&row, escape_reason(filters[i].why_escaped));
		row_add_if(&row, filter->longest != 0, Int64GetDatum(filter->longest / NS_PER_MS));
		row_add_if(&row, filter->holder != 0, Int32GetDatum(filter->holder));

		row_put(fcinfo, &row);
	}

	return (Datum) 0;
}
