/* SPDX-License-Identifier: MIT */
/* A move that is cancelled or paused within a load: the load is completed
 * before (rule M8). */
#include <stdio.h>
#include <string.h>

#include "tests/support/loading.h"
#include "tests/support/table.h"
#include "tests/support/virtual_platform.h"
#include "tests/support/workbench.h"
#include "worker/run/control.h"
#include "worker/run/lease.h"

#define ID "r1"
#define ENTITIES 1200 /* two loads */

/* A load takes 40 s. */
static const char JOBS[] = "mv:\n"
                           "  kind: move\n"
                           "  from: {table: Here}\n"
                           "  to: {table: There}\n"
                           "  max_entities_per_second: 50\n";

enum ask { ASK_NOTHING, ASK_CANCEL, ASK_PAUSE };

/* What happens at one request of the attempt under way. */
struct event {
    unsigned at; /* number of the request, from 1; 0: never */
    bool stops;  /* SIGTERM */
    bool dies;   /* no request of the attempt succeeds any more */
    enum ask ask;
};

struct scene {
    struct workbench bench; /* first */
    struct loading loading;
    struct event events[2];
    unsigned request;
    bool asked; /* the last control_*() has asked an owner */
};

static struct scene *scene_of(struct workbench *bench)
{
    return (struct scene *)bench;
}

static enum tw_err ask(struct scene *scene, enum ask what)
{
    struct ledger_run was;
    struct err err;
    enum tw_err outcome;

    ledger_run_init(&was);
    outcome = (what == ASK_CANCEL ? control_cancel : control_pause)(
        scene->bench.wrapped.inner, slice_of("mv"), slice_of(ID), &was,
        &scene->asked, &err);
    ledger_run_done(&was);
    return outcome;
}

BENCH_BETWEEN(happen)
{
    struct scene *scene = scene_of(bench);
    unsigned request = ++scene->request;

    for (size_t i = 0; i < 2; i++) {
        const struct event *event = &scene->events[i];

        if (event->at != request)
            continue;
        if (event->stops)
            bench->stop = true;
        if (event->dies)
            bench->down = true;
        if (event->ask != ASK_NOTHING)
            (void)!ask(scene, event->ask);
    }
}

static void begin(struct scene *scene)
{
    struct workbench *bench = &scene->bench;
    struct exchange exchange = {0};

    *scene = (struct scene){.request = 0};
    workbench_init(bench);
    loading_begin(&scene->loading, JOBS);
    bench->job = scene->loading.jobs.list[0];
    bench->setup.max_attempts = 1000;
    bench->between = happen;
    assert_int_equal(
        store_create_table(bench->wrapped.inner, &exchange, "Here"), TW_OK);
    assert_int_equal(
        store_create_table(bench->wrapped.inner, &exchange, "There"), TW_OK);
    table_fill(bench->wrapped.inner, "Here", "p", 0, ENTITIES);
}

static void end(struct scene *scene)
{
    loading_done(&scene->loading);
    workbench_done(&scene->bench);
}

static int attempt(struct scene *scene)
{
    struct workbench *bench = &scene->bench;
    struct lease_request wish = workbench_wish(bench, ID);
    const struct run_args none = {.count = 0};
    struct attempt_result result;

    wish.args_json = slice_of("{}");
    scene->request = 0;
    attempt_run(&bench->environment, &bench->definition, &wish, &none, &result);
    bench->stop = bench->down = false;
    scene->events[0].at = scene->events[1].at = 0;
    return result.end;
}

static bool is_in(struct scene *scene, const char *table, unsigned i)
{
    char row_key[16];

    (void)snprintf(row_key, sizeof(row_key), "%06u", i);
    return table_has(scene->bench.wrapped.inner, table, "p", row_key, NULL);
}

static size_t count(struct scene *scene, const char *table)
{
    return table_count(scene->bench.wrapped.inner, table);
}

static void expect_whole(struct scene *scene)
{
    assert_int_equal(count(scene, "Here") + count(scene, "There"), ENTITIES);
    for (unsigned i = 0; i < ENTITIES; i++)
        assert_true(is_in(scene, "Here", i) != is_in(scene, "There", i));
}

static void expect_state(struct scene *scene, const char *state)
{
    assert_string_equal(workbench_state(&scene->bench, "mv", ID), state);
}

#define SCENE_TEST(name)                                                       \
    static void name##_in(struct scene *scene);                                \
    VIRTUAL_BENCH_TEST(name)                                                   \
    {                                                                          \
        static struct scene scene;                                             \
                                                                               \
        (void)bench;                                                           \
        begin(&scene);                                                         \
        name##_in(&scene);                                                     \
        end(&scene);                                                           \
    }                                                                          \
    static void name##_in(struct scene *scene)

/* A request of the first load: some of its copies are stored. */
#define WITHIN_LOAD 14

SCENE_TEST(a_cancelled_move_completes_its_load_first)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .ask = ASK_CANCEL};
    assert_int_equal(attempt(scene), ATTEMPT_RUN_ENDED);
    expect_state(scene, "cancelled");
    expect_whole(scene);
    assert_int_equal(count(scene, "There"), 1000);
}

SCENE_TEST(a_paused_move_completes_its_load_first)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .ask = ASK_PAUSE};
    assert_int_equal(attempt(scene), ATTEMPT_PAUSED);
    expect_state(scene, "paused");
    expect_whole(scene);
    assert_int_equal(count(scene, "There"), 1000);
}
