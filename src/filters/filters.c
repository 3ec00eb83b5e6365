/*
 * io_hold(), io_fail(), io_corrupt() and io_route(): filters that the gate carries out;
 * and the arguments that are alike in all functions of the gate.
 *
 * Filters concern the reads of all sessions.  A filter ends with its holder, the
 * session that has made it, unless that session asked for it to be kept.
 */
#include "filters/filters.h"

/* bytes of a short write; with fewer, the server would be busy for hours */
#define MIN_WRITTEN 512

PG_FUNCTION_INFO_V1(io_hold);
PG_FUNCTION_INFO_V1(io_fail);
PG_FUNCTION_INFO_V1(io_corrupt);
PG_FUNCTION_INFO_V1(io_route);
PG_FUNCTION_INFO_V1(io_filters_get);

static const char *const kind_names[] = {
	[FILTER_HOLD] = "hold",
	[FILTER_DEVICE] = "device",
	[FILTER_FAIL] = "fail",
	[FILTER_CORRUPT] = "corrupt",
	[FILTER_SYNCHRONOUS] = "synchronous",
	[FILTER_METHOD] = "method",
	[FILTER_COMPLETION_WAIT] = "completion_wait",
	[FILTER_SHORT_READ] = "short_read",
	[FILTER_REOPEN] = "reopen",
};

static const char *const bypass_reasons[] = {
	[BYPASS_NONE] = NULL,
	[BYPASS_PROCESS] = "a process on which others depend reads it",
	[BYPASS_CRITICAL] = "the process is in a critical section",
	[BYPASS_EXIT] = "the process exits",
	[BYPASS_SHUTDOWN] = "the server shuts down",
	[BYPASS_NO_WORKER] = "the gate's worker is not running",
	[BYPASS_WAITER] = "a process that cannot be interrupted waits for it",
	[BYPASS_TIMEOUT] = "it was held for as long as \"test_aio.hold_timeout\" allows",
};

/* Reads an optional number that is at least "minimum", or returns "missing". */
int64
filter_count_arg(FunctionCallInfo fcinfo, int arg, const char *name, int minimum, int64 missing)
{
	if (PG_ARGISNULL(arg))
		return missing;
	check_range(name, PG_GETARG_INT32(arg), minimum, PG_INT32_MAX);
	return PG_GETARG_INT32(arg);
}

static bool
flag_arg(FunctionCallInfo fcinfo, int arg)
{
	return !PG_ARGISNULL(arg) && PG_GETARG_BOOL(arg);
}

/*
 * Reads "rel", the block, and from "arg" on fork, pid, skip, times, keep, everybody, op
 * (unless it is about reads only), backend_type, leader_pid; and "family", the last one.
 */
void
filter_match_args(FunctionCallInfo fcinfo, int block_arg, int arg, Filter *filter)
{
	IoMatch    *match = &filter->match;
	bool		everybody = flag_arg(fcinfo, arg + 5);

	*match = io_match_rel_arg(fcinfo, 0, flag_arg(fcinfo, PG_NARGS() - 1));
	io_match_block_arg(fcinfo, block_arg, PG_GETARG_INT64(block_arg), match);
	if (!PG_ARGISNULL(arg))
		match->fork = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(arg)));
	match->pid = io_pid_arg(fcinfo, arg + 1, "pid");
	filter->skip = filter_count_arg(fcinfo, arg + 2, "skip", 0, 0);
	filter->times = filter_count_arg(fcinfo, arg + 3, "times", 1, -1);
	if (flag_arg(fcinfo, arg + 4))
		filter->holder = 0;
	arg += 6;
	if (filter->kind <= FILTER_FAIL)
		io_match_op_arg(fcinfo, arg++, match);
	if (!PG_ARGISNULL(arg))
		io_match_backend_type(text_to_cstring(PG_GETARG_TEXT_PP(arg)), match);
	match->leader_pid = io_pid_arg(fcinfo, arg + 1, "leader_pid");
	if (match->nrels == 0 && match->pid == 0 && match->leader_pid == 0 &&
		match->backend_type == B_INVALID && !everybody)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("neither a relation nor a process is named"),
				errhint("Set \"everybody\" to true to match all relations and processes."));
}

/* Holds matching reads until they are released.  Returns the filter's number. */
Datum
io_hold(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_HOLD);

	filter_match_args(fcinfo, 1, 2, &filter);
	PG_RETURN_INT32(filters_put(&filter));
}

/*
 * Gives matching reads a number of bytes, if they have read more (the rest is
 * zeroed), or a negative errno.  Returns the filter's number.
 */
Datum
io_fail(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_FAIL);

	check_not_null("result", PG_ARGISNULL(1));
	filter.has_result = io_result_arg(fcinfo, 1, &filter.result);
	if (filter.result > 0 && filter.result < BLCKSZ)
		ereport(NOTICE,
				errmsg("matching I/O ends after %d bytes", filter.result),
				errhint("For an error, negate its number: -errno_from_string('EIO')."));
	filter_match_args(fcinfo, 2, 3, &filter);
	if ((filter.match.ops & ~IO_OP_BIT(PGAIO_OP_READV)) != 0 && filter.times < 0 &&
		(filter.result == -EINTR || (filter.result >= 0 && filter.result < MIN_WRITTEN)))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("the server would repeat writes with this result forever"),
				errhint("Set \"times\"."));

	PG_RETURN_INT32(filters_put(&filter));
}

