/* SPDX-License-Identifier: MIT */
/*
 * A run as its kind sees it: what it has to do, and what it may use. A kind
 * does not see queues, the ledger or leases: the host of the run (a worker
 * thread, the run command, a test) implements struct run_callbacks.
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
    RUN_WAITING,    /* until run->resumes_ticks; the worker thread is free */
    RUN_FAILED,     /* a retry cannot help; err says why */
    RUN_TRY_AGAIN,  /* the job's own fault, may pass: counts as a failure unless
                     * the attempt made progress */
    RUN_OUTAGE,     /* a fault of the service or of this machine: never counts
                     * as a failure */
    RUN_STOPPED,    /* run_stopping() was true; all requests in flight have
                     * ended */
    RUN_LEASE_LOST, /* the deadline is closed: no further requests were started
                     */
};

struct run_args {
    size_t count;
    const struct slice *names;  /* as the job declares them, same order */
    const struct slice *values; /* UTF-8 */
};

/* Counts for the ledger, since the run began. Any thread may add. */
struct run_counts {
    _Atomic int64_t read, written, deleted, skipped, failed;
};

/* What an operator has asked of a following run (`finish`). */
enum run_finish {
    RUN_NOT_FINISHING,
    RUN_FINISHING,     /* rounds until nothing is behind, then the run ends */
    RUN_FINISHING_NOW, /* one more round, then the run ends */
};

/* Why a run waits: the ledger's WaitsFor. */
enum run_waits_for {
    RUN_WAITS_FOR_NOTHING,
    RUN_WAITS_FOR_SETTLE, /* a cascade: a verification pass, a late insert */
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
    /*
     * stopping: should the attempt complete its requests and end (RUN_STOPPED)?
     */
    bool (*stopping)(struct run *run);

    /*
     * save: hand over the newest checkpoint (JSON, copied). It is stored in the
     * ledger with the next renewal, or when the attempt ends. progress: the run
     * has advanced; the count of failures starts again.
     */
    void (*save)(struct run *run, struct slice checkpoint, bool progress);

    /*
     * phase: store phase and checkpoint in the ledger before returning. TW_OK
     * only if they are stored. On any other outcome the kind must not begin
     * that phase.
     */
    enum tw_err (*phase)(struct run *run, const char *phase,
        struct slice checkpoint, struct err *err);

    /* is_open: *ret: is run `id` of `job` in the ledger, and not ended? */
    enum tw_err (*is_open)(struct run *run, struct slice job, struct slice id,
        bool *ret, struct err *err);

    /*
     * failed: count an entity that the run cannot process, and report it: the
     * first ten in the ledger's Error, the first 100 in the log, all in the
     * job's `failures:` file.
     */
    void (*failed)(struct run *run, const struct run_failure *failure);

    /* note: add a sentence to the ledger's Note: information about a run that
     * did not fail. A sentence that the Note already has is not added again. */
    void (*note)(struct run *run, const char *sentence);

    /*
     * forget_failed: the run will find and report the failed entities again:
     * their count becomes `count`; if count is 0, the kept reports are removed.
     */
    void (*forget_failed)(struct run *run, int64_t count);
};

struct run {
    const char *job; /* its name */
    const char *id;
    const char *object; /* "run JOB/ID", for log lines; set by the host */
    struct run_args args;
    int64_t requested_ticks; /* RequestedAt of the ledger */
    bool queued;             /* the run has a message; false: `tableward run` */
    int32_t epoch;
    bool previous_owner_crashed; /* the previous attempt did not release its
                                  * lease, or its checkpoint is not used */
    struct slice checkpoint;     /* last one saved, JSON; empty: none. It was
                                  * made under the present definition */
    struct slice phase;          /* last stored by phase(), or empty */
    const char *archive_folder;  /* base of a relative `archive:` */

    struct pool_client *request_pool; /* for every request of the run; has the
                                       * run's deadline */
    const struct deadline *deadline;
    struct run_counts counts;

    _Atomic int32_t rounds; /* rounds begun since the run began (Rounds) */

    /* For the ledger, of a table job: see jobs/engine/rounds.h. */
    _Atomic int64_t behind;          /* -1: not known yet */
    _Atomic int64_t caught_up_ticks; /* CaughtUpTo; 0: not known yet */
    _Atomic int parent_found; /* a cascade's ParentFound; -1: not known yet */

    /*
     * Where a kind stores entities of its own beside the ledger (intents of a
     * move, digests of an upgrade's steps): partitions of ledger_table whose
     * PartitionKey begins with '!'. Their requests go through the request pool.
     */
    struct store *ledger;     /* borrowed */
    const char *ledger_table; /* "TablewardRuns" */

    bool ends_load;      /* copy of struct kind's ends_load */
    bool accept_deletes; /* --accept-deletes, or the message's accept_deletes */
    _Atomic int finish;  /* an enum run_finish; set by the host at any time */
    bool closes_job;     /* set by the kind before RUN_SUCCEEDED: the batch that
                            ends the run also closes its job (A5) */

    int64_t resumes_ticks; /* set by run_wait() before RUN_WAITING: when the run
                            * continues ... */
    int64_t resumes_ms;    /* ... and the same on platform_boot_ms(); 0: the
                            * ledger's clock counts */
    enum run_waits_for waits_for; /* set by the kind before RUN_WAITING */
    bool archive_full; /* set before RUN_OUTAGE: an operator must free disk
                        * space */

    /* For a progress line: the completed share of the key range, in
     * thousandths; -1: not known. */
    _Atomic int share;

    const struct run_callbacks *callbacks;
    void *owner; /* the host's */
};

/* run_stopping: calls callbacks->stopping. */
bool run_stopping(struct run *run);

/* run_object: "run JOB/ID" for log lines; borrowed for the run's life. Only the
 * job's name if the host has set none. */
const char *run_object(const struct run *run);

/*
 * run_wait: called before RUN_WAITING: the run waits until the clock of store,
 * now at now_ticks, reaches until_ticks. Needed because a run waits by the
 * ledger's clock, which may differ from the store's by hours.
 */
void run_wait(struct run *run, const struct store *store, int64_t now_ticks,
    int64_t until_ticks);

/*
 * run_end_of: how the attempt ends after an outcome that no retry can repair:
 * TW_BUSY, TW_UNKNOWN, TW_REFUSED, TW_FULL: RUN_OUTAGE; TW_FORBIDDEN:
 * RUN_FAILED; TW_STOPPED: RUN_LEASE_LOST if the deadline is closed or over,
 * else RUN_STOPPED; TW_INVALID, TW_TOO_LARGE, TW_NOT_FOUND, TW_CONFLICT:
 * RUN_TRY_AGAIN.
 */
enum run_end run_end_of(const struct run *run, enum tw_err outcome);

#endif
