/* SPDX-License-Identifier: MIT */
/* The checks in front of both stores: what is refused before an implementation
 * is called, ranges of keys, and the state after a call. */
#include <stdio.h>
#include <string.h>

#include "tests/support/interpose.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* An implementation that counts the requests that reach it and keeps some of
 * their arguments. */
static struct {
    unsigned calls;
    unsigned top;
    size_t max_bytes;
    char from[16], key[16];
    bool loses_page; /* a scan fails after it has filled the page */
} seen;

static enum tw_err see(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    seen.calls++;
    switch (request->call) {
    case CALL_SCAN:
        seen.top = request->scan->top;
        seen.max_bytes = request->scan->max_bytes;
        snprintf(seen.from, sizeof(seen.from), "%.*s",
            SLICE_ARG(request->scan->from.partition_key));
        assert_int_equal(request->page->count, 0);
        request->page->next = (struct continuation){
            .partition_key =
                arena_format(&request->page->arena, "page%u", seen.calls),
            .more = true};
        return seen.loses_page ? TW_UNKNOWN : TW_OK;
    case CALL_GET:
        memset(arena_alloc(&request->page->arena, 64), '#', 64);
        snprintf(seen.key, sizeof(seen.key), "%.*s",
            SLICE_ARG(request->partition_key));
        return TW_NOT_FOUND;
    case CALL_BATCH:
        return TW_CONFLICT;
    case CALL_QUEUE_COUNT:
        *request->number = 7;
        return TW_OK;
    default:
        return TW_OK;
    }
}

static struct interposed front;
static struct store *const store = &front.store;
static struct exchange exchange;
static struct arena arena;
static struct page page;
static struct messages messages;
static char receipt[QUEUE_RECEIPT_MAX];
static int64_t counted;

static int set_up(void **state)
{
    static struct store nothing = {.capabilities = {
                                       .has_queues = true,
                                       .batch_max_bytes = BATCH_MAX_BYTES,
                                   }};

    memset(&seen, 0, sizeof(seen));
    memset(&exchange, 0, sizeof(exchange));
    interposed_init(&front, "front", &nothing, see);
    arena_init(&arena);
    page_init(&page);
    messages_init(&messages);
    (void)snprintf(receipt, sizeof(receipt), "r");
    return 0;
}

static int tear_down(void **state)
{
    arena_done(&arena);
    page_done(&page);
    messages_done(&messages);
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
    const struct batch *batch, enum tw_err outcome, size_t failed)
{
    struct batch_result result = {.failed = 7777};

    assert_int_equal(store_batch(store, &exchange, batch, &result), outcome);
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
        store_batch(store, &exchange, &batch, &result), TW_CONFLICT);
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

FIXTURE_TEST(batch_refuses_forbidden_keys_and_names)
{
    struct batch batch = good_batch(2);

    operations[1].entity.row_key = slice_of("a/b");
    refuse_batch(&batch, TW_INVALID, 1);
    operations[1].type = OPERATION_DELETE;
    refuse_batch(&batch, TW_INVALID, 1);
    batch = good_batch(1);
    operations[0].entity.partition_key = slice_of("a/b");
    refuse_batch(&batch, TW_INVALID, 0);
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
    struct batch_result result;

    memset(letters, 'x', sizeof(letters));
    entity_set_string(&operations[1].entity, &arena, "a",
        (struct slice){letters, sizeof(letters)});
    refuse_batch(&batch, TW_TOO_LARGE, 1);
    operations[1].type = OPERATION_DELETE; /* deletes send no properties */
    assert_int_equal(
        store_batch(store, &exchange, &batch, &result), TW_CONFLICT);
    seen.calls = 0;
    store->capabilities.batch_max_bytes = 1000;
    batch = good_batch(2);
    for (size_t i = 0; i < 2; i++)
        entity_set_string(
            &operations[i].entity, &arena, "a", (struct slice){letters, 500});
    refuse_batch(&batch, TW_TOO_LARGE, 2);
}

/* ---- further checks ---- */

/* Makes a valid call of kind `which`. */
static enum tw_err call(enum store_call which)
{
    static struct batch batch;
    static struct batch_result result;
    static const struct scan_request scan = {.table = "Blogs"};
    struct store_request request = {
        .call = which,
        .name = which < CALL_QUEUE_CREATE ? "Blogs" : "jobs",
        .scan = &scan,
        .batch = &batch,
        .text = slice_of("text"),
        .id = slice_of("id"),
        .pop_receipt = slice_of("r"),
        .count = 1,
        .seconds = 30,
        .page = &page,
        .result = &result,
        .messages = &messages,
        .receipt = receipt,
        .number = &counted,
    };

    batch = good_batch(1);
    counted = 5;
    exchange.sent_ms = 1;
    test_case("%s", call_name(which));
    return request_send(store, &exchange, &request);
}

