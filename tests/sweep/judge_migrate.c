/* SPDX-License-Identifier: MIT */
/* The judge of migrations: see judge.h. */
#include "tests/sweep/judge.h"

#include <string.h>

#include "tests/support/copy_model.h"
#include "worker/base/mem.h"
#include "worker/run/setup.h"

/* What may become of an entity of the stage. */
struct fate {
    bool source; /* else: it was at a destination already */
    bool made[COPY_TARGETS_MAX];
    struct entity copies[COPY_TARGETS_MAX];
    bool fails; /* not all of its copies can be stored */
    bool seen;  /* it is there, as it was */
    bool stands[COPY_TARGETS_MAX];
    struct slice etag; /* of the source */
};

struct judgement {
    const struct scene *scene;
    const struct sweep_migration *migration;
    struct arena arena;
    struct fate *fates; /* by index into the stage */
    struct ledger_run run;
    size_t marked; /* copies that say where they come from */
};

#define KEYS(entity)                                                           \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

/* ---- what may be ---- */

/* What was at its place before, and stays there, or NULL. */
static const struct entity *before(
    const struct judgement *j, size_t target, const struct entity *copy)
{
    const struct stage *stage = j->scene->stage;
    size_t at =
        judge_find(stage, j->migration->model.targets[target].table, copy);

    if (at == stage->count || j->migration->within)
        return NULL;
    return &stage->list[at].entity;
}

static void foresee(struct judgement *j, size_t at)
{
    const struct sweep_entity *each = &j->scene->stage->list[at];
    struct fate *fate = &j->fates[at];
    struct slice was = slice_of(each->was);
    const char *space = memchr(was.at, ' ', was.len);

    fate->source = strcmp(each->table, SWEEP_SOURCE) == 0;
    if (!fate->source)
        return;
    fate->etag = (struct slice){was.at, (size_t)(space - was.at)};
    for (size_t i = 0; i < j->migration->model.count; i++) {
        const struct entity *there;

        fate->made[i] = copy_model_make(&j->migration->model, i, &each->entity,
            &j->arena, &fate->copies[i]);
        there = fate->made[i] ? before(j, i, &fate->copies[i]) : NULL;
        if (!fate->made[i] ||
            (there && !copy_model_same(there, &fate->copies[i])))
            fate->fails = true;
        fate->stands[i] = there && !fate->fails;
    }
}

/* ---- what is ---- */

static bool is_as_it_was(
    const struct judgement *j, size_t at, const struct entity *entity)
{
    char *text = judge_text(entity);
    bool same = strcmp(text, j->scene->stage->list[at].was) == 0;

    mem_free(text);
    return same;
}

static bool look_at_stage(struct judgement *j, size_t at,
    const struct entity *entity, struct err *err)
{
    bool same = is_as_it_was(j, at, entity);

    j->fates[at].seen = true;
    return same || judge_wrong(err, "%.*s/%.*s is not as it was", KEYS(entity));
}

/* Is it at the place of a copy of that source? */
static bool is_of(const struct judgement *j, size_t source, const char *table,
    const struct entity *copy, size_t *ret_target)
{
    const struct copy_model *model = &j->migration->model;

    for (size_t t = 0; t < model->count; t++) {
        const struct entity *made = &j->fates[source].copies[t];

        if (j->fates[source].made[t] &&
            strcmp(model->targets[t].table, table) == 0 &&
            slice_equal(made->partition_key, copy->partition_key) &&
            slice_equal(made->row_key, copy->row_key)) {
            *ret_target = t;
            return true;
        }
    }
    return false;
}

/* The source of which it is the copy of that target: the one it names, or any.
 */
static size_t source_of(struct judgement *j, const char *table,
    const struct entity *copy, size_t *ret_target)
{
    const struct stage *stage = j->scene->stage;
    struct copy_source says;
    size_t at = 0;

    if (copy_model_source(copy, &j->arena, &says)) {
        const struct entity named = {
            .partition_key = says.partition_key, .row_key = says.row_key};

        at = judge_find(stage, SWEEP_SOURCE, &named);
        return at < stage->count && is_of(j, at, table, copy, ret_target)
                   ? at
                   : stage->count;
    }
    while (at < stage->count && !is_of(j, at, table, copy, ret_target))
        at++;
    return at;
}

