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

/* A run of a table job that writes `tables` and reads table OnlyRead. */
struct contender {
    struct kind kind;
    struct job job;
    const char *tables[MAX_TABLES];
    const char *id;
    int64_t second; /* RequestedAt, in seconds */
};

static void list_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct contender *own = job->settings;

    each(ctx, 0, "OnlyRead", JOB_READS);
    for (size_t i = 0; i < MAX_TABLES && own->tables[i]; i++) {
        each(ctx, 0, own->tables[i], JOB_WRITES);
        each(ctx, 0, own->tables[i], JOB_WRITES); /* named twice */
    }
}

/* Returns run "1" of this job. The ledger does not have the run. */
static struct contender contender(const char *job, int64_t second,
    const char *first_table, const char *second_table)
{
    return (struct contender){
        .kind = {.name = "scripted", .table_job = true, .tables = list_tables},
        .job = {.name = job},
        .tables = {first_table, second_table},
        .id = "1",
        .second = second};
}

/* Stores the run in the ledger, in the state run_state. */
static void stand(struct workbench *bench, const struct contender *own,
    enum ledger_state run_state)
{
    struct ledger_run *run = workbench_new_run(bench);

    if (!workbench_run(bench, own->job.name, own->id, run)) {
        run->job = slice_of(own->job.name);
        run->id = slice_of(own->id);
    }
    run->state = run_state;
    run->requested_ticks = TICKS_1970 + own->second * TICKS_PER_S;
    run->updated_ticks = platform_wall_ticks();
    run->waits_for =
        slice_of(run_state == LEDGER_WAITING ? LEDGER_WAITS_FOR_TURN : "");
    run->resumes_ticks = run_state == LEDGER_WAITING ? run->updated_ticks : 0;
    assert_ok(workbench_store_run(bench, run));
}

/* Returns run "1" of this job, which the ledger has as running. */
static struct contender enter(struct workbench *bench, const char *job,
    int64_t second, const char *first_table, const char *second_table)
{
    struct contender own = contender(job, second, first_table, second_table);

    stand(bench, &own, LEDGER_RUNNING);
    return own;
}

/* Stores another run of the same job, with this id, as running. Returns the
 * run. */
static struct contender another(
    struct workbench *bench, const struct contender *own, const char *id)
{
    struct contender other = *own;

    other.id = id;
    stand(bench, &other, LEDGER_RUNNING);
    return other;
}

static struct err last_err;
static bool taken_over;
static struct contender a, b, c; /* the runs of the test */

static struct locks_request request_of(
    struct workbench *bench, struct contender *own)
{
    own->job.kind = &own->kind;
    own->job.settings = own;
    return (struct locks_request){.store = bench->store,
        .job = &own->job,
        .stores = &bench->stores,
        .id = slice_of(own->id),
        .requested_ticks = TICKS_1970 + own->second * TICKS_PER_S};
}

static enum locks_outcome take(struct workbench *bench, struct contender *own)
{
    struct locks_request request = request_of(bench, own);

    return locks_take(&request, &taken_over, &last_err);
}

static void expect_taken(struct workbench *bench, struct contender *own)
{
    assert_int_equal(take(bench, own), LOCKS_TAKEN);
}

static void expect_blocked(
    struct workbench *bench, struct contender *own, const char *why)
{
    assert_int_equal(take(bench, own), LOCKS_BLOCKED);
    assert_non_null(strstr(last_err.text, why));
}

static void expect_closed(struct workbench *bench, struct contender *own)
{
    assert_int_equal(take(bench, own), LOCKS_CLOSED);
}

static void release(struct workbench *bench, const struct contender *own)
{
    locks_release(
        bench->store, NULL, slice_of(own->job.name), slice_of(own->id), true);
}

static void end(struct workbench *bench, const struct contender *own)
{
    stand(bench, own, LEDGER_SUCCEEDED);
    release(bench, own);
}

/* Returns the number of rows of `!locks` whose RowKeys begin with prefix. */
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

