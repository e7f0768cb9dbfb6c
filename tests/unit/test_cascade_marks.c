/* SPDX-License-Identifier: MIT */
/*
 * The marks that an attempt relies on when it continues a cascade: the time of
 * the request, the time at which a settle pass began, and the key up to which
 * all deletes are confirmed.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <string.h>
#include <unistd.h>

#include "tests/support/cascade_job.h"
#include "tests/support/fast_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define BOTH RULES(RULE("Blogs", BY_CHANNEL), RULE("Things", BY_CHANNEL))

static void set_up(struct hosted *h)
{
    hosted_restart(h,
        CASCADE_JOB("job", "settle: 50ms", BOTH)
            CASCADE_JOB("patient", "settle: [1h, 2h]", BOTH),
        "Channels Blogs Things");
}

/* ---- the request ---- */

/* RequestedAt has whole seconds: a parent that was created in the same second
 * may be older than the request. */
HOSTED_TEST(a_parent_of_the_second_of_the_request_is_not_newer)
{
    set_up(h);
    cascade_put_created(h, 0, NULL);
    hosted_succeeds(h, "job", "News", "Channels");
    hosted_forget(h, "r2");
    cascade_put_created(h, 1, NULL);
    hosted_succeeds(h, "job", "News", "Channels News/");
}

/* ---- a former attempt that crashed ---- */

#define LATE_TICKS (30 * TICKS_PER_S)

/* Makes an attempt after a crash, which must wait, because requests of the
 * crashed attempt may still arrive. */
static void wait_after_crash(struct hosted *h)
{
    h->store->capabilities.late_writes = true;
    h->previous_owner_crashed = true;
    hosted_waits(h, "job", "News", "Channels News/");
    h->previous_owner_crashed = false;
}

/* The insert of a tombstone that a killed attempt has sent may arrive after the
 * parent was deleted. A run that has ended by then cannot remove that
 * tombstone. */
HOSTED_TEST(a_newer_parent_is_left_once_nothing_can_land_late)
{
    int64_t began_ticks;

    set_up(h);
    cascade_put_created(h, 1, NULL);
    began_ticks = platform_wall_ticks();
    wait_after_crash(h);
    assert_true(h->resumes_ticks >= began_ticks + LATE_TICKS);
}

HOSTED_TEST(an_absent_parent_is_held_until_nothing_can_land_late)
{
    int64_t began_ticks;

    set_up(h);
    began_ticks = platform_wall_ticks();
    wait_after_crash(h);
    hosted_succeeds(h, "job", "News", "");
    assert_true(platform_wall_ticks() >= began_ticks + LATE_TICKS);
}

/* ---- the settle pass ---- */

#define HOUR_TICKS (3600 * TICKS_PER_S)

/* Sets the checkpoint of a run that wrote its tombstone ago_ticks ago and began
 * a pass after_ms later. path: the position of the pass, as a member of the
 * JSON, or "". Returns when the tombstone was written. */
static int64_t set_written(
    struct hosted *h, int64_t ago_ticks, int64_t after_ms, const char *path)
{
    int64_t written_ticks = platform_wall_ticks() - ago_ticks;

    h->checkpoint = mem_format("{\"version\":1,\"laid\":%lld,\"began\":%lld,"
                               "\"not_before\":0%s}",
        (long long)written_ticks,
        (long long)(written_ticks + after_ms * TICKS_PER_MS), path);
    return written_ticks;
}

/* The position of a pass that is after this blog, by the first rule, and has
 * found nothing yet. */
#define BEHIND(blog)                                                           \
    ",\"path\":[{\"rule\":0,\"found\":false,"                                  \
    "\"done\":[\"News\",\"" blog "\"]}]"

/* A child that is added before the position of a pass is found only by the next
 * pass. So a pass that began before the settle time was over cannot be the last
 * one. And if the last settle pass is resumed and finds nothing, one more pass
 * must find the blog before its position. */
HOSTED_TEST(a_resumed_settle_pass_leaves_out_nothing)
{
    static const struct {
        int64_t after_ms;
        const char *path;
    } CASES[] = {{1, BEHIND("z")}, {5000, BEHIND("a")}};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        set_up(h);
        hosted_put(h, "Channels", "News", "", MARK("job/r1"));
        hosted_rows(h, "Blogs News/late");
        set_written(h, 10 * TICKS_PER_S, CASES[i].after_ms, CASES[i].path);
        hosted_succeeds(h, "job", "News", "Blogs; Channels");
    }
}

/* The settle time does not depend on the number of attempts or on the age of
 * the request. */
