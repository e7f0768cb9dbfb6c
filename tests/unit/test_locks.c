/* SPDX-License-Identifier: MIT */
/* Locks of table jobs: rules L1 to L3. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/ledger_change.h"
#include "worker/run/locks.h"

#define MAX_TABLES 17 /* a source, and 16 destinations */

/* A table job that writes `tables` and reads another. */
struct table_job {
    struct kind kind;
    struct job job;
    const char *tables[MAX_TABLES];
};

static void list_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct table_job *own = job->settings;

    each(ctx, 0, "OnlyRead", JOB_READS);
    for (size_t i = 0; i < MAX_TABLES && own->tables[i]; i++) {
        each(ctx, 0, own->tables[i], JOB_WRITES);
        each(ctx, 0, own->tables[i], JOB_WRITES); /* twice is once */
    }
}

static struct table_job job_of(
    const char *name, const char *first, const char *second)
{
    struct table_job own = {
        .kind = {.name = "scripted", .table_job = true, .tables = list_tables},
        .tables = {first, second}};

    own.job.name = name;
    return own;
}

/* The run as the ledger has it, asked for at that second. */
static void store_run(struct workbench *bench, const char *job, const char *id,
    enum ledger_state run_state, int64_t second)
{
    struct ledger_run run;

    ledger_run_init(&run);
    if (!workbench_run(bench, job, id, &run)) {
        run.job = ledger_text(&run, slice_of(job));
        run.id = ledger_text(&run, slice_of(id));
    }
    run.state = run_state;
    run.requested_ticks = TICKS_1970 + second * TICKS_PER_S;
    run.updated_ticks = platform_wall_ticks();
    run.waits_for =
        slice_of(run_state == LEDGER_WAITING ? LEDGER_WAITS_FOR_TURN : "");
    run.resumes_ticks = run_state == LEDGER_WAITING ? platform_wall_ticks() : 0;
    assert_ok(workbench_store_run(bench, &run));
    ledger_run_done(&run);
}

static struct err last_err;
static bool taken_over;

static enum locks_outcome take(struct workbench *bench, struct table_job *own,
    const char *id, int64_t second)
{
    struct locks_request request = {.store = bench->store,
        .job = &own->job,
        .stores = &bench->stores,
        .id = slice_of(id),
        .requested_ticks = TICKS_1970 + second * TICKS_PER_S};

    own->job.kind = &own->kind;
    own->job.settings = own;
    return locks_take(&request, &taken_over, &last_err);
}

static void release(struct workbench *bench, const char *job, const char *id)
{
    locks_release(bench->store, NULL, slice_of(job), slice_of(id), true);
}

/* RowKeys of `!locks` that begin so. */
static size_t rows(struct workbench *bench, const char *prefix)
{
    struct scan_request scan = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(slice_of(LOCKS_PARTITION))};
    struct exchange exchange = {0};
    struct page page;
    size_t count = 0;

    page_init(&page);
    assert_ok(store_scan(bench->wrapped.inner, &exchange, &scan, &page));
    for (size_t i = 0; i < page.count; i++)
        count += slice_begins(page.entities[i].row_key, slice_of(prefix));
    page_done(&page);
    return count;
}

VIRTUAL_BENCH_TEST(two_runs_never_have_one_table)
{
    struct table_job a = job_of("a", "Blogs", "Posts");
    struct table_job b = job_of("b", "POSTS", NULL); /* the same table */
    struct table_job c = job_of("c", "OnlyRead", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    store_run(bench, "c", "1", LEDGER_RUNNING, 3);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_false(taken_over);
    assert_int_equal(rows(bench, "lock!"), 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN); /* it has them */
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "run a/1 has table POSTS"));
    assert_non_null(strstr(last_err.text, "is running"));
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_TAKEN); /* a only reads */
    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
    release(bench, "a", "1");
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "want!"), 0);
    assert_int_equal(rows(bench, "lock!"), 2);
}

