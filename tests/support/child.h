/* SPDX-License-Identifier: MIT */
/* Child processes of a test, which run a function of its program. If a call
 * fails, the test fails. */
#ifndef TW_TESTS_SUPPORT_CHILD_H
#define TW_TESTS_SUPPORT_CHILD_H

#include <sys/types.h>

/* child_start: runs body(arg) in a new process, which exits with 0 when body
 * returns. */
pid_t child_start(void (*body)(void *arg), void *arg);

/* child_end: waits until the child has exited. Returns its exit code.
 * child_run: child_start() and child_end().
 * child_killed: waits until the child was killed by a signal. */
int child_end(pid_t child);
int child_run(void (*body)(void *arg), void *arg);
void child_killed(pid_t child);

#endif
