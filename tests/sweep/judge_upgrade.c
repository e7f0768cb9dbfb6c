/* SPDX-License-Identifier: MIT */
/* The judge of upgrades: see judge.h. */
#include "tests/sweep/judge.h"

#include <string.h>

#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* What the runs may make of an entity. */
struct future {
    enum model_end end; /* outcome of the upgrade */
    bool has_upgraded, has_contracted;
    struct entity upgraded, contracted;
};

struct judgement {
    const struct scene *scene;
    struct arena arena;
    struct future *futures; /* by index into the stage */
    bool *seen, *below, *contracted;
    struct ledger_run upgrade, contract;
};

/* ---- what may be ---- */

static void foresee(struct judgement *j, size_t at)
{
    const struct scenario *scenario = j->scene->scenario;
    const struct entity *entity = &j->scene->stage->list[at].entity;
    struct future *future = &j->futures[at];

    future->end =
        model_apply(scenario->upgrade, entity, &j->arena, &future->upgraded);
    future->has_upgraded = future->end == MODEL_CHANGED;
    if (scenario->contract)
        future->has_contracted =
            model_apply(scenario->contract,
                future->has_upgraded ? &future->upgraded : entity, &j->arena,
                &future->contracted) == MODEL_CHANGED;
}

/* True if the entity is as the upgrade makes it. The model does not know
 * TablewardExpanded, so this property is ignored. */
static bool is_upgraded(struct judgement *j, const struct entity *entity,
    const struct future *future)
{
    struct entity plain =
        entity_without(entity, slice_of("TablewardExpanded"), &j->arena);

    return model_same(&plain, &future->upgraded);
}

static bool look(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    struct judgement *j = visitor->ctx;
    const struct stage *stage = j->scene->stage;
    size_t at = judge_find(stage, table, entity);
    const struct future *future = &j->futures[at];
    char *text;
    bool untouched;

    if (at == stage->count)
        return judge_wrong_at(err, table, entity, "was put there by nobody");
    text = judge_text(entity);
    untouched = strcmp(text, stage->list[at].was) == 0;
    mem_free(text);
    j->seen[at] = true;
    j->below[at] = untouched && future->end != MODEL_NOT_ITS;
    j->contracted[at] = !untouched && future->has_contracted &&
                        model_same(entity, &future->contracted);
    if (untouched || j->contracted[at] ||
        (future->has_upgraded && is_upgraded(j, entity, future)))
        return true;
    return judge_wrong_at(err, table, entity, "is between the versions");
}

/* True if the run has ended and handled all entities. */
static bool has_worked(const struct ledger_run *run)
{
    return run->state == LEDGER_SUCCEEDED || run->state == LEDGER_FAILED;
}

static bool judge_one(const struct judgement *j, size_t at, struct err *err)
{
    const struct sweep_entity *each = &j->scene->stage->list[at];
    const struct future *future = &j->futures[at];
    const char *what = NULL;

    if (!j->seen[at])
        what = "is gone";
    else if (j->below[at] && future->has_upgraded && has_worked(&j->upgrade))
        what = "is as it was, and the run has ended";
    else if (j->contracted[at] && j->contract.state == LEDGER_FAILED)
        what = "is contracted, and the contract was refused";
    else if (j->contract.state == LEDGER_SUCCEEDED && !j->contracted[at] &&
             future->has_contracted)
        what = "is not contracted, and the contract has succeeded";
    return !what || judge_wrong_at(err, each->table, &each->entity, what);
}

static bool judge_tables(struct judgement *j, struct err *err)
{
    struct judge_visitor visitor = {.visit = look, .scene = j->scene, .ctx = j};
    size_t count = j->scene->stage->count;
    bool good = judge_visit(j->scene->store, &visitor, err);

    for (size_t i = 0; good && i < count; i++)
        good = judge_one(j, i, err);
    return good;
}

/* ---- ledger and queues ---- */

static bool judge_messages_left(const struct judgement *j, struct err *err)
{
    int64_t open = judge_needs_message(&j->upgrade);

    if (j->scene->scenario->contract)
        open += judge_needs_message(&j->contract);
    return direct_messages(j->scene->store, SWEEP_QUEUE) >= open ||
           judge_wrong(err, "the message of a run that is open is gone");
}

