/* SPDX-License-Identifier: MIT */
/* ledger_change(), which makes one conditional write: conflicts, unknown
 * outcomes, ledger index rows. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <string.h>

#include "worker/base/text.h"
#include "worker/run/ledger_change.h"

#define JOB "delete-channel"

/* A change of the run, and how often it was applied. */
struct request {
    struct ledger_change asked;
    enum ledger_state to;
    int32_t attempt;
    unsigned applied;
    struct err err;
};

static enum tw_err apply(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct request *request = context;

    request->applied++;
    run->state = request->to;
    run->attempt += request->attempt;
    run->finished_ticks = ledger_state_ended(request->to) ? now_ticks : 0;
    return TW_OK;
}

static struct request request_of(
    struct workbench *bench, enum ledger_state to, int32_t attempt)
{
    return (struct request){.asked = {.store = bench->store, .apply = apply},
        .to = to,
        .attempt = attempt};
}

static enum tw_err change(
    enum ledger_known known, struct request *request, struct ledger_run *run)
{
    if (known == LEDGER_READ || run->job.len == 0) {
        ledger_run_done(run);
        run->job = ledger_text(run, slice_of(JOB));
        run->id = ledger_text(run, slice_of("r1"));
    }
    request->asked.context = request;
    return ledger_change(&request->asked, known, run, &request->err);
}

/* Moves `run`, which is stored, to the state `to`. */
static void move(
    struct workbench *bench, enum ledger_state to, struct ledger_run *run)
{
    struct request request = request_of(bench, to, 0);

    assert_ok(change(LEDGER_STORED, &request, run));
}

static struct ledger_run *begin(struct workbench *bench)
{
    struct request request = request_of(bench, LEDGER_RUNNING, 1);
    struct ledger_run *run = workbench_new_run(bench);

    assert_ok(change(LEDGER_ABSENT, &request, run));
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
    return workbench_stored(bench, JOB, "r1")->attempt;
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

    /* The caller knows the run's ledger index row, or does not know it. */
    for (int known = 0; known < 2; known++) {
        struct ledger_run *run = begin(bench);
        struct exchange exchange = {0};

        for (size_t i = 0; TEST_EACH(i, steps); i++) {
            struct request request = request_of(bench, steps[i].to, 0);

            assert_ok(
                change(known ? LEDGER_STORED : LEDGER_READ, &request, run));
            expect_lists(bench, steps[i].open, steps[i].failed, steps[i].ended);
        }
        assert_ok(ledger_remove(bench->store, &exchange, run));
        expect_lists(bench, 0, 0, 0);
        assert_string_equal(workbench_state(bench, JOB, "r1"), "none");
    }
}

