/* SPDX-License-Identifier: MIT */
/* Requests and answers: reads fields and parameters, and writes refusals. */
#include "tests/azsim/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* ---- reading the URL ---- */

static struct slice cut(struct slice *rest, char separator)
{
    const char *end =
        rest->len > 0 ? memchr(rest->at, separator, rest->len) : NULL;
    struct slice part = *rest;

    if (end == NULL) {
        *rest = (struct slice){part.at + part.len, 0};
        return part;
    }
    part.len = (size_t)(end - part.at);
    rest->at += part.len + 1;
    rest->len -= part.len + 1;
    return part;
}

/* Decodes %XX. form: a + is a blank, as in forms. */
static struct slice decode(struct arena *arena, struct slice text, bool form)
{
    struct slice decoded = text;
    char *copy = arena_alloc(arena, text.len + 1);
    struct buf buf;

    for (size_t i = 0; i < text.len; i++)
        copy[i] = form && text.at[i] == '+' ? ' ' : text.at[i];
    buf_init(&buf, text.len + 1);
    if (text_percent_decode(&buf, (struct slice){copy, text.len}))
        decoded = arena_copy(arena, buf_slice(&buf));
    buf_done(&buf);
    return decoded;
}

static void add_pair(struct pairs *pairs, struct slice name, struct slice value)
{
    if (pairs->count < EXCHANGE_MAX_PAIRS)
        pairs->list[pairs->count++] = (struct pair){name, value};
}

static void read_query(struct http_exchange *exchange)
{
    struct slice query = exchange->query;

    while (query.len > 0) {
        struct slice value = cut(&query, '&');
        struct slice name = cut(&value, '=');

        add_pair(&exchange->arguments, decode(&exchange->arena, name, true),
            decode(&exchange->arena, value, true));
    }
}

static void read_path(struct http_exchange *exchange)
{
    struct slice rest = exchange->path;

    (void)cut(&rest, '/');
    exchange->account = decode(&exchange->arena, cut(&rest, '/'), false);
    if (rest.len > 0)
        rest = (struct slice){rest.at - 1, rest.len + 1};
    exchange->rest = rest;
}

static void add_common_fields(struct http_exchange *exchange)
{
    char id[37];

    text_random_uuid(id);
    exchange_field(exchange, "x-ms-request-id", "%s", id);
    exchange_field(exchange, "Server", "Windows-Azure-%s/1.0 azsim",
        exchange->service == SERVICE_QUEUE ? "Queue" : "Table");
}

void exchange_init(
    struct http_exchange *exchange, enum service service, struct slice uri)
{
    struct slice rest;

    *exchange = (struct http_exchange){.service = service, .status = 500};
    arena_init(&exchange->arena);
    buf_init(&exchange->body, EXCHANGE_MAX_BODY_BYTES);
    buf_init(&exchange->answer, EXCHANGE_MAX_ANSWER_BYTES);
    rest = arena_copy(&exchange->arena, uri);
    exchange->path = cut(&rest, '?');
    exchange->query = rest;
    read_query(exchange);
    read_path(exchange);
    add_common_fields(exchange);
}

void exchange_done(struct http_exchange *exchange)
{
    buf_done(&exchange->body);
    buf_done(&exchange->answer);
    arena_done(&exchange->arena);
}

/* ---- headers and parameters ---- */

static struct slice find(
    const struct pairs *pairs, const char *name, bool any_case)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < pairs->count; i++) {
        struct slice had = pairs->list[i].name;

        if (had.len == len && (any_case ? strncasecmp(had.at, name, len)
                                        : memcmp(had.at, name, len)) == 0)
            return pairs->list[i].value;
    }
    return (struct slice){NULL, 0};
}

struct slice exchange_header(
    const struct http_exchange *exchange, const char *name)
{
    return find(&exchange->headers, name, true);
}

struct slice exchange_argument(
    const struct http_exchange *exchange, const char *name)
{
    return find(&exchange->arguments, name, false);
}

