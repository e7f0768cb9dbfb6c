/* SPDX-License-Identifier: MIT */
/*
 * The table service without batches: tables, entities, queries.
 *
 * Source: Table service REST; recorded answers.
 */
#include "tests/azsim/table_service.h"

#include <stdio.h>
#include <string.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/batch_service.h"
#include "tests/azsim/catalog.h"
#include "tests/azsim/changes.h"
#include "tests/azsim/exchange.h"
#include "tests/azsim/knobs.h"
#include "tests/azsim/limits.h"
#include "tests/azsim/target.h"
#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

#define SELECT_MAX 255
#define TABLES_PAGE 1000

/* A request while it is carried out. */
struct visit {
    struct azsim *azsim;
    struct account *account;
    struct http_exchange *exchange;
    struct target target;
    enum metadata metadata;
    const char *method;
};

/* ---- what requests have in common ---- */

const char *table_service_method(const char *method, struct slice override)
{
    if (strcmp(method, "POST") == 0 && slice_is(override, "MERGE"))
        return "MERGE";
    return method;
}

struct slice table_service_base(struct http_exchange *exchange)
{
    return arena_format(&exchange->arena, "http://%.*s/%.*s",
        SLICE_ARG(exchange_header(exchange, "Host")),
        SLICE_ARG(exchange->account));
}

static bool holds(struct slice text, const char *word)
{
    return text.len > 0 &&
           memmem(text.at, text.len, word, strlen(word)) != NULL;
}

/* Reads $format or, if there is none, Accept. False: the request does not
 * accept JSON. */
static bool read_metadata(
    const struct http_exchange *exchange, enum metadata *ret)
{
    struct slice format = exchange_argument(exchange, "$format");

    if (format.at == NULL)
        format = exchange_header(exchange, "Accept");
    *ret = holds(format, "odata=nometadata")     ? METADATA_NONE
           : holds(format, "odata=fullmetadata") ? METADATA_FULL
                                                 : METADATA_MINIMAL;
    return holds(format, "json");
}

static void answer_json(struct visit *visit, int status)
{
    static const char *const names[] = {
        [METADATA_NONE] = "nometadata",
        [METADATA_MINIMAL] = "minimalmetadata",
        [METADATA_FULL] = "fullmetadata",
    };

    visit->exchange->status = status;
    exchange_field(visit->exchange, "Content-Type",
        "application/json;odata=%s;streaming=true;charset=utf-8",
        names[visit->metadata]);
}

static struct slice partition_name(struct http_exchange *exchange,
    struct slice table, struct slice partition_key)
{
    return arena_format(&exchange->arena, "%.*s/%.*s/%.*s",
        SLICE_ARG(exchange->account), SLICE_ARG(table),
        SLICE_ARG(partition_key));
}

enum failure table_service_charge(struct azsim *azsim,
    struct http_exchange *exchange, struct slice table,
    struct slice partition_key, int64_t entities)
{
    struct knobs knobs = gates_knobs(azsim->gates);
    bool served = limits_take(
        azsim->limits, exchange->account, entities, knobs.account_limit);

    if (served && partition_key.at != NULL)
        served = limits_take(azsim->limits,
            partition_name(exchange, table, partition_key), entities,
            knobs.partition_limit);
    if (served)
        return FAIL_NONE;
    if (gates_draw(azsim->gates, 250))
        return FAIL_TIMED_OUT;
    if (gates_draw(azsim->gates, knobs.hint_share))
        exchange_field(exchange, "Retry-After", "1");
    return FAIL_SERVER_BUSY;
}

static enum failure charge(struct visit *visit, int64_t entities)
{
    return table_service_charge(visit->azsim, visit->exchange,
        visit->target.table,
        visit->target.what == TARGET_ENTITY ? visit->target.partition_key
                                            : (struct slice){NULL, 0},
        entities);
}

static enum failure find_table(
    struct visit *visit, char stored[CATALOG_NAME_BYTES])
{
    if (!target_is_table(visit->target.table))
        return FAIL_INVALID_NAME;
    return catalog_find(
        visit->account, SERVICE_TABLE, visit->target.table, stored);
}

/* ---- continuation tokens ---- */

/* Returns the service's form of a token "1!..." of the store: 1!LENGTH!base64,
 * with - in place of =. mark: a text that is written before LENGTH;
 * read_token() ignores it. */
