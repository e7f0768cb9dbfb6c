/* SPDX-License-Identifier: MIT */
/*
 * What the log says about a run besides single events: the fields of JSON
 * lines, the run's progress once a minute, and throttling of its requests by
 * the service.
 */
#ifndef TW_RUN_REPORT_H
#define TW_RUN_REPORT_H

#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/log.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

/* Interval at which a run's progress, and throttling by the service, are
 * logged. */
#define REPORT_EVERY_MS INT64_C(60000)

/*
 * report_args: shorten args_json, a run's Args, for the member `args` of struct
 * log_run. Returns a JSON object in which each value is cut to 200 bytes, and
 * arguments beyond 4 KiB are left out. Lives in arena. NULL: args_json is not
 * an object, or is empty.
 */
const char *report_args(struct slice args_json, struct arena *arena);

/* report_counts: write duration_ms and the run's counts to ret, for
 * log_run_line(). The list is ended by an element whose name is NULL. */
#define REPORT_COUNTS 9
void report_counts(const struct ledger_run *run, int64_t duration_ms,
    struct log_number ret[REPORT_COUNTS]);

/* The progress of one attempt, as last logged. */
struct report {
    int64_t at_ms; /* when progress was last logged, or the attempt began; boot
                      clock */
    int64_t read, changed;       /* counts of the run at at_ms */
    int64_t throttled_at_ms;     /* when throttling was logged; 0: never */
    int64_t requests, throttled; /* counts of the run at throttled_at_ms, or
                                    when the attempt began */
};

/* report_begin: call when the attempt begins, at now_ms (boot clock). */
void report_begin(
    struct report *report, const struct ledger_run *run, int64_t now_ms);

/* report_progress: call after each write of the run's counts to the ledger;
 * logs at most every REPORT_EVERY_MS. */
void report_progress(struct report *report, const struct log_run *log,
    const struct ledger_run *run, int64_t now_ms);

#endif
