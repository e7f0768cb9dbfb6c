/* SPDX-License-Identifier: MIT */
/*
 * What an attempt that continues a cascade relies on: the time of the request,
 * the time at which a settle pass began, the key up to which everything is
 * confirmed.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/fast_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define JOB(name, settle)                                                      \
    name ":\n"                                                                 \
         "    kind: cascade-delete\n"                                          \
         "    args: [channel]\n"                                               \
         "    parent: {table: Channels, partition_key: \"{channel}\", "        \
         "row_key: \"\", tombstone: {Deleted: true}, created: CreatedOn}\n"    \
         "    settle: " settle "\n"                                            \
         "    children:\n"                                                     \
         "      - {table: Blogs, partition_key: \"{channel}\"}\n"              \
         "      - {table: Things, partition_key: \"{channel}\"}\n"

static void set_up(struct hosted *h)
{
    hosted_begin(h, JOB("job", "50ms") JOB("patient", "[1h, 2h]"),
        "Channels Blogs Things");
}

/* ---- the request ---- */

static void put_created(struct hosted *h, int64_t ticks)
{
    char time[TEXT_TIME_MAX];
    char *created = mem_format(
        "\"CreatedOn@odata.type\":\"Edm.DateTime\",\"CreatedOn\":\"%s\"",
        text_from_ticks(ticks, time));

    hosted_put(h, "Channels", "News", "", created);
    mem_free(created);
}

/* RequestedAt has whole seconds: a parent that was created in the same second
 * may be older than the request. */
HOSTED_TEST(a_parent_of_the_second_of_the_request_is_not_newer)
{
    set_up(h);
    put_created(h, h->requested_ticks);
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_false(hosted_has(h, "Channels", "News", ""));
    hosted_forget(h, "r2");
    put_created(h, h->requested_ticks + TICKS_PER_S);
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_true(hosted_has(h, "Channels", "News", ""));
}

/* ---- the predecessor ---- */

#define LATE_TICKS (30 * TICKS_PER_S)

/* The insert of a tombstone that a killed attempt has sent may arrive after the
 * parent was deleted. A run that has ended by then cannot remove that
 * tombstone. */
HOSTED_TEST(a_newer_parent_is_left_once_nothing_can_land_late)
{
    int64_t began_ticks;

    set_up(h);
    h->store->capabilities.late_writes = true;
    put_created(h, h->requested_ticks + TICKS_PER_S);
    h->previous_owner_crashed = true;
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(h, "job", "News"), RUN_WAITING);
    assert_true(h->resumes_ticks >= began_ticks + LATE_TICKS);
    assert_true(hosted_has(h, "Channels", "News", ""));
}

HOSTED_TEST(an_absent_parent_is_held_until_nothing_can_land_late)
{
    int64_t began_ticks;

    set_up(h);
    h->store->capabilities.late_writes = true;
    h->previous_owner_crashed = true;
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(h, "job", "News"), RUN_WAITING);
    h->previous_owner_crashed = false;
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_true(platform_wall_ticks() >= began_ticks + LATE_TICKS);
}

/* ---- the settle pass ---- */

#define HOUR_TICKS (3600 * TICKS_PER_S)

/* Set the state of a run that has written its tombstone, and has begun a pass
 * at once. */
static void set_written(struct hosted *h, int64_t written_ticks)
{
    h->checkpoint = mem_format("{\"version\":1,\"laid\":%lld,\"began\":%lld,"
                               "\"not_before\":0}",
        (long long)written_ticks, (long long)written_ticks);
}

/* Set the state of a run that has written its tombstone, and is in a settle
 * pass that began after_ms later and has found nothing up to the blog
 * `done`. */
static void set_resumed(struct hosted *h, int64_t after_ms, const char *done)
{
    int64_t written_ticks = platform_wall_ticks() - 10 * TICKS_PER_S;

    hosted_put(h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"job/r1\"");
    mem_free(h->checkpoint);
    h->checkpoint = mem_format(
        "{\"version\":1,\"laid\":%lld,\"began\":%lld,\"not_before\":0,"
        "\"path\":[{\"rule\":0,\"found\":false,\"done\":[\"News\",\"%s\"]}]}",
        (long long)written_ticks,
        (long long)(written_ticks + after_ms * TICKS_PER_MS), done);
}

/* A child that is added before the position of a pass is found only by the next
 * pass. So a pass that began before the settle time was over cannot be the last
 * one. */
