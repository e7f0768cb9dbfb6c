/* SPDX-License-Identifier: MIT */
/*
 * URLs and queries out, pages in. A page may have many megabytes: it is walked
 * entity by entity and never becomes a tree.
 */
#include "worker/store/azure/odata.h"

#include <string.h>

#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define FILTER_MAX_BYTES (256 * 1024)
#define ERROR_MAX_DEPTH 8
/* What stands beside "value" is an annotation or two, each read by itself. */
#define BESIDE_MAX 32

/* ---- URLs ---- */

/* A key in a URL: each ' doubled, then percent-encoded. */
static void add_url_key(struct buf *to, struct slice key)
{
    for (size_t i = 0; i < key.len; i++) {
        struct slice c = {key.at + i, 1};

        text_percent_encode(to, c);
        if (key.at[i] == '\'')
            text_percent_encode(to, c);
    }
}

void odata_add_entity_path(struct buf *to, const char *table,
    struct slice partition_key, struct slice row_key)
{
    buf_add_format(to, "/%s(PartitionKey='", table);
    add_url_key(to, partition_key);
    buf_add_text(to, "',RowKey='");
    add_url_key(to, row_key);
    buf_add_text(to, "')");
}

static void add_comparison(struct buf *to, size_t start, const char *name,
    const char *operator, struct slice key)
{
    if (to->len > start)
        buf_add_text(to, " and ");
    buf_add_format(to, "%s %s ", name, operator);
    filter_add_literal(to, key);
}

static void add_range(struct buf *to, size_t start, const char *name,
    const struct key_range *range)
{
    if (range->exact) {
        add_comparison(to, start, name, "eq", range->from);
        return;
    }
    if (range->has_from)
        add_comparison(
            to, start, name, range->from_exclusive ? "gt" : "ge", range->from);
    if (range->has_below)
        add_comparison(to, start, name, "lt", range->below);
}

void odata_add_filter(struct buf *to, const struct scan_request *request)
{
    size_t start = to->len;

    add_range(to, start, "PartitionKey", &request->partition_key);
    add_range(to, start, "RowKey", &request->row_key);
    if (request->filter.len == 0)
        return;
    if (to->len == start) {
        buf_add_slice(to, request->filter);
        return;
    }
    buf_add_text(to, " and (");
    buf_add_slice(to, request->filter);
    buf_add_char(to, ')');
}

static void begin_parameter(struct buf *to, const char *name)
{
    if (to->len > 0)
        buf_add_char(to, '&');
    buf_add_format(to, "%s=", name);
}

static void add_parameter(struct buf *to, const char *name, struct slice value)
{
    begin_parameter(to, name);
    text_percent_encode(to, value);
}

static void add_select(struct buf *to, const struct scan_request *request)
{
    begin_parameter(to, "$select");
    buf_add_text(to, "PartitionKey%2CRowKey");
    for (size_t i = 0; i < request->select_count; i++) {
        struct slice name = request->select[i];

        if (slice_is(name, "PartitionKey") || slice_is(name, "RowKey"))
            continue;
        buf_add_text(to, "%2C");
        text_percent_encode(to, name);
    }
}

/* Only what came goes back. Azurite's token of an empty PartitionKey is empty,
 * and for a RowKey alone it has no entities, as if the scan were over. */
static void add_continuation(struct buf *to, const struct continuation *from,
    const char *first, const char *second)
{
    if (!from->more)
        return;
    if (from->partition_key.len > 0 || from->row_key.len > 0)
        add_parameter(to, first, from->partition_key);
    if (second != NULL && from->row_key.len > 0)
        add_parameter(to, second, from->row_key);
}

void odata_add_scan_query(struct buf *to, const struct scan_request *request)
{
    struct buf filter;

    buf_init(&filter, FILTER_MAX_BYTES);
    odata_add_filter(&filter, request);
    if (filter.overflow)
        to->overflow = true;
    if (filter.len > 0)
        add_parameter(to, "$filter", buf_slice(&filter));
    buf_done(&filter);
    if (request->select != NULL)
        add_select(to, request);
    begin_parameter(to, "$top");
    buf_add_format(to, "%u", request->top);
    add_continuation(to, &request->from, "NextPartitionKey", "NextRowKey");
}

void odata_add_tables_query(struct buf *to, const struct continuation *from)
{
    add_continuation(to, from, "NextTableName", NULL);
}

/* ---- walking JSON ---- */

struct walk {
    const char *at, *end;
};

static void skip_blanks(struct walk *walk)
{
    while (walk->at < walk->end && *walk->at != '\0' &&
           strchr(" \t\r\n", *walk->at) != NULL)
        walk->at++;
}