static int set_up_pair(void **state)
{
    (void)workbench_set_up_virtual(state);
    a = enter(*state, "a", 1, "Blogs", NULL);
    b = enter(*state, "b", 2, "Blogs", NULL);
    return 0;
}

/* PAIR_TEST: a test with the runs a/1 and b/1, which both write Blogs. b/1 is
 * younger. */
#define PAIR_TEST(name)                                                        \
    TEST_WITH(name, set_up_pair, workbench_tear_down_virtual,                  \
        struct workbench *bench)

/* Makes run b/1 wait for Blogs, which a/1 has locked. b/1 would also lock
 * Posts. b/1 was requested in second 2. */
static void begin_queue(struct workbench *bench)
{
    a = enter(bench, "a", 1, "Blogs", NULL);
    b = contender("b", 2, "Posts", "Blogs");
    stand(bench, &b, LEDGER_WAITING);
    expect_taken(bench, &a);
    expect_blocked(bench, &b, "");
}

VIRTUAL_BENCH_TEST(two_runs_never_have_one_table)
{
    a = enter(bench, "a", 1, "Blogs", "Posts");
    b = enter(bench, "b", 2, "POSTS", NULL); /* the same as Posts */
    c = enter(bench, "c", 3, "OnlyRead", NULL);
    expect_taken(bench, &a);
    assert_false(taken_over);
    assert_int_equal(rows(bench, "lock!"), 2);
    expect_taken(bench, &a); /* it has its locks */
    expect_blocked(bench, &b, "run a/1 has table POSTS and is running");
    expect_taken(bench, &c); /* run a/1 only reads OnlyRead */
    end(bench, &a);
    expect_taken(bench, &b);
    assert_int_equal(rows(bench, "want!"), 0);
    assert_int_equal(rows(bench, "lock!"), 2);
}

/* Rule L1: a run that needs two tables and gets only one locks neither. */
VIRTUAL_BENCH_TEST(who_waits_holds_nothing)
{
    a = enter(bench, "a", 5, "Blogs", NULL);
    b = enter(bench, "b", 6, "Posts", "Blogs");
    c = enter(bench, "c", 2, "Posts", NULL);
    expect_taken(bench, &a);
    expect_blocked(bench, &b, "");
    assert_int_equal(rows(bench, "lock!"), 1);
    assert_int_equal(rows(bench, "want!"), 2);
    expect_taken(bench, &c); /* run c/1 is older than run b/1 */
}

/* Rule L2. Without this rule, younger runs, one after another, could starve an
 * older run. */
VIRTUAL_BENCH_TEST(a_younger_run_waits_for_an_older_one_that_waits)
{
    c = contender("c", 3, "Posts", NULL);
    begin_queue(bench);
    stand(bench, &c, LEDGER_WAITING);
    expect_blocked(bench, &c, "run b/1 has waited longer for");
    end(bench, &a);
    expect_blocked(bench, &c, "");
    expect_taken(bench, &b);
    expect_blocked(bench, &c, "");
    end(bench, &b);
    expect_taken(bench, &c);
}

/* A run that cannot continue soon does not block others by its wants. */
VIRTUAL_BENCH_TEST(a_want_of_a_run_that_cannot_come_does_not_count)
{
    static const enum ledger_state states[] = {
        LEDGER_PAUSED, LEDGER_FAILED, LEDGER_CANCELLED};

    c = contender("c", 3, "Posts", NULL);
    begin_queue(bench);
    stand(bench, &c, LEDGER_WAITING);
    for (size_t i = 0; TEST_EACH(i, states); i++) {
        stand(bench, &b, LEDGER_WAITING);
        expect_blocked(bench, &c, "");
        stand(bench, &b, states[i]);
        expect_taken(bench, &c);
        release(bench, &c);
    }
}

/* Paused and waiting runs keep their locks. Ended runs lose their locks even if
 * they did not release them. For a run that takes over such a lock, taken_over
 * is set, because late requests of the ended run may still arrive (A4). */
