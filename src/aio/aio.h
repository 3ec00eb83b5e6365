/*
 * The module's place between the AIO subsystem and its I/O method; matching,
 * intercepting, performing and completing reads.
 */
#ifndef TEST_AIO_AIO_H
#define TEST_AIO_AIO_H

#include "subsystem.h"

#include "postmaster/bgworker.h"
#include "tcop/tcopprot.h"

/*
 * Operations beside PGAIO_OP_READV and PGAIO_OP_WRITEV, of system calls.  The process of
 * such a call describes it in a handle of ours.  The server does not know these handles.
 * Of WAL, the target has the three parts of the segment's file name in the place of a
 * relation, and no fork.
 */
typedef enum IoCallOp
{
	IO_OP_EXTEND = PGAIO_OP_COUNT,
	IO_OP_TRUNCATE,
	IO_OP_SYNC,
	IO_OP_WAL_WRITE,
	IO_OP_WAL_SYNC,
} IoCallOp;

#define IO_OP_BIT(op)	(1U << (op))
#define IO_ALL_OPS		(IO_OP_BIT(IO_OP_WAL_SYNC + 1) - IO_OP_BIT(PGAIO_OP_READV))

#define IO_MATCH_MAX_RELS 64
#define IO_MAX_PROCESSES	(MaxBackends + NUM_AUXILIARY_PROCS)

/* match.c: one for the system calls of each process */
extern PgAioHandle *io_calls;

/* the number of a handle, of the server's or, after these, of ours */
static inline uint32
io_index(const PgAioHandle *ioh)
{
	size_t		index = ioh - pgaio_ctl->io_handles;
	uint32		nhandles = pgaio_ctl->io_handle_count;

	return likely(index < nhandles) ? (uint32) index : nhandles + (uint32) (ioh - io_calls);
}

static inline PgAioHandle *
io_handle(uint32 index)
{
	uint32		nhandles = pgaio_ctl->io_handle_count;

	return index < nhandles ? &pgaio_ctl->io_handles[index] : &io_calls[index - nhandles];
}

static inline bool
io_is_call(const PgAioHandle *ioh)
{
	return io_index(ioh) >= pgaio_ctl->io_handle_count;
}

/*
 * match.c: which reads a filter or a trace concerns.  Begin with io_match_all(): zero does
 * not always match all.  Without padding, so that matches can be compared.
 */
typedef struct IoMatch
{
	uint32		ops;			/* IO_OP_BIT() of each operation */
	int			nrels;			/* 0 matches all */
	RelFileLocator rels[IO_MATCH_MAX_RELS]; /* the first is shown */
	ProcNumber	temp_owner;		/* of a temporary table */
	RelFileNumber relfilenumber;	/* in any database and tablespace; 0: all */
	RelFileNumber first_relfilenumber;	/* none before this one */
	ForkNumber	fork;			/* InvalidForkNumber matches all */
	BlockNumber block;			/* the read covers it; InvalidBlockNumber: all */
	int			pid;			/* the issuer; 0 matches all */
	int			leader_pid;		/* of the issuer, a parallel worker; 0: all */
	BackendType backend_type;	/* of the issuer; B_INVALID matches all */
	char		worker_type[BGW_MAXLEN];	/* of background workers; empty:
											 * all */
} IoMatch;

static inline int
io_owner_pid(PgAioHandle *ioh)
{
	return GetPGProcByNumber(ioh->owner_procno)->pid;
}

/* Is an I/O about the memory of its owner, the only process that can perform it? */
static inline bool
io_is_local(PgAioHandle *ioh)
{
	return (ioh->flags & PGAIO_HF_REFERENCES_LOCAL) != 0;
}

extern bool io_is_read(PgAioHandle *ioh);
extern bool io_matches(const IoMatch *match, PgAioHandle *ioh);

/* arguments of SQL functions; NULL matches all */
extern IoMatch io_match_all(void);
extern IoMatch io_match_rel_arg(FunctionCallInfo fcinfo, int arg, bool family);
extern int	io_pid_arg(FunctionCallInfo fcinfo, int arg, const char *name);
extern void io_match_backend_type(const char *name, IoMatch *match);
extern void io_match_block_arg(FunctionCallInfo fcinfo, int arg, int64 blockno, IoMatch *match);
extern void io_match_op_arg(FunctionCallInfo fcinfo, int arg, IoMatch *match);
extern const char *io_op_names(uint32 ops);
extern void io_set_target(Row *row, const PgAioTargetData *target);

/* why no system calls are seen; without a reason, they are */
extern Unavailable io_calls_unavailable;

