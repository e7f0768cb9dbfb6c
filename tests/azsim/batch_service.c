/* SPDX-License-Identifier: MIT */
/* Reads a multipart request, carries out its transaction or its single Get, and
 * writes a multipart answer. */
#include "tests/azsim/batch_service.h"

#include <string.h>
#include <strings.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/catalog.h"
#include "tests/azsim/changes.h"
#include "tests/azsim/exchange.h"
#include "tests/azsim/table_service.h"
#include "tests/azsim/target.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

#define CRLF "\r\n"
#define MAX_PARTS (BATCH_MAX_OPERATIONS + 1)
#define MAX_PART_HEADERS 16

/* One request inside the batch. */
struct part {
    struct slice method, url, body;
    struct pairs headers;
    struct target target;
    bool no_content; /* Prefer: return-no-content was sent */
};

struct transaction {
    struct azsim *azsim;
    struct account *account;
    struct http_exchange *exchange;
    struct part parts[MAX_PARTS];
    size_t count;
    struct change_request requests[BATCH_MAX_OPERATIONS];
    char etags[BATCH_MAX_OPERATIONS][ENTITY_ETAG_BYTES];
    size_t failed;
};

/* ---- reading ---- */

static struct slice take_line(struct slice *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    size_t used = end ? (size_t)(end - rest->at) + 1 : rest->len;
    struct slice line = {rest->at, end ? used - 1 : used};

    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    rest->at += used;
    rest->len -= used;
    return line;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && text.at[0] == ' ') {
        text.at++;
        text.len--;
    }
    return text;
}

/* Reads header lines up to the empty line. */
static void read_headers(struct slice *rest, struct pairs *ret)
{
    while (rest->len > 0) {
        struct slice line = take_line(rest);
        const char *colon =
            line.len > 0 ? memchr(line.at, ':', line.len) : NULL;
        struct slice name, value;

        if (line.len == 0)
            return;
        if (colon == NULL || ret->count == MAX_PART_HEADERS)
            continue;
        name = (struct slice){line.at, (size_t)(colon - line.at)};
        value = (struct slice){colon + 1, line.len - name.len - 1};
        ret->list[ret->count++] = (struct pair){name, trimmed(value)};
    }
}

static struct slice header(const struct pairs *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (headers->list[i].name.len == strlen(name) &&
            strncasecmp(headers->list[i].name.at, name, strlen(name)) == 0)
            return headers->list[i].value;
    return (struct slice){NULL, 0};
}

/* Returns "--" and the boundary in this Content-Type; .at NULL: it has no
 * boundary. */
static struct slice delimiter_of(struct arena *arena, struct slice type)
{
    static const char word[] = "boundary=";
    const char *at =
        type.len > 0 ? memmem(type.at, type.len, word, sizeof(word) - 1) : NULL;
    struct slice rest;

    if (at == NULL)
        return (struct slice){NULL, 0};
    at += sizeof(word) - 1;
    rest = (struct slice){at, (size_t)(type.at + type.len - at)};
    if (rest.len > 1 && rest.at[0] == '"')
        rest = (struct slice){rest.at + 1, rest.len - 2};
    return arena_format(arena, "--%.*s", SLICE_ARG(rest));
}

/* Reads up to the next delimiter. *ret: the text before the delimiter; *rest:
 * what follows the delimiter's line. *ret_last: the delimiter was the closing
 * one. False: there is no delimiter. */
static bool take_part(struct slice *rest, struct slice delimiter,
    struct slice *ret, bool *ret_last)
{
    const char *at = memmem(rest->at, rest->len, delimiter.at, delimiter.len);
    struct slice line;

    if (at == NULL)
        return false;
    *ret = (struct slice){rest->at, (size_t)(at - rest->at)};
    rest->len -= (size_t)(at - rest->at);
    rest->at = at;
    line = take_line(rest);
    *ret_last = line.len >= delimiter.len + 2 &&
                memcmp(line.at + delimiter.len, "--", 2) == 0;
    return true;
}

/* Reads a line such as "PATCH http://host/account/T(...) HTTP/1.1". The path
 * after the account becomes the target; a query is ignored. */
static bool read_request_line(
    struct part *part, struct slice line, struct http_exchange *exchange)
{
    const char *first = memchr(line.at, ' ', line.len);
    const char *last = memrchr(line.at, ' ', line.len);
    struct slice base =
        arena_format(&exchange->arena, "/%.*s/", SLICE_ARG(exchange->account));
    const char *path, *query;

