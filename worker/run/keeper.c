/* SPDX-License-Identifier: MIT */
/*
 * The slot's thread hands over under `lock`; the keeper's thread takes what it
 * was handed into the claim, unlocked, and writes. The claim itself needs no
 * lock: while the keeper's thread runs it is the only one to touch it.
 */
#include "worker/run/keeper.h"

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/store/lanes.h"

#define FAILED_ENTITIES_KEPT 10
/* Two renewals are never closer than this. */
#define RENEW_MIN_MS 50
/* Between two writes of the ledger: a request to cancel or to pause is acted on
 * within 10 s. */
#define LEDGER_MAX_MS 5000

struct keeper {
    struct claim *claim; /* the thread's own while it runs */
    struct run *run;     /* counts are atomic */
    const struct lanes_client *lanes;
    int64_t base_transactions; /* of earlier attempts */
    int32_t base_throttled;    /* likewise */
    struct world_thread thread;

    /* The thread's own. */
    int64_t message_sent_ms, ledger_sent_ms;   /* the last that were stored */
    int64_t message_retry_ms, ledger_retry_ms; /* after one that was not */
    bool ledger_now;                           /* something waits for it */
    int64_t answer_ms; /* how long a request takes, at worst of late */

    struct world_mutex lock; /* guards all below */
    struct world_cond changed;
    bool ending;
    enum claim_word word;
    bool progress;       /* the attempt has advanced */
    bool fresh;          /* checkpoint is newer than the claim's */
    bool fresh_progress; /* progress since the last write */
    char *checkpoint;
    size_t checkpoint_len;
    char *phase;        /* asked for; NULL: none */
    bool phase_taken;   /* it stands in the claim, not yet stored */
    bool phase_stored;  /* the answer */
    struct err refusal; /* why the phase could not be stored, so far */
    char *failed[FAILED_ENTITIES_KEPT];
    size_t failed_count; /* of these, to be taken over */
    size_t failed_total; /* handed over, or in the ledger before */
    bool forget_failed;  /* those in the ledger go first */
    struct buf notes;    /* sentences to be taken over, each with a NUL */
    enum claim_asked asked;
};

/* ---- when ---- */

/*
 * How long after its sending a renewal is followed by the next: a third of
 * the visibility timeout, or less: when the next is answered, a message and a
 * ledger write later, a request of the run must still have time for itself.
 */
static int64_t interval_ms(const struct keeper *keeper)
{
    const struct claim *claim = keeper->claim;
    int64_t third = claim->visibility_timeout_ms / 3;
    int64_t room = claim->visibility_timeout_ms - claim->fence.request_ms -
                   3 * keeper->answer_ms;

    if (room > third)
        return third;
    return room > RENEW_MIN_MS ? room : RENEW_MIN_MS;
}

static int64_t retry_ms(const struct keeper *keeper)
{
    int64_t most = keeper->claim->visibility_timeout_ms / 12;

    if (most > 1000)
        most = 1000;
    return RENEW_MIN_MS + (int64_t)world_random_below((uint64_t)most);
}