/* True: c came next, and is passed. */
static bool pass(struct walk *walk, char c)
{
    skip_blanks(walk);
    if (walk->at == walk->end || *walk->at != c)
        return false;
    walk->at++;
    return true;
}

/* From a quote to behind its fellow. False: there is none. */
static bool skip_string(struct walk *walk)
{
    walk->at++;
    while (walk->at < walk->end) {
        const char *stop = walk->at;

        while (stop < walk->end && *stop != '"' && *stop != '\\')
            stop++;
        if (stop == walk->end)
            return false;
        walk->at = stop + 1;
        if (*stop == '"')
            return true;
        if (walk->at < walk->end)
            walk->at++;
    }
    return false;
}

/* A value that begins with a bracket, up to its fellow. What is inside is
 * judged by who reads it. */
static bool skip_nested(struct walk *walk)
{
    size_t depth = 0;

    while (walk->at < walk->end) {
        char c = *walk->at;

        if (c == '"') {
            if (!skip_string(walk))
                return false;
            continue;
        }
        walk->at++;
        if (c == '{' || c == '[')
            depth++;
        if ((c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

/* The next value as it stands; at is NULL: there is none, or it is cut off. */
static struct slice take_value(struct walk *walk)
{
    const char *start;
    bool whole = true;

    skip_blanks(walk);
    start = walk->at;
    if (start < walk->end && *start == '"')
        whole = skip_string(walk);
    else if (start < walk->end && (*start == '{' || *start == '['))
        whole = skip_nested(walk);
    else
        while (walk->at < walk->end && *walk->at != '\0' &&
               strchr(",]} \t\r\n", *walk->at) == NULL)
            walk->at++;
    if (!whole || walk->at == start)
        return (struct slice){NULL, 0};
    return (struct slice){start, (size_t)(walk->at - start)};
}

static bool is_json(struct slice text)
{
    struct json *json;

    if (json_parse(text, ERROR_MAX_DEPTH, &json, NULL) != TW_OK)
        return false;
    json_free(json);
    return true;
}

/* ---- pages ---- */

/* Reads one element of "value" into the next entity of a page. */
typedef enum tw_err read_element(
    struct slice text, bool need_keys, struct page *page, struct err *err);

static struct entity *next_entity(struct page *page)
{
    size_t room = 64;

    while (room < page->count)
        room *= 2;
    if (page->entities == NULL || page->count == room) {
        struct entity *more = arena_alloc(&page->arena,
            (page->entities == NULL ? room : 2 * room) * sizeof(*more));

        if (page->count > 0)
            memcpy(more, page->entities, page->count * sizeof(*more));
        page->entities = more;
    }
    return &page->entities[page->count];
}

/* Cuts "name": value off; false: there is no whole one. */
static bool take_member(
    struct walk *walk, struct slice *ret_name, struct slice *ret_value)
{
    skip_blanks(walk);
    if (walk->at == walk->end || *walk->at != '"')
        return false;
    *ret_name = take_value(walk);
    if (ret_name->at == NULL || !pass(walk, ':'))
        return false;
    *ret_value = take_value(walk);
    return ret_value->at != NULL;
}

/* An entity has both keys, whatever else is in it: what has not is an answer
 * of something else. */
static bool is_entity(struct slice object)
{
    struct walk walk = {object.at, object.at + object.len};
    bool partition_key = false, row_key = false;

    if (!pass(&walk, '{'))
        return false;
    do {
        struct slice name, value;

        if (!take_member(&walk, &name, &value))
            return false;
        partition_key |= slice_is(name, "\"PartitionKey\"");
        row_key |= slice_is(name, "\"RowKey\"");
    } while (pass(&walk, ','));
    return partition_key && row_key;
}

static enum tw_err read_entity(
    struct slice text, bool need_keys, struct page *page, struct err *err)
{
    struct entity *entity = next_entity(page);
    size_t end;
    enum tw_err code =
        entity_parse(text, need_keys, &page->arena, entity, &end, err);

    if (code != TW_OK)
        return need_keys && !is_entity(text) ? TW_UNKNOWN : TW_INVALID;
    page->count++;
    return TW_OK;
}

static enum tw_err read_table(
    struct slice text, bool need_keys, struct page *page, struct err *err)
{
    struct json_member *members;
    size_t count, end;

    (void)need_keys;
    if (json_flat_object(text, &page->arena, &page->arena, &members, &count,
            &end, err) != TW_OK)
        return TW_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        if (!slice_is(members[i].name, "TableName") ||
            members[i].type != JSON_STRING)
            continue;
        *next_entity(page) = (struct entity){.partition_key = members[i].text};
        page->count++;
        return TW_OK;
    }
    return err_fail(err, TW_UNKNOWN, "a table in the list has no TableName");
}

static enum tw_err fail_page(
    const struct walk *walk, const char *begin, struct err *err)
{
    return err_fail(err, TW_UNKNOWN,
        "the body is no whole JSON page (%s byte %zu)",
        walk->at == walk->end ? "it ends at" : "trouble at",
        (size_t)(walk->at - begin));
}

static enum tw_err read_elements(struct slice array, read_element *read,
    bool need_keys, struct page *page, struct err *err)
{
    struct walk walk = {array.at, array.at + array.len};
    enum tw_err code = TW_OK;

    if (!pass(&walk, '['))
        return fail_page(&walk, array.at, err);
    if (pass(&walk, ']'))
        return TW_OK;
    do {
        struct slice element = take_value(&walk);

        if (element.at == NULL || element.at[0] != '{')
            return fail_page(&walk, array.at, err);
        if (page->count == PAGE_MAX_ENTITIES)
            return err_fail(err, TW_UNKNOWN, "more than %d came on one page",
                PAGE_MAX_ENTITIES);
        code = read(element, need_keys, page, err);
    } while (code == TW_OK && pass(&walk, ','));
    if (code == TW_OK && !pass(&walk, ']'))
        code = fail_page(&walk, array.at, err);
    return code;
}

/* *ret_array: the value of "value"; at stays NULL where there is none. */
static bool find_elements(struct walk *walk, struct slice *ret_array)
{
    unsigned beside = 0;

    if (!pass(walk, '{'))
        return false;
    if (pass(walk, '}'))
        return true;
    do {
        struct slice name, value;

        if (!take_member(walk, &name, &value))
            return false;
        if (slice_is(name, "\"value\"") && ret_array->at == NULL)
            *ret_array = value;
        else if (++beside > BESIDE_MAX || !is_json(name) || !is_json(value))
            return false;
    } while (pass(walk, ','));
    return pass(walk, '}');
}

static enum tw_err read_page(struct slice body, read_element *read,
    bool need_keys, struct page *page, struct err *err)
{
    struct walk walk = {body.at, body.at + body.len};
    struct slice array = {NULL, 0};
    enum tw_err code;

    if (!find_elements(&walk, &array))
        return fail_page(&walk, body.at, err);
    skip_blanks(&walk);
    if (walk.at != walk.end)
        return fail_page(&walk, body.at, err);
    if (array.at == NULL)
        return err_fail(
            err, TW_UNKNOWN, "the body is JSON, but no page of a table");
    code = read_elements(array, read, need_keys, page, err);
    if (code != TW_OK)
        page->count = 0;
    return code;
}

enum tw_err odata_page(
    struct slice body, bool need_keys, struct page *page, struct err *err)
{
    return read_page(body, read_entity, need_keys, page, err);
}

enum tw_err odata_tables(struct slice body, struct page *page, struct err *err)
{
    return read_page(body, read_table, true, page, err);
}

enum tw_err odata_entity(
    struct slice body, bool need_keys, struct page *page, struct err *err)
{
    struct walk walk = {body.at, body.at + body.len};
    struct slice object = take_value(&walk);

    skip_blanks(&walk);
    if (object.at == NULL || object.at[0] != '{' || walk.at != walk.end)
        return err_fail(err, TW_UNKNOWN, "the body is no whole JSON entity");
    return read_entity(object, need_keys, page, err);
}

/* ---- errors ---- */

static struct slice copy_string(struct arena *arena, const struct json *json)
{
    if (json == NULL || json_type(json) != JSON_STRING)
        return (struct slice){NULL, 0};
    return arena_copy(arena, json_string(json));
}

static const struct json *member(const struct json *json, const char *name)
{
    if (json == NULL || json_type(json) != JSON_OBJECT)
        return NULL;
    return json_get(json, name);
}

bool odata_error(struct slice body, struct arena *arena, struct slice *ret_code,
    struct slice *ret_message)
{
    const struct json *error;
    struct json *json;

    if (json_parse(body, ERROR_MAX_DEPTH, &json, NULL) != TW_OK)
        return false;
    error = member(json, "odata.error");
    if (error != NULL) {
        *ret_code = copy_string(arena, member(error, "code"));
        *ret_message =
            copy_string(arena, member(member(error, "message"), "value"));
    }
    json_free(json);
    return error != NULL;
}
