/*
 * Who waits for an I/O.
 */
#include "aio/waiters.h"

#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

/*
 * Finds the processes that wait for this I/O: they are in line for its
 * condition variable.  Returns how many there are, at most "max".
 */
int
io_waiters(PgAioHandle *ioh, int *pids, int max)
{
	proclist_mutable_iter iter;
	int			n = 0;

	SpinLockAcquire(&ioh->cv.mutex);
	proclist_foreach_modify(iter, &ioh->cv.wakeup, cvWaitLink)
	{
		if (n < max)
			pids[n++] = GetPGProcByNumber(iter.cur)->pid;
	}
	SpinLockRelease(&ioh->cv.mutex);

	return n;
}

/*
 * Returns whether a process waits for this I/O.
 */
bool
io_is_waiter(PgAioHandle *ioh, ProcNumber procno)
{
	proclist_mutable_iter iter;
	bool		found = false;

	SpinLockAcquire(&ioh->cv.mutex);
	proclist_foreach_modify(iter, &ioh->cv.wakeup, cvWaitLink)
	{
		found = found || iter.cur == procno;
	}
	SpinLockRelease(&ioh->cv.mutex);

	return found;
}

/*
 * Returns whether this wait event is that of a process that waits until another one
 * submits its reads.  Servers with the fix of doc/reports.md#io_uring-wait-hang have a
 * condition variable for that in PgAioBackend.  The headers of other servers know
 * neither the variable nor the event, so the event's name tells.
 */
bool
io_awaits_submission(uint32 wait_event)
{
	const char *name;

	if ((wait_event & WAIT_EVENT_CLASS_BITS) != PG_WAIT_IO)
		return false;
	name = pgstat_get_wait_event(wait_event);

	return name != NULL && strcmp(name, "AioIoSubmit") == 0;
}
