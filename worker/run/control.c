/* SPDX-License-Identifier: MIT */
/* What people ask of runs from outside a worker. */
#include "worker/run/control.h"

#include <assert.h>
#include <stdio.h>

#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/message.h"
#include "worker/store/store.h"

/* How often a write is tried against others who write the same entity. */
#define ROUNDS 8

/* ---- requests ---- */

static enum tw_err told(
    enum tw_err outcome, const struct attempt *attempt, struct err *err)
{
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", attempt->err.text);
    return outcome;
}

static enum tw_err read_run(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, struct err *err)
{
    struct attempt attempt = {0};

    return told(ledger_get(store, &attempt, job, id, ret), &attempt, err);
}

/* Insert; the ledger's table is made where it is missing. */
static enum tw_err insert_run(
    struct store *store, struct ledger_run *run, struct err *err)
{
    struct attempt attempt = {0};
    enum tw_err outcome = ledger_insert(store, &attempt, run);

    if (outcome == TW_NOT_FOUND) {
        attempt = (struct attempt){0};
        outcome = ledger_create(store, &attempt);
        if (outcome != TW_OK)
            return told(outcome, &attempt, err);
        attempt = (struct attempt){0};
        outcome = ledger_insert(store, &attempt, run);
    }
    return told(outcome, &attempt, err);
}

/* Put; the queue is made where it is missing. */
static enum tw_err put_message(struct store *store, const char *queue,
    struct slice text, int64_t delay_s, struct messages *ret, struct err *err)
{
    struct attempt attempt = {0};
    enum tw_err outcome =
        store_queue_put(store, &attempt, queue, text, delay_s, ret);

    if (outcome == TW_NOT_FOUND) {
        attempt = (struct attempt){0};
        outcome = store_queue_create(store, &attempt, queue);
        if (outcome != TW_OK)
            return told(outcome, &attempt, err);
        attempt = (struct attempt){0};
        outcome = store_queue_put(store, &attempt, queue, text, delay_s, ret);
    }
    return told(outcome, &attempt, err);
}

/* The service's clock, which an answer about nothing at all brings. */
static int64_t service_now(struct store *store)
{
    struct attempt attempt = {0};
    struct ledger_run none;

    ledger_run_init(&none);
    (void)!ledger_get(store, &attempt, slice_of(LEDGER_UNREADABLE),
        slice_of("-clock"), &none);
    ledger_run_done(&none);
    return attempt.date_ticks ? attempt.date_ticks : world_wall_ticks();
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
    if (what->delay_s > 0)
        run->resumes_ticks = now_ticks + what->delay_s * TICKS_PER_S;
    buf_done(&args);
}

/* The id is there already: is it this very run, and still open? */
static enum tw_err check_known(
    struct store *store, struct ledger_run *run, struct err *err)
{
    struct ledger_run known;
    enum tw_err outcome;

    ledger_run_init(&known);
    outcome = read_run(store, run->job, run->id, &known, err);
    if (outcome == TW_OK && !message_args_same(run->args, known.args))
        outcome = err_fail(err, TW_CONFLICT,
            "the id %.*s is known with other arguments", SLICE_ARG(run->id));
    else if (outcome == TW_OK && ledger_state_ended(known.state))
        outcome = err_fail(err, TW_CONFLICT, "run %.*s/%.*s has %s already",
            SLICE_ARG(run->job), SLICE_ARG(run->id),
            ledger_state_name(known.state));
    else if (outcome == TW_OK)
        run->requested_ticks = known.requested_ticks;
    ledger_run_done(&known);
    return outcome;
}

/* TW_TOO_LARGE: said before anything is stored. */
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

/* The run's entity, or the one that is there: *ret_new: it was not. */
static enum tw_err enter_run(
    struct store *store, struct ledger_run *run, bool *ret_new, struct err *err)
{
    enum tw_err outcome = insert_run(store, run, err);

    *ret_new = outcome == TW_OK;
    if (outcome == TW_CONFLICT || outcome == TW_UNKNOWN)
        outcome = check_known(store, run, err);
    return outcome;
}

/* Refused: its message is not on the queue, so nobody is to find the entity
 * and do what was told not to have been asked for. */
static void withdraw(
    struct store *store, struct ledger_run *run, struct err *err)
{
    struct attempt attempt = {0};
    const struct err why = *err;

