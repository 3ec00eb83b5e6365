/*-------------------------------------------------------------------------
 *
 * table.c
 *		The table of rules in shared memory, and verdicts on reads.
 *
 * Every read of every process asks for a verdict, and few rules match.  So each
 * process has a copy of the rules and renews it when their version has changed.
 * A read that no rule matches costs a look at two words of shared memory.
 *
 * src/rules/table.c
 *
 *-------------------------------------------------------------------------
 */
#include "rules/rules.h"

#include "miscadmin.h"
#include "part.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

typedef struct RuleCounts
{
	pg_atomic_uint64 matched;
	pg_atomic_uint64 fired;
} RuleCounts;

typedef struct RuleTable
{
	LWLock	   *lock;			/* for the rules; counts need none */

	/* read without lock: how many rules, and has any of them changed? */
	uint32		nrules;
	uint32		version;

	int			next_id;
	Rule		rules[MAX_RULES];
	RuleCounts	counts[MAX_RULES];

	ConditionVariable changed;
	uint32		wait_event;		/* of a process held at a completion */
} RuleTable;

static RuleTable *table;

/* this process's copy */
static uint32 my_version;
static Rule my_rules[MAX_RULES];

static const RuleProvider *providers[RULE_KINDS];
static const Obstacle *obstacles[RULE_KINDS];

static int	longest_hold = 60000;
static bool preloaded = false;

static Size
table_size(uint32 nhandles pg_attribute_unused())
{
	return sizeof(RuleTable);
}

static void
set_up_table(uint32 nhandles pg_attribute_unused(), LWLock *lock)
{
	memset(table, 0, sizeof(RuleTable));
	table->lock = lock;
	table->next_id = 1;
	for (int i = 0; i < MAX_RULES; i++)
	{
		pg_atomic_init_u64(&table->counts[i].matched, 0);
		pg_atomic_init_u64(&table->counts[i].fired, 0);
	}
	ConditionVariableInit(&table->changed);
	/* not where it is needed: registering a name may allocate */
	table->wait_event = WaitEventInjectionPointNew("completion_wait");
}

static Part part = {
	.name = "table of rules",
	.memory = "test_aio rules",
	.address = (void **) &table,
	.size = table_size,
	.set_up = set_up_table,
	.obstacle = {
		.sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		.message = "there are no rules for reads in this server",
	},
};

/*
 * Prepares the table.  Called when the library is preloaded.
 */
void
rules_init(void)
{
	preloaded = true;

	DefineCustomIntVariable("test_aio.longest_hold",
							"Longest time for which a read is held.",
							"After this time the read is performed, and a warning logged.  A rule keeps the value that it was made with.",
							&longest_hold,
							60000,
							1,
							INT_MAX,
							PGC_SUSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	part_register(&part);
	kept_init();
}

IoTime
rules_longest_hold(void)
{
	return longest_hold * NS_PER_MS;
}

/*
 * Sets the provider that carries out rules of a kind.
 */
void
rules_set_provider(RuleKind kind, const RuleProvider *provider)
{
	providers[kind] = provider;
	obstacles[kind] = NULL;
}

/*
 * Sets the reason why no provider carries out rules of a kind.
 */
void
rules_set_obstacle(RuleKind kind, const Obstacle *obstacle)
{
	providers[kind] = NULL;
	obstacles[kind] = obstacle;
}

const RuleProvider *
rules_provider(RuleKind kind)
{
	return table == NULL ? NULL : providers[kind];
}

static void
require_table(void)
{
	if (!preloaded)
		raise_obstacle(&not_preloaded);
	require_part(&part);
}

/*
 * Raises an error unless there can be rules, and the caller may look at them.
 */
void
require_rules_to_look(FunctionCallInfo fcinfo)
{
	require_monitor(fcinfo);
	require_table();
}

/*
 * Raises an error unless the caller is a superuser and rules of this kind can
 * be carried out.
 */
void
require_rule_kind(FunctionCallInfo fcinfo, RuleKind kind)
{
	require_superuser(fcinfo);
	require_table();

	if (obstacles[kind] != NULL)
		raise_obstacle(obstacles[kind]);
}

/*
 * Returns whether any rule is in force.  A look without lock.
 */
bool
rules_any(void)
{
	return table != NULL && table->nrules > 0;
}

static void
renew_copy(void)
{
	LWLockAcquire(table->lock, LW_SHARED);
	memcpy(my_rules, table->rules, sizeof(my_rules));
	my_version = table->version;
	LWLockRelease(table->lock);
}

/*
 * Counts a match.  Returns whether the rule has an effect on it.
 */
static bool
rule_fires(int i)
{
	const Rule *rule = &my_rules[i];
	RuleCounts *counts = &table->counts[i];
	uint64		fired;

	/* the place may have been given to another rule since */
	if (table->rules[i].id != rule->id)
		return false;

	if (pg_atomic_fetch_add_u64(&counts->matched, 1) < (uint64) rule->skip)
		return false;

	fired = pg_atomic_read_u64(&counts->fired);
	do
	{
		if (rule->times >= 0 && fired >= (uint64) rule->times)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&counts->fired, &fired, fired + 1));

	return true;
}

