/* SPDX-License-Identifier: MIT */
/* Goal: each fault of the faulty store affects the store and the caller as its
 * description says, and one seed gives the same faults each time. */
#include "tests/support/faulty.h"
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/fast_platform.h"
#include "tests/support/table.h"

#define TABLE "Blogs"
#define QUEUE "work"

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct store *store;
    enum fault next; /* fault of the next request only */
    struct exchange exchange;
    struct batch_result result;
    struct page page;
    struct messages messages;
    char receipt[QUEUE_RECEIPT_MAX];
};

FAULTY_CHOICE(next_fault)
{
    struct scene *s = ctx;
    enum fault fault = s->next;

    s->next = FAULT_NONE;
    return fault;
}

static void scene_init(struct scene *s)
{
    static const char *const tables[] = {TABLE, NULL};

    memset(s, 0, sizeof(*s));
    s->inner = table_memory(tables);
    assert_ok(store_queue_create(s->inner, &s->exchange, QUEUE));
    faulty_init(&s->faulty, s->inner);
    s->faulty.choose = next_fault;
    s->faulty.ctx = s;
    s->store = &s->faulty.outer.store;
    page_init(&s->page);
    messages_init(&s->messages);
}

static void scene_done(struct scene *s)
{
    page_done(&s->page);
    messages_done(&s->messages);
    faulty_done(&s->faulty);
    store_close(s->inner);
}

/* ---- requests ---- */

/* Gives the next request this fault. Returns the exchange for the request. */
static struct exchange *meet(struct scene *s, enum fault fault)
{
    s->next = fault;
    s->exchange = (struct exchange){.retry_after_ms = -1};
    return &s->exchange;
}

static enum tw_err insert(struct scene *s, enum fault fault, const char *key)
{
    struct operation operation = {.type = OPERATION_INSERT};
    struct batch batch = {TABLE, &operation, 1};
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    entity_init(&operation.entity, &arena, slice_of("p"), slice_of(key));
    outcome = store_batch(s->store, meet(s, fault), &batch, &s->result);
    arena_done(&arena);
    return outcome;
}

/* Deletes the entity that the last get has read. */
static enum tw_err delete_read(struct scene *s, enum fault fault)
{
    struct operation operation = {
        .type = OPERATION_DELETE, .entity = s->page.entities[0]};
    struct batch batch = {TABLE, &operation, 1};

    return store_batch(s->store, meet(s, fault), &batch, &s->result);
}

static enum tw_err get(struct scene *s, enum fault fault, const char *key)
{
    return store_get(s->store, meet(s, fault), TABLE, slice_of("p"),
        slice_of(key), &s->page);
}

static enum tw_err scan(struct scene *s, enum fault fault)
{
    struct scan_request request = {.table = TABLE, .from = s->page.next};

    return store_scan(s->store, meet(s, fault), &request, &s->page);
}

static enum tw_err put(struct scene *s, enum fault fault)
{
    return store_queue_put(
        s->store, meet(s, fault), QUEUE, slice_of("body"), 0, &s->messages);
}

static enum tw_err take(struct scene *s, enum fault fault)
{
    enum tw_err outcome =
        store_queue_get(s->store, meet(s, fault), QUEUE, 1, 60, &s->messages);

    if (outcome == TW_OK && s->messages.count > 0)
        (void)snprintf(s->receipt, sizeof(s->receipt), "%.*s",
            SLICE_ARG(s->messages.list[0].pop_receipt));
    return outcome;
}

static enum tw_err renew(struct scene *s, enum fault fault)
{
    return store_queue_renew(s->store, meet(s, fault), QUEUE,
        s->messages.list[0].id, s->receipt, 60);
}

static enum tw_err drop(struct scene *s, enum fault fault)
{
    return store_queue_delete(s->store, meet(s, fault), QUEUE,
        s->messages.list[0].id, slice_of(s->receipt));
}

