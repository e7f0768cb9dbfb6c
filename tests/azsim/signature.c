/* SPDX-License-Identifier: MIT */
/* Builds the strings-to-sign of both services from a request as it was sent. */
#include "tests/azsim/signature.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/azsim/exchange.h"
#include "worker/base/crypto.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define STRING_MAX_BYTES (2 * 1024 * 1024)

static void add_line(
    const struct http_exchange *exchange, const char *header, struct buf *to)
{
    buf_add_slice(to, exchange_header(exchange, header));
    buf_add_char(to, '\n');
}

static void add_path(const struct http_exchange *exchange, struct buf *to)
{
    buf_add_char(to, '/');
    buf_add_slice(to, exchange->account);
    buf_add_slice(to, exchange->path);
}

static void add_path_and_comp(
    const struct http_exchange *exchange, struct buf *to)
{
    struct slice comp = exchange_argument(exchange, "comp");

    add_path(exchange, to);
    if (comp.at != NULL)
        buf_add_format(to, "?comp=%.*s", SLICE_ARG(comp));
}

static struct slice lower(struct arena *arena, struct slice text)
{
    struct slice copy = arena_copy(arena, text);
    char *at = (char *)(uintptr_t)copy.at;

    for (size_t i = 0; i < copy.len; i++)
        if (at[i] >= 'A' && at[i] <= 'Z')
            at[i] = (char)(at[i] + 'a' - 'A');
    return copy;
}

static int by_name_and_value(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = slice_compare(x->name, y->name);

    return order != 0 ? order : slice_compare(x->value, y->value);
}

/* Returns the pairs whose lower-case name begins with prefix, in order. */
static struct pairs sorted(
    const struct pairs *pairs, const char *prefix, struct arena *arena)
{
    struct pairs chosen = {.count = 0};

    for (size_t i = 0; i < pairs->count; i++) {
        struct pair pair = {
            lower(arena, pairs->list[i].name), pairs->list[i].value};

        if (slice_begins(pair.name, slice_of(prefix)))
            chosen.list[chosen.count++] = pair;
    }
    qsort(chosen.list, chosen.count, sizeof(chosen.list[0]), by_name_and_value);
    return chosen;
}

static void add_ms_headers(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    struct pairs headers = sorted(&exchange->headers, "x-ms-", arena);

    for (size_t i = 0; i < headers.count; i++)
        buf_add_format(to, "%.*s:%.*s\n", SLICE_ARG(headers.list[i].name),
            SLICE_ARG(headers.list[i].value));
}

static void add_path_and_arguments(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    struct pairs arguments = sorted(&exchange->arguments, "", arena);

    add_path(exchange, to);
    for (size_t i = 0; i < arguments.count; i++) {
        const struct pair *pair = &arguments.list[i];

        if (i > 0 && slice_equal(pair[-1].name, pair->name))
            buf_add_format(to, ",%.*s", SLICE_ARG(pair->value));
        else
            buf_add_format(to, "\n%.*s:%.*s", SLICE_ARG(pair->name),
                SLICE_ARG(pair->value));
    }
}

/* Returns x-ms-date or, if the request has none, Date. */
static struct slice date_of(const struct http_exchange *exchange)
{
    struct slice date = exchange_header(exchange, "x-ms-date");

    return date.at != NULL ? date : exchange_header(exchange, "Date");
}

static void add_queue_date(const struct http_exchange *exchange, struct buf *to)
{
    if (exchange_header(exchange, "x-ms-date").at == NULL)
        buf_add_slice(to, exchange_header(exchange, "Date"));
    buf_add_char(to, '\n');
}

static void table_string(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    buf_add_format(to, "%s\n", exchange->method);
    add_line(exchange, "Content-MD5", to);
    add_line(exchange, "Content-Type", to);
    buf_add_slice(to, date_of(exchange));
    buf_add_char(to, '\n');
    add_path_and_comp(exchange, to);
}

static void table_lite_string(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    buf_add_slice(to, date_of(exchange));
    buf_add_char(to, '\n');
    add_path_and_comp(exchange, to);
}

static void queue_string(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    struct slice length = exchange_header(exchange, "Content-Length");

    buf_add_format(to, "%s\n", exchange->method);
    add_line(exchange, "Content-Encoding", to);
    add_line(exchange, "Content-Language", to);
    buf_add_slice(to, slice_is(length, "0") ? (struct slice){"", 0} : length);
    buf_add_char(to, '\n');
    add_line(exchange, "Content-MD5", to);
    add_line(exchange, "Content-Type", to);
    add_queue_date(exchange, to);
    add_line(exchange, "If-Modified-Since", to);
    add_line(exchange, "If-Match", to);
    add_line(exchange, "If-None-Match", to);
    add_line(exchange, "If-Unmodified-Since", to);
    add_line(exchange, "Range", to);
    add_ms_headers(exchange, arena, to);
    add_path_and_arguments(exchange, arena, to);
}

static void queue_lite_string(
    const struct http_exchange *exchange, struct arena *arena, struct buf *to)
{
    buf_add_format(to, "%s\n", exchange->method);
    add_line(exchange, "Content-MD5", to);
    add_line(exchange, "Content-Type", to);
    add_queue_date(exchange, to);
    add_ms_headers(exchange, arena, to);
    add_path_and_comp(exchange, to);
}

static bool date_is_near(const struct http_exchange *exchange, int64_t skew_s)
{
    int64_t ticks, off;

    if (!text_parse_http_date(date_of(exchange), &ticks))
        return false;
    off = ticks - platform_wall_ticks();
    return skew_s == 0 ||
           (off < skew_s * TICKS_PER_S && off > -skew_s * TICKS_PER_S);
}

bool signature_good(const struct http_exchange *exchange,
    const struct crypto_hmac_key *key, int64_t skew_s)
{
    static void (*const strings[2][2])(
        const struct http_exchange *, struct arena *, struct buf *) = {
        [SERVICE_TABLE] = {table_string, table_lite_string},
        [SERVICE_QUEUE] = {queue_string, queue_lite_string},
    };
    struct slice given = exchange_header(exchange, "Authorization");
    bool lite = slice_begins(given, slice_of("SharedKeyLite "));
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct buf string, wanted;
    struct arena arena;
    bool good;

    arena_init(&arena);
    buf_init(&string, STRING_MAX_BYTES);
    buf_init(&wanted, 1024);
    strings[exchange->service][lite](exchange, &arena, &string);
    crypto_hmac(key, buf_slice(&string), digest);
    buf_add_format(&wanted, "SharedKey%s %.*s:", lite ? "Lite" : "",
        SLICE_ARG(exchange->account));
    crypto_base64(
        &wanted, (struct slice){(const char *)digest, sizeof(digest)});
    good = slice_equal(given, buf_slice(&wanted)) &&
           date_is_near(exchange, skew_s);
    buf_done(&wanted);
    buf_done(&string);
    arena_done(&arena);
    return good;
}
