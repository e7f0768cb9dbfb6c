/* SPDX-License-Identifier: MIT */
/* Orphans, which are open runs without a valid lease and without a message:
 * which runs are found, and what an outage does. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <stdio.h>

#include "worker/base/text.h"
#include "worker/run/orphans.h"

#define TIMEOUT_S 60

struct fixture {
    struct workbench bench;
    struct orphans orphans;
    struct err err;
};

static void init(struct fixture *f)
{
    workbench_init(&f->bench);
    orphans_init(&f->orphans, NULL, NULL);
    orphans_use(&f->orphans, &f->bench.definition);
}

static void done(struct fixture *f)
{
    orphans_done(&f->orphans);
    workbench_done(&f->bench);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

/* Stores an open run whose lease expired `ago_s` seconds ago; negative: the
 * lease is still valid. */
static void leave_run(struct fixture *f, const char *id, int64_t ago_s)
{
    struct ledger_run *run = workbench_football(&f->bench, id);

    run->state = LEDGER_RUNNING;
    run->lease_until_ticks = platform_wall_ticks() - ago_s * TICKS_PER_S;
    assert_ok(workbench_store_run(&f->bench, run));
}

static enum walk_step first_of(struct fixture *f)
{
    enum walk_step step;

    do
        step = orphans_step(&f->orphans, &f->err);
    while (step == WALK_MORE);
    return step;
}

static void begin(struct fixture *f)
{
    orphans_begin(&f->orphans);
}

/* Continues the pass, which must find run `id` and no other run. */
static void expect_only(struct fixture *f, const char *id)
{
    assert_int_equal(first_of(f), WALK_FOUND);
    assert_true(slice_is(f->orphans.run.id, id));
    assert_int_equal(first_of(f), WALK_DONE);
}

FIXTURE_TEST(only_those_that_nobody_works_on_are_found)
{
    leave_run(f, "long", 2 * TIMEOUT_S + 1);
    leave_run(f, "recent", 2 * TIMEOUT_S - 10);
    leave_run(f, "held", -30);
    assert_int_equal(first_of(f), WALK_DONE); /* no pass is under way */
    begin(f);
    expect_only(f, "long");
    assert_int_equal(first_of(f), WALK_DONE);
    begin(f);
    assert_int_equal(first_of(f), WALK_FOUND);
}

/* The ids of these runs are invalid. For ".." the archive would be in the
 * parent folder. */
FIXTURE_TEST(a_run_whose_id_is_none_is_left_alone)
{
    char overlong[130];

    memset(overlong, 'x', sizeof(overlong) - 1);
    overlong[sizeof(overlong) - 1] = '\0';
    leave_run(f, "..", 1000);
    leave_run(f, "", 1000);
    leave_run(f, "a b", 1000);
    leave_run(f, overlong, 1000);
    leave_run(f, overlong + 1, 1000);
    begin(f);
    expect_only(f, overlong + 1);
}

TEST(patience_counts_from_whatever_was_last)
{
    const int64_t now = TICKS_1970 + 1000 * TICKS_PER_S;
    const struct {
        struct ledger_run run;
        bool is;
    } CASES[] = {
        {{.state = LEDGER_QUEUED}, true},
        {{.updated_ticks = now - 2 * TIMEOUT_S * TICKS_PER_S}, true},
        {{.updated_ticks = now - 2 * TIMEOUT_S * TICKS_PER_S + 1}, false},
        {{.resumes_ticks = now + TICKS_PER_S}, false},
        {{.lease_until_ticks = now - TICKS_PER_S}, false},
        {{.state = LEDGER_SUCCEEDED}, false},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++)
        assert_int_equal(
            orphans_is(&CASES[i].run, now, TIMEOUT_S), CASES[i].is);
}

static void leave_run_without_job(
    struct fixture *f, const char *id, const char *queue, int64_t ago_s)
{
    struct ledger_run *run = workbench_new_run(&f->bench);

    run->job = slice_of("gone");
    run->id = slice_of(id);
    run->queue = slice_of(queue);
    run->state = LEDGER_RUNNING;
    run->owner = slice_of("somebody");
    run->lease_until_ticks = platform_wall_ticks() - ago_s * TICKS_PER_S;
    assert_ok(workbench_store_run(&f->bench, run));
}

static const char *waits_for(struct fixture *f, const char *id)
{
    const struct ledger_run *run = workbench_stored(&f->bench, "gone", id);

    return run->state == LEDGER_WAITING ? run->waits_for.at : "nothing";
}

/* A run whose job was removed is held; otherwise the run would stay `running`
 * for ever, with its locks. A run of a queue that this worker does not serve is
 * left alone, because the run may belong to a worker with another
 * configuration. */
FIXTURE_TEST(an_orphan_whose_job_was_removed_is_held)
{
    leave_run_without_job(f, "by-run", "", 1000);
    leave_run_without_job(f, "served", BENCH_QUEUE, 1000);
    leave_run_without_job(f, "other", "old", 1000);
    leave_run_without_job(f, "alive", "", -30);
    begin(f);
    assert_int_equal(first_of(f), WALK_DONE);
    assert_string_equal(waits_for(f, "by-run"), LEDGER_WAITS_FOR_DEFINITION);
    assert_string_equal(waits_for(f, "served"), LEDGER_WAITS_FOR_DEFINITION);
    assert_string_equal(waits_for(f, "other"), "nothing");
    assert_string_equal(waits_for(f, "alive"), "nothing");
    assert_int_equal(f->orphans.unserved, 3);
    assert_non_null(strstr(
        f->orphans.unserved_example, ": job gone is not in the configuration"));
    begin(f);
    assert_int_equal(f->orphans.unserved, 0);
}

/* In the first case the ledger index cannot be read, in the second case the
 * run. */
FIXTURE_TEST(what_cannot_be_read_ends_the_pass)
{
    static const enum bench_call FAILING[] = {BENCH_SCAN, BENCH_GET};

    leave_run(f, "long", 1000);
    for (size_t i = 0; TEST_EACH(i, FAILING); i++) {
        workbench_meets(&f->bench, FAILING[i], 1, 1, BENCH_FAIL);
        begin(f);
        assert_int_equal(first_of(f), WALK_FAILED);
        assert_string_equal(f->err.text, "the store is down");
        assert_int_equal(first_of(f), WALK_DONE);
        begin(f);
        assert_int_equal(first_of(f), WALK_FOUND);
    }
}

/* The ledger index has a row of the run, but the run was deleted meanwhile, or
 * cannot be read. */
FIXTURE_TEST(a_marker_without_a_run_is_passed_over)
{
    leave_run(f, "a", 1000);
    leave_run(f, "b", 1000);
    leave_run(f, "c", 1000);
    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_GONE);
    workbench_meets(&f->bench, BENCH_GET, 2, 2, BENCH_INVALID);
    begin(f);
    expect_only(f, "c");
}

/* The ledger index has more rows than a page. */
FIXTURE_TEST(markers_are_read_page_by_page)
{
    unsigned found = 0;

    for (unsigned i = 0; i < 1003; i++) {
        char id[8];

        (void)snprintf(id, sizeof(id), "r%04u", i);
        leave_run(f, id, 1000);
    }
    begin(f);
    while (first_of(f) == WALK_FOUND)
        found++;
    assert_int_equal(found, 1003);
    /* One scan before and one after the two pages: they search for the next
     * job. */
    assert_int_equal(f->bench.calls[BENCH_SCAN], 4);
}
