/* SPDX-License-Identifier: MIT */
/* Counts of the requests to a store. */
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/store/meter.h"
#include "worker/store/store.h"

static uint64_t outcomes(const struct meter *meter,
    enum meter_operation operation, enum meter_outcome outcome)
{
    return atomic_load(&meter->operations[operation].outcomes[outcome]);
}

static uint64_t class_of(const struct meter *meter, size_t class)
{
    return atomic_load(&meter->operations[METER_GET].durations[class]);
}

TEST(a_store_keeps_its_counts_under_its_name)
{
    struct meter *main_meter = meter_named("main");

    assert_ptr_equal(meter_named("main"), main_meter);
    assert_ptr_not_equal(meter_named("cloud"), main_meter);
    assert_ptr_equal(meter_named("main"), main_meter);
    assert_string_equal(main_meter->store, "main");
}

TEST(an_outcome_is_counted_by_tw_err_and_status)
{
    static const struct {
        enum tw_err outcome;
        int http_status;
        enum meter_outcome counted_as;
    } cases[] = {
        {TW_OK, 200, METER_OK},
        {TW_NOT_FOUND, 404, METER_NOT_FOUND},
        {TW_CONFLICT, 412, METER_CONFLICT},
        {TW_UNKNOWN, 0, METER_UNKNOWN},
        {TW_BUSY, 503, METER_THROTTLED},
        {TW_BUSY, 429, METER_THROTTLED},
        {TW_BUSY, 500, METER_BUSY},
        {TW_BUSY, 0, METER_UNREACHABLE},
        {TW_REFUSED, 403, METER_REFUSED},
        {TW_FORBIDDEN, 403, METER_FORBIDDEN},
        {TW_INVALID, 400, METER_INVALID},
        {TW_TOO_LARGE, 413, METER_TOO_LARGE},
        {TW_STOPPED, 0, METER_STOPPED},
        {TW_FULL, 0, METER_FULL},
    };
    struct meter *meter = meter_named("outcomes");

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct exchange exchange = {.http_status = cases[i].http_status};
        uint64_t before = outcomes(meter, METER_SCAN, cases[i].counted_as);

        meter_add(meter, METER_SCAN, &exchange, cases[i].outcome, 1);
        assert_int_equal(
            outcomes(meter, METER_SCAN, cases[i].counted_as), before + 1);
        assert_true(strlen(meter_outcome_name(cases[i].counted_as)) > 0);
    }
}

TEST(a_duration_is_in_one_class)
{
    static const int64_t took_ms[] = {0, 5, 6, 30000, 30001};
    struct meter *meter = meter_named("durations");
    struct exchange exchange = {.http_status = 200};

    for (size_t i = 0; TEST_EACH(i, took_ms); i++)
        meter_add(meter, METER_GET, &exchange, TW_OK, took_ms[i]);
    assert_int_equal(class_of(meter, 0), 2);
    assert_int_equal(class_of(meter, 1), 1);
    assert_int_equal(class_of(meter, METER_BOUNDS - 1), 1);
    assert_int_equal(class_of(meter, METER_BOUNDS), 1);
    assert_int_equal(
        atomic_load(&meter->operations[METER_GET].total_ms), 60012);
}

/* A request that is refused before it is sent (table No_Table) is not
 * counted. */
TEST(each_request_of_a_store_is_counted_once)
{
    static const char *const none[] = {NULL};
    static const enum meter_operation once[] = {METER_CREATE_TABLE, METER_SCAN,
        METER_LIST_TABLES, METER_QUEUE_CREATE, METER_QUEUE_PUT,
        METER_QUEUE_PEEK, METER_QUEUE_COUNT, METER_QUEUE_GET};
    struct store *store = table_memory(none);
    struct exchange exchange = {0};
    struct messages messages;
    struct page page;
    int64_t count;

    store->meter = meter_named("each");
    page_init(&page);
    messages_init(&messages);
    assert_ok(store_create_table(store, &exchange, "Blogs"));
    assert_int_equal(store_get(store, &exchange, "Blogs", slice_of("a"),
                         slice_of("b"), &page),
        TW_NOT_FOUND);
    assert_int_equal(store_get(store, &exchange, "No_Table", slice_of("a"),
                         slice_of("b"), &page),
        TW_INVALID);
    assert_ok(store_scan(
        store, &exchange, &(struct scan_request){.table = "Blogs"}, &page));
    assert_ok(
        store_list_tables(store, &exchange, (struct continuation){0}, &page));
    assert_ok(store_queue_create(store, &exchange, "work"));
    assert_ok(
        store_queue_put(store, &exchange, "work", slice_of("x"), 0, &messages));
    assert_ok(store_queue_peek(store, &exchange, "work", 1, &messages));
    assert_ok(store_queue_count(store, &exchange, "work", &count));
    assert_ok(store_queue_get(store, &exchange, "work", 1, 60, &messages));
    assert_int_equal(outcomes(store->meter, METER_GET, METER_NOT_FOUND), 1);
    assert_int_equal(outcomes(store->meter, METER_GET, METER_INVALID), 0);
    for (size_t i = 0; TEST_EACH(i, once); i++)
        assert_int_equal(outcomes(store->meter, once[i], METER_OK), 1);
    messages_done(&messages);
    page_done(&page);
    store_close(store);
}