static void note_answer(struct keeper *keeper, int64_t took_ms)
{
    int64_t faded = keeper->answer_ms - keeper->answer_ms / 8;

    keeper->answer_ms = took_ms > faded ? took_ms : faded;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t message_due_ms(const struct keeper *keeper)
{
    if (!keeper->claim->has_message)
        return WORLD_NEVER;
    return later_of(keeper->message_sent_ms + interval_ms(keeper),
        keeper->message_retry_ms);
}

static int64_t ledger_due_ms(const struct keeper *keeper)
{
    int64_t wait_ms = interval_ms(keeper);

    if (keeper->ledger_now)
        return keeper->ledger_retry_ms;
    if (wait_ms > LEDGER_MAX_MS)
        wait_ms = LEDGER_MAX_MS;
    return later_of(keeper->ledger_sent_ms + wait_ms, keeper->ledger_retry_ms);
}

static int64_t next_due_ms(const struct keeper *keeper)
{
    int64_t message_ms = message_due_ms(keeper);
    int64_t ledger_ms = ledger_due_ms(keeper);

    return message_ms < ledger_ms ? message_ms : ledger_ms;
}

/* ---- taking over what the slot has handed ---- */

/* Lock held. */
static void take_failed(struct keeper *keeper)
{
    struct ledger_run *run = &keeper->claim->run;
    struct buf list;

    if (keeper->forget_failed)
        run->failed_entities = slice_of("");
    keeper->forget_failed = false;
    if (keeper->failed_count == 0)
        return;
    buf_init(&list, LEDGER_MAX_ERROR_BYTES);
    buf_add_slice(&list, run->failed_entities);
    for (size_t i = 0; i < keeper->failed_count; i++) {
        if (list.len > 0)
            buf_add_char(&list, '\n');
        buf_add_text(&list, keeper->failed[i]);
        mem_free(keeper->failed[i]);
    }
    keeper->failed_count = 0;
    run->failed_entities = ledger_text(run, buf_slice(&list));
    buf_done(&list);
}

/* Lock held. */
static void take_notes(struct keeper *keeper)
{
    struct ledger_run *run = &keeper->claim->run;

    for (size_t at = 0; at < keeper->notes.len;) {
        struct slice sentence = slice_of(keeper->notes.at + at);

        ledger_add_note(run, sentence);
        at += sentence.len + 1;
    }
    buf_clear(&keeper->notes);
}

/* What only some kinds know. */
static void take_progress(struct keeper *keeper)
{
    struct ledger_run *to = &keeper->claim->run;
    int64_t caught_up = atomic_load(&keeper->run->caught_up_ticks);
    int share = atomic_load(&keeper->run->share);

    to->behind = atomic_load(&keeper->run->behind);
    if (caught_up != 0)
        to->caught_up_ticks = caught_up;
    to->parent_found = atomic_load(&keeper->run->parent_found);
    if (share >= 0)
        to->share = share < 1000 ? share / 1000.0 : 1;
}

static void take_counts(struct keeper *keeper)
{
    struct ledger_run *to = &keeper->claim->run;
    struct run_counts *counts = &keeper->run->counts;

    to->read = atomic_load(&counts->read);
    to->written = atomic_load(&counts->written);
    to->deleted = atomic_load(&counts->deleted);
    to->skipped = atomic_load(&counts->skipped);
    to->failed = atomic_load(&counts->failed);
    to->rounds = atomic_load(&keeper->run->rounds);
    to->transactions = keeper->base_transactions + keeper->claim->requests +
                       lanes_requests(keeper->lanes);
    to->throttled =
        keeper->base_throttled + (int32_t)lanes_throttled(keeper->lanes);
}

static void take_handed(struct keeper *keeper)
{
    struct ledger_run *run = &keeper->claim->run;

    world_lock(&keeper->lock);
    if (keeper->fresh)
        run->checkpoint = ledger_text(
            run, (struct slice){keeper->checkpoint, keeper->checkpoint_len});
    keeper->fresh = false;
    if (keeper->fresh_progress)
        run->failures = run->silent = 0;
    keeper->fresh_progress = false;
    if (keeper->phase && !keeper->phase_taken) {
        run->phase = ledger_text(run, slice_of(keeper->phase));
        keeper->phase_taken = true;
    }
    take_failed(keeper);
    take_notes(keeper);
    world_unlock(&keeper->lock);
    take_counts(keeper);
    take_progress(keeper);
}

/* ---- renewing ---- */

static void set_word(struct keeper *keeper, enum claim_word word)
{
    world_lock(&keeper->lock);
    keeper->word = word;
    world_wake_all(&keeper->changed);
    world_unlock(&keeper->lock);
    if (word == CLAIM_OVERTAKEN)
        fence_shut(&keeper->claim->fence);
}

static void renew_message(struct keeper *keeper)
{
    int64_t at_ms = world_boot_ms();
    struct err err;
    enum tw_err outcome = claim_renew_message(keeper->claim, &err);

    note_answer(keeper, world_boot_ms() - at_ms);
    if (outcome == TW_OK) {
        keeper->message_sent_ms = at_ms;
        return;
    }
    keeper->message_retry_ms = world_boot_ms() + retry_ms(keeper);
    log_debug(run_object(keeper->run), "%s: %s",
        outcome == TW_CONFLICT ? "its message is with somebody else now"
                               : "its message could not be renewed",
        err.text);
}

/* The phase that was taken along is stored, or may be tried again. */
static void answer_phase(
    struct keeper *keeper, bool stored, const struct err *err)
{
    world_lock(&keeper->lock);
    if (keeper->phase && keeper->phase_taken) {
        keeper->phase_stored = stored;
        if (!stored)
            keeper->refusal = *err;
        world_wake_all(&keeper->changed);
    }
    world_unlock(&keeper->lock);
}

/* What people have asked of this run since the last renewal. */
static void take_asked(struct keeper *keeper)
{
    const struct claim *claim = keeper->claim;
    bool news;

    if (slice_is(claim->run.finish, LEDGER_FINISH))
        atomic_store(&keeper->run->finish, RUN_FINISHING);
    if (slice_is(claim->run.finish, LEDGER_FINISH_NOW))
        atomic_store(&keeper->run->finish, RUN_FINISHING_NOW);
    world_lock(&keeper->lock);
    news = keeper->asked != claim->asked;
    keeper->asked = claim->asked;
    world_unlock(&keeper->lock);
    if (news && claim->asked != CLAIM_ASKED_NOTHING)
        log_info(run_object(keeper->run), "stops: it is to be %s",
            claim->asked == CLAIM_ASKED_CANCEL ? "cancelled" : "paused");
}

static void renew_ledger(struct keeper *keeper)
{
    int64_t at_ms = world_boot_ms();
    struct err err = {""};
    enum claim_word word;

    take_handed(keeper);
    word = claim_write(keeper->claim, &err);
    note_answer(keeper, world_boot_ms() - at_ms);
    answer_phase(keeper, word == CLAIM_MINE, &err);
    if (word == CLAIM_MINE) {
        keeper->ledger_sent_ms = at_ms;
        keeper->ledger_now = false;
        take_asked(keeper);
        return;
    }
    log_debug(run_object(keeper->run), "the ledger could not be renewed: %s",
        err.text);
    if (word == CLAIM_OVERTAKEN) {
        set_word(keeper, word);
        return;
    }
    keeper->ledger_now = true;
    keeper->ledger_retry_ms = world_boot_ms() + retry_ms(keeper);
}

/* What is due and has the earlier deadline; the message where both are. */
static void renew(struct keeper *keeper)
{
    const struct claim *claim = keeper->claim;
    int64_t now_ms = world_boot_ms();
    bool message = message_due_ms(keeper) <= now_ms;
    bool ledger = ledger_due_ms(keeper) <= now_ms;

    if (message &&
        (!ledger || claim->message_deadline_ms <= claim->ledger_deadline_ms))
        renew_message(keeper);
    else
        renew_ledger(keeper);
}

/* ---- the thread ---- */

/* Lock held; it is given up while something is sent. */
static void step(struct keeper *keeper)
{
    int64_t due_ms;

    if (keeper->phase && !keeper->phase_taken)
        keeper->ledger_now = true;
    due_ms = next_due_ms(keeper);
    if (world_boot_ms() < due_ms) {
        (void)world_wait(&keeper->changed, &keeper->lock, due_ms);
        return;
    }
    world_unlock(&keeper->lock);
    if (world_boot_ms() >= keeper->claim->ledger_deadline_ms)
        set_word(keeper, CLAIM_OVERTAKEN);
    else
        renew(keeper);
    world_lock(&keeper->lock);
}

static void keep(void *arg)
{
    struct keeper *keeper = arg;

    world_lock(&keeper->lock);
    while (!keeper->ending && keeper->word == CLAIM_MINE)
        step(keeper);
    world_wake_all(&keeper->changed);
    world_unlock(&keeper->lock);
}

static size_t count_lines(struct slice text)
{
    size_t lines = text.len > 0;

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    return lines;
}

struct keeper *keeper_start(
    struct claim *claim, struct run *run, const struct lanes_client *lanes)
{
    struct keeper *keeper = mem_alloc(sizeof(*keeper));

    keeper->claim = claim;
    keeper->run = run;
    keeper->lanes = lanes;
    keeper->base_transactions = claim->run.transactions;
    keeper->base_throttled = claim->run.throttled;
    keeper->word = CLAIM_MINE;
    keeper->failed_total = count_lines(claim->run.failed_entities);
    keeper->asked = claim->asked;
    buf_init(&keeper->notes, LEDGER_MAX_NOTE_BYTES);
    world_mutex_init(&keeper->lock);
    world_cond_init(&keeper->changed);
    keeper->ledger_sent_ms =
        claim->ledger_deadline_ms - claim->visibility_timeout_ms;
    if (claim->has_message)
        keeper->message_sent_ms =
            claim->message_deadline_ms - claim->visibility_timeout_ms;
    if (message_due_ms(keeper) <= world_boot_ms())
        renew_message(keeper);
    world_start(&keeper->thread, "keeper", keep, keeper);
    return keeper;
}

void keeper_save(struct keeper *keeper, struct slice checkpoint, bool progress)
{
    char *copy = mem_text(checkpoint.at, checkpoint.len);

    world_lock(&keeper->lock);
    mem_free(keeper->checkpoint);
    keeper->checkpoint = copy;
    keeper->checkpoint_len = checkpoint.len;
    keeper->fresh = true;
    if (progress)
        keeper->progress = keeper->fresh_progress = true;
    world_unlock(&keeper->lock);
}

enum tw_err keeper_phase(struct keeper *keeper, const char *phase,
    struct slice checkpoint, struct err *err)
{
    enum tw_err outcome = TW_OK;

    keeper_save(keeper, checkpoint, false);
    world_lock(&keeper->lock);
    keeper->phase = mem_text(phase, strlen(phase));
    keeper->phase_taken = keeper->phase_stored = false;
    keeper->refusal.text[0] = '\0';
    world_wake_all(&keeper->changed);
    while (!keeper->phase_stored && keeper->word == CLAIM_MINE)
        (void)world_wait(&keeper->changed, &keeper->lock, WORLD_NEVER);
    if (!keeper->phase_stored)
        outcome = err_fail(err, TW_STOPPED,
            "the phase '%s' could not be put into the ledger%s%s", phase,
            keeper->refusal.text[0] ? ": " : "", keeper->refusal.text);
    mem_free(keeper->phase);
    keeper->phase = NULL;
    world_unlock(&keeper->lock);
    return outcome;
}

void keeper_failed(struct keeper *keeper, const char *line)
{
    world_lock(&keeper->lock);
    if (keeper->failed_total < FAILED_ENTITIES_KEPT) {
        keeper->failed[keeper->failed_count++] = mem_text(line, strlen(line));
        keeper->failed_total++;
    }
    world_unlock(&keeper->lock);
}

void keeper_note(struct keeper *keeper, const char *sentence)
{
    struct slice text = text_cut(slice_of(sentence), LEDGER_MAX_NOTE_BYTES / 4);

    world_lock(&keeper->lock);
    if (keeper->notes.len + text.len + 1 <= LEDGER_MAX_NOTE_BYTES) {
        buf_add_slice(&keeper->notes, text);
        buf_add_char(&keeper->notes, '\0');
    }
    world_unlock(&keeper->lock);
}

enum claim_asked keeper_asked(struct keeper *keeper)
{
    enum claim_asked asked;

    world_lock(&keeper->lock);
    asked = keeper->asked;
    world_unlock(&keeper->lock);
    return asked;
}

void keeper_forget_failed(struct keeper *keeper)
{
    world_lock(&keeper->lock);
    while (keeper->failed_count > 0)
        mem_free(keeper->failed[--keeper->failed_count]);
    keeper->failed_total = 0;
    keeper->forget_failed = true;
    world_unlock(&keeper->lock);
}

enum claim_word keeper_word(struct keeper *keeper)
{
    enum claim_word word;

    world_lock(&keeper->lock);
    word = keeper->word;
    world_unlock(&keeper->lock);
    return word;
}

enum claim_word keeper_stop(struct keeper *keeper, bool *ret_progress)
{
    enum claim_word word;

    world_lock(&keeper->lock);
    keeper->ending = true;
    world_wake_all(&keeper->changed);
    world_unlock(&keeper->lock);
    world_join(&keeper->thread);
    take_handed(keeper);
    word = keeper->word;
    *ret_progress = keeper->progress;
    world_cond_done(&keeper->changed);
    world_mutex_done(&keeper->lock);
    mem_free(keeper->checkpoint);
    buf_done(&keeper->notes);
    mem_free(keeper);
    return word;
}
