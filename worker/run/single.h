/* SPDX-License-Identifier: MIT */
/*
 * One run, now, without a queue: the whole of `tableward run` behind its
 * questions. It holds the same lease through the same keeper as a worker's
 * runs; waits through settle and while another process is at the same run;
 * counts failing attempts as a worker does; goes on trying through an outage.
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
    enum ledger_state state; /* how the run ended; while `stopped`,
                                `overtaken` or `unreadable`: queued */
    bool already;            /* it had ended before: nothing was done */
    bool stopped;            /* by single_stop(), `pause`, or by the archive's
                                disk */
    bool paused;             /* and it is `paused`: workers leave it alone */
    bool elsewhere;          /* `stopped` while it waited for another process
                                that has it at work, and still has */
    bool overtaken;          /* another process has it now */
    bool unreadable;         /* its entity in the ledger cannot be read */
    int64_t finished_ticks;  /* FinishedAt */
    struct err err;          /* why, for failed, poisoned and unreadable; and
                                stopped by the archive's disk, else empty
                                then */
};

/* For a progress line; any thread may look. */
struct single_progress {
    int64_t read, written, deleted, skipped, failed;
    int share;            /* thousandths of the key range; -1: unknown */
    bool working;         /* an attempt is under way */
    int64_t until_ms;     /* waiting: until then on platform_boot_ms(); 0 */
    bool held_by_another; /* waiting for another process's lease */
};

/* single_new: nothing is sent yet. Owned. */
struct single *single_new(const struct single_options *options);
void single_free(struct single *single);

/*
 * single_run: on TW_OK ret says how it ended. TW_REFUSED: the store refuses
 * the credentials, TW_BUSY: it cannot be reached, both only before the first
 * claim. TW_CONFLICT: the id is known with other arguments. TW_INVALID: no
 * store is named for the ledger.
 */
TW_MUST_USE enum tw_err single_run(
    struct single *single, struct single_result *ret, struct err *err);

/* single_stop: from any thread (not a signal handler): stop in order. */
void single_stop(struct single *single);

void single_look(struct single *single, struct single_progress *ret);

#endif
