/* SPDX-License-Identifier: MIT */
/* The one conditional write: conflicts, unknown outcomes, ledger
 * index rows. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>
#include <string.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/ledger_change.h"
#include "worker/store/deadline.h"

#define JOB "delete-channel"

/* What the change makes of the run, and how often it was asked. */
struct wish {
    enum ledger_state to;
    int32_t attempt;
    unsigned applied;
};

static enum tw_err apply(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct wish *wish = context;

    wish->applied++;
    run->state = wish->to;
    run->attempt += wish->attempt;
    run->finished_ticks = ledger_state_ended(wish->to) ? now_ticks : 0;
    return TW_OK;
}

static enum tw_err change(struct workbench *bench, enum ledger_known known,
    struct wish *wish, struct ledger_run *run)
{
    struct ledger_change asked = {
        .store = bench->store, .apply = apply, .context = wish};
    struct err err;

    if (known == LEDGER_READ || run->job.len == 0) {
        ledger_run_done(run);
        run->job = ledger_text(run, slice_of(JOB));
        run->id = ledger_text(run, slice_of("r1"));
    }
    return ledger_change(&asked, known, run, &err);
}

static struct ledger_run *begin(struct workbench *bench)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_run *run = workbench_new_run(bench);

    assert_ok(change(bench, LEDGER_ABSENT, &wish, run));
    return run;
}

static void expect_lists(
    struct workbench *bench, size_t open, size_t failed, size_t ended)
{
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), open);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_FAILED), failed);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), ended);
}

static int32_t attempts(struct workbench *bench)
{
    struct ledger_run *run = workbench_stored(bench, JOB, "r1");
    int32_t count;

    count = run->attempt;
    return count;
}

BENCH_TEST(a_run_is_always_on_one_list)
{
    static const struct {
        enum ledger_state to;
        size_t open, failed, ended;
    } steps[] = {
        {LEDGER_WAITING, 1, 0, 0},
        {LEDGER_RUNNING, 1, 0, 0},
        {LEDGER_FAILED, 0, 1, 0},
        {LEDGER_QUEUED, 1, 0, 0},
        {LEDGER_PAUSED, 1, 0, 0},
        {LEDGER_RUNNING, 1, 0, 0},
        {LEDGER_SUCCEEDED, 0, 0, 1},
    };
    struct ledger_run *run;

    /* By a caller that knows the ledger index row, and by one that does not. */
    for (int known = 0; known < 2; known++) {
        run = begin(bench);
        for (size_t i = 0; TEST_EACH(i, steps); i++) {
            struct wish wish = {steps[i].to, 0, 0};

            assert_ok(
                change(bench, known ? LEDGER_STORED : LEDGER_READ, &wish, run));
            expect_lists(bench, steps[i].open, steps[i].failed, steps[i].ended);
        }
        {
            struct exchange exchange = {0};

            assert_ok(ledger_remove(bench->store, &exchange, run));
        }
        expect_lists(bench, 0, 0, 0);
        assert_string_equal(workbench_state(bench, JOB, "r1"), "none");
    }
}

