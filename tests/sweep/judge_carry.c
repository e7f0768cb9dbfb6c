/* SPDX-License-Identifier: MIT */
/* The judge of copies and moves: see judge.h. */
#include <stdio.h>
#include <string.h>

#include "tests/sweep/judge.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

#define MARK "TablewardSource"

struct carry {
    const struct scene *scene;
    struct ledger_run run;
    struct arena arena;
    unsigned char *at_source, *at_copy; /* by index into the stage; at_source:
                                           1 if the entity is unchanged;
                                           at_copy: number of its copies */
};

static const struct sweep_carry *rules_of(const struct carry *c)
{
    return c->scene->scenario->carry;
}

/* True if this entity of the stage is a source of the job. */
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

/* Computes the keys of the copy of `of`, by the rule of the jobs in
 * scenarios.c. Written separately from the product. */
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

/* Returns the entity as text, with these keys, without TablewardSource, ETag
 * and Timestamp. */
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

/* Notes an entity: it must be an unchanged entity of the stage or a copy of a
 * source. */
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
        return same || judge_wrong_at(err, table, entity, "was changed");
    }
    for (size_t i = 0; i < stage->count; i++)
        if (is_source(c, &stage->list[i]) && strcmp(table, table_of(c)) == 0 &&
            is_copy_of(c, entity, &stage->list[i].entity)) {
            c->at_copy[i]++;
            return true;
        }
    return judge_wrong_at(err, table, entity, "is a copy of nothing");
}

/* True if an entity of the stage has the destination key of this source. */
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
    return !what || judge_wrong_at(err, one->table, &one->entity, what);
}

static bool judge_tables(struct carry *c, struct err *err)
{
    struct judge_visitor visitor = {.visit = look, .scene = c->scene, .ctx = c};
    bool good = judge_visit(c->scene->store, &visitor, err);

    for (size_t i = 0; good && i < c->scene->stage->count; i++)
        good = judge_one(c, i, err);
    return good;
}

bool judge_carry(const struct scene *scene, struct err *err)
{
    struct carry c = {.scene = scene,
        .at_source = mem_alloc(scene->stage->count),
        .at_copy = mem_alloc(scene->stage->count)};
    bool good;

    arena_init(&c.arena);
    ledger_run_init(&c.run);
    good = judge_run(scene, SWEEP_CARRY, &c.run, err) &&
           judge_tables(&c, err) &&
           (!scene->ended || judge_run_end(scene, SWEEP_CARRY, &c.run, err));
    ledger_run_done(&c.run);
    arena_done(&c.arena);
    mem_free(c.at_source);
    mem_free(c.at_copy);
    return good;
}
