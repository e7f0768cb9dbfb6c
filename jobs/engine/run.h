/* SPDX-License-Identifier: MIT */
/*
 * A run as its kind sees it: what it is asked to do, and what it is lent to do
 * it with. A kind sees no queue, no ledger, no lease: whoever hosts the run (a
 * slot, the run command, a test) stands behind struct run_callbacks.
 */
#ifndef TW_JOBS_ENGINE_RUN_H
#define TW_JOBS_ENGINE_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct deadline;
struct pool_client;
struct run;
struct store;

/* How an attempt at a run ends. */
enum run_end {
    RUN_SUCCEEDED,  /* nothing is left to do                                  */
    RUN_WAITING,    /* until run->resumes_ticks; the slot is free meanwhile   */
    RUN_FAILED,     /* trying again cannot help; err says why                 */
    RUN_TRY_AGAIN,  /* the job's own fault, may pass: counts as a failure
                       unless the attempt made progress                       */
    RUN_OUTAGE,     /* the service's or our machine's: never counts           */
    RUN_STOPPED,    /* run_stopping() said so; what was in flight is settled  */
    RUN_LEASE_LOST, /* the deadline is shut: nothing more was started */
};

struct run_args {
    size_t count;
    const struct slice *names;  /* as the job declares them, same order */
    const struct slice *values; /* UTF-8 */
};

/* Counts for the ledger; since the run began. Any thread may add. */
struct run_counts {
    _Atomic int64_t read, written, deleted, skipped, failed;
};

/* What an operator has asked of a following run (`finish`). */
enum run_finish {
    RUN_NOT_FINISHING,
    RUN_FINISHING,     /* rounds until nothing is behind, then the end */
    RUN_FINISHING_NOW, /* one more round, then the end */
};

/* Why a run waits: the ledger's WaitsFor. */
enum run_waits_for {
    RUN_WAITS_FOR_NOTHING,
    RUN_WAITS_FOR_SETTLE, /* a cascade's settle pass */
    RUN_WAITS_FOR_ROUND,  /* the next round of a following run */
};

/* An entity that the run cannot process. All borrowed. */
struct run_failure {
    const char *table;
    struct slice partition_key, row_key;
    const char
        *step; /* "retype Rating", for the `failures:` file; NULL: none */
    const char *why;
};

struct run_callbacks {
    /* stopping: should the attempt settle and end (RUN_STOPPED)? */
    bool (*stopping)(struct run *run);

    /*
     * save: hand over the newest checkpoint (JSON, copied). It reaches the
     * ledger with the next renewal, or when the attempt ends. Having advanced
     * is what `progress` says: it starts the count of failures again.
     */
    void (*save)(struct run *run, struct slice checkpoint, bool progress);

    /*
     * phase: put phase and checkpoint into the ledger before returning.
     * TW_OK only when they are stored. Anything else: the kind must not go on
     * into that phase.
     */
    enum tw_err (*phase)(struct run *run, const char *phase,
        struct slice checkpoint, struct err *err);

    /* is_open: is run `id` of `job` one that has not ended? */
    enum tw_err (*is_open)(struct run *run, struct slice job, struct slice id,
        bool *ret, struct err *err);

    /*
     * failed: count an entity that the run cannot process, and report it: the
     * first ten in the ledger's Error, the first 100 in the log, all in the
     * job's `failures:` file.
     */
    void (*failed)(struct run *run, const struct run_failure *failure);

    /* note: add a sentence to the ledger's Note: what to know about a run that
     * did not fail. A sentence that is there already is not added again. */
    void (*note)(struct run *run, const char *sentence);

    /* forget_failed: what failed so far will be met, and told, again: its
     * count becomes `count`, and where that is 0 the kept ones go. */
    void (*forget_failed)(struct run *run, int64_t count);
};

struct run {
    const char *job; /* its name */
    const char *id;
    const char *object; /* "run JOB/ID", for log lines; set by the host */
    struct run_args args;
    int64_t requested_ticks; /* RequestedAt */
    bool queued;             /* has a message; false: `tableward run` */
    int32_t epoch;
    bool previous_owner_crashed; /* from an attempt that did not let go, or
                       whose checkpoint is not used */
    struct slice checkpoint;     /* last one saved, JSON; empty: none. The
                                    definition it was made under still holds */
    struct slice phase;          /* last stored by phase(), or empty */
    const char *archive_folder;  /* where relative `archive:` starts */

    struct pool_client *request_pool; /* for every request of the run; its
                                   deadline is the run's */
    const struct deadline *deadline;
    struct run_counts counts;

    _Atomic int32_t rounds; /* begun since the run began (Rounds) */

    /* A table job's, for the ledger: see jobs/engine/rounds.h. */
    _Atomic int64_t behind;          /* -1: not known yet */
    _Atomic int64_t caught_up_ticks; /* CaughtUpTo; 0: not known yet */
    _Atomic int parent_found; /* a cascade's ParentFound; -1: not known */

    /* Where a kind keeps entities of its own beside the ledger (intents of a
     * move, digests of an upgrade's steps): partitions of ledger_table whose
     * PartitionKey begins with '!'. Requests go through request threads like
     * any other.
     */
    struct store *ledger;     /* borrowed */
    const char *ledger_table; /* "TablewardRuns" */

    bool ends_load;      /* its kind's */
    bool accept_deletes; /* --accept-deletes, or the message's accept_deletes */
    _Atomic int finish;  /* an enum run_finish; the host sets it at any time */
    bool closes_job;     /* set by the kind before RUN_SUCCEEDED: the batch that
                            ends the run also closes its job (A5) */

    int64_t resumes_ticks; /* set by run_wait() before RUN_WAITING ... */
    int64_t resumes_ms;    /* ... and when that is on platform_boot_ms(); 0:
                              it counts by the ledger's clock */
    enum run_waits_for waits_for; /* set by the kind before RUN_WAITING */
    bool archive_full; /* set before RUN_OUTAGE: a person must make room */

    /* For a progress line: the share of the key range that is done, in
     * thousandths; -1: cannot be told. */
    _Atomic int share;

    const struct run_callbacks *callbacks;
    void *owner; /* the host's */
};

/* run_stopping: host->stopping. */
bool run_stopping(struct run *run);

/* run_object: "run JOB/ID" for log lines; borrowed for the run's life. The
 * job's name alone where the host has set none. */
const char *run_object(const struct run *run);

/*
 * run_wait: before RUN_WAITING: until the clock of store, which shows
 * now_ticks, shows until_ticks. A run waits by the ledger's clock,
 * and that may be another one, off by hours.
 */
void run_wait(struct run *run, const struct store *store, int64_t now_ticks,
    int64_t until_ticks);

/*
 * run_end_of: what an outcome that no retry can repair means for the attempt:
 * TW_BUSY, TW_UNKNOWN, TW_REFUSED, TW_FULL: RUN_OUTAGE; TW_FORBIDDEN:
 * RUN_FAILED; TW_STOPPED: RUN_LEASE_LOST when the deadline is shut or over,
 * else RUN_STOPPED; TW_INVALID, TW_TOO_LARGE, TW_NOT_FOUND, TW_CONFLICT:
 * RUN_TRY_AGAIN.
 */
enum run_end run_end_of(const struct run *run, enum tw_err outcome);

#endif