static struct slice write_token(
    struct arena *arena, struct slice stored, const char *mark)
{
    struct slice inner = {stored.at + 2, stored.len - 2}, token;
    struct buf text;
    char *at;

    buf_init(&text, inner.len * 2 + 8);
    crypto_base64(&text, inner);
    token = arena_format(arena, "1!%s%zu!%s", mark, text.len, buf_text(&text));
    buf_done(&text);
    at = (char *)(uintptr_t)token.at;
    for (size_t i = 0; i < token.len; i++)
        if (at[i] == '=')
            at[i] = '-';
    return token;
}

static bool read_token(
    struct arena *arena, struct slice token, struct slice *ret)
{
    struct slice text = {token.at + 2, token.len - 2};
    char *copy;
    struct buf inner;
    bool good;

    if (token.len < 4 || !slice_begins(token, slice_of("1!")))
        return false;
    while (text.len > 0 && text.at[0] != '!') {
        text.at++;
        text.len--;
    }
    if (text.len == 0)
        return false;
    copy = arena_alloc(arena, text.len);
    for (size_t i = 1; i < text.len; i++)
        copy[i - 1] = text.at[i] == '-' ? '=' : text.at[i];
    buf_init(&inner, text.len + 2);
    buf_add_text(&inner, "1!");
    good = crypto_unbase64(&inner, (struct slice){copy, text.len - 1});
    *ret = arena_copy(arena, buf_slice(&inner));
    buf_done(&inner);
    return good;
}

/* Reads the continuation of a request. Two empty keys stand for the start of
 * the table. */
static bool read_continuation(
    struct http_exchange *exchange, struct continuation *ret)
{
    struct slice partition = exchange_argument(exchange, "NextPartitionKey");
    struct slice row = exchange_argument(exchange, "NextRowKey");

    *ret = (struct continuation){.more = false};
    if (partition.at == NULL)
        return row.at == NULL;
    if (row.at == NULL ||
        !read_token(&exchange->arena, partition, &ret->partition_key) ||
        !read_token(&exchange->arena, row, &ret->row_key))
        return false;
    ret->more = ret->partition_key.len > 2 || ret->row_key.len > 2;
    return true;
}

/* Adds the tokens of the next page. They have a mark if the tokens in the
 * request have none. So they differ from those even if the page is empty. */
static void add_continuation(
    struct http_exchange *exchange, const struct continuation *next)
{
    static const struct slice begin = {"1!", 2};
    struct slice asked = exchange_argument(exchange, "NextPartitionKey");
    const char *mark =
        asked.at != NULL && slice_begins(asked, slice_of("1!+")) ? "" : "+";

    exchange_field(exchange, "x-ms-continuation-NextPartitionKey", "%.*s",
        SLICE_ARG(write_token(
            &exchange->arena, next->more ? next->partition_key : begin, mark)));
    exchange_field(exchange, "x-ms-continuation-NextRowKey", "%.*s",
        SLICE_ARG(write_token(
            &exchange->arena, next->more ? next->row_key : begin, mark)));
}

/* ---- queries ---- */

static enum failure read_top(struct http_exchange *exchange, unsigned *ret)
{
    int64_t top;

    if (!exchange_integer(
            exchange, "$top", PAGE_MAX_ENTITIES, 1, PAGE_MAX_ENTITIES, &top))
        return FAIL_INPUT;
    *ret = (unsigned)top;
    return FAIL_NONE;
}

/* Reads $select, "a,b,c". *ret NULL: all properties. */
static size_t read_select(struct http_exchange *exchange, struct slice **ret)
{
    struct slice text = exchange_argument(exchange, "$select");
    struct slice *names =
        arena_alloc(&exchange->arena, (SELECT_MAX + 1) * sizeof(struct slice));
    size_t count = 0;

    *ret = NULL;
    if (text.len == 0)
        return 0;
    *ret = names;
    while (text.len > 0 && count <= SELECT_MAX) {
        const char *comma = memchr(text.at, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.at) : text.len;

        names[count++] = (struct slice){text.at, len};
        text.at += len + (comma != NULL);
        text.len -= len + (comma != NULL);
    }
    return count;
}

/* Returns the length of the 'text' at the start of filter, with its quotes; 0:
 * there is no such text. */