/* Rule L1: of two tables one is taken: none is held meanwhile. */
VIRTUAL_BENCH_TEST(who_waits_holds_nothing)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Posts", "Blogs");
    struct table_job c = job_of("c", "Posts", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 5);
    store_run(bench, "b", "1", LEDGER_RUNNING, 6);
    store_run(bench, "c", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 5), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 6), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "lock!"), 1);
    assert_int_equal(rows(bench, "want!"), 2);
    assert_int_equal(take(bench, &c, "1", 2), LOCKS_TAKEN); /* older */
}

/* Rule L2: else a stream of younger runs would starve the older one. */
VIRTUAL_BENCH_TEST(a_younger_run_waits_for_an_older_one_that_waits)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Posts", "Blogs");
    struct table_job c = job_of("c", "Posts", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_WAITING, 2);
    store_run(bench, "c", "1", LEDGER_WAITING, 3);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "run b/1 has waited longer for"));
    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
    release(bench, "a", "1");
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_BLOCKED);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_BLOCKED);
    store_run(bench, "b", "1", LEDGER_SUCCEEDED, 2);
    release(bench, "b", "1");
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_TAKEN);
}

/* Who cannot come blocks nobody. */
VIRTUAL_BENCH_TEST(a_want_of_a_run_that_cannot_come_does_not_count)
{
    static const enum ledger_state states[] = {
        LEDGER_PAUSED, LEDGER_FAILED, LEDGER_CANCELLED};
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Posts", "Blogs");
    struct table_job c = job_of("c", "Posts", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_WAITING, 2);
    store_run(bench, "c", "1", LEDGER_WAITING, 3);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    for (size_t i = 0; TEST_EACH(i, states); i++) {
        store_run(bench, "b", "1", LEDGER_WAITING, 2);
        assert_int_equal(take(bench, &c, "1", 3), LOCKS_BLOCKED);
        store_run(bench, "b", "1", states[i], 2);
        assert_int_equal(take(bench, &c, "1", 3), LOCKS_TAKEN);
        release(bench, "c", "1");
    }
}

/* Paused and held runs keep what they have; ended ones lose it, though they
 * did not release it, and that is told: late requests (A4). */
VIRTUAL_BENCH_TEST(only_the_end_of_a_run_frees_its_locks)
{
    static const struct {
        enum ledger_state run_state;
        enum locks_outcome outcome;
    } cases[] = {
        {LEDGER_QUEUED, LOCKS_BLOCKED},
        {LEDGER_WAITING, LOCKS_BLOCKED},
        {LEDGER_PAUSED, LOCKS_BLOCKED},
        {LEDGER_FAILED, LOCKS_TAKEN},
        {LEDGER_CANCELLED, LOCKS_TAKEN},
        {LEDGER_SUCCEEDED, LOCKS_TAKEN},
    };
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        store_run(bench, "a", "1", LEDGER_RUNNING, 1);
        store_run(bench, "b", "1", LEDGER_RUNNING, 2);
        assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
        store_run(bench, "a", "1", cases[i].run_state, 1);
        assert_int_equal(take(bench, &b, "1", 2), cases[i].outcome);
        assert_true(taken_over == (cases[i].outcome == LOCKS_TAKEN));
        virtual_sleep(34000);
        release(bench, "a", "1");
        release(bench, "b", "1");
    }
    assert_int_equal(rows(bench, ""), 0);
}

VIRTUAL_BENCH_TEST(the_lock_of_a_pruned_run_is_free)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    assert_true(taken_over);
}

/* Also for an attempt after that which took the lock over (A4). */
VIRTUAL_BENCH_TEST(late_requests_are_told_for_30_s_after_a_take_over)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_FAILED, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    for (int s = 0; s < 33; s += 11) {
        assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
        assert_true(taken_over);
        virtual_sleep(11000);
    }
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    assert_false(taken_over);
}

