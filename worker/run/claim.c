/* SPDX-License-Identifier: MIT */
/* The right of one attempt to work on one run. */
#include "worker/run/claim.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "jobs/job.h"
#include "worker/base/crypto.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/message.h"
#include "worker/run/setup.h"
#include "worker/store/pace.h"

/* How often a claim is tried against others who write the same entity. */
#define CLAIM_ROUNDS 5
/* Silent attempts are spaced by so many visibility timeouts. */
#define SILENT_SPACING 10
#define HIDE_MAX_S INT64_C(604800)

/* ---- clocks and deadlines ---- */

static void note_clock(struct claim *claim, const struct attempt *attempt)
{
    if (attempt->sent_ms != 0)
        claim->requests++;
    if (attempt->date_ticks == 0)
        return;
    claim->date_ticks = attempt->date_ticks;
    claim->date_sent_ms = attempt->sent_ms;
    claim->date_answered_ms = world_boot_ms() + 1; /* it was rounded down */
}

int64_t claim_now(const struct claim *claim)
{
    if (claim->date_ticks == 0)
        return world_wall_ticks();
    return claim->date_ticks +
           (world_boot_ms() - claim->date_answered_ms) * TICKS_PER_MS;
}

int64_t claim_boot_ms(const struct claim *claim, int64_t ticks)
{
    int64_t left_ms =
        (ticks - claim_now(claim) + TICKS_PER_MS - 1) / TICKS_PER_MS;

    return world_boot_ms() + (left_ms > 0 ? left_ms : 0);
}

/* What the service's clock cannot be beyond at boot time at_ms, plus the
 * visibility timeout: see the header. */
static int64_t lease_until(const struct claim *claim, int64_t at_ms)
{
    return claim->date_ticks + TICKS_PER_S +
           (at_ms - claim->date_sent_ms + claim->visibility_timeout_ms) *
               TICKS_PER_MS;
}

static void move_deadlines(struct claim *claim)
{
    int64_t earlier = claim->ledger_deadline_ms;

    if (claim->message_deadline_ms < earlier)
        earlier = claim->message_deadline_ms;
    fence_move(&claim->fence, earlier);
    fence_move(&claim->own, claim->ledger_deadline_ms + claim->own.request_ms);
}

static struct attempt own_attempt(struct claim *claim)
{
    return (struct attempt){.fence = &claim->own, .retry_after_ms = -1};
}

static void pause_ms(int64_t wait_ms)
{
    struct world_mutex mutex;
    struct world_cond cond;
    int64_t until_ms = world_boot_ms() + wait_ms;

    world_mutex_init(&mutex);
    world_cond_init(&cond);
    world_lock(&mutex);
    while (world_wait(&cond, &mutex, until_ms))
        continue;
    world_unlock(&mutex);
    world_cond_done(&cond);
    world_mutex_done(&mutex);
}

/* Wait before another try; false: it would come too late, or too often. */
static bool try_again(
    struct claim *claim, const struct attempt *attempt, unsigned tries)
{
    uint64_t random;
    int64_t delay_ms;

    if (tries >= PACE_TRIES)
        return false;
    world_random(&random, sizeof(random));
    delay_ms = pace_delay_ms(tries, random, attempt->retry_after_ms);
    if (!fence_open(&claim->own, world_boot_ms() + delay_ms))
        return false;
    pause_ms(delay_ms);
    return true;
}

/* ---- a claim ---- */

static void copy_name(char *to, size_t room, struct slice from)
{
    assert(from.len < room);
    (void)snprintf(to, room, "%.*s", SLICE_ARG(from));
}

static void take_message(
    struct claim *claim, const struct claim_message *message)
{
    claim->has_message = true;
    claim->message_deadline_ms =
        message->sent_ms + claim->visibility_timeout_ms;
    claim->text = mem_text(message->text.at, message->text.len);
    claim->text_len = message->text.len;
    copy_name(claim->queue, sizeof(claim->queue), slice_of(message->queue));
    copy_name(claim->message_id, sizeof(claim->message_id), message->id);
    copy_name(
        claim->pop_receipt, sizeof(claim->pop_receipt), message->pop_receipt);
}

void claim_init(struct claim *claim, const struct claim_wish *wish)
{
    *claim = (struct claim){.store = wish->store,
        .visibility_timeout_ms = wish->visibility_timeout_s * 1000,
        .message_deadline_ms = WORLD_NEVER,
        .ledger_deadline_ms = WORLD_NEVER};
    ledger_run_init(&claim->run);
    fence_init(&claim->fence, WORLD_NEVER,
        fence_request_ms(claim->visibility_timeout_ms));
    fence_init(&claim->own, WORLD_NEVER, claim->fence.request_ms / 2);
    if (wish->message)
        take_message(claim, wish->message);
}

