/* SPDX-License-Identifier: MIT */
/*
 * The progress of a command: the entities done, the rate, the time elapsed and
 * the share. On a terminal this is one line on standard error that is redrawn;
 * otherwise a log line is written at intervals. A separate thread gets the
 * state from a callback of the command.
 */
#ifndef TW_CLI_PROGRESS_H
#define TW_CLI_PROGRESS_H

#include <stdint.h>

struct progress;

struct progress_state {
    int64_t done;  /* number of entities done so far */
    int share;     /* share done, in thousandths; -1: unknown */
    char note[64]; /* what the command waits for; "": it does not wait */
};

/*
 * progress_start: start to print the progress. object is the subject of the log
 * lines, verb says what was done with the entities ("deleted"); both borrowed.
 * The progress thread calls `look`, which fills *ret. The caller owns the
 * result.
 */
struct progress *progress_start(const char *object, const char *verb,
    void (*look)(void *context, struct progress_state *ret), void *context);

/* progress_end: erase the line and end the thread. Does nothing if given
 * NULL. */
void progress_end(struct progress *progress);

#endif