/* A person has accepted another definition of the job. */
VIRTUAL_BENCH_TEST(a_run_leaves_the_locks_of_former_tables)
{
    struct table_job blogs = job_of("a", "Blogs", NULL);
    struct table_job posts = job_of("a", "Posts", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &blogs, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &posts, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    assert_true(taken_over); /* what a/1 has sent may still arrive */
}

VIRTUAL_BENCH_TEST(two_runs_exchange_their_tables)
{
    struct table_job a_blogs = job_of("a", "Blogs", NULL);
    struct table_job a_posts = job_of("a", "Posts", NULL);
    struct table_job b_blogs = job_of("b", "Blogs", NULL);
    struct table_job b_posts = job_of("b", "Posts", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a_blogs, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b_posts, "1", 2), LOCKS_TAKEN);
    assert_int_equal(take(bench, &a_posts, "1", 1), LOCKS_BLOCKED);
    assert_int_equal(take(bench, &b_blogs, "1", 2), LOCKS_TAKEN);
    assert_int_equal(take(bench, &a_posts, "1", 1), LOCKS_TAKEN);
}

/* Each later run would read the ended run. */
VIRTUAL_BENCH_TEST(a_run_that_ends_before_its_turn_leaves_no_wants)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", "Posts");

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_WAITING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "want!"), 2);
    locks_release(bench->store, NULL, slice_of("a"), slice_of("1"), false);
    locks_release(bench->store, NULL, slice_of("b"), slice_of("1"), false);
    assert_int_equal(rows(bench, "want!"), 0);
    assert_int_equal(rows(bench, "lock!"), 1);
}

static struct table_job rival;

BENCH_BETWEEN(rival_takes)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    assert_int_equal(take(bench, &rival, "1", 9), LOCKS_TAKEN);
}

/* Both have read that it is free; one batch is first. */
VIRTUAL_BENCH_TEST(of_two_that_take_at_once_one_has_it)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    rival = job_of("b", "Blogs", NULL);
    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 9);
    bench->between = rival_takes;
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "lock!"), 1);
}

BENCH_BETWEEN(ended_run_is_retried)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    store_run(bench, "b", "1", LEDGER_RUNNING, 9);
    assert_int_equal(take(bench, &rival, "1", 9), LOCKS_TAKEN);
}

/* It was read as ended, and its lock, which its end left, as free. */
VIRTUAL_BENCH_TEST(a_lock_that_a_retried_run_has_again_is_not_taken)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    rival = job_of("b", "Blogs", NULL);
    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 9);
    assert_int_equal(take(bench, &rival, "1", 9), LOCKS_TAKEN);
    store_run(bench, "b", "1", LEDGER_FAILED, 9);
    bench->between = ended_run_is_retried;
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "run b/1 has table"));
    assert_int_equal(rows(bench, "lock!"), 1);
}

/* Rule L1: one batch has all of them, so that who loses one holds none. */
VIRTUAL_BENCH_TEST(who_loses_one_of_two_holds_none)
{
    struct table_job a = job_of("a", "Blogs", "Posts");

    rival = job_of("b", "Posts", NULL);
    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 9);
    bench->between = rival_takes;
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "lock!"), 1);
}

VIRTUAL_BENCH_TEST(an_unknown_batch_is_read_and_taken_once)
{
    static const enum bench_fault faults[] = {
        BENCH_LOSE_ANSWER, BENCH_LOSE_REQUEST};
    struct table_job a = job_of("a", "Blogs", "Posts");

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    for (size_t i = 0; i < 2; i++) {
        workbench_meets(bench, BENCH_BATCH, 1, 1, faults[i]);
        assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
        assert_int_equal(rows(bench, "lock!"), 2);
        workbench_meets(bench, BENCH_BATCH, 1, 1, faults[i]);
        release(bench, "a", "1");
        assert_int_equal(rows(bench, ""), 0);
    }
}

VIRTUAL_BENCH_TEST(an_outage_takes_nothing)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    workbench_meets(bench, BENCH_SCAN, 1, UINT_MAX, BENCH_FAIL);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_OUTAGE);
    release(bench, "a", "1");
    bench->fate_count = 0;
    assert_int_equal(rows(bench, ""), 0);
}

/* One refusal ended the attempt: the run was put back for five seconds. */
VIRTUAL_BENCH_TEST(a_ledger_that_is_busy_is_waited_for)
{
    static const enum bench_call calls[] = {BENCH_SCAN, BENCH_GET, BENCH_BATCH};
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    for (size_t i = 0; i < 3; i++) {
        bench->fate_count = 0;
        assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
        workbench_meets(bench, calls[i], 1, 1, BENCH_THROTTLE);
        assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
        bench->fate_count = 0;
        workbench_meets(bench, calls[i], 1, 1, BENCH_THROTTLE);
        virtual_sleep(34000);
        release(bench, "b", "1");
        bench->fate_count = 0;
        assert_int_equal(rows(bench, ""), 0);
    }
}

