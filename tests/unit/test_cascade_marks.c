/* SPDX-License-Identifier: MIT */
/*
 * What an attempt that continues a cascade relies on: the time of the request,
 * the time at which a settle pass began, the key up to which everything is
 * confirmed.
 */
#include "tests/support/hosted.h"

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
    hosted_init(h, JOB("job", "50ms") JOB("patient", "[1h, 2h]"));
    hosted_table(h, "Channels");
    hosted_table(h, "Blogs");
    hosted_table(h, "Things");
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
static void a_parent_of_the_second_of_the_request_is_not_newer(void **state)
{
    struct hosted h;

    (void)state;
    set_up(&h);
    put_created(&h, h.requested_ticks);
    assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
    assert_false(hosted_has(&h, "Channels", "News", ""));
    hosted_forget(&h, "r2");
    put_created(&h, h.requested_ticks + TICKS_PER_S);
    assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
    assert_true(hosted_has(&h, "Channels", "News", ""));
    hosted_done(&h);
}

/* ---- the predecessor ---- */

#define LATE_TICKS (30 * TICKS_PER_S)

/* The insert of a tombstone that a killed attempt has sent may arrive after the
 * parent was deleted. A run that has ended by then cannot remove that
 * tombstone. */
static void a_newer_parent_is_left_once_nothing_can_land_late(void **state)
{
    int64_t began_ticks;
    struct hosted h;

    (void)state;
    set_up(&h);
    h.store->capabilities.late_writes = true;
    put_created(&h, h.requested_ticks + TICKS_PER_S);
    h.previous_owner_crashed = true;
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(&h, "job", "News"), RUN_WAITING);
    assert_true(h.resumes_ticks >= began_ticks + LATE_TICKS);
    assert_true(hosted_has(&h, "Channels", "News", ""));
    hosted_done(&h);
}

static void an_absent_parent_is_held_until_nothing_can_land_late(void **state)
{
    int64_t began_ticks;
    struct hosted h;

    (void)state;
    set_up(&h);
    h.store->capabilities.late_writes = true;
    h.previous_owner_crashed = true;
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(&h, "job", "News"), RUN_WAITING);
    h.previous_owner_crashed = false;
    assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
    assert_true(platform_wall_ticks() >= began_ticks + LATE_TICKS);
    hosted_done(&h);
}

/* ---- the settle pass ---- */

#define HOUR_TICKS (3600 * TICKS_PER_S)

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
static void a_settle_pass_began_when_its_first_attempt_did(void **state)
{
    struct hosted h;

    (void)state;
    set_up(&h);
    hosted_put(&h, "Blogs", "News", "late", NULL);
    set_resumed(&h, 1, "z");
    assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "");
    assert_string_equal(hosted_dump(&h, "Channels"), "");
    hosted_done(&h);
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
static void the_settle_counts_from_the_tombstone(void **state)
{
    int64_t began_ticks, due_ticks;
    struct hosted h;

    (void)state;
    set_up(&h);
    h.requested_ticks -= 10 * HOUR_TICKS;
    hosted_put(&h, "Channels", "News", "", NULL);
    began_ticks = platform_wall_ticks();
    assert_int_equal(hosted_attempt(&h, "patient", "News"), RUN_WAITING);
    due_ticks = h.resumes_ticks;
    assert_true(due_ticks >= began_ticks + HOUR_TICKS);
    sleep_ms(2000); /* the store's Date may have whole seconds */
    assert_int_equal(hosted_attempt(&h, "patient", "News"), RUN_WAITING);
    assert_true(h.resumes_ticks == due_ticks);
    hosted_done(&h);
}

/* The parent's store and the ledger's store have clocks of their own. */
static void the_settle_does_not_count_by_the_ledger_s_clock(void **state)
{
    struct store other = {.name = "other"};
    int64_t began_ms;
    struct hosted h;

    (void)state;
    set_up(&h);
    hosted_put(&h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_attempt(&h, "patient", "News"), RUN_WAITING);
    assert_int_equal(h.resumes_ms, 0);
    h.ledger = &other;
    began_ms = platform_boot_ms();
    assert_int_equal(hosted_attempt(&h, "patient", "News"), RUN_WAITING);
    assert_in_range(h.resumes_ms - began_ms, HOUR_TICKS / TICKS_PER_MS - 60000,
        HOUR_TICKS / TICKS_PER_MS + 60000);
    hosted_done(&h);
}

static void the_first_settle_pass_of_two_is_not_the_last(void **state)
{
    int64_t written_ticks = platform_wall_ticks() - HOUR_TICKS - HOUR_TICKS / 2;
    struct hosted h;

    (void)state;
    set_up(&h);
    hosted_put(&h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"patient/r1\"");
    h.checkpoint = mem_format("{\"version\":1,\"laid\":%lld,\"began\":%lld,"
                              "\"not_before\":0}",
        (long long)written_ticks, (long long)written_ticks);
    assert_int_equal(hosted_attempt(&h, "patient", "News"), RUN_WAITING);
    assert_true(h.resumes_ticks >= written_ticks + 2 * HOUR_TICKS);
    assert_true(hosted_has(&h, "Channels", "News", ""));
    hosted_done(&h);
}

/* The last settle pass resumes and has found nothing: the blog before its
 * position must still be found, by another pass. */
static void a_resumed_settle_pass_leaves_out_nothing(void **state)
{
    struct hosted h;

    (void)state;
    set_up(&h);
    hosted_put(&h, "Blogs", "News", "late", NULL);
    set_resumed(&h, 5000, "a");
    assert_int_equal(hosted_run(&h, "job", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "");
    assert_string_equal(hosted_dump(&h, "Channels"), "");
    hosted_done(&h);
}

/* ---- the mark ---- */

#define BLOGS 50

/* Is the walk behind all blogs, by the checkpoint? */
static bool past_the_blogs(const struct hosted *h)
{
    return strstr(h->checkpoint, "\"rule\":1") != NULL ||
           strstr(h->checkpoint, "\"b00049\"") != NULL;
}

static void a_mark_says_what_is_confirmed_not_what_was_sent(void **state)
{
    (void)state;
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
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parent_of_the_second_of_the_request_is_not_newer),
        cmocka_unit_test(a_newer_parent_is_left_once_nothing_can_land_late),
        cmocka_unit_test(an_absent_parent_is_held_until_nothing_can_land_late),
        cmocka_unit_test(a_settle_pass_began_when_its_first_attempt_did),
        cmocka_unit_test(the_settle_counts_from_the_tombstone),
        cmocka_unit_test(the_settle_does_not_count_by_the_ledger_s_clock),
        cmocka_unit_test(the_first_settle_pass_of_two_is_not_the_last),
        cmocka_unit_test(a_resumed_settle_pass_leaves_out_nothing),
        cmocka_unit_test(a_mark_says_what_is_confirmed_not_what_was_sent),
    };

    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
