/* SPDX-License-Identifier: MIT */
/* Copies, a second time: see copy_model.h. */
#include "tests/support/copy_model.h"

#include <ctype.h>
#include <string.h>

#include "worker/base/json.h"

#define DEPTH 2 /* of what a provenance says: an object, and a list in it */

/* ---- keys ---- */

static const char *const TEMPLATES[COPY_KEYS] = {
    [COPY_SAME] = NULL,
    [COPY_SUFFIX] = "{PartitionKey}_x",
    [COPY_ALL] = "all",
    [COPY_MONTH] = "{PartitionKey}_{Month:02}",
    [COPY_FULL] = "{PartitionKey}-{RowKey}",
    [COPY_ROW_MONTH] = "{RowKey}_{Month:01}",
    [COPY_BARE_MONTH] = "{Month:01}",
    [COPY_NAME] = "{lower(Name)}",
    [COPY_PREFIX] = "i:{RowKey}",
    [COPY_PREFIX_MONTH] = "i:{RowKey}:{13 - Month:02}",
};

static bool uses_month(enum copy_key key)
{
    return key == COPY_MONTH || key == COPY_ROW_MONTH ||
           key == COPY_BARE_MONTH || key == COPY_PREFIX_MONTH;
}

static bool month_of(const struct entity *source, int32_t *ret)
{
    const struct property *month = entity_find(source, slice_of("Month"));

    return month && property_int32(month, ret);
}

static bool name_of(
    const struct entity *source, struct arena *arena, struct slice *ret)
{
    const struct property *name = entity_find(source, slice_of("Name"));
    struct slice text;
    char *lower;

    if (!name || name->type != EDM_STRING ||
        !property_text(name, arena, &text) || memchr(text.at, '/', text.len))
        return false;
    lower = arena_alloc(arena, text.len + 1);
    for (size_t i = 0; i < text.len; i++)
        lower[i] = (char)tolower((unsigned char)text.at[i]);
    *ret = (struct slice){lower, text.len};
    return true;
}

/* same: the source's, where it is kept. */
static bool make_key(enum copy_key key, struct slice same,
    const struct entity *source, struct arena *arena, struct slice *ret)
{
    struct slice pk = source->partition_key, rk = source->row_key;
    int32_t month = 0;

    if (uses_month(key) && !month_of(source, &month))
        return false;
    switch (key) {
    case COPY_SUFFIX:
        *ret = arena_format(arena, "%.*s_x", SLICE_ARG(pk));
        return true;
    case COPY_ALL:
        *ret = slice_of("all");
        return true;
    case COPY_MONTH:
        *ret = arena_format(arena, "%.*s_%02d", SLICE_ARG(pk), (int)month);
        return true;
    case COPY_FULL:
        *ret = arena_format(arena, "%.*s-%.*s", SLICE_ARG(pk), SLICE_ARG(rk));
        return true;
    case COPY_ROW_MONTH:
        *ret = arena_format(arena, "%.*s_%d", SLICE_ARG(rk), (int)month);
        return true;
    case COPY_BARE_MONTH:
        *ret = arena_format(arena, "%d", (int)month);
        return true;
    case COPY_NAME:
        return name_of(source, arena, ret);
    case COPY_PREFIX:
        *ret = arena_format(arena, "i:%.*s", SLICE_ARG(rk));
        return true;
    case COPY_PREFIX_MONTH:
        *ret =
            arena_format(arena, "i:%.*s:%02d", SLICE_ARG(rk), 13 - (int)month);
        return true;
    default:
        *ret = same;
        return true;
    }
}

bool copy_model_keys_change(const struct copy_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct copy_target *target = &model->targets[i];

        if (uses_month(target->partition_key) || uses_month(target->row_key) ||
            target->row_key == COPY_NAME)
            return true;
    }
    return false;
}

/* ---- properties ---- */

static void drop(struct entity *entity, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < entity->property_count; i++)
        if (!slice_is(entity->properties[i].name, name))
            entity->properties[kept++] = entity->properties[i];
    entity->property_count = kept;
}

static void keep_some(struct entity *entity)
{
    size_t kept = 0;

    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];

        if (slice_is(property->name, "Token") ||
            slice_is(property->name, "Month") ||
            slice_is(property->name, "Title"))
            entity->properties[kept++] = *property;
    }
    entity->property_count = kept;
}

static bool change(
    struct entity *entity, const struct entity *source, struct arena *arena)
{
    const struct property *title = entity_find(entity, slice_of("Title"));
    struct slice origin = arena_format(arena, "%.*s %.*s",
        SLICE_ARG(source->partition_key), SLICE_ARG(source->row_key));

    if (title && entity_find(entity, slice_of("Heading")))
        return false;
    if (title) {
        struct property heading = *title;

        heading.name = slice_of("Heading");
        entity_set(entity, arena, &heading);
        drop(entity, "Title");
    }
    entity_set_boolean(entity, arena, "Copied", true);
    entity_set_string(entity, arena, "Origin", origin);
    entity_set_int32(entity, arena, "Level", 3);
    return true;
}

static bool make_properties(const struct copy_model *model,
    const struct entity *source, struct arena *arena, struct entity *copy)
{
    drop(copy, COPY_PROVENANCE);
    switch (model->shape) {
    case COPY_DROPS:
        drop(copy, "Legacy");
        drop(copy, "Bytes");
        return true;
    case COPY_KEEPS:
        keep_some(copy);
        return true;
    case COPY_CHANGES:
        return change(copy, source, arena);
    default:
        return true;
    }
}