static size_t quoted_len(struct slice filter)
{
    for (size_t i = 1; filter.len > 0 && filter.at[0] == '\''; i++) {
        if (i >= filter.len)
            return 0;
        if (filter.at[i] != '\'')
            continue;
        if (i + 1 < filter.len && filter.at[i + 1] == '\'')
            i++;
        else
            return i + 1;
    }
    return 0;
}

/* Returns whether the filter has an `or` outside parentheses and texts. */
static bool has_open_or(struct slice filter)
{
    int depth = 0;

    for (size_t i = 0; i < filter.len; i++) {
        struct slice rest = {filter.at + i, filter.len - i};

        if (filter.at[i] == '\'')
            i += quoted_len(rest) > 0 ? quoted_len(rest) - 1 : 0;
        depth += filter.at[i] == '(';
        depth -= filter.at[i] == ')';
        if (depth == 0 && slice_begins(rest, slice_of(" or ")))
            return true;
    }
    return false;
}

/* Returns the text between the quotes in the first len bytes of at. */
static struct slice unquoted(
    struct http_exchange *exchange, const char *at, size_t len)
{
    char *text = arena_alloc(&exchange->arena, len);
    size_t end = 0;

    for (size_t i = 1; i + 1 < len; i++) {
        text[end++] = at[i];
        i += at[i] == '\'';
    }
    return (struct slice){text, end};
}

static void narrow(
    struct key_range *range, const char *operator, struct slice key)
{
    if (strcmp(operator, "eq") == 0) {
        *range = key_range_exact(key);
    } else if (range->exact) {
        return;
    } else if (strcmp(operator, "lt") == 0) {
        range->has_below = true;
        range->below = key;
    } else {
        range->has_from = true;
        range->from = key;
        range->from_exclusive = strcmp(operator, "gt") == 0;
    }
}

/* Takes a comparison of `name`, such as `PartitionKey eq 'x'`, and an ` and `
 * after it, from the front of *rest. False: *rest does not begin with such a
 * comparison. */
static bool take_bound(struct http_exchange *exchange, struct slice *rest,
    const char *name, struct key_range *range)
{
    static const char *const operators[] = {"eq", "ge", "gt", "lt"};
    char begins[32];

    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        int len =
            snprintf(begins, sizeof(begins), "%s %s ", name, operators[i]);
        struct slice value = {rest->at + len, rest->len - (size_t)len};
        size_t end;

        if (!slice_begins(*rest, slice_of(begins)))
            continue;
        end = quoted_len(value);
        if (end == 0)
            return false;
        narrow(range, operators[i], unquoted(exchange, value.at, end));
        *rest = (struct slice){value.at + end, value.len - end};
        if (slice_begins(*rest, slice_of(" and ")))
            *rest = (struct slice){rest->at + 5, rest->len - 5};
        return true;
    }
    return false;
}

/*
 * Narrows the scan, as the service does, to the range of keys that the first
 * comparisons of its filter give. Does nothing if the filter has an `or`
 * outside parentheses. The whole filter is still applied to the entities of the
 * range.
 */
static void narrow_by_filter(
    struct http_exchange *exchange, struct scan_request *request)
{
    struct slice rest = request->filter;

    if (has_open_or(rest))
        return;
    while (
        take_bound(exchange, &rest, "PartitionKey", &request->partition_key) ||
        take_bound(exchange, &rest, "RowKey", &request->row_key))
        continue;
}

static void write_page(
    struct visit *visit, const struct page *page, const struct view *view)
{
    struct buf *to = &visit->exchange->answer;

    buf_add_char(to, '{');
    if (view->metadata != METADATA_NONE)
        buf_add_format(to, "\"odata.metadata\":\"%.*s/$metadata#%.*s\",",
            SLICE_ARG(view->base), SLICE_ARG(view->table));
    buf_add_text(to, "\"value\":[");
    for (size_t i = 0; i < page->count; i++) {
        if (i > 0)
            buf_add_char(to, ',');
        entity_json_write(&page->entities[i], view, (struct slice){"", 0}, to);
    }
    buf_add_text(to, "]}");
}

/* Lets some pages have fewer entities than requested, as the service may do. */
static void shorten(struct visit *visit, struct scan_request *request)
{
    struct knobs knobs = gates_knobs(visit->azsim->gates);

    if (gates_draw(visit->azsim->gates, knobs.short_share))
        request->top =
            1 + (unsigned)gates_below(visit->azsim->gates, request->top);
}

