/* SPDX-License-Identifier: MIT */
/* The string-to-sign of tables and of queues, and its signature. */
#include "worker/store/azure/sign.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "worker/base/arena.h"
#include "worker/base/text.h"

#define STRING_MAX (1024 * 1024)

/* A name and its value, as they appear in the string-to-sign. */
struct pair {
    struct slice name, value;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = slice_compare(x->name, y->name);

    return order != 0 ? order : slice_compare(x->value, y->value);
}

static struct slice lower(struct arena *arena, struct slice text)
{
    char *copy = arena_alloc(arena, text.len + 1);

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        copy[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    return (struct slice){copy, text.len};
}

static struct slice decode(struct arena *arena, struct slice text)
{
    struct slice decoded = text;
    struct buf buf;

    buf_init(&buf, text.len + 1);
    if (text_percent_decode(&buf, text))
        decoded = arena_copy(arena, buf_slice(&buf));
    buf_done(&buf);
    return decoded;
}

/* Removes the next part from *rest, up to separator. */
static struct slice next_part(struct slice *rest, char separator)
{
    const char *end = memchr(rest->at, separator, rest->len);
    struct slice part = *rest;

    if (end == NULL) {
        rest->len = 0;
        return part;
    }
    part.len = (size_t)(end - rest->at);
    rest->at += part.len + 1;
    rest->len -= part.len + 1;
    return part;
}

static size_t count_parts(struct slice query)
{
    size_t count = 1;

    for (size_t i = 0; i < query.len; i++)
        count += query.at[i] == '&';
    return count;
}

/* Returns the query's parameters, decoded, sorted by lower-case name, then
 * value. */
static struct pair *read_query(
    struct arena *arena, struct slice query, size_t *ret_count)
{
    struct pair *pairs =
        arena_alloc(arena, count_parts(query) * sizeof(*pairs));
    size_t count = 0;

    while (query.len > 0) {
        struct slice value = next_part(&query, '&');
        struct slice name;

        if (value.len == 0)
            continue;
        name = next_part(&value, '=');
        pairs[count++] = (struct pair){
            lower(arena, decode(arena, name)), decode(arena, value)};
    }
    qsort(pairs, count, sizeof(*pairs), compare_pairs);
    *ret_count = count;
    return pairs;
}

static void add_path(const struct sign_request *request, struct buf *to)
{
    buf_add_format(to, "/%s", request->account);
    buf_add_slice(to, request->path);
}

/* Adds the resource of a table request. Of its parameters only comp is
 * signed. */
static void add_table_resource(
    const struct sign_request *request, struct buf *to)
{
    struct arena arena;
    size_t count;
    const struct pair *pairs;

    arena_init(&arena);
    add_path(request, to);
    pairs = read_query(&arena, request->query, &count);
    for (size_t i = 0; i < count; i++) {
        if (!slice_is(pairs[i].name, "comp"))
            continue;
        buf_add_text(to, "?comp=");
        buf_add_slice(to, pairs[i].value);
        break;
    }
    arena_done(&arena);
}

/* Adds the resource of a queue request: \nname:value for each parameter. The
 * values of parameters with one name are joined. */
static void add_queue_resource(
    const struct sign_request *request, struct buf *to)
{
    struct arena arena;
    size_t count;
    const struct pair *pairs;

    arena_init(&arena);
    add_path(request, to);
    pairs = read_query(&arena, request->query, &count);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && slice_equal(pairs[i - 1].name, pairs[i].name)) {
            buf_add_char(to, ',');
        } else {
            buf_add_char(to, '\n');
            buf_add_slice(to, pairs[i].name);
            buf_add_char(to, ':');
        }
        buf_add_slice(to, pairs[i].value);
    }
    arena_done(&arena);
}

/* Adds a header's value, trimmed, with each run of blanks reduced to one blank.
 */
static void add_collapsed(struct buf *to, struct slice value)
{
    bool began = false, blank = false;

    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] == ' ' || value.at[i] == '\t') {
            blank = began;
            continue;
        }
        if (blank)
            buf_add_char(to, ' ');
        buf_add_char(to, value.at[i]);
        began = true;
        blank = false;
    }
}

/* Adds every x-ms- header, sorted by lower-case name, each as name:value\n. */
static void add_headers(const struct sign_request *request, struct buf *to)
{
    struct arena arena;
    struct pair *pairs;
    size_t count = 0;

    arena_init(&arena);
    pairs = arena_alloc(&arena, (request->header_count + 1) * sizeof(*pairs));
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];

        if (strncasecmp(header->name, "x-ms-", 5) == 0)
            pairs[count++] = (struct pair){
                lower(&arena, slice_of(header->name)), slice_of(header->value)};
    }
    qsort(pairs, count, sizeof(*pairs), compare_pairs);
    for (size_t i = 0; i < count; i++) {
        buf_add_slice(to, pairs[i].name);
        buf_add_char(to, ':');
        add_collapsed(to, pairs[i].value);
        buf_add_char(to, '\n');
    }
    arena_done(&arena);
}

static void add_table_string(const struct sign_request *request, struct buf *to)
{
    buf_add_format(to, "%s\n\n%s\n%s\n", request->method, request->content_type,
        request->date);
    add_table_resource(request, to);
}

static void add_table_lite_string(
    const struct sign_request *request, struct buf *to)
{
    buf_add_format(to, "%s\n", request->date);
    add_table_resource(request, to);
}

/*
 * Adds twelve lines: method, Content-Encoding, Content-Language, Content-Length
 * (empty when 0), Content-MD5, Content-Type, Date (empty: x-ms-date is sent),
 * If-Modified-Since, If-Match, If-None-Match, If-Unmodified-Since, Range.
 */
static void add_queue_string(const struct sign_request *request, struct buf *to)
{
    buf_add_format(to, "%s\n\n\n", request->method);
    if (request->content_length > 0)
        buf_add_format(to, "%zu", request->content_length);
    buf_add_format(to, "\n\n%s\n\n\n\n\n\n\n", request->content_type);
    add_headers(request, to);
    add_queue_resource(request, to);
}

void sign_string(
    enum sign_scheme scheme, const struct sign_request *request, struct buf *to)
{
    static void (*const add[])(const struct sign_request *, struct buf *) = {
        [SIGN_TABLE] = add_table_string,
        [SIGN_TABLE_LITE] = add_table_lite_string,
        [SIGN_QUEUE] = add_queue_string,
    };

    add[scheme](request, to);
}

void sign_authorization(enum sign_scheme scheme,
    const struct sign_request *request, const struct crypto_hmac_key *key,
    struct buf *to)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct buf string;

    buf_init(&string, STRING_MAX);
    sign_string(scheme, request, &string);
    crypto_hmac(key, buf_slice(&string), digest);
    buf_add_format(to,
        "SharedKey%s %s:", scheme == SIGN_TABLE_LITE ? "Lite" : "",
        request->account);
    crypto_base64(to, (struct slice){(const char *)digest, sizeof(digest)});
    buf_done(&string);
}
