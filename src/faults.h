/*-------------------------------------------------------------------------
 *
 * faults.h
 *		Rules that say which reads are to be held or falsified, and the
 *		interface to what puts them into effect.
 *
 * A provider is a place in the server from which completions can be
 * influenced.  It asks the functions below what to do with a read.
 *
 * src/faults.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_FAULTS_H
#define TEST_AIO_FAULTS_H

#include "test_aio.h"

/* faults.c: for providers */
extern void hold_completion(PgAioHandle *ioh);
extern void falsify_result(PgAioHandle *ioh);
extern void fail_reopen(void);

/* for the gate, if that is the provider */
extern bool faults_use_gate(void);
extern uint32 faults_in_force(void);
extern bool faults_get_result(PgAioHandle *ioh, int32 *result);
extern int64 faults_longest_hold(void);

/* does the server have injection points, and are we attached to them? */
extern bool faults_have_injection_points(void);

/* for whoever ends reads in an unusual way */
extern void faults_end_hold(void);
extern bool server_is_stopping(void);
extern void check_io_result(int32 result);
extern void zero_rest_of_read(PgAioHandle *ioh, size_t length);

/*
 * faults_injection_points.c: the server's own injection points.  Attaches to
 * them at server start; NULL, or why that was not possible.
 */
typedef struct FaultObstacle
{
	int			sqlerrcode;
	const char *message;
	const char *hint;
} FaultObstacle;

extern const FaultObstacle *attach_injection_points(void);

#endif							/* TEST_AIO_FAULTS_H */
