/*-------------------------------------------------------------------------
 *
 * rules.c
 *		Which reads are held, and which fail.
 *
 * Rules are in shared memory and hold for the reads of all sessions.  They end
 * with the session that has made them, unless it asked for them to be kept.
 *
 * src/gate/rules.c
 *
 *-------------------------------------------------------------------------
 */
#include "gate/gate.h"

#include "common/relpath.h"
#include "faults.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(io_hold);
PG_FUNCTION_INFO_V1(io_hold_end);
PG_FUNCTION_INFO_V1(io_fail);
PG_FUNCTION_INFO_V1(io_fail_end);
PG_FUNCTION_INFO_V1(io_rules_get);

/*
 * Does a read match?  Called in the process that issues it.
 */
bool
gate_match(const GateMatch *match, PgAioHandle *ioh)
{
	const PgAioTargetData *td = &ioh->target_data;

	if (match->has_rel)
	{
		if (!RelFileLocatorEquals(match->rlocator, td->smgr.rlocator))
			return false;
		if (td->smgr.is_temp !=
			(match->temp_owner != INVALID_PROC_NUMBER))
			return false;
		if (td->smgr.is_temp && match->temp_owner != ioh->owner_procno)
			return false;
	}
	if (match->fork != InvalidForkNumber && match->fork != td->smgr.forkNum)
		return false;
	if (match->has_block &&
		(match->block < td->smgr.blockNum ||
		 match->block >= td->smgr.blockNum + td->smgr.nblocks))
		return false;
	if (match->pid != 0 &&
		match->pid != GetPGProcByNumber(ioh->owner_procno)->pid)
		return false;

	return true;
}

/*
 * A synchronous read of the session that has made the rule could be one that
 * it needs to end the rule, such as of a catalog.
 */
static bool
is_makers_own(const GateRule *rule, PgAioHandle *ioh)
{
	return (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0 &&
		rule->holder == MyProcPid &&
		!rule->match.has_rel && rule->match.pid == 0;
}

/*
 * Counts a match; is the rule to have an effect on this one?
 */
static bool
rule_fires(GateRule *rule)
{
	rule->matched++;
	if (rule->matched <= rule->skip ||
		(rule->times >= 0 && rule->fired >= rule->times))
		return false;
	rule->fired++;
	return true;
}

/*
 * Looks what is to be done about a read that is being staged, and writes it
 * down.  False: nothing.  The caller has the lock.
 */
bool
gate_apply_rules(PgAioHandle *ioh, GateIo *io)
{
	int			hold = 0;
	int			holder = 0;
	GateTime	longest = 0;
	bool		injected = false;
	bool		has_result = false;
	int32		result = 0;
	int			device;

	for (int i = 0; i < GATE_MAX_RULES; i++)
	{
		GateRule   *rule = &gate->rules[i];

		if (rule->kind == GATE_RULE_NONE || !gate_match(&rule->match, ioh) ||
			is_makers_own(rule, ioh))
			continue;
		if (rule->kind == GATE_RULE_HOLD && hold == 0 && rule_fires(rule))
		{
			hold = rule->id;
			holder = rule->holder;
			longest = rule->longest;
		}
		else if (rule->kind == GATE_RULE_FAIL && !has_result && rule_fires(rule))
		{
			has_result = true;
			result = rule->result;
		}
	}

	if (faults_use_gate())
	{
		if (hold == 0 && faults_hold_io(ioh))
		{
			injected = true;
			longest = faults_longest_hold();
		}
		if (!has_result)
			has_result = faults_get_result(ioh, &result);
	}

	device = gate_find_device(ioh);
	if (hold == 0 && !injected && !has_result && device < 0)
		return false;

	io->rule = hold;
	io->holder = holder;
	io->injected = injected;
	io->has_result = has_result;
	io->result = result;
	io->device = device;
	io->released = false;
	io->too_long = false;
	io->stopped = INVALID_PROC_NUMBER;
	/* relative, until the hold begins */
	io->hold_limit = longest;

	return true;
}

/*
 * Is this rule still in force?  It may have ended between the decision and the
 * submission.
 */
bool
gate_rule_holds(int id)
{
	if (id == 0)
		return false;
	for (int i = 0; i < GATE_MAX_RULES; i++)
	{
		if (gate->rules[i].id == id && gate->rules[i].kind == GATE_RULE_HOLD)
			return true;
	}
	return false;
}

/*
 * Is there anything in force that might match a read?  The caller has the lock.
 */
void
gate_update_active(void)
{
	uint32		active = faults_use_gate() ? faults_in_force() : 0;

	for (int i = 0; i < GATE_MAX_RULES; i++)
		active += gate->rules[i].kind != GATE_RULE_NONE;
	for (int i = 0; i < GATE_MAX_DEVICES; i++)
		active += gate->devices[i].in_use;

	gate->active = active;
}

/*
 * Ends rules: one, or all of a kind, or all of one session.
 */
static int
end_rules(GateRuleKind kind, int id, int holder)
{
	int			ended = 0;

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < GATE_MAX_RULES; i++)
	{
		GateRule   *rule = &gate->rules[i];

		if (rule->kind == GATE_RULE_NONE ||
			(kind != GATE_RULE_NONE && rule->kind != kind) ||
			(id != 0 && rule->id != id) ||
			(holder != 0 && rule->holder != holder))
			continue;
		rule->kind = GATE_RULE_NONE;
		ended++;
	}
	gate_update_active();
	LWLockRelease(gate->lock);

	return ended;
}

