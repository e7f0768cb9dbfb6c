/* SPDX-License-Identifier: MIT */
/* Which open runs a drain waits for, and which open runs it names. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/drain.h"

#define JOB "delete-channel"

static struct ledger_run *new_run(
    struct workbench *bench, const char *id, enum ledger_state run_state)
{
    struct ledger_run *run = workbench_new_run(bench);

    run->job = slice_of(JOB);
    run->id = slice_of(id);
    run->state = run_state;
    return run;
}

static void stored(struct workbench *bench, const char *id,
    enum ledger_state run_state, const char *waits_for, const char *finish)
{
    struct ledger_run *run = new_run(bench, id, run_state);

    run->waits_for = slice_of(waits_for);
    run->finish = slice_of(finish);
    assert_ok(workbench_store_run(bench, run));
}

/* Writes an entity as another program would write it. If format is above 0, the
 * entity has this Format and a state. */
static void write_entity(struct workbench *bench, const char *partition_key,
    const char *row_key, int32_t format)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(partition_key), slice_of(row_key));
    if (format > 0) {
        entity_set_int32(&entity, &arena, "Format", format);
        entity_set_string(&entity, &arena, "State", slice_of("running"));
        entity_set_string(&entity, &arena, "WaitsFor", slice_of("rain"));
    }
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

static void check(struct workbench *bench, bool all, bool only, size_t count,
    const char *names)
{
    size_t found;
    struct buf text;
    struct err err;
    bool alone;

    buf_init(&text, 65536);
    assert_ok(
        drain_left(&bench->definition, NULL, all, &alone, &found, &text, &err));
    assert_string_equal(buf_text(&text), names);
    assert_int_equal(alone, only);
    assert_int_equal(found, count);
    buf_done(&text);
}

/* The runs are a paused run, a following run between two rounds, and a held
 * run. */
BENCH_TEST(runs_that_no_worker_goes_on_with_are_named)
{
    stored(bench, "a", LEDGER_PAUSED, NULL, NULL);
    stored(bench, "b", LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, NULL);
    stored(bench, "c", LEDGER_WAITING, LEDGER_WAITS_FOR_DEFINITION, NULL);
    check(bench, false, true, 3,
        JOB "/a is paused, " JOB "/b is waiting for round, " JOB
            "/c is waiting for definition");
}

/* No worker of this version can continue the run. Its message becomes visible
 * again until a newer worker receives it. */
BENCH_TEST(a_run_of_a_newer_version_is_named)
{
    write_entity(bench, JOB, "!open!a", 0);
    write_entity(bench, JOB, "a", 99);
    check(bench, false, true, 1, JOB "/a is in a state of a newer version");
}

/* No worker of this configuration receives messages of the run's queue,
 * whatever the run waits for. */
BENCH_TEST(a_run_of_a_queue_that_is_not_served_is_named)
{
    struct ledger_run *run = new_run(bench, "a", LEDGER_WAITING);

    run->queue = slice_of("old");
    run->waits_for = slice_of(LEDGER_WAITS_FOR_SETTLE);
    assert_ok(workbench_store_run(bench, run));
    check(bench, false, true, 1,
        JOB "/a is waiting for settle: queue old is not in `queues`: restore "
            "it, or move the run to queue " BENCH_BOUND
            " with `tableward resume a`");
}

/* The drain waits for a run that `finish` has asked to finish, and for a run
 * that waits to settle. */
BENCH_TEST(runs_that_go_on_are_waited_for)
{
    stored(bench, "a", LEDGER_PAUSED, NULL, NULL);
    stored(bench, "b", LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, "yes");
    stored(bench, "c", LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, NULL);
    stored(bench, "d", LEDGER_PAUSED, NULL, NULL);
    check(bench, true, false, 2, JOB "/a is paused, " JOB "/d is paused");
    check(bench, false, false, 1, JOB "/a is paused");
}

static void stored_with_queue(struct workbench *bench, const char *id,
    enum ledger_state state, int64_t lease_until_ticks)
{
    struct ledger_run *run = new_run(bench, id, state);

    run->queue = slice_of(BENCH_QUEUE);
    if (lease_until_ticks > 0) {
        run->owner = slice_of("somebody");
        run->lease_until_ticks = lease_until_ticks;
    }
    assert_ok(workbench_store_run(bench, run));
}

/* `enqueue` or `resume` was killed before it put the message. Earlier, the
 * drain then ended as if no run were left. */
BENCH_TEST(without_any_message_a_run_that_needs_one_is_named)
{
    int64_t now = platform_wall_ticks();

    stored_with_queue(bench, "a", LEDGER_QUEUED, 0);
    stored_with_queue(bench, "b", LEDGER_RUNNING, now - 60 * TICKS_PER_S);
    stored_with_queue(bench, "c", LEDGER_RUNNING, now + 60 * TICKS_PER_S);
    stored(bench, "d", LEDGER_QUEUED, NULL, NULL); /* by `run`: no queue */
    check(bench, true, false, 2,
        JOB "/a is queued: its queue has no message of the run, and a worker "
            "finds the run later, " JOB
            "/b is running: its queue has no message of the run, and a worker "
            "finds the run later");
    check(bench, false, false, 0, "");
}

/* The index may still list a run that has ended or was deleted. The partition
 * of a job has a name that begins with a small letter; the drain ignores all
 * other partitions. */
BENCH_TEST(what_has_ended_since_is_not_waited_for)
{
    stored(bench, "a", LEDGER_FAILED, NULL, NULL);
    write_entity(bench, JOB, "!open!a", 0);
    write_entity(bench, JOB, "!open!gone", 0);
    write_entity(bench, "Import", "!open!x", 0);
    write_entity(bench, "-", "x", 0);
    write_entity(bench, "~", "x", 0);
    check(bench, true, true, 0, "");
}

BENCH_TEST(what_cannot_be_read_says_so)
{
    static const enum bench_call cases[] = {BENCH_SCAN, BENCH_GET};
    struct buf names;

    stored(bench, "a", LEDGER_PAUSED, NULL, NULL);
    buf_init(&names, 65536);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        size_t count;
        struct err err;
        bool only;

        workbench_meets(bench, cases[i], 1, 1, BENCH_FAIL);
        assert_int_equal(drain_left(&bench->definition, NULL, false, &only,
                             &count, &names, &err),
            TW_BUSY);
        assert_false(only);
    }
    buf_done(&names);
}
