/* SPDX-License-Identifier: MIT */
/* How `status` lays out runs, and the command that continues one. */
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/text.h"
#include "worker/cli/one_run.h"
#include "worker/cli/say.h"
#include "worker/cli/status_print.h"

#define NOW (INT64_C(639000000000000000))

static struct ledger_run run;
static struct buf text;

static int begin(void **state)
{
    ledger_run_init(&run);
    run.job = slice_of("delete-channel");
    run.id = slice_of("r1");
    run.behind = -1;
    run.parent_found = -1;
    run.share = -1;
    buf_init(&text, 100000);
    return 0;
}

static int end(void **state)
{
    ledger_run_done(&run);
    buf_done(&text);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, begin, end)

static const char *run_text(void)
{
    buf_clear(&text);
    status_add_run(&run, NOW, &text);
    return buf_text(&text);
}

static void assert_run_says(const char *line)
{
    assert_contains(run_text(), line);
}

static void assert_table_says(const char *part)
{
    struct runs runs = {.list = &run, .count = 1};

    buf_clear(&text);
    status_add_table(&runs, NOW, &text);
    assert_contains(buf_text(&text), part);
}

/* Makes the run one that has worked for `seconds` and renewed its lease 3 s
 * ago. */
static void make_running(int64_t seconds)
{
    run.state = LEDGER_RUNNING;
    run.started_ticks = NOW - (seconds + 3) * TICKS_PER_S;
    run.updated_ticks = NOW - 3 * TICKS_PER_S;
    run.deleted = 5000;
    run.share = 0.25;
}

FIXTURE_TEST(a_run_that_waits_says_for_what)
{
    run.state = LEDGER_WAITING;
    run.waits_for = slice_of(LEDGER_WAITS_FOR_TURN);
    run.waits_since_ticks = NOW - 60 * TICKS_PER_S;
    assert_run_says("state          waiting: turn\n");
    assert_run_says("waits since    2025");
    assert_table_says("r1  waiting: turn  ");
    run.waits_for = slice_of(LEDGER_WAITS_FOR_STORE);
    assert_run_says("state          held: store\n");
    run.waits_for = slice_of("");
    assert_run_says("state          waiting\n");
}

FIXTURE_TEST(a_newer_versions_state_is_shown_as_it_is)
{
    run.state = LEDGER_NEWER;
    run.state_name = slice_of("dreaming");
    assert_run_says("state          dreaming\n");
}

FIXTURE_TEST(a_running_run_says_how_far_it_is)
{
    make_running(100);
    assert_run_says("share          25.0 %\n");
    assert_run_says("rate           50.0/s\n");
    assert_run_says("time left      5 min\n");
    assert_run_says("lease          renewed 3 s ago\n");
    assert_table_says("  5,000  25 %   50/s  5 min  3 s  ");
}

FIXTURE_TEST(a_pause_is_no_part_of_the_rate)
{
    make_running(40100);
    run.idle_s = 40000;
    assert_table_says("  5,000  25 %   50/s  5 min  3 s  ");
}

FIXTURE_TEST(a_lease_says_whether_its_worker_is_alive)
{
    make_running(97);
    run.owner = slice_of("abc");
    run.worker = slice_of("host:77");
    run.lease_until_ticks = NOW + 57 * TICKS_PER_S;
    assert_run_says("worker         host:77\n");
    assert_run_says("lease          renewed 3 s ago, expires in 57 s\n");
    assert_run_says("time left");
    run.updated_ticks = NOW - 90 * TICKS_PER_S;
    run.lease_until_ticks = NOW - 30 * TICKS_PER_S;
    assert_run_says("lease          renewed 90 s ago, expired 30 s ago: its "
                    "worker was killed");
    assert_table_says("  expired  ");
    assert_null(strstr(buf_text(&text), "min"));
}

/* The share is that of one round. A later round may end at once, so no
 * remaining time is shown. */
FIXTURE_TEST(no_share_is_promised_after_the_first_round)
{
    make_running(100);
    run.share = 0.999;
    run.rounds = 1;
    assert_run_says("share          99.9 %\n");
    assert_run_says("time left");
    assert_table_says("  99 %  ");
    run.rounds = 2;
    assert_null(strstr(run_text(), "time left"));
    assert_table_says("r1  running");
    assert_null(strstr(buf_text(&text), "%"));
}

FIXTURE_TEST(a_share_is_never_over_all)
{
    run.state = LEDGER_RUNNING;
    run.share = 1.5;
    assert_table_says("r1  running");
    assert_null(strstr(buf_text(&text), "%"));
}

FIXTURE_TEST(a_throttled_run_says_so_in_the_table)
{
    run.state = LEDGER_RUNNING;
    run.throttled = 12;
    run.transactions = 3400;
    run.note = slice_of("the parent did not exist");
    assert_table_says("  throttled: 12 of 3400 requests\n");
    run.error = slice_of("no such table");
    assert_table_says("  no such table\n");
    run.error = slice_of("");
    run.state = LEDGER_SUCCEEDED;
    assert_table_says("  the parent did not exist\n");
    assert_run_says("note           the parent did not exist\n");
    run.error = slice_of("no such table");
    assert_table_says("  no such table\n");
}

FIXTURE_TEST(what_is_not_known_is_left_out)
{
    static const char *const LINES[] = {"share", "rate", "time left", "lease",
        "behind", "caught up", "parent found", "note", "error", "throttled"};

    for (size_t i = 0; TEST_EACH(i, LINES); i++)
        assert_null(strstr(run_text(), LINES[i]));
    run.behind = 0;
    run.caught_up_ticks = NOW;
    run.parent_found = 0;
    run.throttled = 2;
    assert_run_says("behind         0\n");
    assert_run_says("caught up to   2025");
    assert_run_says("parent found   no\n");
    assert_run_says("throttled      2\n");
}

FIXTURE_TEST(arguments_are_shown_as_they_are_typed)
{
    run.args = slice_of("{\"channel\":\"Foot ball\",\"x\":\"\"}");
    assert_table_says("  channel=Foot ball x=  ");
    run.args = slice_of("{broken");
    assert_table_says("  {broken  ");
}

FIXTURE_TEST(columns_stand_below_each_other)
{
    const char *line;
    long column;

    run.args = slice_of("{\"channel\":\"Fußball\"}");
    assert_table_says("channel=Fußball");
    column = strstr(buf_text(&text), "REQUESTED") - buf_text(&text);
    line = strchr(buf_text(&text), '\n') + 1;
    assert_int_equal(line[column + 1], '-'); /* ß has two bytes */
}

FIXTURE_TEST(a_run_is_continued_by_a_command_for_a_shell)
{
    run.args = slice_of("{\"a\":\"it's $HOME\",\"b\":\"\"}");
    one_run_add_command(&run, &text);
    assert_string_equal(buf_text(&text),
        "tableward run delete-channel a='it'\\''s $HOME' b='' --id r1");
}

FIXTURE_TEST(an_age_is_said_in_its_largest_unit)
{
    static const struct {
        int64_t seconds;
        const char *said;
    } AGES[] = {{-5, "0 s"}, {0, "0 s"}, {119, "119 s"}, {120, "2 min"},
        {7199, "119 min"}, {7200, "2 h"}, {172799, "47 h"}, {172800, "2 d"}};

    for (size_t i = 0; TEST_EACH(i, AGES); i++) {
        buf_clear(&text);
        print_age(&text, AGES[i].seconds * TICKS_PER_S);
        assert_string_equal(buf_text(&text), AGES[i].said);
    }
}