PAIR_TEST(only_the_end_of_a_run_frees_its_locks)
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

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        expect_taken(bench, &a);
        stand(bench, &a, cases[i].run_state);
        assert_int_equal(take(bench, &b), cases[i].outcome);
        assert_true(taken_over == (cases[i].outcome == LOCKS_TAKEN));
        virtual_sleep(34000);
        release(bench, &a);
        release(bench, &b);
    }
    assert_int_equal(rows(bench, ""), 0);
}

VIRTUAL_BENCH_TEST(the_lock_of_a_pruned_run_is_free)
{
    a = contender("a", 1, "Blogs", NULL);
    b = enter(bench, "b", 2, "Blogs", NULL);
    expect_taken(bench, &a);
    expect_taken(bench, &b);
    assert_true(taken_over);
}

/* For 30 s, taken_over is also set for later attempts of the run that took the
 * lock over (A4). */
PAIR_TEST(late_requests_are_told_for_30_s_after_a_take_over)
{
    stand(bench, &a, LEDGER_FAILED);
    expect_taken(bench, &a);
    expect_taken(bench, &b);
    for (int s = 0; s < 33; s += 11) {
        expect_taken(bench, &b);
        assert_true(taken_over);
        virtual_sleep(11000);
    }
    expect_taken(bench, &b);
    assert_false(taken_over);
}

/* An operator has accepted another definition of the job, with another table.
 */
VIRTUAL_BENCH_TEST(a_run_leaves_the_locks_of_former_tables)
{
    struct contender blogs = enter(bench, "a", 1, "Blogs", NULL);
    struct contender posts = contender("a", 1, "Posts", NULL);

    b = enter(bench, "b", 2, "Blogs", NULL);
    expect_taken(bench, &blogs);
    expect_taken(bench, &posts);
    expect_taken(bench, &b);
    assert_true(taken_over); /* a/1's requests may still arrive */
}

VIRTUAL_BENCH_TEST(two_runs_exchange_their_tables)
{
    struct contender a_blogs = enter(bench, "a", 1, "Blogs", NULL);
    struct contender a_posts = contender("a", 1, "Posts", NULL);
    struct contender b_blogs = enter(bench, "b", 2, "Blogs", NULL);
    struct contender b_posts = contender("b", 2, "Posts", NULL);

    expect_taken(bench, &a_blogs);
    expect_taken(bench, &b_posts);
    expect_blocked(bench, &a_posts, "");
    expect_taken(bench, &b_blogs);
    expect_taken(bench, &a_posts);
}

/* If the wants were left, each later run would read the ended run again. */
VIRTUAL_BENCH_TEST(a_run_that_ends_before_its_turn_leaves_no_wants)
{
    a = enter(bench, "a", 1, "Blogs", NULL);
    b = contender("b", 2, "Blogs", "Posts");
    stand(bench, &b, LEDGER_WAITING);
    expect_taken(bench, &a);
    expect_blocked(bench, &b, "");
    assert_int_equal(rows(bench, "want!"), 2);
    locks_release(bench->store, NULL, slice_of("a"), slice_of("1"), false);
    locks_release(bench->store, NULL, slice_of("b"), slice_of("1"), false);
    assert_int_equal(rows(bench, "want!"), 0);
    assert_int_equal(rows(bench, "lock!"), 1);
}

BENCH_BETWEEN(rival_takes)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    stand(bench, &b, LEDGER_RUNNING);
    expect_taken(bench, &b);
}

/* Both runs have read that the lock is free, and the batch of one run comes
 * first. Rule L1: one batch takes all locks of a run, so a run that fails to
 * get one lock has none. */
