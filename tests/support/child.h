/* SPDX-License-Identifier: MIT */
/* Processes that a test starts, of its own program. What cannot be done fails
 * the test. */
#ifndef TW_TESTS_SUPPORT_CHILD_H
#define TW_TESTS_SUPPORT_CHILD_H

#include <sys/types.h>

/* child_start: body(arg) in a process of its own, which exits with 0 where body
 * returns. */
pid_t child_start(void (*body)(void *arg), void *arg);

/* child_end: wait until it has exited. Returns its exit code. child_run: both.
 * child_killed: wait until it was killed by a signal. */
int child_end(pid_t child);
int child_run(void (*body)(void *arg), void *arg);
void child_killed(pid_t child);

#endif
