/* SPDX-License-Identifier: MIT */
/*
 * Requests that may still arrive late: the store may carry out an insert some
 * time later, if it sent no response, or if the attempt that sent the insert
 * has crashed. A step that relies on what it reads waits until no such request
 * can be in flight (rule A4 of jobs/GUIDE.md). Only stores behind a network
 * have such requests (late_writes of struct store_capabilities).
 */
#ifndef TW_JOBS_ENGINE_LATE_H
#define TW_JOBS_ENGINE_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

struct run;
struct store;

/* All zero: no request can be late. */
struct late {
    bool any;         /* a request may still arrive late */
    int64_t since_ms; /* platform_boot_ms() when the last request that may be
                       * late was given up */
};

/* late_note: record that the caller gives up a request to the store `store`
 * now, and that this request may arrive late. Call after a write with an
 * unknown outcome, and at the beginning of an attempt whose predecessor crashed
 * (run->previous_owner_crashed). */
void late_note(struct late *late, const struct store *store);

/* late_wait: wait until no request can arrive late. TW_STOPPED:
 * run_stopping(run) is true, or the deadline is closed and cannot reopen. */
TW_MUST_USE enum tw_err late_wait(
    struct late *late, struct run *run, struct err *err);

#endif
