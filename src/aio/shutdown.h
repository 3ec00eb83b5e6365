/*
 * Finding out whether the server is shutting down.
 */
#ifndef TEST_AIO_SHUTDOWN_H
#define TEST_AIO_SHUTDOWN_H

extern bool server_is_stopping(void);

#endif							/* TEST_AIO_SHUTDOWN_H */
