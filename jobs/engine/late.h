/* SPDX-License-Identifier: MIT */
/*
 * Requests that may still arrive late: an insert whose answer was lost, or one
 * that a crashed attempt had sent, may be carried out some time later. A step
 * that relies on what it reads waits until none can be on its way (A4). Only
 * stores behind a network have such requests (struct store_capabilities).
 */
#ifndef TW_JOBS_ENGINE_LATE_H
#define TW_JOBS_ENGINE_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

/* After so long no request arrives any more. */
#define LATE_REQUEST_MS 30000

struct run;
struct store;

/* All zero: none is on its way. */
struct late {
    bool any;
    int64_t since_ms; /* platform_boot_ms() when the last one was given up */
};

/* late_note: the outcome of a request to store is unknown, now; or, at the
 * beginning of an attempt: that of an attempt before it
 * (run->previous_owner_crashed). */
void late_note(struct late *late, const struct store *store);

/* late_wait: returns once none can be on its way. TW_STOPPED:
 * run_stopping(run), or its deadline is shut. */
TW_MUST_USE enum tw_err late_wait(
    struct late *late, struct run *run, struct err *err);

#endif
