/*
 * The records of the trace as rows.
 */
#include "trace/trace.h"

#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(io_trace_get);
PG_FUNCTION_INFO_V1(io_trace_status_get);

static const char *const state_names[] = {
	[TRACE_STAGED] = "STAGED",
	[TRACE_SUBMITTED] = "SUBMITTED",
	[TRACE_COMPLETED] = "COMPLETED",
};

static void
add_time(Row *row, const char *column, IoTime time, TimestampTz clock_offset)
{
	row_set_if(row, column, time != 0, TimestampTzGetDatum(clock_offset + time / 1000));
}

/* Adds the columns about waits: the processes, the beginnings, the lengths, the calls. */
static void
add_waits(Row *row, const TraceRecord *record, TimestampTz clock_offset)
{
	MemoryContext context = CurrentMemoryContext;
	ArrayBuildState *pids = initArrayResult(INT4OID, context, false);
	ArrayBuildState *starts = initArrayResult(TIMESTAMPTZOID, context, false);
	ArrayBuildState *lengths = initArrayResult(FLOAT8OID, context, false);
	ArrayBuildState *calls = initArrayResult(TEXTOID, context, false);

	for (int i = 0; i < Min(record->nwaits, TRACE_MAX_WAITS); i++)
	{
		const TraceWait *wait = &record->waits[i];

		accumArrayResult(pids, Int32GetDatum(wait->pid), false, INT4OID, context);
		accumArrayResult(starts, TimestampTzGetDatum(clock_offset + wait->start / 1000), false, TIMESTAMPTZOID, context);
		accumArrayResult(lengths, Float8GetDatum((double) wait->length / NS_PER_MS), wait->length < 0, FLOAT8OID, context);
		accumArrayResult(calls, wait->call != NULL ? CStringGetTextDatum(wait->call) : 0, wait->call == NULL, TEXTOID, context);
	}

	row_set(row, "waits", Int32GetDatum(record->nwaits));
	row_set_ms(row, "wait_time", true, record->wait_time);
	row_set(row, "waiters", makeArrayResult(pids, context));
	row_set(row, "wait_starts", makeArrayResult(starts, context));
	row_set(row, "wait_times", makeArrayResult(lengths, context));
	row_set(row, "wait_calls", makeArrayResult(calls, context));
}

static void
fill_row(Row *row, const TraceRecord *record, TimestampTz clock_offset)
{
	bool		submitted = record->state != TRACE_STAGED;
	bool		completed = record->state == TRACE_COMPLETED;
	const char *worker_type;
	bool		is_read = record->op == PGAIO_OP_READV;

	row_set(row, "seq", Int64GetDatum(record->seq));
	row_set(row, "pid", Int32GetDatum(record->issuer));
	row_set(row, "io_id", Int32GetDatum(record->io));
	row_set(row, "io_generation", Int64GetDatum(record->generation));
	row_set_text(row, "state", state_names[record->state]);
	row_set_text(row, "operation", is_read ? "readv" : io_op_names(IO_OP_BIT(record->op)));
	row_set(row, "off", Int64GetDatum(record->offset));
	row_set_text(row, "target", record->op >= IO_OP_WAL_WRITE ? "wal" : "smgr");
	io_set_target(row, &record->target);
	row_set_if(row, "raw_result", completed, Int32GetDatum(record->raw_result));
	row_set_text(row, "result", pgaio_result_status_string(record->status));
	row_set(row, "f_sync", BoolGetDatum((record->flags & PGAIO_HF_SYNCHRONOUS) != 0));
	row_set(row, "f_localmem", BoolGetDatum(record->target.smgr.is_temp));
	row_set(row, "f_buffered", BoolGetDatum((record->flags & PGAIO_HF_BUFFERED) != 0));
	add_time(row, "staged_at", record->staged, clock_offset);
	add_time(row, "submitted_at", record->submitted, clock_offset);
	add_time(row, "completed_at", record->completed, clock_offset);
	row_set_ms(row, "latency", completed, record->completed - record->submitted);
	row_set_if(row, "in_progress", submitted && is_read, Int32GetDatum(record->in_progress));
	row_set_if(row, "lookahead_distance", submitted && is_read, Int32GetDatum(record->lookahead));
	row_set_if(row, "executed_by", completed && record->executor != 0, Int32GetDatum(record->executor));
	row_set_if(row, "completed_by", completed, Int32GetDatum(record->completer));
	row_set(row, "joined", BoolGetDatum(record->joined));
	add_waits(row, record, clock_offset);
	row_set(row, "held", BoolGetDatum(completed ? record->held : submitted &&
									  io_is_delayed(io_handle(record->io), record->generation)));
	/* of a background worker that has ended, just that it was one */
	worker_type = record->issuer_type == B_BG_WORKER ? GetBackgroundWorkerTypeByPid(record->issuer) : NULL;
	row_set_text(row, "backend_type", worker_type != NULL ? worker_type : GetBackendTypeDesc(record->issuer_type));
	row_set_if(row, "submitted_together", record->together > 0, Int32GetDatum(record->together));
	if (completed && is_read && record->executor == record->issuer)
		row_set_text(row, "why_issuer", record->flags & PGAIO_HF_SYNCHRONOUS ? "flag" :
					 record->together == 0 ? "method" :
					 record->held || io_method != IOMETHOD_WORKER ? "gate" : "queue");
	row_set(row, "waits_for_handle", Int32GetDatum(record->nwaits_for_handle));
}

