/* SPDX-License-Identifier: MIT */
/* A store that is open for reading only can be read, and no call changes
 * anything in it. */
#include <string.h>

#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/store/store.h"

#define TABLE "Blogs"
#define QUEUE "work"

struct scene {
    struct store *store;
    struct exchange exchange;
    struct page page;
    struct messages messages;
};

static int set_up(void **state)
{
    static const char *const tables[] = {TABLE, NULL};
    static struct scene s;

    memset(&s, 0, sizeof(s));
    s.store = table_memory(tables);
    page_init(&s.page);
    messages_init(&s.messages);
    table_put(s.store, TABLE, "p", "a", "one", 0);
    table_put(s.store, TABLE, "p", "b", "two", 0);
    assert_ok(store_queue_create(s.store, &s.exchange, QUEUE));
    assert_ok(store_queue_put(
        s.store, &s.exchange, QUEUE, slice_of("hello"), 0, &s.messages));
    s.store->read_only = true;
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    page_done(&s->page);
    messages_done(&s->messages);
    store_close(s->store);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down, struct scene *s)

/* Everything that set_up() created is there, its message is visible, and
 * nothing else is there. */
static void assert_untouched(struct scene *s)
{
    int64_t count = 0;

    assert_int_equal(table_count(s->store, TABLE), 2);
    assert_true(table_has(s->store, TABLE, "p", "a", "one"));
    assert_true(table_has(s->store, TABLE, "p", "b", "two"));
    assert_ok(store_list_tables(s->store, &s->exchange,
        (struct continuation){.more = false}, &s->page));
    assert_int_equal(s->page.count, 1);
    assert_ok(store_queue_count(s->store, &s->exchange, QUEUE, &count));
    assert_int_equal(count, 1);
    assert_ok(
        store_queue_peek(s->store, &s->exchange, QUEUE, 32, &s->messages));
    assert_int_equal(s->messages.count, 1);
    assert_true(slice_is(s->messages.list[0].text, "hello"));
    assert_int_equal(s->messages.list[0].dequeue_count, 0);
    assert_int_equal(store_queue_count(s->store, &s->exchange, "other", &count),
        TW_NOT_FOUND);
}

/* The call was refused before anything was sent, and the error names the store.
 */
static void assert_refused(struct scene *s, enum tw_err code, const char *what)
{
    assert_int_equal(code, TW_INVALID);
    assert_non_null(strstr(s->exchange.err.text, "store 'test'"));
    assert_non_null(strstr(s->exchange.err.text, "for reading only"));
    assert_non_null(strstr(s->exchange.err.text, what));
    assert_int_equal(s->exchange.sent_ms, 0);
    assert_untouched(s);
}

/* ---- what goes through ---- */

FIXTURE_TEST(tables_are_listed)
{
    assert_ok(store_list_tables(s->store, &s->exchange,
        (struct continuation){.more = false}, &s->page));
    assert_int_equal(s->page.count, 1);
    assert_true(slice_is(s->page.entities[0].partition_key, TABLE));
}

FIXTURE_TEST(pages_follow_one_another)
{
    struct scan_request request = {.table = TABLE, .top = 1};

    assert_ok(store_scan(s->store, &s->exchange, &request, &s->page));
    assert_int_equal(s->page.count, 1);
    assert_true(slice_is(s->page.entities[0].row_key, "a"));
    request.from = s->page.next;
    assert_true(request.from.more);
    assert_ok(store_scan(s->store, &s->exchange, &request, &s->page));
    assert_int_equal(s->page.count, 1);
    assert_true(slice_is(s->page.entities[0].row_key, "b"));
    request.table = "Nothing";
    request.from.more = false;
    assert_int_equal(
        store_scan(s->store, &s->exchange, &request, &s->page), TW_NOT_FOUND);
}

FIXTURE_TEST(an_entity_is_got)
{
    assert_ok(store_get(
        s->store, &s->exchange, TABLE, slice_of("p"), slice_of("b"), &s->page));
    assert_non_null(entity_find(&s->page.entities[0], slice_of("Value")));
    assert_true(s->page.entities[0].etag.len > 0);
    assert_int_equal(store_get(s->store, &s->exchange, TABLE, slice_of("p"),
                         slice_of("c"), &s->page),
        TW_NOT_FOUND);
}

