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

TEST(a_few_failures_do_not_open_it)
{
    struct breaker breaker = {0};

    go_without_response(&breaker, BREAKER_FAILURES - 1, 5000);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    breaker_respond(&breaker, 10000, false);
    go_without_response(&breaker, BREAKER_FAILURES - 1, 5000);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
}

/* A response to a request from before the failures does not show that the
 * service responds now. */
TEST(a_late_response_ends_no_row_of_failures)
{
    struct breaker breaker = {0};

    go_without_response(&breaker, BREAKER_FAILURES - 1, 5000);
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

/* Nobody listens at the address, or the name is unknown: fewer failures are
 * enough to conclude that. */
TEST(four_that_cannot_be_sent_open_it)
{
    struct breaker breaker = {0};

    for (int i = 1; i < UNSENT; i++)
        assert_false(breaker_fail(&breaker, 5000, 0, "refused"));
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
    assert_true(breaker_fail(&breaker, 5000, 0, "refused"));
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 1000);
}

/* A run that stops gives its requests up early: that shows nothing. */
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

/* Opens a store in memory behind a store whose faults the test chooses. */
static struct store *begin(struct faulty *faulty)
{
    static const char *const tables[] = {"Blogs", NULL};
    struct store *inner;

    virtual_platform_use(&(struct virtual_options){
        .seed = 1, .boot_ms = 5000, .wall_ticks = TICKS_1970});
    inner = table_memory(tables);
    faulty_init(faulty, inner);
    return inner;
}

static void end(struct faulty *faulty, struct store *inner)
{
    faulty_done(faulty);
    store_close(inner);
    virtual_platform_end();
}

/* Every call of a store asks the breaker, and a request that is not sent does
 * not count as a failure. */
TEST(a_store_that_nobody_answers_for_is_probed)
{
    static const struct faulty_share down[] = {{FAULT_UNSENT, 1000, CALL_ALL}};
    struct exchange exchange = {.deadline = NULL};
    struct faulty faulty;
    struct store *inner = begin(&faulty);
    int64_t count;

    faulty_seed(&faulty, 1, down, 1);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(
            store_queue_count(&faulty.outer.store, &exchange, "work", &count),
            TW_BUSY);
        assert_int_equal(exchange.breaker_open, i + 1 >= UNSENT);
        assert_int_equal(
            store_create_table(&faulty.outer.store, &exchange, "Blogs"),
            TW_BUSY);
    }
    assert_int_equal(faulty.requests, 2 * UNSENT);
    assert_in_range(exchange.retry_after_ms, 1, BREAKER_PROBE_MS);
    assert_int_equal(exchange.sent_ms, 0);
    virtual_sleep(exchange.retry_after_ms);
    faulty_seed(&faulty, 1, NULL, 0);
    assert_ok(store_create_table(&faulty.outer.store, &exchange, "Blogs"));
    assert_ok(store_create_table(&faulty.outer.store, &exchange, "Blogs"));
    end(&faulty, inner);
}

/* The table service of the store was sent a request, its queue service was not.
 */
TEST(a_service_is_reached_once_a_request_has_left)
{
    static const struct faulty_share down[] = {{FAULT_UNSENT, 1000, CALL_ALL}};
    struct exchange exchange = {.deadline = NULL};
    struct faulty faulty;
    struct store *inner = begin(&faulty);
    int64_t count;

    faulty_seed(&faulty, 1, NULL, 0);
    assert_ok(store_create_table(&faulty.outer.store, &exchange, "Blogs"));
    assert_true(exchange.reached);
    faulty_seed(&faulty, 1, down, 1);
    assert_int_equal(
        store_queue_count(&faulty.outer.store, &exchange, "work", &count),
        TW_BUSY);
    assert_false(exchange.reached);
    assert_int_equal(
        store_create_table(&faulty.outer.store, &exchange, "Blogs"), TW_BUSY);
    assert_true(exchange.reached);
    end(&faulty, inner);
}

FAULTY_CHOICE(loses_slowly)
{
    const int64_t *took_ms = ctx;

    virtual_sleep(*took_ms);
    return FAULT_LOSE_REQUEST;
}

/* The dashboard and the metrics wait for less time than a run: a store that
 * responds later still serves runs. A connection that breaks before that time
 * counts like any other failure. */
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
        struct exchange exchange = {.deadline = &deadline};
        struct faulty faulty;
        struct store *inner = begin(&faulty);

        deadline_init(&deadline, PLATFORM_NEVER, 3000);
        deadline.brief = CASES[i].brief;
        faulty.choose = loses_slowly;
        faulty.ctx = &took_ms;
        for (unsigned n = 0; n < BREAKER_FAILURES; n++)
            assert_int_equal(
                store_create_table(&faulty.outer.store, &exchange, "Blogs"),
                TW_UNKNOWN);
        assert_int_equal(exchange.breaker_open, CASES[i].open);
        assert_int_equal(
            breaker_is_away(&faulty.outer.store.breakers[SERVICE_TABLES]),
            CASES[i].open);
        end(&faulty, inner);
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
        struct exchange exchange = {.deadline = NULL};
        struct faulty faulty;
        struct store *inner = begin(&faulty);

        faulty_seed(&faulty, 1, &share, 1);
        for (unsigned n = 0; n < 2 * BREAKER_FAILURES; n++)
            assert_int_not_equal(
                store_create_table(&faulty.outer.store, &exchange, "Blogs"),
                TW_OK);
        assert_int_equal(exchange.breaker_open, !CASES[i].response);
        end(&faulty, inner);
    }
}
