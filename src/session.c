/*
 * What a session does not do while it has a batch open, or I/O started on a buffer.
 *
 * Others wait for what is staged and for that buffer, and some of them listen to no
 * cancel.  So the session must not wait for them in the same way, as for the lock of
 * a page.  It locks pages where it plans, where it runs queries that read tables, in
 * utility commands, in triggers, and in C functions of other libraries.  All of these run outside
 * of the batch, and those that could meet a buffer with started I/O are refused
 * (buffer_io.c says which).  Only the query that the client has sent leaves anything
 * staged, not what that query calls.
 *
 * The server's own functions are not looked at: those that lock pages of user's tables,
 * as gin_clean_pending_list() and currtid2() do, are left to the user's care.
 */
#include "test_aio.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "libpq/protocol.h"
#include "miscadmin.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/waiteventset.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static planned_relation_hook_type prev_planned_relation;
static planner_hook_type prev_planner;
static ExecutorStart_hook_type prev_executor_start;
static ExecutorRun_hook_type prev_executor_run;
static ExecutorFinish_hook_type prev_executor_finish;
static ExecutorEnd_hook_type prev_executor_end;
static ProcessUtility_hook_type prev_process_utility;
static needs_fmgr_hook_type prev_needs_fmgr;
static fmgr_hook_type prev_fmgr;
static const PQcommMethods *prev_comm;
static PQcommMethods sparing_comm;

/* Raises an error if the transaction uses a buffer with started I/O; NULL: there is none. */
static StartedIOCallback check_started;

/* Ends all I/O on shared buffers that this session has started, if there is any. */
static StartedIOCallback end_started;

/* What is being run, perhaps by way of others. */
typedef struct Running
{
	bool		table_query;	/* a query that reads tables, or a utility
								 * command */
	bool		change;			/* one that changes something, or may */
	bool		nested;			/* a query or command that may run others */
	bool		query_of_client;	/* the query that the client has sent */
	bool		repack;			/* what ends at exit is to be registered last */
} Running;
static Running running;

/* Notes what runs now, perhaps by way of others. */
static void
note_running(bool table_query, bool change)
{
	running.table_query |= table_query;
	running.change |= change;
	running.nested = true;
	running.query_of_client = false;
}

pg_noreturn static void
raise_not_now(const char *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot %s", action)));
}

/* Makes a call, after which, or after its error, "running" is what it was before. */
#define RUN(outer, call) \
	do { \
		PG_TRY(); \
		{ \
			call; \
		} \
		PG_CATCH(); \
		{ \
			running = outer; \
			PG_RE_THROW(); \
		} \
		PG_END_TRY(); \
		running = outer; \
	} while (0)

/* how many calls of C functions of other libraries are being made, one in another */
static int	calls_of_others = 0;

/* Has the outermost of them left a batch? */
static bool left_batch_for_call = false;

/*
 * Does this session use the library?  Then C functions of others are called by way of
 * fmgr_hook; other sessions are spared the time.
 */
static bool uses_library = false;

/* the transaction that may have looked one up before, and would call it without the hook */
static LocalTransactionId unwatched_in = InvalidLocalTransactionId;

/*
 * Tells what checks and what ends the I/O started on shared buffers; NULL: there is none.
 */
void
session_has_started_io(StartedIOCallback check, StartedIOCallback end)
{
	check_started = check;
	end_started = end;
}

/* Has a commit that left temporary objects had the server remove them at exit? */
static bool has_temp_objects = false;

static void
note_temp_objects(XactEvent event, void *arg pg_attribute_unused())
{
	Oid			temp;
	Oid			temp_toast;

	GetTempNamespaceState(&temp, &temp_toast);
	has_temp_objects |= event == XACT_EVENT_COMMIT && OidIsValid(temp);
}

/*
 * Has a callback called when this session exits, before its temporary objects are removed:
 * triggers, for example, of a table that somebody uses who waits for the session.  What is
 * registered last is called first, so it is registered once more when there are some.
 * "registered" is 0 at first.
 */
void
before_session_exits(pg_on_exit_callback callback, int *registered)
{
	static bool is_watching = false;
	int			wanted = has_temp_objects ? 2 : 1;

	/*
	 * both call functions of indexes before they take back what they have
	 * registered as the latest
	 */
	if (running.repack || (MyProc->statusFlags & PROC_IN_VACUUM))
		raise_not_now("execute this function in REPACK or VACUUM");
	if (!is_watching)
		RegisterXactCallback(note_temp_objects, NULL);
	is_watching = true;
	if (*registered < wanted)
		before_shmem_exit(callback, 0);
	*registered = Max(*registered, wanted);
}

