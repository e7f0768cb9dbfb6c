/* SPDX-License-Identifier: MIT */
/* One attempt at one run, from the claim to letting go. */
#include "worker/run/work.h"

#include "jobs/engine/call.h"
#include "worker/base/arena.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/keeper.h"
#include "worker/run/message.h"
#include "worker/store/lanes.h"

#define RETRY_MAX_MS INT64_C(3600000)
/* Of the reason why one entity failed, in Error and in the log. */
#define FAILED_WHY_MAX_BYTES 200
/* A message that an outage sent back is hidden so long. */
#define OUTAGE_HIDE_MS 5000

struct work {
    const struct work_place *place;
    const struct definition *definition;
    const struct claim_wish *wish;
    struct claim claim;
    struct arena arena;    /* args from the ledger, names */
    const char *object;    /* "run JOB/ID" */
    struct run run;        /* what the kind sees */
    struct keeper *keeper; /* while the kind runs */
    enum claim_word word;  /* how the keeper left it */
    bool progress;
    struct err err; /* the kind's */
    struct work_result *result;
};

int64_t work_retry_ms(int64_t failures)
{
    int64_t wait_ms = 1000;

    while (failures-- > 1 && wait_ms < RETRY_MAX_MS)
        wait_ms *= 2;
    return wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
}

/* ---- what the kind is lent ---- */

static struct work *work_of(struct run *run)
{
    return run->owner;
}

static bool host_stopping(struct run *run)
{
    struct work *work = work_of(run);

    return keeper_word(work->keeper) != CLAIM_MINE ||
           work->place->stopping(work->place->context);
}

static void host_save(struct run *run, struct slice checkpoint, bool progress)
{
    keeper_save(work_of(run)->keeper, checkpoint, progress);
}

static enum tw_err host_phase(struct run *run, const char *phase,
    struct slice checkpoint, struct err *err)
{
    struct work *work = work_of(run);
    enum tw_err outcome = keeper_phase(work->keeper, phase, checkpoint, err);

    if (outcome == TW_OK)
        run->phase = arena_copy(&work->arena, slice_of(phase));
    return outcome;
}

static enum tw_err host_is_open(struct run *run, struct slice job,
    struct slice id, bool *ret, struct err *err)
{
    struct work *work = work_of(run);
    struct ledger_run other;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    ledger_run_init(&other);
    outcome = call_get(
        run->lanes, work->wish->store, LEDGER_TABLE, job, id, &page, NULL, err);
    if (outcome == TW_OK)
        outcome = ledger_parse(&page.entities[0], &other, err);
    if (outcome == TW_OK)
        *ret = !ledger_state_ended(other.state);
    if (outcome == TW_NOT_FOUND) {
        *ret = false;
        outcome = TW_OK;
    }
    ledger_run_done(&other);
    page_done(&page);
    return outcome;
}

static void host_failed(struct run *run, const struct run_failure *failure)
{
    struct buf line;

    atomic_fetch_add(&run->counts.failed, 1);
    buf_init(&line, 4096);
    buf_add_format(&line, "%s ", failure->table);
    entity_add_keys(&line, failure->partition_key, failure->row_key);
    buf_add_text(&line, ": ");
    text_repair(&line, text_cut(slice_of(failure->why), FAILED_WHY_MAX_BYTES));
    log_warn(run_object(run), "%s", buf_text(&line));
    keeper_failed(work_of(run)->keeper, buf_text(&line));
    buf_done(&line);
}

static void host_forget_failed(struct run *run, int64_t count)
{
    atomic_store(&run->counts.failed, count);
    if (count == 0)
        keeper_forget_failed(work_of(run)->keeper);
}

static void host_note(struct run *run, const char *sentence)
{
    log_info(run_object(run), "%s", sentence);
}

static const struct run_host host = {
    .stopping = host_stopping,
    .save = host_save,
    .phase = host_phase,
    .is_open = host_is_open,
    .failed = host_failed,
    .note = host_note,
    .forget_failed = host_forget_failed,
};

static void set_counts(struct run *run, const struct ledger_run *from)
{
    atomic_init(&run->counts.read, from->read);
    atomic_init(&run->counts.written, from->written);
    atomic_init(&run->counts.deleted, from->deleted);
    atomic_init(&run->counts.skipped, from->skipped);
    atomic_init(&run->counts.failed, from->failed);
    atomic_init(&run->passes, from->passes);
    atomic_init(&run->share, -1);
    atomic_init(&run->behind, -1);
    atomic_init(&run->parent_found, -1);
}