static bool page_is_empty(struct visit *visit)
{
    return gates_draw(
        visit->azsim->gates, gates_knobs(visit->azsim->gates).empty_share);
}

static enum failure scan(
    struct visit *visit, struct scan_request *request, struct page *page)
{
    struct exchange store_exchange = {.deadline = NULL};
    enum failure failure;
    enum tw_err outcome;

    if (page_is_empty(visit)) {
        visit->exchange->status = 200;
        add_continuation(visit->exchange, &request->from);
        return FAIL_NONE;
    }
    shorten(visit, request);
    outcome = store_scan(
        catalog_store(visit->account), &store_exchange, request, page);
    if (outcome == TW_INVALID)
        return FAIL_INPUT;
    if (outcome != TW_OK)
        return FAIL_INTERNAL;
    failure = charge(visit, page->count > 0 ? (int64_t)page->count : 1);
    if (failure == FAIL_NONE && page->next.more)
        add_continuation(visit->exchange, &page->next);
    return failure;
}

static enum failure query(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    struct scan_request request = {
        .filter = exchange_argument(exchange, "$filter")};
    struct view view = {.metadata = visit->metadata,
        .base = table_service_base(exchange),
        .table = visit->target.table};
    char stored[CATALOG_NAME_BYTES];
    struct slice *select;
    struct page page;
    enum failure failure = find_table(visit, stored);

    if (failure == FAIL_NONE)
        failure = read_top(exchange, &request.top);
    if (failure == FAIL_NONE && !read_continuation(exchange, &request.from))
        failure = FAIL_INPUT;
    if (failure != FAIL_NONE)
        return failure;
    view.select_count = read_select(exchange, &select);
    if (view.select_count > SELECT_MAX)
        return FAIL_INPUT;
    view.select = select;
    request.table = stored;
    request.select = select;
    request.select_count = view.select_count;
    narrow_by_filter(exchange, &request);
    page_init(&page);
    failure = scan(visit, &request, &page);
    if (failure == FAIL_NONE) {
        write_page(visit, &page, &view);
        answer_json(visit, 200);
    }
    page_done(&page);
    return failure;
}

/* ---- entities ---- */

enum failure table_service_get(struct account *account,
    struct http_exchange *exchange, enum metadata metadata, struct slice table,
    struct slice partition_key, struct slice row_key, struct buf *to,
    const char **ret_etag)
{
    struct slice *select;
    struct view view = {.metadata = metadata,
        .base = table_service_base(exchange),
        .table = table};
    char stored[CATALOG_NAME_BYTES];
    struct exchange store_exchange = {.deadline = NULL};
    struct page page;
    char *etag = arena_alloc(&exchange->arena, ENTITY_ETAG_BYTES);
    enum failure failure = catalog_find(account, SERVICE_TABLE, table, stored);

    if (failure != FAIL_NONE)
        return failure;
    view.select_count = read_select(exchange, &select);
    view.select = select;
    page_init(&page);
    if (store_get(catalog_store(account), &store_exchange, stored,
            partition_key, row_key, &page) != TW_OK) {
        failure = FAIL_RESOURCE_MISSING;
    } else {
        *ret_etag = entity_json_etag(page.entities[0].etag, etag);
        entity_json_write(&page.entities[0], &view,
            arena_format(&exchange->arena,
                "\"odata.metadata\":\"%.*s/$metadata#%.*s/@Element\"",
                SLICE_ARG(view.base), SLICE_ARG(table)),
            to);
    }
    page_done(&page);
    return failure;
}

static enum failure get_entity(struct visit *visit)
{
    const char *etag = "";
    enum failure failure = charge(visit, 1);

    if (failure == FAIL_NONE)
        failure = table_service_get(visit->account, visit->exchange,
            visit->metadata, visit->target.table, visit->target.partition_key,
            visit->target.row_key, &visit->exchange->answer, &etag);
    if (failure != FAIL_NONE)
        return failure;
    exchange_field(visit->exchange, "ETag", "%s", etag);
    answer_json(visit, 200);
    return FAIL_NONE;
}

