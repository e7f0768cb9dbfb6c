/* SPDX-License-Identifier: MIT */
/*
 * The progress of a command: on a terminal one line on standard error that is
 * redrawn (done, rate, elapsed, share), else a log line now and then. A thread
 * of its own gets the state from the command.
 */
#ifndef TW_CLI_PROGRESS_H
#define TW_CLI_PROGRESS_H

#include <stdint.h>

struct progress;

struct progress_state {
    int64_t done;  /* entities so far */
    int share;     /* thousandths; -1: unknown */
    char note[64]; /* what the command waits for, or "" */
};

/*
 * progress_start: object names the work in log lines, verb what was done
 * ("deleted"); both borrowed. look is called on the progress thread. Owned.
 */
struct progress *progress_start(const char *object, const char *verb,
    void (*look)(void *context, struct progress_state *ret), void *context);

/* progress_end: erase the line and end the thread. NULL: nothing. */
void progress_end(struct progress *progress);

#endif
