/* SPDX-License-Identifier: MIT */
/* While a service does not respond, one request a second of any caller is sent
 * as a probe; after the first response all requests are sent again. */
#include "tests/support/faulty.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/store/breaker.h"

/* This many requests in a row that cannot be sent open the breaker. */
#define UNSENT 4

static void go_without_response(
    struct breaker *breaker, unsigned times, int64_t now_ms)
{
    for (unsigned i = 0; i < times; i++)
        (void)breaker_fail(breaker, now_ms, now_ms, "no answer");
}

/* The request was sent before the failures, so its response does not show that
 * the service responds now. */
TEST(a_late_response_ends_no_row_of_failures)
{
    struct breaker breaker = {0};

    go_without_response(&breaker, BREAKER_FAILURES - 1, 5000);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    breaker_respond(&breaker, 10000, false); /* not late: the row ends */
    go_without_response(&breaker, BREAKER_FAILURES - 1, 5000);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    breaker_respond(&breaker, 4999, false);
    assert_true(breaker_fail(&breaker, 5001, 5001, "no answer"));
    breaker_respond(&breaker, 4999, false);
    assert_true(breaker_is_away(&breaker));
    breaker_respond(&breaker, 5000, false);
    assert_false(breaker_is_away(&breaker));
}

TEST(while_it_is_open_one_probe_a_second_leaves)
{
    struct breaker breaker = {0};
    char cause[BREAKER_CAUSE_MAX];

    go_without_response(&breaker, BREAKER_FAILURES, 5000);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 1000);
    assert_int_equal(breaker_wait_ms(&breaker, 5400), 600);
    assert_int_equal(breaker_wait_ms(&breaker, 6000), 0);
    assert_int_equal(breaker_wait_ms(&breaker, 6000), 1000);
    (void)breaker_fail(&breaker, 6900, 6900, "no route to host");
    assert_int_equal(breaker_wait_ms(&breaker, 6999), 1);
    assert_int_equal(breaker_wait_ms(&breaker, 9000), 0);
    assert_int_equal(breaker_wait_ms(&breaker, 9999), 1);
    breaker_cause(&breaker, cause);
    assert_string_equal(cause, "no route to host");
    assert_true(breaker_is_away(&breaker));
    breaker_respond(&breaker, 10000, false);
    assert_int_equal(breaker_wait_ms(&breaker, 9999), 0);
    assert_false(breaker_is_away(&breaker));
}

/* No process listens at the address, or the host name is unknown. A few such
 * failures are enough to open the breaker. */
TEST(four_that_cannot_be_sent_open_it)
{
    struct breaker breaker = {0};

    for (int i = 1; i < UNSENT; i++)
        assert_false(breaker_fail(&breaker, 5000, 0, "refused"));
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    assert_true(breaker_fail(&breaker, 5000, 0, "refused"));
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 1000);
}

/* Gives up a request early, as a run that stops does. That does not show that
 * the service is down. */
static enum tw_err give_up_early(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    exchange->sent_ms = platform_boot_ms();
    exchange->hurried = true;
    return err_fail(&exchange->err, TW_UNKNOWN, "given up");
}

TEST(requests_that_a_stopping_run_gives_up_do_not_open_it)
{
    static const struct store_ops ops = {.get = give_up_early};
    struct store store = {.ops = &ops, .name = "main"};
    struct page page;

    page_init(&page);
    for (int i = 0; i < 2 * BREAKER_FAILURES; i++) {
        struct exchange exchange = {.retry_after_ms = -1};

        assert_int_equal(store_get(&store, &exchange, "Blogs", slice_of("p"),
                             slice_of("r"), &page),
            TW_UNKNOWN);
        assert_false(exchange.breaker_open);
    }
    for (size_t i = 0; i < STORE_SERVICES; i++)
        assert_false(breaker_is_away(&store.breakers[i]));
    page_done(&page);
}

/* The credentials may be replaced at any time, so no request waits for a probe.
 */
TEST(refused_credentials_open_nothing)
{
    struct breaker breaker = {0};

    breaker_respond(&breaker, 10000, true);
    assert_true(breaker_is_away(&breaker));
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    breaker_respond(&breaker, 10000, false);
    assert_false(breaker_is_away(&breaker));
}

/* A store in memory behind a store whose faults the test chooses. */
struct scene {
    struct faulty faulty;
    struct store *inner, *store;
    struct exchange exchange;
};