/* What is left is free: no run waits for what does not respond. */
VIRTUAL_BENCH_TEST(a_release_asks_a_store_that_is_away_once)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    bench->calls[BENCH_SCAN] = 0;
    workbench_meets(bench, BENCH_SCAN, 1, UINT_MAX, BENCH_FAIL);
    release(bench, "a", "1");
    assert_int_equal(bench->calls[BENCH_SCAN], 1);
    bench->fate_count = 0;
    assert_int_equal(rows(bench, "lock!"), 1);
}

/* ---- what is in the way ---- */

/* Run b/1 waits for Blogs, which a/1 has, and would take Posts: both ask for
 * the same second, so that job and id are the order. */
static void begin_queue(
    struct workbench *bench, struct table_job *a, struct table_job *b)
{
    *a = job_of("a", "Blogs", NULL);
    *b = job_of("b", "Posts", "Blogs");
    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_WAITING, 2);
    assert_int_equal(take(bench, a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, b, "1", 2), LOCKS_BLOCKED);
}

/* The run of b/1 as the ledger has it, changed. */
static void change_waiting(struct workbench *bench, enum ledger_state run_state,
    const char *waits_for, int64_t late_s)
{
    int64_t then = platform_wall_ticks() - late_s * TICKS_PER_S;
    struct ledger_run *run = workbench_stored(bench, "b", "1");

    run->state = run_state;
    run->waits_for = slice_of(waits_for);
    run->resumes_ticks = run_state == LEDGER_WAITING ? then : 0;
    run->updated_ticks = then;
    assert_ok(workbench_store_run(bench, run));
}

/* Rule L2 is for runs that come: others would block a table for ever. */
VIRTUAL_BENCH_TEST(only_a_run_that_comes_keeps_its_place)
{
    static const struct {
        enum ledger_state run_state;
        const char *waits_for;
        int64_t late_s;
        enum locks_outcome outcome;
    } cases[] = {
        {LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, 0, LOCKS_BLOCKED},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, 590, LOCKS_BLOCKED},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, 610, LOCKS_TAKEN},
        {LEDGER_WAITING, "", 0, LOCKS_BLOCKED},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_STORE, 0, LOCKS_TAKEN},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, 0, LOCKS_TAKEN},
        {LEDGER_RUNNING, "", 590, LOCKS_BLOCKED},
        {LEDGER_RUNNING, "", 610, LOCKS_TAKEN},
        {LEDGER_QUEUED, "", 0, LOCKS_BLOCKED},
        {LEDGER_QUEUED, "", 610, LOCKS_TAKEN},
    };
    struct table_job a, b, c = job_of("c", "Posts", NULL);

    begin_queue(bench, &a, &b);
    store_run(bench, "c", "1", LEDGER_RUNNING, 3);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        change_waiting(
            bench, cases[i].run_state, cases[i].waits_for, cases[i].late_s);
        assert_int_equal(take(bench, &c, "1", 3), cases[i].outcome);
        release(bench, "c", "1");
    }
}

/* Of the same second, job and id are the order: a total one, so that of those
 * that wait somebody is first. */
VIRTUAL_BENCH_TEST(runs_of_one_second_have_an_order)
{
    struct table_job a, b, c = job_of("c", "Posts", NULL),
                           early = job_of("aa", "Posts", NULL),
                           same = job_of("b", "Posts", NULL);

    begin_queue(bench, &a, &b);
    store_run(bench, "c", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &c, "1", 2), LOCKS_BLOCKED);
    store_run(bench, "b", "2", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &same, "2", 2), LOCKS_BLOCKED);
    release(bench, "b", "2");
    store_run(bench, "b", "0", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &same, "0", 2), LOCKS_TAKEN);
    release(bench, "b", "0");
    store_run(bench, "aa", "9", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &early, "9", 2), LOCKS_TAKEN);
}

