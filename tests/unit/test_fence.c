/* SPDX-License-Identifier: MIT */
/* The fence: nothing starts that could outlast its run's lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/fence.h"
#include "worker/store/lease_clock.h"
#include "worker/store/store.h"

static void opens_while_a_whole_request_fits(void **state)
{
    struct fence fence;

    (void)state;
    fence_init(&fence, 100000, 5000);
    assert_true(fence_open(&fence, 0));
    assert_true(fence_open(&fence, 95000));
    assert_false(fence_open(&fence, 95001));
    assert_false(fence_open(&fence, 200000));
    assert_int_equal(fence_timeout_ms(&fence), 5000);
}

static void moves_in_either_direction(void **state)
{
    struct fence fence;

    (void)state;
    fence_init(&fence, 10000, 1000);
    fence_move(&fence, 20000);
    assert_true(fence_open(&fence, 15000));
    fence_move(&fence, 5000);
    assert_false(fence_open(&fence, 4500));
}

static void stays_shut_for_good(void **state)
{
    struct fence fence;

    (void)state;
    fence_init(&fence, PLATFORM_NEVER, 1000);
    assert_true(fence_open(&fence, INT64_MAX - 1));
    fence_shut(&fence);
    fence_move(&fence, PLATFORM_NEVER);
    assert_false(fence_open(&fence, 0));
}

static void is_open_where_there_is_none(void **state)
{
    (void)state;
    assert_true(fence_open(NULL, INT64_MAX));
    assert_int_equal(fence_timeout_ms(NULL), FENCE_REQUEST_MAX_MS);
}

static void may_reopen_while_the_lease_stands_and_it_is_not_shut(void **state)
{
    struct fence fence;

    (void)state;
    assert_false(fence_may_reopen(NULL, 0));
    fence_init(&fence, 10000, 5000);
    assert_false(fence_open(&fence, 9999));
    assert_true(fence_may_reopen(&fence, 9999));
    assert_false(fence_may_reopen(&fence, 10000));
    fence_shut(&fence);
    assert_false(fence_may_reopen(&fence, 9999));
}

static void closes_while_responses_say_so(void **state)
{
    static const struct store ledger, other;
    struct lease_response first = {TICKS_PER_S, 1, 2},
                          later = {60 * TICKS_PER_S, 3, 4};
    struct lease_clock clock;
    struct lease_mark mark;
    struct fence fence, renewals;

    (void)state;
    lease_clock_init(&clock, &ledger, 6000);
    fence_init(&fence, 10000, 5000);
    fence_init(&renewals, 10000, 5000);
    fence_watch(&fence, &clock, false);
    fence_watch(&renewals, &clock, true);
    assert_true(fence_open(&fence, 0));
    lease_clock_note(&clock, &other, &first);
    lease_clock_note(&clock, &other, &later);
    assert_false(fence_open(&fence, 0));
    assert_true(fence_may_reopen(&fence, 0));
    assert_true(fence_open(&renewals, 0));
    mark = lease_clock_mark(&clock);
    lease_clock_renew(&clock, &mark, 60 * TICKS_PER_S);
    assert_true(fence_open(&fence, 0));
    lease_clock_note(&clock, &ledger, &later);
    assert_false(fence_open(&fence, 0));
    assert_false(fence_may_reopen(&fence, 0));
    assert_false(fence_open(&renewals, 0));
}

static void gives_a_request_a_quarter_of_the_lease(void **state)
{
    struct fence fence;

    (void)state;
    assert_int_equal(fence_request_ms(60000), 15000);
    assert_int_equal(fence_request_ms(2000), FENCE_REQUEST_MIN_MS);
    assert_int_equal(fence_request_ms(INT64_C(604800000)), 35000);
    fence_init(&fence, PLATFORM_NEVER, 1);
    assert_int_equal(fence_timeout_ms(&fence), FENCE_REQUEST_MIN_MS);
    fence_init(&fence, PLATFORM_NEVER, 99000);
    assert_int_equal(fence_timeout_ms(&fence), FENCE_REQUEST_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_while_a_whole_request_fits),
        cmocka_unit_test(moves_in_either_direction),
        cmocka_unit_test(stays_shut_for_good),
        cmocka_unit_test(is_open_where_there_is_none),
        cmocka_unit_test(closes_while_responses_say_so),
        cmocka_unit_test(gives_a_request_a_quarter_of_the_lease),
        cmocka_unit_test(may_reopen_while_the_lease_stands_and_it_is_not_shut),
    };

    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
