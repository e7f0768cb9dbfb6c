/* SPDX-License-Identifier: MIT */
/* Goal: while nobody is there, one attempt a second leaves, whoever makes it;
 * the first answer lets all through again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/faulty.h"
#include "tests/support/table.h"
#include "tests/support/virtual_world.h"
#include "worker/base/text.h"
#include "worker/store/reach.h"

static void broken(struct reach *reach, unsigned times, int64_t now_ms)
{
    for (unsigned i = 0; i < times; i++)
        reach_note(reach, i % 2 == 0 ? TW_BUSY : TW_UNKNOWN, now_ms);
}

static void a_few_failures_stop_nobody(void **state)
{
    struct reach reach = {0};

    (void)state;
    broken(&reach, REACH_FAILURES - 1, 5000);
    assert_int_equal(reach_wait_ms(&reach, 5000), 0);
    reach_note(&reach, TW_CONFLICT, 5000); /* an answer */
    broken(&reach, REACH_FAILURES - 1, 5000);
    assert_int_equal(reach_wait_ms(&reach, 5000), 0);
}

static void in_an_outage_one_a_second_leaves(void **state)
{
    struct reach reach = {0};

    (void)state;
    broken(&reach, REACH_FAILURES, 5000);
    assert_int_equal(reach_wait_ms(&reach, 5000), 1000);
    assert_int_equal(reach_wait_ms(&reach, 5400), 600);
    assert_int_equal(reach_wait_ms(&reach, 6000), 0);
    assert_int_equal(reach_wait_ms(&reach, 6000), 1000);
    reach_note(&reach, TW_BUSY, 6900);
    assert_int_equal(reach_wait_ms(&reach, 6999), 1);
    assert_int_equal(reach_wait_ms(&reach, 9000), 0);
    assert_int_equal(reach_wait_ms(&reach, 9999), 1);
}

static void the_first_answer_ends_it(void **state)
{
    static const enum tw_err ANSWERS[] = {
        TW_OK, TW_NOT_FOUND, TW_CONFLICT, TW_REFUSED, TW_INVALID, TW_TOO_LARGE};

    (void)state;
    for (size_t i = 0; i < sizeof(ANSWERS) / sizeof(ANSWERS[0]); i++) {
        struct reach reach = {0};

        broken(&reach, 100, 5000);
        reach_note(&reach, TW_STOPPED, 5000); /* says nothing */
        reach_note(&reach, TW_FULL, 5000);
        assert_true(reach_wait_ms(&reach, 5000) > 0);
        reach_note(&reach, ANSWERS[i], 5000);
        assert_int_equal(reach_wait_ms(&reach, 5000), 0);
    }
}

/* Every call of a store looks, and what does not leave is not counted. */
static void a_store_that_nobody_answers_for_is_probed(void **state)
{
    static const char *const tables[] = {"Blogs", NULL};
    static const struct faulty_share down[] = {{FAULT_UNSENT, 1000, CALL_ALL}};
    struct attempt attempt = {.fence = NULL};
    struct faulty faulty;
    struct store *inner;
    int64_t count;

    (void)state;
    virtual_world_use(&(struct virtual_options){
        .seed = 1, .boot_ms = 5000, .wall_ticks = TICKS_1970});
    inner = table_memory(tables);
    faulty_init(&faulty, inner);
    faulty_seed(&faulty, 1, down, 1);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(
            store_queue_count(&faulty.outer.store, &attempt, "work", &count),
            TW_BUSY);
        assert_int_equal(
            store_create_table(&faulty.outer.store, &attempt, "Blogs"),
            TW_BUSY);
    }
    assert_int_equal(faulty.requests, REACH_FAILURES);
    assert_in_range(attempt.retry_after_ms, 1, REACH_PROBE_MS);
    assert_int_equal(attempt.sent_ms, 0);
    virtual_sleep(attempt.retry_after_ms);
    faulty_seed(&faulty, 1, NULL, 0);
    assert_int_equal(
        store_create_table(&faulty.outer.store, &attempt, "Blogs"), TW_OK);
    assert_int_equal(
        store_create_table(&faulty.outer.store, &attempt, "Blogs"), TW_OK);
    faulty_done(&faulty);
    store_close(inner);
    virtual_world_end();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_failures_stop_nobody),
        cmocka_unit_test(in_an_outage_one_a_second_leaves),
        cmocka_unit_test(the_first_answer_ends_it),
        cmocka_unit_test(a_store_that_nobody_answers_for_is_probed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