void claim_done(struct claim *claim)
{
    ledger_run_done(&claim->run);
    mem_free(claim->text);
    claim->text = NULL;
}

/* ---- taking ---- */

static void set_worker(struct ledger_run *run)
{
    char host[256] = "", name[300];

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(name, sizeof(name), "%s:%d", host, (int)getpid());
    run->worker = ledger_text(run, slice_of(name));
}

/* A run that nobody has written yet. */
static void begin_run(struct claim *claim, const struct claim_wish *wish)
{
    struct ledger_run *run = &claim->run;

    ledger_run_done(run);
    run->job = ledger_text(run, slice_of(wish->job->name));
    run->id = ledger_text(run, wish->id);
    run->args = ledger_text(run, wish->args_json);
    run->traceparent = ledger_text(run, wish->traceparent);
}

static void set_request(struct claim *claim, const struct claim_wish *wish)
{
    struct ledger_run *run = &claim->run;

    if (run->requested_ticks != 0)
        return;
    run->requested_ticks = wish->requested_ticks;
    if (run->requested_ticks == 0 && wish->message)
        run->requested_ticks = wish->message->inserted_ticks;
    if (run->requested_ticks == 0)
        run->requested_ticks = run->started_ticks;
}

/* A checkpoint that was made under another definition is not used. */
static void set_definition(struct claim *claim, const struct job *job)
{
    struct ledger_run *run = &claim->run;

    claim->starts_over = false;
    if (run->checkpoint.len > 0 && !slice_is(run->definition, job->hash)) {
        log_info("run",
            "%.*s/%.*s: the job's definition has changed since "
            "the checkpoint: starting over",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
        run->checkpoint = (struct slice){0};
        claim->starts_over = true;
    }
    run->definition = ledger_text(run, slice_of(job->hash));
}

/* Make the entity that says: mine. judge() has seen that its state allows it.
 */
static void stake(
    struct claim *claim, const struct claim_wish *wish, int64_t at_ms)
{
    struct ledger_run *run = &claim->run;

    (void)ledger_move(run, LEDGER_RUNNING);
    text_random_id(claim->owner);
    claim->took_over = run->owner.len > 0;
    run->owner = ledger_text(run, slice_of(claim->owner));
    run->epoch++;
    run->attempt++;
    run->silent++;
    run->resumes_ticks = 0;
    run->lease_until_ticks = lease_until(claim, at_ms);
    run->updated_ticks = claim_now(claim);
    if (run->started_ticks == 0)
        run->started_ticks = run->updated_ticks;
    set_request(claim, wish);
    run->kind = ledger_text(run, slice_of(wish->job->kind->name));
    if (wish->message)
        run->queue = ledger_text(run, slice_of(wish->message->queue));
    set_worker(run);
    set_definition(claim, wish->job);
}

/* Until when must this run be left alone? 0: it need not. */
static int64_t held_until(
    const struct claim *claim, const struct claim_wish *wish)
{
    const struct ledger_run *run = &claim->run;
    int64_t until = run->resumes_ticks;
    int64_t lease = run->owner.len > 0 ? run->lease_until_ticks : 0;

    if (lease > 0 && run->silent >= wish->max_attempts)
        lease += SILENT_SPACING * claim->visibility_timeout_ms * TICKS_PER_MS;
    if (lease > until)
        until = lease;
    return until > claim->date_ticks ? until : 0;
}

/* The first request: what does the ledger say? TW_INVALID: what is there makes
 * no sense; a request that is refused as such is an outage. */
static enum tw_err look(struct claim *claim, const struct claim_wish *wish,
    bool *ret_there, struct err *err)
{
    struct attempt attempt = own_attempt(claim);
    enum tw_err outcome = ledger_get(claim->store, &attempt,
        slice_of(wish->job->name), wish->id, &claim->run);

    note_clock(claim, &attempt);
    *ret_there = outcome == TW_OK;
    if (outcome == TW_NOT_FOUND && attempt.date_ticks != 0)
        return TW_OK;
    if (outcome == TW_INVALID && attempt.http_status >= 400)
        outcome = TW_BUSY;
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", attempt.err.text);
    return outcome;
}

/* The table has gone since the worker began: it comes back. */
static enum tw_err insert_run(struct claim *claim, struct attempt *attempt)
{
    enum tw_err outcome = ledger_insert(claim->store, attempt, &claim->run);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    note_clock(claim, attempt);
    *attempt = own_attempt(claim);
    outcome = ledger_create(claim->store, attempt);
    if (outcome != TW_OK)
        return outcome == TW_UNKNOWN ? TW_BUSY : outcome;
    note_clock(claim, attempt);
    *attempt = own_attempt(claim);
    return ledger_insert(claim->store, attempt, &claim->run);
}

/* After an unknown claim: is it ours after all? One that was cancelled in
 * between keeps our name, and has ended. */
static enum tw_err look_for_stake(struct claim *claim)
{
    struct attempt attempt = own_attempt(claim);
    struct ledger_run stored;
    enum tw_err outcome;

    ledger_run_init(&stored);
    outcome = ledger_get(
        claim->store, &attempt, claim->run.job, claim->run.id, &stored);
    note_clock(claim, &attempt);
    if (outcome == TW_OK) {
        if (slice_equal(stored.owner, claim->run.owner) &&
            stored.epoch == claim->run.epoch && stored.state == LEDGER_RUNNING)
            claim->run.etag = ledger_text(&claim->run, stored.etag);
        else
            outcome = TW_CONFLICT;
    } else if (outcome == TW_NOT_FOUND) {
        outcome = TW_CONFLICT;
    }
    ledger_run_done(&stored);
    return outcome;
}

/* The second request: mine. TW_CONFLICT: look again. */
static enum tw_err write_stake(struct claim *claim,
    const struct claim_wish *wish, bool there, struct err *err)
{
    struct attempt attempt = own_attempt(claim);
    int64_t at_ms = world_boot_ms();
    enum tw_err outcome;

    stake(claim, wish, at_ms);
    if (there)
        outcome = ledger_update(
            claim->store, &attempt, &claim->run, LEDGER_MARKER_KEEP);
    else
        outcome = insert_run(claim, &attempt);
    note_clock(claim, &attempt);
    if (outcome == TW_UNKNOWN)
        outcome = look_for_stake(claim);
    if (outcome == TW_NOT_FOUND)
        outcome = TW_CONFLICT;
    if (outcome != TW_OK)
        return outcome == TW_CONFLICT
                   ? outcome
                   : err_fail(err, outcome, "%s", attempt.err.text);
    claim->ledger_deadline_ms = at_ms + claim->visibility_timeout_ms;
    move_deadlines(claim);
    return TW_OK;
}

/* What stands in the way of a claim of what has just been read. */
static enum claim_outcome judge(struct claim *claim,
    const struct claim_wish *wish, bool there, struct err *err)
{
    if (!there)
        return wish->must_exist ? CLAIM_MISSING : CLAIM_TAKEN;
    if (wish->args_json.len > 0 &&
        !message_args_same(wish->args_json, claim->run.args)) {
        (void)err_fail(err, TW_INVALID,
            "the id %.*s is known with other arguments", SLICE_ARG(wish->id));
        return CLAIM_REFUSED;
    }
    if (ledger_state_ended(claim->run.state))
        return CLAIM_ENDED;
    claim->until_ticks = held_until(claim, wish);
    return claim->until_ticks != 0 ? CLAIM_HELD : CLAIM_TAKEN;
}

enum claim_outcome claim_take(struct claim *claim,
    const struct claim_wish *wish, enum tw_err *ret_outcome, struct err *err)
{
    enum tw_err outcome = TW_CONFLICT;
    enum claim_outcome verdict;
    bool there;

    for (int round = 0; round < CLAIM_ROUNDS; round++) {
        outcome = look(claim, wish, &there, err);
        if (outcome == TW_INVALID) {
            *ret_outcome = outcome;
            return CLAIM_REFUSED;
        }
        if (outcome != TW_OK)
            break;
        verdict = judge(claim, wish, there, err);
        *ret_outcome = TW_CONFLICT;
        if (verdict != CLAIM_TAKEN)
            return verdict;
        if (!there)
            begin_run(claim, wish);
        outcome = write_stake(claim, wish, there, err);
        if (outcome == TW_OK)
            return CLAIM_TAKEN;
        if (outcome != TW_CONFLICT)
            break;
    }
    if (outcome == TW_CONFLICT)
        outcome = err_fail(err, TW_BUSY, "others keep changing the run");
    *ret_outcome = outcome;
    return CLAIM_OUTAGE;
}

/* ---- keeping ---- */

enum tw_err claim_renew_message(struct claim *claim, struct err *err)
{
    struct attempt attempt = own_attempt(claim);
    int64_t at_ms = world_boot_ms();
    enum tw_err outcome = store_queue_renew(claim->store, &attempt,
        claim->queue, slice_of(claim->message_id), claim->pop_receipt,
        claim->visibility_timeout_ms / 1000);

    if (outcome == TW_OK)
        claim->message_deadline_ms = at_ms + claim->visibility_timeout_ms;
    if (outcome == TW_CONFLICT || outcome == TW_NOT_FOUND) {
        claim->has_message = false;
        claim->message_deadline_ms = WORLD_NEVER;
        outcome = TW_CONFLICT;
    }
    note_clock(claim, &attempt);
    move_deadlines(claim);
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", attempt.err.text);
    return outcome;
}

enum tw_err claim_write(struct claim *claim, struct err *err)
{
    struct attempt attempt = own_attempt(claim);
    int64_t at_ms = world_boot_ms();
    enum tw_err outcome;

    ledger_compact(&claim->run);
    claim->run.lease_until_ticks = lease_until(claim, at_ms);
    claim->run.updated_ticks = claim_now(claim);
    outcome =
        ledger_update(claim->store, &attempt, &claim->run, LEDGER_MARKER_KEEP);
    note_clock(claim, &attempt);
    if (outcome == TW_OK) {
        claim->ledger_deadline_ms = at_ms + claim->visibility_timeout_ms;
        move_deadlines(claim);
    } else {
        (void)err_fail(err, outcome, "%s", attempt.err.text);
    }
    return outcome;
}

/* Each claim is an Epoch of its own; who lets go in order leaves no Owner. */
static bool is_ours(const struct claim *claim, const struct ledger_run *stored)
{
    return stored->epoch == claim->run.epoch &&
           (stored->owner.len == 0 || slice_is(stored->owner, claim->owner));
}

enum claim_word claim_resolve(
    struct claim *claim, struct ledger_run *ret_stored)
{
    struct attempt attempt = own_attempt(claim);
    struct ledger_run stored;
    enum claim_word word = CLAIM_MINE;
    enum tw_err outcome;

    ledger_run_init(&stored);
    outcome = ledger_get(
        claim->store, &attempt, claim->run.job, claim->run.id, &stored);
    note_clock(claim, &attempt);
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID)
        word = CLAIM_OVERTAKEN;
    else if (outcome != TW_OK)
        word = CLAIM_UNREAD;
    else if (!is_ours(claim, &stored))
        word = CLAIM_OVERTAKEN;
    else if (stored.state == LEDGER_CANCELLED)
        word = CLAIM_CANCELLED;
    if (word == CLAIM_MINE)
        ledger_take_others(&claim->run, &stored);
    if (outcome == TW_OK && ret_stored)
        ledger_copy(ret_stored, &stored);
    ledger_run_done(&stored);
    return word;
}

