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
#ifndef TW_RUN_WORK_H
#define TW_RUN_WORK_H

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
struct work_place {
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

enum work_end {
    WORK_ENDED,     /* the run has ended: `state` says how, `already` whether
                       it had before                                       */
    WORK_LATER,     /* it waits, or another has it: not before until_ms      */
    WORK_STOPPED,   /* let go in order: the worker is stopping               */
    WORK_PAUSED,    /* it is paused, and stays so until a person resumes it:
                       its message is deleted                              */
    WORK_OUTAGE,    /* the ledger cannot be read or written: `outcome`,
                       `err`                                               */
    WORK_OVERTAKEN, /* another owner has it: nothing was touched             */
    WORK_MISSING,   /* must_exist, and there is no such run                  */
    WORK_REFUSED,   /* nothing touched: the id is known with other arguments,
                       or (`outcome` TW_INVALID) its entity in the ledger
                       cannot be read                                      */
};

struct work_result {
    enum work_end end;
    enum ledger_state state;
    bool already;
    bool held;         /* WORK_LATER: by another owner, or not its time  */
    bool for_cause;    /* WORK_LATER: held; err has the cause */
    bool lapsed;       /* WORK_OVERTAKEN: its lease is over; who has it now,
                          if anybody, is not known */
    bool archive_full; /* WORK_LATER: the archive's disk is why */
    int64_t until_ms;  /* on platform_boot_ms() */
    int64_t finished_ticks;
    enum tw_err outcome;
    struct err err;
};

/*
 * work_attempt: claim wish's run under definition, work on it, let it go. args
 * as message_args() made them; NULL: those in the ledger (orphans), and where
 * these no longer fit the job the run is poisoned. A message is hidden,
 * deleted or copied to the poison queue as the end demands. Writes the
 * operator's lines.
 */
void work_attempt(const struct work_place *place,
    const struct definition *definition, const struct lease_request *wish,
    const struct run_args *args, struct work_result *ret);

/* work_retry_ms: the wait before the attempt that follows the failures-th
 * failure in a row: 1 s, 2 s, 4 s, ..., at most an hour. */
int64_t work_retry_ms(int64_t failures);

#endif
