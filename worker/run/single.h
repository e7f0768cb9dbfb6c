/* SPDX-License-Identifier: MIT */
/*
 * Makes one run at once, without a queue: `tableward run` after its questions.
 * The run has a lease and a renewer as a worker's run has. It waits for settle,
 * and while another process has the lease; counts failed attempts as a worker
 * does; and retries during an outage.
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
    struct definition *definition; /* borrowed for the life of the single */
    const struct job *job;         /* of that definition */
    struct run_args args;          /* from message_args(); borrowed */
    struct slice id;               /* a run id; borrowed. Make a new one with
                                      text_random_id() */
    bool accept_deletes;
    struct lock_file *lock_file; /* of this process; borrowed. NULL: none */
};

struct single_result {
    enum ledger_state state; /* how the run ended; queued with `stopped`,
                                `overtaken` or `unreadable` */
    bool already;            /* the run had ended before: nothing was done */
    bool stopped; /* by single_stop(), by `pause`, or because the archive's disk
                     is full */
    bool paused;  /* with stopped: the run is `paused`, workers skip it */
    bool elsewhere;         /* with stopped: another process has the lease */
    bool overtaken;         /* another process has the lease now */
    bool unreadable;        /* the run's entity in the ledger cannot be read */
    int64_t finished_ticks; /* FinishedAt */
    struct err err; /* the cause of failed, poisoned, unreadable and stopped by
                       the archive's disk; empty when stopped otherwise */
};

/* For a progress line. */
struct single_progress {
    int64_t read, written, deleted, skipped, failed;
    int share;            /* thousandths of the key range; -1: unknown */
    bool working;         /* an attempt is under way */
    int64_t until_ms;     /* end of the wait, by platform_boot_ms(); 0: none */
    bool held_by_another; /* another process has the lease */
};

/* single_new: nothing is sent yet. Owned. */
struct single *single_new(const struct single_options *options);
void single_free(struct single *single);

/*
 * single_run: make the run. TW_OK: ret has how it ended. TW_REFUSED: the store
 * refuses the credentials; TW_BUSY: the store cannot be reached; both only
 * before the first attempt. TW_CONFLICT: the id has other arguments.
 * TW_INVALID: no store is named for the ledger.
 */
TW_MUST_USE enum tw_err single_run(
    struct single *single, struct single_result *ret, struct err *err);

/* single_stop: stop in order. Any thread, but no signal handler. */
void single_stop(struct single *single);

/* single_look: the present progress. Any thread. */
void single_look(struct single *single, struct single_progress *ret);

#endif