/*
 * Returns whether what runs is a query that the client has sent, and nothing that it
 * has called, such as another query, a command or a trigger.
 */
bool
in_query_of_client(void)
{
	return running.query_of_client;
}

/*
 * Submits what this session has staged, before it waits for somebody who may wait for
 * that.  With io_uring, a process that began to wait for a read when it was only staged
 * sleeps until another one has completed it, so this one does.
 */
void
submit_staged(void)
{
	PgAioHandle *staged[PGAIO_SUBMIT_BATCH_SIZE];
	PgAioWaitRef iows[PGAIO_SUBMIT_BATCH_SIZE];
	int			nstaged = pgaio_my_backend == NULL ? 0 : pgaio_my_backend->num_staged_ios;

	if (nstaged == 0)
		return;
	for (int i = 0; i < nstaged; i++)
	{
		staged[i] = pgaio_my_backend->staged_ios[i];
		pgaio_io_get_wref(staged[i], &iows[i]);
	}
	pgaio_submit_staged();
	for (int i = 0; i < nstaged && io_method == IOMETHOD_IO_URING; i++)
		if (!proclist_is_empty(&staged[i]->cv.wakeup))
			pgaio_wref_wait(&iows[i]);
}

pg_noreturn static void
raise_started(const char *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot %s while this session has started I/O on a buffer", action),
			 errhint("End the I/O with buffer_call_terminate_io() first.")));
}

/* Prepares to wait for a lock, whose holder may wait for what this session has staged or started. */
void
before_lock_wait(const char *object)
{
	if (check_started)
		raise_started(psprintf("wait for a lock on %s", object));
	submit_staged();
}

/*
 * Leaves batch mode, if the session is in it, before something is waited for
 * that the waiting itself may stage: nobody would submit that.
 */
pg_noinline bool				/* a variable that setjmp() might clobber */
suspend_batch(void)
{
	bool		was_open = pgaio_my_backend != NULL && pgaio_my_backend->in_batchmode;

	if (was_open)
	{
		submit_staged();
		pgaio_exit_batchmode();
	}

	return was_open;
}

/*
 * Enters batch mode again if it has been left by suspend_batch().  After an
 * error it stays left, as the server would have it.
 */
void
resume_batch(bool was_open)
{
	if (was_open)
		pgaio_enter_batchmode();
}

/* Does a query read tables, itself or by the functions that its parallel workers call? */
static bool
reads_tables(const PlannedStmt *plan)
{
	if (plan->parallelModeNeeded)
		return true;
	foreach_node(RangeTblEntry, entry, plan->rtable)
	{
		if (entry->rtekind == RTE_RELATION)
			return true;
	}
	return false;
}

/*
 * Is a portal about to execute, at once and as a whole, a statement that does nothing
 * but call one function, and those that are built in?
 */
static bool
starts_one_call(Portal portal)
{
	PlannedStmt *plan;
	uint32		function = 0;

	/*
	 * cursors, and what the client has bound, are executed later; a function
	 * may EXECUTE
	 */
	if (portal == NULL || portal->visible || portal->queryDesc != NULL || list_length(portal->stmts) != 1 ||
		portal->sourceText != debug_query_string)
		return false;
	plan = linitial_node(PlannedStmt, portal->stmts);
	if (plan->commandType != CMD_SELECT || reads_tables(plan))
		return false;
	foreach_node(PlanInvalItem, item, plan->invalItems)
	{
		if (item->cacheId == PROCOID && function != 0 && item->hashValue != function)
			return false;
		if (item->cacheId == PROCOID)
			function = item->hashValue;
	}
	return true;
}

/*
 * Raises an error if the calling statement may lock pages in a way that the hooks of
 * this file do not see.
 */
static void
require_watched_statement(FunctionCallInfo fcinfo)
{
	if (unwatched_in == MyProc->vxid.lxid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s() in a transaction that may have called functions of other extensions before",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint("Call it in another transaction.")));
}

/*
 * Raises an error where the session may lock pages later without any of these hooks:
 * in triggers, which others may follow, at the commit as well, and in processes that
 * apply changes or vacuum.  A function that the client calls by the fast path is in no
 * statement at whose end something would be submitted.
 */
static void
require_statement_of_client(FunctionCallInfo fcinfo)
{
	if (MyBackendType != B_BACKEND && MyBackendType != B_STANDALONE_BACKEND)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot execute %s() in a \"%s\" process", get_func_name(fcinfo->flinfo->fn_oid),
						GetBackendTypeDesc(MyBackendType))));
	if (ActivePortal == NULL || DatumGetInt32(OidFunctionCall0(F_PG_TRIGGER_DEPTH)) > 0)
		raise_not_now(psprintf("execute %s() in a trigger or outside of a statement",
							   get_func_name(fcinfo->flinfo->fn_oid)));
}

