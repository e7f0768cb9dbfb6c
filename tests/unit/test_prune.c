/* SPDX-License-Identifier: MIT */
/* Which runs and ledger index rows a pass of pruning deletes, and which
 * stay. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/prune.h"

#define JOB "delete-channel"
#define NOW "2026-11-24T12:00:00Z"
#define LONG_AGO "2026-11-01T10:00:00Z"
#define DAYS (24 * 3600 * TICKS_PER_S)
#define KEEP (3 * DAYS)

static struct prune prune;

static int set_up(void **state)
{
    int64_t now_ticks;

    assert_true(text_ticks(slice_of(NOW), &now_ticks));
    virtual_platform_use(&(struct virtual_options){
        .seed = 1, .boot_ms = 5000, .wall_ticks = now_ticks});
    prune_init(&prune);
    return workbench_set_up(state);
}

static int tear_down(void **state)
{
    prune_done(&prune);
    return workbench_tear_down_virtual(state);
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct workbench *bench)

/* A run before a pass, and its state after the pass (`left`). */
struct row {
    const char *id;
    enum ledger_state state;
    const char *ended; /* NULL: the run has not ended */
    const char *left;
    const char *message_until; /* NULL: MessageUntil is not set */
};

/* Stores the run of `row`. queue NULL: the command `run` began the run. */
static void store_row(struct workbench *bench, const char *job,
    const char *queue, const struct row *row)
{
    struct ledger_run *run = workbench_football(bench, row->id);

    run->job = slice_of(job);
    run->state = row->state;
    run->queue = slice_of(queue);
    if (row->ended)
        assert_true(text_ticks(slice_of(row->ended), &run->finished_ticks));
    if (row->message_until)
        assert_true(text_ticks(
            slice_of(row->message_until), &run->message_until_ticks));
    assert_ok(workbench_store_run(bench, run));
}

static void store(struct workbench *bench, const char *id,
    enum ledger_state state, const char *ended)
{
    const struct row row = {.id = id, .state = state, .ended = ended};

    store_row(bench, JOB, BENCH_QUEUE, &row);
}

static enum walk_step pass(struct workbench *bench)
{
    enum walk_step step;
    struct err err;

    prune_begin(&prune, bench->store, NULL, platform_wall_ticks(), KEEP);
    do
        step = prune_step(&prune, &err);
    while (step == WALK_MORE);
    return step;
}

static void expect(struct workbench *bench, const char *id, const char *wanted)
{
    assert_string_equal(workbench_state(bench, JOB, id), wanted);
}

/* Makes a whole pass, after which run `id` must be in state `wanted`. */
static void expect_pass(
    struct workbench *bench, const char *id, const char *wanted)
{
    assert_int_equal(pass(bench), WALK_DONE);
    expect(bench, id, wanted);
}

/* Stores the runs of `rows` and makes a pass, after which each run must be in
 * its state `left`. */
static void expect_rows(
    struct workbench *bench, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store_row(bench, JOB, BENCH_QUEUE, &rows[i]);
    assert_int_equal(pass(bench), WALK_DONE);
    for (size_t i = 0; i < count; i++)
        expect(bench, rows[i].id, rows[i].left);
}

FIXTURE_TEST(what_ended_long_ago_leaves_and_failures_stay)
{
    static const struct row ROWS[] = {
        {"a", LEDGER_SUCCEEDED, "2026-11-19T10:00:00Z", "none", NULL},
        {"b", LEDGER_SUCCEEDED, "2026-11-20T23:59:59Z", "none", NULL},
        {"c", LEDGER_SUCCEEDED, "2026-11-21T00:00:00Z", "succeeded", NULL},
        {"d", LEDGER_FAILED, LONG_AGO, "failed", NULL},
        {"e", LEDGER_POISONED, LONG_AGO, "poisoned", NULL},
        {"f", LEDGER_PAUSED, NULL, "paused", NULL},
    };

    store_row(bench, "gone-job", NULL, &ROWS[0]);
    expect_rows(bench, ROWS, 6);
    assert_true(prune.pruned == 3);
    assert_string_equal(workbench_state(bench, "gone-job", "a"), "none");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 1);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_FAILED), 2);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    assert_int_equal(
        workbench_listed(bench, "gone-job", LEDGER_INDEX_ENDED), 0);
}