/* ---- letting go ---- */

/* One write of the end, and a look where it was not simply stored. */
static enum claim_word write_end(struct claim *claim, struct attempt *attempt,
    enum ledger_marker marker, bool *ret_stored)
{
    struct ledger_run stored;
    enum claim_word word;
    enum tw_err outcome;

    *attempt = own_attempt(claim);
    *ret_stored = false;
    claim->run.transactions++; /* this very write */
    claim->run.lease_until_ticks = claim->run.updated_ticks = claim_now(claim);
    outcome = ledger_update(claim->store, attempt, &claim->run, marker);
    note_clock(claim, attempt);
    if (outcome == TW_OK) {
        *ret_stored = true;
        return CLAIM_MINE;
    }
    if (outcome != TW_CONFLICT && outcome != TW_NOT_FOUND &&
        outcome != TW_UNKNOWN)
        return CLAIM_UNREAD;
    ledger_run_init(&stored);
    word = claim_resolve(claim, &stored);
    if (word == CLAIM_MINE && stored.owner.len == 0) {
        /* Let go it is; but if it has moved since, as by `poison retry`, that
         * is not to be undone. */
        *ret_stored = stored.state == claim->run.state;
        if (!*ret_stored && stored.state != LEDGER_RUNNING)
            word = CLAIM_OVERTAKEN;
    }
    ledger_run_done(&stored);
    return word;
}

