/* SPDX-License-Identifier: MIT */
/* Windows of requests in flight, and how long a retry waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/store/pace.h"

/* One round of successes: as many as the window allows. */
static void succeed_once_around(struct pace_window *window)
{
    for (unsigned n = window->limit; n > 0; n--) {
        pace_started(window);
        pace_ended(window, 0, 0, 0);
    }
}

static void window_opens_at_a_part_of_its_ceiling(void **state)
{
    struct pace_window window;

    (void)state;
    pace_window_init(&window, 32);
    assert_int_equal(window.limit, 8);
    pace_window_init(&window, 2);
    assert_int_equal(window.limit, 2);
}

static void window_rises_by_one_a_round_up_to_its_ceiling(void **state)
{
    struct pace_window window;

    (void)state;
    pace_window_init(&window, 10);
    for (unsigned limit = 5; limit <= 10; limit++) {
        succeed_once_around(&window);
        assert_int_equal(window.limit, limit);
    }
    succeed_once_around(&window);
    assert_int_equal(window.limit, 10);
    assert_int_equal(window.in_flight, 0);
}

static void window_halves_once_for_all_that_was_in_flight(void **state)
{
    struct pace_window window;

    (void)state;
    pace_window_init(&window, 32);
    for (int i = 0; i < 8; i++)
        pace_started(&window);
    for (int i = 0; i < 8; i++)
        pace_ended(&window, 1, 1000, 1010 + i);
    assert_int_equal(window.limit, 4);
    pace_started(&window);
    pace_ended(&window, 1, 2000, 2010);
    assert_int_equal(window.limit, 2);
}

static void window_never_closes(void **state)
{
    struct pace_window window;

    (void)state;
    pace_window_init(&window, 8);
    for (int64_t at = 1; at < 20; at++) {
        pace_started(&window);
        pace_ended(&window, 1, at * 10, at * 10 + 5);
    }
    assert_int_equal(window.limit, 1);
}

static void delay_stays_below_a_doubling_limit(void **state)
{
    (void)state;
    for (unsigned tries = 1; tries < 12; tries++) {
        int64_t limit_ms = (int64_t)PACE_BASE_MS << (tries - 1);

        if (limit_ms > PACE_CAP_MS)
            limit_ms = PACE_CAP_MS;
        assert_int_equal(
            pace_delay_ms(tries, (uint64_t)limit_ms, -1), limit_ms);
        assert_int_equal(pace_delay_ms(tries, 0, -1), 0);
        assert_true(pace_delay_ms(tries, UINT64_MAX, -1) <= limit_ms);
    }
}

static void delay_is_what_the_server_asks(void **state)
{
    (void)state;
    assert_int_equal(pace_delay_ms(1, 12345, 7000), 7000);
    assert_int_equal(pace_delay_ms(4, 12345, 0), 0);
    assert_int_equal(pace_delay_ms(1, 0, INT64_MAX), 60 * 60 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_opens_at_a_part_of_its_ceiling),
        cmocka_unit_test(window_rises_by_one_a_round_up_to_its_ceiling),
        cmocka_unit_test(window_halves_once_for_all_that_was_in_flight),
        cmocka_unit_test(window_never_closes),
        cmocka_unit_test(delay_stays_below_a_doubling_limit),
        cmocka_unit_test(delay_is_what_the_server_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
