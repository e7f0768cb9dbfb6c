/* SPDX-License-Identifier: MIT */
/*
 * Commands on runs from outside a worker: enqueue, cancel, pause, resume,
 * finish, retry, drop, reopen. Each of them, except reopen, changes the ledger
 * with one ledger_change().
 *
 * If an owner's lease is valid, cancel, pause and finish store a request: the
 * owner sees it with its next renewal, at most 5 s later, and acts on it.
 * Without a valid lease these three commands change the run at once. The
 * exception is a run with a half done load: cancel and pause store a request
 * for the next owner, which completes the load before it acts on the request.
 */
#ifndef TW_RUN_CONTROL_H
#define TW_RUN_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

struct store;

struct control_enqueue {
    const struct setup_queue *queue;
    const struct job *job;
    struct run_args args; /* arguments of the run, from message_args() */
    struct slice id;      /* run id; empty: a random id. Must be empty on a
                             bound queue: the message's own id is the run id */
    int64_t delay_s;      /* 0 .. 604800, until the message is visible */
    bool accept_deletes;  /* the run accepts deletes in its next round, even if
                             it is open already */
    struct slice traceparent;
};

/*
 * control_enqueue: put the message on the queue, and the run, in state
 * `queued`, into the ledger. Creates queue and ledger if they are missing.
 * ret_id (129 bytes) gets the run id.
 *
 * TW_OK        the message is on the queue. An open run with the same id and
 *              arguments gets another wake-up message.
 * TW_CONFLICT  the run with this id has other arguments or has ended: see err.
 * TW_TOO_LARGE the message is over 64 KiB.
 * TW_UNKNOWN   queue and ledger may have the run. On a queue without a job err
 *              names the id with which the caller can enqueue the run again.
 * others       the store's outcome: neither queue nor ledger has the run,
 *              unless err says otherwise. On a bound queue TW_REFUSED and
 *              TW_FORBIDDEN may come from the ledger; then the message is on
 *              the queue.
 */
TW_MUST_USE enum tw_err control_enqueue(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err);

/*
 * control_cancel: set `cancelled`, or store a request for the owner of the run
 * (*ret_asked is then true):
 *
 *   The lease of an owner is valid: the request is for this owner.
 *
 *   No lease is valid, and a load of the run is half done (open_load of struct
 *   kind): the request is for the next owner. It completes the load, then the
 *   run becomes `cancelled`. A paused run becomes `queued`, so that it gets an
 *   owner. But if cancelling was requested before, and the run has been held,
 *   or has waited for its turn, for ten minutes, it is cancelled at once. The
 *   intent of the load then stays for the next move of these tables.
 *
 * ret (init'ed) is the run before the change; if no owner is alive, ret->owner
 * is empty. TW_NOT_FOUND: no such run. TW_CONFLICT: the run has ended already,
 * and ret has its state.
 */