VIRTUAL_BENCH_TEST(of_two_that_take_at_once_one_has_it)
{
    static const char *const wanted[][2] = {
        {"Posts", NULL}, {"Blogs", "Posts"}};

    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        a = enter(bench, "a", 1, wanted[i][0], wanted[i][1]);
        b = contender("b", 9, "Posts", NULL);
        bench->between = rival_takes;
        expect_blocked(bench, &a, "run b/1 has table");
        assert_int_equal(rows(bench, "lock!"), 1);
        end(bench, &b);
        end(bench, &a);
    }
}

/* Run b/1 was read as ended, so the lock that it left was read as free. Then
 * b/1 is retried and takes the lock again. */
PAIR_TEST(a_lock_that_a_retried_run_has_again_is_not_taken)
{
    expect_taken(bench, &b);
    stand(bench, &b, LEDGER_FAILED);
    bench->between = rival_takes;
    expect_blocked(bench, &a, "run b/1 has table");
    assert_int_equal(rows(bench, "lock!"), 1);
}

VIRTUAL_BENCH_TEST(an_unknown_batch_is_read_and_taken_once)
{
    static const enum bench_fault faults[] = {
        BENCH_LOSE_ANSWER, BENCH_LOSE_REQUEST};

    a = enter(bench, "a", 1, "Blogs", "Posts");
    for (size_t i = 0; i < 2; i++) {
        workbench_meets(bench, BENCH_BATCH, 1, 1, faults[i]);
        expect_taken(bench, &a);
        assert_int_equal(rows(bench, "lock!"), 2);
        workbench_meets(bench, BENCH_BATCH, 1, 1, faults[i]);
        release(bench, &a);
        assert_int_equal(rows(bench, ""), 0);
    }
}

/* Earlier, one busy response ended the attempt, and the run waited for five
 * seconds. */
PAIR_TEST(a_ledger_that_is_busy_is_waited_for)
{
    static const enum bench_call calls[] = {BENCH_SCAN, BENCH_GET, BENCH_BATCH};

    stand(bench, &a, LEDGER_SUCCEEDED);
    for (size_t i = 0; i < 3; i++) {
        bench->fault_count = 0;
        expect_taken(bench, &a);
        workbench_meets(bench, calls[i], 1, 1, BENCH_THROTTLE);
        expect_taken(bench, &b);
        bench->fault_count = 0;
        workbench_meets(bench, calls[i], 1, 1, BENCH_THROTTLE);
        virtual_sleep(34000);
        release(bench, &b);
        bench->fault_count = 0;
        assert_int_equal(rows(bench, ""), 0);
    }
}

/* The release does not wait for a store that does not respond. Locks that an
 * ended run leaves are free anyway. */
PAIR_TEST(a_release_asks_a_store_that_is_away_once)
{
    expect_taken(bench, &a);
    bench->calls[BENCH_SCAN] = 0;
    workbench_meets(bench, BENCH_SCAN, 1, UINT_MAX, BENCH_FAIL);
    release(bench, &a);
    assert_int_equal(bench->calls[BENCH_SCAN], 1);
    bench->fault_count = 0;
    assert_int_equal(rows(bench, "lock!"), 1);
}

/* ---- which runs block others ---- */

/* Changes the run in the ledger. Its UpdatedAt and, if the run waits, its
 * ResumesAt are late_s ago. */
static void change_run(struct workbench *bench, const struct contender *own,
    enum ledger_state run_state, const char *waits_for, int64_t late_s)
{
    int64_t then = platform_wall_ticks() - late_s * TICKS_PER_S;
    struct ledger_run *run = workbench_stored(bench, own->job.name, own->id);

    run->state = run_state;
    run->waits_for = slice_of(waits_for);
    run->resumes_ticks = run_state == LEDGER_WAITING ? then : 0;
    run->updated_ticks = then;
    assert_ok(workbench_store_run(bench, run));
}

/* Rule L2 is only for runs that will take their locks soon. Other runs would
 * block a table for ever. */
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

    c = enter(bench, "c", 3, "Posts", NULL);
    begin_queue(bench);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        change_run(
            bench, &b, cases[i].run_state, cases[i].waits_for, cases[i].late_s);
        assert_int_equal(take(bench, &c), cases[i].outcome);
        release(bench, &c);
    }
}