/* A person reads which run has the table, and why that one does not go on. */
VIRTUAL_BENCH_TEST(the_cause_of_who_blocks_is_said)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);
    struct ledger_run *run;

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    run = workbench_stored(bench, "a", "1");
    run->state = LEDGER_WAITING;
    run->waits_for = slice_of(LEDGER_WAITS_FOR_STORE);
    run->error = slice_of("store 'old' does not answer");
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text,
        "run a/1 has table Blogs and is waiting for store: store 'old' does "
        "not answer"));
}

/* Nobody knows what a damaged run would still do. */
VIRTUAL_BENCH_TEST(the_lock_of_a_damaged_run_is_not_free)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);
    struct arena arena;
    struct entity entity;

    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    arena_init(&arena);
    entity_init(&entity, &arena, slice_of("a"), slice_of("1"));
    entity_set_int32(&entity, &arena, "State", 5);
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "damaged"));
}

/* The first lock there is: of another Format, or without a property. */
static void change_lock(
    struct workbench *bench, int32_t format, const char *left_out)
{
    struct scan_request scan = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(slice_of(LOCKS_PARTITION))};
    struct exchange exchange = {0};
    struct entity entity;
    struct arena arena;
    struct page page;

    page_init(&page);
    arena_init(&arena);
    assert_ok(store_scan(bench->wrapped.inner, &exchange, &scan, &page));
    assert_true(page.count > 0);
    entity_init(&entity, &arena, page.entities[0].partition_key,
        page.entities[0].row_key);
    entity.etag = page.entities[0].etag;
    for (size_t i = 0; i < page.entities[0].property_count; i++)
        if (!left_out ||
            !slice_is(page.entities[0].properties[i].name, left_out))
            entity_set(&entity, &arena, &page.entities[0].properties[i]);
    entity_set_int32(&entity, &arena, "Format", format);
    workbench_write(bench, OPERATION_REPLACE, &entity);
    arena_done(&arena);
    page_done(&page);
}

/* Its run may have ended: what the lock stands for, that version knows. */
VIRTUAL_BENCH_TEST(the_lock_of_a_newer_version_is_not_free)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    change_lock(bench, LEDGER_FORMAT + 1, NULL);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "was written by a newer version"));
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_BLOCKED);
    release(bench, "a", "1");
    assert_int_equal(rows(bench, "lock!"), 1);
    change_lock(bench, LEDGER_FORMAT, NULL);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
}

VIRTUAL_BENCH_TEST(a_lock_that_does_not_say_whose_it_is_is_not_free)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Posts", NULL);
    struct table_job c = job_of("c", "Posts", NULL);
    struct table_job d = job_of("d", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    store_run(bench, "c", "1", LEDGER_RUNNING, 3);
    store_run(bench, "d", "1", LEDGER_RUNNING, 4);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    change_lock(bench, LEDGER_FORMAT, "Job");
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, "the lock of table Posts"));
    assert_non_null(strstr(last_err.text, "delete this lock entity"));
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    change_lock(bench, LEDGER_FORMAT, "Run"); /* of Blogs: it comes first */
    assert_int_equal(take(bench, &d, "1", 4), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "lock!"), 2);
}

/* A run that cannot be read may be open. */
VIRTUAL_BENCH_TEST(what_cannot_be_read_is_not_taken)
{
    static const enum bench_fault faults[] = {BENCH_FAIL, BENCH_INVALID};
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    for (size_t i = 0; TEST_EACH(i, faults); i++) {
        workbench_meets(bench, BENCH_GET, 1, 1, faults[i]);
        assert_int_equal(take(bench, &b, "1", 2), LOCKS_OUTAGE);
        assert_memory_equal(last_err.text, "locks: ", 7);
    }
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
}

/* ---- rows and keys ---- */

/* A want that was stored is not stored again; one that cannot be stored costs
 * the run its place, no more. */
