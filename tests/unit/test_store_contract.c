/* SPDX-License-Identifier: MIT */
/* The front end of both stores: what is refused before an implementation is
 * called, ranges of keys, and the state after a call. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* A store that counts the calls that reach it and keeps their arguments. */
static struct {
    unsigned calls;
    unsigned top;
    size_t max_bytes;
    char from[16], key[16];
} seen;

static enum tw_err fake_table(
    struct store *store, struct exchange *exchange, const char *table)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    seen.calls++;
    seen.top = request->top;
    seen.max_bytes = request->max_bytes;
    snprintf(seen.from, sizeof(seen.from), "%.*s",
        SLICE_ARG(request->from.partition_key));
    assert_int_equal(ret->count, 0);
    ret->next = (struct continuation){
        .partition_key = arena_format(&ret->arena, "page%u", seen.calls),
        .more = true};
    return TW_OK;
}

static enum tw_err fake_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    seen.calls++;
    memset(arena_alloc(&ret->arena, 64), '#', 64);
    snprintf(seen.key, sizeof(seen.key), "%.*s", SLICE_ARG(partition_key));
    return TW_NOT_FOUND;
}

static enum tw_err fake_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    seen.calls++;
    exchange->http_status = 202;
    return TW_CONFLICT;
}

static enum tw_err fake_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_queue_get(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    int64_t visibility_timeout_s, struct messages *ret)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_renew(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_list(struct store *store, struct exchange *exchange,
    struct continuation from, struct page *ret)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_delete(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_peek(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, struct messages *ret)
{
    seen.calls++;
    return TW_OK;
}

static enum tw_err fake_count(struct store *store, struct exchange *exchange,
    const char *queue, int64_t *ret)
{
    seen.calls++;
    *ret = 7;
    return TW_OK;
}

static const struct store_ops fake_ops = {
    .list_tables = fake_list,
    .queue_delete = fake_delete,
    .queue_peek = fake_peek,
    .queue_count = fake_count,
    .create_table = fake_table,
    .scan = fake_scan,
    .get = fake_get,
    .batch = fake_batch,
    .queue_put = fake_put,
    .queue_get = fake_queue_get,
    .queue_renew = fake_renew,
};

static struct store store;
static struct exchange exchange;
static struct arena arena;

static int set_up(void **state)
{
    memset(&seen, 0, sizeof(seen));
    store = (struct store){.ops = &fake_ops,
        .capabilities = {.has_queues = true,
            .batch_max_bytes = BATCH_MAX_BYTES},
        .name = "fake"};
    memset(&exchange, 0, sizeof(exchange));
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* ---- batches ---- */

static struct operation operations[BATCH_MAX_OPERATIONS + 1];

static struct batch good_batch(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        operations[i] = (struct operation){.type = OPERATION_MERGE};
        entity_init(&operations[i].entity, &arena, slice_of("p"),
            arena_format(&arena, "%zu", i));
        operations[i].entity.etag = slice_of("W/\"1\"");
    }
    return (struct batch){"Blogs", operations, count};
}

static void refuse_batch(
    const struct batch *batch, enum tw_err code, size_t failed)
{
    struct batch_result result = {.failed = 7777};

    assert_int_equal(store_batch(&store, &exchange, batch, &result), code);
    assert_int_equal(result.failed, failed);
    assert_int_equal(seen.calls, 0);
    assert_true(strlen(exchange.err.text) > 0);
}

FIXTURE_TEST(batch_of_a_hundred_reaches_the_store)
{
    struct batch batch = good_batch(100);
    struct batch_result result = {.failed = 7777};

    exchange.retry_after_ms = 5;
    assert_int_equal(
        store_batch(&store, &exchange, &batch, &result), TW_CONFLICT);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(result.failed, 100);
    assert_int_equal(exchange.retry_after_ms, -1);
}

FIXTURE_TEST(batch_refuses_none_and_a_hundred_and_one)
{
    struct batch batch = good_batch(101);

    refuse_batch(&batch, TW_INVALID, 101);
    batch.count = 0;
    refuse_batch(&batch, TW_INVALID, 0);
}

FIXTURE_TEST(batch_refuses_two_partition_keys)
{
    struct batch batch = good_batch(3);

    operations[2].entity.partition_key = slice_of("q");
    refuse_batch(&batch, TW_INVALID, 2);
}

FIXTURE_TEST(batch_refuses_an_entity_twice)
{
    struct batch batch = good_batch(5);

    operations[3].entity.row_key = slice_of("1");
    refuse_batch(&batch, TW_INVALID, 3);
}

FIXTURE_TEST(batch_refuses_changes_without_a_real_etag)
{
    static const enum operation_type types[] = {
        OPERATION_REPLACE, OPERATION_MERGE, OPERATION_DELETE};
    static const char *const bad[] = {"", "*", "W/\"1\"\r\nX: y", "\x7f"};

    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; TEST_EACH(j, bad); j++) {
            struct batch batch = good_batch(2);

            operations[1].type = types[i];
            operations[1].entity.etag = slice_of(bad[j]);
            refuse_batch(&batch, TW_INVALID, 1);
        }
    }
}

