/* SPDX-License-Identifier: MIT */
/* What a worker's attempts have done, as metrics show it. */
#include <stdio.h>

#include "jobs/engine/run.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/run/activity.h"

static int set_up(void **state)
{
    *state = activity_new();
    return 0;
}

static int tear_down(void **state)
{
    activity_free(*state);
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct activity *activity)

/* Returns the numbers that are shown of job `name` now. */
static struct activity_job look(struct activity *activity, const char *name)
{
    size_t count;
    struct activity_job *jobs = activity_jobs(activity, &count), found = {0};

    for (size_t i = 0; i < count; i++)
        if (strcmp(jobs[i].name, name) == 0)
            found = jobs[i];
    mem_free(jobs);
    return found;
}

static int64_t held(
    struct activity *activity, const char *store, const char *cause)
{
    size_t count;
    struct activity_hold *holds = activity_holds(activity, &count);
    int64_t found = -1;

    for (size_t i = 0; i < count; i++)
        if (strcmp(holds[i].store, store) == 0 &&
            strcmp(holds[i].cause, cause) == 0)
            found = holds[i].count;
    mem_free(holds);
    return found;
}

FIXTURE_TEST(a_counter_never_falls)
{
    struct run run = {.job = "move", .id = "r1"};

    atomic_store(&run.counts.read, 1000); /* counted by an earlier attempt */
    activity_begin(activity, &run);
    atomic_store(&run.counts.failed, 7);
    assert_int_equal(look(activity, "move").entities[ACTIVITY_FAILED], 7);
    atomic_store(&run.counts.failed, 0); /* the run reads these entities
                                            again */
    assert_int_equal(look(activity, "move").entities[ACTIVITY_FAILED], 7);
    atomic_store(&run.counts.failed, 3);
    assert_int_equal(look(activity, "move").entities[ACTIVITY_FAILED], 10);
    atomic_fetch_add(&run.counts.failed, 2);
    activity_end(activity, &run);
    atomic_fetch_add(&run.counts.failed, 100);
    assert_int_equal(look(activity, "move").entities[ACTIVITY_FAILED], 12);
    assert_int_equal(look(activity, "move").entities[ACTIVITY_READ], 0);
}

FIXTURE_TEST(runs_of_one_job_are_told_apart)
{
    struct run a = {.job = "move", .id = "a"}, b = {.job = "move", .id = "b"},
               c = {.job = "copy", .id = "c"};

    activity_begin(activity, &a);
    activity_begin(activity, &b);
    activity_begin(activity, &c);
    assert_int_equal(look(activity, "move").in_progress, 2);
    activity_end(activity, &a);
    atomic_store(&b.counts.written, 4);
    atomic_store(&c.counts.written, 8);
    assert_int_equal(look(activity, "move").in_progress, 1);
    assert_int_equal(look(activity, "move").entities[ACTIVITY_WRITTEN], 4);
    assert_int_equal(look(activity, "copy").entities[ACTIVITY_WRITTEN], 8);
    activity_end(activity, &b);
    activity_end(activity, &c);
}

FIXTURE_TEST(ends_are_counted_by_their_result)
{
    activity_add_job(activity, "move");
    assert_int_equal(look(activity, "move").ended[ACTIVITY_RUN_FAILED], 0);
    activity_run_ended(activity, "move", LEDGER_SUCCEEDED);
    activity_run_ended(activity, "move", LEDGER_FAILED);
    activity_run_ended(activity, "move", LEDGER_FAILED);
    activity_run_ended(activity, "-", LEDGER_POISONED);
    activity_run_ended(activity, "move", LEDGER_CANCELLED);
    activity_run_ended(activity, "move", LEDGER_WAITING); /* has not ended */
    activity_lease_lost(activity, "move");
    assert_int_equal(look(activity, "move").ended[ACTIVITY_RUN_SUCCEEDED], 1);
    assert_int_equal(look(activity, "move").ended[ACTIVITY_RUN_FAILED], 2);
    assert_int_equal(look(activity, "move").ended[ACTIVITY_RUN_POISONED], 0);
    assert_int_equal(look(activity, "move").ended[ACTIVITY_RUN_CANCELLED], 1);
    assert_int_equal(look(activity, "-").ended[ACTIVITY_RUN_POISONED], 1);
    assert_int_equal(look(activity, "move").leases_lost, 1);
}