/* The run as the kind sees it; its texts outlive changes of the claim. */
static void set_run(struct work *work, const struct run_args *args)
{
    const struct ledger_run *stored = &work->claim.run;
    struct run *run = &work->run;

    run->job = work->wish->job->name;
    run->id = arena_copy(&work->arena, stored->id).at;
    run->object = work->object;
    run->args = *args;
    run->requested_ticks = stored->requested_ticks;
    run->queued = stored->queue.len > 0;
    run->epoch = stored->epoch;
    run->took_over = work->claim.took_over || work->claim.starts_over;
    run->checkpoint = arena_copy(&work->arena, stored->checkpoint);
    run->phase = arena_copy(&work->arena, stored->phase);
    run->archive_folder = work->definition->archive_folder;
    run->fence = &work->claim.fence;
    run->host = &host;
    run->owner = work;
    set_counts(run, stored);
}

/* ---- what is written when it ends ---- */

static void say_outage(struct work *work, const char *what)
{
    work->result->end = WORK_OUTAGE;
    work->result->outcome = TW_BUSY;
    log_warn(work->object, "%s: %s", what, work->result->err.text);
}

/* The end is stored, or it is not for us to say. True: stored. */
static bool stored(struct work *work)
{
    switch (claim_let_go(&work->claim, &work->result->err)) {
    case CLAIM_MINE:
        return true;
    case CLAIM_CANCELLED:
        work->result->end = WORK_ENDED;
        work->result->state = LEDGER_CANCELLED;
        claim_delete_message(&work->claim);
        log_info(work->object, "cancelled; what it has done stays done");
        return false;
    case CLAIM_OVERTAKEN:
        work->result->end = WORK_OVERTAKEN;
        log_warn(work->object, "overtaken by another worker");
        return false;
    case CLAIM_UNREAD:
        break;
    }
    say_outage(work, "its end could not be put into the ledger");
    return false;
}

static void set_ended(struct work *work)
{
    work->result->end = WORK_ENDED;
    work->result->state = work->claim.run.state;
    work->result->finished_ticks = work->claim.run.finished_ticks;
}

static void say_counts(struct work *work)
{
    const struct ledger_run *run = &work->claim.run;

    log_info(work->object,
        "succeeded: %lld read, %lld written, %lld deleted, %lld skipped, "
        "%lld requests, attempt %d",
        (long long)run->read, (long long)run->written, (long long)run->deleted,
        (long long)run->skipped, (long long)run->transactions,
        (int)run->attempt);
}

static void end_succeeded(struct work *work)
{
    struct ledger_run *run = &work->claim.run;

    (void)ledger_move(run, LEDGER_SUCCEEDED);
    ledger_set_error(run, "");
    run->silent = 0;
    if (!stored(work))
        return;
    set_ended(work);
    claim_delete_message(&work->claim);
    say_counts(work);
}

/* Back to the queue, checkpoint and all. True: stored. */
static bool put_back(struct work *work)
{
    (void)ledger_move(&work->claim.run, LEDGER_QUEUED);
    work->claim.run.silent = 0;
    return stored(work);
}

static void end_stopped(struct work *work)
{
    if (!put_back(work))
        return;
    claim_hide(&work->claim, 0);
    work->result->end = WORK_STOPPED;
    log_info(work->object, "let go in order%s%s", work->err.text[0] ? ": " : "",
        work->err.text);
}

static void end_outage(struct work *work)
{
    bool done = put_back(work);

    if (!done && work->result->end != WORK_OUTAGE)
        return;
    if (done) {
        claim_hide_ms(&work->claim, OUTAGE_HIDE_MS);
        log_warn(
            work->object, "let go, no failure of its own: %s", work->err.text);
    }
    work->result->end = WORK_OUTAGE;
    work->result->outcome = TW_BUSY;
    work->result->err = work->err;
    work->result->archive_full = work->run.archive_full;
}

/* The message's body, or the bell of a run that was found without one. */
static enum tw_err put_copy(struct work *work)
{
    struct claim *claim = &work->claim;
    struct ledger_run *run = &claim->run;
    struct buf bell;
    enum tw_err outcome;

