/* SPDX-License-Identifier: MIT */
/* When a storage call is retried: the waits, and what counts as a try. */
#include "tests/support/test.h"
#include "worker/store/retry.h"

#define MINUTE_MS (60 * 1000)

static void check_limits(bool responded, const int64_t limits_ms[RETRY_TRIES])
{
    for (unsigned tries = 1; tries <= RETRY_TRIES; tries++) {
        int64_t limit_ms = limits_ms[tries - 1];

        assert_int_equal(retry_backoff_ms(tries, responded, 0, -1), 0);
        assert_int_equal(
            retry_backoff_ms(tries, responded, (uint64_t)limit_ms, -1),
            limit_ms);
        assert_int_equal(
            retry_backoff_ms(tries, responded, (uint64_t)limit_ms + 1, -1), 0);
    }
    assert_int_equal(retry_backoff_ms(1000000, responded, 6400, -1), 6400);
}

TEST(waits_are_random_below_a_limit_that_grows)
{
    static const int64_t silent_ms[] = {
        800, 1600, 3200, 6400, 6400, 6400, 6400};
    static const int64_t responded_ms[] = {8, 64, 512, 4096, 6400, 6400, 6400};

    check_limits(false, silent_ms);
    check_limits(true, responded_ms);
}

TEST(what_the_service_asks_for_wins)
{
    assert_int_equal(retry_backoff_ms(1, true, 49, 0), 0);
    assert_int_equal(retry_backoff_ms(5, true, 49, 70), 70);
    assert_int_equal(retry_backoff_ms(1, true, 49, 30000), 30000);
}

TEST(no_service_may_ask_for_more_than_a_minute)
{
    assert_int_equal(retry_backoff_ms(1, true, 0, MINUTE_MS), MINUTE_MS);
    assert_int_equal(retry_backoff_ms(1, true, 0, INT64_MAX), MINUTE_MS);
}

TEST(a_throttled_try_does_not_count)
{
    struct retry retry = {0};
    struct exchange busy = {.http_status = 503}, silent = {.http_status = 0};

    for (int i = 0; i < 100; i++) {
        busy.http_status = i % 2 ? 429 : 503;
        retry_begin(&retry);
        assert_true(retry_may_follow(&retry, &busy));
    }
    for (int i = 1; i < RETRY_TRIES; i++) {
        retry_begin(&retry);
        assert_true(retry_may_follow(&retry, &silent));
    }
    retry_begin(&retry);
    assert_false(retry_may_follow(&retry, &silent));
}
