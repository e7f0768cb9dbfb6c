/* SPDX-License-Identifier: MIT */
/*
 * Goal: a cascade whose requests fail or arrive late, or whose entities are
 * changed by other writers, reads nothing too early and nothing twice, and
 * deletes what it must. Random cases: `make simulate KIND=cascade`.
 */
#include "tests/support/test.h"

#include <string.h>
#include <unistd.h>

#include "tests/support/cascade_job.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/log.h"
#include "worker/store/deadline.h"
#include "worker/store/request_pool.h"

/* A run of "job" with a store that fails as the test chooses. */
struct trial {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    enum fault scans, first_batch; /* of each scan; of the first batch */
    bool kills;                /* the attempt is killed with the first batch */
    unsigned scan_us;          /* duration of each scan before the first
                                  batch */
    enum store_call late_call; /* type of the request before which the blog
                                  News/late is put */
    unsigned late_n;           /* number of that request, from 1 */
    unsigned scans_before_late;
};

FAULTY_CHOICE(trial_weather)
{
    struct trial *t = ctx;

    if (call == CALL_SCAN && t->faulty.calls[CALL_BATCH] == 0 && t->scan_us > 0)
        usleep(t->scan_us);
    if (call == t->late_call && n + 1 == t->late_n) {
        hosted_rows(&t->h, "Blogs News/late");
        t->scans_before_late = t->faulty.calls[CALL_SCAN];
    }
    if (call == CALL_SCAN)
        return t->scans;
    if (call != CALL_BATCH || n > 0)
        return FAULT_NONE;
    if (t->kills)
        deadline_close(t->h.deadline);
    return t->first_batch;
}

static void trial_done(struct trial *t)
{
    faulty_done(&t->faulty);
    hosted_done(&t->h);
}

/* Ends the former trial of this test, if there is one, and begins a trial whose
 * tables have these rows (as of hosted_rows()). */
static void trial_init(
    struct trial *t, const char *configuration, const char *rows)
{
    if (t->h.store)
        trial_done(t);
    memset(t, 0, sizeof(*t));
    hosted_begin(&t->h, configuration, "Channels Blogs Comments");
    hosted_rows(&t->h, rows);
    faulty_init(&t->faulty, t->h.store);
    t->faulty.outer.store.capabilities.late_writes = true;
    t->faulty.late_ms = 29000;
    t->faulty.choose = trial_weather;
    t->faulty.ctx = t;
    t->stores[0] = &t->faulty.outer.store;
    t->h.stores.stores = t->stores;
}

TEST_FIXTURE(trial, struct trial, TEST_NOTHING, trial_done)

#define TRIAL_TEST(name)                                                       \
    TEST_WITH(name, trial_set_up, trial_tear_down, struct trial *t)

static enum run_end attempt_trial(struct trial *t)
{
    return hosted_attempt(&t->h, "job", "News");
}

static void trial_succeeds(struct trial *t, const char *rows)
{
    hosted_succeeds(&t->h, "job", "News", rows);
}

#define FLAT(options) CASCADE_JOB("job", options, RULE("Blogs", BY_CHANNEL))
#define NESTED(by) RULE_WITH("Blogs", by, RULE("Comments", BY_ROW_KEY))
#define REFUSE_ABOVE_5 "settle: 0s\n    refuse_above: 5"

static unsigned scans_of_a_run(struct trial *t, const char *rows)
{
    trial_init(t, FLAT("settle: 0s"), rows);
    trial_succeeds(t, "Channels; Blogs");
    return t->faulty.calls[CALL_SCAN];
}

/* The additional request checks the parent's table. The table of the first rule
 * needs no check, because its first page has been requested already. A parent
 * that exists is read twice: before the tombstone and before the second pass.
 * The delete of the parent carries the ETag of the second read. */
TRIAL_TEST(an_absent_parent_costs_one_request_more)
{
    unsigned without = scans_of_a_run(t, "Blogs News/b");
    unsigned with = scans_of_a_run(t, "Blogs News/b; Channels News/");

    assert_int_equal(without, with + 1);
    assert_int_equal(t->faulty.calls[CALL_GET], 2);
}

/* ---- what others write in between ---- */