static bool
is_held_for(PgAioHandle *ioh pg_attribute_unused(), GateIo *io, void *arg)
{
	return !io->injected && io->holder == *(int *) arg;
}

/*
 * before_shmem_exit() callback of a session that has made rules or devices:
 * ends them, and performs what they hold.
 */
static void
session_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	int			pid = MyProcPid;

	(void) end_rules(GATE_RULE_NONE, 0, pid);
	gate_end_devices(pid, NULL);
	(void) gate_release_matching(is_held_for, &pid, false, 0);
}

void
gate_end_with_session(void)
{
	static bool registered = false;

	if (!registered)
	{
		before_shmem_exit(session_ends, 0);
		registered = true;
	}
}

/*
 * Reads the argument that says which relation is meant; NULL matches all.
 */
GateMatch
gate_get_rel_match(FunctionCallInfo fcinfo, int rel_arg)
{
	GateMatch	match = {
		.fork = InvalidForkNumber,
		.temp_owner = INVALID_PROC_NUMBER,
	};

	if (!PG_ARGISNULL(rel_arg))
	{
		Relation	rel = open_relation_by_oid(fcinfo, PG_GETARG_OID(rel_arg),
											   AccessShareLock);

		match.has_rel = true;
		match.rlocator = rel->rd_locator;
		if (RelationUsesLocalBuffers(rel))
			match.temp_owner = rel->rd_backend;
		relation_close(rel, AccessShareLock);
	}

	return match;
}

static void
get_block(FunctionCallInfo fcinfo, int arg, GateMatch *match)
{
	int64		block;

	if (PG_ARGISNULL(arg))
		return;

	block = PG_GETARG_INT64(arg);
	if (block < 0 || block > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("blockno must be between 0 and %u", MaxBlockNumber)));
	match->has_block = true;
	match->block = (BlockNumber) block;
}

static void
get_fork(FunctionCallInfo fcinfo, int arg, GateMatch *match)
{
	if (!PG_ARGISNULL(arg))
		match->fork = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(arg)));
}

void
gate_get_pid_match(FunctionCallInfo fcinfo, int arg, GateMatch *match)
{
	if (PG_ARGISNULL(arg))
		return;

	match->pid = PG_GETARG_INT32(arg);
	if (match->pid <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("pid must be positive")));
}

/*
 * An optional number that is at least "minimum", or "missing".
 */
static int64
get_count(FunctionCallInfo fcinfo, int arg, const char *name, int minimum, int64 missing)
{
	if (PG_ARGISNULL(arg))
		return missing;
	if (PG_GETARG_INT32(arg) < minimum)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at least %d", name, minimum)));
	return PG_GETARG_INT32(arg);
}

/*
 * Puts a rule into force and returns its number.
 */
static int
add_rule(const GateRule *new_rule)
{
	int			id = 0;

	if (new_rule->holder != 0)
		gate_end_with_session();

	LWLockAcquire(gate->lock, LW_EXCLUSIVE);
	for (int i = 0; i < GATE_MAX_RULES && id == 0; i++)
	{
		GateRule   *rule = &gate->rules[i];

		if (rule->kind != GATE_RULE_NONE)
			continue;
		*rule = *new_rule;
		rule->id = id = gate->next_rule++;
	}
	gate_update_active();
	LWLockRelease(gate->lock);

	if (id == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are too many rules already"),
				 errdetail("At most %d rules can be in force at once.", GATE_MAX_RULES),
				 errhint("See the view \"io_rules\".")));

	return id;
}

/*
 * io_hold(rel regclass DEFAULT NULL, blockno int8 DEFAULT NULL,
 *		   fork text DEFAULT 'main', pid int DEFAULT NULL,
 *		   max_reads int DEFAULT NULL, keep bool DEFAULT false) returns int
 *
 * From now on matching reads are held until they are released.  NULL matches
 * all.  Returns the rule's number.
 */