/*
 * Returns the records in the order of staging, for the view "io_trace".  Columns are
 * those of pg_aios where there is one; times are in milliseconds.
 */
Datum
io_trace_get(PG_FUNCTION_ARGS)
{
	Row		   *row = begin_view(fcinfo, &trace_subsystem);
	MemoryContext per_row;
	MemoryContext context;
	TimestampTz clock_offset;
	uint64		seq;
	uint64		end;

	per_row = AllocSetContextCreate(CurrentMemoryContext, "io_trace row",
									ALLOCSET_SMALL_SIZES);
	context = MemoryContextSwitchTo(per_row);
	LWLockAcquire(trace->lock, LW_SHARED);
	seq = trace->first;
	clock_offset = trace->clock_offset;
	LWLockRelease(trace->lock);
	end = pg_atomic_read_u64(&trace->next);
	if (end - seq > trace->nrecords)
		seq = end - trace->nrecords;
	for (; seq < end; seq++)
	{
		TraceRecord *record;
		TraceRecord copy;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_row);
		record = trace_lock(seq);
		/* overwritten meanwhile */
		if (record == NULL)
			continue;
		copy = *record;
		SpinLockRelease(&record->mutex);
		fill_row(row, &copy, clock_offset);
		row_put(row);
	}
	MemoryContextSwitchTo(context);
	MemoryContextDelete(per_row);

	return (Datum) 0;
}

Datum
io_trace_status_get(PG_FUNCTION_ARGS)
{
	Row		   *row = begin_view(fcinfo, &trace_subsystem);
	TraceRing	now;
	uint64		recorded;

	LWLockAcquire(trace->lock, LW_SHARED);
	now = *trace;
	LWLockRelease(trace->lock);

	recorded = pg_atomic_read_u64(&now.next) - now.first;
	row_set(row, "running", BoolGetDatum(now.ops != 0));
	row_set_file(row, now.match.nrels > 0, &now.match.rels[0]);
	row_set_if(row, "pid", now.match.pid != 0, Int32GetDatum(now.match.pid));
	row_set_text(row, "op", io_op_names(now.match.ops));
	row_set(row, "size", Int32GetDatum(now.nrecords));
	row_set(row, "recorded", Int64GetDatum(recorded));
	row_set(row, "lost", Int64GetDatum(recorded > now.nrecords ? recorded - now.nrecords : 0));
	row_set(row, "lost_waits", Int64GetDatum(pg_atomic_read_u64(&now.lost_waits)));
	row_set_if(row, "started_at", now.started_at != 0, TimestampTzGetDatum(now.started_at));
	row_set_if(row, "stopped_at", now.stopped_at != 0, TimestampTzGetDatum(now.stopped_at));

	return row_result(row);
}