/*
 * method.c, layout.c.  The server calls its I/O method through pgaio_method_ops, an
 * exported pointer to a table of functions.  Our table in its place passes every call
 * on, and lets an interceptor (the gate) keep a read from the I/O method, and a
 * listener (the trace) be told what happens to reads.
 */

/*
 * Keeps reads from the I/O method, in the process that has them; submit in a critical
 * section.
 */
typedef struct IoInterceptor
{
	/* whether to intercept this staged read: always the same answer */
	bool		(*intercept) (PgAioHandle *ioh);
	/* the buffer manager has staged this read, which may be synchronous */
	void		(*intercept_synchronous) (PgAioHandle *ioh);
	/* whether this use of a handle has been intercepted */
	bool		(*has_intercepted) (PgAioHandle *ioh, uint64 generation);
	/* returns whether this intercepted read is or was held or on a device */
	bool		(*has_delayed) (PgAioHandle *ioh);
	/* takes the intercepted ones, gives the others to io_server_ops */
	int			(*submit) (uint16 num_staged_ios, PgAioHandle **staged_ios);
	/* waits until an intercepted read is no longer in flight */
	void		(*wait) (PgAioHandle *ioh, uint64 generation);
} IoInterceptor;

/* A process's wait for a read, as a listener keeps it. */
typedef struct IoWait
{
	uint64		seq;
	IoTime		start;
	int			place;
} IoWait;

/* Is told what happens to reads.  It allocates nothing and raises no error. */
typedef struct IoListener
{
	/* this process has staged a read; a synchronous one is executed next */
	void		(*staged) (PgAioHandle *ioh, bool synchronous);
	/* this process submits what it has staged */
	void		(*submitting) (uint16 num_staged_ios, PgAioHandle **staged_ios);

	/*
	 * This process waits.  False: wait_ends is not called; nor is it when an
	 * error or the end of the process ends the wait.
	 */
	bool		(*wait_begins) (PgAioHandle *ioh, uint64 generation, IoWait *wait);
	void		(*wait_ends) (const IoWait *wait);
	/* md.c has looked at the raw result; then the buffer manager at the pages */
	void		(*completion_begins) (PgAioHandle *ioh, PgAioResult result);
	void		(*completion_ends) (PgAioHandle *ioh, PgAioResult result);
} IoListener;

/* the table that the server would use without us */
extern const IoMethodOps *io_server_ops;

/* or NULL */
extern const IoInterceptor *io_interceptor;
extern const IoListener *io_listener;

/* may a server of an unknown major version be tried?  set before the next three */
extern bool io_try_unknown_server;

/* in the postmaster: while the library is preloaded */
extern const char *io_method_unavailable(const char **hint);
extern const char *const io_compile_anew_hint;
extern const char *io_server_version(void);
extern uint32 io_expected_handles(void);
extern size_t io_symbol_size(const void *address);

/* in the postmaster: once shared memory is set up */
extern const char *io_handles_unavailable(void);
extern void io_install(const IoInterceptor *interceptor, const IoListener *listener);

extern bool io_is_intercepted(PgAioHandle *ioh, uint64 generation);
extern bool io_is_delayed(PgAioHandle *ioh, uint64 generation);
extern bool io_method_refuses(PgAioHandle *ioh);

/*
 * callbacks.c.  The server's callbacks on buffered reads see what no I/O method sees:
 * synchronous reads, and the completion of every read.
 */

/* in the postmaster; they return why not, or NULL */
extern const char *io_replace_pointer(const void *where, const void *pointer);
extern const char *io_see_synchronous(void);
extern const char *io_see_completions(void);

/* perform.c */

/* What an intercepted I/O ends with in the place of its own result and data. */
typedef struct IoOutcome
{
	bool		has_result;
	int32		result;			/* a number of bytes or a negative errno */
	int64		wrong_byte;		/* this byte of a read is inverted; 0: none */
} IoOutcome;

/* this process completes reads in the place of an I/O worker */
extern bool io_acts_as_worker;

/*
 * Has messages go to the server's log alone until whereToSendOutput is set to what
 * this returns.  A client that does not read would block this process.
 */
static inline CommandDest
io_silence_client(void)
{
	CommandDest dest = whereToSendOutput;

	whereToSendOutput = DestNone;
	return dest;
}

extern void io_log_hold_expired(uint8 op, const PgAioTargetData *target, int owner);
extern void io_perform(PgAioHandle *ioh, int fd, const IoOutcome *outcome, IoTime not_before);
extern void io_zero_rest(PgAioHandle *ioh, size_t length);
extern bool io_result_arg(FunctionCallInfo fcinfo, int arg, int32 *result);

#endif							/* TEST_AIO_AIO_H */
