/* SPDX-License-Identifier: MIT */
/* A second implementation of the schema upgrade: see upgrade_model.h. */
#include "tests/support/upgrade_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- properties ---- */

static const struct property *find(
    const struct entity *entity, const char *name)
{
    return entity_find(entity, slice_of(name));
}

static void put(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, struct slice json)
{
    const struct property property = {slice_of(name), type, json};

    entity_set(entity, arena, &property);
}

void model_set(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, const char *json)
{
    put(entity, arena, name, type, slice_of(json));
}

static void drop(struct entity *entity, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < entity->property_count; i++)
        if (!slice_is(entity->properties[i].name, name))
            entity->properties[kept++] = entity->properties[i];
    entity->property_count = kept;
}

bool model_same(const struct entity *a, const struct entity *b)
{
    if (a->property_count != b->property_count ||
        !slice_equal(a->partition_key, b->partition_key) ||
        !slice_equal(a->row_key, b->row_key))
        return false;
    for (size_t i = 0; i < a->property_count; i++) {
        const struct property *other = entity_find(b, a->properties[i].name);

        if (!other || !property_equal(&a->properties[i], other))
            return false;
    }
    return true;
}

/* ---- steps ---- */

/* The texts that tests convert to a Double, and the Double as JSON; NULL: the
 * text cannot be converted. */
static const struct {
    const char *json, *as_double;
} TEXTS[] = {{"\"4.5\"", "4.5"}, {"\"04\"", NULL}, {"\"none\"", NULL}};

/* Converts a property. *ret keeps the name. False: it cannot be converted. */
static bool convert(const struct property *from, enum edm_type to,
    struct arena *arena, struct property *ret)
{
    int64_t integer;

    *ret = (struct property){from->name, to, from->json};
    if (from->type == to)
        return true;
    if (to == EDM_STRING && property_integer(from, &integer)) {
        ret->json = arena_format(arena, "\"%lld\"", (long long)integer);
        return true;
    }
    for (size_t i = 0; from->type == EDM_STRING && to == EDM_DOUBLE &&
                       i < sizeof(TEXTS) / sizeof(TEXTS[0]);
         i++)
        if (slice_is(from->json, TEXTS[i].json)) {
            ret->json = slice_of(TEXTS[i].as_double);
            return TEXTS[i].as_double != NULL;
        }
    abort();
}

/* Stores value under the name `to`. Fails if another property already has this
 * name, with another value. */
static enum model_end put_at(struct entity *entity, struct arena *arena,
    const char *to, const struct property *value)
{
    const struct property named = {slice_of(to), value->type, value->json};
    const struct property *there = find(entity, to);

    if (there && !slice_is(value->name, to) && !property_equal(there, &named))
        return MODEL_FAILED;
    entity_set(entity, arena, &named);
    return MODEL_CHANGED;
}

static enum model_end retype(struct entity *entity, struct arena *arena,
    const struct model_step *step, const struct property *from)
{
    struct property made;

    if (convert(from, step->edm, arena, &made))
        return put_at(
            entity, arena, step->to ? step->to : step->property, &made);
    return strcmp(step->on_error, "skip") == 0 ? MODEL_SKIPPED : MODEL_FAILED;
}

/* Carries out a step, but removes nothing: old properties are removed later. */
static enum model_end forward(
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    const struct property *from = find(entity, step->property);

    if (step->type == MODEL_ADD && !from)
        model_set(entity, arena, step->property, step->edm, step->value);
    if (step->type == MODEL_RENAME && from)
        return put_at(entity, arena, step->to, from);
    if (step->type == MODEL_RETYPE && from)
        return retype(entity, arena, step, from);
    return MODEL_CHANGED;
}

/* Returns whether the step removes its property in the end. */
static bool removes(const struct model_step *step)
{
    return step->type == MODEL_REMOVE || step->type == MODEL_RENAME ||
           (step->type == MODEL_RETYPE && step->to);
}

/* Removes the old properties. Fails if `to` is missing, because a removal would
 * then lose the value. */
static enum model_end contract(
    const struct model_upgrade *upgrade, struct entity *entity)
{
    enum model_end end = MODEL_UNCHANGED;

    for (size_t i = 0; i < upgrade->count; i++) {
        const struct model_step *step = &upgrade->steps[i];

        if (!removes(step) || !find(entity, step->property))
            continue;
        if (step->to && !find(entity, step->to))
            return MODEL_FAILED;
        drop(entity, step->property);
        end = MODEL_CHANGED;
    }
    return end;
}

/* ---- entities ---- */

static bool is_at(const struct model_upgrade *upgrade,
    const struct entity *entity, int version)
{
    const struct property *property = find(entity, upgrade->version);
    int64_t integer;
    double number;

    if (!property)
        return false;
    if (property_integer(property, &integer))
        return integer == version;
    return property_double(property, &number) && number == version;
}

static bool is_its(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena)
{
    const struct property *kind = find(entity, upgrade->filter_property);
    struct slice text;

    if (!kind || kind->type != EDM_STRING ||
        !property_text(kind, arena, &text) ||
        !slice_is(text, upgrade->filter_value))
        return false;
    if (upgrade->phase == MODEL_CONTRACT)
        return is_at(upgrade, entity, upgrade->to);
    if (!find(entity, upgrade->version))
        return upgrade->absent_is_at;
    return is_at(upgrade, entity, upgrade->from);
}

enum model_end model_apply(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena, struct entity *ret)
{
    enum model_end end = MODEL_CHANGED;

    if (!is_its(upgrade, entity, arena))
        return MODEL_NOT_ITS;
    entity_copy(ret, arena, entity);
    if (upgrade->phase == MODEL_CONTRACT)
        return contract(upgrade, ret);
    for (size_t i = 0; i < upgrade->count && end == MODEL_CHANGED; i++)
        end = forward(ret, arena, &upgrade->steps[i]);
    if (end != MODEL_CHANGED)
        return end;
    for (size_t i = 0; upgrade->phase == MODEL_ALL && i < upgrade->count; i++)
        if (removes(&upgrade->steps[i]))
            drop(ret, upgrade->steps[i].property);
    put(ret, arena, upgrade->version, EDM_INT32,
        arena_format(arena, "%d", upgrade->to));
    return end;
}