HOSTED_TEST(the_settle_counts_from_the_tombstone)
{
    int64_t began_ticks, due_ticks;

    set_up(h);
    h->requested_ticks -= 10 * HOUR_TICKS;
    hosted_rows(h, "Channels News/");
    began_ticks = platform_wall_ticks();
    hosted_waits(h, "patient", "News", "");
    due_ticks = h->resumes_ticks;
    assert_true(due_ticks >= began_ticks + HOUR_TICKS);
    usleep(20000); /* 2 s of the fast clock: a Date may have whole seconds */
    hosted_waits(h, "patient", "News", "");
    assert_true(h->resumes_ticks == due_ticks);
}

/* The parent's store and the ledger's store have clocks of their own. */
HOSTED_TEST(the_settle_does_not_count_by_the_ledger_s_clock)
{
    struct store other = {.name = "other"};
    int64_t began_ms;

    set_up(h);
    hosted_rows(h, "Channels News/");
    hosted_waits(h, "patient", "News", "");
    assert_int_equal(h->resumes_ms, 0);
    h->ledger = &other;
    began_ms = platform_boot_ms();
    hosted_waits(h, "patient", "News", "");
    assert_in_range(h->resumes_ms - began_ms, HOUR_TICKS / TICKS_PER_MS - 60000,
        HOUR_TICKS / TICKS_PER_MS + 60000);
}

HOSTED_TEST(the_first_settle_pass_of_two_is_not_the_last)
{
    int64_t written_ticks;

    set_up(h);
    hosted_put(h, "Channels", "News", "", MARK("patient/r1"));
    written_ticks = set_written(h, HOUR_TICKS + HOUR_TICKS / 2, 0, "");
    hosted_waits(h, "patient", "News", "Channels News/");
    assert_true(h->resumes_ticks >= written_ticks + 2 * HOUR_TICKS);
}

/* ---- a tombstone that was lost, and is back ---- */

/* Makes the run fail before it deletes anything, because its parent has the
 * properties `lost`, without the tombstone; then the parent gets the properties
 * `back`. An upgrade of the parents' table may rename a property of the
 * tombstone, or an application may change it: the run used to succeed, with the
 * note that the parent had been created again. */
static void lose_tombstone(
    struct hosted *h, const char *job, const char *lost, const char *back)
{
    hosted_put(h, "Channels", "News", "", lost);
    hosted_rows(h, "Things News/kept");
    hosted_fails(h, job, "News", "(TablewardRun names this run)",
        "Channels News/; Things News/kept");
    hosted_replace(h, "Channels", "News", "", back);
}

/* While the parent had no tombstone, writers added children before the position
 * of the pass. */
HOSTED_TEST(a_pass_does_not_resume_once_the_tombstone_was_lost)
{
    set_up(h);
    set_written(h, 10 * TICKS_PER_S, 5000, BEHIND("z"));
    lose_tombstone(
        h, "job", "\"Deleted\":false," OWNED_BY("job/r1"), MARK("job/r1"));
    hosted_rows(h, "Blogs News/a");
    hosted_succeeds(h, "job", "News", "Blogs; Things; Channels");
}

HOSTED_TEST(the_settle_counts_again_once_the_tombstone_was_lost)
{
    int64_t began_ticks = platform_wall_ticks();

    set_up(h);
    set_written(h, 3 * HOUR_TICKS, 0, "");
    lose_tombstone(h, "patient", "\"Deleted\":false," OWNED_BY("patient/r1"),
        MARK("patient/r1"));
    hosted_waits(h, "patient", "News", "Channels News/");
    assert_true(h->resumes_ticks >= began_ticks + HOUR_TICKS - TICKS_PER_S);
}

/* ---- the position in the checkpoint ---- */

#define BLOGS 50

/* Is the position in the checkpoint after all blogs? */
static bool past_the_blogs(const struct hosted *h)
{
    return strstr(h->checkpoint, "\"rule\":1") != NULL ||
           strstr(h->checkpoint, "\"b00049\"") != NULL;
}

HOSTED_TEST(a_mark_says_what_is_confirmed_not_what_was_sent)
{
    for (int64_t stop = 0; stop < 8; stop++) {
        set_up(h);
        hosted_rows(h, "Channels News/");
        hosted_fill(h, "Blogs", "News", BLOGS);
        hosted_fill(h, "Things", "News", BLOGS);
        h->stop_after = stop;
        (void)hosted_attempt(h, "job", "News");
        if (h->checkpoint && past_the_blogs(h))
            hosted_check(h, "Blogs");
        h->stop_after = -1;
        hosted_succeeds(h, "job", "News", "Blogs; Things");
    }
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
