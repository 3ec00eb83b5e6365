/*
 * The records of the trace as rows.
 */
#include "trace/trace.h"

#include "catalog/pg_type.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "postmaster/bgworker.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(io_trace_get);

#define IO_TRACE_COLS 35

static const char *const state_names[] = {
	[TRACE_STAGED] = "STAGED",
	[TRACE_SUBMITTED] = "SUBMITTED",
	[TRACE_COMPLETED] = "COMPLETED",
};

static double
milliseconds(IoTime time)
{
	return (double) time / NS_PER_MS;
}

/*
 * Returns what pg_stat_activity calls backend_type.  Of a background worker
 * that has ended nothing more is known than that it was one.
 */
static const char *
trace_process_type(const TraceProcess *process)
{
	const char *type = NULL;

	if (process->type == B_BG_WORKER)
		type = GetBackgroundWorkerTypeByPid(process->pid);

	return type != NULL ? type : GetBackendTypeDesc(process->type);
}

/*
 * A row under construction.  Columns are set one after another.
 */
typedef struct Row
{
	Datum		values[IO_TRACE_COLS];
	bool		nulls[IO_TRACE_COLS];
	int			n;
} Row;

static void
add(Row *row, Datum value)
{
	row->values[row->n++] = value;
}

static void
add_if(Row *row, bool known, Datum value)
{
	row->nulls[row->n] = !known;
	add(row, value);
}

static void
add_time(Row *row, IoTime time, TimestampTz clock_offset)
{
	add_if(row, time != 0, TimestampTzGetDatum(clock_offset + time / 1000));
}

/*
 * Adds the columns about waits: the processes, the beginnings, the lengths.
 */
static void
add_waits(Row *row, const TraceRecord *record, TimestampTz clock_offset)
{
	Datum		pids[TRACE_MAX_WAITS];
	Datum		starts[TRACE_MAX_WAITS];
	Datum		lengths[TRACE_MAX_WAITS];
	bool		nulls[TRACE_MAX_WAITS];
	int			n = record->nkept;
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		const TraceWait *wait = &record->waits[i];

		pids[i] = Int32GetDatum(wait->process.pid);
		starts[i] = TimestampTzGetDatum(clock_offset + wait->start / 1000);
		lengths[i] = Float8GetDatum(milliseconds(wait->length));
		nulls[i] = wait->length < 0;
	}

	add(row, Int32GetDatum(record->nwaits));
	add(row, Float8GetDatum(milliseconds(record->wait_time)));
	add(row, PointerGetDatum(construct_array_builtin(pids, n, INT4OID)));
	add(row, PointerGetDatum(construct_array(starts, n, TIMESTAMPTZOID, sizeof(TimestampTz),
											 FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
	add(row, PointerGetDatum(construct_md_array(lengths, nulls, n > 0 ? 1 : 0, &n, &lower,
												FLOAT8OID, sizeof(float8),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
}

static void
fill_row(Row *row, const TraceRecord *record, TimestampTz clock_offset)
{
	const TraceOutcome *outcome = &record->outcome;
	bool		submitted = record->state != TRACE_STAGED;
	bool		completed = record->state == TRACE_COMPLETED;
	Oid			relation = trace_record_relation(record);

	add(row, Int64GetDatum(record->seq));
	add(row, Int32GetDatum(record->issuer.pid));
	add(row, Int32GetDatum(record->io));
	add(row, Int64GetDatum(record->generation));
	add(row, CStringGetTextDatum(state_names[record->state]));
	add(row, CStringGetTextDatum("readv"));
	add(row, Int64GetDatum(record->offset));
	add(row, Int64GetDatum((int64) record->target.smgr.nblocks * BLCKSZ));
	add(row, CStringGetTextDatum("smgr"));
	add(row, CStringGetTextDatum(trace_target_description(record)));
	add_if(row, outcome->has_raw, Int32GetDatum(outcome->raw));
	add(row, CStringGetTextDatum(pgaio_result_status_string(outcome->status)));
	add(row, BoolGetDatum((record->flags & PGAIO_HF_SYNCHRONOUS) != 0));
	add(row, BoolGetDatum((record->flags & PGAIO_HF_REFERENCES_LOCAL) != 0));
	add(row, BoolGetDatum((record->flags & PGAIO_HF_BUFFERED) != 0));
	add_if(row, OidIsValid(relation), ObjectIdGetDatum(relation));
	add(row, CStringGetTextDatum(forkNames[record->target.smgr.forkNum]));
	add(row, Int64GetDatum(record->target.smgr.blockNum));
	add(row, Int32GetDatum(record->target.smgr.nblocks));
	add_time(row, record->staged, clock_offset);
	add_time(row, record->submitted, clock_offset);
	add_time(row, record->completed, clock_offset);
	add_if(row, completed, Float8GetDatum(milliseconds(record->completed - record->submitted)));
	add_if(row, submitted, Int32GetDatum(record->in_progress));
	add_if(row, submitted, Int32GetDatum(record->lookahead));
	add_if(row, completed && record->executor.pid != 0, Int32GetDatum(record->executor.pid));
	add_if(row, completed && record->completer.pid != 0, Int32GetDatum(record->completer.pid));
	add(row, BoolGetDatum(record->joined));
	add_waits(row, record, clock_offset);
	add(row, BoolGetDatum(record->held));
	add(row, CStringGetTextDatum(trace_process_type(&record->issuer)));
}

/*
 * io_trace_get() returns setof record
 *
 * Returns the records, in the order in which the reads were staged, for the
 * view "io_trace".  Columns are those of pg_aios where there is one; times
 * are in milliseconds.
 */
Datum
io_trace_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext per_row;
	MemoryContext context;
	TimestampTz clock_offset;
	uint64		seq;
	uint64		end;

	require_trace_to_look(fcinfo);
	InitMaterializedSRF(fcinfo, 0);

	per_row = AllocSetContextCreate(CurrentMemoryContext, "io_trace row",
									ALLOCSET_SMALL_SIZES);
	context = MemoryContextSwitchTo(per_row);
	for (trace_range(&seq, &end, &clock_offset); seq < end; seq++)
	{
		TraceRecord record;
		Row			row = {0};

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_row);
		if (!trace_read(seq, &record))
			continue;
		fill_row(&row, &record, clock_offset);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	MemoryContextSwitchTo(context);
	MemoryContextDelete(per_row);

	return (Datum) 0;
}