BENCH_TEST(a_state_that_may_not_follow_is_refused)
{
    struct request again = request_of(bench, LEDGER_QUEUED, 0);
    struct ledger_run *run = begin(bench);

    move(bench, LEDGER_SUCCEEDED, run);
    assert_int_equal(change(LEDGER_STORED, &again, run), TW_INVALID);
    assert_int_equal(run->state, LEDGER_SUCCEEDED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

/* If the response is lost, the run is read to find out whether the write was
 * stored. The change is made only once. */
BENCH_TEST(an_unknown_outcome_is_resolved_by_reading)
{
    static const struct {
        const char *name;
        enum ledger_known known;
        enum bench_fault fault;
        unsigned applied;
    } cases[] = {
        {"of an insert", LEDGER_ABSENT, BENCH_LOSE_ANSWER, 1},
        {"of a change", LEDGER_STORED, BENCH_LOSE_ANSWER, 1},
        {"of a change that was not made", LEDGER_STORED, BENCH_LOSE_REQUEST, 2},
    };
    struct ledger_run *run = workbench_new_run(bench);

    for (int32_t i = 0; i < 3; i++) {
        struct request request = request_of(bench, LEDGER_RUNNING, 1);

        test_case("%s", cases[i].name);
        workbench_meets(bench, BENCH_BATCH, 1, 1, cases[i].fault);
        assert_ok(change(cases[i].known, &request, run));
        assert_int_equal(attempts(bench), 1 + i);
        assert_int_equal(request.applied, cases[i].applied);
        expect_lists(bench, 1, 0, 0);
    }
}

/* A change that sent nothing has no Operation. If the Operation of an earlier
 * change were left, the worker would take it for that of this change. */
BENCH_TEST(a_change_that_sent_nothing_names_no_operation)
{
    struct request request = request_of(bench, LEDGER_RUNNING, 1);
    struct ledger_run *run = begin(bench);

    assert_ok(change(LEDGER_STORED, &request, run));
    assert_int_equal(strlen(request.asked.operation), LEDGER_OPERATION_MAX - 1);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_not_equal(change(LEDGER_READ, &request, run), TW_OK);
    assert_string_equal(request.asked.operation, "");
}

static void put_row(
    struct workbench *bench, const char *key, const char *name, const char *run)
{
    struct entity row;
    struct arena arena;

    arena_init(&arena);
    entity_init(&row, &arena, slice_of(JOB), slice_of(key));
    entity_set_string(&row, &arena, name, slice_of(run));
    workbench_write(bench, OPERATION_INSERT, &row);
    arena_done(&arena);
}

static void touch_row(
    struct workbench *bench, const char *key, enum operation_type type)
{
    struct exchange exchange = {0};
    struct page page;

    page_init(&page);
    assert_ok(store_get(bench->wrapped.inner, &exchange, LEDGER_TABLE,
        slice_of(JOB), slice_of(key), &page));
    workbench_write(bench, type, &page.entities[0]);
    page_done(&page);
}

BENCH_TEST(a_row_that_others_changed_or_took_away_is_no_conflict)
{
    struct ledger_run *run;

    /* Somebody deleted the run's entity by hand, but not its ledger index
     * row. */
    put_row(bench, "!open!r1", "State", "queued");
    run = begin(bench);
    expect_lists(bench, 1, 0, 0);
    touch_row(bench, "!open!r1", OPERATION_REPLACE);
    move(bench, LEDGER_FAILED, run);
    expect_lists(bench, 0, 1, 0);
    touch_row(bench, "!failed!r1", OPERATION_DELETE);
    move(bench, LEDGER_QUEUED, run);
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(a_row_that_cannot_be_read_leaves_the_run_as_it_was)
{
    struct request request = request_of(bench, LEDGER_FAILED, 0);
    struct ledger_run *run = begin(bench);

    touch_row(bench, "!open!r1", OPERATION_REPLACE);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(change(LEDGER_STORED, &request, run), TW_BUSY);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
    expect_lists(bench, 1, 0, 0);
}

BENCH_TEST(a_newer_version_is_left_alone)
{
    struct request request = request_of(bench, LEDGER_CANCELLED, 0);
    struct ledger_run *run = begin(bench);

    run->format = LEDGER_FORMAT + 1;
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(change(LEDGER_READ, &request, run), TW_INVALID);
    assert_true(request.asked.left_alone);
    assert_int_equal(request.applied, 0);
    assert_non_null(strstr(request.err.text, "newer version"));
}

static enum tw_err check_open(struct workbench *bench, struct err *err)
{
    struct exchange exchange = {0};

    return ledger_check_open(bench->store, &exchange, slice_of(JOB), err);
}

static void reopen(struct workbench *bench)
{
    struct exchange exchange = {0};

    assert_ok(ledger_reopen(bench->wrapped.inner, &exchange, slice_of(JOB)));
}

/* Returns whether a run closed its job when it ended. The run has the id of
 * `run`, and was requested at requested_ticks. */
static bool has_closed(struct workbench *bench, const struct ledger_run *run,
    int64_t requested_ticks)
{
    struct exchange exchange = {0};
    struct arena arena;
    bool ended;

    arena_init(&arena);
    assert_ok(ledger_has_closed(bench->store, &exchange, slice_of(JOB),
        ledger_closed_key(run->id, requested_ticks, &arena), &ended));
    arena_done(&arena);
    return ended;
}

/* Rule A5: the batch that ends the run also closes its job; if the batch fails,
 * neither happens. */
BENCH_TEST(the_end_of_a_run_closes_its_job_with_it)
{
    struct request request = request_of(bench, LEDGER_SUCCEEDED, 0);
    struct ledger_run *run = begin(bench);

    request.asked.closes_job = true;
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_int_equal(change(LEDGER_STORED, &request, run), TW_BUSY);
    assert_ok(check_open(bench, &request.err));
    assert_false(has_closed(bench, run, run->requested_ticks));
    assert_ok(change(LEDGER_STORED, &request, run));
    assert_int_equal(check_open(bench, &request.err), TW_CONFLICT);
    assert_non_null(strstr(request.err.text, "`finish` of run r1"));
    reopen(bench);
    reopen(bench); /* the second time without effect */
    assert_ok(check_open(bench, &request.err));
    assert_true(has_closed(bench, run, run->requested_ticks));
    assert_false(has_closed(bench, run, run->requested_ticks + 1));
}

/* An operator opens the job, which an earlier run closed, while this run ends.
 */
BENCH_BETWEEN(opens_the_job)
{
    if (call != BENCH_BATCH || n != 2)
        return;
    bench->between = NULL;
    reopen(bench);
}

BENCH_TEST(a_run_closes_its_job_that_is_opened_while_it_ends)
{
    struct request request = request_of(bench, LEDGER_SUCCEEDED, 0);
    struct ledger_run *run = begin(bench);

    request.asked.closes_job = true;
    put_row(bench, LEDGER_CLOSED, "Run", "r0");
    bench->calls[BENCH_BATCH] = 0;
    bench->between = opens_the_job;
    assert_ok(change(LEDGER_STORED, &request, run));
    assert_null(bench->between);
    assert_int_equal(check_open(bench, &request.err), TW_CONFLICT);
    assert_non_null(strstr(request.err.text, "`finish` of run r1"));
}
