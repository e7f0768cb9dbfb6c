/* SPDX-License-Identifier: MIT */
/*
 * What this worker did in the last hour: entities and refusals in intervals of
 * ten seconds, in a ring buffer of fixed size. Any thread.
 */
#ifndef TW_MONITOR_HISTORY_H
#define TW_MONITOR_HISTORY_H

#include <stdint.h>

#include "worker/base/buf.h"

#define HISTORY_EVERY_MS 10000
#define HISTORY_SAMPLES 360

/* Totals since the start of the process. */
struct history_totals {
    int64_t entities; /* number of entities written and deleted */
    int64_t refusals; /* number of requests that a service refused because it
                         was busy */
};

struct history;

/* history_new: create an empty history. Owned. */
struct history *history_new(void);
void history_free(struct history *history); /* does nothing if given NULL */

/* history_add: end an interval and begin the next one. boot_ms and wall_ticks:
 * the present time, by the platform's two clocks. The first call only begins an
 * interval. */
void history_add(struct history *history, const struct history_totals *totals,
    int64_t boot_ms, int64_t wall_ticks);

/* history_add_json: add one object: EverySeconds, and Samples, oldest first,
 * each [end of the interval in milliseconds since 1970, entities a second,
 * number of refusals]. */
void history_add_json(struct history *history, struct buf *to);

#endif
