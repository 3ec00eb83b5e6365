/*-------------------------------------------------------------------------
 *
 * chrome.c
 *		The trace in the Trace Event Format of Chrome, which Perfetto and
 *		others read.
 *
 * One event a row; the rows under one another are a JSON document.  Each
 * process is one of the format's processes with one thread.  Reads overlap, so
 * they are asynchronous events of the process that has issued them.  What a
 * process does itself are slices of its thread: from staging to submitting a
 * read, waiting for one, running its completion callbacks.  An arrow goes from
 * the first to the last if that is in another process.
 *
 * No string has a backslash but in \uXXXX, so that the document stays valid,
 * if not true to strange names, when COPY doubles it.
 *
 * src/trace/chrome.c
 *
 *-------------------------------------------------------------------------
 */
#include "trace/trace.h"

#include "common/relpath.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(io_trace_chrome);

/* times in microseconds, as the format has them */
#define US "%.3f"
#define us(time) ((double) (time) / 1000)

/* A read begins or ends. */
typedef struct Step
{
	IoTime		when;
	int			pid;
	int			ios;			/* +1 or -1 */
	int			lookahead;		/* as of a beginning */
} Step;

typedef struct Chrome
{
	ReturnSetInfo *rsinfo;
	StringInfoData event;
	bool		first;
	IoTime		now;			/* the end of what has none */
	HTAB	   *processes;
	Step	   *steps;
	uint64		nsteps;
} Chrome;

static void
put_row(Chrome *chrome, const char *text)
{
	Datum		values[1] = {CStringGetTextDatum(text)};
	bool		nulls[1] = {false};

	tuplestore_putvalues(chrome->rsinfo->setResult, chrome->rsinfo->setDesc, values, nulls);
}

/*
 * Begins an event.  Its text goes into chrome->event, up to end_event().
 */
static void
begin_event(Chrome *chrome, const char *phase, int pid)
{
	resetStringInfo(&chrome->event);
	appendStringInfo(&chrome->event, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d",
					 chrome->first ? "" : ",", phase, pid, pid);
	chrome->first = false;
}

static void
end_event(Chrome *chrome)
{
	appendStringInfoChar(&chrome->event, '}');
	put_row(chrome, chrome->event.data);
}

static void
append_json_string(StringInfo out, const char *string)
{
	appendStringInfoChar(out, '"');
	for (; *string != '\0'; string++)
	{
		if (*string == '"' || *string == '\\' || (unsigned char) *string < ' ')
			appendStringInfo(out, "\\u%04x", (unsigned char) *string);
		else
			appendStringInfoChar(out, *string);
	}
	appendStringInfoChar(out, '"');
}

/*
 * Returns the name of what was read: a relation, or a file if no relation is
 * known.
 */
static char *
target_name(const TraceRecord *record)
{
	Oid			relation = trace_record_relation(record);
	ForkNumber	fork = record->target.smgr.forkNum;
	char	   *name;

	if (OidIsValid(relation))
		name = DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(relation)));
	else
		name = psprintf("%u/%u/%u", record->target.smgr.rlocator.spcOid,
						record->target.smgr.rlocator.dbOid,
						record->target.smgr.rlocator.relNumber);

	return fork == MAIN_FORKNUM ? name : psprintf("%s (%s)", name, forkNames[fork]);
}

/*
 * Names a process when it is met for the first time.
 */
static void
meet_process(Chrome *chrome, const TraceProcess *process)
{
	static const char *const kinds[] = {"process_name", "thread_name"};
	bool		found;

	if (process->pid == 0)
		return;
	(void) hash_search(chrome->processes, &process->pid, HASH_ENTER, &found);
	if (found)
		return;

	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		begin_event(chrome, "M", process->pid);
		appendStringInfo(&chrome->event, ",\"name\":\"%s\",\"args\":{\"name\":", kinds[i]);
		append_json_string(&chrome->event, psprintf("%s %d", trace_process_type(process), process->pid));
		appendStringInfoChar(&chrome->event, '}');
		end_event(chrome);
	}
}