/* Runs of the same second are ordered by job and id. This order is total, so
 * one of the waiting runs is always the first. */
VIRTUAL_BENCH_TEST(runs_of_one_second_have_an_order)
{
    static const struct {
        const char *job, *id;
        enum locks_outcome outcome;
    } cases[] = {
        {"c", "1", LOCKS_BLOCKED},
        {"b", "2", LOCKS_BLOCKED},
        {"b", "0", LOCKS_TAKEN},
        {"aa", "9", LOCKS_TAKEN},
    };

    begin_queue(bench);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        c = contender(cases[i].job, 2, "Posts", NULL);
        c.id = cases[i].id;
        stand(bench, &c, LEDGER_RUNNING);
        assert_int_equal(take(bench, &c), cases[i].outcome);
        release(bench, &c);
    }
}

/* An operator can read which run has the table, and why this run does not
 * continue. */
PAIR_TEST(the_cause_of_who_blocks_is_said)
{
    struct ledger_run *run;

    expect_taken(bench, &a);
    run = workbench_stored(bench, "a", "1");
    run->state = LEDGER_WAITING;
    run->waits_for = slice_of(LEDGER_WAITS_FOR_STORE);
    run->error = slice_of("store 'old' does not answer");
    assert_ok(workbench_store_run(bench, run));
    expect_blocked(bench, &b,
        "run a/1 has table Blogs and is waiting for store: store 'old' does "
        "not answer");
}

/* It is unknown what a damaged run would still do. */
PAIR_TEST(the_lock_of_a_damaged_run_is_not_free)
{
    expect_taken(bench, &a);
    workbench_spoil_run(bench, "a", "1");
    expect_blocked(bench, &b, "damaged");
}

/* Changes the first lock in the ledger: sets its Format and removes the
 * property left_out (NULL: none). */
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

/* The run of the lock has ended, but only the newer version knows what its lock
 * means. */
PAIR_TEST(the_lock_of_a_newer_version_is_not_free)
{
    stand(bench, &a, LEDGER_SUCCEEDED);
    expect_taken(bench, &a);
    change_lock(bench, LEDGER_FORMAT + 1, NULL);
    expect_blocked(bench, &b, "was written by a newer version");
    expect_blocked(bench, &a, "");
    release(bench, &a);
    assert_int_equal(rows(bench, "lock!"), 1);
    change_lock(bench, LEDGER_FORMAT, NULL);
    expect_taken(bench, &b);
}

VIRTUAL_BENCH_TEST(a_lock_that_does_not_say_whose_it_is_is_not_free)
{
    struct contender d = enter(bench, "d", 4, "Blogs", NULL);

    a = enter(bench, "a", 1, "Blogs", NULL);
    b = enter(bench, "b", 2, "Posts", NULL);
    c = enter(bench, "c", 3, "Posts", NULL);
    expect_taken(bench, &b);
    change_lock(bench, LEDGER_FORMAT, "Job");
    expect_blocked(bench, &c, "the lock of table Posts");
    assert_non_null(strstr(last_err.text, "delete this lock entity"));
    expect_taken(bench, &a);
    change_lock(bench, LEDGER_FORMAT, "Run"); /* the first lock: of Blogs */
    expect_blocked(bench, &d, "");
    assert_int_equal(rows(bench, "lock!"), 2);
}

/* A run that cannot be read may be open. */
PAIR_TEST(what_cannot_be_read_is_not_taken)
{
    static const struct {
        enum bench_call call;
        enum bench_fault fault;
    } cases[] = {{BENCH_GET, BENCH_FAIL}, {BENCH_GET, BENCH_INVALID},
        {BENCH_SCAN, BENCH_FAIL}};

    stand(bench, &a, LEDGER_SUCCEEDED);
    expect_taken(bench, &a);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        workbench_meets(bench, cases[i].call, 1, 1, cases[i].fault);
        assert_int_equal(take(bench, &b), LOCKS_OUTAGE);
        assert_memory_equal(last_err.text, "locks: ", 7);
    }
    expect_taken(bench, &b);
}

