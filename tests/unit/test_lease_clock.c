/* SPDX-License-Identifier: MIT */
/* A pause of the machine shows in the Date of responses. Nothing else counts as
 * a pause. */
#include "tests/support/test.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/lease_clock.h"
#include "worker/store/store.h"

#define VISIBILITY_MS 6000
#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)
/* What the clock of the ledger's service showed when the machine was booted. */
#define BOOT_MS (INT64_C(2026) * YEAR_MS)

static const struct store ledger, others[LEASE_CLOCK_STORES];

/* Notes a response of a server whose clock shows at_ms. The Date has whole
 * seconds. */
static void respond(struct lease_clock *clock, const struct store *store,
    int64_t at_ms, int64_t sent_ms, int64_t answered_ms)
{
    lease_clock_note(clock, store,
        &(struct lease_response){.date_ticks = at_ms / 1000 * TICKS_PER_S,
            .sent_ms = sent_ms,
            .answered_ms = answered_ms});
}

static void begin(struct lease_clock *clock)
{
    lease_clock_init(clock, &ledger, VISIBILITY_MS);
}

TEST_FIXTURE(clock, struct lease_clock, begin, TEST_NOTHING)

#define CLOCK_TEST(name)                                                       \
    TEST_WITH(name, clock_set_up, clock_tear_down, struct lease_clock *clock)

static void take_until(struct lease_clock *clock, int64_t until_ms)
{
    lease_clock_take(clock, until_ms / 1000 * TICKS_PER_S);
}

CLOCK_TEST(a_lease_is_over_when_its_ledger_says_so)
{
    struct lease_mark before = lease_clock_mark(clock);

    assert_false(lease_clock_is_over(clock));
    take_until(clock, BOOT_MS + 9000);
    respond(clock, &ledger, BOOT_MS + 8999, 1, 2);
    assert_false(lease_clock_is_over(clock));
    respond(clock, &others[0], BOOT_MS + YEAR_MS, 1, 2);
    assert_false(lease_clock_is_over(clock));
    respond(clock, &ledger, BOOT_MS + 9000, 1, 2);
    assert_true(lease_clock_is_over(clock));
    /* The lease stays over, even if another server, whose clock is behind,
     * responds. */
    respond(clock, &ledger, BOOT_MS + 7000, 1, 2);
    assert_true(lease_clock_is_over(clock));
    lease_clock_renew(clock, &before, (BOOT_MS / 1000 + 10) * TICKS_PER_S);
    assert_false(lease_clock_is_over(clock));
}

/* The service's clock is set back by an hour, so the next lease that is stored
 * ends before times that the clock has already shown. */
CLOCK_TEST(a_ledger_whose_clock_is_set_back_costs_nothing)
{
    struct lease_mark mark;
    int64_t back_ms = BOOT_MS - 3600000;

    take_until(clock, BOOT_MS + 9000);
    respond(clock, &ledger, BOOT_MS, 1, 2);
    mark = lease_clock_mark(clock);
    respond(clock, &ledger, back_ms + 2000, 2001, 2002);
    lease_clock_renew(clock, &mark, (back_ms / 1000 + 11) * TICKS_PER_S);
    assert_false(lease_clock_is_over(clock));
    assert_false(lease_clock_in_doubt(clock));
    respond(clock, &ledger, back_ms + 10000, 10001, 10002);
    assert_false(lease_clock_is_over(clock));
    respond(clock, &ledger, back_ms + 11000, 11001, 11002);
    assert_true(lease_clock_is_over(clock));
}

/* A Date that came while the renewal was in flight still counts. */
CLOCK_TEST(a_lease_that_was_over_when_it_was_stored_is_over)
{
    struct lease_mark mark;

    take_until(clock, BOOT_MS + 9000);
    respond(clock, &ledger, BOOT_MS, 1, 2);
    mark = lease_clock_mark(clock);
    respond(clock, &ledger, BOOT_MS + 60000, 3, 4);
    lease_clock_renew(clock, &mark, (BOOT_MS / 1000 + 11) * TICKS_PER_S);
    assert_true(lease_clock_is_over(clock));
}

/* Renews the lease as a worker does. It then ends at until_ms on the service's
 * clock. */
static void renew_until(struct lease_clock *clock, int64_t until_ms)
{
    struct lease_mark mark = lease_clock_mark(clock);

    lease_clock_renew(clock, &mark, until_ms / 1000 * TICKS_PER_S);
}

/* A clock that runs steadily raises no doubt, however wrong it is. The test
 * simulates 3 days with servers whose clocks differ by 2 s, responses that take
 * up to a second, and an oscillator that is fast by 500 in a million. The
 * ledger's clock is wrong by the same amount as the store's, in the other
 * direction. */
