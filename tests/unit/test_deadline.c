/* SPDX-License-Identifier: MIT */
/* The deadline: a request starts only if it will be over before the lease of
 * its run expires. */
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/lease_clock.h"
#include "worker/store/store.h"

static struct deadline deadline;

TEST(opens_while_a_whole_request_fits)
{
    deadline_init(&deadline, 100000, 5000);
    assert_true(deadline_is_open(&deadline, 0));
    assert_true(deadline_is_open(&deadline, 95000));
    assert_false(deadline_is_open(&deadline, 95001));
    assert_false(deadline_is_open(&deadline, 200000));
    assert_int_equal(deadline_timeout_ms(&deadline), 5000);
    deadline_move(&deadline, 200000);
    assert_true(deadline_is_open(&deadline, 195000));
    deadline_move(&deadline, 50000);
    assert_false(deadline_is_open(&deadline, 45001));
}

TEST(stays_shut_for_good)
{
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    assert_true(deadline_is_open(&deadline, INT64_MAX - 1));
    deadline_close(&deadline);
    deadline_move(&deadline, PLATFORM_NEVER);
    assert_false(deadline_is_open(&deadline, 0));
}

TEST(may_reopen_while_the_lease_stands_and_it_is_not_shut)
{
    assert_true(deadline_is_open(NULL, INT64_MAX));
    assert_false(deadline_may_reopen(NULL, 0));
    deadline_init(&deadline, 10000, 5000);
    assert_false(deadline_is_open(&deadline, 9999));
    assert_true(deadline_may_reopen(&deadline, 9999));
    assert_false(deadline_may_reopen(&deadline, 10000));
    deadline_close(&deadline);
    assert_false(deadline_may_reopen(&deadline, 9999));
}

TEST(closes_while_responses_say_so)
{
    static const struct store ledger, other;
    struct lease_response first = {TICKS_PER_S, 1, 2},
                          later = {60 * TICKS_PER_S, 3, 4};
    struct lease_clock clock;
    struct lease_mark mark;
    struct deadline renewals;

    lease_clock_init(&clock, &ledger, 6000);
    deadline_init(&deadline, 10000, 5000);
    deadline_init(&renewals, 10000, 5000);
    deadline_watch(&deadline, &clock, false);
    deadline_watch(&renewals, &clock, true);
    assert_true(deadline_is_open(&deadline, 0));
    lease_clock_note(&clock, &other, &first);
    lease_clock_note(&clock, &other, &later);
    assert_false(deadline_is_open(&deadline, 0));
    assert_true(deadline_may_reopen(&deadline, 0));
    assert_true(deadline_is_open(&renewals, 0));
    mark = lease_clock_mark(&clock);
    lease_clock_renew(&clock, &mark, 60 * TICKS_PER_S);
    assert_true(deadline_is_open(&deadline, 0));
    lease_clock_note(&clock, &ledger, &later);
    assert_false(deadline_is_open(&deadline, 0));
    assert_false(deadline_may_reopen(&deadline, 0));
    assert_false(deadline_is_open(&renewals, 0));
}

TEST(gives_a_request_a_quarter_of_the_lease)
{
    assert_int_equal(deadline_timeout_ms(NULL), DEADLINE_REQUEST_MAX_MS);
    assert_int_equal(deadline_request_ms(60000), 15000);
    assert_int_equal(deadline_request_ms(2000), DEADLINE_REQUEST_MIN_MS);
    assert_int_equal(deadline_request_ms(INT64_C(604800000)), 35000);
    deadline_init(&deadline, PLATFORM_NEVER, 1);
    assert_int_equal(deadline_timeout_ms(&deadline), DEADLINE_REQUEST_MIN_MS);
    deadline_init(&deadline, PLATFORM_NEVER, 99000);
    assert_int_equal(deadline_timeout_ms(&deadline), DEADLINE_REQUEST_MAX_MS);
}
