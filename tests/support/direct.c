/* SPDX-License-Identifier: MIT */
/* Fills and reads a store without a worker: see direct.h. */
#include "tests/support/direct.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/base/mem.h"
#include "worker/store/embedded/embedded.h"

static void must(enum tw_err outcome, const struct err *err, const char *what)
{
    if (outcome == TW_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, err->text);
    exit(2);
}

struct store *direct_open(const char *name, const char *path)
{
    struct store *store = NULL;
    struct err err;

    must(embedded_open(name, path, &store, &err), &err, path);
    return store;
}

void direct_insert(
    struct store *store, const char *table, const struct entity *entity)
{
    const struct operation operation = {OPERATION_INSERT, *entity};
    const struct batch batch = {table, &operation, 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    struct exchange exchange = {.deadline = NULL};

    must(store_create_table(store, &exchange, table), &exchange.err, table);
    must(store_batch(store, &exchange, &batch, result), &exchange.err, table);
    mem_free(result);
}

void direct_put(struct store *store, const char *queue, const char *text)
{
    struct exchange exchange = {.deadline = NULL};
    struct messages put;

    messages_init(&put);
    must(store_queue_create(store, &exchange, queue), &exchange.err, queue);
    must(store_queue_put(store, &exchange, queue, slice_of(text), 0, &put),
        &exchange.err, queue);
    messages_done(&put);
}

int64_t direct_messages(struct store *store, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};
    int64_t count = 0;

    return store_queue_count(store, &exchange, queue, &count) == TW_OK ? count
                                                                       : -1;
}

enum tw_err direct_get(struct store *store, const char *table,
    struct slice partition_key, struct slice row_key, struct page *to)
{
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(
        store, &exchange, table, partition_key, row_key, to ? to : &page);
    page_done(&page);
    return outcome;
}

/* Calls seen() for each entity of a table until seen() returns false. */
static bool each_entity(
    struct store *store, const char *table, direct_seen *seen, void *ctx)
{
    struct scan_request request = {.table = table};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    bool good = true;

    page_init(&page);
    do {
        must(store_scan(store, &exchange, &request, &page), &exchange.err,
            table);
        for (size_t i = 0; good && i < page.count; i++)
            good = seen(ctx, table, &page.entities[i]);
        request.from = page.next;
    } while (good && page.next.more);
    page_done(&page);
    return good;
}

bool direct_each_table(struct store *store, direct_seen *seen, void *ctx)
{
    struct exchange exchange = {.deadline = NULL};
    struct page tables;
    bool good = true;

    page_init(&tables);
    must(store_list_tables(store, &exchange, (struct continuation){0}, &tables),
        &exchange.err, "tables");
    for (size_t i = 0; good && i < tables.count; i++) {
        struct slice name = tables.entities[i].partition_key;
        char *table = mem_text(name.at, name.len);

        good = each_entity(store, table, seen, ctx);
        mem_free(table);
    }
    page_done(&tables);
    return good;
}
