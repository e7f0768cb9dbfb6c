/* SPDX-License-Identifier: MIT */
/*
 * How far a command is: on a terminal one line on standard error that is drawn
 * anew (done, rate, elapsed, share), elsewhere a log line now and then. A
 * thread of its own asks the command.
 */
#ifndef TW_CLI_PROGRESS_H
#define TW_CLI_PROGRESS_H

#include <stdint.h>

struct progress;

struct progress_state {
    int64_t done;  /* entities so far */
    int share;     /* thousandths; -1: cannot be told */
    char note[64]; /* what is waited for, or "" */
};

/*
 * progress_start: object names the work in log lines, verb what was done
 * ("deleted"); both borrowed. look is called on the progress's thread. Owned.
 */
struct progress *progress_start(const char *object, const char *verb,
    void (*look)(void *context, struct progress_state *ret), void *context);

/* progress_end: takes the line away. NULL: nothing. */
void progress_end(struct progress *progress);

#endif
