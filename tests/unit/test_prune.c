/* SPDX-License-Identifier: MIT */
/* What leaves the ledger, and what stays. */
#include "tests/support/workbench.h"

#include "worker/base/text.h"
#include "worker/run/prune.h"

#define JOB "delete-channel"

static void stored_as(struct workbench *bench, const char *job, const char *id,
    enum ledger_state run_state, const char *day)
{
    struct ledger_run run;

    ledger_run_init(&run);
    run.job = slice_of(job);
    run.id = slice_of(id);
    run.state = run_state;
    if (day)
        assert_true(text_ticks(slice_of(day), &run.finished_ticks));
    assert_int_equal(workbench_store_run(bench, &run), TW_OK);
    ledger_run_done(&run);
}

static enum prune_step pass(struct workbench *bench, struct prune *prune)
{
    enum prune_step step;
    struct err err;
    int64_t before;

    assert_true(text_ticks(slice_of("2026-11-21T12:00:00Z"), &before));
    prune_begin(prune, bench->store, NULL, before);
    do
        step = prune_step(prune, &err);
    while (step == PRUNE_MORE);
    return step;
}

static void expect(struct workbench *bench, const char *job, const char *id,
    const char *wanted)
{
    assert_string_equal(workbench_state(bench, job, id), wanted);
}

static void what_ended_long_ago_leaves_and_failures_stay(void **state)
{
    struct workbench *bench = *state;
    struct prune prune;

    stored_as(bench, JOB, "a", LEDGER_SUCCEEDED, "2026-11-19T10:00:00Z");
    stored_as(bench, JOB, "b", LEDGER_CANCELLED, "2026-11-20T23:59:59Z");
    stored_as(bench, JOB, "c", LEDGER_SUCCEEDED, "2026-11-21T00:00:00Z");
    stored_as(bench, JOB, "d", LEDGER_FAILED, "2026-11-01T10:00:00Z");
    stored_as(bench, JOB, "e", LEDGER_POISONED, "2026-11-01T10:00:00Z");
    stored_as(bench, JOB, "f", LEDGER_PAUSED, NULL);
    stored_as(bench, "gone-job", "g", LEDGER_SUCCEEDED, "2026-11-01T10:00:00Z");
    prune_init(&prune);
    assert_int_equal(pass(bench, &prune), PRUNE_DONE);
    assert_true(prune.pruned == 3);
    expect(bench, JOB, "a", "none");
    expect(bench, JOB, "b", "none");
    expect(bench, "gone-job", "g", "none");
    expect(bench, JOB, "c", "succeeded");
    expect(bench, JOB, "d", "failed");
    expect(bench, JOB, "e", "poisoned");
    expect(bench, JOB, "f", "paused");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 1);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_FAILED), 2);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    assert_int_equal(
        workbench_listed(bench, "gone-job", LEDGER_INDEX_ENDED), 0);
    prune_done(&prune);
}

static struct workbench *meddled;

/* Between the read and the delete somebody writes the run. */
static void meddle(struct workbench *bench, enum bench_call call, unsigned n)
{
    struct ledger_run run;

    (void)n;
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    ledger_run_init(&run);
    assert_true(workbench_run(meddled, JOB, "a", &run));
    assert_int_equal(workbench_store_run(meddled, &run), TW_OK);
    ledger_run_done(&run);
}

static void a_run_that_changes_meanwhile_stays(void **state)
{
    struct workbench *bench = *state;
    struct prune prune;

    stored_as(bench, JOB, "a", LEDGER_SUCCEEDED, "2026-11-19T10:00:00Z");
    prune_init(&prune);
    meddled = bench;
    bench->between = meddle;
    assert_int_equal(pass(bench, &prune), PRUNE_DONE);
    expect(bench, JOB, "a", "succeeded");
    assert_int_equal(pass(bench, &prune), PRUNE_DONE);
    expect(bench, JOB, "a", "none");
    prune_done(&prune);
}

static void an_outage_gives_the_pass_up(void **state)
{
    struct workbench *bench = *state;
    struct prune prune;

    stored_as(bench, JOB, "a", LEDGER_SUCCEEDED, "2026-11-19T10:00:00Z");
    prune_init(&prune);
    workbench_meets(bench, BENCH_SCAN, 2, 2, BENCH_FAIL);
    assert_int_equal(pass(bench, &prune), PRUNE_FAILED);
    assert_false(prune.under_way);
    prune_done(&prune);
}

static void without_a_ledger_there_is_nothing_to_prune(void **state)
{
    struct workbench *bench = *state;
    struct prune prune;

    prune_init(&prune);
    assert_int_equal(pass(bench, &prune), PRUNE_DONE);
    prune_done(&prune);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, workbench_set_up, workbench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_ended_long_ago_leaves_and_failures_stay),
        TEST(a_run_that_changes_meanwhile_stays),
        TEST(an_outage_gives_the_pass_up),
        TEST(without_a_ledger_there_is_nothing_to_prune),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
