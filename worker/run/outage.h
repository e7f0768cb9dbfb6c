/* SPDX-License-Identifier: MIT */
/*
 * Something that does not answer: since when, when it is tried again, and when
 * the log repeats the cause. Without a lock.
 */
#ifndef TW_RUN_OUTAGE_H
#define TW_RUN_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

/* The log repeats the present cause of what lasts so often. */
#define OUTAGE_REPEAT_MS 60000

struct outage {
    bool lasts;
    int64_t since_ms, wait_ms, until_ms, repeat_ms; /* boot clock */
    struct err cause;                               /* the last one */
};

/*
 * outage_failed: at now_ms it failed, (again) for `why`. until_ms is when it
 * may be tried again: after 1 s, doubling to 10 s. True: the log is to say so.
 */
bool outage_failed(
    struct outage *outage, int64_t now_ms, const struct err *why);

/* outage_ends: it has answered. Returns how many seconds it lasted; -1: it did
 * not fail before. */
int64_t outage_ends(struct outage *outage, int64_t now_ms);

/* The last outage that is over, and when it ended (ticks of the wall clock; 0:
 * there was none). */
struct outage_past {
    int64_t lasted_s, ended_ticks;
};

/* outage_note_end: it has just ended, after lasted_s (-1: nothing has). */
void outage_note_end(struct outage_past *past, int64_t lasted_s);

/* outage_later: the one that ended later. */
const struct outage_past *outage_later(
    const struct outage_past *one, const struct outage_past *other);

#endif
