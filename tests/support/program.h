/* SPDX-License-Identifier: MIT */
/*
 * Helpers of test programs that are no unit tests: child processes, memory that
 * they share with their parent, and numbers on the command line.
 */
#ifndef TW_TESTS_PROGRAM_H
#define TW_TESTS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROGRAM_USAGE 64

/* program_die: prints what failed, with the text of errno, and exits with 1. */
void program_die(const char *what) __attribute__((noreturn));

/* program_number: returns the number in `text`. If `text` is NULL or no number,
 * the program exits with PROGRAM_USAGE. */
uint64_t program_number(const char *text);

/* program_seconds: returns CLOCK_MONOTONIC in seconds. */
double program_seconds(void);

/* program_hush: sends the standard error of this process to /dev/null. */
void program_hush(void);

/* program_fork: forks; returns 0 in the child. Flushes the output first, so
 * that it is not printed twice.
 * program_wait: waits until the child has ended. Returns its status. */
pid_t program_fork(void);
int program_wait(pid_t child);

/* program_shared: returns zeroed memory that this process shares with its
 * children.
 * program_unshared: releases this memory. */
void *program_shared(size_t bytes);
void program_unshared(void *at, size_t bytes);

#endif