/*
 * Puts out a slice of a process's thread.
 */
static void
put_slice(Chrome *chrome, int pid, const char *what, const char *target,
		  uint64 seq, IoTime begin, IoTime end)
{
	begin_event(chrome, "X", pid);
	appendStringInfo(&chrome->event, ",\"cat\":\"io\",\"ts\":" US ",\"dur\":" US ",\"name\":",
					 us(begin), us(end - begin));
	append_json_string(&chrome->event, psprintf("%s %s", what, target));
	appendStringInfo(&chrome->event, ",\"args\":{\"seq\":" UINT64_FORMAT "}", seq);
	end_event(chrome);
}

/*
 * Puts out one end of the arrow from the process that has issued a read to
 * the process that has completed it.
 */
static void
put_flow(Chrome *chrome, const char *phase, int pid, uint64 seq, IoTime when)
{
	begin_event(chrome, phase, pid);
	appendStringInfo(&chrome->event, ",\"cat\":\"io\",\"name\":\"completion\",\"id\":" UINT64_FORMAT ",\"ts\":" US "%s",
					 seq, us(when), *phase == 'f' ? ",\"bp\":\"e\"" : "");
	end_event(chrome);
}

static void
put_read_end(Chrome *chrome, const TraceRecord *record, const char *phase,
			 const char *target, IoTime when)
{
	begin_event(chrome, phase, record->issuer.pid);
	/* a local one, or viewers show the reads of all processes on one track */
	appendStringInfo(&chrome->event, ",\"cat\":\"io\",\"id2\":{\"local\":" UINT64_FORMAT "},\"ts\":" US ",\"name\":",
					 record->seq, us(when));
	append_json_string(&chrome->event, psprintf("read %s", target));
}

/*
 * Puts out the read itself, from its submission to its completion.
 */
static void
put_read(Chrome *chrome, const TraceRecord *record, const char *target,
		 IoTime begin, IoTime end)
{
	StringInfo	event = &chrome->event;

	put_read_end(chrome, record, "b", target, begin);
	appendStringInfo(event, ",\"args\":{\"block\":%u,\"blocks\":%u,\"in_progress\":%d,\"lookahead_distance\":%d,\"held\":%s,\"synchronous\":%s}",
					 record->target.smgr.blockNum, record->target.smgr.nblocks,
					 record->in_progress, record->lookahead,
					 record->held ? "true" : "false",
					 record->flags & PGAIO_HF_SYNCHRONOUS ? "true" : "false");
	end_event(chrome);

	put_read_end(chrome, record, "e", target, end);
	appendStringInfo(event, ",\"args\":{\"completed\":%s,\"exact\":%s,\"result\":\"%s\",\"joined\":%s",
					 record->state == TRACE_COMPLETED ? "true" : "false",
					 record->exact ? "true" : "false",
					 pgaio_result_status_string(record->outcome.status),
					 record->joined ? "true" : "false");
	if (record->outcome.has_raw)
		appendStringInfo(event, ",\"raw_result\":%d", record->outcome.raw);
	appendStringInfoChar(event, '}');
	end_event(chrome);
}

static void
add_step(Chrome *chrome, IoTime when, int pid, int ios, int lookahead)
{
	chrome->steps[chrome->nsteps++] = (Step)
	{
		.when = when,.pid = pid,.ios = ios,.lookahead = lookahead
	};
}