/* Answers 201 with the entity, or 204 if the request does not want it. */
static enum failure answer_insert(
    struct visit *visit, const struct change_request *request)
{
    struct http_exchange *exchange = visit->exchange;
    const char *etag;

    exchange->status = 204;
    if (slice_is(exchange_header(exchange, "Prefer"), "return-no-content")) {
        exchange_field(exchange, "Preference-Applied", "return-no-content");
        return FAIL_NONE;
    }
    answer_json(visit, 201);
    return table_service_get(visit->account, exchange, visit->metadata,
        visit->target.table, request->entity.partition_key,
        request->entity.row_key, &exchange->answer, &etag);
}

static enum failure apply(struct visit *visit, struct change_request *request)
{
    struct http_exchange *exchange = visit->exchange;
    bool insert = !request->keys_in_url;
    char etag[1][ENTITY_ETAG_BYTES];
    char stored[CATALOG_NAME_BYTES];
    size_t failed;
    enum failure failure = find_table(visit, stored);

    if (failure == FAIL_NONE)
        failure = charge(visit, 1);
    if (failure == FAIL_NONE)
        failure = changes_apply(catalog_store(visit->account), stored, request,
            1, &exchange->arena, etag, &failed);
    if (failure != FAIL_NONE)
        return failure;
    exchange->changed = true;
    exchange->status = 204;
    if (etag[0][0] != '\0')
        exchange_field(exchange, "ETag", "%s", etag[0]);
    return insert ? answer_insert(visit, request) : FAIL_NONE;
}

static enum failure change_entity(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    struct change_request request = {
        .method = visit->method,
        .keys_in_url = visit->target.what == TARGET_ENTITY,
        .entity = {.partition_key = visit->target.partition_key,
            .row_key = visit->target.row_key},
        .body = buf_slice(&exchange->body),
        .if_match = exchange_header(exchange, "If-Match"),
    };
    enum failure failure;

    exchange->operations = 1;
    exchange->deletes = strcmp(visit->method, "DELETE") == 0;
    if (exchange->deletes && request.if_match.at == NULL)
        return FAIL_MISSING_HEADER;
    failure = changes_read(&request, &exchange->arena);
    return failure == FAIL_NONE ? apply(visit, &request) : failure;
}

/* ---- tables ---- */

static void add_table(struct slice name, struct buf *to)
{
    buf_add_format(to, "{\"TableName\":\"%.*s\"}", SLICE_ARG(name));
}

static enum failure read_table_name(
    struct http_exchange *exchange, struct slice *ret)
{
    const struct json *name;
    struct json *json;
    enum failure failure = FAIL_INPUT;

    if (json_parse(buf_slice(&exchange->body), 4, &json, NULL) != TW_OK)
        return failure;
    name = json_type(json) == JSON_OBJECT ? json_get(json, "TableName") : NULL;
    if (name != NULL && json_type(name) == JSON_STRING) {
        *ret = arena_copy(&exchange->arena, json_string(name));
        failure = target_is_table(*ret) ? FAIL_NONE : FAIL_INVALID_NAME;
    }
    json_free(json);
    return failure;
}

static enum failure create_table(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    struct slice name = {NULL, 0};
    enum failure failure = read_table_name(exchange, &name);

    if (failure == FAIL_NONE)
        failure = catalog_create(
            visit->account, SERVICE_TABLE, name, (struct slice){"", 0});
    exchange->target = name;
    if (failure != FAIL_NONE)
        return failure;
    exchange->changed = true;
    exchange->status = 204;
    if (slice_is(exchange_header(exchange, "Prefer"), "return-no-content")) {
        exchange_field(exchange, "Preference-Applied", "return-no-content");
        return FAIL_NONE;
    }
    add_table(name, &exchange->answer);
    answer_json(visit, 201);
    return FAIL_NONE;
}

static enum failure delete_table(struct visit *visit)
{
    struct knobs knobs = gates_knobs(visit->azsim->gates);
    enum failure failure;

    if (visit->target.table.at == NULL)
        return FAIL_METHOD;
    failure = catalog_delete(visit->account, SERVICE_TABLE, visit->target.table,
        platform_wall_ticks() + knobs.being_deleted_ms * TICKS_PER_MS);
    visit->exchange->changed = failure == FAIL_NONE;
    visit->exchange->status = 204;
    return failure;
}