CLOCK_TEST(a_clock_that_runs_steadily_raises_no_doubt)
{
    static const int64_t WRONG_MS[] = {
        -YEAR_MS, -600000, 0, 1500, 600000, YEAR_MS};

    for (size_t i = 0; TEST_EACH(i, WRONG_MS); i++) {
        begin(clock);
        for (int64_t ms = 1; ms < INT64_C(3) * 24 * 3600 * 1000; ms += 617) {
            int64_t server_ms = ms / 617 % 3 * 1000; /* 0, 1, 2 s ahead */
            int64_t takes_ms = ms % 1000;
            int64_t shown_ms = server_ms + ms + ms / 2000 + takes_ms * (ms % 2);

            respond(clock, &others[1], BOOT_MS + WRONG_MS[i] + shown_ms, ms,
                ms + takes_ms);
            respond(clock, &ledger, BOOT_MS - WRONG_MS[i] + shown_ms, ms,
                ms + takes_ms);
            assert_false(lease_clock_in_doubt(clock));
            assert_false(lease_clock_is_over(clock));
            renew_until(
                clock, BOOT_MS - WRONG_MS[i] + shown_ms + 3000 + VISIBILITY_MS);
        }
    }
}

/* A renewal is stored at 10 s. Then the machine is paused, and the ledger no
 * longer responds. Either another store shows the pause, or the pause is short.
 * A short pause is shorter than these two times together: the time of a
 * request, which the deadline keeps free, and 3 s, by which the lease is longer
 * than the deadline. */
CLOCK_TEST(no_pause_moves_a_request_behind_a_long_lease)
{
    static const int64_t TIMEOUTS_MS[] = {
        12000, 60000, 140000, 300000, 3600000, 7 * 24 * 3600000LL};

    for (size_t i = 0; TEST_EACH(i, TIMEOUTS_MS); i++)
        for (int64_t pause_ms = 500; pause_ms < TIMEOUTS_MS[i] / 5;
             pause_ms += 500) {
            int64_t until_ms = BOOT_MS + 10000 + 3000 + TIMEOUTS_MS[i];
            struct deadline deadline;
            int64_t last_ms;

            lease_clock_init(clock, &ledger, TIMEOUTS_MS[i]);
            deadline_init(&deadline, 10000 + TIMEOUTS_MS[i],
                deadline_request_ms(TIMEOUTS_MS[i]));
            deadline_watch(&deadline, clock, false);
            lease_clock_take(clock, until_ms * TICKS_PER_MS);
            respond(clock, &ledger, BOOT_MS + 10000, 10000, 10001);
            respond(clock, &others[0], BOOT_MS + 10500, 10500, 10501);
            respond(
                clock, &others[0], BOOT_MS + 11000 + pause_ms, 11000, 11001);
            /* The last time at which a request may start, by the worker's
             * clock. The true time is later by pause_ms. */
            last_ms = 10000 + TIMEOUTS_MS[i] - deadline.request_ms;
            if (deadline_is_open(&deadline, last_ms))
                assert_true(BOOT_MS + last_ms + pause_ms <= until_ms);
            if (pause_ms > 40000)
                pause_ms += TIMEOUTS_MS[i] / 100;
        }
}

/* After a few responses of each server, any store shows any pause that is long
 * enough: longer than the sum of a second, the time of a response, and the
 * difference between the servers' clocks. */
CLOCK_TEST(any_store_shows_a_pause)
{
    for (unsigned i = 0; i < LEASE_CLOCK_STORES - 1; i++) {
        begin(clock);
        for (int64_t ms = 1; ms < 10000; ms += 99)
            for (unsigned k = 0; k < LEASE_CLOCK_STORES - 1; k++)
                respond(clock, &others[k],
                    BOOT_MS + k * YEAR_MS + ms / 99 % 2 * 2000 + ms, ms, ms);
        respond(clock, &others[i], BOOT_MS + i * YEAR_MS + 10000 + 2000, 10000,
            10000);
        assert_false(lease_clock_in_doubt(clock));
        respond(clock, &others[i], BOOT_MS + i * YEAR_MS + 10000 + 3200, 10000,
            10000);
        assert_true(lease_clock_in_doubt(clock));
    }
}

/* The possible drift of the clocks in a minute is much less than a pause. */
CLOCK_TEST(a_pause_after_a_quiet_minute_is_seen)
{
    for (int64_t ms = 1; ms < 10000; ms += 99)
        respond(clock, &others[0], BOOT_MS + ms, ms, ms);
    respond(clock, &others[0], BOOT_MS + 70000 + 4000, 70000, 70000);
    assert_true(lease_clock_in_doubt(clock));
}

/* CLOCK_BOOTTIME advances while the machine is suspended, so the deadline ends
 * the lease. */
