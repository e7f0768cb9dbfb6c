/* SPDX-License-Identifier: MIT */
/* Writes, reads and compares TablewardSource. */
#include "jobs/copy/source.h"

#include <string.h>
#include <strings.h>

#include "jobs/engine/digest.h"
#include "jobs/engine/keys.h"
#include "worker/base/json.h"
#include "worker/store/store.h"

#define DEPTH 2 /* maximum JSON nesting: an object with lists */

/* ---- tables ---- */

struct source_table source_table_of(
    const struct store *store, const char *table)
{
    const struct store_capabilities *capabilities = &store->capabilities;
    const char *account = capabilities->identity;

    if (!account)
        account = capabilities->endpoint ? capabilities->endpoint : store->name;
    return (struct source_table){slice_of(account), slice_of(table)};
}

static bool equal_ignoring_case(struct slice a, struct slice b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

bool source_table_equal(
    const struct source_table *a, const struct source_table *b)
{
    return equal_ignoring_case(a->account, b->account) &&
           equal_ignoring_case(a->table, b->table);
}

/* ---- writing ---- */

static void add_head(const struct source *source, struct buf *to)
{
    buf_add_text(to, "{\"job\":");
    json_add_string(to, source->job);
    buf_add_format(to, ",\"to\":%lld", (long long)source->entry);
    buf_add_text(to, ",\"by\":");
    json_add_string(to, source->by);
    buf_add_text(to, ",\"from\":");
    keys_write(to, source->from.account, source->from.table);
    buf_add_text(to, ",\"at\":");
    keys_write(to, source->at.account, source->at.table);
}

static void add_rest(const struct source *source, struct buf *to)
{
    buf_add_text(to, ",\"own\":");
    keys_write(to, source->own_partition_key, source->own_row_key);
    buf_add_text(to, ",\"key\":");
    keys_write(to, source->partition_key, source->row_key);
    buf_add_text(to, ",\"etag\":");
    json_add_string(to, source->etag);
    buf_add_text(to, ",\"digest\":");
    json_add_string(to, source->digest);
    buf_add_char(to, '}');
}

struct slice source_head(const struct source *source, struct arena *arena)
{
    struct buf text, json;
    struct slice head;

    buf_init(&text, SIZE_MAX / 2);
    buf_init(&json, SIZE_MAX / 2);
    add_head(source, &text);
    json_add_escaped(&json, buf_slice(&text));
    head = arena_copy(arena, buf_slice(&json));
    buf_done(&text);
    buf_done(&json);
    return head;
}

void source_stamp(
    struct entity *copy, const struct source *source, struct arena *arena)
{
    struct digest digest = entity_digest(copy, slice_of(SOURCE_PROPERTY));
    char hex[2 * DIGEST_BYTES + 1];
    struct source whole = *source;
    struct buf text, json;

    digest_text(&digest, hex);
    whole.digest = slice_of(hex);
    whole.own_partition_key = copy->partition_key;
    whole.own_row_key = copy->row_key;
    buf_init(&text, SIZE_MAX / 2);
    buf_init(&json, SIZE_MAX / 2);
    add_rest(&whole, &text);
    buf_add_char(&json, '"');
    buf_add_slice(
        &json, whole.head.len > 0 ? whole.head : source_head(source, arena));
    json_add_escaped(&json, buf_slice(&text));
    buf_add_char(&json, '"');
    entity_set(copy, arena,
        &(struct property){
            slice_of(SOURCE_PROPERTY), EDM_STRING, buf_slice(&json)});
    buf_done(&text);
    buf_done(&json);
}

/* ---- reading ---- */

static bool read_text(const struct json *object, const char *name,
    struct arena *arena, struct slice *ret)
{
    const struct json *json = json_get(object, name);

    if (!json || json_type(json) != JSON_STRING)
        return false;
    *ret = arena_copy(arena, json_string(json));
    return true;
}

static bool read_pair(const struct json *object, const char *name,
    struct arena *arena, struct slice *ret_first, struct slice *ret_second)
{
    struct slice first, second;

    if (!keys_read(json_get(object, name), &first, &second))
        return false;
    *ret_first = arena_copy(arena, first);
    *ret_second = arena_copy(arena, second);
    return true;
}

static bool read_table(const struct json *object, const char *name,
    struct arena *arena, struct source_table *ret)
{
    return read_pair(object, name, arena, &ret->account, &ret->table);
}

static bool read_members(
    const struct json *json, struct arena *arena, struct source *ret)
{
    const struct json *entry = json_get(json, "to");
    struct digest digest;

    return entry && json_int64(entry, &ret->entry) && ret->entry >= 0 &&
           read_text(json, "job", arena, &ret->job) &&
           read_text(json, "by", arena, &ret->by) &&
           read_table(json, "from", arena, &ret->from) &&
           read_table(json, "at", arena, &ret->at) &&
           read_pair(json, "own", arena, &ret->own_partition_key,
               &ret->own_row_key) &&
           read_pair(json, "key", arena, &ret->partition_key, &ret->row_key) &&
           read_text(json, "etag", arena, &ret->etag) &&
           read_text(json, "digest", arena, &ret->digest) &&
           digest_parse(ret->digest, &digest);
}

bool source_read(
    const struct entity *entity, struct arena *arena, struct source *ret)
{
    const struct property *property =
        entity_find(entity, slice_of(SOURCE_PROPERTY));
    struct source read = {.entry = 0};
    struct slice text;
    struct json *json;
    bool good;

    if (!property || property->type != EDM_STRING ||
        !property_peek_text(property, arena, &text) ||
        json_parse(text, DEPTH, &json, NULL) != TW_OK)
        return false;
    good = json_type(json) == JSON_OBJECT && read_members(json, arena, &read);
    json_free(json);
    if (good)
        *ret = read;
    return good;
}

/* ---- comparing ---- */

/* Inside a string of JSON a quotation mark has a backslash before it, so the
 * first place where the text BY is found is the beginning of the member `by`.
 */
struct slice source_without_entry(struct slice text)
{
    static const char BY[] = ",\"by\":";
    const char *by = memmem(text.at, text.len, BY, sizeof(BY) - 1);

    return by ? (struct slice){by, text.len - (size_t)(by - text.at)} : text;
}

bool source_is_at(const struct source *source, const struct entity *entity,
    const struct source_table *at)
{
    return source_table_equal(&source->at, at) &&
           slice_equal(source->own_partition_key, entity->partition_key) &&
           slice_equal(source->own_row_key, entity->row_key);
}

bool source_is_index_row(const struct source *source,
    const struct entity *entity, const struct source_table *at)
{
    return source_table_equal(&source->from, &source->at) &&
           equal_ignoring_case(source->at.table, at->table) &&
           source_is_at(source, entity, &source->at);
}

bool source_is_intact(const struct source *source, const struct entity *copy)
{
    struct digest digest = entity_digest(copy, slice_of(SOURCE_PROPERTY));
    char hex[2 * DIGEST_BYTES + 1];

    digest_text(&digest, hex);
    return slice_is(source->digest, hex);
}

/* '-' follows ',' in UTF-16 order, so the range has exactly the texts that
 * begin with the member `job` and a comma. */
void source_filter(struct slice job, struct buf *to)
{
    buf_add_format(to,
        SOURCE_PROPERTY " ge '{\"job\":\"%.*s\",' and " SOURCE_PROPERTY
                        " lt '{\"job\":\"%.*s\"-'",
        SLICE_ARG(job), SLICE_ARG(job));
}
