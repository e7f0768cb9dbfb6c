/* SPDX-License-Identifier: MIT */
/*
 * Executes one run at once, without a queue: what `tableward run` does after
 * its questions. The run has a lease that is renewed, as a run of a worker has.
 * single_run() waits for a cascade's `settle`, and while another process has
 * the lease. It counts failed attempts as a worker does, and retries during an
 * outage.
 */
#ifndef TW_RUN_SINGLE_H
#define TW_RUN_SINGLE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

struct lock_file;
struct single;

struct single_options {
    struct definition *definition; /* borrowed until single_free() */
    const struct job *job;         /* a job of definition */
    struct run_args args;          /* arguments of the run, from message_args();
                                      borrowed */
    struct slice id;               /* run id; borrowed. text_random_id() makes a
                                      new id */
    bool accept_deletes;
    struct lock_file *lock_file; /* lock file of this process; borrowed. NULL:
                                    none */
};

struct single_result {
    enum ledger_state state; /* how the run ended; LEDGER_QUEUED if stopped,
                                overtaken or unreadable is set */
    bool already;            /* the run had ended before: nothing was done */
    bool otherwise;          /* see struct attempt_result */
    bool stopped;    /* the run was stopped by single_stop(), by `pause`, or
                        because the archive's disk is full */
    bool paused;     /* if stopped is set: the run is `paused`, and workers skip
                        the run */
    bool elsewhere;  /* if stopped is set: another process has the lease */
    bool overtaken;  /* another process has the lease now */
    bool unreadable; /* the run's entity in the ledger cannot be read */
    int64_t finished_ticks; /* FinishedAt */
    struct err err; /* cause if the run failed, was poisoned, is unreadable, or
                       was stopped by a full archive disk; else empty */
};

/* Progress of a run, for a progress line. */
struct single_progress {
    int64_t read, written, deleted, skipped, failed;
    int share;            /* done part, in thousandths; -1: unknown */
    bool working;         /* an attempt is under way */
    int64_t until_ms;     /* end of the wait, platform_boot_ms(); 0: no wait */
    bool held_by_another; /* another process has the lease */
};

/* single_new: create; sends no request. Owned. */
struct single *single_new(const struct single_options *options);
void single_free(struct single *single);

/*
 * single_run: execute the run. TW_OK: ret says how the run ended. TW_CONFLICT:
 * the ledger has a run with this id and other arguments; or the run is paused,
 * and its definition has changed. TW_INVALID: no store is configured for the
 * ledger. Only before the first attempt: TW_REFUSED, if the store refuses the
 * credentials; TW_BUSY, if it cannot be reached.
 */
TW_MUST_USE enum tw_err single_run(
    struct single *single, struct single_result *ret, struct err *err);

/* single_stop: end the attempt in order and make no other. Call from any
 * thread, but not from a signal handler. */
void single_stop(struct single *single);

/* single_read_progress: write the present progress to ret. Any thread. */
void single_read_progress(struct single *single, struct single_progress *ret);

#endif