/*
 * Returns whether a synchronous read of the session that has made a rule could
 * be one that it needs to end the rule, such as of a catalog.
 */
static bool
is_makers_own(const Rule *rule, bool synchronous)
{
	return synchronous && rule->maker == MyProcPid &&
		!rule->match.has_rel && rule->match.pid == 0;
}

/*
 * Returns whether a rule of this provider has an effect on a read that this
 * process is staging, and which effect.  Counts the match.
 */
bool
rules_judge(const RuleProvider *provider, PgAioHandle *ioh, RuleVerdict *verdict)
{
	bool		synchronous = (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0;

	memset(verdict, 0, sizeof(*verdict));

	if (!rules_any())
		return false;
	if (my_version != table->version)
		renew_copy();

	for (int i = 0; i < MAX_RULES; i++)
	{
		const Rule *rule = &my_rules[i];
		bool		holds = rule->kind == RULE_HOLD || rule->kind == RULE_COMPLETION_WAIT;

		if (rule->kind == RULE_NONE || providers[rule->kind] != provider ||
			(holds ? verdict->hold : verdict->fail) != 0 ||
			!io_matches(&rule->match, ioh) || is_makers_own(rule, synchronous))
			continue;

		/* an I/O worker would not have got such a read */
		if (rule->kind == RULE_REOPEN &&
			(synchronous || (ioh->flags & PGAIO_HF_REFERENCES_LOCAL)))
			continue;
		if (!rule_fires(i))
			continue;

		if (holds)
		{
			verdict->hold = rule->id;
			verdict->hold_kind = rule->kind;
			verdict->holder = rule->holder;
			verdict->longest = rule->longest;
		}
		else if (rule->kind == RULE_REOPEN || rule->has_result)
		{
			verdict->fail = rule->id;
			verdict->result = rule->kind == RULE_REOPEN ? -ENOENT : rule->result;
		}
	}

	return verdict->hold != 0 || verdict->fail != 0;
}

/*
 * Returns whether this rule is in force and matches a read.  A rule that matched
 * may have been ended since, or, by the inj_ functions, been changed.  Allocates
 * nothing.
 */
bool
rule_holds(int id, PgAioHandle *ioh)
{
	bool		holds = false;

	if (id == 0)
		return false;

	LWLockAcquire(table->lock, LW_SHARED);
	for (int i = 0; i < MAX_RULES && !holds; i++)
	{
		const Rule *rule = &table->rules[i];

		holds = rule->kind != RULE_NONE && rule->id == id && io_matches(&rule->match, ioh);
	}
	LWLockRelease(table->lock);

	return holds;
}

/*
 * Copies the first rule of a kind that matches a read.  Returns whether there
 * is one.  Does not count the match, so io_rules shows 0 for rules that
 * injection points carry out.  Called at completions, in critical sections.
 */
bool
rules_first_match(RuleKind kind, PgAioHandle *ioh, Rule *found)
{
	if (!rules_any())
		return false;
	if (my_version != table->version)
		renew_copy();

	for (int i = 0; i < MAX_RULES; i++)
	{
		if (my_rules[i].kind == kind && io_matches(&my_rules[i].match, ioh))
		{
			*found = my_rules[i];
			return true;
		}
	}

	return false;
}

/*
 * Waits for a change of the rules, at most this long, with the wait event of a
 * process that is held at a completion.
 */
void
rules_await_change(long timeout_ms)
{
	(void) ConditionVariableTimedSleep(&table->changed, timeout_ms, table->wait_event);
}

/*
 * Tells held processes and the providers that the rules have changed.
 */
static void
announce_change(void)
{
	const RuleProvider *told = NULL;

	ConditionVariableBroadcast(&table->changed);
	for (int kind = 0; kind < RULE_KINDS; kind++)
	{
		if (providers[kind] != NULL && providers[kind] != told)
		{
			told = providers[kind];
			told->changed();
		}
	}
}

/*
 * Ends the rules of a kind (RULE_NONE: of every kind), with this number unless it
 * is 0, of this session unless it is 0; with a database, only those without a
 * holder that were made there.  Returns how many.
 */
static int
end_rules(RuleKind kind, int id, int holder, Oid database)
{
	int			ended = 0;

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_RULES; i++)
	{
		Rule	   *rule = &table->rules[i];

		if (rule->kind == RULE_NONE ||
			(kind != RULE_NONE && rule->kind != kind) ||
			(id != 0 && rule->id != id) ||
			(holder != 0 && rule->holder != holder) ||
			(OidIsValid(database) && (rule->holder != 0 || rule->database != database)))
			continue;
		rule->kind = RULE_NONE;
		table->nrules--;
		ended++;
	}
	table->version++;
	LWLockRelease(table->lock);

	return ended;
}

