/* SPDX-License-Identifier: MIT */
/* Moves an invalid message to its poison queue. */
#include "worker/run/poison.h"

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/run/binding.h"
#include "worker/run/ledger_change.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* Make lease->run a run that has ended without an attempt. Its ledger entity
 * stores why the message was poisoned. */
static void set_run(struct lease *lease, const char *job,
    const struct setup_queue *queue, const struct lease_message *message,
    const char *reason)
{
    struct ledger_run *run = &lease->run;
    char *binding = binding_text(queue);

    run->state = LEDGER_POISONED; /* the run is new, so ledger_move() is not
                                     needed */
    run->job = ledger_text(run, slice_of(job));
    run->id = ledger_text(run, message->id);
    run->queue = ledger_text(run, slice_of(message->queue));
    run->binding = ledger_text(run, slice_of(binding));
    run->requested_ticks = message->inserted_ticks;
    ledger_set_error(run, reason);
    mem_free(binding);
}

/* Read the state stored under the message's id. TW_NOT_FOUND: no entity.
 * TW_INVALID: the entity cannot be read as a run. */
static enum tw_err read_state(struct lease *lease, struct slice job,
    enum ledger_state *ret_state, struct err *err)
{
    struct retry_call call = retry_call(&lease->own, RETRY_BUSY_MS, 0);
    struct ledger_run stored;
    enum tw_err outcome;

    ledger_run_init(&stored);
    do
        outcome = ledger_get(
            lease->store, &call.exchange, job, lease->run.id, &stored);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK)
        *ret_state = stored.state;
    else if (outcome == TW_NOT_FOUND)
        lease->run.finished_ticks = lease->run.updated_ticks =
            call.exchange.date_ticks;
    else
        (void)err_fail(err, outcome, "%s", call.exchange.err.text);
    ledger_run_done(&stored);
    return outcome;
}

/* Insert the entity with the reason. An existing entity is left unchanged. */
static enum tw_err apply_reason(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    const struct lease *lease = context;

    (void)now_ticks;
    if (run->etag.len > 0)
        return err_fail(err, TW_CONFLICT, "the id is taken");
    ledger_take_over(run, &lease->run);
    return TW_OK;
}

static enum tw_err insert(struct lease *lease, struct err *err)
{
    const struct retry_call call = retry_call(&lease->own, RETRY_BUSY_MS, 0);
    struct ledger_change change = {.store = lease->store,
        .deadline = &lease->own,
        .apply = apply_reason,
        .context = lease,
        .limits = &call.limits};
    struct ledger_run stored;
    enum tw_err outcome;

    ledger_run_init(&stored);
    stored.job = ledger_text(&stored, lease->run.job);
    stored.id = ledger_text(&stored, lease->run.id);
    outcome = ledger_change(&change, LEDGER_ABSENT, &stored, err);
    ledger_run_done(&stored);
    return outcome;
}

/* Once 1/LATE_SHARE of the visibility timeout is over, the message is renewed
 * before its poison copy is put. */
#define LATE_SHARE 4

/*
 * Make sure that the message is still hidden for this worker before its poison
 * copy is put. After a suspension of this machine the message may be visible
 * again, and another worker may receive it and put a second poison copy. The
 * renewal fails if another worker has received the message.
 */
static enum tw_err keep_message(struct lease *lease, struct err *err)
{
    int64_t now_ms = platform_boot_ms();
    int64_t timeout_ms = lease->visibility_timeout_ms;
    enum tw_err outcome = TW_OK;

    if (now_ms - lease->message_sent_ms >= timeout_ms / LATE_SHARE) {
        outcome = lease_renew_message(lease, err);
        lease->message_sent_ms = now_ms;
    }
    deadline_move(&lease->own,
        lease->message_sent_ms + timeout_ms + lease->own.request_ms);
    return outcome;
}

static enum tw_err put_copy(
    struct lease *lease, const struct lease_message *message, struct err *err)
{
    enum tw_err outcome = keep_message(lease, err);

    if (outcome == TW_OK)
        outcome = lease_put_poison_copy(lease,
            &(struct poison_copy){.queue = slice_of(message->queue),
                .text = message->text,
                .may_be_there = message->dequeue_count > 1},
            err);
    deadline_move(&lease->own, PLATFORM_NEVER);
    return outcome;
}

/* Does the ledger have another run with this id, or an entity that cannot be
 * read? outcome and state: the results of read_state(). */
static bool is_taken(enum tw_err outcome, enum ledger_state state)
{
    return outcome == TW_INVALID ||
           (outcome == TW_OK && state != LEDGER_POISONED);
}

/*
 * Put the poison copy, then store the reason in the ledger. If the ledger has
 * the reason already, nothing is done, and the caller only deletes the message.
 * If another run has this id, the reason is stored under "-".
 */
static enum tw_err copy_and_tell(
    struct lease *lease, const struct lease_message *message, struct err *err)
{
    struct ledger_run *run = &lease->run;
    enum ledger_state state = LEDGER_POISONED;
    enum tw_err outcome = read_state(lease, run->job, &state, err);

    if (is_taken(outcome, state) && !slice_is(run->job, LEDGER_UNREADABLE)) {
        run->job = slice_of(LEDGER_UNREADABLE);
        outcome = read_state(lease, run->job, &state, err);
    }
    if (outcome != TW_NOT_FOUND)
        return outcome;
    outcome = put_copy(lease, message, err);
    if (outcome != TW_OK)
        return outcome;
    outcome = insert(lease, err);
    return outcome == TW_CONFLICT ? TW_OK : outcome;
}

enum tw_err poison_message(struct store *store, const char *job,
    const struct setup_queue *queue, const struct lease_message *message,
    int64_t visibility_timeout_s, const char *reason, struct err *err)
{
    struct lease_request request = {.store = store,
        .message = message,
        .visibility_timeout_s = visibility_timeout_s};
    struct lease lease;
    enum tw_err outcome;

    lease_init(&lease, &request);
    set_run(&lease, job, queue, message, reason);
    outcome = copy_and_tell(&lease, message, err);
    if (outcome == TW_OK) {
        lease_delete_message(&lease);
        log_error("message", "%.*s of queue %s: poisoned: %s",
            SLICE_ARG(message->id), message->queue, reason);
    }
    lease_done(&lease);
    return outcome;
}