BENCH_TEST(a_state_that_may_not_follow_is_refused)
{
    struct wish done = {LEDGER_SUCCEEDED, 0, 0}, again = {LEDGER_QUEUED, 0, 0};
    struct ledger_run *run = begin(bench);

    assert_ok(change(bench, LEDGER_STORED, &done, run));
    assert_int_equal(change(bench, LEDGER_STORED, &again, run), TW_INVALID);
    assert_int_equal(run->state, LEDGER_SUCCEEDED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

static void others_write(struct workbench *bench)
{
    struct ledger_run *run = workbench_stored(bench, JOB, "r1");

    run->attempt += 10;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_TEST(after_a_conflict_the_change_is_made_of_what_is_stored)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_run *run = begin(bench);

    others_write(bench);
    assert_ok(change(bench, LEDGER_STORED, &wish, run));
    assert_int_equal(attempts(bench), 12);
    assert_int_equal(run->attempt, 12);
    assert_int_equal(wish.applied, 2);
}

/* Whose answer was lost reads whose write is stored, and makes it once. */
BENCH_TEST(an_unknown_outcome_is_resolved_by_reading)
{
    static const enum bench_fault faults[] = {
        BENCH_LOSE_ANSWER, BENCH_LOSE_REQUEST};
    struct ledger_run *run = begin(bench);

    for (int32_t i = 0; i < 2; i++) {
        struct wish wish = {LEDGER_RUNNING, 1, 0};

        workbench_meets(bench, BENCH_BATCH, 1, 1, faults[i]);
        assert_ok(change(bench, LEDGER_STORED, &wish, run));
        assert_int_equal(attempts(bench), 2 + i);
        assert_int_equal(wish.applied, 1 + i);
    }
}

BENCH_TEST(an_insert_whose_answer_was_lost_is_ours)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_run *run = workbench_new_run(bench);

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_ok(change(bench, LEDGER_ABSENT, &wish, run));
    assert_int_equal(attempts(bench), 1);
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(what_cannot_be_read_either_stays_unknown)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_run *run = begin(bench);

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(change(bench, LEDGER_STORED, &wish, run), TW_UNKNOWN);
}

/* The worker must not look for a write of before as if it were this one's. */
BENCH_TEST(a_change_that_sent_nothing_names_no_operation)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_change asked = {
        .store = bench->store, .apply = apply, .context = &wish};
    struct err err;
    struct ledger_run *run = begin(bench);

    assert_ok(ledger_change(&asked, LEDGER_STORED, run, &err));
    assert_int_equal(strlen(asked.operation), LEDGER_OPERATION_MAX - 1);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_not_equal(ledger_change(&asked, LEDGER_READ, run, &err), TW_OK);
    assert_string_equal(asked.operation, "");
}

/* An attempt whose lease is over writes no ledger, however it asks. */
BENCH_TEST(after_the_deadline_nothing_is_written)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct deadline deadline;
    struct ledger_change asked = {.store = bench->store,
        .deadline = &deadline,
        .apply = apply,
        .context = &wish};
    struct err err;
    struct ledger_run *run = begin(bench);

    deadline_init(&deadline, PLATFORM_NEVER, 0);
    assert_ok(ledger_change(&asked, LEDGER_STORED, run, &err));
    deadline_close(&deadline);
    assert_int_equal(
        ledger_change(&asked, LEDGER_STORED, run, &err), TW_STOPPED);
    assert_int_equal(attempts(bench), 2);
}

BENCH_TEST(who_always_meets_others_gives_up)
{
    struct wish wish = {LEDGER_RUNNING, 1, 0};
    struct ledger_run *run = begin(bench);

    workbench_meets(bench, BENCH_BATCH, 1, UINT_MAX, BENCH_CONFLICT);
    assert_int_equal(change(bench, LEDGER_STORED, &wish, run), TW_BUSY);
    assert_int_equal(attempts(bench), 1);
}

static void put_row(struct workbench *bench, const char *key)
{
    struct entity row;
    struct arena arena;

    arena_init(&arena);
    entity_init(&row, &arena, slice_of(JOB), slice_of(key));
    workbench_write(bench, OPERATION_INSERT, &row);
    arena_done(&arena);
}

static void touch_row(struct workbench *bench, const char *key, bool remove)
{
    struct exchange exchange = {0};
    struct page page;

    page_init(&page);
    assert_ok(store_get(bench->wrapped.inner, &exchange, LEDGER_TABLE,
        slice_of(JOB), slice_of(key), &page));
    workbench_write(bench, remove ? OPERATION_DELETE : OPERATION_REPLACE,
        &page.entities[0]);
    page_done(&page);
}