    if (first == NULL || last == first)
        return false;
    part->method = arena_copy(
        &exchange->arena, (struct slice){line.at, (size_t)(first - line.at)});
    part->url = (struct slice){first + 1, (size_t)(last - first - 1)};
    path = memmem(part->url.at, part->url.len, base.at, base.len);
    if (path == NULL)
        return false;
    path += base.len - 1;
    query = memchr(path, '?', (size_t)(last - path));
    return target_read(
        (struct slice){path, (size_t)((query ? query : last) - path)},
        &exchange->arena, &part->target);
}

static bool read_part(struct transaction *transaction, struct slice text)
{
    struct pairs outer = {.count = 0};
    struct part *part = &transaction->parts[transaction->count];

    if (transaction->count == MAX_PARTS)
        return true; /* already too many: the batch is refused */
    read_headers(&text, &outer);
    while (text.len > 0 && (text.at[0] == '\r' || text.at[0] == '\n'))
        (void)take_line(&text);
    if (text.len == 0 ||
        !read_request_line(part, take_line(&text), transaction->exchange))
        return false;
    read_headers(&text, &part->headers);
    while (text.len > 0 &&
           (text.at[text.len - 1] == '\r' || text.at[text.len - 1] == '\n'))
        text.len--;
    part->body = text;
    part->no_content =
        slice_is(header(&part->headers, "Prefer"), "return-no-content");
    transaction->count++;
    return true;
}

static bool read_parts(
    struct transaction *transaction, struct slice rest, struct slice delimiter)
{
    struct slice text;
    bool last = false;

    if (delimiter.at == NULL || !take_part(&rest, delimiter, &text, &last))
        return false;
    while (!last) {
        if (!take_part(&rest, delimiter, &text, &last) ||
            !read_part(transaction, text))
            return false;
    }
    return transaction->count > 0;
}

/* Reads the batch: its outer level has one part, a changeset or a single
 * Get. */
static bool read_batch(struct transaction *transaction)
{
    struct http_exchange *exchange = transaction->exchange;
    struct slice rest = buf_slice(&exchange->body), text;
    struct slice delimiter = delimiter_of(
        &exchange->arena, exchange_header(exchange, "Content-Type"));
    struct pairs headers = {.count = 0};
    struct slice inner, type;
    bool last;

    if (rest.len == 0 || delimiter.at == NULL ||
        !take_part(&rest, delimiter, &text, &last) || last ||
        !take_part(&rest, delimiter, &text, &last))
        return false;
    inner = text;
    read_headers(&inner, &headers);
    type = header(&headers, "Content-Type");
    if (slice_begins(type, slice_of("multipart/mixed")))
        return read_parts(
            transaction, inner, delimiter_of(&exchange->arena, type));
    return read_part(transaction, text) &&
           slice_is(transaction->parts[0].method, "GET");
}

/* ---- checking ---- */

static enum failure make_request(struct transaction *transaction, size_t index)
{
    const struct part *part = &transaction->parts[index];
    struct change_request *request = &transaction->requests[index];

    *request = (struct change_request){
        .method = table_service_method(
            part->method.at, header(&part->headers, "X-HTTP-Method")),
        .keys_in_url = part->target.what == TARGET_ENTITY,
        .entity = {.partition_key = part->target.partition_key,
            .row_key = part->target.row_key},
        .body = part->body,
        .if_match = header(&part->headers, "If-Match"),
    };
    if (strcmp(request->method, "GET") == 0 ||
        (strcmp(request->method, "POST") == 0) == request->keys_in_url)
        return FAIL_INPUT;
    if (strcmp(request->method, "DELETE") == 0 && request->if_match.at == NULL)
        return FAIL_MISSING_HEADER;
    return changes_read(request, &transaction->exchange->arena);
}

static enum failure check_neighbours(
    const struct transaction *transaction, size_t index)
{
    const struct change_request *requests = transaction->requests;
    const struct entity *entity = &requests[index].entity;

    if (!slice_equal(transaction->parts[index].target.table,
            transaction->parts[0].target.table))
        return FAIL_INPUT;
    if (!slice_equal(entity->partition_key, requests[0].entity.partition_key))
        return FAIL_BATCH_MIXED_PARTITIONS;
    for (size_t i = 0; i < index; i++)
        if (slice_equal(entity->row_key, requests[i].entity.row_key))
            return FAIL_BATCH_DUPLICATE;
    return FAIL_NONE;
}

