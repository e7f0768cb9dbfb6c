/* SPDX-License-Identifier: MIT */
/*
 * One thread answers the questions, in the order in which they were asked. All
 * state is guarded by `lock`, which is not held while the thread looks for an
 * answer.
 */
#include "worker/monitor/answers.h"

#include <stdbool.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"

enum stage {
    STAGE_FREE,
    STAGE_WAITING, /* the question waits for the thread */
    STAGE_WORKING, /* the thread looks for the answer */
    STAGE_READY,
};

struct entry {
    enum stage stage;
    char *question;         /* owned */
    uint64_t turn;          /* STAGE_WAITING: place in the order of the
                               questions */
    uint64_t used;          /* value of answers.turns when the question was last
                               asked */
    int64_t until_ms;       /* STAGE_READY: until this time, all callers get
                               this answer */
    int64_t first_until_ms; /* STAGE_READY: until this time, the first caller
                               gets this answer; 0: a caller has got it */
    struct answer answer;
};

struct answers {
    struct answers_options options;
    struct platform_thread thread;
    struct platform_mutex lock; /* guards all fields below */
    struct platform_cond changed;
    struct entry entries[ANSWERS_MAX];
    uint64_t turns;
    int64_t tick_ms;  /* when the next tick is due */
    uint64_t forgets; /* number of calls of answers_forget() */
    bool closing;
};

/* ---- the thread; lock held ---- */

static struct entry *next_question(struct answers *answers)
{
    struct entry *next = NULL;

    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        struct entry *entry = &answers->entries[i];

        if (entry->stage == STAGE_WAITING &&
            (!next || entry->turn < next->turn))
            next = entry;
    }
    return next;
}

/* Returns for how long an answer is given again, if it took took_ms to find
 * the answer. */
static int64_t fresh_ms(const struct answers_options *options, int64_t took_ms)
{
    int64_t fresh = options->share * took_ms;

    if (fresh < options->fresh_ms)
        fresh = options->fresh_ms;
    return fresh > options->old_ms ? options->old_ms : fresh;
}

static void work(struct answers *answers, struct entry *entry)
{
    const struct answers_options *options = &answers->options;
    struct answer answer = {.status = 200};
    int64_t began_ms = platform_boot_ms(), now_ms;
    uint64_t forgets = answers->forgets;

    entry->stage = STAGE_WORKING;
    platform_unlock(&answers->lock);
    buf_init(&answer.body, options->max_bytes);
    options->answer(options->context, entry->question, &answer);
    now_ms = platform_boot_ms();
    platform_lock(&answers->lock);
    buf_done(&entry->answer.body);
    entry->answer = answer;
    entry->stage = STAGE_READY;
    entry->until_ms = entry->first_until_ms = 0;
    if (answers->forgets == forgets) {
        entry->until_ms = now_ms + fresh_ms(options, now_ms - began_ms);
        entry->first_until_ms = now_ms + options->old_ms;
    }
}

static void tick(struct answers *answers)
{
    const struct answers_options *options = &answers->options;
    int64_t now_ms = platform_boot_ms();

    if (!options->tick || now_ms < answers->tick_ms)
        return;
    answers->tick_ms = now_ms + options->tick_ms;
    platform_unlock(&answers->lock);
    options->tick(options->context);
    platform_lock(&answers->lock);
}

static void body(void *arg)
{
    struct answers *answers = arg;

    platform_lock(&answers->lock);
    while (!answers->closing) {
        struct entry *entry;

        tick(answers);
        entry = next_question(answers);
        if (entry && !answers->closing)
            work(answers, entry);
        else if (!answers->closing)
            (void)platform_wait(&answers->changed, &answers->lock,
                answers->options.tick ? answers->tick_ms : PLATFORM_NEVER);
    }
    platform_unlock(&answers->lock);
}

/* ---- askers; lock held ---- */

/* Find the entry whose question begins with the first len bytes of question. */
static struct entry *find(
    struct answers *answers, const char *question, size_t len)
{
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        struct entry *entry = &answers->entries[i];

