/* SPDX-License-Identifier: MIT */
/* The samples that the dashboard plots. */
#include "tests/support/test.h"
#include "worker/base/text.h"
#include "worker/monitor/history.h"

#define MAX_BYTES 100000

static struct history *history;
static struct buf text;

static int begin(void **state)
{
    history = history_new();
    buf_init(&text, MAX_BYTES);
    return 0;
}

static int end(void **state)
{
    history_free(history);
    buf_done(&text);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, begin, end)

static void add(int64_t entities, int64_t refusals, int64_t s)
{
    history_add(history, &(struct history_totals){entities, refusals}, s * 1000,
        TICKS_1970 + s * TICKS_PER_S);
}

static const char *json(void)
{
    buf_clear(&text);
    history_add_json(history, &text);
    return buf_text(&text);
}

FIXTURE_TEST(a_sample_is_what_was_done_since_the_last)
{
    add(1000, 5, 100);
    assert_string_equal(json(), "{\"EverySeconds\":10,\"Samples\":[]}");
    add(1500, 7, 110);
    add(1500, 7, 130);
    assert_string_equal(json(), "{\"EverySeconds\":10,\"Samples\":["
                                "[110000,50.0,2],[130000,0.0,0]]}");
}

FIXTURE_TEST(totals_that_start_over_are_no_sample_below_zero)
{
    add(1000, 5, 100);
    add(10, 1, 110);
    add(110, 1, 120);
    assert_string_equal(json(), "{\"EverySeconds\":10,\"Samples\":["
                                "[110000,0.0,0],[120000,10.0,0]]}");
}

FIXTURE_TEST(an_hour_is_kept_and_no_more)
{
    size_t count = 0;

    for (int64_t i = 0; i <= HISTORY_SAMPLES + 5; i++)
        add(0, i, 10 * i);
    for (const char *at = json(); (at = strchr(at, '[')) != NULL; at++)
        count++;
    assert_int_equal(count, HISTORY_SAMPLES + 1); /* + 1: the list itself */
    assert_contains(json(), "\"Samples\":[[60000,0.0,1],");
    assert_contains(json(), "[3650000,0.0,1]]}");
}