TRIAL_TEST(what_is_found_goes_with_no_more_scans_than_needed)
{
    static const struct {
        const char *what, *job, *blogs;
        enum store_call late_call;
        unsigned late_n;
        enum fault first_batch; /* the tombstone */
        unsigned scans;
    } CASES[] = {
        {"a settle pass that finds something is followed by another at once",
            FLAT("settle: [1s, 20s]"), "", CALL_SCAN, 2, FAULT_NONE, 4},
        {"a first page read before the tombstone is no settle pass",
            FLAT("settle: 0s"), "", CALL_BATCH, 1, FAULT_NONE, 3},
        {"what is to go is counted once, beside a page that is read ahead",
            FLAT(REFUSE_ABOVE_5), "Blogs News/b", CALL_SCAN, 0,
            FAULT_LOSE_REQUEST, 3},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        test_case("%s", CASES[i].what);
        trial_init(t, CASES[i].job, "Channels News/");
        hosted_rows(&t->h, CASES[i].blogs);
        t->late_call = CASES[i].late_call;
        t->late_n = CASES[i].late_n;
        t->first_batch = CASES[i].first_batch;
        trial_succeeds(t, "Channels; Blogs");
        assert_int_equal(t->faulty.calls[CALL_SCAN], CASES[i].scans);
    }
}

/* A page that was read before the settle pass is due does not count as a settle
 * pass. */
TRIAL_TEST(a_settle_pass_reads_nothing_before_its_time)
{
    trial_init(t, FLAT("settle: 1s"), "Channels News/");
    request_pool_free(t->h.request_pool);
    t->h.request_pool = request_pool_new(1, 0); /* one request at a time */
    t->late_call = CALL_GET; /* the read of the parent for the first settle
                                pass */
    t->late_n = 2;
    trial_succeeds(t, "Blogs");
    assert_int_equal(t->scans_before_late, 1);
}

/* Changes the blog just before the first batch, which is the tombstone. */
FAULTY_CHOICE(takes_the_blog_elsewhere)
{
    struct trial *t = ctx;

    if (call == CALL_BATCH && n == 0) {
        hosted_remove(&t->h, "Blogs", "all", "b1");
        hosted_rows(&t->h, "Blogs all/b1(Channel=Sports)");
    }
    return FAULT_NONE;
}

/* A page that was read before the tombstone is old. With it the run would
 * delete the comments of a blog that now belongs to another channel. */
TRIAL_TEST(a_blog_that_leaves_before_the_tombstone_keeps_its_comments)
{
    trial_init(t, CASCADE_JOB("job", "settle: 0s", NESTED(WITH_CHANNEL)),
        "Channels News/; Blogs all/b1(Channel=News) all/b2(Channel=News); "
        "Comments b1/c b2/c");
    t->faulty.choose = takes_the_blog_elsewhere;
    trial_succeeds(t, "Blogs all/b1; Comments b1/c");
}

/* If the table of the first rule cannot be read, the parent must not be
 * marked. */
TRIAL_TEST(a_table_that_may_not_be_read_leaves_the_parent_as_it_is)
{
    trial_init(t, FLAT("settle: 0s"), "Channels News/");
    t->scans = FAULT_REFUSED;
    assert_int_not_equal(attempt_trial(t), RUN_SUCCEEDED);
    assert_int_equal(t->faulty.calls[CALL_BATCH], 0);
}

/* ---- a tombstone that arrives late ---- */

/* Fails unless the run succeeds, and no parent exists after all late requests
 * were carried out. */
static void succeeds_though_late(struct trial *t)
{
    trial_succeeds(t, "");
    faulty_land(&t->faulty, INT64_MAX);
    hosted_check(&t->h, "Channels");
}

/* Makes an attempt that is killed while its insert of the tombstone is late;
 * puts these rows, which may create the parent; makes an attempt, which must
 * wait. */
static void begin_late(struct trial *t, const char *rows)
{
    trial_init(t, FLAT("settle: 0s"), "");
    t->first_batch = FAULT_LATE;
    t->kills = true;
    assert_int_equal(attempt_trial(t), RUN_LEASE_LOST);
    hosted_rows(&t->h, rows);
    t->h.previous_owner_crashed = true;
    assert_int_equal(attempt_trial(t), RUN_WAITING);
    t->h.previous_owner_crashed = false;
}