/* ---- rows and keys ---- */

/* A want that is stored already is not stored again. A run whose want cannot be
 * stored only loses its place in the order. */
VIRTUAL_BENCH_TEST(wants_are_stored_once)
{
    struct contender more = contender("b", 2, "Posts", "Blogs");

    begin_queue(bench);
    assert_int_equal(rows(bench, "want!"), 2);
    more.tables[2] = "Tags";
    expect_blocked(bench, &more, "");
    assert_int_equal(rows(bench, "want!"), 3);
    release(bench, &b);
    assert_int_equal(rows(bench, "want!"), 0);
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    expect_blocked(bench, &b, "");
    assert_int_equal(rows(bench, "want!"), 0);
}

PAIR_TEST(locks_that_change_all_the_time_are_given_up)
{
    workbench_meets(bench, BENCH_BATCH, 1, UINT_MAX, BENCH_CONFLICT);
    assert_int_equal(take(bench, &a), LOCKS_OUTAGE);
    bench->fault_count = 0;
    expect_taken(bench, &a);
}

static void write_row(struct workbench *bench, const char *partition_key,
    const char *row_key, const char *name, const char *text)
{
    struct arena arena;
    struct entity entity;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(partition_key), slice_of(row_key));
    if (text)
        entity_set_string(&entity, &arena, name, slice_of(text));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* The partition has more rows than a page, some of them without a run. The job
 * has as many tables as a job can have. */
VIRTUAL_BENCH_TEST(all_tables_are_locked_beside_many_rows)
{
    static char names[MAX_TABLES][8];
    char row_key[64];

    a = enter(bench, "a", 1, "T0", NULL);
    expect_taken(bench, &a);
    release(bench, &a);
    for (int i = 0; i < 1001; i++) {
        (void)snprintf(row_key, sizeof(row_key), "want!x!t%04d!gone!%d", i, i);
        write_row(
            bench, LOCKS_PARTITION, row_key, "Job", i % 2 ? "gone" : NULL);
    }
    write_row(bench, LOCKS_PARTITION, "closed!a", "Job", "a");
    for (int i = 0; i < MAX_TABLES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "T%d", i);
        a.tables[i] = names[i];
    }
    expect_taken(bench, &a);
    assert_int_equal(rows(bench, "lock!"), MAX_TABLES);
    release(bench, &a);
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

/* A lock is for an account and a table. In its RowKey, special characters of
 * the account are encoded. */
PAIR_TEST(a_lock_names_the_account)
{
    static const struct {
        const char *identity, *place, *row_key;
    } cases[] = {
        {"HTTPS://Acct-1.table.Core", "p",
            "lock!https=3A=2F=2Facct-1.table.core!blogs"},
        {NULL, "/srv/a_b", "lock!=2Fsrv=2Fa=5Fb!blogs"},
        {NULL, NULL, "lock!main!blogs"},
    };
    char name[200];

    bench->store->name = "main";
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        bench->store->capabilities.identity = cases[i].identity;
        bench->store->capabilities.endpoint = cases[i].place;
        expect_taken(bench, &a);
        assert_int_equal(rows(bench, cases[i].row_key), 1);
        release(bench, &a);
    }
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    bench->store->capabilities.identity = name; /* long: its hash is used */
    expect_taken(bench, &a);
    assert_int_equal(rows(bench, "lock!xx"), 0);
    assert_int_equal(rows(bench, "lock!"), 1);
    release(bench, &a);
    a.kind.tables = list_another_store; /* store 7 is not configured */
    expect_taken(bench, &a);
    assert_int_equal(rows(bench, "lock!"), 0);
}

/* The two hosts are the private and the public endpoint of one account. Without
 * an account_name, as in a former version, a run locks the table for its host
 * only. */
