/* SPDX-License-Identifier: MIT */
/* Commands on runs from outside a worker. */
#include "worker/run/control.h"

#include <assert.h>
#include <stdio.h>

#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/binding.h"
#include "worker/run/bound.h"
#include "worker/run/lease.h"
#include "worker/run/ledger_change.h"
#include "worker/run/locks.h"
#include "worker/run/message.h"
#include "worker/run/queue.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* How long a command retries requests to a busy service. An operator or a front
 * end waits for the command, so it must not retry for longer. */
#define CALL_MAX_MS 30000
/* The longest time for which a queue hides a message. */
#define HIDE_MAX_S INT64_C(604800)
/* If a run that an operator has asked to cancel has waited for this time, a
 * second cancel acts at once, even if a load is half done. */
#define STUCK_TICKS (600 * TICKS_PER_S)

/* ---- requests ---- */

static struct retry_limits limits_from_now(void)
{
    int64_t now_ms = platform_boot_ms();

    return (struct retry_limits){
        NULL, now_ms + CALL_MAX_MS, now_ms + RETRY_UNANSWERED_MS};
}

static struct retry_call begin_call(void)
{
    return retry_call(NULL, CALL_MAX_MS, RETRY_UNANSWERED_MS);
}

static enum tw_err told(
    enum tw_err outcome, const struct exchange *exchange, struct err *err)
{
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", exchange->err.text);
    return outcome;
}

/* A message to put. */
struct order {
    const char *queue;
    struct slice text;
    int64_t delay_s;
    bool names_run; /* text has the id of the run */
    bool is_json;   /* text is a JSON message, which may also be put as base64;
                       false: the argument of a bound queue */
};

static enum tw_err create_queue(
    struct store *store, const char *queue, struct err *err)
{
    struct retry_call call = begin_call();
    enum tw_err outcome = queue_ensure(store, queue, &call, true);

    return told(outcome, &call.exchange, err);
}

/* Should the put be retried? If its outcome is unknown, it is retried only if
 * the message names its run's id. Two such messages do no harm, because both
 * wake the same run. */
static bool put_again(
    const struct order *order, struct retry_call *call, enum tw_err outcome)
{
    if (outcome == TW_UNKNOWN && order->names_run)
        outcome = TW_BUSY;
    return retry_call_again(call, outcome);
}

static enum tw_err put_once(struct store *store, const struct order *order,
    struct messages *ret, struct err *err)
{
    struct retry_call call = begin_call();
    bool may_be_there = false;
    enum tw_err outcome;

    do {
        outcome = (order->is_json ? queue_put : store_queue_put)(store,
            &call.exchange, order->queue, order->text, order->delay_s, ret);
        may_be_there |= outcome == TW_UNKNOWN;
    } while (put_again(order, &call, outcome));
    if (outcome != TW_OK && may_be_there)
        outcome = TW_UNKNOWN;
    return told(outcome, &call.exchange, err);
}

/* Put the message; create the queue if it is missing. */
static enum tw_err put_message(struct store *store, const struct order *order,
    struct messages *ret, struct err *err)
{
    enum tw_err outcome = put_once(store, order, ret, err);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    outcome = create_queue(store, order->queue, err);
    return outcome == TW_OK ? put_once(store, order, ret, err) : outcome;
}

/*
 * Get the service's clock from the response to a read of a missing entity.
 * Without a response the function fails: this machine's clock cannot be used
 * instead, because it may be slow. Then RequestedAt would be too early, and a
 * cascade would skip the parent as if it had been created after the request.
 */
static enum tw_err service_now(
    struct store *store, int64_t *ret_ticks, struct err *err)
{
    struct retry_call call = begin_call();
    struct ledger_run none;
    enum tw_err outcome;

    ledger_run_init(&none);
    do {
        outcome = ledger_get(store, &call.exchange, slice_of(LEDGER_UNREADABLE),
            slice_of("-clock"), &none);
        if (outcome == TW_UNKNOWN) /* a read can be repeated, because it changes
                                      nothing */
            outcome = TW_BUSY;
    } while (retry_call_again(&call, outcome));
    ledger_run_done(&none);
    *ret_ticks = call.exchange.date_ticks ? call.exchange.date_ticks
                                          : platform_wall_ticks();
    if (outcome == TW_NOT_FOUND || call.exchange.date_ticks != 0)
        outcome = TW_OK;
    return told(outcome, &call.exchange, err);
}

/* ---- enqueue ---- */

