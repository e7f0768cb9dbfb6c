/* SPDX-License-Identifier: MIT */
/* Goal: verify finds the children without a parent and the parents that are
 * left with a tombstone, reading rules backwards; it writes nothing. */
#include "tests/support/hosted.h"

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "jobs/jobs.h"
#include "worker/base/log.h"
#include "worker/store/lanes.h"

#define PARENT                                                                 \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"                                                    \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"\", tombstone: {Deleted: true}}\n"                                      \
    "    settle: 0s\n"                                                         \
    "    children:\n"

static const char ALL[] =
    "all:\n" PARENT "      - {table: Blogs, partition_key: \"{channel}\"}\n"
    "      - {table: ByMonth, partition_key_prefix: \"{channel}_\"}\n"
    "      - {table: Subscriptions, filter: \"Active eq true and Channel eq "
    "'{channel}'\"}\n"
    "      - {table: Old, partition_key: \"{channel}\", optional: true}\n";

static const char ODD[] =
    "odd:\n" PARENT
    "      - {table: Blogs, partition_key: \"{lower(channel)}\"}\n"
    "      - {table: Owned, partition_key: \"{Owner}\"}\n";

static void set_up_tables(struct hosted *h, const char *configuration)
{
    hosted_init(h, configuration);
    hosted_table(h, "Channels");
    hosted_table(h, "Blogs");
    hosted_table(h, "ByMonth");
    hosted_table(h, "Subscriptions");
    hosted_table(h, "Owned");
    hosted_table(h, "TablewardRuns");
}

static bool never(struct run *run)
{
    (void)run;
    return false;
}

static const struct run_host HOST = {.stopping = never};

/* channel: NULL: not given. */
static enum tw_err verify(
    struct hosted *h, const char *channel, struct job_verification *ret)
{
    const struct job *job = &h->jobs.list[0];
    struct slice name = slice_of("channel");
    struct slice value = channel ? slice_of(channel) : (struct slice){0};
    struct run run = {.job = job->name,
        .args = {1, &name, &value},
        .lanes = lanes_client_new(h->lanes, NULL),
        .ledger = h->store,
        .ledger_table = "TablewardRuns",
        .host = &HOST,
        .owner = h};
    enum tw_err outcome;

    *ret = (struct job_verification){.count = 0};
    outcome = job->kind->verify(job, &h->stores, &run, ret, &h->err);
    lanes_client_free(run.lanes);
    return outcome;
}

static void finds(struct hosted *h, const char *channel, int64_t tombstones,
    int64_t orphans, const char *first)
{
    struct job_verification found;

    if (verify(h, channel, &found) != TW_OK)
        fail_msg("%s", h->err.text);
    assert_int_equal(found.count, 2);
    assert_string_equal(
        found.differences[0].what, "parents left with a tombstone");
    assert_string_equal(found.differences[1].what, "children without a parent");
    assert_int_equal(found.differences[0].count, tombstones);
    assert_int_equal(found.differences[1].count, orphans);
    if (first)
        assert_string_equal(
            found.differences[tombstones > 0 ? 0 : 1].first_keys[0], first);
    arena_done(&found.arena);
}

static void children_with_a_parent_are_no_difference(void **state)
{
    struct hosted h;

    (void)state;
    set_up_tables(&h, ALL);
    hosted_put(&h, "Channels", "News", "", NULL);
    hosted_fill(&h, "Blogs", "News", 3);
    hosted_put(&h, "ByMonth", "News_1", "x", NULL);
    hosted_put(
        &h, "Subscriptions", "u", "1", "\"Channel\":\"News\",\"Active\":true");
    finds(&h, NULL, 0, 0, NULL);
    finds(&h, "News", 0, 0, NULL);
    hosted_done(&h);
}