/* ---- messages that may still come ---- */

#define FOUR_DAYS_AGO "2026-11-20T10:00:00Z"

FIXTURE_TEST(a_run_stays_while_its_message_may_be_hidden)
{
    static const struct row ROWS[] = {
        /* The message of a cancelled run may be hidden for seven days. */
        {"a", LEDGER_CANCELLED, FOUR_DAYS_AGO, "cancelled", NULL},
        {"b", LEDGER_SUCCEEDED, FOUR_DAYS_AGO, "succeeded",
            "2026-11-24T13:00:00Z"},
        /* MessageUntil is before the end of the run. */
        {"c", LEDGER_SUCCEEDED, FOUR_DAYS_AGO, "none", "2026-11-20T09:00:00Z"},
        {"d", LEDGER_CANCELLED, "2026-11-17T11:00:00Z", "none", NULL},
        {"e", LEDGER_SUCCEEDED, FOUR_DAYS_AGO, "none", "2026-11-24T11:00:00Z"},
    };

    expect_rows(bench, ROWS, 5);
}

static void let_pass(int64_t ticks)
{
    virtual_step_clocks(0, ticks / TICKS_PER_MS, ticks / TICKS_PER_MS);
}

/* No worker was running for weeks, so the message of a cancelled run may be
 * visible now. The run must stay until the message has been received. */
FIXTURE_TEST(a_run_whose_message_may_be_visible_stays_until_its_queue_is_empty)
{
    struct exchange exchange = {0};
    struct messages taken;

    workbench_put(bench, BENCH_QUEUE, "another's");
    store(bench, "a", LEDGER_CANCELLED, LONG_AGO);
    store(bench, "b", LEDGER_CANCELLED, "2026-10-01T10:00:00Z");
    expect_pass(bench, "a", "cancelled");
    expect(bench, "b", "none"); /* a run is kept for 30 days at most */
    /* A queue whose messages were received, but not deleted, is not empty. */
    messages_init(&taken);
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    expect_pass(bench, "a", "cancelled");
    assert_ok(store_queue_delete(bench->wrapped.inner, &exchange, BENCH_QUEUE,
        taken.list[0].id, taken.list[0].pop_receipt));
    messages_done(&taken);
    expect_pass(bench, "a", "none");
}

/* The message of an ended run may still be in the queue: `run --id` ends a run
 * without receiving its message, and a worker may be killed before it deletes
 * the message. No worker has served this queue since. */
FIXTURE_TEST(
    a_run_stays_while_its_queue_begins_with_messages_from_before_its_end)
{
    workbench_put(bench, BENCH_QUEUE, "its own");
    let_pass(60 * TICKS_PER_S);
    store(bench, "a", LEDGER_SUCCEEDED, "2026-11-24T12:00:30Z");
    store(bench, "b", LEDGER_SUCCEEDED, "2026-11-24T12:00:40Z");
    let_pass(5 * DAYS);
    workbench_put(bench, BENCH_QUEUE, "a later one");
    expect_pass(bench, "a", "succeeded");
    expect(bench, "b", "succeeded");
    workbench_consume(bench, BENCH_QUEUE, "its own");
    expect_pass(bench, "a", "none"); /* now the first message is newer than the
                                        ends of both runs */
    expect(bench, "b", "none");
}

FIXTURE_TEST(a_run_whose_message_was_left_stays_for_thirty_days)
{
    workbench_put(bench, BENCH_QUEUE, "another's");
    store(bench, "a", LEDGER_SUCCEEDED, NOW);
    let_pass(29 * DAYS);
    expect_pass(bench, "a", "succeeded");
    let_pass(2 * DAYS);
    expect_pass(bench, "a", "none");
}