/* Somebody deleted the run by hand, and its row stayed. */
BENCH_TEST(a_row_that_was_left_hinders_no_run)
{
    put_row(bench, "!open!r1");
    (void)begin(bench);
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(a_row_that_others_changed_or_took_away_is_no_conflict)
{
    struct wish failed = {LEDGER_FAILED, 0, 0}, queued = {LEDGER_QUEUED, 0, 0};
    struct ledger_run *run = begin(bench);

    touch_row(bench, "!open!r1", false);
    assert_ok(change(bench, LEDGER_STORED, &failed, run));
    expect_lists(bench, 0, 1, 0);
    touch_row(bench, "!failed!r1", true);
    assert_ok(change(bench, LEDGER_STORED, &queued, run));
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(a_row_that_cannot_be_read_leaves_the_run_as_it_was)
{
    struct wish wish = {LEDGER_FAILED, 0, 0};
    struct ledger_run *run = begin(bench);

    touch_row(bench, "!open!r1", false);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(change(bench, LEDGER_STORED, &wish, run), TW_BUSY);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(properties_of_others_are_kept)
{
    struct property other = {
        slice_of("Remark"), EDM_STRING, slice_of("\"hello\"")};
    struct wish wish = {LEDGER_WAITING, 0, 0};
    struct ledger_run *run = begin(bench), *back;

    run->others = &other;
    run->other_count = 1;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(change(bench, LEDGER_READ, &wish, workbench_new_run(bench)));
    back = workbench_stored(bench, JOB, "r1");
    assert_int_equal(back->other_count, 1);
    assert_true(slice_is(back->others[0].json, "\"hello\""));
}

BENCH_TEST(a_newer_version_is_left_alone)
{
    struct ledger_change asked = {.store = bench->store, .apply = apply};
    struct wish wish = {LEDGER_CANCELLED, 0, 0};
    struct err err;
    struct ledger_run *run = begin(bench);

    run->format = LEDGER_FORMAT + 1;
    assert_ok(workbench_store_run(bench, run));
    asked.context = &wish;
    assert_int_equal(ledger_change(&asked, LEDGER_READ, run, &err), TW_INVALID);
    assert_true(asked.left_alone);
    assert_int_equal(wish.applied, 0);
    assert_non_null(strstr(err.text, "newer version"));
}

/* Rule A5: the batch that ends the run closes its job, or none does. */
BENCH_TEST(the_end_of_a_run_closes_its_job_with_it)
{
    struct wish wish = {LEDGER_SUCCEEDED, 0, 0};
    struct ledger_change asked = {.store = bench->store,
        .apply = apply,
        .context = &wish,
        .closes_job = true};
    struct exchange exchange = {0};
    struct slice job = slice_of(JOB), key;
    struct ledger_run *run = begin(bench);
    struct arena arena;
    bool ended;
    struct err err;

    arena_init(&arena);
    key = ledger_closed_key(run->id, run->requested_ticks, &arena);

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_int_equal(ledger_change(&asked, LEDGER_STORED, run, &err), TW_BUSY);
    assert_ok(ledger_check_open(bench->store, &exchange, job, &err));
    assert_ok(ledger_has_closed(bench->store, &exchange, job, key, &ended));
    assert_false(ended);
    assert_ok(ledger_change(&asked, LEDGER_STORED, run, &err));
    assert_int_equal(
        ledger_check_open(bench->store, &exchange, job, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "`finish` of run r1"));
    for (int i = 0; i < 2; i++) /* once is enough */
        assert_ok(ledger_reopen(bench->store, &exchange, job));
    assert_ok(ledger_check_open(bench->store, &exchange, job, &err));
    assert_ok(ledger_has_closed(bench->store, &exchange, job, key, &ended));
    assert_true(ended);
    key = ledger_closed_key(run->id, run->requested_ticks + 1, &arena);
    assert_ok(ledger_has_closed(bench->store, &exchange, job, key, &ended));
    assert_false(ended);
    arena_done(&arena);
}

/* A person opens the job for a run that was finished before this one. */
BENCH_BETWEEN(opens_the_job)
{
    struct exchange exchange = {0};

    if (call != BENCH_BATCH || n != 2)
        return;
    bench->between = NULL;
    assert_ok(ledger_reopen(bench->wrapped.inner, &exchange, slice_of(JOB)));
}

BENCH_TEST(a_run_closes_its_job_that_is_opened_while_it_ends)
{
    struct wish wish = {LEDGER_SUCCEEDED, 0, 0};
    struct ledger_change asked = {.store = bench->store,
        .apply = apply,
        .context = &wish,
        .closes_job = true};
    struct exchange exchange = {0};
    struct ledger_run *run = begin(bench);
    struct arena arena;
    struct entity entity;
    struct err err;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(LEDGER_CLOSED));
    entity_set_string(&entity, &arena, "Run", slice_of("r0"));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
    bench->calls[BENCH_BATCH] = 0;
    bench->between = opens_the_job;
    assert_ok(ledger_change(&asked, LEDGER_STORED, run, &err));
    assert_null(bench->between);
    assert_int_equal(
        ledger_check_open(bench->store, &exchange, slice_of(JOB), &err),
        TW_CONFLICT);
    assert_non_null(strstr(err.text, "`finish` of run r1"));
}
