/* SPDX-License-Identifier: MIT */
/*
 * An outage of a queue or the ledger: its begin, its cause, when the next try
 * may start, and when the log repeats the cause. The caller guards the struct.
 */
#ifndef TW_RUN_OUTAGE_H
#define TW_RUN_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

/* Interval at which the log repeats the cause of an outage that lasts. */
#define OUTAGE_REPEAT_MS 60000

struct outage {
    bool lasts;
    /* since_ms: when the outage began. wait_ms: length of the last backoff.
     * until_ms: when the next try may start. repeat_ms: when the cause may be
     * logged again. All times are of the boot clock. */
    int64_t since_ms, wait_ms, until_ms, repeat_ms;
    struct err cause; /* error of the last failed try */
};

/*
 * outage_failed: call when a try failed at now_ms for the reason `why`. Sets
 * until_ms, when the next try may start: after 1 s, doubling to 10 s. True: the
 * caller must log `why` now.
 */
bool outage_failed(
    struct outage *outage, int64_t now_ms, const struct err *why);

/* outage_ends: call when a try succeeded. Returns how many seconds the outage
 * lasted; -1: there was no outage. */
int64_t outage_ends(struct outage *outage, int64_t now_ms);

/* The outage that ended last. lasted_s: its duration. ended_ticks: when it
 * ended, by the wall clock; 0: no outage has ended yet. */
struct outage_past {
    int64_t lasted_s, ended_ticks;
};

/* outage_note_end: set *past to an outage that ends now, after lasted_s
 * seconds. If lasted_s is -1, there was no outage, and *past is unchanged. */
void outage_note_end(struct outage_past *past, int64_t lasted_s);

/* outage_later: of the outages `one` and `other`, return the one that ended
 * later. */
const struct outage_past *outage_later(
    const struct outage_past *one, const struct outage_past *other);

#endif
