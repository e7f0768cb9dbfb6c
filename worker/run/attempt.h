/* SPDX-License-Identifier: MIT */
/*
 * One attempt at one run, from acquiring the lease to its release. A worker
 * thread makes an attempt for a message or an orphan; the command `tableward
 * run` makes one without a message. Runs on the calling thread.
 *
 *   acquire lease -> start renewal -> kind -> stop renewal -> ledger -> message
 *
 * The outcome decides what is written: see ends[] in attempt.c. The attempt
 * writes the ledger first and the message last. If the worker crashes between
 * these writes, the run has ended and the next delivery only deletes the
 * message.
 */
#ifndef TW_RUN_ATTEMPT_H
#define TW_RUN_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/lease.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

struct activity;
struct request_pool;
struct lock_file;
struct renewer;

/* What a worker provides to its attempts. Borrowed during each attempt. */
struct attempt_environment {
    struct request_pool *request_pool;
    struct renewer *renewer;
    struct lock_file *lock_file; /* lock file of this process; NULL: none */
    struct activity *activity;   /* counts the attempts' runs; NULL: nothing is
                                    counted */
    /* stopping: should attempts stop and release their leases? Any thread. */
    bool (*stopping)(void *context);
    /* watch: lets the caller print progress. Called with the run when its kind
     * starts, and with NULL when the kind has ended. The run's counts may be
     * read until the next call. NULL: no calls. */
    void (*watch)(void *context, struct run *run);
    void *context;
};

enum attempt_outcome {
    ATTEMPT_RUN_ENDED, /* the run has ended, in state `state`; if `already` is
                          set, it had ended before this attempt */
    ATTEMPT_DEFERRED,  /* the run waits, or another owner has the run: try again
                          at until_ms */
    ATTEMPT_STOPPED, /* lease released, run `queued`: the worker is stopping */
    ATTEMPT_PAUSED,  /* the run is paused until an operator resumes the run: the
                        message was deleted */
    ATTEMPT_OUTAGE,  /* the ledger cannot be read or written: outcome and err
                        have the cause */
    ATTEMPT_LEASE_LOST, /* the lease was lost or expired: since then the attempt
                           has written nothing */
    ATTEMPT_RUN_MISSING, /* must_exist of the request is set, but the run does
                            not exist */
    ATTEMPT_REFUSED,     /* the lease was not acquired: the id exists with other
                            arguments; or the run is paused, and its definition
                            has changed; or (`outcome` TW_INVALID) the run's
                            entity in the ledger cannot be read or changed */
};

struct attempt_result {
    enum attempt_outcome end;
    uint64_t run;  /* a hash of job and id; 0: no attempt was made */
    bool acquired; /* the attempt acquired the lease, so the ledger has all that
                      its lease_request asks for */
    enum ledger_state state;
    bool already;
    bool otherwise; /* if `already` is set: the run succeeded under another
                       definition than its job has now, or in other accounts */
    bool held; /* ATTEMPT_DEFERRED: true if another owner has the run, false if
                  the run waits */
    bool for_cause; /* ATTEMPT_DEFERRED: a store, an archive, a definition or
                       another run delays the run; err has the cause */
    bool lease_expired; /* ATTEMPT_LEASE_LOST: the lease expired; another
                           owner may have the run */
    bool archive_full;  /* ATTEMPT_DEFERRED: the archive's disk is full */
    int64_t until_ms;   /* ATTEMPT_DEFERRED: when to try again, on
                           platform_boot_ms() */
    int64_t finished_ticks;
    enum tw_err outcome;
    struct err err;
};

/*
 * attempt_run: acquire the lease of the run that request names, let the kind of
 * the run's job work under definition, release the lease. args: from
 * message_args(). For an orphan or a wake-up message args is NULL. Then the
 * arguments in the ledger are used; if they no longer fit the job, the run is
 * poisoned. Hides or deletes the message, or copies it to the poison queue,
 * depending on the outcome. Logs the run's start and end for the operator.
 */
void attempt_run(const struct attempt_environment *environment,
    const struct definition *definition, const struct lease_request *request,
    const struct run_args *args, struct attempt_result *ret);

/* attempt_retry_ms: return how long to wait before the next attempt, after this
 * number of failures in a row: 1 s, 2 s, 4 s, ..., at most an hour. */
int64_t attempt_retry_ms(int64_t failures);

#endif
