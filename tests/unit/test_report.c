/* SPDX-License-Identifier: MIT */
/* What the log says of a run besides single events. */
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/workbench.h"
#include "worker/base/json.h"
#include "worker/run/report.h"

/* Returns report_args() of `text` in a static buffer; "-": report_args()
 * returned NULL. */
static const char *args_of(const char *text)
{
    static char copy[8192];
    struct arena arena;
    const char *args;

    arena_init(&arena);
    args = report_args(slice_of(text), &arena);
    (void)snprintf(copy, sizeof(copy), "%s", args ? args : "-");
    arena_done(&arena);
    return copy;
}

TEST(arguments_are_a_json_object)
{
    assert_string_equal(
        args_of("{\"a\":\"x\",\"b\":\"\"}"), "{\"a\":\"x\",\"b\":\"\"}");
    assert_string_equal(
        args_of("{\"a\":\"x\\u009b\\n\"}"), "{\"a\":\"x\\u009b\\n\"}");
}

TEST(what_is_no_object_of_texts_is_left_out)
{
    static const char *const cases[] = {"", "{}", "[\"a\"]", "{\"a\":", "7",
        "{\"a\":1}", "{\"a\":{\"b\":\"c\"}}"};

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_string_equal(args_of(cases[i]), "-");
}

TEST(long_arguments_are_cut_and_stay_json)
{
    char text[12000], value[301];
    struct json *json;
    const char *args;
    int len = 0;

    memset(value, 'v', 300);
    value[300] = '\0';
    for (int i = 0; i < 30; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len,
            "%s\"n%02d\":\"%s\"", i == 0 ? "{" : ",", i, value);
    (void)snprintf(text + len, sizeof(text) - (size_t)len, "}");
    args = args_of(text);
    assert_true(strlen(args) <= 4096);
    assert_ok(json_parse(slice_of(args), 1, &json, NULL));
    assert_true(json_count(json) > 15 && json_count(json) < 30);
    assert_int_equal(json_string(json_get(json, "n00")).len, 203);
    assert_contains(args, "v...\",\"n01\":");
    json_free(json);
}

static const struct log_run purge = {.object = "run purge/7f3a"};

/* Logs two minutes of a run, in which the service refuses `throttled` requests
 * every 5 s. Returns the number of logged lines that contain `text`. */
static unsigned two_minutes(int32_t throttled, double share, const char *text)
{
    struct ledger_run run;
    struct report report;

    ledger_run_init(&run);
    report_begin(&report, &run, 1000);
    workbench_log_begin();
    for (int64_t at_ms = 5000; at_ms <= 120000; at_ms += 5000) {
        run.read += 500;
        run.deleted += 250;
        run.transactions += 20;
        run.throttled += throttled;
        run.share = share;
        report_progress(&report, &purge, &run, 1000 + at_ms);
    }
    ledger_run_done(&run);
    return workbench_log_end(text);
}

TEST(progress_has_share_rate_and_counts)
{
    assert_int_equal(
        two_minutes(0, 0.256, "progress: 25 %, 100 entities/s: "), 2);
    assert_int_equal(two_minutes(0, 0.256,
                         "12000 read, 0 written, 6000 deleted, 0 skipped, 480 "
                         "requests"),
        1);
    /* without a share */
    assert_int_equal(two_minutes(0, -1, "progress: 100 entities/s: "), 2);
    assert_int_equal(two_minutes(0, 1e300, "progress: 100 entities/s: "), 2);
}

TEST(throttling_is_logged_at_once_and_then_once_a_minute)
{
    assert_int_equal(two_minutes(0, -1, "throttled"), 0);
    assert_int_equal(
        two_minutes(3, -1, "is throttled: the service refused 3 of 20 "), 1);
    assert_int_equal(
        two_minutes(3, -1, "is throttled: the service refused 36 of 240 "), 1);
    assert_int_equal(two_minutes(3, -1, "is throttled: "), 2);
}
