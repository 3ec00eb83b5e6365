/*-------------------------------------------------------------------------
 *
 * rules.h
 *		Which reads are held or fail: one table of rules for io_hold(),
 *		io_fail() and the inj_ functions.
 *
 * The rules say which reads are held, and which end with a chosen result.  They
 * carry nothing out.  That is what providers are for: the gate, and on servers
 * that have them the injection points.
 *
 *		table.c		the table in shared memory, and verdicts
 *		rules.c		io_hold(), io_fail() and the view of the table
 *		injected.c	the inj_ functions
 *		kept.c		the end of rules that outlive their session
 *
 * src/rules/rules.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_RULES_H
#define TEST_AIO_RULES_H

#include "test_aio.h"

#include "aio/clock.h"
#include "aio/match.h"

#define MAX_RULES		64

typedef enum RuleKind
{
	RULE_NONE = 0,				/* not in use */
	RULE_HOLD,					/* io_hold() */
	RULE_FAIL,					/* io_fail() */
	RULE_COMPLETION_WAIT,		/* inj_io_completion_wait() */
	RULE_SHORT_READ,			/* inj_io_short_read_attach() */
	RULE_REOPEN,				/* inj_io_reopen_attach() */
} RuleKind;

#define RULE_KINDS		(RULE_REOPEN + 1)

typedef struct Rule
{
	RuleKind	kind;
	int			id;
	int			holder;			/* pid; 0: nobody, it outlives its session */
	int			maker;			/* pid */
	Oid			database;		/* of the maker; a rule without a holder ends
								 * with it */
	IoMatch		match;
	int64		skip;			/* this many first */
	int64		times;			/* then so many; < 0: all */
	bool		has_result;
	int32		result;			/* of RULE_FAIL and RULE_SHORT_READ */
	IoTime		longest;		/* of RULE_HOLD and RULE_COMPLETION_WAIT */
} Rule;

/* What is to be done about a read.  0: no rule says so. */
typedef struct RuleVerdict
{
	int			hold;			/* the rule that holds it */
	RuleKind	hold_kind;
	int			holder;			/* the hold ends with this backend, or is 0 */
	IoTime		longest;		/* of the hold */
	int			fail;			/* the rule that chooses its result */
	int32		result;
} RuleVerdict;

/* Carries verdicts out. */
typedef struct RuleProvider
{
	const char *name;
	/* rules have been changed or ended: lets reads go on that none holds now */
	void		(*changed) (void);
	/* the rules of this session have been ended, as it exits */
	void		(*session_ended) (int pid);
	/* the rules without a holder of this database have been ended */
	void		(*kept_ended) (Oid database);
} RuleProvider;

/* table.c: for providers, who name themselves once shared memory is set up */
extern void rules_set_provider(RuleKind kind, const RuleProvider *provider);
extern void rules_set_obstacle(RuleKind kind, const Obstacle *obstacle);
extern const RuleProvider *rules_provider(RuleKind kind);
extern bool rules_any(void);
extern bool rules_judge(const RuleProvider *provider, PgAioHandle *ioh,
						RuleVerdict *verdict);
extern bool rule_holds(int id, PgAioHandle *ioh);
extern void rules_await_change(long timeout_ms);
extern bool rules_first_match(RuleKind kind, PgAioHandle *ioh, Rule *found);

/* table.c: for SQL functions */
extern void require_rules_to_look(FunctionCallInfo fcinfo);
extern void require_rule_kind(FunctionCallInfo fcinfo, RuleKind kind);
extern int	rules_add(const Rule *rule);
extern int	rules_replace(const Rule *rule);
extern int	rules_end(RuleKind kind, int id);
extern void rules_end_kept(Oid database);
extern void rules_copy(Rule *copies, int64 *matched, int64 *fired);

/* kept.c */
extern void kept_init(void);

/* the setting "test_aio.longest_hold" as a time */
extern IoTime rules_longest_hold(void);

#endif							/* TEST_AIO_RULES_H */
