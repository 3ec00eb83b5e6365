/*-------------------------------------------------------------------------
 *
 * waiters.c
 *		Who waits for an I/O.
 *
 * src/aio/waiters.c
 *
 *-------------------------------------------------------------------------
 */
#include "aio/waiters.h"

#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/spin.h"

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