static int64_t count_messages(struct scene *s)
{
    int64_t count = -1;

    assert_ok(store_queue_count(s->inner, meet(s, FAULT_NONE), QUEUE, &count));
    return count;
}

static bool has(struct scene *s, const char *key)
{
    return table_has(s->inner, TABLE, "p", key, NULL);
}

/* ---- tests ---- */

/* Checks for each fault which outcome the caller gets, and whether the store
 * received the request and carried it out. */
TEST(each_fault_tells_its_outcome)
{
    static const struct {
        enum fault fault;
        enum tw_err write, read;
        int status;
        bool sent, done, hinted;
    } CASES[] = {
        {FAULT_NONE, TW_OK, TW_OK, 0, true, true, false},
        {FAULT_UNSENT, TW_BUSY, TW_BUSY, 0, false, false, false},
        {FAULT_BUSY, TW_BUSY, TW_BUSY, 503, true, false, false},
        {FAULT_BUSY_HINTED, TW_BUSY, TW_BUSY, 503, true, false, true},
        {FAULT_ERROR, TW_UNKNOWN, TW_BUSY, 500, true, false, false},
        {FAULT_ERROR_HINTED, TW_UNKNOWN, TW_BUSY, 500, true, false, true},
        {FAULT_LOSE_REQUEST, TW_UNKNOWN, TW_UNKNOWN, 0, true, false, false},
        {FAULT_LOSE_ANSWER, TW_UNKNOWN, TW_UNKNOWN, 0, true, true, false},
        {FAULT_REFUSED, TW_REFUSED, TW_REFUSED, 403, true, false, false},
        {FAULT_DELAY, TW_OK, TW_OK, 0, true, true, false},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct scene s;

        scene_init(&s);
        s.faulty.hint_ms = 7000;
        assert_int_equal(insert(&s, CASES[i].fault, "a"), CASES[i].write);
        assert_int_equal(s.exchange.http_status, CASES[i].status);
        assert_int_equal(s.exchange.sent_ms != 0, CASES[i].sent);
        assert_int_equal(
            s.exchange.retry_after_ms, CASES[i].hinted ? 7000 : -1);
        assert_int_equal(s.exchange.date_ticks != 0,
            CASES[i].write == TW_OK || CASES[i].status != 0);
        assert_int_equal(has(&s, "a"), CASES[i].done);
        assert_int_equal(s.faulty.met[CASES[i].fault], 1);
        table_put(s.inner, TABLE, "p", "b", "x", 0);
        assert_int_equal(get(&s, CASES[i].fault, "b"), CASES[i].read);
        scene_done(&s);
    }
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *s)

SCENE_TEST(a_delayed_answer_takes_its_time)
{
    int64_t begun_ms = platform_boot_ms();

    s->faulty.delay_ms = 500;
    assert_ok(put(s, FAULT_DELAY));
    assert_true(platform_boot_ms() - begun_ms >= 500);
}

SCENE_TEST(a_late_batch_lands_after_the_next_requests)
{
    s->faulty.late_requests = 2;
    assert_int_equal(insert(s, FAULT_LATE, "a"), TW_UNKNOWN);
    assert_int_equal(get(s, FAULT_NONE, "a"), TW_NOT_FOUND);
    assert_int_equal(get(s, FAULT_NONE, "a"), TW_NOT_FOUND);
    assert_ok(get(s, FAULT_NONE, "a"));
    assert_int_equal(s->faulty.changed_late, 1);
}

SCENE_TEST(a_late_batch_waits_for_its_moment)
{
    s->faulty.late_ms = 1000000;
    assert_int_equal(insert(s, FAULT_LATE, "a"), TW_UNKNOWN);
    assert_int_equal(get(s, FAULT_NONE, "a"), TW_NOT_FOUND);
    faulty_land(&s->faulty, platform_boot_ms() + 900000);
    assert_false(has(s, "a"));
    faulty_land(&s->faulty, platform_boot_ms() + 1000001);
    assert_true(has(s, "a"));
}

