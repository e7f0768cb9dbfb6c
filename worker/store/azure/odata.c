/* SPDX-License-Identifier: MIT */
/*
 * Builds URLs and queries, reads pages. A page may have many megabytes, so it
 * is read in one pass, entity by entity, and never becomes a tree. If an entity
 * cannot be read, the page is scanned once more, to find out whether the page
 * was truncated.
 */
#include "worker/store/azure/odata.h"

#include <string.h>

#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define FILTER_MAX_BYTES (256 * 1024)
#define ERROR_MAX_DEPTH 8
/* Maximum number of members of a page beside "value" (annotations). Each of
 * them is parsed separately. */
#define BESIDE_MAX 32

/* ---- URLs ---- */

/* Adds a key as a URL has it: each ' doubled, then percent-encoded. */
void odata_add_url_key(struct buf *to, struct slice key)
{
    for (const char *quote;
         key.len > 0 && (quote = memchr(key.at, '\'', key.len));) {
        size_t len = (size_t)(quote - key.at) + 1;

        text_percent_encode(to, (struct slice){key.at, len});
        text_percent_encode(to, slice_of("'"));
        key.at += len;
        key.len -= len;
    }
    text_percent_encode(to, key);
}

void odata_add_entity_path_head(
    struct buf *to, const char *table, struct slice partition_key)
{
    buf_add_char(to, '/');
    buf_add_text(to, table);
    buf_add_text(to, "(PartitionKey='");
    odata_add_url_key(to, partition_key);
    buf_add_text(to, "',RowKey='");
}

void odata_add_entity_path(struct buf *to, const char *table,
    struct slice partition_key, struct slice row_key)
{
    odata_add_entity_path_head(to, table, partition_key);
    odata_add_url_key(to, row_key);
    buf_add_text(to, ODATA_ENTITY_PATH_TAIL);
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

/* Adds the continuation tokens of the last response. Azurite's token for an
 * empty PartitionKey is empty. If only NextRowKey were sent, Azurite would
 * return no entities, as if the scan had ended. So the empty NextPartitionKey
 * is sent too. */
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

/* Skips c if c is the next character; false: it is not. */
static bool pass(struct walk *walk, char c)
{
    skip_blanks(walk);
    if (walk->at == walk->end || *walk->at != c)
        return false;
    walk->at++;
    return true;
}

/* Skips from a quote past its closing quote. False: there is none. */
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

/* Skips a value that begins with a bracket, up to its closing bracket. The
 * reader of the value checks its content. */
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

/* Returns the next value as written. If there is no value, or the value is
 * truncated, the `at` of the result is NULL. */
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

struct reading;

/* Reads the element at the start of text into the next entity of the page.
 * *ret_end: the element's length. */
typedef enum tw_err read_element(
    struct reading *reading, struct slice text, size_t *ret_end);

struct reading {
    struct slice body;
    struct walk walk; /* position in body */
    read_element *read;
    struct entity_reader *reader; /* reads entities */
    struct json_members members;  /* memory for reading other elements */
    bool need_keys;
    struct page *page;
    struct err *err;
};

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

/* Removes the next member, "name": value; false: it is missing or
 * incomplete. */
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

/* Does object have both keys? Every entity has both, so an object without them
 * was not sent by the service. */
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
    struct reading *reading, struct slice text, size_t *ret_end)
{
    struct page *page = reading->page;
    struct entity *entity = next_entity(page);
    enum tw_err outcome = entity_read(reading->reader, text, reading->need_keys,
        &page->arena, entity, ret_end, reading->err);

    page->count += outcome == TW_OK;
    return outcome;
}

static enum tw_err read_table(
    struct reading *reading, struct slice text, size_t *ret_end)
{
    const struct json_members *members = &reading->members;
    struct page *page = reading->page;

    if (json_flat_object(text, NULL, &page->arena, &reading->members, ret_end,
            reading->err) != TW_OK)
        return TW_UNKNOWN;
    for (size_t i = 0; i < members->count; i++) {
        const struct json_member *member = &members->list[i];

        if (!slice_is(member->name, "TableName") || member->type != JSON_STRING)
            continue;
        *next_entity(page) = (struct entity){
            .partition_key = json_member_text(member, &page->arena)};
        page->count++;
        return TW_OK;
    }
    return err_fail(
        reading->err, TW_UNKNOWN, "a table in the list has no TableName");
}

static enum tw_err fail_page(
    const struct reading *reading, const struct walk *walk)
{
    return err_fail(reading->err, TW_UNKNOWN,
        "the body is not a complete JSON page (%s byte %zu)",
        walk->at == walk->end ? "it ends at" : "invalid at",
        (size_t)(walk->at - reading->body.at));
}

/* Are name and value a valid member beside "value"? count: number of members
 * beside "value" up to this one. */
static bool is_good_beside(
    struct slice name, struct slice value, unsigned count)
{
    return count <= BESIDE_MAX && is_json(name) && is_json(value);
}

/* Is the text of walk one complete page? */
static bool is_whole(struct walk *walk)
{
    bool value_came = false;
    unsigned beside = 0;

    if (!pass(walk, '{'))
        return false;
    do {
        struct slice name, value;

        if (!take_member(walk, &name, &value))
            return false;
        if (slice_is(name, "\"value\"") && !value_came)
            value_came = true;
        else if (!is_good_beside(name, value, ++beside))
            return false;
    } while (pass(walk, ','));
    if (!pass(walk, '}'))
        return false;
    skip_blanks(walk);
    return walk->at == walk->end;
}

