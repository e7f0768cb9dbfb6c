/* SPDX-License-Identifier: MIT */
/* The log of requests: lines of JSON, each made when its entry is added. */
#include "tests/azsim/journal.h"

#include <inttypes.h>
#include <string.h>

#include "tests/azsim/exchange.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define LINE_MAX_BYTES 8192
#define PATH_MAX_BYTES 300

struct journal {
    struct platform_mutex lock; /* guards all members below */
    char **lines;
    size_t count, room;
    int64_t first; /* number of lines[0] */
};

struct journal *journal_new(void)
{
    struct journal *journal = mem_alloc(sizeof(*journal));

    platform_mutex_init(&journal->lock);
    return journal;
}

void journal_clear(struct journal *journal)
{
    platform_lock(&journal->lock);
    for (size_t i = 0; i < journal->count; i++)
        mem_free(journal->lines[i]);
    journal->first += (int64_t)journal->count;
    journal->count = 0;
    platform_unlock(&journal->lock);
}

void journal_free(struct journal *journal)
{
    journal_clear(journal);
    mem_free(journal->lines);
    platform_mutex_done(&journal->lock);
    mem_free(journal);
}

/* Returns the text after `"Owner":"` in the body, up to the next quote. */
static struct slice find_owner(const struct http_exchange *exchange)
{
    static const char name[] = "\"Owner\":\"";
    struct slice body = buf_slice(&exchange->body);
    const char *at =
        body.len > 0 ? memmem(body.at, body.len, name, sizeof(name) - 1) : NULL;
    const char *end;

    if (at == NULL)
        return (struct slice){"", 0};
    at += sizeof(name) - 1;
    end = memchr(at, '"', (size_t)(body.at + body.len - at));
    return (struct slice){at, end ? (size_t)(end - at) : 0};
}

static void add_text(struct buf *to, const char *name, struct slice text)
{
    buf_add_format(to, ",\"%s\":", name);
    if (text.len > PATH_MAX_BYTES)
        text.len = PATH_MAX_BYTES;
    json_add_string(to, text);
}

static void add_line(const struct http_exchange *exchange, struct buf *to)
{
    buf_add_format(to, "\"worker\":%u", exchange->worker);
    add_text(to, "service",
        slice_of(exchange->service == SERVICE_QUEUE ? "queue" : "table"));
    add_text(to, "method", slice_of(exchange->method));
    add_text(to, "account", exchange->account);
    add_text(to, "path", exchange->rest);
    add_text(to, "target", exchange->target);
    buf_add_format(to,
        ",\"operations\":%u,\"deletes\":%u,\"arrived_us\":%" PRId64
        ",\"effected_us\":%" PRId64 ",\"status\":%d,\"changed\":%s",
        exchange->operations, exchange->deletes, exchange->arrived_us,
        exchange->effected_us, exchange->status,
        exchange->changed ? "true" : "false");
    add_text(to, "code",
        slice_of(exchange->failure != FAIL_NONE
                     ? failure_text(exchange->failure)->code
                     : ""));
    add_text(
        to, "request_id", exchange_header(exchange, "x-ms-client-request-id"));
    add_text(to, "owner", find_owner(exchange));
}

void journal_add(struct journal *journal, const struct http_exchange *exchange)
{
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    add_line(exchange, &line);
    platform_lock(&journal->lock);
    if (journal->count == journal->room) {
        journal->room = journal->room > 0 ? journal->room * 2 : 1024;
        journal->lines =
            mem_resize(journal->lines, journal->room * sizeof(*journal->lines));
    }
    journal->lines[journal->count++] = buf_take(&line);
    platform_unlock(&journal->lock);
}

void journal_write(struct journal *journal, int64_t since, struct buf *to)
{
    platform_lock(&journal->lock);
    if (since < journal->first)
        since = journal->first;
    for (int64_t n = since; n < journal->first + (int64_t)journal->count; n++)
        buf_add_format(to, "{\"n\":%" PRId64 ",%s}\n", n,
            journal->lines[n - journal->first]);
    platform_unlock(&journal->lock);
}
