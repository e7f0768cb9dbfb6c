/* SPDX-License-Identifier: MIT */
/*
 * One attempt at one run, from acquiring the lease to its release: what a slot
 * does with a message and `tableward run` without one. On the calling thread.
 *
 *   claim -> renewer on -> the kind -> renewer off -> ledger -> message
 *
 * The end decides what is written: see the table in work.c. In every case the
 * ledger comes first and the message last; a death between them leaves a
 * message whose run has ended, and that is simply deleted when it comes again.
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

struct request_pool;
struct lock_file;
struct renewer;

/* What every attempt is lent by its worker. Borrowed while one is under way. */
struct attempt_environment {
    struct request_pool *request_pool;
    struct renewer *renewer;
    struct lock_file *lock_file; /* of the process; NULL: none */
    /* stopping: should attempts end in order? Any thread. */
    bool (*stopping)(void *context);
    /* watch: run is under way (NULL: no longer), for progress lines; its
     * counts may be read until the next call. NULL: nobody watches. */
    void (*watch)(void *context, struct run *run);
    void *context;
};

enum attempt_outcome {
    ATTEMPT_RUN_ENDED, /* the run has ended: `state` says how, `already` whether
                   it had before                                       */
    ATTEMPT_DEFERRED,  /* it waits, or another has it: not before until_ms  */
    ATTEMPT_STOPPED, /* let go in order: the worker is stopping               */
    ATTEMPT_PAUSED,  /* it is paused, and stays so until a person resumes it:
                     its message is deleted                              */
    ATTEMPT_OUTAGE,  /* the ledger cannot be read or written: `outcome`,
                     `err`                                               */
    ATTEMPT_LEASE_LOST,  /* another owner has it: nothing was touched  */
    ATTEMPT_RUN_MISSING, /* must_exist, and there is no such run */
    ATTEMPT_REFUSED, /* nothing touched: the id is known with other arguments,
                     or (`outcome` TW_INVALID) its entity in the ledger
                     cannot be read                                      */
};

struct attempt_result {
    enum attempt_outcome end;
    enum ledger_state state;
    bool already;
    bool held;      /* ATTEMPT_DEFERRED: by another owner, or not its time  */
    bool for_cause; /* ATTEMPT_DEFERRED: held; err has the cause */
    bool lease_expired; /* ATTEMPT_LEASE_LOST: its lease is over; who has it
                    now, if anybody, is not known */
    bool archive_full;  /* ATTEMPT_DEFERRED: the archive's disk is why */
    int64_t until_ms;   /* on platform_boot_ms() */
    int64_t finished_ticks;
    enum tw_err outcome;
    struct err err;
};

/*
 * attempt_run: claim wish's run under definition, work on it, let it go. args
 * as message_args() made them; NULL: those in the ledger (orphans), and where
 * these no longer fit the job the run is poisoned. A message is hidden,
 * deleted or copied to the poison queue as the end demands. Writes the
 * operator's lines.
 */
void attempt_run(const struct attempt_environment *environment,
    const struct definition *definition, const struct lease_request *wish,
    const struct run_args *args, struct attempt_result *ret);

/* attempt_retry_ms: the wait before the attempt that follows the failures-th
 * failure in a row: 1 s, 2 s, 4 s, ..., at most an hour. */
int64_t attempt_retry_ms(int64_t failures);

#endif