FIXTURE_TEST(batch_takes_inserts_without_etag)
{
    struct batch batch = good_batch(1);
    struct batch_result result;

    operations[0].type = OPERATION_INSERT;
    operations[0].entity.etag = (struct slice){0};
    assert_int_equal(
        store_batch(&store, &exchange, &batch, &result), TW_CONFLICT);
    assert_int_equal(seen.calls, 1);
}

FIXTURE_TEST(batch_refuses_forbidden_keys_and_names)
{
    struct batch batch = good_batch(2);

    operations[1].entity.row_key = slice_of("a/b");
    refuse_batch(&batch, TW_INVALID, 1);
    operations[1].type = OPERATION_DELETE;
    refuse_batch(&batch, TW_INVALID, 1);
    batch = good_batch(2);
    entity_set_int32(&operations[0].entity, &arena, "not-a-name", 1);
    refuse_batch(&batch, TW_INVALID, 0);
    batch = good_batch(1);
    batch.table = "x";
    refuse_batch(&batch, TW_INVALID, 1);
}

FIXTURE_TEST(batch_refuses_what_is_too_large)
{
    static char letters[32 * 1024 + 1];
    struct batch batch = good_batch(2);

    memset(letters, 'x', sizeof(letters));
    entity_set_string(&operations[1].entity, &arena, "a",
        (struct slice){letters, sizeof(letters)});
    refuse_batch(&batch, TW_TOO_LARGE, 1);
    operations[1].type = OPERATION_DELETE; /* deletes send no properties */
    store.capabilities.batch_max_bytes = 1000;
    batch = good_batch(2);
    for (size_t i = 0; i < 2; i++)
        entity_set_string(
            &operations[i].entity, &arena, "a", (struct slice){letters, 500});
    refuse_batch(&batch, TW_TOO_LARGE, 2);
}

/* ---- the rest of the door ---- */

FIXTURE_TEST(nothing_starts_after_the_deadline)
{
    struct batch batch = good_batch(1);
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    deadline_close(&deadline);
    exchange.deadline = &deadline;
    refuse_batch(&batch, TW_STOPPED, 1);
    deadline_init(&deadline, platform_boot_ms() + 500, 1000);
    refuse_batch(&batch, TW_STOPPED, 1);
    assert_int_equal(
        store_create_table(&store, &exchange, "Blogs"), TW_STOPPED);
    deadline_move(&deadline, platform_boot_ms() + 3600000);
    assert_ok(store_create_table(&store, &exchange, "Blogs"));
    assert_int_equal(seen.calls, 1);
}

FIXTURE_TEST(no_call_starts_after_the_deadline)
{
    struct messages messages;
    struct deadline deadline;
    struct page page;
    char receipt[QUEUE_RECEIPT_MAX] = "r";
    int64_t count = 5;

    page_init(&page);
    messages_init(&messages);
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    deadline_close(&deadline);
    exchange.deadline = &deadline;
    for (int open = 0; open < 2; open++) {
        enum tw_err wanted = open ? TW_OK : TW_STOPPED;
        struct slice id = slice_of("id");

        assert_int_equal(store_list_tables(&store, &exchange,
                             (struct continuation){0}, &page),
            wanted);
        assert_int_equal(
            store_queue_get(&store, &exchange, "jobs", 1, 30, &messages),
            wanted);
        assert_int_equal(
            store_queue_peek(&store, &exchange, "jobs", 1, &messages), wanted);
        assert_int_equal(
            store_queue_renew(&store, &exchange, "jobs", id, receipt, 0),
            wanted);
        assert_int_equal(
            store_queue_delete(&store, &exchange, "jobs", id, slice_of("r")),
            wanted);
        assert_int_equal(
            store_queue_count(&store, &exchange, "jobs", &count), wanted);
        assert_int_equal(seen.calls, open ? 6 : 0);
        assert_int_equal(count, open ? 7 : 5);
        exchange.deadline = NULL;
    }
    messages_done(&messages);
    page_done(&page);
}

