/* SPDX-License-Identifier: MIT */
/* Goal: a cascade shows which share of its work is done. If the share is
 * unknown, it shows none. The share never falls. */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <stdio.h>

#include "jobs/engine/share.h"
#include "tests/support/cascade_job.h"

#define MANY (SHARE_AFTER_ENTITIES + 4000)
/* Maximum number of entities in the batches in flight and in the page that is
 * processed. */
#define UNDER_WAY 2600

#define BLOGS RULE("Blogs", BY_CHANNEL)
#define TREE RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_ROW_KEY))
#define JOB(settle, rules) CASCADE_JOB("job", "settle: " settle, rules)

/* The shares that a test has seen. */
static struct {
    int last, first;   /* -1: no share was seen */
    unsigned distinct; /* number of different shares */
    int stop_at;       /* the attempt is stopped at this share; 0: it is not */
} seen;

static void see(struct hosted *h)
{
    if (h->share < 0) {
        assert_int_equal(seen.last, -1);
        return;
    }
    assert_in_range(h->share, seen.last < 0 ? 0 : seen.last, 999);
    if (seen.first < 0)
        seen.first = h->share;
    if (h->share != seen.last)
        seen.distinct++;
    seen.last = h->share;
    if (seen.stop_at > 0 && h->share >= seen.stop_at)
        h->stop_after = h->stopping_calls;
}

static void begin(struct hosted *h, const char *job)
{
    hosted_begin(h, job, "Channels Blogs Comments");
    hosted_rows(h, "Channels Foot/");
    h->between = see;
    seen.last = seen.first = -1;
    seen.distinct = 0;
    seen.stop_at = 0;
}

static void run_to_the_end(struct hosted *h)
{
    hosted_succeeds(h, "job", "Foot", "Blogs; Comments");
}

/* For refuse_above all entities are read before the first delete: the share
 * does not count these reads. */
HOSTED_TEST(entities_that_were_only_counted_are_not_done)
{
    begin(h, JOB("0s\n    refuse_above: 1000000", BLOGS));
    hosted_fill(h, "Blogs", "Foot", MANY);
    run_to_the_end(h);
    assert_in_range(seen.first, 0, 200);
    assert_true(seen.distinct >= 4);
}

/* After a stop the next attempt continues at the same share, which is that of
 * the deleted entities. */
HOSTED_TEST(a_share_goes_on_where_it_was)
{
    int64_t deleted;
    int share;

    begin(h, JOB("0s", BLOGS));
    hosted_fill(h, "Blogs", "Foot", 2 * MANY);
    seen.stop_at = 600;
    assert_int_equal(hosted_attempt(h, "job", "Foot"), RUN_STOPPED);
    deleted = h->deleted;
    share = h->share;
    assert_true(deleted > SHARE_AFTER_ENTITIES && deleted < 2 * MANY);
    assert_in_range(share, (deleted - UNDER_WAY) * 1000 / (2 * MANY) - 20,
        deleted * 1000 / (2 * MANY) + 10);
    assert_int_equal(h->passes, 1);
    assert_true(share >= 600);
    seen.stop_at = 0;
    h->stop_after = -1;
    run_to_the_end(h);
    assert_int_equal(h->passes, 2);
    assert_true(seen.distinct > 2);
}

/* How many entities the second rule finds is known when its scan begins. */
HOSTED_TEST(the_last_of_two_rules_has_a_share)
{
    begin(h, JOB("0s", RULES(BLOGS, RULE("Comments", BY_CHANNEL))));
    hosted_fill(h, "Blogs", "Foot", MANY);
    hosted_fill(h, "Comments", "Foot", MANY);
    run_to_the_end(h);
    assert_in_range(seen.first, 400, 600);
    assert_true(seen.distinct >= 4);
}

/* Puts 30 blogs, which are one page, with 1,000 comments each: 30,030
 * entities. */
static void fill_tree(struct hosted *h)
{
    char key[16];

    hosted_fill(h, "Blogs", "Foot", 30);
    for (unsigned i = 0; i < 30; i++) {
        (void)snprintf(key, sizeof(key), "b%05u", i);
        hosted_fill(h, "Comments", key, 1000);
    }
}

/* Fails unless a share that has just changed is that of the deleted entities,
 * and not that of the read ones. */
static void see_deleted(struct hosted *h)
{
    int before = seen.last;
    unsigned left;

    see(h);
    if (h->share == before)
        return;
    left = hosted_count(h, "Blogs") + hosted_count(h, "Comments");
    if (h->share > (int)((30030 - left) * 1000 / 30030) + 5)
        fail_msg("%d with %u of 30030 left", h->share, left);
}

HOSTED_TEST(a_tree_has_the_share_of_its_first_level)
{
    begin(h, JOB("0s", TREE));
    fill_tree(h);
    h->between = see_deleted;
    run_to_the_end(h);
    assert_in_range(seen.first, 500, 800);
    assert_true(seen.distinct >= 4);
}

/* The blogs are deleted after the settle pass. While their comments are
 * deleted, it is not known how long the deletes of the blogs will take. */
HOSTED_TEST(a_tree_that_settles_has_no_share)
{
    begin(h, JOB("200ms", TREE));
    fill_tree(h);
    run_to_the_end(h);
    assert_int_equal(seen.distinct, 0);
    assert_int_equal(h->share, -1);
    assert_true(h->passes >= 2);
}

/* The first pass of a job with a settle time deletes all but late children. */
HOSTED_TEST(a_first_pass_ends_with_the_whole_share)
{
    begin(h, JOB("10ms", BLOGS));
    hosted_fill(h, "Blogs", "Foot", MANY);
    run_to_the_end(h);
    assert_true(h->passes >= 2);
    assert_int_equal(h->share, 999);
}