/* Returns whether the filter is true for the table with this name. The only
 * property of a table is TableName. */
static bool table_matches(
    const struct filter *filter, struct arena *arena, struct slice name)
{
    struct entity entity;

    entity_init(&entity, arena, (struct slice){"", 0}, (struct slice){"", 0});
    entity_set_string(&entity, arena, "TableName", name);
    return filter_matches(filter, &entity);
}

static enum failure list_tables(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    struct arena *arena = &exchange->arena;
    struct slice from = exchange_argument(exchange, "NextTableName");
    const struct filter *filter = NULL;
    struct slice *names;
    size_t count = catalog_list(visit->account, SERVICE_TABLE, arena, &names);
    size_t written = 0;
    unsigned top;
    enum failure failure = read_top(exchange, &top);

    if (failure == FAIL_NONE &&
        filter_parse(exchange_argument(exchange, "$filter"), arena, &filter,
            NULL) != TW_OK)
        failure = FAIL_INPUT;
    if (failure == FAIL_NONE && from.at != NULL &&
        !read_token(arena, from, &from))
        failure = FAIL_INPUT;
    if (failure != FAIL_NONE)
        return failure;
    if (from.at != NULL)
        from = (struct slice){from.at + 2, from.len - 2};
    buf_add_format(&exchange->answer,
        "{\"odata.metadata\":\"%.*s/$metadata#Tables\",\"value\":[",
        SLICE_ARG(table_service_base(exchange)));
    for (size_t i = 0; i < count; i++) {
        if (slice_compare(names[i], from) < 0 ||
            !table_matches(filter, arena, names[i]))
            continue;
        if (written == top) {
            exchange_field(exchange, "x-ms-continuation-NextTableName", "%.*s",
                SLICE_ARG(write_token(arena,
                    arena_format(arena, "1!%.*s", SLICE_ARG(names[i])), "")));
            break;
        }
        buf_add_text(&exchange->answer, written++ > 0 ? "," : "");
        add_table(names[i], &exchange->answer);
    }
    buf_add_text(&exchange->answer, "]}");
    answer_json(visit, 200);
    return FAIL_NONE;
}

/* ---- the choice of the operation ---- */

static enum failure answer_batch(struct visit *visit)
{
    return batch_service_answer(visit->azsim, visit->account, visit->exchange);
}

static const struct {
    int what;
    const char *method;
    enum failure (*answer)(struct visit *visit);
} ROUTES[] = {
    {TARGET_TABLES, "GET", list_tables},
    {TARGET_TABLES, "POST", create_table},
    {TARGET_TABLES, "DELETE", delete_table},
    {TARGET_BATCH, "POST", answer_batch},
    {TARGET_TABLE, "GET", query},
    {TARGET_TABLE, "POST", change_entity},
    {TARGET_ENTITY, "GET", get_entity},
    {TARGET_ENTITY, "PUT", change_entity},
    {TARGET_ENTITY, "PATCH", change_entity},
    {TARGET_ENTITY, "MERGE", change_entity},
    {TARGET_ENTITY, "DELETE", change_entity},
};

static enum failure route(struct visit *visit)
{
    if (exchange_argument(visit->exchange, "comp").at != NULL)
        return FAIL_NOT_IMPLEMENTED;
    for (size_t i = 0; i < sizeof(ROUTES) / sizeof(ROUTES[0]); i++)
        if (ROUTES[i].what == (int)visit->target.what &&
            strcmp(ROUTES[i].method, visit->method) == 0)
            return ROUTES[i].answer(visit);
    return FAIL_METHOD;
}

void table_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange)
{
    struct visit visit = {
        .azsim = azsim,
        .account = account,
        .exchange = exchange,
        .method = table_service_method(
            exchange->method, exchange_header(exchange, "X-HTTP-Method")),
    };
    enum failure failure = FAIL_INPUT;

    exchange_field(exchange, "Cache-Control", "no-cache");
    exchange_field(exchange, "X-Content-Type-Options", "nosniff");
    if (!read_metadata(exchange, &visit.metadata)) {
        failure = FAIL_FORMAT;
    } else if (target_read(exchange->rest, &exchange->arena, &visit.target)) {
        exchange->target = visit.target.table;
        failure = route(&visit);
    }
    if (failure != FAIL_NONE)
        exchange_fail(exchange, failure);
}
