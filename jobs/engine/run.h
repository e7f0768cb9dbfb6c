/* SPDX-License-Identifier: MIT */
/*
 * A run as the code of its kind sees it: the arguments and the state of the
 * run, and the functions that the kind may call. Queues, the ledger's rows and
 * leases are hidden from a kind; the host of the run (a worker thread, the run
 * command, a test) implements struct run_callbacks. A2, A4, A5 and M8 below are
 * rules of jobs/GUIDE.md.
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
struct log_run;
struct pool_client;
struct run;
struct store;

/* How an attempt at a run ends. The steps of an attempt return this enum too;
 * RUN_CONTINUES and RUN_REPEATS mean that the attempt has not ended. */
enum run_end {
    RUN_SUCCEEDED,  /* nothing remains to be done */
    RUN_WAITING,    /* the run waits until run->resumes_ticks; the worker thread
                     * is free */
    RUN_FAILED,     /* a retry cannot help; err says why */
    RUN_TRY_AGAIN,  /* a fault of the job or its data; a retry may succeed.
                     * Counts as a failure unless the attempt made progress */
    RUN_OUTAGE,     /* a fault of the service or of this machine, which never
                       counts as a failure */
    RUN_STOPPED,    /* run_stopping() was true; all requests in flight have
                     * ended */
    RUN_LEASE_LOST, /* the deadline is closed: no further request was sent */

    /* Returned by steps inside a kind, never by the kind itself. */
    RUN_CONTINUES, /* the attempt has not ended; make the next step */
    RUN_REPEATS,   /* the same step must be made again */
};

struct run_args {
    size_t count;
    const struct slice *names;  /* names of the arguments, in the order of
                                 * struct job's args */
    const struct slice *values; /* UTF-8 */
};

/* Counts for the ledger, since the run began. Any thread may add. */
struct run_counts {
    _Atomic int64_t read, written, deleted, skipped, failed;
};

/* What an operator has requested by `finish`. A following run (`follow: true`)
 * makes round after round until `finish`. */
enum run_finish {
    RUN_NOT_FINISHING,
    RUN_FINISHING,     /* the run repeats rounds until nothing is behind, then
                        * ends */
    RUN_FINISHING_NOW, /* the run makes one more round, then ends */
};

/* What a run waits for, as the ledger's WaitsFor stores it. */
enum run_waits_for {
    RUN_WAITS_FOR_NOTHING,
    RUN_WAITS_FOR_SETTLE, /* a cascade waits for its next settle pass, or until
                           * a late insert can no longer be applied */
    RUN_WAITS_FOR_ROUND,  /* a following run waits for its next round */
    RUN_WAITS_FOR_TURN,   /* another run works on the same tables or the same
                             parent; err says which run */
};

/* An entity that the run cannot process. All borrowed. */
struct run_failure {
    const char *table;
    struct slice partition_key, row_key;
    const char *step; /* failed step, such as "retype Rating", for the
                       * `failures:` file; NULL: none */
    const char *why;
};

struct run_callbacks {
    /*
     * stopping: must the attempt complete the requests in flight and end as
     * RUN_STOPPED? True in these cases:
     *
     *   - the lease is lost;
     *   - the process must end;
     *   - a pause or a cancel was requested, and run->in_load is false.
     */
    bool (*stopping)(struct run *run);

    /*
     * save: hand over the newest checkpoint (JSON, copied). It is stored in the
     * ledger with the next renewal, or when the attempt ends. progress: true if
     * the run has advanced; the count of failures then starts again at 0.
     */
    void (*save)(struct run *run, struct slice checkpoint, bool progress);

    /*
     * phase: store the name of the next phase and the checkpoint in the ledger,
     * and wait. TW_OK: both are stored. After any other outcome the kind must
     * not begin that phase.
     */
    enum tw_err (*phase)(struct run *run, const char *phase,
        struct slice checkpoint, struct err *err);

    /* is_open: *ret becomes true if run `id` of `job` is in the ledger and has
     * not ended. */
    enum tw_err (*is_open)(struct run *run, struct slice job, struct slice id,
        bool *ret, struct err *err);

    /*
     * failed: count an entity that the run cannot process, and report it: the
     * first ten in the ledger's Error, the first 100 in the log, all in the
     * job's `failures:` file.
     */
    void (*failed)(struct run *run, const struct run_failure *failure);

    /* note: add a sentence with information about a run that did not fail to
     * the ledger's Note. A sentence that the Note already has is not added
     * again. */
    void (*note)(struct run *run, const char *sentence);

    /*
     * forget_failed: set the number of failed entities to `count`; if count is
     * 0, remove the reports stored so far. Call before the run reads the failed
     * entities again, so that no failure is counted twice.
     */
    void (*forget_failed)(struct run *run, int64_t count);
};