/* Enters batch mode, unless that would be within what runs outside of it. */
void
enter_batch(FunctionCallInfo fcinfo)
{
	/* replay would wait for what is staged */
	PreventCommandDuringRecovery("a batch");
	require_statement_of_client(fcinfo);
	if (running.table_query || calls_of_others > 0)
		raise_not_now(running.table_query ? "start a batch in a command that reads tables" :
					  "start a batch in a function of another extension");
	require_watched_statement(fcinfo);
	pgaio_enter_batchmode();
}

/*
 * Raises an error where no I/O may be started on a shared buffer: what runs may
 * change the table later, or has called what may.
 */
void
require_started_io_allowed(FunctionCallInfo fcinfo)
{
	/* deferred triggers, for example */
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		raise_not_now("start I/O on a buffer in a transaction that has changed something");
	if (running.change)
		raise_not_now("start I/O on a buffer in a command that changes something");
	require_statement_of_client(fcinfo);
	require_watched_statement(fcinfo);
}

/* planner_hook: evaluates functions, and then looks into indexes */
static PlannedStmt *
plan_query(PLANNER_PARAMETERS)
{
	const Running outer = running;
	bool		batch_was_open;
	PlannedStmt *plan;

	batch_was_open = suspend_batch();
	note_running(true, true);
	RUN(outer, plan = (prev_planner ? prev_planner : standard_planner) (PLANNER_ARGUMENTS));
	resume_batch(batch_was_open);

	return plan;
}

/* planned_relation_hook: the planner may look into indexes, of partitions as well */
static void
check_planned_relation(PLANNED_RELATION_PARAMETERS)
{
	if (check_started)
		check_started();
	submit_staged();
	if (prev_planned_relation)
		prev_planned_relation(PLANNED_RELATION_ARGUMENTS);
}

static bool
changes_something(const PlannedStmt *plan)
{
	return plan->commandType != CMD_SELECT || plan->hasModifyingCTE;
}

/* ExecutorStart_hook: not every plan is new; catalogs are read here */
static void
start_query(QueryDesc *queryDesc, int eflags)
{
	PlannedStmt *plan = queryDesc->plannedstmt;
	const Running outer = running;
	bool		batch_was_open;

	if (check_started && changes_something(plan))
		raise_started(psprintf("execute %s", CreateCommandName((Node *) plan)));
	/* a worker does not know what this session has started */
	if (check_started && plan->parallelModeNeeded)
		raise_started("execute a parallel query");
	if (check_started)
		check_started();
	batch_was_open = reads_tables(plan) && suspend_batch();
	note_running(reads_tables(plan), changes_something(plan));
	RUN(outer, (prev_executor_start ? prev_executor_start : standard_ExecutorStart) (queryDesc, eflags));
	resume_batch(batch_was_open);
}

/* ExecutorRun_hook */
static void
run_query(QueryDesc *queryDesc, ScanDirection direction, uint64 count)
{
	const PlannedStmt *plan = queryDesc->plannedstmt;
	const Running outer = running;
	const bool	batch_was_open = reads_tables(plan) && suspend_batch();

	note_running(reads_tables(plan), changes_something(plan));
	running.query_of_client = !outer.nested;
	RUN(outer, (prev_executor_run ? prev_executor_run : standard_ExecutorRun) (queryDesc, direction, count));
	resume_batch(batch_was_open);

	/*
	 * When a statement of a simple query has ended, the server submits what
	 * is staged, and warns; a cursor or a portal of the extended protocol may
	 * last until checks of the commit read pages
	 */
	if (ActivePortal == NULL || ActivePortal->visible)
		submit_staged();
}

/* ExecutorFinish_hook: triggers, and checks of keys */
static void
finish_query(QueryDesc *queryDesc)
{
	const Running outer = running;

	if (changes_something(queryDesc->plannedstmt))
		submit_staged();
	note_running(reads_tables(queryDesc->plannedstmt), changes_something(queryDesc->plannedstmt));
	RUN(outer, (prev_executor_finish ? prev_executor_finish : standard_ExecutorFinish) (queryDesc));
}