    if (run->queue.len == 0)
        return TW_OK;
    if (claim->text)
        return claim_put_copy(claim, run->queue,
            (struct slice){claim->text, claim->text_len}, &work->err);
    buf_init(&bell, QUEUE_MAX_MESSAGE_BYTES);
    message_compose(run->job, run->args, run->id, run->requested_ticks,
        run->traceparent, &bell);
    outcome = claim_put_copy(claim, run->queue, buf_slice(&bell), &work->err);
    buf_done(&bell);
    return outcome;
}

static void set_error(struct work *work, const char *reason)
{
    struct ledger_run *run = &work->claim.run;
    struct buf text;

    buf_init(&text, 4 * LEDGER_MAX_ERROR_BYTES);
    buf_add_text(&text, reason);
    if (run->failed_entities.len > 0) {
        buf_add_text(&text, "; the first that failed:\n");
        buf_add_slice(&text, run->failed_entities);
    }
    ledger_set_error(run, buf_text(&text));
    buf_done(&text);
}

/* Copy to the poison queue, ledger, original: in this order. */
static void end_badly(
    struct work *work, enum ledger_state state, const char *reason)
{
    struct ledger_run *run = &work->claim.run;

    if (put_copy(work) != TW_OK) {
        err_prefix(&work->err, "no copy for the poison queue");
        end_outage(work);
        return;
    }
    (void)ledger_move(run, state);
    set_error(work, reason);
    run->silent = 0;
    if (!stored(work))
        return;
    set_ended(work);
    (void)err_fail(&work->result->err, TW_INVALID, "%s", reason);
    claim_delete_message(&work->claim);
    log_error(work->object, "%s: %s", ledger_state_name(state), reason);
}

static void end_failed(struct work *work)
{
    end_badly(work, LEDGER_FAILED, work->err.text);
}

/* Put the run aside until ticks. */
static void set_aside(struct work *work, int64_t until_ticks)
{
    struct ledger_run *run = &work->claim.run;

    (void)ledger_move(run, LEDGER_WAITING);
    run->resumes_ticks = until_ticks;
    run->silent = 0;
    if (!stored(work))
        return;
    claim_hide(&work->claim, until_ticks);
    work->result->end = WORK_LATER;
    work->result->until_ms = claim_boot_ms(&work->claim, until_ticks);
}

static void end_waiting(struct work *work)
{
    char time[TEXT_TIME_MAX];

    work->claim.run.failures = 0;
    ledger_set_error(&work->claim.run, "");
    set_aside(work, work->run.resumes_ticks);
    if (work->result->end == WORK_LATER)
        log_info(work->object, "waits until %s",
            text_from_ticks(work->run.resumes_ticks, time));
}

static void end_try_again(struct work *work)
{
    struct ledger_run *run = &work->claim.run;
    int64_t wait_ms;
    char *reason;

    run->failures = work->progress ? 0 : run->failures + 1;
    if (run->failures >= work->wish->max_attempts) {
        reason = mem_format("%d attempts failed without progress: %s",
            (int)run->failures, work->err.text);
        end_badly(work, LEDGER_POISONED, reason);
        mem_free(reason);
        return;
    }
    wait_ms = work_retry_ms(run->failures);
    set_error(work, work->err.text);
    set_aside(work, claim_now(&work->claim) + wait_ms * TICKS_PER_MS);
    if (work->result->end == WORK_LATER)
        log_warn(work->object, "attempt %d failed, again in %lld s: %s",
            (int)run->attempt, (long long)wait_ms / 1000, work->err.text);
}

/*
 * The fence was closed. Overtaken: nothing is touched. Where the ledger's
 * lease still stands (only the message's visibility was over, or too little
 * time was left for a request) the run is let go in order.
 */
static void end_overtaken(struct work *work)
{
    if (work->word == CLAIM_MINE &&
        fence_open(&work->claim.own, world_boot_ms())) {
        end_stopped(work);
        return;
    }
    work->result->end = WORK_OVERTAKEN;
    work->result->lapsed = world_boot_ms() >= work->claim.ledger_deadline_ms;
    log_warn(work->object, "its time has run out: nothing more is touched");
}

static void (*const ends[])(struct work *) = {
    [RUN_SUCCEEDED] = end_succeeded,
    [RUN_WAITING] = end_waiting,
    [RUN_FAILED] = end_failed,
    [RUN_TRY_AGAIN] = end_try_again,
    [RUN_OUTAGE] = end_outage,
    [RUN_STOPPED] = end_stopped,
    [RUN_OVERTAKEN] = end_overtaken,
};