/*
 * Ends the rules of a kind, or the one with this number.  Returns how many.
 */
int
rules_end(RuleKind kind, int id)
{
	int			ended = end_rules(kind, id, 0, InvalidOid);

	announce_change();

	return ended;
}

/*
 * Ends the rules without a holder that were made in this database.  Raises no
 * error.
 */
void
rules_end_kept(Oid database)
{
	const RuleProvider *provider = providers[RULE_HOLD];

	if (table == NULL)
		return;
	if (end_rules(RULE_NONE, 0, 0, database) > 0)
		announce_change();
	if (provider != NULL)
		provider->kept_ended(database);
}

/*
 * before_shmem_exit() callback of a session that has made rules.
 */
static void
session_ends(int code pg_attribute_unused(), Datum arg pg_attribute_unused())
{
	const RuleProvider *provider = providers[RULE_HOLD];

	(void) end_rules(RULE_NONE, 0, MyProcPid, InvalidOid);
	if (provider != NULL)
		provider->session_ended(MyProcPid);
}

/*
 * Returns a place for a rule, or -1 if the table is full.  With "replace", the place
 * of the present rule of this kind comes first.  The caller has the lock.
 */
static int
find_place(RuleKind kind, bool replace)
{
	int			place = -1;

	for (int i = 0; i < MAX_RULES; i++)
	{
		if (replace && table->rules[i].kind == kind)
			return i;
		if (table->rules[i].kind == RULE_NONE && place < 0)
			place = i;
	}

	return place;
}

/*
 * Puts a rule into force, and returns its number.
 */
static int
put_rule(const Rule *new_rule, bool replace)
{
	int			id = 0;
	int			place;

	LWLockAcquire(table->lock, LW_EXCLUSIVE);
	place = find_place(new_rule->kind, replace);
	if (place >= 0)
	{
		Rule	   *rule = &table->rules[place];
		bool		is_new = rule->kind == RULE_NONE;

		id = is_new ? table->next_id++ : rule->id;
		*rule = *new_rule;
		rule->id = id;
		rule->maker = MyProcPid;
		rule->database = MyDatabaseId;
		pg_atomic_write_u64(&table->counts[place].matched, 0);
		pg_atomic_write_u64(&table->counts[place].fired, 0);
		table->nrules += is_new;
		table->version++;
	}
	LWLockRelease(table->lock);

	if (place < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are too many rules already"),
				 errdetail("At most %d rules can be in force at once.", MAX_RULES),
				 errhint("See the view \"io_rules\".")));

	return id;
}

/*
 * Adds a rule, which ends with the session unless it has no holder.  Returns
 * the number.
 */
int
rules_add(const Rule *rule)
{
	static bool registered = false;

	if (rule->holder != 0 && !registered)
	{
		before_shmem_exit(session_ends, 0);
		registered = true;
	}

	return put_rule(rule, false);
}

/*
 * Replaces the rule of the same kind, and keeps its number: a read that the
 * old rule holds stays held if the new rule matches it, too.  Returns the
 * number.
 */
int
rules_replace(const Rule *rule)
{
	int			id = put_rule(rule, true);

	announce_change();

	return id;
}

/*
 * Copies the table and the counts.  Places without a rule have no kind.
 */
void
rules_copy(Rule *copies, int64 *matched, int64 *fired)
{
	LWLockAcquire(table->lock, LW_SHARED);
	memcpy(copies, table->rules, sizeof(table->rules));
	for (int i = 0; i < MAX_RULES; i++)
	{
		matched[i] = pg_atomic_read_u64(&table->counts[i].matched);
		fired[i] = pg_atomic_read_u64(&table->counts[i].fired);
	}
	LWLockRelease(table->lock);
}