    if (ledger_withdraw(store, &attempt, run) == TW_OK)
        return;
    (void)err_fail(err, TW_BUSY,
        "%s; and run %.*s/%.*s stays in the ledger, so it may be done all the "
        "same: cancel it, or enqueue it again",
        why.text, SLICE_ARG(run->job), SLICE_ARG(run->id));
}

static enum tw_err put_new(struct store *store,
    const struct control_enqueue *what, struct ledger_run *run,
    struct buf *text, struct err *err)
{
    struct messages put;
    bool is_new;
    enum tw_err outcome = enter_run(store, run, &is_new, err);

    if (outcome == TW_OK)
        outcome = compose(run, text, err);
    if (outcome != TW_OK)
        return outcome;
    messages_init(&put);
    outcome = put_message(
        store, what->queue->name, buf_slice(text), what->delay_s, &put, err);
    if (is_new && outcome != TW_OK && outcome != TW_UNKNOWN)
        withdraw(store, run, err);
    messages_done(&put);
    return outcome;
}

/* Ledger first, so that whoever takes the message finds the request's time. */
static enum tw_err enqueue_json(struct store *store,
    const struct control_enqueue *what, struct slice id, struct err *err)
{
    struct ledger_run run;
    struct buf text;
    enum tw_err outcome;

    ledger_run_init(&run);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    set_queued(&run, what, id, service_now(store));
    outcome = compose(&run, &text, err);
    if (outcome == TW_OK)
        outcome = put_new(store, what, &run, &text, err);
    buf_done(&text);
    ledger_run_done(&run);
    return outcome;
}

/* The whole body is the argument; the message's id is the run's. */
static enum tw_err enqueue_bound(struct store *store,
    const struct control_enqueue *what, char *ret_id, struct err *err)
{
    struct ledger_run run;
    struct messages put;
    struct buf text;
    enum tw_err outcome;

    ledger_run_init(&run);
    messages_init(&put);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    if (what->queue->base64)
        crypto_base64(&text, what->args.values[0]);
    else
        buf_add_slice(&text, what->args.values[0]);
    outcome = put_message(
        store, what->queue->name, buf_slice(&text), what->delay_s, &put, err);
    if (outcome == TW_OK) {
        (void)snprintf(
            ret_id, QUEUE_ID_MAX + 1, "%.*s", SLICE_ARG(put.list[0].id));
        set_queued(&run, what, put.list[0].id, put.list[0].inserted_ticks);
        /* A worker that was faster has made it already. */
        if (insert_run(store, &run, err) == TW_REFUSED)
            outcome = TW_REFUSED;
    }
    buf_done(&text);
    messages_done(&put);
    ledger_run_done(&run);
    return outcome;
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
    return outcome;
}

/* ---- changing a run ---- */

/*
 * A change: look at run, alter it, say which marker goes along. Anything but
 * TW_OK ends it, nothing is written.
 */
typedef enum tw_err change_function(
    struct ledger_run *run, int64_t now_ticks, struct err *err);

/* Is what is stored what we wanted to store? After an unknown outcome. */
static bool landed(
    const struct ledger_run *wanted, const struct ledger_run *now)
{
    return now->state == wanted->state &&
           now->updated_ticks == wanted->updated_ticks;
}

static enum tw_err write_changed(struct store *store, struct ledger_run *run,
    enum ledger_marker marker, struct err *err)
{
    struct attempt attempt = {0};
    struct ledger_run now;
    enum tw_err outcome = ledger_update(store, &attempt, run, marker);

    if (outcome != TW_UNKNOWN)
        return told(outcome, &attempt, err);
    ledger_run_init(&now);
    outcome = read_run(store, run->job, run->id, &now, err);
    if (outcome == TW_OK && landed(run, &now))
        run->etag = ledger_text(run, now.etag);
    else if (outcome == TW_OK)
        outcome = TW_CONFLICT;
    ledger_run_done(&now);
    return outcome;
}

/* Read, change, write; again where somebody else wrote meanwhile. before gets
 * the run as it was. */
static enum tw_err change_run(struct store *store, struct slice job,
    struct slice id, change_function *change, enum ledger_marker marker,
    struct ledger_run *run, struct ledger_run *before, struct err *err)
{
    enum tw_err outcome = TW_CONFLICT;