SCENE_TEST(a_late_delete_with_a_stale_etag_changes_nothing)
{
    table_put(s->inner, TABLE, "p", "a", "old", 0);
    table_put(s->inner, TABLE, "p", "b", "old", 0);
    assert_ok(get(s, FAULT_NONE, "a"));
    assert_int_equal(delete_read(s, FAULT_LATE), TW_UNKNOWN);
    assert_true(table_write(s->inner, TABLE, "p", "a", "new"));
    assert_ok(get(s, FAULT_NONE, "b"));
    assert_int_equal(s->faulty.landed, 1);
    assert_int_equal(s->faulty.changed_late, 0);
    assert_true(table_has(s->inner, TABLE, "p", "a", "new"));
    assert_int_equal(delete_read(s, FAULT_LATE), TW_UNKNOWN);
    faulty_land(&s->faulty, INT64_MAX);
    assert_false(has(s, "b"));
}

SCENE_TEST(late_queue_calls_land_too)
{
    assert_int_equal(put(s, FAULT_LATE), TW_UNKNOWN);
    assert_int_equal(count_messages(s), 0);
    faulty_land(&s->faulty, INT64_MAX);
    assert_int_equal(count_messages(s), 1);

    assert_int_equal(take(s, FAULT_LATE), TW_UNKNOWN);
    faulty_land(&s->faulty, INT64_MAX);
    assert_ok(take(s, FAULT_NONE));
    assert_int_equal(s->messages.count, 0); /* hidden by the late get */

    assert_ok(put(s, FAULT_NONE));
    assert_ok(take(s, FAULT_NONE));
    assert_int_equal(renew(s, FAULT_LATE), TW_UNKNOWN);
    faulty_land(&s->faulty, INT64_MAX);
    assert_int_equal(drop(s, FAULT_NONE), TW_CONFLICT);
}

SCENE_TEST(twice_is_answered_the_second_time_or_the_first)
{
    assert_int_equal(insert(s, FAULT_TWICE, "a"), TW_CONFLICT);
    assert_true(has(s, "a"));
    assert_ok(insert(s, FAULT_TWICE_UNSEEN, "b"));
    assert_ok(put(s, FAULT_TWICE));
    assert_int_equal(count_messages(s), 2);
    assert_ok(take(s, FAULT_NONE));
    assert_int_equal(renew(s, FAULT_TWICE), TW_CONFLICT);
    assert_ok(take(s, FAULT_NONE));
    assert_ok(drop(s, FAULT_TWICE_UNSEEN));
    assert_int_equal(count_messages(s), 1);
}

SCENE_TEST(a_lost_answer_brings_no_receipt)
{
    char before[QUEUE_RECEIPT_MAX];

    assert_ok(put(s, FAULT_NONE));
    assert_ok(take(s, FAULT_NONE));
    memcpy(before, s->receipt, sizeof(before));
    assert_int_equal(renew(s, FAULT_LOSE_ANSWER), TW_UNKNOWN);
    assert_string_equal(s->receipt, before);
    assert_int_equal(renew(s, FAULT_NONE), TW_CONFLICT);
}

SCENE_TEST(one_key_of_a_batch_is_refused)
{
    struct operation operations[5] = {{0}};
    struct batch batch = {TABLE, operations, 5};
    struct arena arena;

    arena_init(&arena);
    for (int i = 0; i < 5; i++)
        entity_init(&operations[i].entity, &arena, slice_of("p"),
            slice_of((const char *[]){"a", "b", "c", "d", "e"}[i]));
    assert_int_equal(
        store_batch(s->store, meet(s, FAULT_ONE_KEY), &batch, &s->result),
        TW_CONFLICT);
    assert_in_range(s->result.failed, 0, 4);
    assert_int_equal(table_count(s->inner, TABLE), 0);
    table_put(s->inner, TABLE, "p", "c", "x", 0);
    assert_int_equal(
        store_batch(s->store, meet(s, FAULT_NO_INDEX), &batch, &s->result),
        TW_CONFLICT);
    assert_int_equal(s->result.failed, batch.count);
    arena_done(&arena);
}

