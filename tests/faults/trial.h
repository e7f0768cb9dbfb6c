/* SPDX-License-Identifier: MIT */
/*
 * One trial: an action that may fail, done in a child and in a folder of its
 * own, so that the parent can check the result, however it ends. The parent
 * never opens a store or uses a library, so that each child begins as a new
 * process does.
 */
#ifndef TW_TESTS_FAULTS_TRIAL_H
#define TW_TESTS_FAULTS_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_NO_STORE 69
#define EXIT_AGAIN 75
#define SHOWN_MAX 3 /* number of failures that are printed in full */
/* If there are no more calls than this, each is tried, whatever SHARE is. */
#define FEW 32

/* trial_share: returns SHARE, the first argument of the command line; 1 if
 * there is none. */
unsigned long trial_share(int argc, char **argv);

/* A child that runs longer ends by SIGALRM. */
#define TRIAL_LIMIT_S 60

/* Returned by trial_fork() if the child died of signal n. */
#define TRIAL_SIGNAL(n) (256 + (n))

/*
 * trial_fork: runs body(context) in a child, whose current folder and $TMPDIR
 * are `folder`. Its standard input is the file `in` in this folder or, if there
 * is none, /dev/null; its output goes to the file `out`, its errors to the file
 * `log`, which are both empty at first. Returns the exit code of the child, or
 * TRIAL_SIGNAL().
 */
int trial_fork(const char *folder, int (*body)(void *context), void *context);

/* trial_command: called by a body: runs one command line of tableward. Single
 * spaces separate its words; ~ stands for a space inside a word. Returns the
 * exit code. */
int trial_command(const char *line);

/* trial_later: called by a body: from now on the clocks run a hundred times as
 * fast, and are ahead_ms ahead, so that leases of earlier processes may be
 * over. */
void trial_later(int64_t ahead_ms);

/* trial_inside: returns the path of an entry in a folder; owned.
 * trial_copy: makes the folder `to` a copy of `from`.
 * trial_begin: makes `to` a copy of the folder `template` of the subject. */
char *trial_inside(const char *folder, const char *name);
void trial_copy(const char *from, const char *to);
void trial_begin(const char *subject, const char *to);

/* trial_write, trial_read: write and read a whole file. The text that is read
 * is owned; NULL: there is no such file. */
void trial_write(const char *folder, const char *name, const char *text);
char *trial_read(const char *folder, const char *name);

/*
 * trial_sweep: calls one(context, n, own) for every share-th n up to count.
 * seed chooses the first n. Two processes do this side by side, each with a
 * folder `own` inside `folder`. If one of them ends early, this process ends,
 * too.
 */
void trial_sweep(const char *folder, unsigned long count, unsigned long share,
    unsigned long seed,
    void (*one)(const void *context, unsigned long n, const char *folder),
    const void *context);

/* trial_end_name: returns a text such as "exit 75" or "signal 11 (SEGV)"; it
 * lives until the next call. */
const char *trial_end_name(int end);

#endif