bool exchange_integer(const struct http_exchange *exchange, const char *name,
    int64_t otherwise, int64_t min, int64_t max, int64_t *ret)
{
    struct slice text = exchange_argument(exchange, name);

    if (text.at != NULL)
        return text_int64(text, min, max, ret);
    *ret = otherwise;
    return true;
}

/* ---- writing the answer ---- */

void exchange_field(
    struct http_exchange *exchange, const char *name, const char *format, ...)
{
    char text[8192];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_pair(&exchange->fields, slice_of(name),
        arena_copy(&exchange->arena, slice_of(text)));
}

/* Returns the x-ms-request-id of the request. */
static struct slice id_of(const struct http_exchange *exchange)
{
    return find(&exchange->fields, "x-ms-request-id", false);
}

static struct slice long_message(const struct http_exchange *exchange,
    enum failure failure, struct arena *arena)
{
    char time[TEXT_TIME_MAX];

    return arena_format(arena, "%s\nRequestId:%.*s\nTime:%s",
        failure_text(failure)->message, SLICE_ARG(id_of(exchange)),
        text_from_ticks(platform_wall_ticks(), time));
}

void exchange_add_error(const struct http_exchange *exchange,
    enum failure failure, int index, struct buf *to)
{
    struct arena arena;
    struct slice message;

    arena_init(&arena);
    message = long_message(exchange, failure, &arena);
    if (index >= 0)
        message = arena_format(&arena, "%d:%.*s", index, SLICE_ARG(message));
    buf_add_format(to,
        "{\"odata.error\":{\"code\":\"%s\",\"message\":{"
        "\"lang\":\"en-US\",\"value\":",
        failure_text(failure)->code);
    json_add_string(to, message);
    buf_add_text(to, "}}}");
    arena_done(&arena);
}

/* Returns whether the answer has the header x-ms-error-code. The table service
 * sends this header only with FAIL_AUTHENTICATION. */
static bool has_code_field(const struct http_exchange *exchange)
{
    return exchange->service == SERVICE_QUEUE ||
           exchange->failure == FAIL_AUTHENTICATION;
}

/* Adds the error as XML: for queues, and for requests to tables that do not
 * accept JSON. */
static void add_xml_error(struct http_exchange *exchange, const char *element)
{
    bool small = element[0] == 'e';
    struct slice message =
        long_message(exchange, exchange->failure, &exchange->arena);

    buf_add_format(&exchange->answer,
        "%s<?xml version=\"1.0\" encoding=\"utf-8\"?><%s>"
        "<%s>%s</%s><%s>%.*s</%s></%s>",
        exchange->service == SERVICE_QUEUE ? "\xef\xbb\xbf" : "", element,
        small ? "code" : "Code", failure_text(exchange->failure)->code,
        small ? "code" : "Code", small ? "message" : "Message",
        SLICE_ARG(message), small ? "message" : "Message", element);
    exchange_field(exchange, "Content-Type", "application/xml");
}

static bool takes_json(const struct http_exchange *exchange)
{
    struct slice accept = exchange_header(exchange, "Accept");

    return memmem(accept.at ? accept.at : "", accept.len, "json", 4) != NULL;
}

void exchange_fail(struct http_exchange *exchange, enum failure failure)
{
    exchange->failure = failure;
    exchange->status = failure_text(failure)->status;
    buf_clear(&exchange->answer);
    if (has_code_field(exchange))
        exchange_field(
            exchange, "x-ms-error-code", "%s", failure_text(failure)->code);
    if (exchange->service == SERVICE_QUEUE) {
        add_xml_error(exchange, "Error");
    } else if (!takes_json(exchange)) {
        add_xml_error(exchange, "error");
    } else {
        exchange_add_error(exchange, failure, -1, &exchange->answer);
        exchange_field(exchange, "Content-Type",
            "application/json;odata=minimalmetadata;streaming=true;"
            "charset=utf-8");
    }
}
