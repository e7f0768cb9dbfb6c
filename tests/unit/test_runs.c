/* SPDX-License-Identifier: MIT */
/* The number of requests for a list of runs does not grow with the runs that
 * ended earlier. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/text.h"
#include "worker/monitor/view.h"
#include "worker/run/runs.h"
#include "worker/store/request_pool.h"

#define JOB "delete-channel"
#define DAY (INT64_C(24) * 3600 * TICKS_PER_S)
#define FEW 10
#define MANY 3000
#define LIMIT 50

struct fixture {
    struct workbench bench;
    struct pool_client *client;
    struct runs_reader reader;
    struct runs runs;
    struct err err;
    int64_t now_ticks;
    unsigned stored; /* number of runs that store_ended() has stored */
};

static void init(struct fixture *f)
{
    workbench_init(&f->bench);
    f->client = pool_client_new(f->bench.request_pool, NULL);
    f->reader = (struct runs_reader){f->client, f->bench.store, &f->bench.jobs};
    f->now_ticks = platform_wall_ticks();
}

static void done(struct fixture *f)
{
    runs_done(&f->runs);
    pool_client_free(f->client);
    workbench_done(&f->bench);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

/* Stores a run of `job` that ended `ago_ticks` ago; 0: it has not ended. */
static void store(struct fixture *f, const char *job, const char *id,
    enum ledger_state state, int64_t ago_ticks)
{
    struct ledger_run run;

    ledger_run_init(&run);
    run.job = slice_of(job);
    run.id = slice_of(id);
    run.state = state;
    run.args = slice_of("{\"channel\":\"Football\"}");
    run.queue = slice_of(BENCH_QUEUE);
    if (ago_ticks > 0)
        run.finished_ticks = f->now_ticks - ago_ticks;
    run.requested_ticks = f->now_ticks - ago_ticks - TICKS_PER_S;
    assert_ok(workbench_store_run(&f->bench, &run));
    ledger_run_done(&run);
}

/* Stores `count` further runs, which ended `ago_ticks` ago. The ids of all such
 * runs are old-00000, old-00001 ... */
static void store_ended(struct fixture *f, unsigned count, int64_t ago_ticks)
{
    char id[20];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "old-%05u", f->stored++);
        store(f, JOB, id, LEDGER_SUCCEEDED, ago_ticks);
    }
}

static void store_open(struct fixture *f, const char *id)
{
    store(f, JOB, id, LEDGER_RUNNING, 0);
}

/* The requests of one query, and the number of runs that it returned. */
struct cost {
    unsigned gets, scans;
    size_t runs;
};

static unsigned calls(struct fixture *f, enum bench_call call)
{
    unsigned count;

    workbench_locked(&f->bench, count = f->bench.calls[call]);
    return count;
}

/* Returns the cost of a list (id NULL), or of finding the runs whose ids begin
 * with `id`. */
static struct cost cost_of(
    struct fixture *f, const struct runs_query *query, const char *id)
{
    struct cost cost = {calls(f, BENCH_GET), calls(f, BENCH_SCAN), 0};
    struct runs runs = {.list = NULL};

    assert_ok(
        id ? runs_find_prefix(&f->reader, slice_of(""), id, &runs, &f->err)
           : runs_list(&f->reader, query, &runs, &f->err));
    cost.gets = calls(f, BENCH_GET) - cost.gets;
    cost.scans = calls(f, BENCH_SCAN) - cost.scans;
    cost.runs = runs.count;
    runs_done(&runs);
    return cost;
}

/* Returns the query that `status` makes with these options. */
static struct runs_query query_of(
    const struct fixture *f, unsigned states, size_t limit)
{
    return (struct runs_query){
        .states = states, .since_ticks = f->now_ticks - DAY, .limit = limit};
}

static void assert_same_cost(struct cost one, struct cost other)
{
    assert_int_equal(one.gets, other.gets);
    assert_int_equal(one.scans, other.scans);
    assert_int_equal(one.runs, other.runs);
}

FIXTURE_TEST(a_list_costs_no_more_for_runs_that_ended_before)
{
    const struct runs_query queries[] = {
        query_of(f, 0, LIMIT),
        query_of(f, 0, 5),
        query_of(f, RUNS_STATE(LEDGER_SUCCEEDED), LIMIT),
        query_of(f, RUNS_STATE(LEDGER_FAILED) | RUNS_STATE(LEDGER_WAITING), 0),
    };
    enum { QUERIES = sizeof(queries) / sizeof(queries[0]) };
    struct cost few[QUERIES];

    store_open(f, "open");
    store_ended(f, FEW, 3 * DAY);
    for (size_t i = 0; i < QUERIES; i++)
        few[i] = cost_of(f, &queries[i], NULL);
    assert_int_equal(few[0].runs, 1);
    store_ended(f, MANY, 3 * DAY);
    for (size_t i = 0; i < QUERIES; i++)
        assert_same_cost(cost_of(f, &queries[i], NULL), few[i]);
}