static void set_queued(struct ledger_run *run,
    const struct control_enqueue *what, struct slice id, int64_t now_ticks)
{
    struct buf args;

    buf_init(&args, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_args_json(&what->args, &args);
    run->job = ledger_text(run, slice_of(what->job->name));
    run->id = ledger_text(run, id);
    run->kind = ledger_text(run, slice_of(what->job->kind->name));
    run->args = ledger_text(run, buf_slice(&args));
    run->queue = ledger_text(run, slice_of(what->queue->name));
    run->traceparent = ledger_text(run, what->traceparent);
    run->requested_ticks = run->updated_ticks = now_ticks;
    if (what->accept_deletes)
        ledger_accept_deletes(run, true, now_ticks);
    if (what->delay_s > 0)
        run->resumes_ticks = now_ticks + what->delay_s * TICKS_PER_S;
    ledger_expect_message(run, run->resumes_ticks);
    buf_done(&args);
}

/* The context of control_enqueue()'s change of the ledger. */
struct entering {
    struct ledger_run *run; /* the run to store; gets the stored RequestedAt if
                               the ledger has the run already */
    bool known; /* the ledger already has this run, open and with the same
                   arguments */
};

/* Insert the run. If the run exists, check that it has the same arguments, has
 * not ended, and is neither being cancelled nor paused: a message does not
 * continue a paused run. Note until when the message of this request is hidden.
 * Let the run accept deletes if this request asks for that. */
static enum tw_err apply_entry(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct entering *entering = context;

    entering->known = false;
    if (run->etag.len == 0) {
        ledger_take_over(run, entering->run);
        return TW_OK;
    }
    if (!message_args_same(run->args, entering->run->args))
        return err_fail(err, TW_CONFLICT,
            "the id %.*s was used before with other arguments",
            SLICE_ARG(run->id));
    if (ledger_state_ended(run->state))
        return err_fail(err, TW_CONFLICT, "run %.*s/%.*s has ended already: %s",
            SLICE_ARG(run->job), SLICE_ARG(run->id),
            ledger_state_name(run->state));
    if (slice_is(run->control, LEDGER_CONTROL_CANCEL))
        return err_fail(err, TW_CONFLICT, "run %.*s/%.*s is being cancelled",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
    if (run->state == LEDGER_PAUSED)
        return err_fail(err, TW_CONFLICT,
            "run %.*s/%.*s is paused: `resume` continues it",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
    entering->run->requested_ticks = run->requested_ticks;
    entering->known = true;
    if (entering->run->message_until_ticks <= run->message_until_ticks &&
        !entering->run->accept_deletes)
        return TW_CONFLICT; /* nothing is written */
    if (entering->run->accept_deletes)
        ledger_accept_deletes(run, true, now_ticks);
    ledger_expect_message(run, entering->run->message_until_ticks);
    return TW_OK;
}

/* Compose the run's message. enqueue_json() calls this before anything is
 * stored, so TW_TOO_LARGE leaves nothing behind. */
static enum tw_err compose(
    const struct ledger_run *run, struct buf *to, struct err *err)
{
    buf_clear(to);
    message_compose(run->job, run->args, run->id, run->requested_ticks,
        run->traceparent, to);
    if (!to->overflow && to->len <= QUEUE_MAX_MESSAGE_BYTES)
        return TW_OK;
    return err_fail(err, TW_TOO_LARGE,
        "the message has %zu bytes; a queue takes at most 64 KiB", to->len);
}

/* Insert the run, unless it exists. stored (init'ed) becomes the run as the
 * ledger has it. *ret_new: true if this call has inserted it. */
static enum tw_err enter_run(struct store *store, struct ledger_run *run,
    struct ledger_run *stored, bool *ret_new, struct err *err)
{
    const struct retry_limits limits = limits_from_now();
    struct entering entering = {run, false};
    struct ledger_change change = {.store = store,
        .apply = apply_entry,
        .context = &entering,
        .limits = &limits};
    enum tw_err outcome;

    stored->job = ledger_text(stored, run->job);
    stored->id = ledger_text(stored, run->id);
    outcome = ledger_change(&change, LEDGER_ABSENT, stored, err);
    *ret_new = outcome == TW_OK && !entering.known;
    return outcome == TW_CONFLICT && entering.known ? TW_OK : outcome;
}

/* Delete the entity of a run whose message could not be put. Then `enqueue`
 * fails, so no worker must find the entity and execute the run. */
static void withdraw(
    struct store *store, const struct ledger_run *stored, struct err *err)
{
    struct exchange exchange = {0};
    const struct err why = *err;

    if (ledger_remove(store, &exchange, stored) == TW_OK)
        return;
    (void)err_fail(err, TW_BUSY,
        "%s; the ledger still has run %.*s/%.*s, so a worker may execute it: "
        "cancel it, or enqueue it again",
        why.text, SLICE_ARG(stored->job), SLICE_ARG(stored->id));
}

static enum tw_err put_new(struct store *store,
    const struct control_enqueue *what, struct ledger_run *run,
    struct buf *text, struct err *err)
{
    struct ledger_run stored;
    struct messages put;
    bool is_new;
    enum tw_err outcome;

    messages_init(&put);
    ledger_run_init(&stored);
    outcome = enter_run(store, run, &stored, &is_new, err);
    if (outcome == TW_OK) {
        outcome = compose(run, text, err);
        if (outcome == TW_OK)
            outcome = put_message(store,
                &(struct order){.queue = what->queue->name,
                    .text = buf_slice(text),
                    .delay_s = what->delay_s,
                    .names_run = true,
                    .is_json = true},
                &put, err);
        if (is_new && outcome != TW_OK && outcome != TW_UNKNOWN)
            withdraw(store, &stored, err);
    }
    ledger_run_done(&stored);
    messages_done(&put);
    return outcome;
}

/* Writes the ledger before the message, because the worker that receives the
 * message needs RequestedAt. */
static enum tw_err enqueue_json(struct store *store,
    const struct control_enqueue *what, struct slice id, struct err *err)
{
    struct ledger_run run;
    struct buf text;
    int64_t now_ticks;
    enum tw_err outcome = service_now(store, &now_ticks, err);

    if (outcome != TW_OK)
        return outcome;
    ledger_run_init(&run);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    set_queued(&run, what, id, now_ticks);
    outcome = compose(&run, &text, err);
    if (outcome == TW_OK)
        outcome = put_new(store, what, &run, &text, err);
    buf_done(&text);
    ledger_run_done(&run);
    return outcome;
}

/* Enqueue on a bound queue: the body is the argument, and the id of the message
 * becomes the id of the run. */
static enum tw_err enqueue_bound(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err)
{
    struct ledger_run run, stored;
    struct messages put;
    struct buf text;
    bool is_new;
    enum tw_err outcome, entered;

    ledger_run_init(&run);
    ledger_run_init(&stored);
    messages_init(&put);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    if (what->queue->base64)
        crypto_base64(&text, what->args.values[0]);
    else
        buf_add_slice(&text, what->args.values[0]);
    outcome = put_message(store,
        &(struct order){.queue = what->queue->name,
            .text = buf_slice(&text),
            .delay_s = what->delay_s,
            .is_json = false},
        &put, err);
    if (outcome == TW_OK) {
        (void)snprintf(
            ret_id, QUEUE_ID_MAX + 1, "%.*s", SLICE_ARG(put.list[0].id));
        set_queued(&run, what, put.list[0].id, put.list[0].inserted_ticks);
        /* A worker may have received the message and inserted the run
         * already. */
        entered = enter_run(store, &run, &stored, &is_new, err);
        if (entered == TW_REFUSED || entered == TW_FORBIDDEN)
            outcome = entered;
    }
    buf_done(&text);
    messages_done(&put);
    ledger_run_done(&stored);
    ledger_run_done(&run);
    return outcome;
}

static enum tw_err fail_unknown(const char *id, struct err *err)
{
    const struct err why = *err;

    return err_fail(err, TW_UNKNOWN,
        "%s; it is unknown whether the run was enqueued: `enqueue` it again "
        "with --id %s, which makes no second run",
        why.text, id);
}

enum tw_err control_enqueue(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err)
{
    char id[QUEUE_ID_MAX + 1];
    enum tw_err outcome;

    if (what->queue->job) {
        assert(what->id.len == 0);
        return enqueue_bound(store, what, ret_id, err);
    }
    assert(what->id.len <= QUEUE_ID_MAX);
    if (what->id.len > 0)
        (void)snprintf(id, sizeof(id), "%.*s", SLICE_ARG(what->id));
    else
        text_random_id(id);
    outcome = enqueue_json(store, what, slice_of(id), err);
    if (outcome == TW_OK)
        (void)snprintf(ret_id, sizeof(id), "%s", id);
    return outcome == TW_UNKNOWN ? fail_unknown(id, err) : outcome;
}

/* ---- changing a run ---- */

/* One change of a run that must exist. */
struct asking {
    /* change: alter run, which is as stored. Any outcome but TW_OK is returned,
     * and nothing is written. */
    enum tw_err (*change)(struct asking *asking, struct ledger_run *run,
        int64_t now_ticks, struct err *err);
    struct ledger_run run, before; /* run: as stored after the change; before:
                                      as stored before the change */
    bool asked;   /* set by `change`: the run has an owner, so the request is
                     stored in the ledger, and the owner makes the change */
    bool now;     /* control_finish(): end after one more round */
    bool at_once; /* control_stop(): pause even if a load is half done */
    bool without_owner;  /* set by change: no owner is alive, so the request is
                            for the next owner */
    struct store *store; /* the ledger's store */
    bool unchanged; /* set by change, with TW_CONFLICT: the run is already as
                       requested */
    const struct definition *definition; /* definition that `change` uses; NULL:
                                            `change` needs none */
    bool unserved;                       /* no queue serves the run */
    bool accept;       /* control_retry(): accept a changed definition */
    bool changed;      /* set by change: the definition has changed */
    bool accepts;      /* set by change: the run accepts a changed definition */
    bool will_be_held; /* set by change: see struct control_resumed */
    bool moved;        /* set by change: the run has another queue now */
    int64_t delay_s;   /* set by change: time for which the run's message is
                          hidden */
    struct slice args_json; /* control_retry(): arguments for a refused
                               message's entity, which becomes the run; empty:
                               the run has arguments already */
};

/* Is the run `queued`, without a request to cancel it? Then an earlier `resume`
 * or `retry` may have failed after it had stored this state and before it put
 * the message. A repeated command puts the message, which does no harm if the
 * run has one already. */
static bool may_lack_message(const struct ledger_run *run)
{
    return run->state == LEDGER_QUEUED &&
           !slice_is(run->control, LEDGER_CONTROL_CANCEL);
}

static enum tw_err apply_asked(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct asking *asking = context;

    if (run->etag.len == 0)
        return err_fail(err, TW_NOT_FOUND, "the ledger has no run %.*s/%.*s",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
    ledger_copy(&asking->before, run);
    asking->asked = asking->unchanged = asking->moved = false;
    asking->unserved = asking->changed = false;
    asking->accepts = asking->will_be_held = false;
    ledger_note_idle(run, now_ticks);
    run->updated_ticks = now_ticks;
    return asking->change(asking, run, now_ticks, err);
}

/* Apply asking->change() to the run, and store the run. Call asking_done()
 * after any outcome. */
static enum tw_err change_run(struct store *store, struct slice job,
    struct slice id, struct asking *asking, struct err *err)
{
    const struct retry_limits limits = limits_from_now();
    struct ledger_change change = {.store = store,
        .apply = apply_asked,
        .context = asking,
        .limits = &limits};
    enum tw_err outcome;

    asking->store = store;
    ledger_run_init(&asking->run);
    ledger_run_init(&asking->before);
    asking->run.job = ledger_text(&asking->run, job);
    asking->run.id = ledger_text(&asking->run, id);
    outcome = ledger_change(&change, LEDGER_READ, &asking->run, err);
    return outcome == TW_CONFLICT && asking->unchanged ? TW_OK : outcome;
}

static void asking_done(struct asking *asking)
{
    ledger_run_done(&asking->before);
    ledger_run_done(&asking->run);
}

static enum tw_err refuse_state(const struct ledger_run *run, struct err *err)
{
    bool cancelling = !ledger_state_ended(run->state) &&
                      slice_is(run->control, LEDGER_CONTROL_CANCEL);

    return err_fail(err, TW_CONFLICT, "run %.*s/%.*s is %s",
        SLICE_ARG(run->job), SLICE_ARG(run->id),
        cancelling ? "being cancelled" : ledger_state_name(run->state));
}

static enum tw_err is_so_already(struct asking *asking)
{
    asking->unchanged = true;
    return TW_CONFLICT;
}

/* ---- poison copies ---- */

static char *poison_queue_of(const struct ledger_run *run)
{
    return mem_format("%.*s%s", SLICE_ARG(run->queue), SETUP_POISON_SUFFIX);
}

/* Delete the run's poison copy. TW_OK also if it does not exist any more, or if
 * another client has received it since, which makes the pop receipt invalid. In
 * the latter case the poison copy stays, and nothing else is affected. */
static enum tw_err delete_copy(
    struct store *store, const struct ledger_run *run, struct err *err)
{
    struct retry_call call = begin_call();
    struct slice id = run->poison_id, receipt = run->poison_receipt;
    char *queue;
    enum tw_err outcome;

    if (id.len == 0 || receipt.len == 0)
        return TW_OK;
    queue = poison_queue_of(run);
    do {
        outcome = store_queue_delete(store, &call.exchange, queue, id, receipt);
    } while (retry_call_again(&call, outcome));
    mem_free(queue);
    if (outcome == TW_CONFLICT || outcome == TW_NOT_FOUND)
        outcome = TW_OK;
    return told(outcome, &call.exchange, err);
}

/* ---- cancel, pause ---- */

static enum tw_err ask_owner(
    struct asking *asking, struct ledger_run *run, const char *control)
{
    asking->asked = true;
    if (slice_is(run->control, control))
        return is_so_already(asking);
    run->control = ledger_text(run, slice_of(control));
    return TW_OK;
}

/* Set ResumesAt to until_ticks, an earlier time. Notes in MessageUntil that the
 * run's message stays hidden until the former ResumesAt. */
static void resume_earlier(struct ledger_run *run, int64_t until_ticks)
{
    ledger_expect_message(run, run->resumes_ticks);
    run->resumes_ticks = until_ticks;
}

/* Set the state `to`, cancelled or paused, at once. Call only if no lease of an
 * owner is valid. A run that is paused before its first attempt keeps the time
 * at which it is to begin. */
static enum tw_err put_aside(struct ledger_run *run, enum ledger_state to,
    int64_t now_ticks, struct err *err)
{
    bool keeps_time =
        to == LEDGER_PAUSED && run->state == LEDGER_QUEUED && run->attempt == 0;

    ledger_drop_owner(run);
    run->control = (struct slice){0};
    resume_earlier(run, keeps_time ? run->resumes_ticks : 0);
    run->lease_until_ticks = now_ticks;
    return ledger_move(run, to, err);
}

/* Must an attempt complete a load of the run, before the run is cancelled or
 * paused? Call only if no lease of an owner is valid. If a worker acquires the
 * run afterwards, the ETag of the run changes. Then the write of this command
 * fails, and the command decides again. */
static enum tw_err find_open_load(struct asking *asking,
    const struct ledger_run *run, bool *ret, struct err *err)
{
    const struct kind *kind = jobs_kind(run->kind);
    struct retry_call call = begin_call();
    enum tw_err outcome;

    *ret = false;
    if (run->attempt == 0 || !kind || !kind->open_load)
        return TW_OK;
    outcome = kind->open_load(
        asking->store, LEDGER_TABLE, run->job, run->id, &call, ret);
    return told(outcome, &call.exchange, err);
}

/* Call if the run has no owner, and one of its loads is half done. Stores the
 * request `control` in the ledger for the next owner, which completes the load
 * before acting on the request. */
static enum tw_err ask_next_owner(struct asking *asking, struct ledger_run *run,
    const char *control, int64_t now_ticks, struct err *err)
{
    enum tw_err outcome = ask_owner(asking, run, control);

    asking->without_owner = true;
    if (outcome == TW_OK && run->state == LEDGER_WAITING)
        resume_earlier(run, now_ticks);
    if (run->state != LEDGER_PAUSED)
        return outcome;
    run->lease_until_ticks = now_ticks;
    asking->unchanged = false;
    return ledger_move(run, LEDGER_QUEUED, err);
}

/* Was the run asked to cancel before, and has it been held, or waited for its
 * turn, for a long time? Such a run cannot complete its load, because its
 * attempts end before they reach the load. */
static bool is_stuck(const struct ledger_run *run, int64_t now_ticks)
{
    return run->state == LEDGER_WAITING &&
           slice_is(run->control, LEDGER_CONTROL_CANCEL) &&
           run->waits_since_ticks > 0 &&
           now_ticks - run->waits_since_ticks >= STUCK_TICKS;
}

static enum tw_err set_cancelled(struct asking *asking, struct ledger_run *run,
    int64_t now_ticks, struct err *err)
{
    enum tw_err outcome;
    bool open;

    if (ledger_state_ended(run->state))
        return refuse_state(run, err);
    if (ledger_lease_is_live(run, now_ticks))
        return ask_owner(asking, run, LEDGER_CONTROL_CANCEL);
    outcome = find_open_load(asking, run, &open, err);
    if (outcome != TW_OK)
        return outcome;
    if (open && !is_stuck(run, now_ticks))
        return ask_next_owner(
            asking, run, LEDGER_CONTROL_CANCEL, now_ticks, err);
    if (open)
        ledger_set_error(run,
            "cancelled with a half done load: its intent stays, and the next "
            "move of these tables completes it");
    run->finished_ticks = now_ticks;
    return put_aside(run, LEDGER_CANCELLED, now_ticks, err);
}

static enum tw_err set_paused(struct asking *asking, struct ledger_run *run,
    int64_t now_ticks, struct err *err)
{
    enum tw_err outcome;
    bool open = false;

    if (ledger_state_ended(run->state))
        return refuse_state(run, err);
    if (run->state == LEDGER_PAUSED)
        return is_so_already(asking);
    if (slice_is(run->control, LEDGER_CONTROL_CANCEL))
        return refuse_state(run, err);
    if (ledger_lease_is_live(run, now_ticks))
        return ask_owner(asking, run, LEDGER_CONTROL_PAUSE);
    if (!asking->at_once) {
        outcome = find_open_load(asking, run, &open, err);
        if (outcome != TW_OK)
            return outcome;
    }
    return open ? ask_next_owner(
                      asking, run, LEDGER_CONTROL_PAUSE, now_ticks, err)
                : put_aside(run, LEDGER_PAUSED, now_ticks, err);
}

static enum tw_err ask(struct store *store, struct slice job, struct slice id,
    struct asking *asking, struct ledger_run *ret, bool *ret_asked,
    struct err *err)
{
    enum tw_err outcome = change_run(store, job, id, asking, err);
    const struct ledger_run *run = &asking->run;
    struct err ignored; /* the run is cancelled even if its poison copy stays */

    if (outcome == TW_OK && run->state == LEDGER_CANCELLED) {
        /* If an attempt was made, its locks are kept, because its requests may
         * still arrive (rule A4). */
        locks_release(store, NULL, job, id, run->attempt == 0);
        (void)!delete_copy(store, run, &ignored);
    }
    *ret_asked = asking->asked;
    ledger_copy(ret, &asking->before);
    if (asking->without_owner)
        ret->owner = (struct slice){0};
    asking_done(asking);
    return outcome;
}

enum tw_err control_cancel(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err)
{
    struct asking asking = {.change = set_cancelled};

    return ask(store, job, id, &asking, ret, ret_asked, err);
}

enum tw_err control_pause(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err)
{
    struct asking asking = {.change = set_paused};

    return ask(store, job, id, &asking, ret, ret_asked, err);
}

enum tw_err control_stop(struct store *store, struct slice job, struct slice id,
    bool *ret_asked, struct err *err)
{
    struct asking asking = {.change = set_paused, .at_once = true};
    struct ledger_run before;
    enum tw_err outcome;

    ledger_run_init(&before);
    outcome = ask(store, job, id, &asking, &before, ret_asked, err);
    ledger_run_done(&before);
    return outcome;
}

/* ---- resume, finish ---- */

/* Find the queue for a run's wake-up message; NULL: no queue serves the run. */
static const struct setup_queue *queue_of(
    const struct definition *definition, const struct ledger_run *run)
{
    const struct job *job = jobs_find(definition->jobs, run->job);

    return job ? setup_queue_of_run(definition->setup, job, run->queue) : NULL;
}

static enum tw_err refuse_unserved(
    struct asking *asking, const struct ledger_run *run, struct err *err)
{
    asking->unserved = true;
    return err_fail(err, TW_NOT_FOUND,
        "no queue of the configuration serves job %.*s: continue the run with "
        "`run %.*s --id %.*s`",
        SLICE_ARG(run->job), SLICE_ARG(run->job), SLICE_ARG(run->id));
}

#define REPEAT "repeat the command"

/* Put the wake-up message `order` of run. advice: what to do if the message
 * cannot be put, for err. */
static enum tw_err put_wake_up(const struct definition *definition,
    const struct ledger_run *run, const struct order *order, const char *advice,
    struct err *err)
{
    struct messages put;
    struct err why;
    enum tw_err outcome;

    messages_init(&put);
    outcome = put_message(definition_store(definition), order, &put, &why);
    messages_done(&put);
    if (outcome == TW_OK)
        return TW_OK;
    return err_fail(err, outcome,
        "the ledger has the change of run %.*s/%.*s, but the message for a "
        "worker could not be put; %s: %s",
        SLICE_ARG(run->job), SLICE_ARG(run->id), advice, why.text);
}

/* Put the message that wakes a worker for run, hidden for delay_s. */
static enum tw_err wake_or_advise(const struct definition *definition,
    const struct ledger_run *run, int64_t delay_s, const char *advice,
    struct err *err)
{
    const struct setup_queue *queue = queue_of(definition, run);
    struct buf text;
    enum tw_err outcome;

    assert(queue != NULL);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_compose(run->job, run->args, run->id, 0, run->traceparent, &text);
    if (text.overflow || text.len > QUEUE_MAX_MESSAGE_BYTES)
        outcome = err_fail(err, TW_TOO_LARGE,
            "run %.*s/%.*s is queued, but its arguments are too long for a "
            "message: a worker finds the run within ten minutes; `run %.*s "
            "--id %.*s` executes it now",
            SLICE_ARG(run->job), SLICE_ARG(run->id), SLICE_ARG(run->job),
            SLICE_ARG(run->id));
    else
        outcome = put_wake_up(definition, run,
            &(struct order){.queue = queue->name,
                .text = buf_slice(&text),
                .delay_s = delay_s,
                .names_run = true,
                .is_json = true},
            advice, err);
    buf_done(&text);
    return outcome;
}

static enum tw_err wake(const struct definition *definition,
    const struct ledger_run *run, int64_t delay_s, struct err *err)
{
    return wake_or_advise(definition, run, delay_s, REPEAT, err);
}

enum tw_err control_wake(const struct definition *definition,
    const struct ledger_run *run, bool *ret_unserved, struct err *err)
{
    struct asking asking = {.unserved = false};
    enum tw_err outcome = queue_of(definition, run)
                              ? wake(definition, run, 0, err)
                              : refuse_unserved(&asking, run, err);

    *ret_unserved = asking.unserved;
    return outcome;
}

/* Take back a pause on which the owner has not acted yet, or which was taken
 * back before. A live owner then continues its work. If the owner has died, the
 * run gets a wake-up message. */
static enum tw_err take_back_pause(struct asking *asking,
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    asking->asked = ledger_lease_is_live(run, now_ticks);
    if (!asking->asked && !queue_of(asking->definition, run))
        return refuse_unserved(asking, run, err);
    if (run->control.len == 0)
        return is_so_already(asking);
    run->control = (struct slice){0};
    return TW_OK;
}

/* Returns how many seconds are left until the run is to begin (ResumesAt). */
static int64_t left_s(const struct ledger_run *run, int64_t now_ticks)
{
    int64_t left = run->resumes_ticks - now_ticks;
    int64_t left_s = (left + TICKS_PER_S - 1) / TICKS_PER_S;

    if (left <= 0)
        return 0;
    return left_s < HIDE_MAX_S ? left_s : HIDE_MAX_S;
}

/* Check that the configuration has the run's job, and that the job has the
 * run's kind. If not, nothing can continue the run. */
static enum tw_err check_job(
    struct asking *asking, const struct ledger_run *run, struct err *err)
{
    const struct job *job = jobs_find(asking->definition->jobs, run->job);
    char *what;

    if (!job) {
        asking->unserved = true;
        return err_fail(err, TW_NOT_FOUND,
            "run %.*s stays %s: job %.*s is not in the configuration, so no "
            "worker can execute the run; put the job back, then repeat the "
            "command",
            SLICE_ARG(run->id), ledger_state_name(run->state),
            SLICE_ARG(run->job));
    }
    if (!bound_kind_changed(run, job))
        return TW_OK;
    what = bound_kind_sentence(run, job);
    (void)err_fail(err, TW_CONFLICT,
        "%s: restore the former kind, or cancel the run and start another one",
        what);
    mem_free(what);
    return TW_CONFLICT;
}

/* If the run's own queue is not served any more, find the queue that serves the
 * run's job. NULL: the run's own queue is still served, the run has no queue,
 * or no queue serves the job. */
static const struct setup_queue *queue_instead(
    const struct definition *definition, const struct ledger_run *run)
{
    const struct setup_queue *queue = queue_of(definition, run);

    return run->queue.len > 0 && queue && !slice_is(run->queue, queue->name)
               ? queue
               : NULL;
}

/* Call for a run without an owner. If its queue is not served any more, move it
 * to the queue that serves its job, if there is one. */
static void use_served_queue(struct asking *asking, struct ledger_run *run)
{
    const struct setup_queue *queue = queue_instead(asking->definition, run);

    if (!queue)
        return;
    asking->moved = true;
    run->queue = ledger_text(run, slice_of(queue->name));
}

/* Must an operator accept the job's definition before an attempt of the run?
 * False if an environment variable of the job is not set here: the definition
 * is then not known. A changed account is not noticed, because the stores are
 * not opened. */
static bool needs_acceptance(
    const struct asking *asking, const struct ledger_run *run)
{
    const struct job *job = jobs_find(asking->definition->jobs, run->job);
    struct err why;

    return !job->unset &&
           bound_check(run, job, (struct slice){0}, &why) != TW_OK;
}

/* May the run be moved to another queue without a change of its state? */
static bool may_be_moved(const struct asking *asking,
    const struct ledger_run *run, int64_t now_ticks)
{
    return queue_instead(asking->definition, run) != NULL &&
           run->state != LEDGER_PAUSED && !ledger_state_ended(run->state) &&
           !ledger_lease_is_live(run, now_ticks) &&
           !slice_is(run->control, LEDGER_CONTROL_CANCEL);
}

/* Move the run to the queue that serves its job. The run keeps its state and
 * the time until which it waits. */
static enum tw_err move_run(
    struct asking *asking, struct ledger_run *run, int64_t now_ticks)
{
    use_served_queue(asking, run);
    asking->delay_s = left_s(run, now_ticks);
    if (slice_is(run->control, LEDGER_CONTROL_PAUSE))
        run->control = (struct slice){0};
    ledger_expect_message(run, now_ticks + asking->delay_s * TICKS_PER_S);
    return TW_OK;
}

/* Accept the changed definition for which the run is held or was refused, if
 * the operator's configuration has it. Then withdraw the acceptance of deletes,
 * because it was given under the former definition. */
static void accept_offer(
    struct asking *asking, struct ledger_run *run, int64_t now_ticks)
{
    asking->accepts =
        bound_accept(run, jobs_find(asking->definition->jobs, run->job));
    if (asking->accepts)
        ledger_accept_deletes(run, false, now_ticks);
}

/* Call if no queue serves the run, so that only the command `run` can continue
 * it. If that command has refused a changed definition, or waits because of it,
 * accept the definition. The run keeps its state. */
static enum tw_err accept_unserved(struct asking *asking,
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    accept_offer(asking, run, now_ticks);
    if (!asking->accepts)
        return refuse_unserved(asking, run, err);
    if (run->state == LEDGER_WAITING)
        resume_earlier(run, 0);
    asking->unserved = true;
    return TW_OK;
}

static enum tw_err set_resumed(struct asking *asking, struct ledger_run *run,
    int64_t now_ticks, struct err *err)
{
    bool for_definition = ledger_waits_for_definition(run);
    enum tw_err outcome = check_job(asking, run, err);

    if (outcome != TW_OK)
        return outcome;
    if (!for_definition && may_be_moved(asking, run, now_ticks))
        return move_run(asking, run, now_ticks);
    if (slice_is(run->control, LEDGER_CONTROL_PAUSE)
            ? !ledger_state_ended(run->state)
            : run->state == LEDGER_RUNNING &&
                  !slice_is(run->control, LEDGER_CONTROL_CANCEL))
        return take_back_pause(asking, run, now_ticks, err);
    if (run->state != LEDGER_PAUSED && !for_definition &&
        !may_lack_message(run))
        return refuse_state(run, err);
    if (!queue_of(asking->definition, run))
        return accept_unserved(asking, run, now_ticks, err);
    asking->delay_s = for_definition ? 0 : left_s(run, now_ticks);
    if (for_definition)
        accept_offer(asking, run, now_ticks);
    asking->will_be_held = needs_acceptance(asking, run);
    if (may_lack_message(run))
        return is_so_already(asking);
    use_served_queue(asking, run);
    if (asking->delay_s == 0)
        resume_earlier(run, 0);
    run->lease_until_ticks = now_ticks;
    ledger_set_error(run, "");
    return ledger_move(run, LEDGER_QUEUED, err);
}

enum tw_err control_resume(const struct definition *definition,
    struct slice job, struct slice id, struct control_resumed *ret,
    struct err *err)
{
    struct asking asking = {.change = set_resumed, .definition = definition};
    struct store *store = definition_store(definition);
    struct err ignored; /* the run continues even if its poison copy stays */
    enum tw_err outcome = change_run(store, job, id, &asking, err);

    if (outcome == TW_OK && asking.unserved)
        outcome = refuse_unserved(&asking, &asking.run, err);
    else if (outcome == TW_OK && !asking.asked)
        outcome = wake_or_advise(definition, &asking.run, asking.delay_s,
            asking.moved && asking.run.state == LEDGER_WAITING
                ? "a worker of its queue finds the run within ten minutes"
                : REPEAT,
            err);
    if (outcome == TW_OK && asking.moved)
        (void)!delete_copy(store, &asking.before, &ignored);
    *ret = (struct control_resumed){.unserved = asking.unserved,
        .accepts = asking.accepts,
        .will_be_held = asking.will_be_held,
        .moved_to = asking.moved ? queue_of(definition, &asking.run) : NULL};
    asking_done(&asking);
    return outcome;
}

static enum tw_err set_finishing(struct asking *asking, struct ledger_run *run,
    int64_t now_ticks, struct err *err)
{
    enum tw_err outcome;

    if (ledger_state_ended(run->state) ||
        slice_is(run->control, LEDGER_CONTROL_CANCEL))
        return refuse_state(run, err);
    outcome = check_job(asking, run, err);
    if (outcome != TW_OK)
        return outcome;
    run->finish = ledger_text(
        run, slice_of(asking->now ? LEDGER_FINISH_NOW : LEDGER_FINISH));
    asking->asked = ledger_lease_is_live(run, now_ticks);
    if (run->state == LEDGER_WAITING &&
        slice_is(run->waits_for, LEDGER_WAITS_FOR_ROUND))
        resume_earlier(run, now_ticks);
    asking->delay_s = run->state == LEDGER_QUEUED ? left_s(run, now_ticks) : 0;
    return TW_OK;
}

/* Is the run held until an operator restores or accepts its definition? why
 * gets the reason. A changed account of its stores is not noticed here, because
 * the stores are not opened. */
static bool is_held_for_definition(
    const struct ledger_run *run, const struct job *job, struct err *why)
{
    if (!ledger_waits_for_definition(run))
        return bound_check(run, job, (struct slice){0}, why) != TW_OK;
    (void)err_fail(why, TW_CONFLICT, "%.*s", SLICE_ARG(run->error));
    return true;
}

/* Add what must happen before a run that an operator asked to finish makes its
 * last rounds. Adds nothing if the run makes them now. */
static void add_what_is_first(const struct definition *definition,
    const struct asking *asking, struct buf *to)
{
    const struct ledger_run *run = &asking->run;
    const struct job *job = jobs_find(definition->jobs, run->job);
    struct err why;

    if (run->state == LEDGER_PAUSED ||
        slice_is(run->control, LEDGER_CONTROL_PAUSE))
        buf_add_format(to,
            "is %s: once `tableward resume %.*s` continues it, it ",
            run->state == LEDGER_PAUSED ? "paused" : "being paused",
            SLICE_ARG(run->id));
    else if (asking->asked)
        return;
    else if (is_held_for_definition(run, job, &why))
        buf_add_format(to, "is held (%s): once it continues, it ", why.text);
    else if (!queue_of(definition, run))
        buf_add_format(to,
            "continues only in a `tableward run`, because no queue serves job "
            "%s; if no such command executes it, start `tableward run %s --id "
            "%.*s`: it ",
            job->name, job->name, SLICE_ARG(run->id));
    else if (ledger_is_held(run))
        buf_add_format(to, "is held (%.*s): once it continues, it ",
            SLICE_ARG(run->error));
    else if (run->state == LEDGER_QUEUED)
        buf_add_text(to, "is queued: once a worker takes it, it ");
    else if (slice_is(run->waits_for, LEDGER_WAITS_FOR_TURN))
        buf_add_text(to, "waits for its turn: then it ");
}

/* Does the run need a wake-up message to make its last rounds soon? Its own
 * message is not enough: it becomes visible only when the run would have
 * continued without the request, or it is on a queue that is not served any
 * more. */
static bool needs_wake_up(
    const struct definition *definition, const struct asking *asking)
{
    const struct ledger_run *run = &asking->run;

    if (run->state == LEDGER_WAITING)
        return queue_of(definition, run) != NULL;
    return !asking->asked && run->state != LEDGER_PAUSED &&
           queue_instead(definition, run) != NULL;
}

enum tw_err control_finish(const struct definition *definition,
    struct slice job, struct slice id, bool now, struct buf *done,
    struct err *err)
{
    struct asking asking = {
        .change = set_finishing, .definition = definition, .now = now};
    enum tw_err outcome =
        change_run(definition_store(definition), job, id, &asking, err);

    if (outcome == TW_OK && needs_wake_up(definition, &asking))
        outcome = wake(definition, &asking.run, asking.delay_s, err);
    if (outcome == TW_OK) {
        add_what_is_first(definition, &asking, done);
        buf_add_format(done, "makes its last round%s and ends", now ? "" : "s");
    }
    asking_done(&asking);
    return outcome;
}

enum tw_err control_reopen(
    struct store *store, struct slice job, struct err *err)
{
    struct retry_call call = begin_call();
    enum tw_err outcome;

    do {
        outcome = ledger_reopen(store, &call.exchange, job);
    } while (retry_call_again(&call, outcome));
    return told(outcome, &call.exchange, err);
}

/* ---- poison ---- */

static bool is_poisoned(const struct ledger_run *run)
{
    return run->state == LEDGER_FAILED || run->state == LEDGER_POISONED;
}

bool control_was_retried(const struct ledger_run *run)
{
    return may_lack_message(run) &&
           (run->attempt > 0 || run->poison_id.len > 0);
}

/* Read a failed or poisoned run or, if `retried` is true, a run for which
 * control_was_retried() is true. Any other run is refused. Call
 * ledger_run_done(ret) after any outcome. */
static enum tw_err read_poisoned(struct store *store, struct slice job,
    struct slice id, bool retried, struct ledger_run *ret, struct err *err)
{
    struct retry_call call = begin_call();
    enum tw_err outcome;

    ledger_run_init(ret);
    do {
        outcome = ledger_get(store, &call.exchange, job, id, ret);
    } while (retry_call_again(&call, outcome));
    if (outcome == TW_OK && !is_poisoned(ret) &&
        !(retried && control_was_retried(ret)))
        return refuse_state(ret, err);
    return told(outcome, &call.exchange, err);
}

/* Is this the entity of a message that never became a run? Such an entity has
 * no arguments. */
static bool is_unreadable(const struct ledger_run *run)
{
    return run->args.len == 0;
}

/* Call for a retry. If the definition of the run's job has changed, and
 * asking->accept is set, accept the definition. If it has changed, and
 * asking->accept is not set, fail with TW_CONFLICT. */
static enum tw_err accept_change(
    struct asking *asking, struct ledger_run *run, struct err *err)
{
    const struct job *job = jobs_find(asking->definition->jobs, run->job);

    if (!needs_acceptance(asking, run))
        return TW_OK;
    if (!asking->accept)
        return err_fail(err, TW_CONFLICT,
            "the definition of job %s has changed since run %.*s began: "
            "restore it, or accept the new one with `poison retry %.*s`",
            job->name, SLICE_ARG(run->id), SLICE_ARG(run->id));
    bound_accept_definition(run, job);
    return TW_OK;
}

static enum tw_err set_queued_again(struct asking *asking,
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    const struct job *job = jobs_find(asking->definition->jobs, run->job);
    enum tw_err outcome;

    asking->changed = job && !job->unset && bound_definition_changed(run, job);
    if (control_was_retried(run))
        return is_so_already(asking);
    if (!is_poisoned(run))
        return refuse_state(run, err);
    outcome = check_job(asking, run, err);
    if (outcome == TW_OK)
        outcome = accept_change(asking, run, err);
    if (outcome == TW_OK)
        outcome = ledger_move(run, LEDGER_QUEUED, err);
    if (outcome != TW_OK)
        return outcome;
    if (is_unreadable(run)) {
        run->args = ledger_text(run, asking->args_json);
        run->binding = (struct slice){0};
    }
    run->failures = run->failed_logged = 0;
    run->silent = ledger_has_crashed_owner(run) ? 1 : 0;
    run->error = run->failed_entities = (struct slice){0};
    /* PoisonId and PoisonReceipt are kept, because a repeated `retry` deletes
     * the present poison copy by them. And if the run ends badly again, the
     * search for its new poison copy must skip the present one. */
    run->owner = run->control = (struct slice){0};
    /* The run may delete other entities now than those that were accepted. */
    ledger_accept_deletes(run, false, now_ticks);
    run->finished_ticks = run->resumes_ticks = 0;
    run->lease_until_ticks = now_ticks;
    return TW_OK;
}

/* Queue the run again. The ledger is written before the message is put, so that
 * the worker that receives the message finds an open run. */
static enum tw_err retry_run(const struct definition *definition,
    struct slice job, struct slice id, bool accept, struct slice args_json,
    struct control_retried *ret, struct err *err)
{
    struct store *store = definition_store(definition);
    struct asking asking = {.change = set_queued_again,
        .definition = definition,
        .accept = accept,
        .args_json = args_json};
    struct err ignored; /* the run is queued even if its poison copy stays */
    enum tw_err outcome = change_run(store, job, id, &asking, err);

    if (outcome == TW_OK && queue_of(definition, &asking.run))
        outcome = wake(definition, &asking.run, 0, err);
    else if (outcome == TW_OK)
        outcome = refuse_unserved(&asking, &asking.run, err);
    /* If no message could be put on a queue, the poison copy is kept until the
     * attempt that ends the run deletes it. */
    if (outcome == TW_OK)
        (void)!delete_copy(store, &asking.before, &ignored);
    *ret = (struct control_retried){
        .unserved = asking.unserved, .changed = asking.changed};
    asking_done(&asking);
    return outcome;
}

/* Find the poison copy of an unreadable message among the first messages of the
 * poison queue. */
static enum tw_err find_copy(struct store *store, const struct ledger_run *run,
    struct messages *copies, size_t *ret_index, struct err *err)
{
    struct retry_call call = begin_call();
    char *queue = poison_queue_of(run);
    enum tw_err outcome;

    do {
        outcome = store_queue_peek(
            store, &call.exchange, queue, QUEUE_MAX_GET, copies);
    } while (retry_call_again(&call, outcome));
    mem_free(queue);
    if (outcome != TW_OK)
        return told(outcome, &call.exchange, err);
    for (size_t i = 0; i < copies->count; i++) {
        if (slice_equal(copies->list[i].id, run->poison_id)) {
            *ret_index = i;
            return TW_OK;
        }
    }
    return err_fail(err, TW_INVALID,
        "the copy of message %.*s is not among the first %d messages of queue "
        "%.*s%s: put the message back by hand",
        SLICE_ARG(run->id), QUEUE_MAX_GET, SLICE_ARG(run->queue),
        SETUP_POISON_SUFFIX);
}

/*
 * Compose the message that is put on queue in place of the poison copy. copy:
 * the text of the poison copy. On a bound queue the message is the same text,
 * because the whole body is the argument and nothing can be added. On a queue
 * without a job the time of the request is added. If the entity is under
 * LEDGER_UNREADABLE, its id is added as the id of the run. If the entity is
 * under a job's name, it occupies this id, so the run gets a new one.
 */
static void retell(const struct ledger_run *run,
    const struct setup_queue *queue, struct slice copy, struct buf *to)
{
    bool is_free = slice_is(run->job, LEDGER_UNREADABLE);

    if (queue->job)
        buf_add_slice(to, copy);
    else
        message_retell(copy, is_free ? run->id : (struct slice){0},
            run->requested_ticks, to);
}

/* Put a refused message back on queue, which reads it as the former queue did.
 * copy: the body of its poison copy. */
static enum tw_err put_back(struct store *store,
    const struct setup_queue *queue, const struct ledger_run *run,
    struct slice copy, struct err *err)
{
    struct messages put;
    struct buf text;
    enum tw_err outcome;

    messages_init(&put);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    retell(run, queue, copy, &text);
    outcome = put_message(store,
        &(struct order){.queue = queue->name,
            .text = buf_slice(&text),
            .is_json = !queue->job},
        &put, err);
    buf_done(&text);
    messages_done(&put);
    return outcome;
}

/*
 * Is queue bound to the entity's job, and is copy, the body of a poison copy, a
 * valid argument on this queue now? Then the entity itself becomes the run, as
 * if the message had not been refused. So the run keeps RequestedAt, which is
 * not in the body, and a repeated `retry` makes no second run.
 */
static bool is_argument(const struct definition *definition,
    const struct setup_queue *queue, const struct ledger_run *run,
    struct slice copy, struct arena *arena, struct slice *ret_args_json)
{
    struct err ignored;
    struct request request;

    if (!queue->job || !slice_is(run->job, queue->job->name) ||
        message_read(
            queue, definition->jobs, copy, arena, &request, &ignored) != TW_OK)
        return false;
    *ret_args_json = request.args_json;
    return true;
}

/* Retry a message with the body of its poison copy: make its entity the run if
 * is_argument(); otherwise put the message back on a queue, then set the state
 * of the entity to `cancelled`. */
static enum tw_err retry_copy(const struct definition *definition,
    const struct ledger_run *run, struct slice copy,
    struct control_retried *ret, struct err *err)
{
    const struct setup_queue *queue =
        binding_queue_of_copy(definition, run, copy, err);
    struct store *store = definition_store(definition);
    struct slice args_json;
    struct arena arena;
    enum tw_err outcome;

    ret->unserved = queue == NULL;
    if (!queue)
        return TW_NOT_FOUND;
    arena_init(&arena);
    if (is_argument(definition, queue, run, copy, &arena, &args_json)) {
        outcome =
            retry_run(definition, run->job, run->id, true, args_json, ret, err);
    } else {
        outcome = put_back(store, queue, run, copy, err);
        if (outcome == TW_OK)
            outcome = control_drop(store, run->job, run->id, err);
    }
    arena_done(&arena);
    return outcome;
}

static enum tw_err retry_unreadable(const struct definition *definition,
    const struct ledger_run *run, struct control_retried *ret, struct err *err)
{
    struct messages copies;
    size_t index = 0;
    enum tw_err outcome;

    messages_init(&copies);
    outcome =
        find_copy(definition_store(definition), run, &copies, &index, err);
    if (outcome == TW_OK)
        outcome =
            retry_copy(definition, run, copies.list[index].text, ret, err);
    messages_done(&copies);
    return outcome;
}

enum tw_err control_retry(const struct definition *definition, struct slice job,
    struct slice id, bool accept, struct control_retried *ret, struct err *err)
{
    struct store *store = definition_store(definition);
    struct ledger_run run;
    enum tw_err outcome;

    *ret = (struct control_retried){.unserved = false};
    outcome = read_poisoned(store, job, id, true, &run, err);
    if (outcome == TW_OK)
        outcome = is_poisoned(&run) && is_unreadable(&run)
                      ? retry_unreadable(definition, &run, ret, err)
                      : retry_run(definition, job, id, accept,
                            (struct slice){0}, ret, err);
    ledger_run_done(&run);
    return outcome;
}

static enum tw_err set_dropped(struct asking *asking, struct ledger_run *run,
    int64_t now_ticks, struct err *err)
{
    (void)asking;
    if (!is_poisoned(run))
        return refuse_state(run, err);
    run->poison_id = run->poison_receipt = (struct slice){0};
    if (run->finished_ticks == 0)
        run->finished_ticks = now_ticks;
    return ledger_move(run, LEDGER_CANCELLED, err);
}

/* Drops the run. The poison copy is deleted before the ledger is changed. After
 * a crash in between, the ledger still has the id of the poison copy, so `drop`
 * can be repeated. */
enum tw_err control_drop(
    struct store *store, struct slice job, struct slice id, struct err *err)
{
    struct asking asking = {.change = set_dropped};
    struct ledger_run run;
    enum tw_err outcome = read_poisoned(store, job, id, false, &run, err);

    if (outcome == TW_OK)
        outcome = delete_copy(store, &run, err);
    if (outcome == TW_OK) {
        outcome = change_run(store, job, id, &asking, err);
        asking_done(&asking);
    }
    ledger_run_done(&run);
    return outcome;
}