/* True also where it says nothing, and may. */
static bool says_rightly(
    struct judgement *j, const struct entity *copy, size_t source)
{
    const struct entity *of = &j->scene->stage->list[source].entity;
    struct copy_source says;

    if (!copy_model_source(copy, &j->arena, &says))
        return j->migration->strip;
    j->marked++;
    return slice_is(says.store, SWEEP_STORE) &&
           slice_is(says.table, SWEEP_SOURCE) &&
           slice_is(says.job, SWEEP_MIGRATE) && slice_is(says.run, SWEEP_ID) &&
           slice_equal(says.partition_key, of->partition_key) &&
           slice_equal(says.row_key, of->row_key) &&
           slice_equal(says.etag, j->fates[source].etag);
}

static bool look_at_copy(struct judgement *j, const char *table,
    const struct entity *entity, struct err *err)
{
    size_t target = 0, source = source_of(j, table, entity, &target);
    struct fate *fate = &j->fates[source];

    if (source == j->scene->stage->count)
        return judge_wrong(
            err, "%s has %.*s/%.*s, which is no copy", table, KEYS(entity));
    if (!copy_model_same(entity, &fate->copies[target]))
        return judge_wrong(
            err, "%s: %.*s/%.*s is not as its source is", table, KEYS(entity));
    if (!says_rightly(j, entity, source))
        return judge_wrong(
            err, "%s: %.*s/%.*s says the wrong source", table, KEYS(entity));
    fate->stands[target] = true;
    return true;
}

static bool look(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    struct judgement *j = visitor->ctx;
    size_t at = judge_find(j->scene->stage, table, entity);

    if (at < j->scene->stage->count &&
        (!j->migration->within || is_as_it_was(j, at, entity)))
        return look_at_stage(j, at, entity, err);
    return look_at_copy(j, table, entity, err);
}

/* Has the run ended, with nothing left to do for it? */
static bool has_worked(const struct ledger_run *run)
{
    return run->state == LEDGER_SUCCEEDED || run->state == LEDGER_FAILED;
}

static bool judge_one(const struct judgement *j, size_t at, struct err *err)
{
    const struct fate *fate = &j->fates[at];
    bool worked = has_worked(&j->run), all = true;
    const char *what = NULL;

    for (size_t i = 0; i < j->migration->model.count; i++)
        all = all && fate->stands[i];
    if (!fate->seen && (!fate->source || !j->migration->move))
        what = "is gone";
    else if (!fate->seen && !all)
        what = "is in neither place";
    else if (fate->source && worked && !fate->fails && !all)
        what = "is not copied, and the run has ended";
    else if (fate->source && worked && !fate->fails && fate->seen &&
             j->migration->move)
        what = "is still there, and the run has ended";
    return !what ||
           judge_wrong(err, "%s: %.*s/%.*s %s", j->scene->stage->list[at].table,
               KEYS(&j->scene->stage->list[at].entity), what);
}

static bool judge_tables(struct judgement *j, struct err *err)
{
    struct judge_visitor visitor = {.visit = look, .scene = j->scene, .ctx = j};
    bool good = judge_visit(j->scene->store, &visitor, err);

    for (size_t i = 0; good && i < j->scene->stage->count; i++)
        good = judge_one(j, i, err);
    if (good && j->migration->strip && j->marked > 0 &&
        j->run.state == LEDGER_SUCCEEDED)
        good = judge_wrong(err, "a copy still says where it comes from");
    return good;
}

/* ---- ledger and queues ---- */

