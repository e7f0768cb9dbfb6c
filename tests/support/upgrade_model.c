/* SPDX-License-Identifier: MIT */
/* A schema upgrade in other words: see upgrade_model.h. */
#include "tests/support/upgrade_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/text.h"

/* ---- properties ---- */

static const struct property *find(
    const struct entity *entity, const char *name)
{
    return entity_find(entity, slice_of(name));
}

void model_set(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, const char *json)
{
    const struct property property = {
        .name = slice_of(name), .type = type, .json = slice_of(json)};

    entity_set(entity, arena, &property);
}

static void copy_to(struct entity *entity, struct arena *arena,
    const char *name, const struct property *value)
{
    struct property property = *value;

    property.name = slice_of(name);
    entity_set(entity, arena, &property);
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

/* ---- conversions ---- */

enum worth {
    EXACT,
    LOSSY,
    IMPOSSIBLE,
};

/* A text, and which numbers it is: as JSON, or NULL. */
static const struct {
    const char *json, *as_int32, *as_int64, *as_double;
} TEXTS[] = {
    {"\"0\"", "0", "\"0\"", "0.0"},
    {"\"12\"", "12", "\"12\"", "12.0"},
    {"\"-3\"", "-3", "\"-3\"", "-3.0"},
    {"\"2147483648\"", NULL, "\"2147483648\"", "2147483648.0"},
    {"\"4.5\"", NULL, NULL, "4.5"},
    {"\"-0.125\"", NULL, NULL, "-0.125"},
    {"\"none\"", NULL, NULL, NULL},
    {"\"\"", NULL, NULL, NULL},
    {"\" 4\"", NULL, NULL, NULL},
    {"\"4 \"", NULL, NULL, NULL},
    {"\"+4\"", NULL, NULL, NULL},
    {"\"04\"", NULL, NULL, NULL},
};

const char *model_text(size_t n)
{
    return TEXTS[n].json;
}

size_t model_texts(void)
{
    return sizeof(TEXTS) / sizeof(TEXTS[0]);
}

static enum worth text_to(
    const struct property *from, enum edm_type to, struct slice *ret)
{
    const char *json = NULL;
    size_t n = 0;

    while (n < model_texts() && !slice_is(from->json, TEXTS[n].json))
        n++;
    if (n == model_texts())
        abort();
    if (to == EDM_INT32)
        json = TEXTS[n].as_int32;
    else if (to == EDM_INT64)
        json = TEXTS[n].as_int64;
    else if (to == EDM_DOUBLE)
        json = TEXTS[n].as_double;
    else
        abort();
    *ret = slice_of(json);
    return json ? EXACT : IMPOSSIBLE;
}

static enum worth integer_to(
    int64_t value, enum edm_type to, struct arena *arena, struct slice *ret)
{
    long long number = value;

    if (to == EDM_INT32 && (value < INT32_MIN || value > INT32_MAX))
        return IMPOSSIBLE;
    if (to == EDM_DOUBLE) {
        *ret = arena_format(arena, "%.1f", (double)value);
        return (int64_t)(double)value == value ? EXACT : LOSSY;
    }
    if (to != EDM_INT32 && to != EDM_INT64 && to != EDM_STRING)
        abort();
    *ret = arena_format(arena, to == EDM_INT32 ? "%lld" : "\"%lld\"", number);
    return EXACT;
}

/* Only what is far from the ends. */
static enum worth double_to(
    double value, enum edm_type to, struct arena *arena, struct slice *ret)
{
    double whole = trunc(value);

    if (to != EDM_INT32 && to != EDM_INT64)
        abort();
    if (!isfinite(value) || fabs(value) > 1e9)
        return IMPOSSIBLE;
    *ret = arena_format(
        arena, to == EDM_INT32 ? "%lld" : "\"%lld\"", (long long)whole);
    return value == whole ? EXACT : LOSSY;
}

static enum worth ticks_to(
    int64_t ticks, enum edm_type to, struct arena *arena, struct slice *ret)
{
    if (to != EDM_INT64)
        abort();
    *ret = arena_format(arena, "\"%lld\"", (long long)ticks);
    return EXACT;
}

/* *ret has from's name. */
static enum worth convert(const struct property *from, enum edm_type to,
    struct arena *arena, struct property *ret)
{
    enum worth worth = EXACT;
    struct slice json = from->json;
    int64_t integer;
    double number;

    if (from->type == to)
        worth = EXACT;
    else if (property_integer(from, &integer))
        worth = integer_to(integer, to, arena, &json);
    else if (property_double(from, &number))
        worth = double_to(number, to, arena, &json);
    else if (property_ticks(from, &integer))
        worth = ticks_to(integer, to, arena, &json);
    else if (from->type == EDM_STRING)
        worth = text_to(from, to, &json);
    else
        abort();
    if (worth != IMPOSSIBLE)
        *ret = (struct property){from->name, to, json};
    return worth;
}

/* ---- steps ---- */

/* A property by the name `to` is in the way, unless it is what would be put
 * there. */
static bool is_free(
    const struct entity *entity, const char *to, const struct property *value)
{
    const struct property *there = find(entity, to);
    struct property named = *value;

    if (!there)
        return true;
    named.name = there->name;
    return property_equal(there, &named);
}

static void add(
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    if (step->type == MODEL_SET || !find(entity, step->property))
        model_set(entity, arena, step->property, step->edm, step->value);
}

/* Of the texts of the model, lower case is ASCII's. */
static enum model_end add_lower(
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    const struct property *of = find(entity, step->value);
    struct slice lower;
    char *at;

    if (find(entity, step->property))
        return MODEL_CHANGED;
    if (!of)
        return MODEL_FAILED;
    lower = arena_copy(arena, of->json);
    at = arena_alloc(arena, lower.len + 1);
    for (size_t i = 0; i < lower.len; i++)
        at[i] = (char)(lower.at[i] >= 'A' && lower.at[i] <= 'Z'
                           ? lower.at[i] + 'a' - 'A'
                           : lower.at[i]);
    at[lower.len] = '\0';
    model_set(entity, arena, step->property, EDM_STRING, at);
    return MODEL_CHANGED;
}

static enum model_end rename_one(const struct model_upgrade *upgrade,
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    const struct property *from = find(entity, step->property);

    if (!from)
        return MODEL_CHANGED;
    if (!is_free(entity, step->to, from))
        return MODEL_FAILED;
    copy_to(entity, arena, step->to, from);
    if (upgrade->phase == MODEL_ALL)
        drop(entity, step->property);
    return MODEL_CHANGED;
}

static enum model_end retype(
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    const struct property *from = find(entity, step->property);
    struct property made;
    enum worth worth;

    if (!from)
        return MODEL_CHANGED;
    worth = convert(from, step->edm, arena, &made);
    if (worth == IMPOSSIBLE || (worth == LOSSY && !step->lossy)) {
        if (strcmp(step->on_error, "fail") == 0)
            return MODEL_FAILED;
        if (strcmp(step->on_error, "skip") == 0)
            return MODEL_SKIPPED;
        if (step->to)
            return find(entity, step->to) ? MODEL_FAILED : MODEL_CHANGED;
        drop(entity, step->property);
        return MODEL_CHANGED;
    }
    if (step->to && !is_free(entity, step->to, &made))
        return MODEL_FAILED;
    copy_to(entity, arena, step->to ? step->to : step->property, &made);
    return MODEL_CHANGED;
}

static enum model_end forward(const struct model_upgrade *upgrade,
    struct entity *entity, struct arena *arena, const struct model_step *step)
{
    switch (step->type) {
    case MODEL_ADD:
    case MODEL_SET:
        add(entity, arena, step);
        return MODEL_CHANGED;
    case MODEL_ADD_LOWER:
        return add_lower(entity, arena, step);
    case MODEL_RENAME:
        return rename_one(upgrade, entity, arena, step);
    case MODEL_RETYPE:
        return retype(entity, arena, step);
    case MODEL_REMOVE:
        if (upgrade->phase == MODEL_ALL)
            drop(entity, step->property);
        return MODEL_CHANGED;
    }
    abort();
}

/* Nothing is lost with it: it is in `to`, or no value of that type was in it
 * and that was allowed. */
static bool may_go(const struct entity *entity, struct arena *arena,
    const struct model_step *step, const struct property *old)
{
    struct property made;
    enum worth worth;

    if (step->type == MODEL_REMOVE || find(entity, step->to))
        return true;
    if (step->type == MODEL_RENAME || strcmp(step->on_error, "null") != 0)
        return false;
    worth = convert(old, step->edm, arena, &made);
    return worth == IMPOSSIBLE || (worth == LOSSY && !step->lossy);
}

static enum model_end contract(const struct model_upgrade *upgrade,
    struct entity *entity, struct arena *arena)
{
    enum model_end end = MODEL_UNCHANGED;

    for (size_t i = 0; i < upgrade->count; i++) {
        const struct model_step *step = &upgrade->steps[i];
        const struct property *old = find(entity, step->property);

        if (!old || (step->type != MODEL_REMOVE && step->type != MODEL_RENAME &&
                        (step->type != MODEL_RETYPE || !step->to)))
            continue;
        if (!may_go(entity, arena, step, old))
            return MODEL_FAILED;
        drop(entity, step->property);
        end = MODEL_CHANGED;
    }
    return end;
}

/* ---- entities ---- */

bool model_matches(
    const struct model_upgrade *upgrade, const struct entity *entity)
{
    const struct property *kind;
    struct arena arena;
    struct slice text;
    bool matches;

    if (!upgrade->filter_property)
        return true;
    arena_init(&arena);
    kind = find(entity, upgrade->filter_property);
    matches = kind && kind->type == EDM_STRING &&
              property_text(kind, &arena, &text) &&
              slice_is(text, upgrade->filter_value);
    arena_done(&arena);
    return matches;
}

bool model_is_at(const struct model_upgrade *upgrade,
    const struct entity *entity, int version)
{
    const struct property *property = find(entity, upgrade->version);
    char json[16];
    int64_t integer;
    double number;

    if (!property)
        return false;
    (void)snprintf(json, sizeof(json), "\"%d\"", version);
    if (upgrade->texts)
        return property->type == EDM_STRING && slice_is(property->json, json);
    if (property_integer(property, &integer))
        return integer == version;
    return property_double(property, &number) && number == version;
}

static bool is_its(
    const struct model_upgrade *upgrade, const struct entity *entity)
{
    if (!model_matches(upgrade, entity))
        return false;
    if (upgrade->phase == MODEL_CONTRACT)
        return model_is_at(upgrade, entity, upgrade->to);
    if (!find(entity, upgrade->version))
        return upgrade->absent_is_at;
    return model_is_at(upgrade, entity, upgrade->from);
}

static void set_version(const struct model_upgrade *upgrade,
    struct entity *entity, struct arena *arena)
{
    struct slice json =
        arena_format(arena, upgrade->texts ? "\"%d\"" : "%d", upgrade->to);

    model_set(entity, arena, upgrade->version,
        upgrade->texts ? EDM_STRING : EDM_INT32, json.at);
}

enum model_end model_apply(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena, struct entity *ret)
{
    enum model_end end = MODEL_CHANGED;

    if (!is_its(upgrade, entity))
        return MODEL_NOT_ITS;
    entity_copy(ret, arena, entity);
    if (upgrade->phase == MODEL_CONTRACT)
        return contract(upgrade, ret, arena);
    for (size_t i = 0; i < upgrade->count && end == MODEL_CHANGED; i++)
        end = forward(upgrade, ret, arena, &upgrade->steps[i]);
    if (end != MODEL_CHANGED)
        return end;
    for (size_t i = 0; upgrade->phase == MODEL_ALL && i < upgrade->count; i++)
        if (upgrade->steps[i].type == MODEL_RETYPE && upgrade->steps[i].to)
            drop(ret, upgrade->steps[i].property);
    set_version(upgrade, ret, arena);
    return end;
}

/* ---- the configuration ---- */

static void add_value(const struct model_step *step, struct buf *to)
{
    buf_add_format(to, "{property: %s, type: %s, value: ", step->property,
        step->type == MODEL_ADD_LOWER ? "Edm.String"
                                      : edm_type_name(step->edm));
    if (step->type == MODEL_ADD_LOWER)
        buf_add_format(to, "\"{lower(%s)}\"}\n", step->value);
    else
        buf_add_format(to, "%s}\n", step->value);
}

static void add_retype(const struct model_step *step, struct buf *to)
{
    buf_add_format(
        to, "{property: %s, to: %s", step->property, edm_type_name(step->edm));
    if (step->on_error)
        buf_add_format(to, ", on_error: %s", step->on_error);
    if (step->lossy)
        buf_add_text(to, ", lossy: true");
    if (step->to)
        buf_add_format(to, ", to_property: %s", step->to);
    buf_add_text(to, "}\n");
}

void model_add_steps(const struct model_upgrade *upgrade, struct buf *to)
{
    static const char *const NAMES[] = {[MODEL_ADD] = "add",
        [MODEL_ADD_LOWER] = "add",
        [MODEL_SET] = "set",
        [MODEL_RENAME] = "rename",
        [MODEL_RETYPE] = "retype",
        [MODEL_REMOVE] = "remove"};

    for (size_t i = 0; i < upgrade->count; i++) {
        const struct model_step *step = &upgrade->steps[i];

        buf_add_format(to, "      - %s: ", NAMES[step->type]);
        if (step->type == MODEL_RENAME)
            buf_add_format(
                to, "{property: %s, to: %s}\n", step->property, step->to);
        else if (step->type == MODEL_RETYPE)
            add_retype(step, to);
        else if (step->type == MODEL_REMOVE)
            buf_add_format(to, "{property: %s}\n", step->property);
        else
            add_value(step, to);
    }
}