VIRTUAL_BENCH_TEST(wants_are_stored_once)
{
    struct table_job a, b, more = job_of("b", "Posts", "Blogs");

    begin_queue(bench, &a, &b);
    assert_int_equal(rows(bench, "want!"), 2);
    more.tables[2] = "Tags";
    assert_int_equal(take(bench, &more, "1", 2), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "want!"), 3);
    release(bench, "b", "1");
    assert_int_equal(rows(bench, "want!"), 0);
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "want!"), 0);
}

VIRTUAL_BENCH_TEST(locks_that_change_all_the_time_are_given_up)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    workbench_meets(bench, BENCH_BATCH, 1, UINT_MAX, BENCH_CONFLICT);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_OUTAGE);
    bench->fate_count = 0;
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
}

static void write_row(
    struct workbench *bench, const char *row_key, const char *job)
{
    struct arena arena;
    struct entity entity;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(LOCKS_PARTITION), slice_of(row_key));
    if (job)
        entity_set_string(&entity, &arena, "Job", slice_of(job));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* More rows than a page has, some of them of nobody, and all tables that a job
 * can have. */
VIRTUAL_BENCH_TEST(all_tables_are_locked_beside_many_rows)
{
    struct table_job a = job_of("a", "T0", NULL);
    static char names[MAX_TABLES][8];
    char row_key[64];

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    release(bench, "a", "1");
    for (int i = 0; i < 1001; i++) {
        (void)snprintf(row_key, sizeof(row_key), "want!x!t%04d!gone!%d", i, i);
        write_row(bench, row_key, i % 2 ? "gone" : NULL);
    }
    write_row(bench, "closed!a", "a");
    for (int i = 0; i < MAX_TABLES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "T%d", i);
        a.tables[i] = names[i];
    }
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "lock!"), MAX_TABLES);
    release(bench, "a", "1");
    assert_int_equal(rows(bench, "lock!"), 0);
    assert_int_equal(rows(bench, "closed!"), 1);
}

static void list_another_store(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    each(ctx, 7, "Blogs", JOB_WRITES);
}

/* A lock is of an account and a table, whatever either is called. */
VIRTUAL_BENCH_TEST(a_lock_names_the_account)
{
    static const struct {
        const char *identity, *place, *row_key;
    } cases[] = {
        {"HTTPS://Acct-1.table.Core", "p",
            "lock!https=3A=2F=2Facct-1.table.core!blogs"},
        {NULL, "/srv/a_b", "lock!=2Fsrv=2Fa=5Fb!blogs"},
        {NULL, NULL, "lock!main!blogs"},
    };
    struct table_job a = job_of("a", "Blogs", NULL);
    char name[200];

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    bench->store->name = "main";
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        bench->store->capabilities.identity = cases[i].identity;
        bench->store->capabilities.endpoint = cases[i].place;
        assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
        assert_int_equal(rows(bench, cases[i].row_key), 1);
        release(bench, "a", "1");
    }
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    bench->store->capabilities.identity = name; /* as a hash */
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "lock!xx"), 0);
    assert_int_equal(rows(bench, "lock!"), 1);
    release(bench, "a", "1");
    a.kind.tables = list_another_store; /* which is not configured */
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "lock!"), 0);
}

/* Private and public endpoint of one account. A run of a former version locks
 * the table of its host only. */
VIRTUAL_BENCH_TEST(two_hosts_of_one_account_have_one_lock)
{
    static const struct {
        const char *identity, *account_name;
        enum locks_outcome outcome;
    } cases[] = {
        {"acct.private.example", "acct", LOCKS_BLOCKED},
        {"acct.private.example", "other", LOCKS_TAKEN},
        {"acct.private.example", NULL, LOCKS_TAKEN},
        {"acct.table.core.windows.net", NULL, LOCKS_BLOCKED},
        {"acct.table.core.windows.net", "other", LOCKS_BLOCKED},
    };
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    bench->store->capabilities.identity = "acct.table.core.windows.net";
    bench->store->capabilities.account_name = "acct";
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "lock!acct.table.core.windows.net!blogs"), 1);
    assert_int_equal(rows(bench, "lock!account.acct!blogs"), 1);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        bench->store->capabilities.identity = cases[i].identity;
        bench->store->capabilities.account_name = cases[i].account_name;
        assert_int_equal(take(bench, &b, "1", 2), cases[i].outcome);
        release(bench, "b", "1");
        assert_int_equal(rows(bench, "lock!"), 2);
    }
    release(bench, "a", "1");
    assert_int_equal(rows(bench, ""), 0);
}