struct run {
    const char *job; /* name of the job */
    const char *id;
    const struct log_run *log; /* how log lines name the run; set by the host.
                                  NULL: log lines name only the object "run" */
    struct run_args args;
    int64_t requested_ticks; /* RequestedAt of the ledger */
    bool queued;             /* the run has a message; false: `tableward run` */
    int32_t epoch;
    bool previous_owner_crashed; /* requests of an earlier attempt may still
                                  * arrive (rule A4): its lease or its locks
                                  * were not released, or its checkpoint was
                                  * dropped. No attempt has made progress since
                                  */
    struct slice checkpoint;     /* last checkpoint that was saved (JSON) for
                                  * the present hash of the job; empty: none */
    struct slice phase;          /* phase that callbacks->phase() stored last,
                                  * or empty */
    const char *archive_folder;  /* folder that a relative path of `archive:`
                                  * refers to */

    struct pool_client *pool_client; /* makes every request of the run, until
                                      * the run's deadline */
    const struct deadline *deadline;
    struct run_counts counts;

    _Atomic int32_t rounds; /* rounds begun since the run began (Rounds) */

    /* Ledger properties of a cascade and of the jobs that make rounds
     * (jobs/engine/rounds.h). */
    _Atomic int64_t behind;          /* the ledger's Behind: number of entities
                                        that have changed since the run handled
                                        them (rule A2); -1: not known yet */
    _Atomic int64_t caught_up_ticks; /* the ledger's CaughtUpTo: changes
                                        before this time are handled; 0: not
                                        known yet */
    _Atomic int parent_found; /* ParentFound of a cascade: 1 if the parent
                                 existed, 0 if not; -1: not known yet */

    /*
     * A kind stores entities of its own beside the ledger (intents of a move,
     * digests of an upgrade's steps), in partitions of ledger_table whose
     * PartitionKey begins with '!'. pool_client makes the requests for these
     * partitions too.
     */
    struct store *ledger;     /* borrowed */
    const char *ledger_table; /* "TablewardRuns" */

    bool ends_load; /* copy of struct kind's ends_load */
    bool load_open; /* only of a kind with ends_load: an attempt of this
                       run may have begun a load that no attempt has
                       completed. Set by the host for a run that was
                       attempted before; the kind keeps it up to date.
                       While true, the run is neither paused nor
                       cancelled */
    bool in_load;   /* true while a kind with ends_load carries out steps
                       of a load; run_stopping() then ignores a requested
                       pause or cancel (M8). Set by the kind */
    _Atomic bool accept_deletes; /* --accept-deletes, or the message's
                                  * accept_deletes; set by the host at any time.
                                  * The kind clears it after the round that used
                                  * it, and then saves the checkpoint of the
                                  * next round. One write stores both changes in
                                  * the ledger */
    _Atomic int finish; /* an enum run_finish; set by the host at any time */
    bool closes_job;    /* set by the kind before RUN_SUCCEEDED, if the batch
                           that writes the run's end into the ledger must also
                           close the job, which then accepts no more runs
                           (A5) */

    int64_t resumes_ticks; /* set by run_wait(): time when a RUN_WAITING run
                            * continues, by the clock of the store given to
                            * run_wait() */
    int64_t resumes_ms;    /* when the run continues, by platform_boot_ms(); 0:
                              resumes_ticks decides, which is then a time of
                              the ledger's clock */
    enum run_waits_for waits_for; /* reason of RUN_WAITING; set by the kind */
    bool archive_full; /* set by the kind before RUN_OUTAGE if an operator must
                        * free disk space for the archive */
    bool store_closed; /* set by the kind before RUN_OUTAGE if a store of the
                          configuration cannot be opened; the run is held until
                          that store can be opened */

    /* The completed share of the key range, for progress lines, in thousandths;
     * -1: not known. */
    _Atomic int share;

    const struct run_callbacks *callbacks;
    void *owner; /* data of the host; a kind does not use it */
};

/* run_stopping: calls callbacks->stopping. */
bool run_stopping(struct run *run);

/* run_log: returns how the functions log_run_info() etc. name the run; borrowed
 * for the life of the run. */
const struct log_run *run_log(const struct run *run);

/*
 * run_wait: let the run wait until the clock of store, which shows now_ticks
 * now, reaches until_ticks. Call before the attempt ends as RUN_WAITING. If
 * store is not the ledger's, resumes_ms is set too, because the ledger's clock
 * may differ from that of store by hours.
 */
void run_wait(struct run *run, const struct store *store, int64_t now_ticks,
    int64_t until_ticks);

/*
 * run_end_of: returns how an attempt ends after the final outcome of a step
 * (when the request pool makes no more retries):
 *
 *   TW_OK                                     RUN_CONTINUES
 *   TW_BUSY, TW_UNKNOWN, TW_REFUSED, TW_FULL  RUN_OUTAGE
 *   TW_FORBIDDEN                              RUN_FAILED
 *   TW_STOPPED, the deadline is open          RUN_STOPPED
 *   TW_STOPPED, the deadline is closed        RUN_LEASE_LOST
 *   all other outcomes                        RUN_TRY_AGAIN
 */
enum run_end run_end_of(const struct run *run, enum tw_err outcome);

#endif
