/* SPDX-License-Identifier: MIT */
/*
 * Is a store within reach? When one attempt after the other fails, nobody is
 * there: then only one attempt a second is let through, as a probe, whoever
 * makes it, and all others are told to wait. The first answer ends that.
 * Any thread.
 */
#ifndef TW_STORE_REACH_H
#define TW_STORE_REACH_H

#include <stdatomic.h>
#include <stdint.h>

#include "worker/base/err.h"

/* So many failures in a row are an outage. Where three in ten fail by chance
 * that is one row of them in 200,000. */
#define REACH_FAILURES 10
#define REACH_PROBE_MS 1000

/* All zero: within reach. */
struct reach {
    _Atomic unsigned failures; /* since the last answer */
    _Atomic int64_t probe_ms;  /* when the next probe may leave */
};

/* reach_wait_ms: how long an attempt at now_ms (boot clock) has to wait; 0: it
 * is let through, and where nobody is there it is the probe. */
int64_t reach_wait_ms(struct reach *reach, int64_t now_ms);

/* reach_note: how an attempt that was let through ended. */
void reach_note(struct reach *reach, enum tw_err outcome, int64_t now_ms);

#endif
