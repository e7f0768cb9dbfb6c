/* SPDX-License-Identifier: MIT */
/* The judge of copies beside their sources: see judge.h. */
#include "tests/sweep/judge.h"

#include <string.h>

#include "tests/support/copy_model.h"
#include "worker/base/mem.h"
#include "worker/run/setup.h"

struct judgement {
    const struct scene *scene;
    struct arena arena;
    bool *seen;   /* by index into the stage: it is there, and as it is to be */
    size_t stale; /* copies that are as they were, and should not be */
    struct ledger_run run;
};

#define KEYS(entity)                                                           \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

/* ---- tables ---- */

/* The copy that is to stand there, or the count. */
static size_t right_one(const struct judgement *j, const struct entity *entity)
{
    return judge_find(j->scene->stage, SWEEP_RIGHT, entity);
}

static bool is_right(struct judgement *j, size_t at, const struct entity *copy)
{
    const struct stage *stage = j->scene->stage;
    const struct sweep_entity *right = &stage->list[at];
    const struct entity *source = &stage->list[right->parent].entity;
    struct copy_source says;

    return copy_model_same(copy, &right->entity) &&
           copy_model_source(copy, &j->arena, &says) &&
           slice_is(says.store, SWEEP_STORE) &&
           slice_is(says.table, SWEEP_SHOES) &&
           slice_is(says.job, SWEEP_REINDEX) && slice_is(says.run, SWEEP_ID) &&
           slice_equal(says.partition_key, source->partition_key) &&
           slice_equal(says.row_key, source->row_key);
}

static bool is_as_it_was(
    const struct sweep_entity *each, const struct entity *entity)
{
    char *text = judge_text(entity);
    bool is = strcmp(text, each->was) == 0;

    mem_free(text);
    return is;
}

/* A source is as it was; a copy may also be as it is to be. */
static bool look(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    struct judgement *j = visitor->ctx;
    const struct stage *stage = j->scene->stage;
    size_t at = judge_find(stage, table, entity), right = right_one(j, entity);

    if (at < stage->count && is_as_it_was(&stage->list[at], entity)) {
        j->seen[at] = true;
        j->stale += stage->list[at].doomed;
        return true;
    }
    if (at < stage->count && !stage->list[at].doomed)
        return judge_wrong(
            err, "the source %.*s/%.*s was changed", KEYS(entity));
    if (right == stage->count || !is_right(j, right, entity))
        return judge_wrong(err, "%.*s/%.*s is no right copy", KEYS(entity));
    j->seen[right] = true;
    return true;
}

static bool judge_tables(struct judgement *j, struct err *err)
{
    const struct stage *stage = j->scene->stage;
    struct judge_visitor visitor = {.visit = look, .scene = j->scene, .ctx = j};
    bool over = j->run.state == LEDGER_SUCCEEDED;

    if (!judge_visit(j->scene->store, &visitor, err))
        return false;
    for (size_t i = 0; i < stage->count; i++) {
        const struct sweep_entity *each = &stage->list[i];

        if (!each->doomed && !each->later && !j->seen[i])
            return judge_wrong(
                err, "the source %.*s/%.*s is gone", KEYS(&each->entity));
        if (each->later && !j->seen[i] && over)
            return judge_wrong(err,
                "there is no copy %.*s/%.*s, and the run has succeeded",
                KEYS(&each->entity));
    }
    return j->stale == 0 || !over ||
           judge_wrong(err,
               "%zu copies are left over, and the run has "
               "succeeded",
               j->stale);
}

/* ---- ledger and queues ---- */

static bool judge_message(const struct judgement *j, struct err *err)
{
    return ledger_state_ended(j->run.state) ||
           judge_messages(j->scene->store, SWEEP_QUEUE) >= 1 ||
           judge_wrong(err, "the message is gone, and the run is %s",
               ledger_state_name(j->run.state));
}

/* After a kill, what was written and deleted are lower bounds. */
static bool judge_counts(const struct judgement *j, struct err *err)
{
    const struct ledger_run *run = &j->run;
    const struct stage *stage = j->scene->stage;
    int64_t written = 0, deleted = 0;

    for (size_t i = 0; i < stage->count; i++) {
        written += stage->list[i].later;
        deleted += stage->list[i].doomed &&
                   right_one(j, &stage->list[i].entity) == stage->count;
    }
    if (run->failed > 0)
        return judge_wrong(err, "%lld entities failed", (long long)run->failed);
    if (run->written > written || run->deleted > deleted ||
        (j->scene->killed == 0 &&
            (run->written != written || run->deleted != deleted)))
        return judge_wrong(err,
            "the ledger counts %lld written of %lld and %lld deleted of %lld",
            (long long)run->written, (long long)written,
            (long long)run->deleted, (long long)deleted);
    return true;
}

static bool judge_end(const struct judgement *j, struct err *err)
{
    const char *const poison = SWEEP_QUEUE SETUP_POISON_SUFFIX;

    if (j->run.state != LEDGER_SUCCEEDED)
        return judge_wrong(err, "the run is %s: %.*s",
            ledger_state_name(j->run.state), SLICE_ARG(j->run.error));
    if (j->run.owner.len > 0)
        return judge_wrong(err, "the run has ended, and has an owner");
    if (judge_messages(j->scene->store, SWEEP_QUEUE) != 0 ||
        judge_messages(j->scene->store, poison) > 0)
        return judge_wrong(err, "a queue still holds a message");
    return judge_counts(j, err) &&
           judge_no_marker(j->scene, SWEEP_REINDEX, err);
}

static bool read_run(struct judgement *j, struct err *err)
{
    struct attempt attempt = {0};
    enum tw_err code = ledger_get(j->scene->store, &attempt,
        slice_of(SWEEP_REINDEX), slice_of(SWEEP_ID), &j->run);

    return code == TW_OK || code == TW_NOT_FOUND ||
           judge_wrong(err, "%s", attempt.err.text);
}

/* ---- the whole ---- */

bool judge_reindex(const struct scene *scene, struct err *err)
{
    struct judgement j = {
        .scene = scene, .seen = mem_alloc(scene->stage->count + 1)};
    bool good;

    arena_init(&j.arena);
    ledger_run_init(&j.run);
    good = read_run(&j, err) && judge_message(&j, err) &&
           judge_tables(&j, err) && (!scene->ended || judge_end(&j, err));
    ledger_run_done(&j.run);
    arena_done(&j.arena);
    mem_free(j.seen);
    return good;
}