    for (int round = 0; round < ROUNDS; round++) {
        struct attempt attempt = {0};

        outcome = ledger_get(store, &attempt, job, id, run);
        if (outcome != TW_OK)
            return told(outcome, &attempt, err);
        ledger_copy(before, run);
        outcome = change(run, attempt.date_ticks, err);
        if (outcome != TW_OK)
            return outcome;
        outcome = write_changed(store, run, marker, err);
        if (outcome != TW_CONFLICT)
            return outcome;
    }
    return err_fail(err, TW_BUSY, "run %.*s/%.*s keeps changing",
        SLICE_ARG(job), SLICE_ARG(id));
}

static enum tw_err refuse_state(const struct ledger_run *run, struct err *err)
{
    return err_fail(err, TW_CONFLICT, "run %.*s/%.*s is %s",
        SLICE_ARG(run->job), SLICE_ARG(run->id), ledger_state_name(run->state));
}

/* ---- cancel ---- */

static enum tw_err set_cancelled(
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    if (ledger_state_ended(run->state))
        return refuse_state(run, err);
    (void)ledger_move(run, LEDGER_CANCELLED);
    run->updated_ticks = run->finished_ticks = now_ticks;
    run->resumes_ticks = 0;
    return TW_OK;
}

enum tw_err control_cancel(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, struct err *err)
{
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    outcome = change_run(
        store, job, id, set_cancelled, LEDGER_MARKER_REMOVE, &run, ret, err);
    ledger_run_done(&run);
    return outcome;
}

/* ---- poison ---- */

static bool is_poisoned(const struct ledger_run *run)
{
    return run->state == LEDGER_FAILED || run->state == LEDGER_POISONED;
}

/* A message that never became a run: it has a reason, but no arguments. */
static bool is_unreadable(const struct ledger_run *run)
{
    return run->args.len == 0;
}

static char *poison_queue_of(const struct ledger_run *run)
{
    return mem_format("%.*s%s", SLICE_ARG(run->queue), SETUP_POISON_SUFFIX);
}

/* TW_OK also where the copy is gone, or its receipt lost to somebody who
 * looked: then it stays, and means nothing any more. */
static enum tw_err delete_copy(
    struct store *store, const struct ledger_run *run, struct err *err)
{
    struct attempt attempt = {0};
    struct slice id = run->poison_id, receipt = run->poison_receipt;
    char *queue = poison_queue_of(run);
    enum tw_err outcome = TW_OK;

    if (id.len > 0 && receipt.len > 0)
        outcome = store_queue_delete(store, &attempt, queue, id, receipt);
    if (outcome == TW_BUSY) {
        attempt = (struct attempt){0};
        outcome = store_queue_delete(store, &attempt, queue, id, receipt);
    }
    mem_free(queue);
    if (outcome == TW_OK || outcome == TW_CONFLICT || outcome == TW_NOT_FOUND)
        return TW_OK;
    return told(outcome, &attempt, err);
}

static enum tw_err set_queued_again(
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    if (!is_poisoned(run))
        return refuse_state(run, err);
    (void)ledger_move(run, LEDGER_QUEUED);
    run->failures = run->silent = 0;
    run->error = run->failed_entities = (struct slice){0};
    run->owner = run->poison_id = run->poison_receipt = (struct slice){0};
    run->finished_ticks = run->resumes_ticks = 0;
    run->updated_ticks = run->lease_until_ticks = now_ticks;
    return TW_OK;
}

static enum tw_err retry_run(
    struct store *store, struct slice job, struct slice id, struct err *err)
{
    struct ledger_run run, before;
    struct messages put;
    struct buf bell;
    struct err ignored; /* the run is queued, whatever its copy says */
    enum tw_err outcome;

    ledger_run_init(&run);
    ledger_run_init(&before);
    messages_init(&put);
    buf_init(&bell, 8 * QUEUE_MAX_MESSAGE_BYTES);
    outcome = change_run(store, job, id, set_queued_again, LEDGER_MARKER_ADD,
        &run, &before, err);
    if (outcome == TW_OK && run.queue.len > 0) {
        char *queue = mem_format("%.*s", SLICE_ARG(run.queue));

        message_compose(run.job, run.args, run.id, 0, run.traceparent, &bell);
        outcome = put_message(store, queue, buf_slice(&bell), 0, &put, err);
        mem_free(queue);
    }
    if (outcome == TW_OK)
        (void)!delete_copy(store, &before, &ignored);
    buf_done(&bell);
    messages_done(&put);
    ledger_run_done(&before);
    ledger_run_done(&run);
    return outcome;
}