/* ExecutorEnd_hook: scans mark entries of indexes */
static void
end_query(QueryDesc *queryDesc)
{
	if (reads_tables(queryDesc->plannedstmt))
		submit_staged();
	(prev_executor_end ? prev_executor_end : standard_ExecutorEnd) (queryDesc);
}

/*
 * Returns whether a utility command neither removes nor writes buffers, or leaves
 * that to queries and commands inside it.
 */
static bool
leaves_buffers_alone(Node *command)
{
	switch (nodeTag(command))
	{
		case T_TransactionStmt:
			return ((TransactionStmt *) command)->kind != TRANS_STMT_COMMIT_PREPARED &&
				((TransactionStmt *) command)->kind != TRANS_STMT_ROLLBACK_PREPARED;
		case T_ExplainStmt:
			{
				Query	   *query = castNode(Query, ((ExplainStmt *) command)->query);

				return query->utilityStmt == NULL || leaves_buffers_alone(query->utilityStmt);
			}
		case T_CallStmt:
		case T_ClosePortalStmt:
		case T_DeallocateStmt:
		case T_DeclareCursorStmt:
		case T_DoStmt:
		case T_ExecuteStmt:
		case T_FetchStmt:
		case T_ListenStmt:
		case T_LoadStmt:
		case T_NotifyStmt:
		case T_PrepareStmt:
		case T_UnlistenStmt:
		case T_VariableSetStmt:
		case T_VariableShowStmt:
			return true;
		case T_CheckPointStmt:	/* the checkpointer writes */
			return IsPostmasterEnvironment;
		default:
			return false;
	}
}

/* ProcessUtility_hook */
static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	const Running outer = running;
	const bool	may_lock_pages = !leaves_buffers_alone(pstmt->utilityStmt);
	bool		batch_was_open;

	if (may_lock_pages && check_started)
		raise_started(psprintf("execute %s", CreateCommandName(pstmt->utilityStmt)));
	submit_staged();
	batch_was_open = may_lock_pages && suspend_batch();
	note_running(may_lock_pages, may_lock_pages);
	running.repack |= IS_REPACK(pstmt->utilityStmt);
	RUN(outer, (prev_process_utility ? prev_process_utility : standard_ProcessUtility)
		(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc));
	resume_batch(batch_was_open);
}

typedef enum FunctionKind
{
	LOCKS_NO_PAGES,
	OF_THIS_LIBRARY,
	OF_OTHERS,					/* in C: may lock pages of any relation */
} FunctionKind;

static bool
is_library(const char *file, const char *name)
{
	size_t		length = strlen(name);

	return strncmp(file, name, length) == 0 &&
		(file[length] == '\0' || strcmp(file + length, DLSUFFIX) == 0);
}

/* Returns which kind of function this is, of those that are not built in. */
static FunctionKind
function_kind(Oid fn_oid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(fn_oid));
	FunctionKind kind = LOCKS_NO_PAGES;
	bool		isnull = true;
	Datum		probin = 0;

	if (!HeapTupleIsValid(tuple))
		return kind;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
		probin = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &isnull);
	if (!isnull)
	{
		const char *name = NameStr(((Form_pg_proc) GETSTRUCT(tuple))->proname);
		char	   *library = TextDatumGetCString(probin);
		const char *slash = last_dir_separator(library);
		const char *file = slash ? slash + 1 : library;

		/* pg_buffercache locks none, but to evict and to write them */
		if (is_library(file, "test_aio"))
			kind = OF_THIS_LIBRARY;
		else if (!is_library(file, "plpgsql") &&
				 (!is_library(file, "pg_buffercache") || strstr(name, "evict") || strstr(name, "dirty")))
			kind = OF_OTHERS;
		pfree(library);
	}
	ReleaseSysCache(tuple);

	return kind;
}

/* needs_fmgr_hook: called when a function that is not built in is looked up */
static bool
needs_fmgr(Oid fn_oid)
{
	FunctionKind kind = function_kind(fn_oid);

	if (kind == OF_THIS_LIBRARY)
		uses_library = true;
	if (kind == OF_OTHERS)
	{
		if (uses_library)
			return true;
		unwatched_in = MyProc->vxid.lxid;
	}
	return prev_needs_fmgr && prev_needs_fmgr(fn_oid);
}

/* What fmgr_hook keeps with a function between its calls. */
typedef struct CalledFunction
{
	FunctionKind kind;
	Datum		next_private;	/* of the previous hook */
} CalledFunction;