TW_MUST_USE enum tw_err control_cancel(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

/* control_pause: like control_cancel(), but sets or requests `paused`. TW_OK
 * also if the run is paused already. */
TW_MUST_USE enum tw_err control_pause(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

/* control_stop: pause a run whose `run` command was stopped. Like
 * control_pause(), but a run without an owner is paused at once, even if one of
 * its loads is half done: the next attempt completes that load. */
TW_MUST_USE enum tw_err control_stop(struct store *store, struct slice job,
    struct slice id, bool *ret_asked, struct err *err);

/* control_wake: put a wake-up message for run. Call after control_cancel() or
 * control_pause() has stored a request for the next owner of a run that was not
 * `running`. TW_NOT_FOUND with *ret_unserved: no queue serves the run. */
TW_MUST_USE enum tw_err control_wake(const struct definition *definition,
    const struct ledger_run *run, bool *ret_unserved, struct err *err);

/* What control_resume() found, or did, beside its outcome. */
struct control_resumed {
    bool unserved;     /* see TW_NOT_FOUND of control_resume() */
    bool accepts;      /* the run was held because its definition had changed,
                          and has accepted the changed definition */
    bool will_be_held; /* the definition of the run's job has changed: the next
                          attempt holds the run until an operator restores the
                          definition, or another control_resume() accepts it */
    const struct setup_queue *moved_to; /* the queue, of the definition's setup,
                                           to which the run was moved; NULL: the
                                           run was not moved */
};

/*
 * control_resume: continue a paused run, or one that waits for its definition.
 * The run becomes `queued`, and its wake-up message is put on the queue that
 * setup_queue_of_run() chooses. What else happens depends on the run:
 *
 *   The run is paused: it accepts no changed definition. If it was paused
 *   before the time at which it is to begin (ResumesAt), it begins at that
 *   time.
 *
 *   The run waits for its definition: it accepts the changed definition because
 *   of which an attempt held it (bound_accept()), and starts over under this
 *   definition. If the definition has changed once more since then, the next
 *   attempt holds the run again.
 *
 *   The owner has not acted on a `pause` yet: the request is removed, also if
 *   the owner has died.
 *
 *   The run is `queued`, or its owner has died: only the message is put,
 *   because an earlier control_resume() may have failed to put it.
 *
 *   An owner executes the run: nothing is changed.
 *
 * If the queue of an open run without an owner is not served any more, the run
 * moves to the queue that serves its job, even if it waits for something else
 * than its definition. It then keeps its state and ResumesAt, and its message
 * is hidden until ResumesAt.
 *
 * TW_NOT_FOUND  ret->unserved false: there is no such run. ret->unserved true:
 *               the run's job is not configured, or no queue serves it. If only
 *               the queue is missing, `run JOB --id ID` can continue the run.
 *               A run that was held or refused because its definition had
 *               changed then accepts the changed definition, so that this
 *               command can continue it (ret->accepts). The run keeps its
 *               state, and nothing else is changed.
 * TW_CONFLICT   the run has ended or is being cancelled; or its queue is
 *               served, and the run waits for something else than its
 *               definition; or its job has another kind now.
 *
 * ret is set whatever the outcome is.
 */
TW_MUST_USE enum tw_err control_resume(const struct definition *definition,
    struct slice job, struct slice id, struct control_resumed *ret,
    struct err *err);

/*
 * control_finish: ask a run of a job with `follow: true` to end. The run makes
 * further rounds until nothing is left to copy. If `now` is true it makes only
 * one more. If the run waits for its next round, ResumesAt becomes the present
 * time. A run that waits, or whose queue is not served any more, gets a wake-up
 * message. Call only for a configured job with `follow: true`.
 *
 * TW_OK        the ledger has the request. Adds to done what follows the run's
 *              id in a sentence, without its full stop: "makes its last rounds
 *              and ends", or what must happen before, as in "is paused: once
 *              `tableward resume ID` continues it, it makes its last rounds and
 *              ends".
 * TW_CONFLICT  the run has ended, or is being cancelled; or its job has another
 *              kind now. Nothing is changed.
 */
TW_MUST_USE enum tw_err control_finish(const struct definition *definition,
    struct slice job, struct slice id, bool now, struct buf *done,
    struct err *err);

/* What control_retry() found, or did, beside its outcome. */
struct control_retried {
    bool unserved; /* see TW_NOT_FOUND of control_retry() */
    bool changed;  /* the definition of the run's job has changed since the run
                      began */
};

/*
 * control_retry: retry a failed or poisoned run, in three steps:
 *
 *   1. The run becomes `queued`. It keeps its id, checkpoint and RequestedAt;
 *      Failures and Error are cleared.
 *   2. Its wake-up message is put on the queue that setup_queue_of_run()
 *      chooses.
 *   3. Its poison copy is deleted.
 *
 * If control_was_retried() is true for the run, only steps 2 and 3 are made.
 *
 * The definition of the run's job may have changed since the run began. If
 * accept is true, the changed definition is accepted, and the run starts over
 * under it: the caller must tell the operator (ret->changed). If accept is
 * false, no step is made, unless the change needs no acceptance (only_adds in
 * worker/run/bound.c).
 *
 * If an environment variable of the job is not set here, it is not known
 * whether the definition has changed, and nothing is accepted. If it has
 * changed, the next attempt holds the run.
 *
 * TW_CONFLICT   the run is neither failed nor poisoned; or accept is false and
 *               the definition has changed (ret->changed is then true).
 * TW_NOT_FOUND  ret->unserved false: there is no such run. ret->unserved true:
 *               either the job is not configured, and nothing is changed; or
 *               the run is `queued` now, but no queue serves it. Then err has
 *               the command that continues the run, `run JOB --id ID`, and the
 *               poison copy stays until an attempt has ended the run.
 *
 * The entity of an unreadable message has no run to retry. Instead the message
 * is retried with the body of its poison copy, which is searched for among the
 * first 32 messages of the poison queue. binding_queue_of_copy() chooses the
 * queue: the message's own queue, if this is bound as before. If the chosen
 * queue is bound to the entity's job, and the body is a valid argument now, the
 * entity itself becomes the run, which is retried as above. Otherwise the body
 * is put on that queue as a message, and the entity becomes `cancelled`.
 *
 * TW_NOT_FOUND with ret->unserved: no queue reads the message as before;
 * nothing is changed, and err says what to configure. TW_INVALID: the poison
 * copy is not found.
 *
 * A JSON body that is put back on a queue without a job must be the same
 * request as before. If the body has no time, it gets the time of the original
 * message. If it has no id, and the entity is under LEDGER_UNREADABLE, it gets
 * the id of the original message. Any other body is put back unchanged, as a
 * new request.
 */
TW_MUST_USE enum tw_err control_retry(const struct definition *definition,
    struct slice job, struct slice id, bool accept, struct control_retried *ret,
    struct err *err);

/* control_was_retried: is the run `queued`, and did it have an attempt or a
 * poison copy before? Then an earlier control_retry() may have stored `queued`
 * and failed before it put the message, so call control_retry() again. */
bool control_was_retried(const struct ledger_run *run);

/* control_reopen: let workers accept runs of a job again after `finish` has
 * closed the job. TW_OK also if the job is not closed. */
TW_MUST_USE enum tw_err control_reopen(
    struct store *store, struct slice job, struct err *err);

/*
 * control_drop: give up a failed or poisoned run: delete its poison copy, and
 * set `cancelled`; keeps Error and FinishedAt. TW_CONFLICT: the run is neither
 * failed nor poisoned, perhaps because it was dropped before.
 */
TW_MUST_USE enum tw_err control_drop(
    struct store *store, struct slice job, struct slice id, struct err *err);

#endif
