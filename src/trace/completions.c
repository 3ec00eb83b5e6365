/*
 * Records completions, as the server's callbacks tell them, and synchronous
 * reads, which no I/O method sees.
 *
 * The callback of md.c is the first that learns of a completion.  After it the
 * buffer manager looks at the pages, which settles how the read has ended; for
 * temporary tables the owner does that.
 */
#include "trace/trace.h"

#include "aio/callbacks.h"
#include "storage/spin.h"

/*
 * Returns the process that has executed a read which this process completes.
 * With io_uring the kernel has, unless the read never came there.
 */
static TraceProcess
executor_of(PgAioHandle *ioh)
{
#ifdef IOMETHOD_IO_URING_ENABLED
	const TraceProcess none = {0};

	if (io_method == IOMETHOD_IO_URING &&
		!(ioh->flags & PGAIO_HF_SYNCHRONOUS) &&
		!io_is_captured(ioh))
		return none;
#endif
	return trace_myself();
}

static void
callbacks_begin(PgAioHandle *ioh, PgAioResult result)
{
	TraceRecord *record = trace != NULL ? trace_lock_io(ioh, ioh->generation) : NULL;

	if (record == NULL)
		return;
	record->state = TRACE_COMPLETED;
	record->completed = io_now();
	record->outcome.has_raw = true;
	record->outcome.raw = ioh->result;
	record->outcome.status = result.status;
	record->executor = executor_of(ioh);
	record->held = io_is_delayed(ioh, ioh->generation);
	record->completer = trace_myself();
	SpinLockRelease(&record->mutex);
}

static void
callbacks_end(PgAioHandle *ioh, PgAioResult result)
{
	TraceRecord *record = trace != NULL ? trace_lock_io(ioh, ioh->generation) : NULL;

	if (record == NULL)
		return;
	if (result.status != PGAIO_RS_UNKNOWN)
		record->outcome.status = result.status;
	SpinLockRelease(&record->mutex);
}

/*
 * IoStageHook: begins a record for a synchronous read, which is executed
 * next.
 */
static void
see_synchronous(PgAioHandle *ioh)
{
	if (trace != NULL && (ioh->flags & PGAIO_HF_SYNCHRONOUS))
		trace_staged(ioh, true);
}

/*
 * Takes part in the server's callbacks.  Returns why not, or NULL.
 */
const char *
trace_see_completions(void)
{
	static const IoCompletionHooks hooks = {
		.begins = callbacks_begin,
		.ends = callbacks_end,
	};
	const char *reason = io_on_stage(see_synchronous);

	return reason != NULL ? reason : io_on_completion(&hooks);
}