/*
 * Inverts a byte of a block in the memory that matching reads have filled, before the
 * server looks at the page.  Returns the filter's number.
 */
Datum
io_corrupt(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_CORRUPT);

	check_not_null("blockno and offset", PG_ARGISNULL(1) || PG_ARGISNULL(2));
	check_range("offset", PG_GETARG_INT32(2), 0, BLCKSZ - 1);
	filter.has_result = true;
	filter.result = PG_GETARG_INT32(2);
	filter_match_args(fcinfo, 1, 3, &filter);
	if (filter.match.fork == InvalidForkNumber)
		filter.match.fork = MAIN_FORKNUM;

	PG_RETURN_INT32(filters_put(&filter));
}

/*
 * Has matching reads executed by the process that submits them, or has the I/O method
 * execute those that are flagged as synchronous.  Returns the filter's number.
 */
Datum
io_route(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_SYNCHRONOUS);
	const char *route;

	check_not_null("route", PG_ARGISNULL(1));
	route = text_to_cstring(PG_GETARG_TEXT_PP(1));
	while (filter.kind <= FILTER_METHOD && strcmp(route, kind_names[filter.kind]) != 0)
		filter.kind++;
	if (filter.kind > FILTER_METHOD)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("\"route\" must be \"synchronous\" or \"method\""));
	filter_match_args(fcinfo, 2, 3, &filter);

	PG_RETURN_INT32(filters_put(&filter));
}

/*
 * Ends this filter of a kind, of any session; without a number those of this session,
 * or with "everybody" those of all sessions; without such arguments all.  Reads that
 * have been submitted stay held, and keep their result.  Returns how many have ended.
 */
Datum
filters_end_by_args(FunctionCallInfo fcinfo, FilterKind kind)
{
	int			id;

	require_filter_kind(fcinfo, kind != FILTER_NONE ? kind : FILTER_HOLD);
	if (PG_NARGS() == 0)
		PG_RETURN_INT32(filters_end(kind, 0, false, false));
	id = filter_count_arg(fcinfo, 0, "filter", 1, 0);
	PG_RETURN_INT32(filters_end(kind, id, id == 0 && !flag_arg(fcinfo, 1), false));
}

FILTERS_END_FUNCTION(io_hold_end, FILTER_HOLD)
FILTERS_END_FUNCTION(io_fail_end, FILTER_FAIL)
FILTERS_END_FUNCTION(io_filter_end, FILTER_NONE)

Datum
io_filters_get(PG_FUNCTION_ARGS)
{
	Filter	   *filters = palloc_array(Filter, MAX_FILTERS);
	FilterCounts counts[MAX_FILTERS];	/* palloc() may align it too little */
	Row		   *row = begin_view(fcinfo, &filters_subsystem);

	filters_copy(filters, counts);

	for (int i = 0; i < MAX_FILTERS; i++)
	{
		const Filter *filter = &filters[i];
		const IoMatch *match = &filter->match;

		if (filter->kind == FILTER_NONE)
			continue;

		row_set(row, "filter", Int32GetDatum(filter->id));
		row_set_text(row, "kind", kind_names[filter->kind]);
		row_set_text(row, "op", io_op_names(match->ops));
		row_set_file(row, match->nrels > 0, &match->rels[0]);
		row_set_text(row, "fork", match->fork != InvalidForkNumber ? forkNames[match->fork] : NULL);
		row_set_if(row, "blockno", match->block != InvalidBlockNumber, Int64GetDatum(match->block));
		row_set_if(row, "pid", match->pid != 0, Int32GetDatum(match->pid));
		row_set_if(row, "leader_pid", match->leader_pid != 0, Int32GetDatum(match->leader_pid));
		row_set_text(row, "backend_type", match->worker_type[0] != '\0' ? match->worker_type :
					 match->backend_type != B_INVALID ? GetBackendTypeDesc(match->backend_type) : NULL);
		row_set_if(row, "result", filter->has_result, Int32GetDatum(filter->result));
		row_set(row, "skip", Int64GetDatum(filter->skip));
		row_set_if(row, "times", filter->times >= 0, Int64GetDatum(filter->times));
		row_set(row, "matched", Int64GetDatum(pg_atomic_read_u64(&counts[i].matched)));
		row_set(row, "fired", Int64GetDatum(pg_atomic_read_u64(&counts[i].fired)));
		row_set(row, "bypassed", Int64GetDatum(pg_atomic_read_u64(&counts[i].bypassed)));
		row_set_text(row, "why_bypassed", bypass_reasons[counts[i].why]);
		row_set_if(row, "hold_timeout", filter->kind <= FILTER_DEVICE || filter->kind == FILTER_COMPLETION_WAIT,
				   Int64GetDatum(filter->limits.longest / NS_PER_MS));
		row_set_if(row, "holder", filter->holder != 0, Int32GetDatum(filter->holder));
		if (filter->kind == FILTER_DEVICE)
			filters_handler->show_device(filter, row);

		row_put(row);
	}

	return (Datum) 0;
}
