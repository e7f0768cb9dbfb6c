/* SPDX-License-Identifier: MIT */
/*
 * What people ask of runs from outside a worker: enqueue, cancel, pause,
 * resume, finish, retry, drop, reopen. Each is one ledger_change().
 *
 * Where an owner's lease is live, cancel, pause and finish are requests: the
 * owner sees them with its next renewal, at most 5 s later, and acts on them.
 * Else they change the run at once.
 */
#ifndef TW_RUN_CONTROL_H
#define TW_RUN_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

struct store;

struct control_enqueue {
    const struct setup_queue *queue;
    const struct job *job;
    struct run_args args; /* from message_args() */
    struct slice id;      /* empty: a random one; must be empty on a bound
                             queue (the message's own id is the run's) */
    int64_t delay_s;      /* 0 .. 604800 */
    bool accept_deletes;
    struct slice traceparent;
};

/*
 * control_enqueue: put the message, and a ledger entity `queued`; makes queue
 * and ledger where they are missing. ret_id (129 bytes) gets the run id.
 *
 * TW_OK        it is on the queue. An id that is known with the same arguments
 *              and open is rung again.
 * TW_CONFLICT  the id is known with other arguments, or has ended; err says.
 * others       as the store said; nothing is on the queue but for TW_UNKNOWN,
 *              nor in the ledger, unless err says so. TW_TOO_LARGE: the message
 *              is over 64 KiB. TW_UNKNOWN on a queue without a job: err names
 *              the id with which it can be asked for again.
 */
TW_MUST_USE enum tw_err control_enqueue(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err);

/*
 * control_cancel: the run becomes `cancelled`, or (*ret_asked) its owner is
 * asked for it. ret (init'ed) is the run as it was before. TW_NOT_FOUND: no
 * such run; TW_CONFLICT: it has ended already (ret says how).
 */
TW_MUST_USE enum tw_err control_cancel(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

/* control_pause: the same, to `paused`. A paused one stays so: TW_OK. */
TW_MUST_USE enum tw_err control_pause(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

/*
 * control_resume: a paused run, or one that waits for its definition, goes on:
 * it becomes `queued` and its wake-up message is put on the queue that
 * setup_queue_of_run() chooses. One that waits for its definition accepts the
 * present one: the checkpoint is dropped, its first round begins again. A
 * request to pause that its owner has not seen yet is taken back.
 *
 * TW_NOT_FOUND  no such run (*ret_unserved false); or no queue serves it
 *               (*ret_unserved true): nothing is changed, it can be continued
 *               by `run JOB --id ID`.
 * TW_CONFLICT   it is not paused and waits for no definition; or its job is
 *               not configured.
 */
TW_MUST_USE enum tw_err control_resume(const struct definition *definition,
    struct slice job, struct slice id, bool *ret_unserved, struct err *err);

/*
 * control_finish: a following run does its last rounds and ends; now: one
 * round. Where it waits for its next round, ResumesAt is now and a wake-up
 * message is put. TW_CONFLICT: it has ended. The caller checks that the job
 * follows.
 */
TW_MUST_USE enum tw_err control_finish(const struct definition *definition,
    struct slice job, struct slice id, bool now, struct err *err);

/*
 * control_retry: a failed or poisoned run is queued again: id, checkpoint and
 * RequestedAt are kept, Failures and Error go, a changed definition is
 * accepted; then its wake-up message is put on the queue that
 * setup_queue_of_run() chooses, then the copy leaves the poison queue.
 * *ret_unserved, TW_NOT_FOUND: it is queued again, but no queue serves it: to
 * be continued by `run JOB --id ID`, which err says.
 *
 * An entity of an unreadable message has no run to retry: its copy (found among
 * the first 32 of the poison queue) is put back and its entity becomes
 * `cancelled`; TW_INVALID when the copy is not to be found. A JSON body that
 * lacks them gets the time of its request and, where the entity is under
 * LEDGER_UNREADABLE, the id of its message, so that it stays the same request;
 * other bodies go back as they are, as requests of now.
 * TW_CONFLICT: the run is neither failed nor poisoned.
 */
TW_MUST_USE enum tw_err control_retry(const struct definition *definition,
    struct slice job, struct slice id, bool *ret_unserved, struct err *err);

/* control_reopen: runs of a job that `finish` closed are accepted again. TW_OK
 * also where it is not closed. */
TW_MUST_USE enum tw_err control_reopen(
    struct store *store, struct slice job, struct err *err);

/*
 * control_drop: give up a failed or poisoned run for good: its copy leaves the
 * poison queue, and the run is `cancelled`, with its Error and FinishedAt.
 * TW_CONFLICT: the run is neither failed nor poisoned; so it is once dropped.
 */
TW_MUST_USE enum tw_err control_drop(
    struct store *store, struct slice job, struct slice id, struct err *err);

#endif