static struct locks_request request_of(
    struct workbench *bench, struct table_job *own, const char *id)
{
    own->job.kind = &own->kind;
    own->job.settings = own;
    return (struct locks_request){.store = bench->store,
        .job = &own->job,
        .stores = &bench->stores,
        .id = slice_of(id)};
}

static void close_tables(
    struct workbench *bench, struct table_job *own, const char *id)
{
    const struct locks_request request = request_of(bench, own, id);

    assert_ok(locks_close(&request, &last_err));
}

/* What the end of a run that `finish` has ended leaves, after the job was
 * opened again. */
static void finish_run(struct workbench *bench, const char *job, const char *id)
{
    struct arena arena;
    struct entity entity;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(job),
        ledger_closed_key(slice_of(id), 0, &arena));
    entity_set_string(&entity, &arena, "Run", slice_of(id));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* The job was renamed after its `finish`, ran again, and undid what the writers
 * of the new table had written (rule A5). */
VIRTUAL_BENCH_TEST(tables_that_finish_closed_are_closed_for_every_job)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "BLOGS", "Posts");
    struct table_job c = job_of("c", "Posts", NULL);
    struct locks_request request = request_of(bench, &b, "");

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    store_run(bench, "c", "1", LEDGER_RUNNING, 3);
    close_tables(bench, &a, "1");
    close_tables(bench, &a, "1");
    assert_int_equal(rows(bench, "closed!"), 1);
    /* a/1 has not ended: it may have been cancelled since. */
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    release(bench, "b", "1");
    finish_run(bench, "a", "1");
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
    assert_non_null(strstr(last_err.text,
        "from table OnlyRead to table BLOGS was closed by the `finish` of run "
        "a/1"));
    assert_non_null(strstr(last_err.text, "`run b --reopen`"));
    release(bench, "b", "1");
    assert_int_equal(locks_check_closed(&request, &last_err), TW_CONFLICT);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_REFUSE);
    assert_int_not_equal(locks_check_closed(&request, &last_err), TW_OK);
    assert_non_null(strstr(last_err.text, "locks: "));
    assert_int_equal(take(bench, &c, "1", 3), LOCKS_TAKEN);
    release(bench, "c", "1");
    assert_int_equal(rows(bench, "closed!"), 1);
    assert_ok(locks_reopen(&request, &last_err));
    assert_int_equal(rows(bench, "closed!"), 0);
    assert_ok(locks_check_closed(&request, &last_err));
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
}

/* Only the run that has ended closes its tables. */
VIRTUAL_BENCH_TEST(another_run_of_a_finished_job_closes_no_tables)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    close_tables(bench, &a, "1");
    finish_run(bench, "a", "2");
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    release(bench, "b", "1");
    close_tables(bench, &a, "2");
    assert_int_equal(rows(bench, "closed!"), 1);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
}

/* The job was edited, opened again for other tables, and finished there. What
 * it has closed before stays closed, for other jobs and for itself. */
VIRTUAL_BENCH_TEST(a_job_opened_for_other_tables_leaves_the_former_closed)
{
    struct table_job blogs = job_of("a", "Blogs", NULL);
    struct table_job posts = job_of("a", "Posts", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);
    struct locks_request request = request_of(bench, &posts, "");

    store_run(bench, "a", "3", LEDGER_RUNNING, 3);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    close_tables(bench, &blogs, "1");
    finish_run(bench, "a", "1");
    assert_ok(locks_reopen(&request, &last_err));
    close_tables(bench, &posts, "2");
    finish_run(bench, "a", "2");
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
    release(bench, "b", "1");
    assert_int_equal(take(bench, &blogs, "3", 3), LOCKS_CLOSED);
    release(bench, "a", "3");
    assert_ok(locks_reopen(&request, &last_err));
    assert_int_equal(take(bench, &posts, "3", 3), LOCKS_TAKEN);
}

