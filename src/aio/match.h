/*
 * Which reads a filter, a device or a trace concerns.
 */
#ifndef TEST_AIO_MATCH_H
#define TEST_AIO_MATCH_H

#include "test_aio.h"

/*
 * Begin with io_match_all(): for fork and temp_owner, zero does not match all.
 */
typedef struct IoMatch
{
	bool		has_rel;
	RelFileLocator rlocator;
	ProcNumber	temp_owner;		/* of a temporary table */
	RelFileNumber relfilenumber;	/* in any database and tablespace; 0: all */
	ForkNumber	fork;			/* InvalidForkNumber matches all */
	bool		has_block;
	BlockNumber block;			/* the read covers this block */
	int			pid;			/* the issuer; 0 matches all */
} IoMatch;

extern bool io_is_read(PgAioHandle *ioh);
extern bool io_matches(const IoMatch *match, PgAioHandle *ioh);
extern bool io_match_is_same(const IoMatch *a, const IoMatch *b);

/* arguments of SQL functions; NULL matches all */
extern IoMatch io_match_all(void);
extern IoMatch io_match_rel_arg(FunctionCallInfo fcinfo, int arg);
extern void io_match_pid_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match);
extern void io_match_fork_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match);
extern void io_match_block_arg(FunctionCallInfo fcinfo, int arg, int64 blockno,
							   IoMatch *match);
extern void io_match_relfilenode_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match);

#endif							/* TEST_AIO_MATCH_H */