PAIR_TEST(two_hosts_of_one_account_have_one_lock)
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

    bench->store->capabilities.identity = "acct.table.core.windows.net";
    bench->store->capabilities.account_name = "acct";
    expect_taken(bench, &a);
    assert_int_equal(rows(bench, "lock!acct.table.core.windows.net!blogs"), 1);
    assert_int_equal(rows(bench, "lock!account.acct!blogs"), 1);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        bench->store->capabilities.identity = cases[i].identity;
        bench->store->capabilities.account_name = cases[i].account_name;
        assert_int_equal(take(bench, &b), cases[i].outcome);
        release(bench, &b);
        assert_int_equal(rows(bench, "lock!"), 2);
    }
    release(bench, &a);
    assert_int_equal(rows(bench, ""), 0);
}

static void close_tables(struct workbench *bench, struct contender *own)
{
    const struct locks_request request = request_of(bench, own);

    assert_ok(locks_close(&request, &last_err));
}

/* Writes the row that a run leaves in its job's partition when it ends by
 * `finish`. The row stays when the job is opened again. */
static void finish_run(struct workbench *bench, const struct contender *own)
{
    int64_t requested_ticks = TICKS_1970 + own->second * TICKS_PER_S;
    struct arena arena;

    arena_init(&arena);
    write_row(bench, own->job.name,
        ledger_closed_key(slice_of(own->id), requested_ticks, &arena).at, "Run",
        own->id);
    arena_done(&arena);
}

static void finish(struct workbench *bench, struct contender *own)
{
    close_tables(bench, own);
    finish_run(bench, own);
}

/* Rule A5. Earlier, a job that was renamed after its `finish` could run again
 * and undo what the writers of the new table had written. */
VIRTUAL_BENCH_TEST(tables_that_finish_closed_are_closed_for_every_job)
{
    struct locks_request request;

    a = enter(bench, "a", 1, "Blogs", NULL);
    b = enter(bench, "b", 2, "BLOGS", "Posts");
    c = enter(bench, "c", 3, "Posts", NULL);
    request = request_of(bench, &b);
    close_tables(bench, &a);
    close_tables(bench, &a);
    assert_int_equal(rows(bench, "closed!"), 1);
    /* Run a/1 has not ended by `finish`; it may have been cancelled instead. */
    expect_taken(bench, &b);
    release(bench, &b);
    finish_run(bench, &a);
    expect_closed(bench, &b);
    assert_non_null(strstr(last_err.text,
        "from table OnlyRead to table BLOGS was closed by the `finish` of run "
        "a/1"));
    assert_non_null(strstr(last_err.text, "`run b --reopen`"));
    release(bench, &b);
    assert_int_equal(locks_check_closed(&request, &last_err), TW_CONFLICT);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_REFUSE);
    assert_int_not_equal(locks_check_closed(&request, &last_err), TW_OK);
    assert_non_null(strstr(last_err.text, "locks: "));
    expect_taken(bench, &c);
    release(bench, &c);
    assert_int_equal(rows(bench, "closed!"), 1);
    assert_ok(locks_reopen(&request, &last_err));
    assert_int_equal(rows(bench, "closed!"), 0);
    assert_ok(locks_check_closed(&request, &last_err));
    expect_taken(bench, &b);
}

/* Tables are closed only by a run that has itself ended by `finish`. */
PAIR_TEST(another_run_of_a_finished_job_closes_no_tables)
{
    struct contender a2 = another(bench, &a, "2");

    close_tables(bench, &a);
    finish_run(bench, &a2);
    expect_taken(bench, &b);
    release(bench, &b);
    close_tables(bench, &a2);
    assert_int_equal(rows(bench, "closed!"), 1);
    expect_closed(bench, &b);
}

/* The job was edited, opened again for other tables, and finished there. The
 * tables that it closed before stay closed, for other jobs and for the job
 * itself. */
