/* SPDX-License-Identifier: MIT */
/* Fills and reads tables of a store: see table.h. */
#include "tests/support/table.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/store/embedded/embedded.h"

struct store *table_memory(const char *const *tables)
{
    struct store *store = NULL;
    struct exchange exchange = {0};
    struct err err;

    assert_ok(embedded_open("test", ":memory:", &store, &err));
    for (; *tables; tables++)
        assert_ok(store_create_table(store, &exchange, *tables));
    return store;
}

static enum tw_err send(struct store *store, const char *table,
    const struct operation *operations, size_t count)
{
    struct batch_result result;
    struct exchange exchange = {0};
    struct batch batch = {
        .table = table, .operations = operations, .count = count};
    enum tw_err outcome;

    do
        outcome = store_batch(store, &exchange, &batch, &result);
    while (outcome == TW_BUSY);
    return outcome;
}

static void make(struct entity *entity, struct arena *arena,
    const char *partition_key, const char *row_key, const char *value,
    size_t bytes)
{
    char *text = value ? mem_text(value, strlen(value)) : mem_alloc(bytes + 1);

    if (!value)
        memset(text, 'x', bytes);
    entity_init(entity, arena, slice_of(partition_key), slice_of(row_key));
    /* The service takes no String over 64 KiB. */
    for (size_t at = 0, n = 0, len = strlen(text); at < len || n == 0; n++) {
        size_t part = len - at < 30000 ? len - at : 30000;
        char name[32] = "Value";

        if (n > 0)
            (void)snprintf(name, sizeof name, "Value%zu", n);
        entity_set_string(entity, arena, name, (struct slice){text + at, part});
        at += part;
    }
    mem_free(text);
}

void table_put(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value,
    size_t bytes)
{
    struct operation operation = {.type = OPERATION_INSERT};
    struct arena arena;

    arena_init(&arena);
    make(&operation.entity, &arena, partition_key, row_key, value, bytes);
    assert_ok(send(store, table, &operation, 1));
    arena_done(&arena);
}

static void fill_batch(struct store *store, const char *table,
    const char *partition_key, size_t first, size_t count)
{
    struct operation operations[BATCH_MAX_OPERATIONS];
    struct arena arena;

    arena_init(&arena);
    for (size_t i = 0; i < count; i++) {
        char row_key[32];

        (void)snprintf(row_key, sizeof row_key, "%06zu", first + i);
        operations[i] = (struct operation){.type = OPERATION_INSERT};
        make(&operations[i].entity, &arena, partition_key, row_key, "first", 0);
    }
    assert_ok(send(store, table, operations, count));
    arena_done(&arena);
}

void table_fill(struct store *store, const char *table,
    const char *partition_key, size_t first, size_t count)
{
    while (count > 0) {
        size_t part =
            count < BATCH_MAX_OPERATIONS ? count : BATCH_MAX_OPERATIONS;

        fill_batch(store, table, partition_key, first, part);
        first += part;
        count -= part;
    }
}

static bool get(struct store *store, const char *table,
    const char *partition_key, const char *row_key, struct page *page)
{
    struct exchange exchange = {0};
    enum tw_err outcome;

    page_init(page);
    do
        outcome = store_get(store, &exchange, table, slice_of(partition_key),
            slice_of(row_key), page);
    while (outcome == TW_BUSY);
    assert_true(outcome == TW_OK || outcome == TW_NOT_FOUND);
    return outcome == TW_OK;
}

static bool change(struct store *store, const char *table,
    const char *partition_key, const char *row_key, enum operation_type type,
    const char *value)
{
    struct operation operation = {.type = type};
    struct page page;
    struct arena arena;
    bool there = get(store, table, partition_key, row_key, &page);

    arena_init(&arena);
    if (there) {
        make(&operation.entity, &arena, partition_key, row_key, value, 0);
        operation.entity.etag = page.entities[0].etag;
        there = send(store, table, &operation, 1) == TW_OK;
    }
    arena_done(&arena);
    page_done(&page);
    return there;
}

bool table_write(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value)
{
    return change(
        store, table, partition_key, row_key, OPERATION_REPLACE, value);
}

bool table_delete(struct store *store, const char *table,
    const char *partition_key, const char *row_key)
{
    return change(store, table, partition_key, row_key, OPERATION_DELETE, "");
}

bool table_has(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value)
{
    struct page page;
    struct arena arena;
    struct slice text;
    bool there = get(store, table, partition_key, row_key, &page);

    arena_init(&arena);
    if (there && value) {
        const struct property *property =
            entity_find(&page.entities[0], slice_of("Value"));

        there = property && property_text(property, &arena, &text) &&
                slice_is(text, value);
    }
    arena_done(&arena);
    page_done(&page);
    return there;
}

size_t table_count(struct store *store, const char *table)
{
    struct scan_request request = {.table = table};
    struct page page;
    size_t count = 0;

    page_init(&page);
    do {
        struct exchange exchange = {0};

        request.from = page.next;
        assert_ok(store_scan(store, &exchange, &request, &page));
        count += page.count;
    } while (page.next.more);
    page_done(&page);
    return count;
}