/* If the response to the peek is invalid, the run stays, because its message
 * may be in the queue. An outage ends the pass. */
FIXTURE_TEST(a_run_stays_while_the_first_messages_of_its_queue_are_unknown)
{
    store(bench, "a", LEDGER_SUCCEEDED, FOUR_DAYS_AGO);
    workbench_put(bench, BENCH_QUEUE, "a later one");
    workbench_meets(bench, BENCH_PEEK, 1, 1, BENCH_INVALID);
    expect_pass(bench, "a", "succeeded");
    workbench_meets(bench, BENCH_PEEK, 1, 1, BENCH_FAIL);
    assert_int_equal(pass(bench), WALK_FAILED);
    expect(bench, "a", "succeeded");
    expect_pass(bench, "a", "none");
}

/* ---- clocks ---- */

/* Only the clock of this machine is wrong. The runs' times of end are by the
 * clock of the ledger's service, and pruning uses this clock, too. */
FIXTURE_TEST(a_wrong_clock_of_this_machine_prunes_nothing)
{
    store(bench, "a", LEDGER_SUCCEEDED, "2026-11-20T23:59:59Z");
    store(bench, "b", LEDGER_SUCCEEDED, "2026-11-21T00:00:00Z");
    store(bench, "c", LEDGER_SUCCEEDED, NOW);
    virtual_step_clocks(0, 400 * DAYS / TICKS_PER_MS, 0);
    assert_int_equal(pass(bench), WALK_DONE);
    assert_int_equal(prune.pruned, 1);
    expect(bench, "a", "none");
    expect(bench, "b", "succeeded");
    expect(bench, "c", "succeeded");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 2);
    virtual_step_clocks(0, -800 * DAYS / TICKS_PER_MS, 0);
    assert_int_equal(pass(bench), WALK_DONE);
    assert_int_equal(prune.pruned, 0);
}

/* Writes the run after the pass has read it and before the pass deletes it. */
BENCH_BETWEEN(meddle)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    assert_ok(workbench_store_run(bench, workbench_stored(bench, JOB, "a")));
}

FIXTURE_TEST(a_run_that_changes_meanwhile_stays)
{
    store(bench, "a", LEDGER_SUCCEEDED, "2026-11-19T10:00:00Z");
    bench->between = meddle;
    expect_pass(bench, "a", "succeeded");
    expect_pass(bench, "a", "none");
}

FIXTURE_TEST(without_a_ledger_there_is_nothing_to_prune)
{
    struct err err;

    assert_int_equal(prune_step(&prune, &err), WALK_DONE); /* without a pass */
    assert_int_equal(pass(bench), WALK_DONE);
}

/* ---- ledger index rows that do not match a run ---- */

/* Writes an entity of the job's partition, with one string property. */
static void write_entity(struct workbench *bench, enum operation_type type,
    const char *row_key, const char *name, const char *text)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(row_key));
    entity_set_string(&entity, &arena, name, slice_of(text));
    if (type != OPERATION_INSERT)
        entity.etag = workbench_stored(bench, JOB, row_key)->etag;
    workbench_write(bench, type, &entity);
    arena_done(&arena);
}

FIXTURE_TEST(a_row_without_its_run_goes)
{
    store(bench, "f", LEDGER_PAUSED, NULL);
    write_entity(bench, OPERATION_INSERT, "!ended!2026-11-01!x", "State", "");
    write_entity(bench, OPERATION_INSERT, "!ended!2026-11-01!f", "State", "");
    assert_int_equal(pass(bench), WALK_DONE);
    assert_int_equal(prune.pruned, 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 0);
    expect(bench, "f", "paused"); /* the row of f is on another list */
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
}

/* A newer version of the program may store a run where this version does not
 * find it. So an index row of a newer version stays, also if no run is found
 * for it. */