VIRTUAL_BENCH_TEST(a_job_opened_for_other_tables_leaves_the_former_closed)
{
    struct contender blogs = contender("a", 3, "Blogs", NULL);
    struct contender posts = contender("a", 3, "Posts", NULL);
    struct contender posts2 = another(bench, &posts, "2");
    struct contender blogs3 = another(bench, &blogs, "3");
    struct contender posts3 = posts;
    struct locks_request request = request_of(bench, &posts);

    b = enter(bench, "b", 2, "Blogs", NULL);
    posts3.id = "3";
    finish(bench, &blogs);
    assert_ok(locks_reopen(&request, &last_err));
    finish(bench, &posts2);
    expect_closed(bench, &b);
    release(bench, &b);
    expect_closed(bench, &blogs3);
    release(bench, &blogs3);
    assert_ok(locks_reopen(&request, &last_err));
    expect_taken(bench, &posts3);
}

/* The id of a deleted run is used again. The new run is not the run that closed
 * the table. */
VIRTUAL_BENCH_TEST(a_run_is_not_a_former_run_of_its_id)
{
    struct contender former = contender("a", 1, "Blogs", NULL);

    a = enter(bench, "a", 2, "Blogs", NULL);
    finish(bench, &former);
    expect_closed(bench, &a);
}

PAIR_TEST(tables_that_are_about_to_be_closed_are_not_opened)
{
    struct locks_request request = request_of(bench, &b);

    close_tables(bench, &a);
    assert_ok(locks_reopen(&request, &last_err));
    finish_run(bench, &a);
    expect_closed(bench, &b);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_REFUSE);
    assert_int_not_equal(locks_reopen(&request, &last_err), TW_OK);
    assert_int_equal(rows(bench, "closed!"), 1);
}

/* Ends run a/1 by `finish`, after another run has read the lock of a/1 and
 * before it reads run a/1. */
BENCH_BETWEEN(finishes_meanwhile)
{
    if (call != BENCH_GET || n != 1)
        return;
    bench->between = NULL;
    finish(bench, &a);
    stand(bench, &a, LEDGER_SUCCEEDED);
}

PAIR_TEST(a_run_that_finishes_while_its_lock_is_read_closes_its_tables)
{
    expect_taken(bench, &a);
    bench->calls[BENCH_GET] = 0;
    bench->between = finishes_meanwhile;
    expect_closed(bench, &b);
    assert_true(taken_over);
}

/* A table that is source and destination is not closed, because it may have
 * several indexes. */
VIRTUAL_BENCH_TEST(an_index_closes_no_table)
{
    a = contender("a", 1, "OnlyRead", "Blogs");
    close_tables(bench, &a);
    assert_int_equal(rows(bench, "closed!"), 1);
}

/* The two hosts are the private and the public endpoint of one account. */
PAIR_TEST(tables_are_closed_at_each_host_of_the_account)
{
    bench->store->capabilities.identity = "acct.table.core.windows.net";
    bench->store->capabilities.account_name = "acct";
    finish(bench, &a);
    bench->store->capabilities.identity = "acct.private.example";
    expect_closed(bench, &b);
    bench->store->capabilities.account_name = "other";
    expect_taken(bench, &b);
}

/* Run a/1 has a lock of a former version: for the host only. The older run b/1
 * waits for this lock, and also wants the account's lock. Run a/1 takes the
 * account's lock nevertheless. */
VIRTUAL_BENCH_TEST(a_run_that_has_a_lock_gives_way_to_no_older_one)
{
    a = enter(bench, "a", 5, "Blogs", NULL);
    b = contender("b", 1, "Blogs", NULL);
    stand(bench, &b, LEDGER_WAITING);
    bench->store->capabilities.identity = "acct.table.core.windows.net";
    expect_taken(bench, &a);
    bench->store->capabilities.account_name = "acct";
    expect_blocked(bench, &b, "");
    assert_int_equal(rows(bench, "want!account.acct!blogs"), 1);
    expect_taken(bench, &a);
    assert_int_equal(rows(bench, "lock!account.acct!blogs"), 1);
}
