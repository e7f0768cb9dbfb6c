/* SPDX-License-Identifier: MIT */
/* Writes entities for an answer, and ETags in the service's form. */
#include "tests/azsim/entity_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/azsim/exchange.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/entity.h"

/* 2020-01-01. If an ETag of the store has the number N, the service's form has
 * the time that is N ticks after this date. */
#define ETAG_EPOCH_TICKS INT64_C(637134336000000000)

/* ---- ETags ---- */

const char *entity_json_etag(struct slice stored, char *to)
{
    struct slice number = {stored.at + 3, stored.len - 4};
    char time[TEXT_TIME_MAX];
    struct text_date date;
    int64_t stamp = 0;

    (void)text_int64(number, 0, INT64_MAX, &stamp);
    (void)text_from_ticks(ETAG_EPOCH_TICKS + stamp, time);
    date = text_date_of(ETAG_EPOCH_TICKS + stamp);
    (void)snprintf(to, ENTITY_ETAG_BYTES,
        "W/\"datetime'%.10sT%02d%%3A%02d%%3A%02d.%07dZ'\"", time, date.hour,
        date.minute, date.second, date.fraction);
    return to;
}

const char *entity_json_stored_etag(struct slice etag, char *to)
{
    static const char begins[] = "W/\"datetime'", ends[] = "'\"";
    size_t frame = sizeof(begins) - 1 + sizeof(ends) - 1;
    struct buf time;
    int64_t ticks = 0;

    (void)snprintf(to, ENTITY_ETAG_BYTES, "W/\"0\"");
    if (etag.len <= frame || !slice_begins(etag, slice_of(begins)))
        return to;
    buf_init(&time, etag.len);
    if (text_percent_decode(&time,
            (struct slice){etag.at + sizeof(begins) - 1, etag.len - frame}) &&
        text_ticks(buf_slice(&time), &ticks) && ticks > ETAG_EPOCH_TICKS)
        (void)snprintf(to, ENTITY_ETAG_BYTES, "W/\"%" PRId64 "\"",
            ticks - ETAG_EPOCH_TICKS);
    buf_done(&time);
    return to;
}

/* ---- texts ---- */

static void add_unit(struct buf *to, uint32_t unit)
{
    buf_add_format(to, "\\u%04x", unit);
}

/* Adds a JSON value and escapes all characters that are not ASCII. */
static void add_escaped(struct buf *to, struct slice json)
{
    size_t len;

    for (; json.len > 0; json.at += len, json.len -= len) {
        uint32_t c = text_decode(json, &len);

        if (c < 0x80) {
            buf_add_char(to, (char)c);
        } else if (c < 0x10000) {
            add_unit(to, c);
        } else {
            add_unit(to, 0xd800 + ((c - 0x10000) >> 10));
            add_unit(to, 0xdc00 + ((c - 0x10000) & 0x3ff));
        }
    }
}

/* Adds text as a JSON string in ASCII. */
static void add_text(struct buf *to, struct slice text)
{
    struct buf json;

    buf_init(&json, text.len * 6 + 2);
    json_add_string(&json, text);
    add_escaped(to, buf_slice(&json));
    buf_done(&json);
}

/* Adds "name": with a comma before it if it needs one. */
static void add_name(struct buf *to, struct slice name)
{
    if (to->at[to->len - 1] != '{')
        buf_add_char(to, ',');
    add_text(to, name);
    buf_add_char(to, ':');
}

static void add_member(struct buf *to, const char *name, struct slice text)
{
    add_name(to, slice_of(name));
    add_text(to, text);
}

/* Adds a time such as "2024-01-01T00:00:00.1200000Z" without the zeros at the
 * end of its fraction. */
static void add_time(struct buf *to, struct slice text)
{
    struct slice digits = text;

    if (memchr(text.at, '.', text.len) != NULL) {
        digits.len--;
        while (digits.at[digits.len - 1] == '0')
            digits.len--;
        if (digits.at[digits.len - 1] == '.')
            digits.len--;
        buf_add_format(to, "\"%.*sZ\"", SLICE_ARG(digits));
    } else {
        buf_add_format(to, "\"%.*s\"", SLICE_ARG(text));
    }
}

/* Adds a Double so that it cannot be taken for an integer. */
static void add_double(struct buf *to, struct slice json)
{
    bool whole = json.at[0] != '"';

    for (size_t i = 0; i < json.len; i++)
        if (strchr(".eE", json.at[i]) != NULL)
            whole = false;
    buf_add_slice(to, json);
    if (whole)
        buf_add_text(to, ".0");
}