/* An id is used again after its run was deleted. */
VIRTUAL_BENCH_TEST(a_run_is_not_a_former_run_of_its_id)
{
    struct table_job a = job_of("a", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 2);
    close_tables(bench, &a, "1");
    finish_run(bench, "a", "1");
    assert_int_equal(take(bench, &a, "1", 2), LOCKS_CLOSED);
}

VIRTUAL_BENCH_TEST(tables_that_are_about_to_be_closed_are_not_opened)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);
    struct locks_request request = request_of(bench, &b, "");

    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    close_tables(bench, &a, "1");
    assert_ok(locks_reopen(&request, &last_err));
    finish_run(bench, "a", "1");
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_REFUSE);
    assert_int_not_equal(locks_reopen(&request, &last_err), TW_OK);
    assert_int_equal(rows(bench, "closed!"), 1);
}

static struct table_job ending;

/* The run a/1 ends by `finish` after the first request of another run, which
 * has read its lock by then. */
BENCH_BETWEEN(finishes_meanwhile)
{
    if (call != BENCH_GET || n != 1)
        return;
    bench->between = NULL;
    close_tables(bench, &ending, "1");
    finish_run(bench, "a", "1");
    store_run(bench, "a", "1", LEDGER_SUCCEEDED, 1);
}

VIRTUAL_BENCH_TEST(a_run_that_finishes_while_its_lock_is_read_closes_its_tables)
{
    struct table_job b = job_of("b", "Blogs", NULL);

    ending = job_of("a", "Blogs", NULL);
    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &ending, "1", 1), LOCKS_TAKEN);
    bench->calls[BENCH_GET] = 0;
    bench->between = finishes_meanwhile;
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
    assert_true(taken_over);
}

/* One table may have several indexes. */
VIRTUAL_BENCH_TEST(an_index_closes_no_table)
{
    struct table_job a = job_of("a", "OnlyRead", "Blogs");

    close_tables(bench, &a, "1");
    assert_int_equal(rows(bench, "closed!"), 1);
}

/* Private and public endpoint of one account. */
VIRTUAL_BENCH_TEST(tables_are_closed_at_each_host_of_the_account)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    bench->store->capabilities.identity = "acct.table.core.windows.net";
    bench->store->capabilities.account_name = "acct";
    close_tables(bench, &a, "1");
    finish_run(bench, "a", "1");
    bench->store->capabilities.identity = "acct.private.example";
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_CLOSED);
    bench->store->capabilities.account_name = "other";
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
}

/* The lock is a former version's: of the host alone. An older run waits for it,
 * and wants the account's lock too. */
VIRTUAL_BENCH_TEST(a_run_that_has_a_lock_gives_way_to_no_older_one)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Blogs", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 5);
    store_run(bench, "b", "1", LEDGER_WAITING, 1);
    bench->store->capabilities.identity = "acct.table.core.windows.net";
    assert_int_equal(take(bench, &a, "1", 5), LOCKS_TAKEN);
    bench->store->capabilities.account_name = "acct";
    assert_int_equal(take(bench, &b, "1", 1), LOCKS_BLOCKED);
    assert_int_equal(rows(bench, "want!account.acct!blogs"), 1);
    assert_int_equal(take(bench, &a, "1", 5), LOCKS_TAKEN);
    assert_int_equal(rows(bench, "lock!account.acct!blogs"), 1);
}

VIRTUAL_BENCH_TEST(what_is_released_is_of_one_run)
{
    struct table_job a = job_of("a", "Blogs", NULL);
    struct table_job b = job_of("b", "Posts", NULL);

    store_run(bench, "a", "1", LEDGER_RUNNING, 1);
    store_run(bench, "b", "1", LEDGER_RUNNING, 2);
    assert_int_equal(take(bench, &a, "1", 1), LOCKS_TAKEN);
    assert_int_equal(take(bench, &b, "1", 2), LOCKS_TAKEN);
    release(bench, "a", "1");
    assert_int_equal(rows(bench, "lock!"), 1);
    release(bench, "a", "1"); /* nothing is left of it */
    release(bench, "b", "1");
    assert_int_equal(rows(bench, "lock!"), 0);
}