static void hold(struct activity *activity, const char *id, const char *store,
    const char *waits_for, int64_t until_ms)
{
    activity_held(activity, slice_of("move"), slice_of(id), store,
        slice_of(waits_for), until_ms);
}

FIXTURE_TEST(a_held_run_counts_once_until_it_goes_on)
{
    int64_t until_ms = platform_boot_ms() + 5000;

    hold(activity, "a", "cloud", LEDGER_WAITS_FOR_STORE, until_ms);
    hold(activity, "a", "cloud", LEDGER_WAITS_FOR_STORE, until_ms);
    hold(activity, "b", "cloud", LEDGER_WAITS_FOR_STORE, until_ms);
    hold(activity, "c", "main", LEDGER_WAITS_FOR_ARCHIVE, until_ms);
    assert_int_equal(held(activity, "cloud", "store"), 2);
    assert_int_equal(held(activity, "main", "archive"), 1);
    hold(activity, "a", "main", LEDGER_WAITS_FOR_ARCHIVE, until_ms);
    assert_int_equal(held(activity, "cloud", "store"), 1);
    assert_int_equal(held(activity, "main", "archive"), 2);
    activity_not_held(activity, slice_of("move"), slice_of("a"));
    activity_not_held(activity, slice_of("move"), slice_of("a"));
    activity_not_held(activity, slice_of("copy"), slice_of("b"));
    assert_int_equal(held(activity, "cloud", "store"), 1);
    assert_int_equal(held(activity, "main", "archive"), 1);
    activity_not_held(activity, slice_of("move"), slice_of("b"));
    assert_int_equal(held(activity, "cloud", "store"), 0);
}

/* The run does not come back if another worker has taken it or an operator has
 * cancelled it. */
FIXTURE_TEST(a_held_run_that_does_not_come_back_is_forgotten)
{
    int64_t now_ms = platform_boot_ms();

    hold(activity, "a", "cloud", LEDGER_WAITS_FOR_STORE, now_ms - 59000);
    hold(activity, "b", "cloud", LEDGER_WAITS_FOR_STORE, now_ms - 61000);
    hold(activity, "c", "cloud", LEDGER_WAITS_FOR_STORE, now_ms - 61000);
    assert_int_equal(held(activity, "cloud", "store"), 1);
}

/* A run in the ledger may wait for a cause that only a newer version of the
 * worker knows. Such a run is counted under the cause `other`. */
FIXTURE_TEST(causes_are_of_a_bounded_set)
{
    hold(activity, "a", "main", "Football", platform_boot_ms());
    hold(activity, "b", "main", "", platform_boot_ms());
    assert_int_equal(held(activity, "main", "Football"), -1);
    assert_int_equal(held(activity, "main", "other"), 2);
}

FIXTURE_TEST(held_runs_take_bounded_memory)
{
    int64_t until_ms = platform_boot_ms() + 1000000;
    char id[32];

    for (int i = 0; i < 9000; i++) {
        (void)snprintf(id, sizeof(id), "run-%d", i);
        hold(activity, id, "main", LEDGER_WAITS_FOR_STORE, until_ms);
    }
    assert_int_equal(held(activity, "main", "store"), 8192);
}

TEST(without_an_activity_nothing_is_counted)
{
    struct run run = {.job = "move", .id = "r1"};

    activity_begin(NULL, &run);
    activity_end(NULL, &run);
    activity_add_job(NULL, "move");
    activity_run_ended(NULL, "move", LEDGER_FAILED);
    activity_lease_lost(NULL, "move");
    hold(NULL, "a", "main", LEDGER_WAITS_FOR_STORE, 0);
    activity_not_held(NULL, slice_of("move"), slice_of("a"));
    activity_free(NULL);
}