FIXTURE_TEST(scan_goes_on_from_its_own_page)
{
    struct scan_request request = {.table = "Blogs"};
    struct page page;

    page_init(&page);
    assert_ok(store_scan(&store, &exchange, &request, &page));
    assert_int_equal(seen.top, 1000);
    assert_int_equal(seen.max_bytes, 32 * 1024 * 1024);
    assert_string_equal(seen.from, "");
    request.from = page.next;
    request.top = 5;
    assert_ok(store_scan(&store, &exchange, &request, &page));
    assert_string_equal(seen.from, "page1");
    assert_int_equal(seen.top, 5);
    request.from = page.next;
    request.from.more = false;
    assert_ok(store_scan(&store, &exchange, &request, &page));
    assert_string_equal(seen.from, "");
    page_done(&page);
}

FIXTURE_TEST(scan_refuses_what_no_service_takes)
{
    struct slice select[1] = {slice_of("a,b")};
    struct scan_request request = {.table = "Blogs", .top = 1001};
    struct page page;

    page_init(&page);
    assert_int_equal(
        store_scan(&store, &exchange, &request, &page), TW_INVALID);
    request = (struct scan_request){
        .table = "Blogs", .select = select, .select_count = 1};
    assert_int_equal(
        store_scan(&store, &exchange, &request, &page), TW_INVALID);
    request = (struct scan_request){
        .table = "Blogs", .select = select, .select_count = 100000};
    assert_int_equal(
        store_scan(&store, &exchange, &request, &page), TW_INVALID);
    request = (struct scan_request){.table = "tables"};
    assert_int_equal(
        store_scan(&store, &exchange, &request, &page), TW_INVALID);
    assert_int_equal(seen.calls, 0);
    page_done(&page);
}

FIXTURE_TEST(get_takes_keys_from_the_page_it_fills)
{
    struct slice key;
    struct page page;

    page_init(&page);
    key = arena_format(&page.arena, "mine");
    assert_int_equal(
        store_get(&store, &exchange, "Blogs", key, slice_of(""), &page),
        TW_NOT_FOUND);
    assert_string_equal(seen.key, "mine");
    assert_int_equal(store_get(&store, &exchange, "Blogs", slice_of("a?"),
                         slice_of(""), &page),
        TW_INVALID);
    assert_int_equal(seen.calls, 1);
    page_done(&page);
}

static enum tw_err put(struct slice text, int64_t hide_s)
{
    struct messages messages;
    enum tw_err result;

    messages_init(&messages);
    result =
        store_queue_put(&store, &exchange, "jobs", text, hide_s, &messages);
    messages_done(&messages);
    return result;
}

FIXTURE_TEST(put_refuses_what_a_queue_cannot_carry)
{
    static char letters[64 * 1024 + 1];

    memset(letters, 'x', sizeof(letters));
    assert_ok(put((struct slice){letters, 64 * 1024}, 0));
    assert_int_equal(
        put((struct slice){letters, sizeof(letters)}, 0), TW_TOO_LARGE);
    assert_ok(put(slice_of("a\tb\r\nc\xf0\x9f\x98\x80"), 0));
    assert_int_equal(put((struct slice){"a\0b", 3}, 0), TW_INVALID);
    assert_int_equal(put(slice_of("\x1b"), 0), TW_INVALID);
    assert_int_equal(put(slice_of("\xff"), 0), TW_INVALID);
    assert_int_equal(put(slice_of("\xef\xbf\xbf"), 0), TW_INVALID);
    assert_int_equal(put(slice_of("\xef\xbf\xbe"), 0), TW_INVALID);
    assert_int_equal(put(slice_of("a"), -1), TW_INVALID);
    assert_int_equal(put(slice_of("a"), 604801), TW_INVALID);
    store.capabilities.has_queues = false;
    assert_int_equal(put(slice_of("a"), 0), TW_INVALID);
    assert_int_equal(seen.calls, 2);
}