static void children_without_a_parent_are_found_by_each_rule(void **state)
{
    struct hosted h;

    (void)state;
    set_up_tables(&h, ALL);
    hosted_put(&h, "Channels", "News", "", NULL);
    hosted_put(&h, "Channels", "Sport", "x", NULL); /* another RowKey */
    hosted_fill(&h, "Blogs", "News", 1200);
    hosted_fill(&h, "Blogs", "Sport", 2);
    finds(&h, NULL, 0, 2, "Blogs Sport/b00000");
    hosted_put(
        &h, "Subscriptions", "u", "1", "\"Channel\":\"Gone\",\"Active\":true");
    hosted_put(&h, "Subscriptions", "u", "2",
        "\"Channel\":\"Gone\",\"Active\":false"); /* not selected */
    hosted_put(&h, "ByMonth", "Gone_1", "x", NULL);
    finds(&h, NULL, 0, 4, "Blogs Sport/b00000");
    finds(&h, "Gone", 0, 2, "ByMonth Gone_1/x");
    finds(&h, "News", 0, 0, NULL);
    hosted_done(&h);
}

/* "Foot_ball_1" is of Foot_ball, or, where that is not there, of Foot. */
static void of_a_prefix_the_longest_parent_that_exists_wins(void **state)
{
    struct hosted h;

    (void)state;
    set_up_tables(&h, ALL);
    hosted_put(&h, "ByMonth", "Foot_ball_1", "x", NULL);
    finds(&h, NULL, 0, 1, "ByMonth Foot_ball_1/x");
    hosted_put(&h, "Channels", "Foot", "", NULL);
    finds(&h, NULL, 0, 0, NULL);
    hosted_remove(&h, "Channels", "Foot", "");
    hosted_put(&h, "Channels", "Foot_ball", "", NULL);
    finds(&h, NULL, 0, 0, NULL);
    hosted_put(&h, "ByMonth", "Foot_1", "x", NULL);
    finds(&h, NULL, 0, 1, "ByMonth Foot_1/x");
    hosted_done(&h);
}

static void a_tombstone_of_no_open_run_is_found(void **state)
{
    struct hosted h;

    (void)state;
    set_up_tables(&h, ALL);
    hosted_put(&h, "Channels", "News", "",
        "\"Deleted\":true,\"TablewardRun\":\"all/r9\"");
    hosted_put(&h, "Channels", "Sport", "", "\"Deleted\":true"); /* its own */
    finds(&h, NULL, 1, 0, "Channels News/");
    hosted_put(&h, "TablewardRuns", "all", "r9", "\"State\":\"waiting\"");
    finds(&h, NULL, 0, 0, NULL);
    hosted_replace(&h, "TablewardRuns", "all", "r9", "\"State\":\"failed\"");
    finds(&h, NULL, 1, 0, "Channels News/");
    hosted_done(&h);
}

static void what_cannot_be_read_backwards_wants_the_argument(void **state)
{
    struct job_verification found;
    struct hosted h;

    (void)state;
    set_up_tables(&h, ODD);
    hosted_put(&h, "Blogs", "news", "b", NULL);
    assert_int_equal(verify(&h, NULL, &found), TW_CONFLICT);
    assert_string_equal(h.err.text,
        "the rule for Blogs (line 7) does not tell the argument channel of an "
        "entity: verify odd channel=VALUE");
    arena_done(&found.arena);
    finds(&h, "News", 0, 1, "Blogs news/b");
    assert_int_equal(verify(&h, "News", &found), TW_OK);
    assert_non_null(strstr(found.note, "read properties of the parent"));
    arena_done(&found.arena);
    hosted_put(&h, "Channels", "News", "", NULL);
    finds(&h, "News", 0, 0, NULL);
    hosted_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_with_a_parent_are_no_difference),
        cmocka_unit_test(children_without_a_parent_are_found_by_each_rule),
        cmocka_unit_test(of_a_prefix_the_longest_parent_that_exists_wins),
        cmocka_unit_test(a_tombstone_of_no_open_run_is_found),
        cmocka_unit_test(what_cannot_be_read_backwards_wants_the_argument),
    };

    log_set(LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
