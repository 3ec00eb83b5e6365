/*
 * Writes as the server makes them: the system calls by which relation files and WAL are
 * written, extended, truncated and synced.
 *
 * The server's executable calls them through slots that the dynamic linker has filled
 * in.  With test_aio.reach_writes our functions are there instead, in every process.
 */
#ifndef TEST_AIO_WRITES_H
#define TEST_AIO_WRITES_H

#include "aio/aio.h"

/* elsewhere it is not known how a server calls the C library */
#if defined(IO_METHOD_CAN_BE_CHECKED) && (defined(__x86_64__) || defined(__aarch64__))
#define WRITES_CAN_BE_REACHED
#endif

/* slots.c */
extern const char *slot_replace(const char *name, void *function);

/* files.c */
extern bool file_of_descriptor(int fd, PgAioTargetData *target);

#endif							/* TEST_AIO_WRITES_H */
