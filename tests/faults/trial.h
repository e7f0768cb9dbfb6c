/* SPDX-License-Identifier: MIT */
/*
 * One trial: something that may fail, done in a child of its own and in a
 * folder of its own, so that whatever becomes of it can be judged from
 * outside. The parent stays bare: it never opens a store or a library itself,
 * so each child begins as a new process does.
 */
#ifndef TW_TESTS_FAULTS_TRIAL_H
#define TW_TESTS_FAULTS_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_NO_STORE 69
#define EXIT_AGAIN 75
#define SHOWN_MAX 3 /* failures that are told in full */
#define FEW 32      /* so many calls are all tried, whatever the share */

/* trial_share: SHARE of a command line: its first argument; 1 without. */
unsigned long trial_share(int argc, char **argv);

/* Beyond this a child ends by SIGALRM, and counts as one that hangs. */
#define TRIAL_LIMIT_S 60

/* What TRIAL_SIGNAL(n) of trial_fork() means: it died of signal n. */
#define TRIAL_SIGNAL(n) (256 + (n))

/*
 * trial_fork: run body(context) in a child, in folder, with standard input from
 * /dev/null, or from `in` where that file is there, output to `out` and errors
 * to `log`, all in folder, which is $TMPDIR too; the latter two begin empty.
 * Its exit code, or TRIAL_SIGNAL().
 */
int trial_fork(const char *folder, int (*body)(void *context), void *context);

/* trial_command: for a body: one command line of tableward's, its words parted
 * by single spaces; ~ is a space within one. The exit code. */
int trial_command(const char *line);

/* trial_later: for a body: from now on clocks run a hundred times as fast and
 * stand so many milliseconds ahead; what another process has leased before is
 * over. */
void trial_later(int64_t ahead_ms);

/* trial_inside: the name of an entry in a folder; owned. trial_copy: to becomes
 * like from. trial_begin: the same, from `template` in the subject's folder. */
char *trial_inside(const char *folder, const char *name);
void trial_copy(const char *from, const char *to);
void trial_begin(const char *subject, const char *to);

/* trial_write, trial_read: a whole file; text that was read is owned. NULL: it
 * is not there. */
void trial_write(const char *folder, const char *name, const char *text);
char *trial_read(const char *folder, const char *name);

/*
 * trial_sweep: call one(context, n, folder) for every share-th n from 1 to
 * count, beginning where seed says, in two processes side by side, each with a
 * folder of its own inside folder. Ends this process where one of them ends
 * early.
 */
void trial_sweep(const char *folder, unsigned long count, unsigned long share,
    unsigned long seed,
    void (*one)(const void *context, unsigned long n, const char *folder),
    const void *context);

/* trial_end_name: "exit 75", "SIGSEGV"; lives until the next call. */
const char *trial_end_name(int end);

#endif