static enum failure make_requests(struct transaction *transaction)
{
    enum failure failure = FAIL_NONE;

    if (transaction->count > BATCH_MAX_OPERATIONS) {
        transaction->failed = BATCH_MAX_OPERATIONS - 1;
        return FAIL_INPUT;
    }
    for (size_t i = 0; i < transaction->count && failure == FAIL_NONE; i++) {
        transaction->failed = i;
        failure = make_request(transaction, i);
        if (failure == FAIL_NONE)
            failure = check_neighbours(transaction, i);
    }
    return failure;
}

/* ---- answering ---- */

static void add_part_head(struct buf *to, int status)
{
    buf_add_format(to,
        "Content-Type: application/http" CRLF
        "Content-Transfer-Encoding: binary" CRLF CRLF "HTTP/1.1 %d %s" CRLF
        "X-Content-Type-Options: nosniff" CRLF "Cache-Control: no-cache" CRLF,
        status, failure_reason(status));
}

static void add_part_type(struct buf *to)
{
    buf_add_text(to, "DataServiceVersion: 3.0;" CRLF
                     "Content-Type: application/json;odata=minimalmetadata;"
                     "streaming=true;charset=utf-8" CRLF);
}

static void add_error_part(
    struct transaction *transaction, enum failure failure, struct buf *to)
{
    bool alone = transaction->count == 1 && failure != FAIL_TABLE_MISSING &&
                 !slice_is(transaction->parts[0].method, "GET");

    add_part_head(to, failure_text(failure)->status);
    add_part_type(to);
    buf_add_text(to, CRLF);
    exchange_add_error(transaction->exchange, failure,
        alone ? -1 : (int)transaction->failed, to);
    buf_add_text(to, CRLF);
}

static void add_location(
    struct transaction *transaction, size_t index, struct buf *to)
{
    const struct entity *entity = &transaction->requests[index].entity;
    struct http_exchange *exchange = transaction->exchange;
    struct slice keys[] = {entity->partition_key, entity->row_key};
    struct buf encoded;

    buf_add_format(to, "Location: %.*s/%.*s",
        SLICE_ARG(table_service_base(exchange)),
        SLICE_ARG(transaction->parts[index].target.table));
    for (int i = 0; i < 2; i++) {
        buf_init(&encoded, keys[i].len * 3 + 1);
        text_percent_encode(&encoded, keys[i]);
        buf_add_format(to, "%s='%s'", i == 0 ? "(PartitionKey" : ",RowKey",
            buf_text(&encoded));
        buf_done(&encoded);
    }
    buf_add_text(to, ")" CRLF);
}

/* Adds the answer to an insert without Prefer: return-no-content: 201 with the
 * entity. */
static void add_inserted(
    struct transaction *transaction, size_t index, struct buf *to)
{
    const struct entity *entity = &transaction->requests[index].entity;
    const char *etag;

    add_part_head(to, 201);
    add_part_type(to);
    add_location(transaction, index, to);
    buf_add_format(to, "ETag: %s" CRLF CRLF, transaction->etags[index]);
    (void)table_service_get(transaction->account, transaction->exchange,
        METADATA_MINIMAL, transaction->parts[index].target.table,
        entity->partition_key, entity->row_key, to, &etag);
    buf_add_text(to, CRLF);
}

static void add_done_part(
    struct transaction *transaction, size_t index, struct buf *to)
{
    const struct part *part = &transaction->parts[index];
    bool insert = !transaction->requests[index].keys_in_url;

    if (insert && !part->no_content) {
        add_inserted(transaction, index, to);
        return;
    }
    add_part_head(to, 204);
    if (insert)
        buf_add_text(to, "Preference-Applied: return-no-content" CRLF);
    buf_add_text(to, "DataServiceVersion: 1.0;" CRLF);
    if (insert)
        add_location(transaction, index, to);
    if (transaction->etags[index][0] != '\0')
        buf_add_format(to, "ETag: %s" CRLF, transaction->etags[index]);
    buf_add_text(to, CRLF CRLF);
}

