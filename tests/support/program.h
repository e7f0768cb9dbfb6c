/* SPDX-License-Identifier: MIT */
/*
 * What test programs that are no unit tests share: children, memory that these
 * share with their parent, numbers of a command line.
 */
#ifndef TW_TESTS_PROGRAM_H
#define TW_TESTS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROGRAM_USAGE 64

/* program_die: ends with 1, and says what failed by errno. */
void program_die(const char *what) __attribute__((noreturn));

/* program_number: ends with PROGRAM_USAGE where text (or NULL) is none. */
uint64_t program_number(const char *text);

/* program_seconds: of a clock that nobody sets. */
double program_seconds(void);

/* program_hush: nobody hears any more what this process says on standard error.
 */
void program_hush(void);

/* program_fork: 0 in the child; what was printed before is printed once.
 * program_wait: the status of the child when it has ended. */
pid_t program_fork(void);
int program_wait(pid_t child);

/* program_shared: zeroed memory that children share with their parents;
 * program_unshared() gives it back. */
void *program_shared(size_t bytes);
void program_unshared(void *at, size_t bytes);

#endif