FIXTURE_TEST(messages_are_peeked_and_counted)
{
    int64_t count = 0;

    assert_ok(
        store_queue_peek(s->store, &s->exchange, QUEUE, 32, &s->messages));
    assert_int_equal(s->messages.count, 1);
    assert_true(slice_is(s->messages.list[0].text, "hello"));
    assert_ok(store_queue_count(s->store, &s->exchange, QUEUE, &count));
    assert_int_equal(count, 1);
    assert_untouched(s);
}

FIXTURE_TEST(a_closed_deadline_holds)
{
    struct deadline deadline;

    deadline_init(&deadline, INT64_MAX, 1);
    deadline_close(&deadline);
    s->exchange.deadline = &deadline;
    assert_int_equal(store_get(s->store, &s->exchange, TABLE, slice_of("p"),
                         slice_of("a"), &s->page),
        TW_STOPPED);
    s->exchange.deadline = NULL;
}

/* ---- what is refused ---- */

FIXTURE_TEST(no_table_is_created)
{
    assert_refused(s, store_create_table(s->store, &s->exchange, "Others"),
        "a table cannot be created");
}

/* Tries one operation on an existing entity. */
static void try_operation(
    struct scene *s, enum operation_type type, const char *row_key)
{
    struct operation operation = {.type = type};
    struct batch batch = {TABLE, &operation, 1};
    struct batch_result result = {.failed = 0};
    struct arena arena;
    struct slice key = slice_of(row_key);

    arena_init(&arena);
    entity_init(&operation.entity, &arena, slice_of("p"), key);
    if (type != OPERATION_INSERT) {
        assert_ok(store_get(
            s->store, &s->exchange, TABLE, slice_of("p"), key, &s->page));
        operation.entity.etag = arena_copy(&arena, s->page.entities[0].etag);
    }
    assert_refused(s, store_batch(s->store, &s->exchange, &batch, &result),
        "an entity cannot be written");
    assert_int_equal(result.failed, 1);
    arena_done(&arena);
}

FIXTURE_TEST(no_entity_is_written)
{
    try_operation(s, OPERATION_INSERT, "c");
    try_operation(s, OPERATION_REPLACE, "a");
    try_operation(s, OPERATION_MERGE, "a");
    try_operation(s, OPERATION_DELETE, "b");
}

FIXTURE_TEST(no_queue_is_created)
{
    assert_refused(s, store_queue_create(s->store, &s->exchange, "other"),
        "a queue cannot be created");
}

FIXTURE_TEST(no_message_is_put_or_taken)
{
    assert_refused(s,
        store_queue_put(
            s->store, &s->exchange, QUEUE, slice_of("more"), 0, &s->messages),
        "a message cannot be put");
    assert_refused(s,
        store_queue_get(s->store, &s->exchange, QUEUE, 1, 30, &s->messages),
        "a message cannot be taken");
}

/* A message that was received before stays unchanged, and its pop receipt stays
 * valid. */
FIXTURE_TEST(no_message_is_renewed_or_deleted)
{
    char receipt[QUEUE_RECEIPT_MAX] = {0}, before[QUEUE_RECEIPT_MAX];
    struct messages taken;
    struct slice id;

    messages_init(&taken);
    s->store->read_only = false;
    assert_ok(store_queue_get(s->store, &s->exchange, QUEUE, 1, 30, &taken));
    s->store->read_only = true;
    id = taken.list[0].id;
    memcpy(
        receipt, taken.list[0].pop_receipt.at, taken.list[0].pop_receipt.len);
    receipt[taken.list[0].pop_receipt.len] = '\0';
    memcpy(before, receipt, sizeof(before));
    assert_int_equal(
        store_queue_renew(s->store, &s->exchange, QUEUE, id, receipt, 0),
        TW_INVALID);
    assert_non_null(strstr(s->exchange.err.text, "a message cannot be hidden"));
    assert_string_equal(receipt, before);
    assert_int_equal(store_queue_delete(
                         s->store, &s->exchange, QUEUE, id, slice_of(receipt)),
        TW_INVALID);
    assert_non_null(
        strstr(s->exchange.err.text, "a message cannot be deleted"));
    assert_ok(store_queue_peek(s->store, &s->exchange, QUEUE, 1, &s->messages));
    assert_int_equal(s->messages.count, 0);
    s->store->read_only = false;
    assert_ok(store_queue_delete(
        s->store, &s->exchange, QUEUE, id, slice_of(receipt)));
    messages_done(&taken);
}