FIXTURE_TEST(queue_calls_keep_to_the_service_s_ranges)
{
    struct messages messages;
    char receipt[QUEUE_RECEIPT_MAX] = "r";

    messages_init(&messages);
    assert_int_equal(
        store_queue_get(&store, &exchange, "jobs", 0, 30, &messages),
        TW_INVALID);
    assert_int_equal(
        store_queue_get(&store, &exchange, "jobs", 33, 30, &messages),
        TW_INVALID);
    assert_int_equal(
        store_queue_get(&store, &exchange, "jobs", 1, 0, &messages),
        TW_INVALID);
    assert_ok(
        store_queue_get(&store, &exchange, "jobs", 32, 604800, &messages));
    assert_int_equal(
        store_queue_renew(&store, &exchange, "jobs", slice_of(""), receipt, 0),
        TW_INVALID);
    assert_ok(store_queue_renew(
        &store, &exchange, "jobs", slice_of("id"), receipt, 0));
    assert_int_equal(
        store_queue_peek(&store, &exchange, "jobs", 33, &messages), TW_INVALID);
    assert_int_equal(store_queue_renew(&store, &exchange, "jobs",
                         slice_of("id"), receipt, 604801),
        TW_INVALID);
    memset(receipt, 'r', sizeof(receipt));
    assert_int_equal(
        store_queue_delete(&store, &exchange, "jobs", slice_of("id"),
            (struct slice){receipt, sizeof(receipt)}),
        TW_INVALID);
    assert_int_equal(store_queue_delete(&store, &exchange, "jobs",
                         (struct slice){receipt, QUEUE_ID_MAX}, slice_of("r")),
        TW_INVALID);
    receipt[0] = '\0';
    assert_int_equal(store_queue_renew(
                         &store, &exchange, "jobs", slice_of("id"), receipt, 0),
        TW_INVALID);
    messages_done(&messages);
}

FIXTURE_TEST(knows_which_queue_names_the_service_takes)
{
    static const char *const good[] = {
        "abc", "a-b", "0-9", "delete-channel-and-blogs"};
    static const char *const bad[] = {"", "ab", "Abc", "a--b", "-ab", "ab-",
        "a_b", "a b", "ab~", "~ab", "ab{", "ab:",
        "a123456789012345678901234567890123456789012345678901234567890123"};

    for (size_t i = 0; TEST_EACH(i, good); i++)
        assert_ok(store_check_queue(slice_of(good[i]), NULL));
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_int_equal(store_check_queue(slice_of(bad[i]), NULL), TW_INVALID);
}

/* ---- ranges of keys ---- */

FIXTURE_TEST(exact_range_has_one_key)
{
    struct key_range range = key_range_exact(slice_of("a"));

    assert_true(key_range_has(&range, slice_of("a")));
    assert_false(key_range_has(&range, slice_of("")));
    assert_false(key_range_has(&range, slice_of("ab")));
    range = key_range_exact(slice_of(""));
    assert_true(key_range_has(&range, slice_of("")));
    assert_false(key_range_has(&range, slice_of("a")));
    range = (struct key_range){0};
    assert_true(key_range_has(&range, slice_of("anything")));
    range = (struct key_range){
        .has_from = true, .from = slice_of("b"), .from_exclusive = true};
    assert_false(key_range_has(&range, slice_of("b")));
    assert_true(key_range_has(&range, slice_of("b0")));
}

FIXTURE_TEST(prefix_range_ends_before_the_next_code_point)
{
    static const struct {
        const char *prefix, *below; /* NULL: none */
    } cases[] = {
        {"", NULL}, {"abc", "abd"}, {"Foot_", "Foot`"}, {"a\x7f", "a\xc2\x80"},
        {"a\xed\x9f\xbf", "a\xf0\x90\x80\x80"}, /* U+D7FF -> U+10000 */
        {"a\xef\xbf\xbe", "a\xef\xbf\xbf"},     /* U+FFFE -> U+FFFF */
        {"a\xef\xbf\xbf", "b"},                 /* U+FFFF: dropped */
        {"a\xf4\x8f\xbf\xbf", "b"},             /* U+10FFFF: dropped */
        {"\xef\xbf\xbf\xf4\x8f\xbf\xbf",
            NULL}, /* no code point has a follower */
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81"},
        {"\xf0\x90\x8f\xbf",
            "\xf0\x90\x90\x80"}, /* the low surrogate overflows */
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct key_range range =
            key_range_prefix(slice_of(cases[i].prefix), &arena);

        assert_int_equal(range.has_below, cases[i].below != NULL);
        if (cases[i].below != NULL && !slice_is(range.below, cases[i].below))
            fail_msg("case %zu: %.*s", i, SLICE_ARG(range.below));
        assert_int_equal(range.has_from, cases[i].prefix[0] != '\0');
    }
}