TRIAL_TEST(tombstone_of_a_killed_attempt_that_lands_late_is_deleted)
{
    begin_late(t, "");
    succeeds_though_late(t);
}

/* Attempts used to continue with a parent that was created meanwhile. After its
 * delete, the tombstone that arrived late stayed for ever. */
TRIAL_TEST(tombstone_that_lands_late_is_deleted_though_the_name_was_used)
{
    for (int taken = 0; taken < 2; taken++) {
        begin_late(t, "Channels News/(New=yes)");
        if (taken > 0) /* the parent is deleted by another run */
            hosted_remove(&t->h, "Channels", "News", "");
        faulty_land(&t->faulty, INT64_MAX);
        trial_succeeds(t, "Channels");
    }
}

TRIAL_TEST(stopped_after_a_lost_insert_it_still_waits_for_it)
{
    trial_init(t, FLAT("settle: 0s"), "");
    t->first_batch = FAULT_LATE;
    t->h.stop_after = 0;
    assert_int_equal(attempt_trial(t), RUN_STOPPED);
    t->h.stop_after = -1;
    succeeds_though_late(t);
}

/* The count for refuse_above may take longer than the 30 s that an insert may
 * be late. */
TRIAL_TEST(lost_insert_is_waited_for_from_when_it_was_sent)
{
    trial_init(t, FLAT(REFUSE_ABOVE_5), "");
    t->first_batch = FAULT_LATE;
    t->scan_us = 400000; /* 40 s of the fast clock */
    succeeds_though_late(t);
}

/* ---- attempts that continue a run ---- */

TRIAL_TEST(refuse_above_is_not_asked_again_midway)
{
    trial_init(t, FLAT("settle: 60s\n    refuse_above: 5"),
        "Channels News/; Blogs News/a");
    assert_int_equal(attempt_trial(t), RUN_WAITING);
    hosted_fill(&t->h, "Blogs", "News", 10);
    hosted_remove(&t->h, "Channels", "News", "");
    trial_succeeds(t, "Blogs");
}

TRIAL_TEST(stops_while_a_filter_matches_nothing_for_ever)
{
    trial_init(
        t, CASCADE_JOB("job", "settle: 0s", RULE("Blogs", WITH_CHANNEL)), "");
    t->scans = FAULT_EMPTY_PAGE;
    t->h.stop_after = 5;
    assert_int_equal(attempt_trial(t), RUN_STOPPED);
}

/* The last two rules find only the blog itself, which does not count as its
 * own child. So the walk may stop inside the blog at a path that has found
 * nothing. */
#define ITSELF RULE("Blogs", IN_PARTITION ", row_key: \"{RowKey}\"")

static const char THREADS[] = CASCADE_JOB("job", "settle: 0s",
    RULE_WITH("Blogs", BY_CHANNEL,
        RULES(RULE("Comments", "partition_key: \"{Thread}\""),
            RULES(ITSELF, ITSELF))));

TRIAL_TEST(blog_that_changed_between_attempts_is_visited_again)
{
    for (int stop = 0; stop < 12; stop++) {
        trial_init(t, THREADS,
            "Channels News/; Blogs News/b(Thread=old); Comments new/c");
        t->h.stop_after = stop;
        if (attempt_trial(t) != RUN_STOPPED ||
            !hosted_has(&t->h, "Blogs", "News", "b"))
            continue;
        hosted_remove(&t->h, "Blogs", "News", "b");
        hosted_rows(&t->h, "Blogs News/b(Thread=new)");
        t->h.stop_after = -1;
        trial_succeeds(t, "Comments; Blogs");
    }
}

/* Both rules find the blog. As a leaf of the second rule it would be deleted at
 * once. */
TRIAL_TEST(leaf_that_has_children_by_another_rule_stays_for_them)
{
    trial_init(t,
        CASCADE_JOB("job", "settle: 60s",
            RULES(NESTED(BY_CHANNEL), RULE("Blogs", WITH_CHANNEL))),
        "Channels News/; Blogs News/b(Channel=News) Else/b(Channel=News)");
    hosted_waits(&t->h, "job", "News", "Blogs News/b");
    hosted_rows(&t->h, "Comments b/late");
    hosted_remove(&t->h, "Channels", "News", "");
    trial_succeeds(t, "Blogs; Comments");
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
