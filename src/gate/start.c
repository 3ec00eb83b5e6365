/*
 * Start-up of the gate: its settings, and which filters it carries out.
 *
 * If the AIO subsystem's structures are not as expected, the gate is disabled and
 * says why; the rest of the extension does not need it.
 */
#include "gate/gate.h"

#include "access/transam.h"

/* values of test_aio.gate */
enum
{
	GATE_OFF,
	GATE_ON,
	GATE_TRY,					/* in an unknown major version, too */
};

static const struct config_enum_entry gate_modes[] = {
	{"off", GATE_OFF, false},
	{"on", GATE_ON, false},
	{"try", GATE_TRY, false},
	{NULL, 0, false}
};

static int	gate_mode = GATE_ON;
static bool reach_synchronous_reads = true;
static char *hold_at_start = "none";

/*
 * Subsystem.begin: has the I/O methods ask the gate about each read, and carries the
 * filters out.  The gate can hold all reads but synchronous ones, and with io_method=sync
 * there are no others.  Injection points stop a process that completes reads, and with
 * it the reads of others, so the gate comes before them; but only they can have an I/O
 * worker fail to reopen a file.
 */
static void
begin(void)
{
	static const Unavailable all_synchronous = {
		.sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED,
		.message = "this server has no injection points, and with \"io_method\" set to \"sync\" the I/O gate does not see reads",
		.hint = "Set \"test_aio.reach_synchronous_reads\", use another \"io_method\", or a server that has been built with --enable-injection-points.",
	};
	bool		sees_none = io_method == IOMETHOD_SYNC && !gate_sees_synchronous;

	io_install(&gate_interceptor, NULL);
	filters_handler = &gate_handler;
	for (FilterKind kind = FILTER_HOLD; kind < FILTER_KINDS; kind++)
	{
		bool		injected = filter_carriers[kind] == CARRIED_BY_INJECTION_POINTS;

		if (kind < FILTER_COMPLETION_WAIT || !(sees_none || (injected && kind == FILTER_REOPEN)))
			filter_carriers[kind] = CARRIED_BY_GATE;
		else if (!injected)
			filters_unavailable[kind] = &all_synchronous;
	}
	if (strcmp(hold_at_start, "none") != 0)
	{
		Filter		filter = filter_of_kind(NULL, FILTER_HOLD);

		filter.match.ops = IO_ALL_OPS;
		filter.match.first_relfilenumber = FirstNormalObjectId;
		io_match_backend_type(hold_at_start, &filter.match);
		(void) filters_put(&filter);
	}
}

static void
define_settings(void)
{
	DefineCustomEnumVariable("test_aio.gate",
							 "Enables the I/O gate, which holds, fails and delays reads.",
							 "If off, the library leaves all reads to the server's I/O method.  If try, the gate and the trace"
							 " also work in a major version that test_aio does not know, if everything that can be checked is as expected.",
							 &gate_mode, GATE_ON, gate_modes,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("test_aio.reach_synchronous_reads",
							 "Enables the I/O gate for synchronous reads, too.",
							 "This changes a table of functions that the server means to be constant.",
							 &reach_synchronous_reads, true,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("test_aio.hold_at_start",
							   "Type of the processes whose I/O is held from the start of the server on.",
							   "As by io_hold(), with a backend_type as pg_stat_activity shows it, but not of system catalogs, which all sessions need.",
							   &hold_at_start, "none",
							   PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

void
gate_init(void)
{
	const char *reason = NULL;
	const char *hint = NULL;

	define_settings();
	for (FilterKind kind = FILTER_HOLD; kind < FILTER_COMPLETION_WAIT; kind++)
		filters_unavailable[kind] = &gate_subsystem.unavailable;

	io_try_unknown_server = gate_mode == GATE_TRY;
	if (gate_mode == GATE_OFF)
	{
		reason = "\"test_aio.gate\" is off";
		hint = "Set \"test_aio.gate\" to on and restart the server.";
	}
	else if (!IsPostmasterEnvironment)
	{
		reason = "the server runs in single-user mode";
		hint = "Nobody could release a read there.";
	}
	else
		reason = io_method_unavailable(&hint);
	if (reason != NULL)
	{
		subsystem_disable(&gate_subsystem, reason, hint);
		return;
	}

	if (reach_synchronous_reads)
	{
		reason = io_see_synchronous();
		gate_sees_synchronous = reason == NULL;
		if (reason != NULL)
			ereport(LOG,
					errmsg("test_aio: the I/O gate does not see synchronous reads: %s", reason));
	}

	gate_register_worker();
	gate_subsystem.begin = begin;
	subsystem_register(&gate_subsystem);
}
