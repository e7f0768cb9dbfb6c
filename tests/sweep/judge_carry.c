/* SPDX-License-Identifier: MIT */
/* The judge of copies and moves: see judge.h. */
#include <stdio.h>
#include <string.h>

#include "tests/sweep/judge.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/run/setup.h"

#define MARK "TablewardSource"

struct carry {
    const struct scene *scene;
    struct ledger_run run;
    struct arena arena;
    unsigned char *at_source, *at_copy; /* by index into the stage: entities */
};

static const struct sweep_carry *rules_of(const struct carry *c)
{
    return c->scene->scenario->carry;
}

/* Does the job mean this entity of the stage? */
static bool is_source(const struct carry *c, const struct sweep_entity *one)
{
    return strcmp(one->table, SWEEP_SOURCE) == 0 &&
           (!rules_of(c)->within || !rules_of(c)->move ||
               slice_is(one->entity.partition_key, "p0"));
}

static const char *table_of(const struct carry *c)
{
    return rules_of(c)->within ? SWEEP_SOURCE : SWEEP_COPIES;
}

/* The keys of its copy, in the judge's own words; as in scenarios.c. */
static void set_keys(struct carry *c, const struct entity *of,
    struct slice *partition_key, struct slice *row_key)
{
    const struct property *month = entity_find(of, slice_of("Month"));
    int32_t number = 0;

    *partition_key = of->partition_key;
    *row_key = of->row_key;
    if (!month || !property_int32(month, &number))
        return;
    if (rules_of(c)->within && rules_of(c)->move)
        *partition_key = slice_of("moved");
    else if (rules_of(c)->within)
        *row_key =
            arena_format(&c->arena, "i:%02d:%.*s", number, SLICE_ARG(*row_key));
    else
        *partition_key = arena_format(
            &c->arena, "%.*s_%02d", SLICE_ARG(*partition_key), number);
}

/* The properties alone, with these keys and without TablewardSource. */
static char *text_with_keys(struct carry *c, const struct entity *entity,
    struct slice partition_key, struct slice row_key)
{
    struct entity bare = entity_without(entity, slice_of(MARK), &c->arena);

    bare.partition_key = partition_key;
    bare.row_key = row_key;
    bare.etag = bare.timestamp = slice_of("");
    return judge_text(&bare);
}

static bool is_copy_of(
    struct carry *c, const struct entity *entity, const struct entity *source)
{
    char *is, *wanted;
    struct slice partition_key, row_key;
    bool same;

    set_keys(c, source, &partition_key, &row_key);
    if (!slice_equal(entity->partition_key, partition_key) ||
        !slice_equal(entity->row_key, row_key) ||
        (entity_find(entity, slice_of(MARK)) != NULL) == rules_of(c)->move)
        return false;
    is = text_with_keys(c, entity, partition_key, row_key);
    wanted = text_with_keys(c, source, partition_key, row_key);
    same = strcmp(is, wanted) == 0;
    mem_free(is);
    mem_free(wanted);
    return same;
}