        if (entry->stage != STAGE_FREE &&
            strncmp(entry->question, question, len) == 0)
            return entry;
    }
    return NULL;
}

static void empty(struct entry *entry)
{
    mem_free(entry->question);
    buf_done(&entry->answer.body);
    *entry = (struct entry){.stage = STAGE_FREE};
}

/* Find an entry for another question; NULL: all entries wait for an answer. */
static struct entry *place(struct answers *answers)
{
    struct entry *oldest = NULL;

    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        struct entry *entry = &answers->entries[i];

        if (entry->stage == STAGE_FREE)
            return entry;
        if (entry->stage == STAGE_READY &&
            (!oldest || entry->used < oldest->used))
            oldest = entry;
    }
    if (oldest)
        empty(oldest);
    return oldest;
}

/* Must the thread find an answer to the question? */
static bool needs_answer(const struct entry *entry, int64_t now_ms)
{
    return entry->stage == STAGE_FREE ||
           (entry->stage == STAGE_READY && now_ms >= entry->until_ms &&
               now_ms >= entry->first_until_ms);
}

static void copy(struct entry *entry, unsigned *ret_status, struct buf *to)
{
    entry->first_until_ms = 0;
    *ret_status = entry->answer.status;
    buf_add_slice(to, buf_slice(&entry->answer.body));
    to->overflow |= entry->answer.body.overflow;
}

enum answers_state answers_ask(struct answers *answers, const char *question,
    unsigned *ret_status, struct buf *to)
{
    enum answers_state state = ANSWERS_PENDING;
    struct entry *entry;

    platform_lock(&answers->lock);
    entry = find(answers, question, strlen(question) + 1);
    if (!entry) {
        entry = place(answers);
        if (entry)
            entry->question = mem_text(question, strlen(question));
    }
    if (entry) {
        entry->used = ++answers->turns;
        if (needs_answer(entry, platform_boot_ms())) {
            entry->stage = STAGE_WAITING;
            entry->turn = answers->turns;
            platform_wake_all(&answers->changed);
        }
    }
    if (!entry)
        state = ANSWERS_NONE;
    else if (entry->stage == STAGE_READY)
        state = ANSWERS_READY;
    if (state == ANSWERS_READY)
        copy(entry, ret_status, to);
    platform_unlock(&answers->lock);
    return state;
}

enum answers_state answers_look(struct answers *answers, const char *beginning,
    unsigned *ret_status, struct buf *to)
{
    enum answers_state state = ANSWERS_NONE;
    struct entry *entry;

    platform_lock(&answers->lock);
    entry = find(answers, beginning, strlen(beginning));
    if (entry)
        state = entry->stage == STAGE_READY ? ANSWERS_READY : ANSWERS_PENDING;
    if (state == ANSWERS_READY)
        copy(entry, ret_status, to);
    platform_unlock(&answers->lock);
    return state;
}

void answers_forget(struct answers *answers)
{
    platform_lock(&answers->lock);
    answers->forgets++;
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        answers->entries[i].until_ms = answers->entries[i].first_until_ms = 0;
    platform_unlock(&answers->lock);
}

/* ---- the module ---- */

struct answers *answers_new(const struct answers_options *options)
{
    struct answers *answers = mem_alloc(sizeof(*answers));

    answers->options = *options;
    platform_mutex_init(&answers->lock);
    platform_cond_init(&answers->changed);
    platform_start(&answers->thread, options->name, body, answers);
    return answers;
}

void answers_free(struct answers *answers)
{
    if (!answers)
        return;
    platform_lock(&answers->lock);
    answers->closing = true;
    platform_wake_all(&answers->changed);
    platform_unlock(&answers->lock);
    platform_join(&answers->thread);
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        empty(&answers->entries[i]);
    platform_cond_done(&answers->changed);
    platform_mutex_done(&answers->lock);
    mem_free(answers);
}