/* ---- the kind at work ---- */

static void watch(struct work *work, struct run *run)
{
    if (work->place->watch)
        work->place->watch(work->place->context, run);
}

static enum run_end run_kind(struct work *work)
{
    const struct job *job = work->wish->job;
    struct run *run = &work->run;
    enum run_end end;

    run->lanes = lanes_client_new(work->place->lanes, &work->claim.fence);
    run->ledger = work->wish->store;
    run->ledger_table = LEDGER_TABLE;
    work->keeper = keeper_start(&work->claim, run, run->lanes);
    watch(work, run);
    end = job->kind->run(job, work->definition->stores, run, &work->err);
    watch(work, NULL);
    work->word = keeper_stop(work->keeper, &work->progress);
    work->keeper = NULL;
    lanes_client_free(run->lanes);
    return end;
}

/* What the keeper knows stands above what the kind says. */
static enum run_end end_of(const struct work *work, enum run_end end)
{
    if (work->word == CLAIM_OVERTAKEN)
        return RUN_OVERTAKEN;
    if (work->word == CLAIM_CANCELLED)
        return RUN_STOPPED; /* letting go meets the cancelled entity */
    return end;
}

/* ---- a claim that came to nothing ---- */

static void claim_ended(struct work *work)
{
    set_ended(work);
    work->result->already = true;
    (void)err_fail(&work->result->err, TW_INVALID, "%.*s",
        SLICE_ARG(work->claim.run.error));
    claim_delete_message(&work->claim);
    log_info(work->object, "%s already: nothing to do",
        ledger_state_name(work->claim.run.state));
}

static void claim_held(struct work *work)
{
    char time[TEXT_TIME_MAX];

    claim_hide(&work->claim, work->claim.until_ticks);
    work->result->end = WORK_LATER;
    work->result->held = work->claim.run.owner.len > 0;
    work->result->until_ms =
        claim_boot_ms(&work->claim, work->claim.until_ticks);
    log_debug(work->object, "%s until %s at least",
        work->result->held ? "another owner has it" : "not its time",
        text_from_ticks(work->claim.until_ticks, time));
}

static void claim_missing(struct work *work)
{
    work->result->end = WORK_MISSING;
}

static void claim_refused(struct work *work)
{
    work->result->end = WORK_REFUSED;
}

static void claim_outage(struct work *work)
{
    work->result->end = WORK_OUTAGE;
    claim_hide_ms(&work->claim, OUTAGE_HIDE_MS);
}

static void (*const misses[])(struct work *) = {
    [CLAIM_ENDED] = claim_ended,
    [CLAIM_HELD] = claim_held,
    [CLAIM_MISSING] = claim_missing,
    [CLAIM_REFUSED] = claim_refused,
    [CLAIM_OUTAGE] = claim_outage,
};

/* ---- the whole ---- */

static void work_claimed(struct work *work, const struct run_args *args)
{
    struct ledger_run *run = &work->claim.run;
    struct run_args own;

    log_info(work->object, "claimed, attempt %d%s", (int)run->attempt,
        work->claim.took_over ? ", from an owner that did not let go" : "");
    if (args == NULL) {
        if (message_args_parse(work->wish->job, run->args, &work->arena, &own,
                &work->err) != TW_OK) {
            end_badly(work, LEDGER_POISONED, work->err.text);
            return;
        }
        args = &own;
    }
    set_run(work, args);
    ends[end_of(work, run_kind(work))](work);
}

void work_attempt(const struct work_place *place,
    const struct definition *definition, const struct claim_wish *wish,
    const struct run_args *args, struct work_result *ret)
{
    struct work work = {.place = place,
        .definition = definition,
        .wish = wish,
        .word = CLAIM_MINE,
        .result = ret};
    enum claim_outcome outcome;

    *ret = (struct work_result){.end = WORK_OUTAGE};
    arena_init(&work.arena);
    work.object = arena_format(
        &work.arena, "run %s/%.*s", wish->job->name, SLICE_ARG(wish->id))
                      .at;
    claim_init(&work.claim, wish);
    outcome = claim_take(&work.claim, wish, &ret->outcome, &ret->err);
    if (outcome == CLAIM_TAKEN)
        work_claimed(&work, args);
    else
        misses[outcome](&work);
    claim_done(&work.claim);
    arena_done(&work.arena);
}