Datum
io_hold(PG_FUNCTION_ARGS)
{
	GateRule	rule = {.kind = GATE_RULE_HOLD};

	require_gate(fcinfo);

	rule.match = gate_get_rel_match(fcinfo, 0);
	get_block(fcinfo, 1, &rule.match);
	get_fork(fcinfo, 2, &rule.match);
	gate_get_pid_match(fcinfo, 3, &rule.match);
	rule.times = get_count(fcinfo, 4, "max_reads", 1, -1);
	rule.holder = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5) ? 0 : MyProcPid;
	rule.longest = longest_hold * NS_PER_MS;

	PG_RETURN_INT32(add_rule(&rule));
}

/*
 * io_fail(rel regclass, result int, blockno int8 DEFAULT NULL,
 *		   pid int DEFAULT NULL, skip int DEFAULT 0, times int DEFAULT NULL,
 *		   fork text DEFAULT NULL, keep bool DEFAULT false) returns int
 *
 * From now on matching reads end with this result: a number of bytes, if they
 * have read more (the rest is zeroed), or a negative errno.
 */
Datum
io_fail(PG_FUNCTION_ARGS)
{
	GateRule	rule = {.kind = GATE_RULE_FAIL};

	require_gate(fcinfo);

	rule.match = gate_get_rel_match(fcinfo, 0);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("result must not be null")));
	rule.result = PG_GETARG_INT32(1);
	check_io_result(rule.result);
	get_block(fcinfo, 2, &rule.match);
	gate_get_pid_match(fcinfo, 3, &rule.match);
	rule.skip = get_count(fcinfo, 4, "skip", 0, 0);
	rule.times = get_count(fcinfo, 5, "times", 1, -1);
	get_fork(fcinfo, 6, &rule.match);
	rule.holder = !PG_ARGISNULL(7) && PG_GETARG_BOOL(7) ? 0 : MyProcPid;

	PG_RETURN_INT32(add_rule(&rule));
}

static Datum
end_rules_of_kind(FunctionCallInfo fcinfo, GateRuleKind kind)
{
	int			id = 0;

	require_gate(fcinfo);

	if (!PG_ARGISNULL(0))
	{
		id = PG_GETARG_INT32(0);
		if (id <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("rule must be positive")));
	}

	PG_RETURN_INT32(end_rules(kind, id, 0));
}

/*
 * io_hold_end(rule int DEFAULT NULL) returns int
 *
 * The rule, or every one, holds no more reads; those held already stay so.
 * Returns how many rules have been ended.
 */
Datum
io_hold_end(PG_FUNCTION_ARGS)
{
	return end_rules_of_kind(fcinfo, GATE_RULE_HOLD);
}

/*
 * io_fail_end(rule int DEFAULT NULL) returns int
 */
Datum
io_fail_end(PG_FUNCTION_ARGS)
{
	return end_rules_of_kind(fcinfo, GATE_RULE_FAIL);
}

/*
 * io_rules_get() returns setof record
 *
 * What is in force; the view "io_rules" puts names to it.
 */
Datum
io_rules_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GateRule   *rules;

	require_gate(fcinfo);
	InitMaterializedSRF(fcinfo, 0);

	rules = palloc_array(GateRule, GATE_MAX_RULES);
	LWLockAcquire(gate->lock, LW_SHARED);
	memcpy(rules, gate->rules, sizeof(gate->rules));
	LWLockRelease(gate->lock);

	for (int i = 0; i < GATE_MAX_RULES; i++)
	{
		const GateRule *rule = &rules[i];
		const GateMatch *match = &rule->match;
		Datum		values[15] = {0};
		bool		nulls[15] = {0};

		if (rule->kind == GATE_RULE_NONE)
			continue;

		values[0] = Int32GetDatum(rule->id);
		values[1] = CStringGetTextDatum(rule->kind == GATE_RULE_HOLD ? "hold" : "fail");
		values[2] = ObjectIdGetDatum(match->rlocator.spcOid);
		values[3] = ObjectIdGetDatum(match->rlocator.dbOid);
		values[4] = ObjectIdGetDatum(match->rlocator.relNumber);
		nulls[2] = nulls[3] = nulls[4] = !match->has_rel;
		if (match->fork == InvalidForkNumber)
			nulls[5] = true;
		else
			values[5] = CStringGetTextDatum(forkNames[match->fork]);
		values[6] = Int64GetDatum(match->block);
		nulls[6] = !match->has_block;
		values[7] = Int32GetDatum(match->pid);
		nulls[7] = match->pid == 0;
		values[8] = Int32GetDatum(rule->result);
		nulls[8] = rule->kind != GATE_RULE_FAIL;
		values[9] = Int64GetDatum(rule->skip);
		values[10] = Int64GetDatum(rule->times);
		nulls[10] = rule->times < 0;
		values[11] = Int64GetDatum(rule->matched);
		values[12] = Int64GetDatum(rule->fired);
		values[13] = Int64GetDatum(rule->longest / NS_PER_MS);
		nulls[13] = rule->kind != GATE_RULE_HOLD;
		values[14] = Int32GetDatum(rule->holder);
		nulls[14] = rule->holder == 0;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}