/* Adds the answer to a single Get, which has no changeset. */
static void add_get(struct transaction *transaction, struct buf *to)
{
    const struct target *target = &transaction->parts[0].target;
    const char *etag = "";
    struct buf entity;
    enum failure failure;

    buf_init(&entity, EXCHANGE_MAX_ANSWER_BYTES);
    failure = table_service_get(transaction->account, transaction->exchange,
        METADATA_MINIMAL, target->table, target->partition_key, target->row_key,
        &entity, &etag);
    if (failure != FAIL_NONE) {
        add_error_part(transaction, failure, to);
    } else {
        add_part_head(to, 200);
        add_part_type(to);
        buf_add_format(to, "ETag: %s" CRLF CRLF, etag);
        buf_add_slice(to, buf_slice(&entity));
        buf_add_text(to, CRLF);
    }
    buf_done(&entity);
}

static void add_changeset(
    struct transaction *transaction, enum failure failure, struct buf *to)
{
    char id[37];
    size_t count = failure == FAIL_NONE ? transaction->count : 1;

    text_random_uuid(id);
    buf_add_format(to,
        "Content-Type: multipart/mixed; boundary=changesetresponse_%s" CRLF
            CRLF,
        id);
    for (size_t i = 0; i < count; i++) {
        buf_add_format(to, "--changesetresponse_%s" CRLF, id);
        if (failure == FAIL_NONE)
            add_done_part(transaction, i, to);
        else
            add_error_part(transaction, failure, to);
    }
    buf_add_format(to, "--changesetresponse_%s--" CRLF, id);
}

static void answer(
    struct transaction *transaction, bool is_get, enum failure failure)
{
    struct http_exchange *exchange = transaction->exchange;
    struct buf *to = &exchange->answer;
    char id[37];

    text_random_uuid(id);
    buf_add_format(to, "--batchresponse_%s" CRLF, id);
    if (is_get)
        add_get(transaction, to);
    else
        add_changeset(transaction, failure, to);
    buf_add_format(to, "--batchresponse_%s--" CRLF, id);
    exchange->status = 202;
    exchange->failure = failure; /* for the journal */
    exchange_field(exchange, "Content-Type",
        "multipart/mixed; boundary=batchresponse_%s", id);
}

/* ---- carrying out ---- */

static void count_operations(struct transaction *transaction)
{
    struct http_exchange *exchange = transaction->exchange;

    exchange->target = transaction->parts[0].target.table;
    exchange->operations = (unsigned)transaction->count;
    for (size_t i = 0; i < transaction->count; i++)
        exchange->deletes += slice_is(transaction->parts[i].method, "DELETE");
}

static enum failure apply(struct transaction *transaction)
{
    char stored[CATALOG_NAME_BYTES];
    enum failure failure = catalog_find(transaction->account, SERVICE_TABLE,
        transaction->parts[0].target.table, stored);

    transaction->failed = 0;
    if (failure == FAIL_NONE)
        failure = changes_apply(catalog_store(transaction->account), stored,
            transaction->requests, transaction->count,
            &transaction->exchange->arena, transaction->etags,
            &transaction->failed);
    transaction->exchange->changed = failure == FAIL_NONE;
    return failure;
}

enum failure batch_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange)
{
    struct transaction *transaction =
        arena_alloc(&exchange->arena, sizeof(*transaction));
    enum failure failure;
    bool is_get;

    transaction->azsim = azsim;
    transaction->account = account;
    transaction->exchange = exchange;
    if (exchange->body.overflow || exchange->body.len > BATCH_MAX_BYTES)
        return FAIL_BODY_TOO_LARGE;
    if (!read_batch(transaction))
        return FAIL_INPUT;
    count_operations(transaction);
    is_get = slice_is(transaction->parts[0].method, "GET") &&
             transaction->count == 1;
    failure = is_get ? FAIL_NONE : make_requests(transaction);
    if (failure == FAIL_NONE) {
        failure = table_service_charge(azsim, exchange, exchange->target,
            is_get ? transaction->parts[0].target.partition_key
                   : transaction->requests[0].entity.partition_key,
            (int64_t)transaction->count);
        if (failure != FAIL_NONE)
            return failure;
        if (!is_get)
            failure = apply(transaction);
    }
    answer(transaction, is_get, failure);
    return FAIL_NONE;
}