static void
put_record(Chrome *chrome, const TraceRecord *record)
{
	char	   *target = target_name(record);
	bool		completed = record->state == TRACE_COMPLETED;
	bool		submitted = record->state != TRACE_STAGED;
	IoTime		begin = submitted ? record->submitted : record->staged;
	IoTime		end = completed ? record->completed : Max(begin, chrome->now);

	meet_process(chrome, &record->issuer);
	put_read(chrome, record, target, begin, end);

	if (submitted)
	{
		put_slice(chrome, record->issuer.pid, "stage", target, record->seq,
				  record->staged, record->submitted);
		add_step(chrome, begin, record->issuer.pid, 1, record->lookahead);
		if (completed)
			add_step(chrome, end, record->issuer.pid, -1, 0);
	}

	for (int i = 0; i < record->nkept; i++)
	{
		const TraceWait *wait = &record->waits[i];

		meet_process(chrome, &wait->process);
		put_slice(chrome, wait->process.pid, "wait for", target, record->seq, wait->start,
				  wait->length < 0 ? Max(wait->start, chrome->now) : wait->start + wait->length);
	}

	/* where the callbacks have run, and when, is known of exact ones */
	if (record->finished != 0)
	{
		meet_process(chrome, &record->completer);
		put_slice(chrome, record->completer.pid, "complete", target, record->seq,
				  record->completed, record->finished);
		if (record->completer.pid != record->issuer.pid)
		{
			put_flow(chrome, "s", record->issuer.pid, record->seq, record->staged);
			put_flow(chrome, "f", record->completer.pid, record->seq, record->completed);
		}
	}
}

static int
compare_steps(const void *a, const void *b)
{
	const Step *x = a;
	const Step *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->ios - y->ios;
}

static void
put_counter(Chrome *chrome, const Step *step, const char *name, int value)
{
	begin_event(chrome, "C", step->pid);
	appendStringInfo(&chrome->event, ",\"ts\":" US ",\"name\":\"%s\",\"args\":{\"%s\":%d}",
					 us(step->when), name, name, value);
	end_event(chrome);
}

/*
 * Puts out the counters of a process while it has reads in progress: how
 * many, and how far it has looked ahead.  Resets the current memory context
 * for each step, so that memory does not grow with the number of rows.
 */
static void
put_counters(Chrome *chrome)
{
	int			in_progress = 0;

	qsort(chrome->steps, chrome->nsteps, sizeof(Step), compare_steps);
	for (uint64 i = 0; i < chrome->nsteps; i++)
	{
		const Step *step = &chrome->steps[i];

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(CurrentMemoryContext);
		if (i > 0 && step->pid != step[-1].pid)
			in_progress = 0;
		in_progress += step->ios;
		put_counter(chrome, step, "I/Os in progress", in_progress);
		if (step->ios > 0 || in_progress == 0)
			put_counter(chrome, step, "look-ahead distance", step->lookahead);
	}
}

static void
put_records(Chrome *chrome)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "io_trace row",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext context;
	uint64		seq;
	uint64		end;

	trace_range(&seq, &end);
	chrome->steps = palloc_extended(Max(end - seq, 1) * 2 * sizeof(Step), MCXT_ALLOC_HUGE);

	context = MemoryContextSwitchTo(per_row);
	for (; seq < end; seq++)
	{
		TraceRecord record;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_row);
		if (trace_read(seq, &record))
			put_record(chrome, &record);
	}
	put_counters(chrome);
	MemoryContextSwitchTo(context);
	MemoryContextDelete(per_row);
	pfree(chrome->steps);
}

/*
 * io_trace_chrome() returns setof text
 *
 * Returns the trace as Chrome trace events.  The rows, one below the other,
 * are a JSON document.  Times are those of CLOCK_MONOTONIC.
 */
Datum
io_trace_chrome(PG_FUNCTION_ARGS)
{
	HASHCTL		control = {.keysize = sizeof(int),.entrysize = sizeof(int)};
	Chrome		chrome = {.first = true,.now = io_now()};

	require_trace_to_look(fcinfo);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	chrome.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	control.hcxt = CurrentMemoryContext;
	chrome.processes = hash_create("io_trace processes", 64, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	initStringInfo(&chrome.event);

	put_row(&chrome, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
	put_records(&chrome);
	put_row(&chrome, "]}");

	return (Datum) 0;
}
