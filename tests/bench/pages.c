/* SPDX-License-Identifier: MIT */
/*
 * How fast pages are parsed, without a network:
 *
 *   pages SHAPE [SECONDS]
 *
 * makes the body of one page of SHAPE. Then, for SECONDS (default: 1) of CPU
 * time, parses it as the azure store does, which includes the copy of the body
 * into the page. Prints "SHAPE: BYTES bytes, MB/s, entities/s". Exits with 1 if
 * the page cannot be parsed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/base/buf.h"
#include "worker/store/azure/odata.h"

#define BODY_MAX_BYTES (96 * 1024 * 1024)
#define TEXT_BYTES (60 * 1024)

/* CPU time of this process alone: others may run beside it. */
static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void add_keys(struct buf *to, size_t i)
{
    buf_add_format(to,
        "{\"odata.etag\":\"W/\\\"datetime'2024-03-07T11%%3A%02zu%%3A"
        "12.%07zuZ'\\\"\",\"PartitionKey\":\"Football_%04zu\","
        "\"RowKey\":\"3155378975999%06zu\"",
        i % 60, i * 37, i % 7, i);
}

/* Two of the six properties have a type annotation, as in most tables. */
static void add_small(struct buf *to, size_t i)
{
    add_keys(to, i);
    buf_add_format(to,
        ",\"Timestamp\":\"2024-03-07T11:%02zu:12.1234567Z\","
        "\"Title\":\"An entity of a small table, number %zu\","
        "\"Author\":\"author%03zu@example.org\",\"Rating\":%zu,"
        "\"Published\":true,\"CreatedOn@odata.type\":\"Edm.DateTime\","
        "\"CreatedOn\":\"2023-11-05T08:%02zu:59.25Z\","
        "\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"%zu\"}",
        i % 60, i, i % 1000, i % 6, i % 60, i * 7919);
}

static void add_keys_alone(struct buf *to, size_t i)
{
    add_keys(to, i);
    buf_add_char(to, '}');
}

static void add_text(struct buf *to, size_t i, const char *piece)
{
    size_t end;

    add_keys(to, i);
    buf_add_text(to, ",\"Body\":\"");
    end = to->len + TEXT_BYTES;
    while (to->len < end)
        buf_add_text(to, piece);
    buf_add_text(to, "\"}");
}

static void add_plain_text(struct buf *to, size_t i)
{
    add_text(to, i, "The quick brown fox jumps over the lazy dog. ");
}

static void add_escaped_text(struct buf *to, size_t i)
{
    add_text(
        to, i, "<p class=\\\"lead\\\">A line of HTML &amp; more</p>\\r\\n");
}

static void add_other_script(struct buf *to, size_t i)
{
    add_text(to, i,
        "\xd0\xa1\xd1\x8a\xd0\xb5\xd1\x88\xd1\x8c \xd0\xb5\xd1\x89\xd1\x91 "
        "\xd1\x8d\xd1\x82\xd0\xb8\xd1\x85, ");
}

static void add_wide(struct buf *to, size_t i)
{
    add_keys(to, i);
    for (size_t n = 0; n < 200; n++)
        buf_add_format(to, ",\"Property%zu\":%zu", (n * 77) % 200, i + n);
    buf_add_char(to, '}');
}

static const struct shape {
    const char *name;
    size_t count;
    void (*add)(struct buf *to, size_t i);
} shapes[] = {
    {"small", 1000, add_small},
    {"keys", 1000, add_keys_alone},
    {"text", 60, add_plain_text},
    {"escapes", 60, add_escaped_text},
    {"script", 60, add_other_script},
    {"wide", 1000, add_wide},
};

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    fprintf(
        stderr, "usage: pages small|keys|text|escapes|script|wide [SECONDS]\n");
    exit(2);
}

static void read_once(struct slice body, size_t count)
{
    struct err err = {{0}};
    struct page page;

    page_init(&page);
    if (odata_page(arena_copy(&page.arena, body), true, &page, &err) != TW_OK ||
        page.count != count) {
        fprintf(stderr, "pages: %s\n", err.text);
        exit(1);
    }
    page_done(&page);
}

int main(int argc, char **argv)
{
    const struct shape *shape = find_shape(argc > 1 ? argv[1] : "");
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 1, began, took;
    size_t rounds = 0;
    struct buf body;

    buf_init(&body, BODY_MAX_BYTES);
    buf_add_text(&body, "{\"odata.metadata\":\"https://x/$metadata#T\","
                        "\"value\":[");
    for (size_t i = 0; i < shape->count; i++) {
        buf_add_text(&body, i == 0 ? "" : ",");
        shape->add(&body, i);
    }
    buf_add_text(&body, "]}");
    began = cpu_seconds();
    do {
        read_once(buf_slice(&body), shape->count);
        rounds++;
        took = cpu_seconds() - began;
    } while (took < seconds);
    printf("%s: %zu bytes, %.1f MB/s, %.0f entities/s\n", shape->name, body.len,
        (double)(body.len * rounds) / took / 1e6,
        (double)(shape->count * rounds) / took);
    buf_done(&body);
    return 0;
}