/* A date is cut to its second, and what it tells is late by its answer's way:
 * yet no run ends before it has begun. */
static int64_t now_or_start(const struct claim *claim)
{
    int64_t now_ticks = claim_now(claim);

    return now_ticks > claim->run.started_ticks ? now_ticks
                                                : claim->run.started_ticks;
}

enum claim_word claim_let_go(struct claim *claim, struct err *err)
{
    bool ended = ledger_state_ended(claim->run.state);
    enum ledger_marker marker =
        ended ? LEDGER_MARKER_REMOVE : LEDGER_MARKER_KEEP;
    struct attempt attempt;
    enum claim_word word;
    bool stored;

    claim->run.owner = (struct slice){0};
    if (ended)
        claim->run.finished_ticks = now_or_start(claim);
    for (unsigned tries = 1;; tries++) {
        word = write_end(claim, &attempt, marker, &stored);
        if (word == CLAIM_OVERTAKEN || word == CLAIM_CANCELLED || stored)
            return word;
        if (word == CLAIM_UNREAD)
            (void)err_fail(err, TW_BUSY, "%s", attempt.err.text);
        if (!try_again(claim, &attempt, tries))
            return CLAIM_UNREAD;
    }
}

/* ---- the message ---- */

static void hide_s(struct claim *claim, int64_t seconds)
{
    struct attempt attempt = own_attempt(claim);

    if (!claim->has_message)
        return;
    if (seconds > HIDE_MAX_S)
        seconds = HIDE_MAX_S;
    if (store_queue_renew(claim->store, &attempt, claim->queue,
            slice_of(claim->message_id), claim->pop_receipt,
            seconds < 0 ? 0 : seconds) != TW_OK)
        log_debug("queue", "%s: message %s stays hidden as it is: %s",
            claim->queue, claim->message_id, attempt.err.text);
    note_clock(claim, &attempt);
}

