/*
 * The inj_ functions: filters that hold completions and change results.
 *
 * There is one filter of each kind, which any session sets and ends.  The gate
 * carries it out, or, on a server with injection points and without a gate, the
 * process that completes a read.
 */
#include "filters/filters.h"

PG_FUNCTION_INFO_V1(inj_io_completion_wait);
PG_FUNCTION_INFO_V1(inj_io_short_read_attach);
PG_FUNCTION_INFO_V1(inj_io_reopen_attach);

FILTERS_END_FUNCTION(inj_io_completion_continue, FILTER_COMPLETION_WAIT)
FILTERS_END_FUNCTION(inj_io_short_read_detach, FILTER_SHORT_READ)
FILTERS_END_FUNCTION(inj_io_reopen_detach, FILTER_REOPEN)

static RelFileNumber
relfilenode_arg(FunctionCallInfo fcinfo, int arg)
{
	check_range("relfilenode", PG_ARGISNULL(arg) ? 1 : PG_GETARG_OID(arg), 1, PG_UINT32_MAX);
	return PG_ARGISNULL(arg) ? InvalidRelFileNumber : PG_GETARG_OID(arg);
}

/*
 * Holds the completion of matching reads until inj_io_completion_continue() in any
 * session.  The process that would complete it shows the wait event
 * "completion_wait".
 */
Datum
inj_io_completion_wait(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_COMPLETION_WAIT);

	filter.match.pid = io_pid_arg(fcinfo, 0, "pid");
	filter.match.relfilenumber = relfilenode_arg(fcinfo, 1);
	io_match_block_arg(fcinfo, 2, PG_GETARG_INT32(2), &filter.match);
	(void) filters_put(&filter);

	PG_RETURN_VOID();
}

/*
 * Gives matching reads this result from now on: a number of bytes below what was read
 * (the rest is zeroed), or a negative errno.  NULL leaves the result as it is.
 */
Datum
inj_io_short_read_attach(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_SHORT_READ);

	filter.match.pid = io_pid_arg(fcinfo, 1, "pid");
	filter.match.relfilenumber = relfilenode_arg(fcinfo, 2);
	filter.has_result = io_result_arg(fcinfo, 0, &filter.result);
	(void) filters_put(&filter);

	PG_RETURN_VOID();
}

/* Makes I/O workers fail to reopen files; reads through them fail with ENOENT. */
Datum
inj_io_reopen_attach(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_REOPEN);

	if (io_method != IOMETHOD_WORKER)
		ereport(ERROR, errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("files are reopened only with \"io_method\" set to \"worker\""));
	(void) filters_put(&filter);

	PG_RETURN_VOID();
}