FIXTURE_TEST(a_newer_version_s_index_row_stays)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(
        &entity, &arena, slice_of(JOB), slice_of("!ended!2026-11-01!x"));
    entity_set_int32(&entity, &arena, "Format", LEDGER_FORMAT + 1);
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
    assert_int_equal(pass(bench), WALK_DONE);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 1);
}

/* Run a has a state of a newer version, run b cannot be read, and an index row
 * names no run. */
FIXTURE_TEST(what_cannot_be_understood_stays)
{
    for (char id[] = "a"; id[0] <= 'c'; id[0]++)
        store(bench, id, LEDGER_SUCCEEDED, LONG_AGO);
    write_entity(bench, OPERATION_MERGE, "a", "State", "sleeping");
    write_entity(bench, OPERATION_MERGE, "b", "Attempt", "many");
    write_entity(bench, OPERATION_INSERT, "!ended!2026-11-01!", "State", "");
    assert_int_equal(pass(bench), WALK_DONE);
    assert_int_equal(prune.pruned, 1);
    expect(bench, "c", "none");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 3);
}

/* ---- outages ---- */

FIXTURE_TEST(an_outage_of_any_request_gives_the_pass_up)
{
    static const struct {
        enum bench_call call;
        unsigned n;
        enum bench_fault fault;
    } cases[] = {{BENCH_SCAN, 1, BENCH_FAIL}, {BENCH_SCAN, 2, BENCH_FAIL},
        {BENCH_GET, 1, BENCH_FAIL}, {BENCH_BATCH, 1, BENCH_FAIL},
        {BENCH_BATCH, 1, BENCH_REFUSE}, {BENCH_BATCH, 1, BENCH_INVALID}};

    store(bench, "a", LEDGER_SUCCEEDED, LONG_AGO);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        workbench_meets(
            bench, cases[i].call, cases[i].n, cases[i].n, cases[i].fault);
        assert_int_equal(pass(bench), WALK_FAILED);
        assert_false(prune.walk.under_way);
        expect(bench, "a", "succeeded");
    }
    expect_pass(bench, "a", "none");
}

/* If a delete has one of these outcomes, the pass continues. The next pass
 * reads the run again. */
FIXTURE_TEST(an_outcome_that_others_decide_is_left_to_the_next_pass)
{
    static const enum bench_fault cases[] = {
        BENCH_CONFLICT, BENCH_GONE, BENCH_LOSE_REQUEST, BENCH_LOSE_ANSWER};

    store(bench, "a", LEDGER_SUCCEEDED, LONG_AGO);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        expect(bench, "a", "succeeded");
        workbench_meets(bench, BENCH_BATCH, 1, 1, cases[i]);
        assert_int_equal(pass(bench), WALK_DONE);
        assert_int_equal(prune.pruned, 0);
    }
    expect(bench, "a", "none");
}

/* ---- ledger index rows ---- */

FIXTURE_TEST(an_index_row_may_lack_what_it_tells)
{
    struct ledger_row row;
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    assert_false(ledger_index_row(&entity, &arena, &row));
    entity_init(&entity, &arena, slice_of(JOB), slice_of("!open!r1"));
    assert_true(ledger_index_row(&entity, &arena, &row));
    assert_true(slice_is(row.id, "r1"));
    assert_int_equal(row.state, LEDGER_QUEUED);
    assert_int_equal(row.queue.len, 0);
    assert_int_equal(row.requested_ticks, 0);
    entity_set_int32(&entity, &arena, "State", 7);
    entity_set_string(&entity, &arena, "RequestedAt", slice_of("yesterday"));
    entity_set_string(&entity, &arena, "Queue", slice_of("q"));
    assert_true(ledger_index_row(&entity, &arena, &row));
    assert_int_equal(row.requested_ticks, 0);
    assert_true(slice_is(row.queue, "q"));
    arena_done(&arena);
}