/* Call when the next element could not be read. Returns TW_UNKNOWN if the page
 * was truncated, or was not sent by the service, because the failure then shows
 * nothing about the entity. */
static enum tw_err judge_element(struct reading *reading, enum tw_err outcome)
{
    struct walk walk = {reading->body.at, reading->body.at + reading->body.len};

    if (outcome != TW_INVALID)
        return outcome;
    if (!is_whole(&walk))
        return fail_page(reading, &walk);
    walk = reading->walk;
    return reading->need_keys && !is_entity(take_value(&walk)) ? TW_UNKNOWN
                                                               : TW_INVALID;
}

static enum tw_err read_next(struct reading *reading)
{
    struct walk *walk = &reading->walk;
    size_t end = 0;
    enum tw_err outcome;

    skip_blanks(walk);
    if (walk->at == walk->end || *walk->at != '{')
        return fail_page(reading, walk);
    if (reading->page->count == PAGE_MAX_ENTITIES)
        return err_fail(reading->err, TW_UNKNOWN,
            "the page has more than %d entries", PAGE_MAX_ENTITIES);
    outcome = reading->read(reading,
        (struct slice){walk->at, (size_t)(walk->end - walk->at)}, &end);
    if (outcome != TW_OK)
        return judge_element(reading, outcome);
    walk->at += end;
    return TW_OK;
}

static enum tw_err read_elements(struct reading *reading)
{
    struct walk *walk = &reading->walk;
    enum tw_err outcome;

    if (!pass(walk, '['))
        return fail_page(reading, walk);
    if (pass(walk, ']'))
        return TW_OK;
    do
        outcome = read_next(reading);
    while (outcome == TW_OK && pass(walk, ','));
    if (outcome == TW_OK && !pass(walk, ']'))
        outcome = fail_page(reading, walk);
    return outcome;
}

/* Checks and skips the next member, which is not "value". */
static enum tw_err pass_beside(struct reading *reading, unsigned count)
{
    struct slice name, value;

    return take_member(&reading->walk, &name, &value) &&
                   is_good_beside(name, value, count)
               ? TW_OK
               : fail_page(reading, &reading->walk);
}

/* Skips "value": if that is next; false: it is not. */
static bool pass_value(struct walk *walk)
{
    struct walk ahead = *walk;

    skip_blanks(&ahead);
    if (ahead.at == ahead.end || *ahead.at != '"' ||
        !slice_is(take_value(&ahead), "\"value\"") || !pass(&ahead, ':'))
        return false;
    *walk = ahead;
    return true;
}

static enum tw_err read_members(struct reading *reading, bool *ret_value_came)
{
    struct walk *walk = &reading->walk;
    enum tw_err outcome = TW_OK;
    unsigned beside = 0;

    if (!pass(walk, '{'))
        return fail_page(reading, walk);
    if (pass(walk, '}'))
        return TW_OK;
    do {
        if (!*ret_value_came && pass_value(walk)) {
            *ret_value_came = true;
            outcome = read_elements(reading);
        } else {
            outcome = pass_beside(reading, ++beside);
        }
    } while (outcome == TW_OK && pass(walk, ','));
    if (outcome == TW_OK && !pass(walk, '}'))
        outcome = fail_page(reading, walk);
    return outcome;
}

static enum tw_err read_body(struct reading *reading)
{
    bool value_came = false;
    enum tw_err outcome = read_members(reading, &value_came);

    skip_blanks(&reading->walk);
    if (outcome == TW_OK && reading->walk.at != reading->walk.end)
        outcome = fail_page(reading, &reading->walk);
    if (outcome == TW_OK && !value_came)
        outcome = err_fail(reading->err, TW_UNKNOWN,
            "the body is JSON, but not a page of a table");
    if (outcome != TW_OK)
        reading->page->count = 0;
    return outcome;
}

static void reading_init(struct reading *reading, struct slice body,
    struct page *page, struct err *err)
{
    *reading = (struct reading){
        .body = body,
        .walk = {body.at, body.at + body.len},
        .reader = entity_reader_new(),
        .page = page,
        .err = err,
    };
    json_members_init(&reading->members);
}

static void reading_done(struct reading *reading)
{
    entity_reader_free(reading->reader);
    json_members_done(&reading->members);
}

enum tw_err odata_page(
    struct slice body, bool need_keys, struct page *page, struct err *err)
{
    struct reading reading;
    enum tw_err outcome;

    reading_init(&reading, body, page, err);
    reading.read = read_entity;
    reading.need_keys = need_keys;
    outcome = read_body(&reading);
    reading_done(&reading);
    return outcome;
}

enum tw_err odata_tables(struct slice body, struct page *page, struct err *err)
{
    struct reading reading;
    enum tw_err outcome;

    reading_init(&reading, body, page, err);
    reading.read = read_table;
    outcome = read_body(&reading);
    reading_done(&reading);
    return outcome;
}

enum tw_err odata_entity(
    struct slice body, bool need_keys, struct page *page, struct err *err)
{
    struct walk walk = {body.at, body.at + body.len};
    struct slice object = take_value(&walk);
    struct entity *entity = next_entity(page);
    enum tw_err outcome;

    skip_blanks(&walk);
    if (object.at == NULL || object.at[0] != '{' || walk.at != walk.end)
        return err_fail(
            err, TW_UNKNOWN, "the body is not a complete JSON entity");
    outcome = entity_parse(object, need_keys, &page->arena, entity, NULL, err);
    if (outcome != TW_OK)
        return need_keys && !is_entity(object) ? TW_UNKNOWN : TW_INVALID;
    page->count++;
    return TW_OK;
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