/* ---- entities ---- */

static bool is_annotated(const struct property *property)
{
    switch (property->type) {
    case EDM_BINARY:
    case EDM_DATETIME:
    case EDM_GUID:
    case EDM_INT64:
        return true;
    case EDM_DOUBLE:
        return property->json.at[0] == '"';
    case EDM_BOOLEAN:
    case EDM_INT32:
    case EDM_STRING:
        break;
    }
    return false;
}

static void add_value(const struct property *property, struct buf *to)
{
    struct slice json = property->json;

    if (property->type == EDM_DATETIME)
        add_time(to, (struct slice){json.at + 1, json.len - 2});
    else if (property->type == EDM_DOUBLE)
        add_double(to, json);
    else
        add_escaped(to, json);
}

static void add_property(
    const struct property *property, enum metadata metadata, struct buf *to)
{
    struct arena arena;

    arena_init(&arena);
    if (metadata != METADATA_NONE && is_annotated(property)) {
        add_name(to,
            arena_format(&arena, "%.*s@odata.type", SLICE_ARG(property->name)));
        buf_add_format(to, "\"%s\"", edm_type_name(property->type));
    }
    add_name(to, property->name);
    add_value(property, to);
    arena_done(&arena);
}

static bool is_selected(const struct view *view, struct slice name)
{
    if (view->select == NULL)
        return true;
    for (size_t i = 0; i < view->select_count; i++)
        if (slice_equal(view->select[i], name))
            return true;
    return false;
}

static void add_full_metadata(
    const struct entity *entity, const struct view *view, struct buf *to)
{
    struct arena arena;
    struct slice edit;

    arena_init(&arena);
    edit = arena_format(&arena, "%.*s(PartitionKey='%.*s',RowKey='%.*s')",
        SLICE_ARG(view->table), SLICE_ARG(entity->partition_key),
        SLICE_ARG(entity->row_key));
    add_member(to, "odata.type",
        arena_format(&arena, "azsim.%.*s", SLICE_ARG(view->table)));
    add_member(to, "odata.id",
        arena_format(
            &arena, "%.*s/%.*s", SLICE_ARG(view->base), SLICE_ARG(edit)));
    add_member(to, "odata.editLink", edit);
    arena_done(&arena);
}

static void add_fields(
    const struct entity *entity, const struct view *view, struct buf *to)
{
    char etag[ENTITY_ETAG_BYTES];

    if (view->metadata == METADATA_FULL)
        add_full_metadata(entity, view, to);
    if (view->metadata != METADATA_NONE)
        add_member(
            to, "odata.etag", slice_of(entity_json_etag(entity->etag, etag)));
    if (is_selected(view, slice_of("PartitionKey")))
        add_member(to, "PartitionKey", entity->partition_key);
    if (is_selected(view, slice_of("RowKey")))
        add_member(to, "RowKey", entity->row_key);
    if (!is_selected(view, slice_of("Timestamp")))
        return;
    if (view->metadata == METADATA_FULL)
        add_member(to, "Timestamp@odata.type", slice_of("Edm.DateTime"));
    add_name(to, slice_of("Timestamp"));
    add_time(to, entity->timestamp);
}

static bool is_field(struct slice name)
{
    return slice_is(name, "PartitionKey") || slice_is(name, "RowKey") ||
           slice_is(name, "Timestamp");
}

static void add_missing(
    const struct entity *entity, const struct view *view, struct buf *to)
{
    for (size_t i = 0; view->select != NULL && i < view->select_count; i++) {
        struct slice name = view->select[i];

        if (is_field(name) || entity_find(entity, name) != NULL)
            continue;
        add_name(to, name);
        buf_add_text(to, "null");
    }
}

void entity_json_write(const struct entity *entity, const struct view *view,
    struct slice context, struct buf *to)
{
    buf_add_char(to, '{');
    if (view->metadata != METADATA_NONE)
        buf_add_slice(to, context);
    add_fields(entity, view, to);
    for (size_t i = 0; i < entity->property_count; i++)
        if (is_selected(view, entity->properties[i].name))
            add_property(&entity->properties[i], view->metadata, to);
    add_missing(entity, view, to);
    buf_add_char(to, '}');
}