static bool judge_message(const struct judgement *j, struct err *err)
{
    return ledger_state_ended(j->run.state) ||
           judge_messages(j->scene->store, SWEEP_QUEUE) >= 1 ||
           judge_wrong(err, "the message is gone, and the run is %s",
               ledger_state_name(j->run.state));
}

/* After a kill, counts are lower bounds; and of a move, what was copied and not
 * moved yet is deleted and made anew. */
static bool fits(
    const struct judgement *j, int64_t counted, int64_t clean, int64_t anew)
{
    if (j->scene->killed == 0)
        return counted == clean;
    return counted <=
           clean + j->scene->killed * (j->migration->move ? anew : 0);
}

static bool judge_counts(const struct judgement *j, struct err *err)
{
    const struct ledger_run *run = &j->run;
    int64_t copies = 0, moved = 0, failed = 0, written;

    for (size_t i = 0; i < j->scene->stage->count; i++) {
        const struct fate *fate = &j->fates[i];

        failed += fate->fails;
        moved += fate->source && j->migration->move && !fate->fails;
        for (size_t t = 0; t < j->migration->model.count; t++)
            copies += fate->source && fate->stands[t] &&
                      !before(j, t, &fate->copies[t]);
    }
    written = j->migration->strip ? copies * 2 : copies;
    if (run->failed < failed || run->failed > failed * COPY_TARGETS_MAX)
        return judge_wrong(err, "the ledger counts %lld failed, not %lld",
            (long long)run->failed, (long long)failed);
    if (!fits(j, run->deleted, moved, copies))
        return judge_wrong(err, "the ledger counts %lld deleted of %lld",
            (long long)run->deleted, (long long)moved);
    if (!fits(j, run->written, written, copies))
        return judge_wrong(err, "the ledger counts %lld written of %lld",
            (long long)run->written, (long long)written);
    return true;
}

static bool judge_end(const struct judgement *j, struct err *err)
{
    int64_t poison =
        judge_messages(j->scene->store, SWEEP_QUEUE SETUP_POISON_SUFFIX);
    int64_t copies = j->run.state == LEDGER_FAILED;

    if (j->run.state != j->scene->scenario->end)
        return judge_wrong(err, "the run is %s, not %s: %.*s",
            ledger_state_name(j->run.state),
            ledger_state_name(j->scene->scenario->end),
            SLICE_ARG(j->run.error));
    if (j->run.owner.len > 0)
        return judge_wrong(err, "the run has ended, and has an owner");
    if (judge_messages(j->scene->store, SWEEP_QUEUE) != 0)
        return judge_wrong(err, "the queue still holds a message");
    /* One that was killed before it knew of its copy: the next makes another.
     */
    if (poison < copies || poison > copies + copies * j->scene->killed)
        return judge_wrong(err,
            "the poison queue holds %lld messages, not %lld", (long long)poison,
            (long long)copies);
    return judge_counts(j, err) &&
           judge_no_marker(j->scene, SWEEP_MIGRATE, err);
}

static bool read_run(struct judgement *j, struct err *err)
{
    struct attempt attempt = {0};
    enum tw_err code = ledger_get(j->scene->store, &attempt,
        slice_of(SWEEP_MIGRATE), slice_of(SWEEP_ID), &j->run);

    return code == TW_OK || code == TW_NOT_FOUND ||
           judge_wrong(err, "%s", attempt.err.text);
}

/* ---- the whole ---- */

bool judge_migrate(const struct scene *scene, struct err *err)
{
    size_t count = scene->stage->count;
    struct judgement j = {.scene = scene,
        .migration = scene->scenario->migration,
        .fates = mem_alloc((count + 1) * sizeof(*j.fates))};
    bool good;

    arena_init(&j.arena);
    ledger_run_init(&j.run);
    for (size_t i = 0; i < count; i++)
        foresee(&j, i);
    good = read_run(&j, err) && judge_message(&j, err) &&
           judge_tables(&j, err) && (!scene->ended || judge_end(&j, err));
    ledger_run_done(&j.run);
    arena_done(&j.arena);
    mem_free(j.fates);
    return good;
}