CLOCK_TEST(a_suspended_machine_raises_no_doubt)
{
    static const int64_t night_ms = INT64_C(14) * 3600 * 1000;

    take_until(clock, BOOT_MS + 9000);
    respond(clock, &others[0], BOOT_MS, 1, 2);
    respond(clock, &ledger, BOOT_MS, 1, 2);
    respond(clock, &others[0], BOOT_MS + night_ms, night_ms + 1, night_ms + 2);
    assert_false(lease_clock_in_doubt(clock));
    assert_false(lease_clock_is_over(clock));
    respond(clock, &ledger, BOOT_MS + night_ms, night_ms + 1, night_ms + 2);
    assert_false(lease_clock_in_doubt(clock));
    assert_true(lease_clock_is_over(clock));
}

/* The Date of one response is wrong by an hour, all others are right. */
CLOCK_TEST(a_single_wrong_date_costs_a_renewal)
{
    for (int64_t wrong_ms = -3600000; wrong_ms <= 3600000;
         wrong_ms += 7200000) {
        begin(clock);
        for (int64_t ms = 1; ms < 60000; ms += 100) {
            respond(clock, &others[0],
                BOOT_MS + ms + (ms == 30001 ? wrong_ms : 0), ms, ms + 1);
            if (lease_clock_in_doubt(clock))
                renew_until(clock, BOOT_MS + YEAR_MS);
        }
        assert_int_equal(lease_clock_mark(clock).jumps, 1);
        assert_false(lease_clock_is_over(clock));
    }
}

/* Every other response comes from a server whose clock is a minute behind. Such
 * a response may cost a renewal, but the clock does not stay in doubt. */
CLOCK_TEST(servers_that_disagree_never_stop_a_run)
{
    unsigned open = 0, renewals = 0;

    for (int64_t ms = 1; ms < 60000; ms += 100) {
        bool renews = lease_clock_in_doubt(clock);
        struct lease_mark mark = lease_clock_mark(clock);

        respond(clock, &ledger, BOOT_MS + ms - (ms / 100 % 2 ? 60000 : 0), ms,
            ms + 1);
        if (renews)
            lease_clock_renew(clock, &mark, INT64_MAX);
        renewals += renews;
        open += !lease_clock_in_doubt(clock);
    }
    assert_true(renewals > 0);
    assert_true(open >= 300);
}

/* A response that was sent before the pause is noted after the pause was shown.
 * The next response shows the pause again. */
CLOCK_TEST(a_late_answer_of_before_the_pause_hides_nothing)
{
    respond(clock, &ledger, BOOT_MS, 1, 2);
    respond(clock, &ledger, BOOT_MS + 60000, 3, 4);
    assert_true(lease_clock_in_doubt(clock));
    assert_true(lease_clock_ledger_ms(clock, 4) >= BOOT_MS + 60000);
    respond(clock, &ledger, BOOT_MS, 2, 5);
    renew_until(clock, BOOT_MS + YEAR_MS);
    respond(clock, &ledger, BOOT_MS + 60000, 6, 7);
    assert_true(lease_clock_in_doubt(clock));
    assert_true(lease_clock_ledger_ms(clock, 7) >= BOOT_MS + 60000);
}

CLOCK_TEST(only_a_renewal_sent_afterwards_ends_the_doubt)
{
    struct lease_mark before = lease_clock_mark(clock), after;

    respond(clock, &ledger, BOOT_MS, 1, 2);
    respond(clock, &ledger, BOOT_MS + 60000, 3, 4);
    lease_clock_renew(clock, &before, INT64_MAX);
    assert_true(lease_clock_in_doubt(clock));
    after = lease_clock_mark(clock);
    lease_clock_renew(clock, &after, INT64_MAX);
    assert_false(lease_clock_in_doubt(clock));
}

/* A longer lease leaves time for larger differences: servers whose clocks
 * differ by 10 s do not cost a renewal. */
CLOCK_TEST(a_long_lease_tolerates_worse_clocks)
{
    lease_clock_init(clock, &ledger, 60000);
    for (int64_t ms = 1; ms < 60000; ms += 50)
        respond(clock, &others[0], BOOT_MS + ms / 50 % 2 * 10000 + ms, ms, ms);
    assert_false(lease_clock_in_doubt(clock));
    respond(clock, &others[0], BOOT_MS + 60000 + 11200, 60000, 60000);
    assert_true(lease_clock_in_doubt(clock));
}

CLOCK_TEST(of_more_stores_than_it_knows_it_says_nothing)
{
    for (unsigned i = 0; i < LEASE_CLOCK_STORES; i++)
        respond(clock, &others[i], BOOT_MS, 1, 2);
    respond(clock, &ledger, BOOT_MS, 1, 2);
    respond(clock, &ledger, BOOT_MS + 60000, 3, 4);
    assert_false(lease_clock_in_doubt(clock));
    take_until(clock, BOOT_MS + 60000);
    assert_true(
        lease_clock_is_over(clock)); /* this needs no earlier response */
}