static void begin(struct scene *s)
{
    static const char *const tables[] = {"Blogs", NULL};

    virtual_platform_use(&(struct virtual_options){
        .seed = 1, .boot_ms = 5000, .wall_ticks = TICKS_1970});
    s->inner = table_memory(tables);
    faulty_init(&s->faulty, s->inner);
    s->store = &s->faulty.outer.store;
    s->exchange = (struct exchange){.deadline = NULL};
}

static void end(struct scene *s)
{
    faulty_done(&s->faulty);
    store_close(s->inner);
    virtual_platform_end();
}

TEST_FIXTURE(scene, struct scene, begin, end)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *s)

static enum tw_err ask_tables(struct scene *s)
{
    return store_create_table(s->store, &s->exchange, "Blogs");
}

static enum tw_err ask_queues(struct scene *s)
{
    int64_t count;

    return store_queue_count(s->store, &s->exchange, "work", &count);
}

static const struct faulty_share down[] = {{FAULT_UNSENT, 1000, CALL_ALL}};

/* Every call of a store asks the breaker, and a request that is not sent does
 * not count as a failure. */
SCENE_TEST(a_store_that_nobody_answers_for_is_probed)
{
    faulty_seed(&s->faulty, 1, down, 1);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(ask_queues(s), TW_BUSY);
        assert_int_equal(s->exchange.breaker_open, i + 1 >= UNSENT);
        assert_int_equal(ask_tables(s), TW_BUSY);
    }
    assert_int_equal(s->faulty.requests, 2 * UNSENT);
    assert_in_range(s->exchange.retry_after_ms, 1, BREAKER_PROBE_MS);
    assert_int_equal(s->exchange.sent_ms, 0);
    virtual_sleep(s->exchange.retry_after_ms);
    faulty_seed(&s->faulty, 1, NULL, 0);
    assert_ok(ask_tables(s));
    assert_ok(ask_tables(s));
}

/* One request was sent to the table service of the store, and none to its queue
 * service. */
SCENE_TEST(a_service_is_reached_once_a_request_has_left)
{
    faulty_seed(&s->faulty, 1, NULL, 0);
    assert_ok(ask_tables(s));
    assert_true(s->exchange.reached);
    faulty_seed(&s->faulty, 1, down, 1);
    assert_int_equal(ask_queues(s), TW_BUSY);
    assert_false(s->exchange.reached);
    assert_int_equal(ask_tables(s), TW_BUSY);
    assert_true(s->exchange.reached);
}

FAULTY_CHOICE(loses_slowly)
{
    const int64_t *took_ms = ctx;

    virtual_sleep(*took_ms);
    return FAULT_LOSE_REQUEST;
}

/* The dashboard and the metrics wait for a shorter time than a run, so their
 * time-outs do not count: the store may still respond in time for runs. A
 * broken connection counts as a failure at any time. */
TEST(a_brief_time_out_is_no_failure)
{
    static const struct {
        int64_t took_ms;
        bool brief, open;
    } CASES[] = {
        {3000, true, false},
        {3000, false, true},
        {1000, true, true},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        int64_t took_ms = CASES[i].took_ms;
        struct deadline deadline;
        struct scene s;

        begin(&s);
        deadline_init(&deadline, PLATFORM_NEVER, 3000);
        deadline.brief = CASES[i].brief;
        s.exchange.deadline = &deadline;
        s.faulty.choose = loses_slowly;
        s.faulty.ctx = &took_ms;
        for (unsigned n = 0; n < BREAKER_FAILURES; n++)
            assert_int_equal(ask_tables(&s), TW_UNKNOWN);
        assert_int_equal(s.exchange.breaker_open, CASES[i].open);
        assert_int_equal(
            breaker_is_away(&s.store->breakers[SERVICE_TABLES]), CASES[i].open);
        end(&s);
    }
}

/* An error response of the service itself shows that the service responds. */
TEST(what_counts_as_a_response)
{
    static const struct {
        enum fault fault;
        bool response;
    } CASES[] = {
        {FAULT_UNSENT, false},
        {FAULT_REFUSED, true},
        {FAULT_BUSY, true},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const struct faulty_share share = {CASES[i].fault, 1000, CALL_ALL};
        struct scene s;

        begin(&s);
        faulty_seed(&s.faulty, 1, &share, 1);
        for (unsigned n = 0; n < 2 * BREAKER_FAILURES; n++)
            assert_int_not_equal(ask_tables(&s), TW_OK);
        assert_int_equal(s.exchange.breaker_open, !CASES[i].response);
        end(&s);
    }
}