SCENE_TEST(empty_and_short_pages_go_on)
{
    static const struct {
        enum fault fault;
        size_t count;
        bool more;
    } PAGES[] = {{FAULT_EMPTY_PAGE, 0, true}, {FAULT_SHORT_PAGE, 1, true},
        {FAULT_EMPTY_PAGE, 0, true}, {FAULT_NONE, 2, false}};

    table_fill(s->inner, TABLE, "p", 0, 3);
    for (size_t i = 0; TEST_EACH(i, PAGES); i++) {
        assert_ok(scan(s, PAGES[i].fault));
        assert_int_equal(s->page.count, PAGES[i].count);
        assert_int_equal(s->page.next.more, PAGES[i].more);
    }
}

TEST(nothing_is_sent_after_the_deadline)
{
    struct deadline deadline;
    struct scene s;

    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    deadline_close(&deadline);
    for (enum fault fault = 0; fault < FAULTS; fault++) {
        scene_init(&s);
        s.next = fault;
        s.exchange = (struct exchange){.deadline = &deadline};
        assert_int_equal(store_queue_put(s.store, &s.exchange, QUEUE,
                             slice_of("body"), 0, &s.messages),
            TW_STOPPED);
        faulty_land(&s.faulty, INT64_MAX);
        assert_int_equal(count_messages(&s), 0);
        scene_done(&s);
    }
}

/* ---- seeds ---- */

static const struct faulty_share SHARES[] = {
    {FAULT_BUSY, 100, CALL_ALL},
    {FAULT_LOSE_ANSWER, 100, CALL_SET(CALL_BATCH)},
    {FAULT_LATE, 100, CALL_ALL},
    {FAULT_EMPTY_PAGE, 300, CALL_ALL},
};

#define ROUNDS 1000

/* Makes ROUNDS requests to a store whose faults come from this seed. The
 * requests are the same in each call. Writes one letter for the outcome of each
 * request into outcomes. Counts in `met` how often each fault occurred. */
static void play(uint64_t seed, char outcomes[ROUNDS + 1], unsigned met[FAULTS])
{
    struct scene s;

    scene_init(&s);
    faulty_seed(&s.faulty, seed, SHARES, sizeof(SHARES) / sizeof(SHARES[0]));
    for (unsigned i = 0; i < ROUNDS; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "%u", i);
        outcomes[i] = (char)('a' + (i % 4 == 0      ? (int)insert(&s, 0, key)
                                       : i % 4 == 1 ? (int)put(&s, 0)
                                       : i % 4 == 2 ? (int)scan(&s, 0)
                                                    : (int)get(&s, 0, key)));
    }
    memcpy(met, s.faulty.met, sizeof(s.faulty.met));
    scene_done(&s);
}

TEST(the_same_seed_brings_the_same_faults)
{
    char first[ROUNDS + 1] = "", second[ROUNDS + 1] = "";
    unsigned met[FAULTS];

    play(5, first, met);
    play(5, second, met);
    assert_string_equal(first, second);
    play(6, second, met);
    assert_string_not_equal(first, second);
}

/* A quarter of the requests are batches, a quarter puts, a quarter scans and a
 * quarter gets. */
TEST(faults_come_as_often_as_their_shares_say)
{
    char outcomes[ROUNDS + 1] = "";
    unsigned met[FAULTS];

    play(7, outcomes, met);
    assert_in_range(met[FAULT_BUSY], 60, 140);
    assert_in_range(met[FAULT_LOSE_ANSWER], 10, 40);
    assert_in_range(met[FAULT_LATE], 30, 70); /* batches and puts */
    assert_in_range(met[FAULT_EMPTY_PAGE], 50, 100);
    assert_int_equal(met[FAULT_SHORT_PAGE], 0);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