static int64_t count_ends(const struct judgement *j, enum model_end end)
{
    int64_t count = 0;

    for (size_t i = 0; i < j->scene->stage->count; i++)
        count += j->futures[i].end == end;
    return count;
}

/* Judges the counts of the upgrade. After a kill, `written` is a lower bound;
 * `failed` and `skipped` are exact, because the last round counts them
 * again. */
static bool judge_counts(const struct judgement *j, struct err *err)
{
    const struct ledger_run *run = &j->upgrade;
    int64_t changed = count_ends(j, MODEL_CHANGED);
    int64_t failed = count_ends(j, MODEL_FAILED);
    int64_t skipped = count_ends(j, MODEL_SKIPPED);

    if (run->written > changed ||
        (j->scene->killed == 0 && run->written != changed))
        return judge_wrong(err, "the ledger counts %lld written of %lld",
            (long long)run->written, (long long)changed);
    if (run->failed != failed)
        return judge_wrong(err, "the ledger counts %lld failed, not %lld",
            (long long)run->failed, (long long)failed);
    if (run->skipped != skipped)
        return judge_wrong(err, "the ledger counts %lld skipped, not %lld",
            (long long)run->skipped, (long long)skipped);
    /* A run needs two rounds. On a busy machine the first may take a minute of
     * the virtual clock; then a round that reads the newer entities comes
     * between them. */
    if (j->scene->killed == 0 && !j->scene->stopped &&
        (run->rounds < 2 || run->rounds > 3))
        return judge_wrong(
            err, "%d rounds, where two are enough", (int)run->rounds);
    return true;
}

/* Judges the states of both runs. After a kill the contract run may fail,
 * because it may begin before the upgrade run has ended. */
static bool judge_states(const struct judgement *j, struct err *err)
{
    const struct scenario *scenario = j->scene->scenario;

    if (j->upgrade.state != scenario->end)
        return judge_wrong(err, "the run is %s, not %s: %.*s",
            ledger_state_name(j->upgrade.state),
            ledger_state_name(scenario->end), SLICE_ARG(j->upgrade.error));
    if (j->upgrade.owner.len > 0 || j->contract.owner.len > 0)
        return judge_wrong(err, "a run that has ended has an owner");
    if (scenario->contract && j->contract.state != LEDGER_SUCCEEDED &&
        (j->contract.state != LEDGER_FAILED || j->scene->killed == 0))
        return judge_wrong(err, "the contract is %s: %.*s",
            ledger_state_name(j->contract.state), SLICE_ARG(j->contract.error));
    return true;
}

static bool judge_end(const struct judgement *j, struct err *err)
{
    int64_t copies = (j->upgrade.state == LEDGER_FAILED) +
                     (j->contract.state == LEDGER_FAILED);

    return judge_states(j, err) && judge_queues(j->scene, copies, err) &&
           judge_counts(j, err) &&
           judge_no_marker(j->scene, SWEEP_UPGRADE, err);
}

/* ---- the whole ---- */

static void begin(struct judgement *j, const struct scene *scene)
{
    size_t count = scene->stage->count;

    *j = (struct judgement){.scene = scene,
        .futures = mem_alloc(count * sizeof(*j->futures)),
        .seen = mem_alloc(count),
        .below = mem_alloc(count),
        .contracted = mem_alloc(count)};
    arena_init(&j->arena);
    ledger_run_init(&j->upgrade);
    ledger_run_init(&j->contract);
    for (size_t i = 0; i < count; i++)
        foresee(j, i);
}

static void done(struct judgement *j)
{
    ledger_run_done(&j->upgrade);
    ledger_run_done(&j->contract);
    arena_done(&j->arena);
    mem_free(j->futures);
    mem_free(j->seen);
    mem_free(j->below);
    mem_free(j->contracted);
}

bool judge_upgrade(const struct scene *scene, struct err *err)
{
    struct judgement judgement;
    bool good;

    begin(&judgement, scene);
    good = judge_read_run(
               scene, SWEEP_UPGRADE, SWEEP_ID, &judgement.upgrade, err) &&
           (!scene->scenario->contract ||
               judge_read_run(scene, SWEEP_UPGRADE, SWEEP_CONTRACT_ID,
                   &judgement.contract, err)) &&
           judge_messages_left(&judgement, err) &&
           judge_tables(&judgement, err) &&
           (!scene->ended || judge_end(&judgement, err));
    done(&judgement);
    return good;
}