FIXTURE_TEST(no_call_starts_after_the_deadline)
{
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    deadline_close(&deadline);
    for (enum store_call which = 0; which < STORE_CALLS; which++) {
        exchange.deadline = &deadline;
        assert_int_equal(call(which), TW_STOPPED);
        assert_int_equal(exchange.sent_ms, 0);
        assert_int_equal(seen.calls, which);
        assert_int_equal(counted, 5);
        exchange.deadline = NULL;
        assert_int_not_equal(call(which), TW_STOPPED);
        assert_int_equal(seen.calls, which + 1);
        assert_int_equal(counted, which == CALL_QUEUE_COUNT ? 7 : 5);
    }
}

FIXTURE_TEST(a_store_open_for_reading_only_is_not_changed)
{
    static const char *const refused[STORE_CALLS] = {
        [CALL_BATCH] = "an entity cannot be written",
        [CALL_CREATE_TABLE] = "a table cannot be created",
        [CALL_QUEUE_CREATE] = "a queue cannot be created",
        [CALL_QUEUE_PUT] = "a message cannot be put",
        [CALL_QUEUE_GET] = "a message cannot be taken",
        [CALL_QUEUE_RENEW] = "a message cannot be hidden",
        [CALL_QUEUE_DELETE] = "a message cannot be deleted",
    };

    store->read_only = true;
    for (enum store_call which = 0; which < STORE_CALLS; which++) {
        unsigned calls = seen.calls;
        enum tw_err outcome = call(which);

        if (!refused[which]) {
            assert_int_not_equal(outcome, TW_INVALID);
            assert_int_equal(seen.calls, calls + 1);
            continue;
        }
        assert_int_equal(outcome, TW_INVALID);
        assert_non_null(strstr(exchange.err.text, "store 'front'"));
        assert_non_null(strstr(exchange.err.text, "for reading only"));
        assert_non_null(strstr(exchange.err.text, refused[which]));
        assert_int_equal(exchange.sent_ms, 0);
        assert_string_equal(receipt, "r");
        assert_int_equal(seen.calls, calls);
    }
}

FIXTURE_TEST(scan_goes_on_from_its_own_page)
{
    struct scan_request request = {.table = "Blogs"};

    assert_ok(store_scan(store, &exchange, &request, &page));
    assert_int_equal(seen.top, 1000);
    assert_int_equal(seen.max_bytes, 32 * 1024 * 1024);
    assert_string_equal(seen.from, "");
    request.from = page.next;
    request.top = 5;
    assert_ok(store_scan(store, &exchange, &request, &page));
    assert_string_equal(seen.from, "page1");
    assert_int_equal(seen.top, 5);
    request.from = page.next;
    request.from.more = false;
    assert_ok(store_scan(store, &exchange, &request, &page));
    assert_string_equal(seen.from, "");
}

/* Forwards a request to the inner store. request->scan may continue from the
 * page that the response fills. */
static enum tw_err send_on(struct interposed *self,
    struct exchange *exchange_there, const struct store_request *request)
{
    enum tw_err outcome = request_send(self->inner, exchange_there, request);

    return seen.loses_page ? TW_UNKNOWN : outcome;
}

FIXTURE_TEST(scan_that_failed_can_be_made_again_from_its_own_page)
{
    struct scan_request request = {.table = "Blogs"};
    struct interposed ahead;

    interposed_init(&ahead, "ahead", store, send_on);
    assert_ok(store_scan(&ahead.store, &exchange, &request, &page));
    request.from = page.next;
    for (unsigned i = 0; i < 4; i++) {
        struct store *at = i % 2 == 0 ? store : &ahead.store;

        seen.loses_page = i < 3;
        assert_int_equal(store_scan(at, &exchange, &request, &page),
            seen.loses_page ? TW_UNKNOWN : TW_OK);
        assert_string_equal(seen.from, "page1");
        assert_int_equal(page.next.more, !seen.loses_page);
    }
    assert_true(slice_is(page.next.partition_key, "page5"));
}

FIXTURE_TEST(scan_refuses_what_no_service_takes)
{
    const struct slice select[1] = {slice_of("a,b")};
    const struct scan_request refused[] = {
        {.table = "Blogs", .top = 1001},
        {.table = "Blogs", .select = select, .select_count = 1},
        {.table = "Blogs", .select = select, .select_count = 100000},
        {.table = "tables"},
    };

    for (size_t i = 0; TEST_EACH(i, refused); i++)
        assert_int_equal(
            store_scan(store, &exchange, &refused[i], &page), TW_INVALID);
    assert_int_equal(seen.calls, 0);
}

FIXTURE_TEST(get_takes_keys_from_the_page_it_fills)
{
    struct slice key = arena_format(&page.arena, "mine");

    assert_int_equal(
        store_get(store, &exchange, "Blogs", key, slice_of(""), &page),
        TW_NOT_FOUND);
    assert_string_equal(seen.key, "mine");
    assert_int_equal(store_get(store, &exchange, "Blogs", slice_of("a?"),
                         slice_of(""), &page),
        TW_INVALID);
    assert_int_equal(seen.calls, 1);
}

static enum tw_err put(struct slice text, int64_t hide_s)
{
    return store_queue_put(store, &exchange, "jobs", text, hide_s, &messages);
}