bool copy_model_make(const struct copy_model *model, size_t target,
    const struct entity *source, struct arena *arena, struct entity *ret)
{
    const struct copy_target *to = &model->targets[target];
    struct slice partition_key, row_key;

    if (!make_key(to->partition_key, source->partition_key, source, arena,
            &partition_key) ||
        !make_key(to->row_key, source->row_key, source, arena, &row_key))
        return false;
    entity_copy(ret, arena, source);
    ret->partition_key = partition_key;
    ret->row_key = row_key;
    ret->etag = slice_of("");
    ret->timestamp = slice_of("");
    return make_properties(model, source, arena, ret);
}

/* ---- the configuration ---- */

static void add_key(const char *name, enum copy_key key, struct buf *to)
{
    if (TEMPLATES[key])
        buf_add_format(to, ", %s: \"%s\"", name, TEMPLATES[key]);
}

static void add_target(const struct copy_target *target, struct buf *to)
{
    buf_add_format(to, "{table: %s", target->table);
    add_key("partition_key", target->partition_key, to);
    add_key("row_key", target->row_key, to);
    buf_add_text(to, "}\n");
}

void copy_model_add(const struct copy_model *model, struct buf *to)
{
    static const char *const SHAPES[COPY_SHAPES] = {
        [COPY_WHOLE] = "",
        [COPY_DROPS] = "    properties: {drop: [Legacy, Bytes]}\n",
        [COPY_KEEPS] = "    properties: {keep: [Token, Month, Title]}\n",
        [COPY_CHANGES] =
            "    properties:\n"
            "      rename: {Title: Heading}\n"
            "      set: {Copied: true, Origin: \"{PartitionKey} {RowKey}\", "
            "Level: 3}\n",
    };

    buf_add_text(to, model->count > 1 ? "    to:\n" : "    to: ");
    for (size_t i = 0; i < model->count; i++) {
        if (model->count > 1)
            buf_add_text(to, "      - ");
        add_target(&model->targets[i], to);
    }
    buf_add_text(to, SHAPES[model->shape]);
}

void copy_model_add_reindex(const struct copy_model *model, struct buf *to)
{
    static const char *const SHAPES[COPY_SHAPES] = {
        [COPY_WHOLE] = "",
        [COPY_DROPS] = ", properties: {drop: [Legacy, Bytes]}",
        [COPY_KEEPS] = ", properties: [Token, Month, Title]",
        [COPY_CHANGES] =
            (", properties: {rename: {Title: Heading}, set: {Copied: true, "
             "Origin: \"{PartitionKey} {RowKey}\", Level: 3}}"),
    };

    buf_add_text(to, "    copies:\n");
    for (size_t i = 0; i < model->count; i++) {
        const struct copy_target *target = &model->targets[i];

        buf_add_format(
            to, "      - {row_key: \"%s\"", TEMPLATES[target->row_key]);
        add_key("partition_key", target->partition_key, to);
        buf_add_format(to, "%s}\n", SHAPES[model->shape]);
    }
}

/* ---- what a copy says of its source ---- */

static struct slice text_in(
    const struct json *json, const char *name, struct arena *arena)
{
    const struct json *member = json_get(json, name);

    if (!member || json_type(member) != JSON_STRING)
        return slice_of("");
    return arena_copy(arena, json_string(member));
}

static bool read_source(
    const struct json *json, struct arena *arena, struct copy_source *ret)
{
    const struct json *key =
        json_type(json) == JSON_OBJECT ? json_get(json, "key") : NULL;

    if (!key || json_type(key) != JSON_ARRAY || json_count(key) != 2 ||
        json_type(json_at(key, 0)) != JSON_STRING ||
        json_type(json_at(key, 1)) != JSON_STRING)
        return false;
    *ret = (struct copy_source){.store = text_in(json, "store", arena),
        .table = text_in(json, "table", arena),
        .partition_key = arena_copy(arena, json_string(json_at(key, 0))),
        .row_key = arena_copy(arena, json_string(json_at(key, 1))),
        .etag = text_in(json, "etag", arena),
        .job = text_in(json, "job", arena),
        .run = text_in(json, "run", arena)};
    return ret->etag.len > 0;
}

bool copy_model_source(
    const struct entity *copy, struct arena *arena, struct copy_source *ret)
{
    const struct property *property =
        entity_find(copy, slice_of(COPY_PROVENANCE));
    struct slice text;
    struct json *json;
    bool good;

    if (!property || property->type != EDM_STRING ||
        !property_text(property, arena, &text) ||
        json_parse(text, DEPTH, &json, NULL) != TW_OK)
        return false;
    good = read_source(json, arena, ret);
    json_free(json);
    return good;
}

/* ---- comparing ---- */

static bool is_provenance(const struct property *property)
{
    return slice_is(property->name, COPY_PROVENANCE);
}

bool copy_model_covers(const struct entity *whole, const struct entity *part)
{
    if (!slice_equal(whole->partition_key, part->partition_key) ||
        !slice_equal(whole->row_key, part->row_key))
        return false;
    for (size_t i = 0; i < part->property_count; i++) {
        const struct property *property = &part->properties[i];
        const struct property *other = entity_find(whole, property->name);

        if (!is_provenance(property) &&
            (!other || !property_equal(property, other)))
            return false;
    }
    return true;
}

bool copy_model_same(const struct entity *a, const struct entity *b)
{
    return copy_model_covers(a, b) && copy_model_covers(b, a);
}

void copy_model_lay(
    struct entity *over, const struct entity *copy, struct arena *arena)
{
    for (size_t i = 0; i < copy->property_count; i++)
        if (!is_provenance(&copy->properties[i]))
            entity_set(over, arena, &copy->properties[i]);
}
