/*-------------------------------------------------------------------------
 *
 * constant.h
 *		Changing function pointers in memory that is meant to be constant.
 *
 * src/gate/constant.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_AIO_GATE_CONSTANT_H
#define TEST_AIO_GATE_CONSTANT_H

#include "test_aio.h"

extern bool replace_stage(const PgAioHandleCallbackStage *where,
						  PgAioHandleCallbackStage stage);
extern bool replace_complete(const PgAioHandleCallbackComplete *where,
							 PgAioHandleCallbackComplete complete);

#endif							/* TEST_AIO_GATE_CONSTANT_H */