/* The ledger index rows of the day are read, 1,000 in a page. Of the runs
 * themselves only those that the list shows are read. */
FIXTURE_TEST(a_list_costs_a_request_for_1000_runs_that_ended_today)
{
    const struct runs_query query = query_of(f, 0, LIMIT);
    struct cost few, many;

    store_ended(f, FEW, DAY / 24);
    few = cost_of(f, &query, NULL);
    assert_int_equal(few.runs, FEW);
    assert_int_equal(few.gets, FEW);
    store_ended(f, MANY, DAY / 24);
    many = cost_of(f, &query, NULL);
    assert_int_equal(many.runs, LIMIT);
    assert_int_equal(many.gets, LIMIT);
    assert_int_equal(many.scans, few.scans + MANY / 1000);
}

FIXTURE_TEST(an_id_or_its_beginning_costs_no_more_for_others)
{
    const char *const ids[] = {"open", "ope", "old-00001", "old-0000"};
    enum { IDS = sizeof(ids) / sizeof(ids[0]) };
    struct cost few[IDS];

    store_open(f, "open");
    store_ended(f, FEW, 3 * DAY);
    for (size_t i = 0; i < IDS; i++)
        few[i] = cost_of(f, NULL, ids[i]);
    assert_int_equal(few[IDS - 1].runs, FEW);
    store_ended(f, MANY, 3 * DAY);
    for (size_t i = 0; i < IDS; i++)
        assert_same_cost(cost_of(f, NULL, ids[i]), few[i]);
    /* All ids begin with "old-", but only the first RUNS_PREFIX_MAX runs are
     * returned. */
    assert_int_equal(cost_of(f, NULL, "old-").runs, RUNS_PREFIX_MAX);
    assert_int_equal(cost_of(f, NULL, "old-").scans, few[IDS - 1].scans);
}

/* Returns the cost of the first page of the dashboard: the overview and a page
 * of runs. */
static struct cost cost_of_page(struct fixture *f)
{
    struct cost cost = {calls(f, BENCH_GET), calls(f, BENCH_SCAN), 0};
    struct view *view = view_new();
    struct err err;
    struct buf text;

    buf_init(&text, VIEW_MAX_BYTES);
    assert_ok(view_overview(view, &f->bench.definition, &text, &err));
    assert_ok(view_runs(view, &f->bench.definition,
        &(struct view_page){.limit = VIEW_PAGE}, &text, &err));
    buf_done(&text);
    view_free(view);
    cost.gets = calls(f, BENCH_GET) - cost.gets;
    cost.scans = calls(f, BENCH_SCAN) - cost.scans;
    return cost;
}

FIXTURE_TEST(the_dashboard_costs_no_more_for_runs_that_ended_before)
{
    struct cost few;

    store_open(f, "open");
    store_ended(f, FEW, 3 * DAY);
    few = cost_of_page(f);
    assert_true(few.scans > 0 && few.gets > 0);
    store_ended(f, MANY, 3 * DAY);
    assert_same_cost(cost_of_page(f), few);
}

/* ---- what is refused ---- */

static enum tw_err find(struct fixture *f, const char *id)
{
    runs_done(&f->runs);
    f->runs = (struct runs){.list = NULL};
    return runs_find(&f->reader, slice_of(""), id, &f->runs, &f->err);
}

FIXTURE_TEST(an_id_that_no_run_can_have_is_refused)
{
    assert_int_equal(find(f, "a b"), TW_NOT_FOUND);
    assert_non_null(strstr(f->err.text, "invalid run id 'a b'"));
}

static bool any(const struct ledger_run *run)
{
    return true;
}

/* The job was renamed while its run r1 was open, and a run of the job with the
 * new name has the id r1 too. `cancel r1` must not choose one of them
 * silently. */
FIXTURE_TEST(an_id_is_looked_for_in_jobs_that_were_removed_too)
{
    const struct ledger_run *picked;

    store_open(f, "r1");
    store(f, "former-name", "r1", LEDGER_QUEUED, 0);
    assert_ok(find(f, "r1"));
    assert_int_equal(f->runs.count, 2);
    assert_int_equal(runs_pick(&f->runs, any, &picked, &f->err), TW_CONFLICT);
    assert_non_null(strstr(f->err.text, JOB "/r1, former-name/r1"));
    assert_ok(find(f, "former-name/r1"));
    assert_int_equal(f->runs.count, 1);
}

TEST(of_several_runs_none_is_picked)
{
    struct ledger_run list[] = {
        {.job = slice_of("-old"), .id = slice_of("r1")},
        {.job = slice_of("new"), .id = slice_of("r1")},
    };
    const struct runs runs = {.list = list, .count = 2};
    const struct ledger_run *picked;
    struct err err;

    assert_int_equal(runs_pick(&runs, any, &picked, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, ": -old/r1, new/r1 (write -- before"));
}
