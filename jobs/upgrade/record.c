/* SPDX-License-Identifier: MIT */
/* Reads and writes TablewardExpanded. */
#include "jobs/upgrade/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"

#define ABSENT "absent"
#define DEPTH_MAX 4

static void record_digest(
    const struct property *value, char to[RECORD_DIGEST_MAX])
{
    struct property unnamed;
    struct digest digest;

    if (!value) {
        (void)snprintf(to, RECORD_DIGEST_MAX, "%s", ABSENT);
        return;
    }
    unnamed = *value;
    unnamed.name = slice_of("Value");
    digest = entity_digest(&(struct entity){.partition_key = slice_of(""),
                               .row_key = slice_of(""),
                               .properties = &unnamed,
                               .property_count = 1},
        slice_of(""));
    digest_text(&digest, to);
}

/* ---- reading ---- */

static bool read_digest(const struct json *json, char to[RECORD_DIGEST_MAX])
{
    struct digest digest;
    struct slice text;

    if (!json || json_type(json) != JSON_STRING)
        return false;
    text = json_string(json);
    if (!slice_is(text, ABSENT) && !digest_parse(text, &digest))
        return false;
    memcpy(to, text.at, text.len);
    to[text.len] = '\0';
    return true;
}

static bool read_name(
    const struct json *json, struct arena *arena, struct slice *ret)
{
    if (!json || json_type(json) != JSON_STRING)
        return false;
    *ret = arena_copy(arena, json_string(json));
    return true;
}

static bool read_pair(
    const struct json *json, struct arena *arena, struct record_pair *ret)
{
    return json_type(json) == JSON_ARRAY && json_count(json) == 4 &&
           read_name(json_at(json, 0), arena, &ret->old_name) &&
           read_name(json_at(json, 1), arena, &ret->new_name) &&
           read_digest(json_at(json, 2), ret->old_digest) &&
           read_digest(json_at(json, 3), ret->new_digest);
}

static bool read_json(
    const struct json *json, struct arena *arena, struct record *ret)
{
    const struct json *version = json_get(json, "version"),
                      *in = json_get(json, "in"),
                      *pairs = json_get(json, "pairs");

    ret->in = slice_of("");
    if (in && !read_name(in, arena, &ret->in))
        return false;
    if (!version || !json_int64(version, &ret->version) || !pairs ||
        json_type(pairs) != JSON_ARRAY || json_count(pairs) > UPGRADE_MAX_STEPS)
        return false;
    ret->count = json_count(pairs);
    for (size_t i = 0; i < ret->count; i++)
        if (!read_pair(json_at(pairs, i), arena, &ret->pairs[i]))
            return false;
    return true;
}

bool record_read(
    const struct entity *entity, struct arena *arena, struct record *ret)
{
    const struct property *is = entity_find(entity, slice_of(RECORD_PROPERTY));
    struct json *json;
    struct slice text;
    bool good;

    if (!is || is->type != EDM_STRING || !property_text(is, arena, &text) ||
        json_parse(text, DEPTH_MAX, &json, NULL) != TW_OK)
        return false;
    good = json_type(json) == JSON_OBJECT && read_json(json, arena, ret);
    json_free(json);
    return good;
}

/* ---- writing ---- */

struct property record_property(
    const struct record *record, struct arena *arena)
{
    struct entity scratch_entity = {.property_count = 0};
    struct buf text;

    buf_init(&text, ENTITY_MAX_VALUE_BYTES);
    buf_add_format(&text, "{\"version\":%" PRId64, record->version);
    if (record->in.len > 0) {
        buf_add_text(&text, ",\"in\":");
        json_add_string(&text, record->in);
    }
    buf_add_text(&text, ",\"pairs\":[");
    for (size_t i = 0; i < record->count; i++) {
        const struct record_pair *pair = &record->pairs[i];

        buf_add_text(&text, i > 0 ? ",[" : "[");
        json_add_string(&text, pair->old_name);
        buf_add_char(&text, ',');
        json_add_string(&text, pair->new_name);
        buf_add_format(
            &text, ",\"%s\",\"%s\"]", pair->old_digest, pair->new_digest);
    }
    buf_add_text(&text, "]}");
    entity_set_string(
        &scratch_entity, arena, RECORD_PROPERTY, buf_slice(&text));
    buf_done(&text);
    return scratch_entity.properties[0];
}

/* Returns the index of the pair of step, or record->count if there is none. */
static size_t find(const struct record *record, const struct upgrade_step *step)
{
    size_t i = 0;

    while (i < record->count &&
           !(slice_equal(record->pairs[i].old_name, step->property) &&
               slice_equal(record->pairs[i].new_name, step->to)))
        i++;
    return i;
}

const struct record_pair *record_find(
    const struct record *record, const struct upgrade_step *step)
{
    size_t at = find(record, step);

    return at < record->count ? &record->pairs[at] : NULL;
}

void record_put(struct record *record, const struct upgrade_step *step,
    const struct property *old_value, const struct property *new_value)
{
    size_t at = find(record, step);
    struct record_pair *pair = &record->pairs[at];

    if (at == UPGRADE_MAX_STEPS)
        return; /* the record is full of the pairs of another document */
    if (at == record->count)
        record->count++;
    pair->old_name = step->property;
    pair->new_name = step->to;
    record_digest(old_value, pair->old_digest);
    record_digest(new_value, pair->new_digest);
}

/* ---- comparing ---- */

static bool is_digest_of(const char *digest, const struct property *value)
{
    char now[RECORD_DIGEST_MAX];

    record_digest(value, now);
    return strcmp(now, digest) == 0;
}

bool record_is_old(const struct record_pair *pair, const struct property *value)
{
    return is_digest_of(pair->old_digest, value);
}

bool record_is_new(const struct record_pair *pair, const struct property *value)
{
    return is_digest_of(pair->new_digest, value);
}