HOSTED_TEST(a_settle_pass_began_when_its_first_attempt_did)
{
    set_up(h);
    hosted_put(h, "Blogs", "News", "late", NULL);
    set_resumed(h, 1, "z");
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Blogs"), "");
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

static void sleep_ms(int64_t wait_ms)
{
    struct platform_mutex mutex;
    struct platform_cond cond;
    int64_t until_ms = platform_boot_ms() + wait_ms;

    platform_mutex_init(&mutex);
    platform_cond_init(&cond);
    platform_lock(&mutex);
    while (platform_wait(&cond, &mutex, until_ms))
        continue;
    platform_unlock(&mutex);
    platform_cond_done(&cond);
    platform_mutex_done(&mutex);
}

/* The settle time does not depend on the number of attempts or on the age of
 * the request. */
HOSTED_TEST(the_settle_counts_from_the_tombstone)
{
    int64_t began_ticks, due_ticks;

    set_up(h);
    h->requested_ticks -= 10 * HOUR_TICKS;
    hosted_put(h, "Channels", "News", "", NULL);
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    due_ticks = h->resumes_ticks;
    assert_true(due_ticks >= began_ticks + HOUR_TICKS);
    sleep_ms(2000); /* the store's Date may have whole seconds */
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    assert_true(h->resumes_ticks == due_ticks);
}

/* The parent's store and the ledger's store have clocks of their own. */
HOSTED_TEST(the_settle_does_not_count_by_the_ledger_s_clock)
{
    struct store other = {.name = "other"};
    int64_t began_ms;

    set_up(h);
    hosted_put(h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    assert_int_equal(h->resumes_ms, 0);
    h->ledger = &other;
    began_ms = platform_boot_ms();
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    assert_in_range(h->resumes_ms - began_ms, HOUR_TICKS / TICKS_PER_MS - 60000,
        HOUR_TICKS / TICKS_PER_MS + 60000);
}

HOSTED_TEST(the_first_settle_pass_of_two_is_not_the_last)
{
    int64_t written_ticks = platform_wall_ticks() - HOUR_TICKS - HOUR_TICKS / 2;

    set_up(h);
    hosted_put(h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"patient/r1\"");
    set_written(h, written_ticks);
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    assert_true(h->resumes_ticks >= written_ticks + 2 * HOUR_TICKS);
    assert_true(hosted_has(h, "Channels", "News", ""));
}

/* The last settle pass resumes and has found nothing: the blog before its
 * position must still be found, by another pass. */
HOSTED_TEST(a_resumed_settle_pass_leaves_out_nothing)
{
    set_up(h);
    hosted_put(h, "Blogs", "News", "late", NULL);
    set_resumed(h, 5000, "a");
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Blogs"), "");
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

/* ---- a tombstone that was lost, and is back ---- */

/* Meanwhile writers took the parent for alive, and added children before the
 * position of the pass. */
HOSTED_TEST(a_pass_does_not_resume_once_the_tombstone_was_lost)
{
    set_up(h);
    set_resumed(h, 5000, "z");
    hosted_replace(h, "Channels", "News", "",
        "\"Deleted\":false,\"TablewardRun\":\"job/r1\"");
    assert_int_equal(hosted_run(h, "job", "News"), RUN_FAILED);
    hosted_put(h, "Blogs", "News", "a", NULL);
    hosted_replace(h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"job/r1\"");
    assert_int_equal(hosted_run(h, "job", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Blogs"), "");
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

HOSTED_TEST(the_settle_counts_again_once_the_tombstone_was_lost)
{
    int64_t written_ticks = platform_wall_ticks() - 3 * HOUR_TICKS;
    int64_t began_ticks = platform_wall_ticks();

    set_up(h);
    hosted_put(h, "Channels", "News", "",
        "\"Deleted\":false,\"TablewardRun\":\"patient/r1\"");
    set_written(h, written_ticks);
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_FAILED);
    hosted_replace(h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"patient/r1\"");
    assert_int_equal(hosted_attempt(h, "patient", "News"), RUN_WAITING);
    assert_true(h->resumes_ticks >= began_ticks + HOUR_TICKS - TICKS_PER_S);
    assert_true(hosted_has(h, "Channels", "News", ""));
}

/* ---- the mark ---- */

#define BLOGS 50

/* Is the walk behind all blogs, by the checkpoint? */
static bool past_the_blogs(const struct hosted *h)
{
    return strstr(h->checkpoint, "\"rule\":1") != NULL ||
           strstr(h->checkpoint, "\"b00049\"") != NULL;
}

TEST(a_mark_says_what_is_confirmed_not_what_was_sent)
{
    for (int64_t stop = 0; stop < 8; stop++) {
        struct hosted h;

        set_up(&h);
        hosted_put(&h, "Channels", "News", "", NULL);
        hosted_fill(&h, "Blogs", "News", BLOGS);
        hosted_fill(&h, "Things", "News", BLOGS);
        h.stop_after = stop;
        (void)hosted_attempt(&h, "job", "News");
        if (h.checkpoint && past_the_blogs(&h))
            assert_int_equal(hosted_count(&h, "Blogs"), 0);
        h.stop_after = -1;
        assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
        assert_string_equal(hosted_dump(&h, "Blogs"), "");
        assert_string_equal(hosted_dump(&h, "Things"), "");
        hosted_done(&h);
    }
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
