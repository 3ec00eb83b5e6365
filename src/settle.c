/*
 * Waiting until all is quiet, for those who step from one held read to the next.
 *
 * All is quiet when every other process of the server sleeps, and the kernel has run
 * none of them between two looks.  Then nothing happens before somebody does something,
 * or a timer goes off, and the server's views tell what each process waits for.
 */
#include "test_aio.h"

PG_FUNCTION_INFO_V1(io_settle);

/* how long to sleep between two looks: briefly at first */
#define SHORT_NAP_US 20
#define LONG_NAP_US 1000
#define SHORT_NAPS 200

/* of a wait event, the bits that tell its class */
#define WAIT_EVENT_CLASS_MASK 0xFF000000U

/* Returns how often the kernel has switched to or from a sleeping process, else -1. */
static int64
switches_of_sleeper(int pid)
{
	char		path[64];
	char		status[4096];
	const char *voluntary;
	const char *involuntary;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (!read_small_file(path, status, sizeof(status)))
		return -1;

	voluntary = strstr(status, "\nvoluntary_ctxt_switches:\t");
	involuntary = strstr(status, "\nnonvoluntary_ctxt_switches:\t");
	if (strstr(status, "\nState:\tS") == NULL || voluntary == NULL || involuntary == NULL)
		return -1;

	return atoll(strchr(voluntary, '\t')) + atoll(strchr(involuntary, '\t'));
}

/*
 * Returns whether a process with this wait event waits for the kernel: for a read, for
 * example of a slow file system, or for a moment, since a spinlock was taken.
 */
static bool
wakes_by_itself(uint32 wait_event)
{
	return wait_event == WAIT_EVENT_SPIN_DELAY ||
		((wait_event & WAIT_EVENT_CLASS_MASK) == PG_WAIT_IO && wait_event != WAIT_EVENT_AIO_IO_COMPLETION);
}

/*
 * Returns the sum for the server's processes, or -1 unless all but this one sleep
 * until another process wakes them.  One that is woken no longer sleeps, even if it
 * has not run yet.
 */
static int64
switches_of_sleepers(void)
{
	int64		sum = 0;

	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);
		int			pid = *(volatile int *) &proc->pid;
		int64		switches;

		if (pid == 0 || pid == MyProcPid)
			continue;
		if (wakes_by_itself(*(volatile uint32 *) &proc->wait_event_info))
			return -1;
		switches = switches_of_sleeper(pid);
		if (switches < 0)
			return -1;
		sum += switches;
	}

	return sum;
}

/*
 * Waits until all is quiet, at most for "timeout" milliseconds.  Returns whether it is.
 */
Datum
io_settle(PG_FUNCTION_ARGS)
{
	int			timeout = PG_GETARG_INT32(0);
	IoTime		deadline = io_now() + timeout * NS_PER_MS;
	int64		before = -1;

	require_superuser(fcinfo);
	check_range("timeout", timeout, 0, PG_INT32_MAX);

	for (int naps = 0;; naps++)
	{
		int64		switches = switches_of_sleepers();

		if (switches >= 0 && switches == before)
			PG_RETURN_BOOL(true);
		if (io_now() >= deadline)
			PG_RETURN_BOOL(false);
		before = switches;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(naps < SHORT_NAPS ? SHORT_NAP_US : LONG_NAP_US);
	}
}