/* The copy of an unreadable message among the first of the poison queue. */
static enum tw_err find_copy(struct store *store, const struct ledger_run *run,
    struct messages *copies, size_t *ret_index, struct err *err)
{
    struct attempt attempt = {0};
    char *queue = poison_queue_of(run);
    enum tw_err outcome =
        store_queue_peek(store, &attempt, queue, QUEUE_MAX_GET, copies);

    mem_free(queue);
    if (outcome != TW_OK)
        return told(outcome, &attempt, err);
    for (size_t i = 0; i < copies->count; i++) {
        if (slice_equal(copies->list[i].id, run->poison_id)) {
            *ret_index = i;
            return TW_OK;
        }
    }
    return err_fail(err, TW_INVALID,
        "the copy of message %.*s is not among the first %d of queue "
        "%.*s%s: put it back by hand",
        SLICE_ARG(run->id), QUEUE_MAX_GET, SLICE_ARG(run->queue),
        SETUP_POISON_SUFFIX);
}

/*
 * The copy's text, with the time of its request and, where nothing but the
 * reason stands under its id, with that id: it was the run's. The entity of a
 * job's own message has taken its id, so there the run gets a new one.
 */
static void retell(
    const struct ledger_run *run, struct slice copy, struct buf *to)
{
    bool is_free = slice_is(run->job, LEDGER_UNREADABLE);

    message_retell(
        copy, is_free ? run->id : (struct slice){0}, run->requested_ticks, to);
}

/* Its own entity has nothing more to say. */
static enum tw_err retry_unreadable(
    struct store *store, const struct ledger_run *run, struct err *err)
{
    struct messages copies, put;
    struct buf text;
    char *queue;
    size_t index = 0;
    enum tw_err outcome;

    messages_init(&copies);
    messages_init(&put);
    buf_init(&text, 8 * QUEUE_MAX_MESSAGE_BYTES);
    outcome = find_copy(store, run, &copies, &index, err);
    if (outcome == TW_OK) {
        retell(run, copies.list[index].text, &text);
        queue = mem_format("%.*s", SLICE_ARG(run->queue));
        outcome = put_message(store, queue, buf_slice(&text), 0, &put, err);
        mem_free(queue);
    }
    if (outcome == TW_OK)
        outcome = control_drop(store, run->job, run->id, err);
    buf_done(&text);
    messages_done(&put);
    messages_done(&copies);
    return outcome;
}

enum tw_err control_retry(
    struct store *store, struct slice job, struct slice id, struct err *err)
{
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    outcome = read_run(store, job, id, &run, err);
    if (outcome == TW_OK && !is_poisoned(&run))
        outcome = refuse_state(&run, err);
    if (outcome == TW_OK)
        outcome = is_unreadable(&run) ? retry_unreadable(store, &run, err)
                                      : retry_run(store, job, id, err);
    ledger_run_done(&run);
    return outcome;
}

static enum tw_err set_dropped(
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    if (!is_poisoned(run))
        return refuse_state(run, err);
    run->poison_id = run->poison_receipt = (struct slice){0};
    run->updated_ticks = now_ticks;
    (void)ledger_move(run, LEDGER_CANCELLED);
    return TW_OK;
}

/* The copy first: what is cut off between can be asked for again, for the
 * ledger still knows the copy. */
enum tw_err control_drop(
    struct store *store, struct slice job, struct slice id, struct err *err)
{
    struct ledger_run run, before;
    enum tw_err outcome;

    ledger_run_init(&run);
    ledger_run_init(&before);
    outcome = read_run(store, job, id, &run, err);
    if (outcome == TW_OK && !is_poisoned(&run))
        outcome = refuse_state(&run, err);
    if (outcome == TW_OK)
        outcome = delete_copy(store, &run, err);
    if (outcome == TW_OK)
        outcome = change_run(store, job, id, set_dropped, LEDGER_MARKER_KEEP,
            &run, &before, err);
    ledger_run_done(&before);
    ledger_run_done(&run);
    return outcome;
}