/* Each entity is one of the stage, untouched, or a copy of a source. */
static bool look(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    struct carry *c = visitor->ctx;
    const struct stage *stage = c->scene->stage;
    size_t at = judge_find(stage, table, entity);

    if (strcmp(table, "TablewardProbe") == 0)
        return true;
    if (at < stage->count) {
        char *text = judge_text(entity);
        bool same = strcmp(text, stage->list[at].was) == 0;

        mem_free(text);
        c->at_source[at] = same;
        return same || judge_wrong(err, "%s: %.*s/%.*s was changed", table,
                           SLICE_ARG(entity->partition_key),
                           SLICE_ARG(entity->row_key));
    }
    for (size_t i = 0; i < stage->count; i++)
        if (is_source(c, &stage->list[i]) && strcmp(table, table_of(c)) == 0 &&
            is_copy_of(c, entity, &stage->list[i].entity)) {
            c->at_copy[i]++;
            return true;
        }
    return judge_wrong(err, "%s: %.*s/%.*s is a copy of nothing", table,
        SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
}

/* What is in the way of a source's copy: an entity of the stage. */
static bool is_taken(struct carry *c, const struct sweep_entity *source)
{
    struct entity keys = {.property_count = 0};

    set_keys(c, &source->entity, &keys.partition_key, &keys.row_key);
    return judge_find(c->scene->stage, table_of(c), &keys) <
           c->scene->stage->count;
}

static bool judge_one(struct carry *c, size_t at, struct err *err)
{
    const struct sweep_entity *one = &c->scene->stage->list[at];
    bool over =
        ledger_state_ended(c->run.state) && c->run.state != LEDGER_CANCELLED;
    bool taken;
    const char *what = NULL;

    if (!is_source(c, one)) {
        what = c->at_source[at] ? NULL : "is gone, and none of the job's";
    } else {
        taken = is_taken(c, one);
        if (!c->at_source[at] && (!rules_of(c)->move || !c->at_copy[at]))
            what = "is lost";
        else if (taken && !c->at_source[at])
            what = "is gone, and its destination key was in use";
        else if (over && !taken && !c->at_copy[at])
            what = "has no copy after the end";
        else if (over && !taken && rules_of(c)->move && c->at_source[at])
            what = "is in both places after the end";
    }
    return !what || judge_wrong(err, "%s: %.*s/%.*s %s", one->table,
                        SLICE_ARG(one->entity.partition_key),
                        SLICE_ARG(one->entity.row_key), what);
}

static bool judge_tables(struct carry *c, struct err *err)
{
    struct judge_visitor visitor = {.visit = look, .scene = c->scene, .ctx = c};
    bool good = judge_visit(c->scene->store, &visitor, err);

    for (size_t i = 0; good && i < c->scene->stage->count; i++)
        good = judge_one(c, i, err);
    return good;
}

static bool judge_end(const struct carry *c, struct err *err)
{
    const struct scene *scene = c->scene;
    enum ledger_state end = judge_wanted_end(scene, &c->run);
    int64_t poison =
        judge_messages(scene->store, SWEEP_QUEUE SETUP_POISON_SUFFIX);
    int64_t copies = end == LEDGER_FAILED;

    if (c->run.state != end)
        return judge_wrong(err, "the run is %s, not %s: %.*s",
            ledger_state_name(c->run.state), ledger_state_name(end),
            SLICE_ARG(c->run.error));
    if (judge_messages(scene->store, SWEEP_QUEUE) != 0)
        return judge_wrong(err, "the queue still holds a message");
    if (poison < copies || poison > copies + copies * scene->killed)
        return judge_wrong(err,
            "the poison queue holds %lld messages, not %lld", (long long)poison,
            (long long)copies);
    return judge_no_marker(scene, SWEEP_CARRY, err);
}

bool judge_carry(const struct scene *scene, struct err *err)
{
    struct carry c = {.scene = scene,
        .at_source = mem_alloc(scene->stage->count),
        .at_copy = mem_alloc(scene->stage->count)};
    struct exchange exchange = {0};
    enum tw_err outcome;
    bool good = true;

    arena_init(&c.arena);
    ledger_run_init(&c.run);
    outcome = ledger_get(scene->store, &exchange, slice_of(SWEEP_CARRY),
        slice_of(SWEEP_ID), &c.run);
    if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        good = judge_wrong(err, "%s", exchange.err.text);
    else if (judge_needs_message(&c.run) &&
             judge_messages(scene->store, SWEEP_QUEUE) < 1)
        good = judge_wrong(err, "the message is gone, and the run is %s",
            outcome == TW_OK ? ledger_state_name(c.run.state) : "unknown");
    good =
        good && judge_tables(&c, err) && (!scene->ended || judge_end(&c, err));
    ledger_run_done(&c.run);
    arena_done(&c.arena);
    mem_free(c.at_source);
    mem_free(c.at_copy);
    return good;
}
