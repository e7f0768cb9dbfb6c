/* SPDX-License-Identifier: MIT */
/* The fixture of a test of a store: see fixture.h. */
#include "tests/support/fixture.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/text.h"

void fixture_name(const char *prefix, char *to)
{
    char id[33];

    text_random_id(id);
    (void)snprintf(to, 40, "%s%.16s", prefix, id);
}

void fixture_init(struct fixture *f, struct store *store)
{
    memset(f, 0, sizeof(*f));
    f->store = store;
    page_init(&f->page);
    messages_init(&f->messages);
    arena_init(&f->arena);
    fixture_name("Test", f->table);
    fixture_name("test-", f->queue);
    check(f, TW_OK, store_create_table(store, &f->exchange, f->table));
    check(f, TW_OK, store_queue_create(store, &f->exchange, f->queue));
}

void fixture_done(struct fixture *f)
{
    arena_done(&f->arena);
    messages_done(&f->messages);
    page_done(&f->page);
}

void fixture_check(const struct fixture *f, enum tw_err expected,
    enum tw_err outcome, const char *call, const char *file, int line)
{
    if (outcome == expected)
        return;
    print_error("%s: %s, not %s: %s\n", call, err_name(outcome),
        err_name(expected), f->exchange.err.text);
    _fail(file, line);
}

void fixture_check_text(
    struct slice a, struct slice b, const char *file, int line)
{
    if (slice_equal(a, b))
        return;
    print_error("\"%.*s\"\n    is not\n\"%.*s\"\n",
        (int)(a.len < 400 ? a.len : 400), a.at,
        (int)(b.len < 400 ? b.len : 400), b.at);
    _fail(file, line);
}

struct entity fixture_entity(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties)
{
    struct slice json = arena_format(&f->arena, "{%s}", properties);
    struct entity entity;
    struct err err;

    if (entity_parse(json, false, &f->arena, &entity, NULL, &err) != TW_OK)
        fail_msg("the test's own entity: %s", err.text);
    entity.partition_key = arena_copy(&f->arena, slice_of(partition_key));
    entity.row_key = arena_copy(&f->arena, slice_of(row_key));
    return entity;
}

struct operation fixture_operation(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties)
{
    struct operation operation = {
        .type = type,
        .entity = fixture_entity(f, partition_key, row_key, properties),
    };

    operation.entity.etag = slice_of(etag);
    return operation;
}

enum tw_err fixture_send(
    struct fixture *f, const struct operation *operations, size_t count)
{
    struct batch batch = {f->table, operations, count};

    return store_batch(f->store, &f->exchange, &batch, &f->result);
}

enum tw_err fixture_change(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties)
{
    struct operation operation =
        fixture_operation(f, type, partition_key, row_key, etag, properties);

    return fixture_send(f, &operation, 1);
}

const char *fixture_insert(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties)
{
    check(f, TW_OK,
        fixture_change(
            f, OPERATION_INSERT, partition_key, row_key, NULL, properties));
    return arena_copy(&f->arena, slice_of(f->result.etags[0])).at;
}

void fixture_fill(struct fixture *f, const char *partition_key, unsigned count)
{
    struct operation operations[BATCH_MAX_OPERATIONS];

    for (unsigned done = 0; done < count;) {
        unsigned filled = 0;

        for (; filled < BATCH_MAX_OPERATIONS && done < count; done++) {
            char row_key[16], properties[32];

            (void)snprintf(row_key, sizeof(row_key), "%04u", done);
            (void)snprintf(
                properties, sizeof(properties), "\"Number\":%u", done);
            operations[filled++] = fixture_operation(
                f, OPERATION_INSERT, partition_key, row_key, NULL, properties);
        }
        check(f, TW_OK, fixture_send(f, operations, filled));
    }
}

const struct entity *fixture_get(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    check(f, TW_OK,
        store_get(f->store, &f->exchange, f->table, slice_of(partition_key),
            slice_of(row_key), &f->page));
    assert_int_equal(f->page.count, 1);
    return &f->page.entities[0];
}

enum tw_err fixture_scan(struct fixture *f, struct scan_request request)
{
    request.table = f->table;
    return store_scan(f->store, &f->exchange, &request, &f->page);
}

const char *fixture_keys(struct fixture *f, struct scan_request request)
{
    const char *keys;
    struct buf text;

    buf_init(&text, 16 * 1024 * 1024);
    request.from = (struct continuation){0};
    do {
        check(f, TW_OK, fixture_scan(f, request));
        for (size_t i = 0; i < f->page.count; i++) {
            const struct entity *entity = &f->page.entities[i];

            buf_add_format(&text, "%s%.*s/%.*s", text.len ? " " : "",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
        }
        request.from = f->page.next;
    } while (f->page.next.more);
    keys = arena_copy(&f->arena, buf_slice(&text)).at;
    buf_done(&text);
    return keys;
}

const char *fixture_all(struct fixture *f)
{
    return fixture_keys(f, (struct scan_request){0});
}

struct slice fixture_json(struct fixture *f, const struct entity *entity)
{
    struct slice json;
    struct buf text;

    buf_init(&text, 16 * 1024 * 1024);
    entity_write_properties(entity, &text);
    json = arena_copy(&f->arena, buf_slice(&text));
    buf_done(&text);
    return json;
}
