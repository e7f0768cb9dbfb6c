/* SPDX-License-Identifier: MIT */
/*
 * What people ask of runs from outside a worker: enqueue, cancel, retry, drop.
 * Each makes its ledger write conditional on the ETag it has read, reads again
 * where that has moved, and resolves an unknown outcome by reading.
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
 *              is over 64 KiB.
 */
TW_MUST_USE enum tw_err control_enqueue(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err);

/*
 * control_cancel: the run becomes `cancelled`; who works on it stops at the
 * next renewal. ret (init'ed) is the run as it was before. TW_NOT_FOUND: no
 * such run; TW_CONFLICT: it has ended already (ret says how).
 */
TW_MUST_USE enum tw_err control_cancel(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, struct err *err);

/*
 * control_retry: a failed or poisoned run is queued again: checkpoint and
 * RequestedAt are kept, Failures and Error go; then its bell is put on its
 * queue, then the copy leaves the poison queue. An entity of an unreadable
 * message has no run to retry: its copy (found among the first 32 of the
 * poison queue) is put back and its entity becomes `cancelled`; TW_INVALID
 * when the copy is not to be found. A JSON body that lacks them gets the time
 * of its request and, where the entity is under LEDGER_UNREADABLE, the id of
 * its message, so that it stays the same request; other bodies go back as they
 * are, as requests of now.
 * TW_CONFLICT: the run is neither failed nor poisoned.
 */
TW_MUST_USE enum tw_err control_retry(
    struct store *store, struct slice job, struct slice id, struct err *err);

/*
 * control_drop: give up a failed or poisoned run for good: its copy leaves the
 * poison queue, and the run is `cancelled`, with its Error and FinishedAt.
 * TW_CONFLICT: the run is neither failed nor poisoned; so it is once dropped.
 */
TW_MUST_USE enum tw_err control_drop(
    struct store *store, struct slice job, struct slice id, struct err *err);

#endif