void claim_hide(struct claim *claim, int64_t until_ticks)
{
    int64_t left = until_ticks - claim_now(claim);

    hide_s(claim, left <= 0 ? 0 : (left + TICKS_PER_S - 1) / TICKS_PER_S);
}

void claim_hide_ms(struct claim *claim, int64_t wait_ms)
{
    hide_s(claim, (wait_ms + 999) / 1000);
}

void claim_delete_message(struct claim *claim)
{
    struct attempt attempt;
    enum tw_err outcome;

    for (unsigned tries = 1; claim->has_message; tries++) {
        attempt = own_attempt(claim);
        outcome = store_queue_delete(claim->store, &attempt, claim->queue,
            slice_of(claim->message_id), slice_of(claim->pop_receipt));
        note_clock(claim, &attempt);
        if (outcome == TW_OK || outcome == TW_CONFLICT ||
            outcome == TW_NOT_FOUND)
            claim->has_message = false;
        else if (!try_again(claim, &attempt, tries))
            return;
    }
}

/* Into the poison queue, which is made where it is missing. */
static enum tw_err put_or_create(struct claim *claim, struct attempt *attempt,
    const char *poison_queue, struct slice text, struct messages *ret)
{
    enum tw_err outcome;

    *attempt = own_attempt(claim);
    outcome =
        store_queue_put(claim->store, attempt, poison_queue, text, 0, ret);
    if (outcome != TW_NOT_FOUND)
        return outcome;
    *attempt = own_attempt(claim);
    outcome = store_queue_create(claim->store, attempt, poison_queue);
    if (outcome != TW_OK)
        return outcome;
    *attempt = own_attempt(claim);
    return store_queue_put(claim->store, attempt, poison_queue, text, 0, ret);
}

/* A text that the queue cannot carry goes as base64. */
static enum tw_err put_copy(struct claim *claim, struct attempt *attempt,
    const char *poison_queue, struct slice text, struct messages *ret)
{
    struct buf encoded;
    enum tw_err outcome =
        put_or_create(claim, attempt, poison_queue, text, ret);

    if (outcome != TW_INVALID)
        return outcome;
    buf_init(&encoded, 2 * QUEUE_MAX_MESSAGE_BYTES);
    crypto_base64(&encoded, text);
    outcome =
        put_or_create(claim, attempt, poison_queue, buf_slice(&encoded), ret);
    buf_done(&encoded);
    return outcome;
}

enum tw_err claim_put_copy(
    struct claim *claim, struct slice queue, struct slice text, struct err *err)
{
    char *poison_queue =
        mem_format("%.*s%s", SLICE_ARG(queue), SETUP_POISON_SUFFIX);
    struct messages copy;
    struct attempt attempt;
    enum tw_err outcome;

    messages_init(&copy);
    for (unsigned tries = 1;; tries++) {
        outcome = put_copy(claim, &attempt, poison_queue, text, &copy);
        note_clock(claim, &attempt);
        if ((outcome != TW_BUSY && outcome != TW_UNKNOWN) ||
            !try_again(claim, &attempt, tries))
            break;
    }
    if (outcome == TW_OK) {
        claim->run.poison_id = ledger_text(&claim->run, copy.list[0].id);
        claim->run.poison_receipt =
            ledger_text(&claim->run, copy.list[0].pop_receipt);
    } else {
        (void)err_fail(err, outcome, "%s", attempt.err.text);
    }
    messages_done(&copy);
    mem_free(poison_queue);
    return outcome;
}