/* Leaves the batch, if one is open, for the outermost call of a C function of others. */
static void
begin_call_of_others(Oid fn_oid)
{
	if (check_started)
		raise_started(psprintf("call function \"%s\"", get_func_name(fn_oid)));
	/* which may fail */
	if (calls_of_others == 0)
		left_batch_for_call = suspend_batch();
	calls_of_others++;
}

/* fmgr_hook */
static void
call_function(FmgrHookEventType event, FmgrInfo *flinfo, Datum *private)
{
	CalledFunction *called = (CalledFunction *) DatumGetPointer(*private);

	if (called == NULL)
	{
		called = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(CalledFunction));
		called->kind = function_kind(flinfo->fn_oid);
		/* needs_fmgr() is not asked about SECURITY DEFINER, or SET */
		uses_library |= called->kind == OF_THIS_LIBRARY;
		*private = PointerGetDatum(called);
	}
	/* nothing may fail once a call counts as begun */
	if (prev_fmgr)
		prev_fmgr(event, flinfo, &called->next_private);
	if (called->kind != OF_OTHERS)
		return;
	if (event == FHET_START)
		begin_call_of_others(flinfo->fn_oid);
	else if (--calls_of_others == 0 && event == FHET_END)
		resume_batch(left_batch_for_call);
}

/* so much the kernel takes of a message if it takes anything */
#define TAKEN_AT_ONCE 4096

/* Returns whether a message can be sent without waiting for the client to read. */
static bool
client_takes(size_t length)
{
	WaitEvent	events[FeBeWaitSetNEvents];
	int			nevents;

	if (length > TAKEN_AT_ONCE)
		return false;

	ModifyWaitEvent(FeBeWaitSet, FeBeWaitSetSocketPos, WL_SOCKET_WRITEABLE, NULL);
	nevents = WaitEventSetWait(FeBeWaitSet, 0, events, lengthof(events), 0);
	for (int i = 0; i < nevents; i++)
		if (events[i].events & WL_SOCKET_WRITEABLE)
			return true;

	return false;
}

/* Has the last message not been sent?  Then nothing is to be flushed after it. */
static bool is_spared = false;

/*
 * PQcommMethods.putmessage: while others may wait for what a session has staged or started,
 * it does not say to a client that does not read what it warns of while it cannot be
 * interrupted, nor its last word.  It would wait for the client.  An error has to be said;
 * then nobody waits for the session any more.  emit_log_hook would see only what is logged,
 * too, and not how long the message is.
 */
static int
put_message(char type, const char *message, size_t length)
{
	const bool	is_error = type == PqMsg_ErrorResponse;
	const bool	is_uninterruptible = InterruptHoldoffCount > 0 || CritSectionCount > 0;
	const bool	has_staged = pgaio_my_backend != NULL && pgaio_my_backend->num_staged_ios > 0;
	bool		spares = false;

	if (uses_library && FeBeWaitSet != NULL && (end_started || has_staged) &&
		(is_error || (type == PqMsg_NoticeResponse && is_uninterruptible)) && !client_takes(length))
	{
		/* the second field is the severity as it is called in English */
		spares = !is_error || strcmp(message + strlen(message) + 2, "ERROR") != 0;
		if (!spares)
		{
			submit_staged();
			if (end_started)
				end_started();
		}
	}
	/* 19 may lose count of a page's lock when an error is caught */
	if (type == PqMsg_ReadyForQuery && is_uninterruptible && end_started)
		end_started();
	/* the submission may have said something, too */
	is_spared = spares;
	return spares ? 0 : prev_comm->putmessage(type, message, length);
}

/* PQcommMethods.flush */
static int
flush_messages(void)
{
	return is_spared ? 0 : prev_comm->flush();
}

void
session_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
	{
		uses_library = true;

		/*
		 * it may be about to call others; cursors and PL/pgSQL may keep those
		 * of before
		 */
		if (IsTransactionBlock() || !starts_one_call(ActivePortal))
			unwatched_in = MyProc->vxid.lxid;
	}

	prev_planner = planner_hook;
	planner_hook = plan_query;
	prev_planned_relation = planned_relation_hook;
	planned_relation_hook = check_planned_relation;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = start_query;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = run_query;
	prev_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_query;
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end_query;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_needs_fmgr = needs_fmgr_hook;
	needs_fmgr_hook = needs_fmgr;
	prev_fmgr = fmgr_hook;
	fmgr_hook = call_function;
	prev_comm = PqCommMethods;
	sparing_comm = *prev_comm;
	sparing_comm.putmessage = put_message;
	sparing_comm.flush = flush_messages;
	PqCommMethods = &sparing_comm;
}