FIXTURE_TEST(put_refuses_what_a_queue_cannot_carry)
{
    static const char *const bad[] = {
        "\x01", "\x1b", "\xff", "\xef\xbf\xbf", "\xef\xbf\xbe"};
    static char letters[64 * 1024 + 1];

    memset(letters, 'x', sizeof(letters));
    assert_ok(put((struct slice){letters, 64 * 1024}, 0));
    assert_int_equal(
        put((struct slice){letters, sizeof(letters)}, 0), TW_TOO_LARGE);
    assert_ok(put(slice_of("a\tb\r\nc\xf0\x9f\x98\x80"), 0));
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_int_equal(put(slice_of(bad[i]), 0), TW_INVALID);
    assert_int_equal(put((struct slice){"a\0b", 3}, 0), TW_INVALID);
    assert_int_equal(put(slice_of("a"), -1), TW_INVALID);
    assert_int_equal(put(slice_of("a"), 604801), TW_INVALID);
    store->capabilities.has_queues = false;
    assert_int_equal(put(slice_of("a"), 0), TW_INVALID);
    assert_int_equal(seen.calls, 2);
}

static enum tw_err send_to_queue(struct store_request request)
{
    request.name = "jobs";
    request.messages = &messages;
    return request_send(store, &exchange, &request);
}

FIXTURE_TEST(queue_calls_keep_to_the_service_s_ranges)
{
    char longest[QUEUE_RECEIPT_MAX], none[QUEUE_RECEIPT_MAX] = "";
    struct slice id = slice_of("id");
    const struct store_request refused[] = {
        {.call = CALL_QUEUE_GET, .count = 0, .seconds = 30},
        {.call = CALL_QUEUE_GET, .count = 33, .seconds = 30},
        {.call = CALL_QUEUE_GET, .count = 1, .seconds = 0},
        {.call = CALL_QUEUE_PEEK, .count = 33},
        {.call = CALL_QUEUE_RENEW, .receipt = receipt},
        {.call = CALL_QUEUE_RENEW, .id = id, .receipt = none},
        {.call = CALL_QUEUE_RENEW,
            .id = id,
            .receipt = receipt,
            .seconds = 604801},
        {.call = CALL_QUEUE_DELETE,
            .id = id,
            .pop_receipt = {longest, sizeof(longest)}},
        {.call = CALL_QUEUE_DELETE,
            .id = {longest, QUEUE_ID_MAX},
            .pop_receipt = slice_of("r")},
    };

    memset(longest, 'r', sizeof(longest));
    for (size_t i = 0; TEST_EACH(i, refused); i++)
        assert_int_equal(send_to_queue(refused[i]), TW_INVALID);
    assert_int_equal(seen.calls, 0);
    assert_ok(send_to_queue((struct store_request){
        .call = CALL_QUEUE_GET, .count = 32, .seconds = 604800}));
    assert_ok(send_to_queue((struct store_request){
        .call = CALL_QUEUE_RENEW, .id = id, .receipt = receipt}));
}

FIXTURE_TEST(names_of_queues_are_those_that_the_service_takes)
{
    static const char *const good[] = {
        "abc", "a-b", "0-9", "delete-channel-and-blogs"};
    static const char *const bad[] = {"", "ab", "Abc", "a--b", "-ab", "ab-",
        "a_b", "a/b", "a b", "ab~", "~ab", "ab{", "ab:",
        "a123456789012345678901234567890123456789012345678901234567890123"};

    for (size_t i = 0; TEST_EACH(i, good); i++)
        assert_ok(store_queue_create(store, &exchange, good[i]));
    for (size_t i = 0; TEST_EACH(i, bad); i++) {
        assert_int_equal(store_check_queue(slice_of(bad[i]), NULL), TW_INVALID);
        assert_int_equal(
            store_queue_create(store, &exchange, bad[i]), TW_INVALID);
    }
    assert_int_equal(seen.calls, 4);
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
        const char *prefix, *below; /* NULL: no upper bound */
    } cases[] = {
        {"", NULL}, {"abc", "abd"}, {"Foot_", "Foot`"}, {"a\x7f", "a\xc2\x80"},
        {"a\xed\x9f\xbf", "a\xf0\x90\x80\x80"}, /* U+D7FF -> U+10000 */
        {"a\xef\xbf\xbe", "a\xef\xbf\xbf"},     /* U+FFFE -> U+FFFF */
        {"a\xef\xbf\xbf", "b"},                 /* U+FFFF: dropped */
        {"a\xf4\x8f\xbf\xbf", "b"},             /* U+10FFFF: dropped */
        {"\xef\xbf\xbf\xf4\x8f\xbf\xbf",
            NULL}, /* no code point of the prefix has a successor */
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

/* Returns a random number and changes the seed, so that a failure can be
 * repeated. */
static uint32_t next_random(uint64_t *seed)
{
    *seed =
        *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* Adds a code point near a place where the order of code points differs from
 * the order of UTF-16 units. */
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