/* A random generator with a seed, so that a failure can be repeated. */
static uint32_t next_random(uint64_t *seed)
{
    *seed =
        *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* Adds a code point next to one of the places at which the two orders differ.
 */
static void add_code_point(struct buf *to, uint64_t *seed)
{
    static const uint32_t edges[] = {0, 1, 'a', 'b', 0x7f, 0x80, 0x7ff, 0x800,
        0xd7fe, 0xd7ff, 0xe000, 0xe001, 0xfffd, 0xfffe, 0xffff, 0x10000,
        0x10001, 0x103ff, 0x10400, 0x1f600, 0x10fffe, 0x10ffff};

    text_encode(
        to, edges[next_random(seed) % (sizeof(edges) / sizeof(edges[0]))]);
}

static bool utf16_range_has(const struct key_range *range, struct slice key)
{
    if (range->has_from && text_utf16_compare(key, range->from) < 0)
        return false;
    return !range->has_below || text_utf16_compare(key, range->below) < 0;
}

FIXTURE_TEST(prefix_range_has_every_key_in_both_orders)
{
    uint64_t seed = 20240101;
    struct buf key;

    buf_init(&key, 1000);
    for (int i = 0; i < 50000; i++) {
        unsigned prefix_length = next_random(&seed) % 4;
        unsigned more = next_random(&seed) % 4;
        struct key_range range;
        struct slice prefix;

        buf_clear(&key);
        for (unsigned j = 0; j < prefix_length; j++)
            add_code_point(&key, &seed);
        prefix = arena_copy(&arena, buf_slice(&key));
        for (unsigned j = 0; j < more; j++)
            add_code_point(&key, &seed);
        range = key_range_prefix(prefix, &arena);
        assert_true(key_range_has(&range, buf_slice(&key)));
        assert_true(utf16_range_has(&range, buf_slice(&key)));
        arena_clear(&arena);
    }
    buf_done(&key);
}

FIXTURE_TEST(range_between_keeps_what_both_orders_agree_on)
{
    static const struct {
        const char *from, *below, *wanted_from, *wanted_below;
    } cases[] = {
        {NULL, NULL, NULL, NULL},
        {"b", "d", "b", "d"},
        {"", "", NULL, ""},
        {"a\xee\x80\x80", NULL, "a", NULL},
        {"\xf0\x90\x80\x80", NULL, NULL, NULL},
        {NULL, "a\xef\xbf\xbfz", NULL, "b"},
        {NULL, "a\xf0\x90\x80\x80", NULL, "b"},
        {NULL, "\xee\x80\x80", NULL, NULL},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct slice from = slice_of(cases[i].from ? cases[i].from : "");
        struct slice below = slice_of(cases[i].below ? cases[i].below : "");
        struct key_range range = key_range_between(cases[i].from ? &from : NULL,
            cases[i].below ? &below : NULL, &arena);

        assert_int_equal(range.has_from, cases[i].wanted_from != NULL);
        assert_int_equal(range.has_below, cases[i].wanted_below != NULL);
        if (range.has_from)
            assert_true(slice_is(range.from, cases[i].wanted_from));
        if (range.has_below)
            assert_true(slice_is(range.below, cases[i].wanted_below));
    }
}

static struct slice random_key(struct buf *to, uint64_t *seed)
{
    unsigned length = next_random(seed) % 4;

    buf_clear(to);
    for (unsigned i = 0; i < length; i++)
        add_code_point(to, seed);
    return arena_copy(&arena, buf_slice(to));
}

FIXTURE_TEST(range_between_has_every_key_in_both_orders)
{
    uint64_t seed = 20240102;
    struct buf text;
    int within = 0;

    buf_init(&text, 1000);
    for (int i = 0; i < 50000; i++) {
        struct slice from = random_key(&text, &seed),
                     below = random_key(&text, &seed),
                     key = random_key(&text, &seed);
        struct key_range range = key_range_between(&from, &below, &arena);

        if (text_utf16_compare(from, key) <= 0 &&
            text_utf16_compare(key, below) < 0) {
            within++;
            assert_true(key_range_has(&range, key));
            assert_true(utf16_range_has(&range, key));
        }
        arena_clear(&arena);
    }
    assert_true(within > 1000);
    buf_done(&text);
}
