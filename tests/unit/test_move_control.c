/* SPDX-License-Identifier: MIT */
/* A move that is cancelled, paused, stopped or killed within a load: the load
 * is completed before the run is cancelled or paused (rule M8). */
#include <stdio.h>
#include <string.h>

#include "jobs/move/intent.h"
#include "tests/support/loading.h"
#include "tests/support/table.h"
#include "tests/support/virtual_platform.h"
#include "tests/support/workbench.h"
#include "worker/run/control.h"
#include "worker/run/lease.h"
#include "worker/store/retry.h"

#define ID "r1"
#define ENTITIES 1200 /* 24 loads; 2 loads if the job has no rate */
#define STEPS 60      /* about the number of requests of an attempt */

/* With this rate a load has 50 pairs and takes 1 s. */
static const char JOBS[] =
    "mv:\n"
    "  kind: move\n"
    "  from: {table: Here}\n"
    "  to: {table: There}\n"
    "  max_entities_per_second: 100\n"
    "other: {kind: move, from: {table: Former}, to: {table: Latter}}\n";

enum ask { ASK_NOTHING, ASK_CANCEL, ASK_PAUSE, ASK_RESUME };

/* An event at one request of the current attempt. */
struct event {
    unsigned at; /* number of the request, from 1; 0: never */
    bool stops;  /* the attempt is told to stop, as by SIGTERM */
    bool dies;   /* no request of the attempt succeeds any more */
    enum ask ask;
};

struct scene {
    struct workbench bench; /* first member: see scene_of() */
    struct loading loading;
    struct event events[2];
    unsigned request;
    bool asked;       /* the last control_*() left the work to an attempt */
    bool alive;       /* `asked`, and the run had an owner */
    int64_t asked_ms; /* time of the last event with an `ask` */
    bool as_command;  /* attempts are made as by the command `run` */
};

static struct scene *scene_of(struct workbench *bench)
{
    return (struct scene *)bench;
}

static enum tw_err ask(struct scene *scene, enum ask what)
{
    struct control_resumed resumed;
    struct ledger_run was;
    struct err err;
    enum tw_err outcome;

    if (what == ASK_RESUME)
        return control_resume(&scene->bench.definition, slice_of("mv"),
            slice_of(ID), &resumed, &err);
    ledger_run_init(&was);
    outcome = (what == ASK_CANCEL ? control_cancel : control_pause)(
        scene->bench.wrapped.inner, slice_of("mv"), slice_of(ID), &was,
        &scene->asked, &err);
    scene->alive = scene->asked && was.owner.len > 0;
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
        if (event->ask != ASK_NOTHING) {
            (void)!ask(scene, event->ask);
            scene->asked_ms = platform_boot_ms();
        }
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
    assert_ok(store_create_table(bench->wrapped.inner, &exchange, "Here"));
    assert_ok(store_create_table(bench->wrapped.inner, &exchange, "There"));
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
    struct lease_request request = workbench_lease_request(bench, ID);
    const struct run_args none = {.count = 0};
    struct attempt_result result;

    request.args_json = slice_of("{}");
    request.resumes_paused = scene->as_command;
    scene->request = 0;
    attempt_run(
        &bench->environment, &bench->definition, &request, &none, &result);
    bench->stop = bench->down = false;
    scene->events[0].at = scene->events[1].at = 0;
    return result.end;
}

/* Makes attempts until the run has succeeded, or is cancelled or paused. */
static void attempt_all(struct scene *scene)
{
    struct workbench *bench = &scene->bench;

    for (int i = 0; i < 20; i++) {
        const char *state = workbench_state(bench, "mv", ID);

        if (strcmp(state, "cancelled") == 0 || strcmp(state, "paused") == 0 ||
            strcmp(state, "succeeded") == 0)
            return;
        virtual_sleep(120000); /* until a lease or a wait is over */
        (void)attempt(scene);
    }
    fail_msg("the run is %s", workbench_state(bench, "mv", ID));
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

static bool has_intent(struct scene *scene)
{
    struct retry_call call = retry_call(NULL, 0, 0);
    bool open;

    assert_ok(intent_is_open(scene->bench.wrapped.inner, LEDGER_TABLE,
        slice_of("mv"), slice_of(ID), &call, &open));
    return open;
}

static void expect_whole(struct scene *scene)
{
    assert_int_equal(count(scene, "Here") + count(scene, "There"), ENTITIES);
    for (unsigned i = 0; i < ENTITIES; i++)
        assert_true(is_in(scene, "Here", i) != is_in(scene, "There", i));
    assert_false(has_intent(scene));
}

/* Fails unless the attempt moved only complete loads of 50 pairs and ended
 * within 10 s. A renewal reads the request within this time. */
static void expect_whole_loads(struct scene *scene)
{
    size_t moved = count(scene, "There");

    assert_true(platform_boot_ms() - scene->asked_ms < 10000);
    assert_true(moved > 0 && moved < ENTITIES);
    assert_int_equal(moved % 50, 0);
}

static void expect_state(struct scene *scene, const char *state)
{
    assert_string_equal(workbench_state(&scene->bench, "mv", ID), state);
}

/* Fails unless the run is in this state and its Control is `control`. */
static void expect_asked(
    struct scene *scene, const char *state, const char *control)
{
    expect_state(scene, state);
    assert_true(
        slice_is(workbench_stored(&scene->bench, "mv", ID)->control, control));
}

/* Calls ask(). `asked` true: an attempt must do the rest; false: ask() must
 * have done everything. */
static void ask_for(struct scene *scene, enum ask what, bool asked)
{
    assert_ok(ask(scene, what));
    assert_int_equal(scene->asked, asked);
}

static void expect_cancelled_whole(struct scene *scene)
{
    attempt_all(scene);
    expect_state(scene, "cancelled");
    expect_whole(scene);
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

/* Number of a request within the first load, when some of its copies are
 * stored. */
#define WITHIN_LOAD 14

/* Makes an attempt that is stopped within a load. */
static void leave_half(struct scene *scene)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .stops = true};
    (void)attempt(scene);
    expect_state(scene, "queued");
    assert_true(has_intent(scene));
}

/* Makes an attempt during which `what` is asked for within a load. It must end
 * as `end`, with the load complete. */
static void ask_within_load(struct scene *scene, enum ask what, int end)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .ask = what};
    assert_int_equal(attempt(scene), end);
    expect_whole(scene);
}

SCENE_TEST(a_cancelled_move_completes_its_load_first)
{
    ask_within_load(scene, ASK_CANCEL, ATTEMPT_RUN_ENDED);
    assert_true(scene->alive);
    expect_state(scene, "cancelled");
    expect_whole_loads(scene);
}

SCENE_TEST(a_paused_move_completes_its_load_first)
{
    ask_within_load(scene, ASK_PAUSE, ATTEMPT_PAUSED);
    expect_state(scene, "paused");
    expect_whole_loads(scene);
}

/* ---- without an owner ---- */

SCENE_TEST(a_stopped_move_completes_its_load_before_it_is_paused)
{
    leave_half(scene);
    ask_for(scene, ASK_PAUSE, true);
    assert_int_equal(attempt(scene), ATTEMPT_PAUSED);
    expect_asked(scene, "paused", "");
    expect_whole(scene);
}

SCENE_TEST(a_killed_move_completes_its_load_before_it_is_cancelled)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .dies = true};
    (void)attempt(scene);
    expect_state(scene, "running");
    assert_true(has_intent(scene));
    virtual_sleep(120000);
    ask_for(scene, ASK_CANCEL, true);
    assert_false(scene->alive); /* a wake-up message is needed */
    expect_state(scene, "running");
    expect_cancelled_whole(scene);
}

/* Makes an attempt whose run is to be cancelled after the load. The attempt is
 * stopped before the load is complete. */
static void stop_a_cancelled_load(struct scene *scene)
{
    scene->events[0] = (struct event){.at = WITHIN_LOAD, .ask = ASK_CANCEL};
    scene->events[1] = (struct event){.at = WITHIN_LOAD + 8, .stops = true};
    (void)attempt(scene);
    expect_asked(scene, "queued", LEDGER_CONTROL_CANCEL);
}

SCENE_TEST(a_stopped_move_that_is_to_be_cancelled_stays_open)
{
    stop_a_cancelled_load(scene);
    expect_cancelled_whole(scene);
}

/* SIGINT stops the command `run` before the load is complete. */
SCENE_TEST(a_command_that_is_stopped_pauses_no_run_that_is_to_be_cancelled)
{
    scene->as_command = true;
    stop_a_cancelled_load(scene);
    scene->as_command = false;
    expect_cancelled_whole(scene);
}

SCENE_TEST(a_move_without_an_open_load_is_cancelled_at_once)
{
    ask_within_load(scene, ASK_PAUSE, ATTEMPT_PAUSED);
    ask_for(scene, ASK_CANCEL, false);
    expect_state(scene, "cancelled");
    expect_whole(scene);
}

SCENE_TEST(a_move_that_is_paused_within_a_load_is_queued_for_its_cancel)
{
    struct err err;
    bool asked;

    leave_half(scene);
    /* The command `run` calls control_stop() after SIGINT. */
    assert_ok(control_stop(scene->bench.wrapped.inner, slice_of("mv"),
        slice_of(ID), &asked, &err));
    assert_false(asked);
    expect_state(scene, "paused");
    ask_for(scene, ASK_CANCEL, true);
    expect_state(scene, "queued");
    ask_for(scene, ASK_CANCEL, true); /* asked again */
    expect_cancelled_whole(scene);
}

SCENE_TEST(a_cancel_of_a_half_load_is_not_replaced_by_a_pause)
{
    leave_half(scene);
    ask_for(scene, ASK_CANCEL, true);
    assert_int_equal(ask(scene, ASK_PAUSE), TW_CONFLICT);
    expect_cancelled_whole(scene);
}

/* Asks for the cancel of a run with an incomplete load. The next attempt cannot
 * read the intents, so the request remains. */
static void cancel_in_an_outage(struct scene *scene)
{
    leave_half(scene);
    ask_for(scene, ASK_CANCEL, true);
    workbench_meets(&scene->bench, BENCH_SCAN, 3, 9, BENCH_FAIL);
    (void)attempt(scene);
    expect_asked(scene, "waiting", LEDGER_CONTROL_CANCEL);
    assert_true(has_intent(scene));
}

/* The next attempt completes the load, and the run is cancelled. */
SCENE_TEST(an_outage_keeps_the_request_to_cancel_a_half_load)
{
    cancel_in_an_outage(scene);
    expect_cancelled_whole(scene);
}

SCENE_TEST(a_cancel_that_is_repeated_in_a_long_outage_leaves_the_intent)
{
    cancel_in_an_outage(scene);
    ask_for(scene, ASK_CANCEL, true);
    expect_state(scene, "waiting");
    virtual_sleep(INT64_C(601) * 1000);
    ask_for(scene, ASK_CANCEL, false);
    expect_state(scene, "cancelled");
    assert_true(has_intent(scene));
}

/* ---- another definition ---- */

#define OTHER_HASH "fedcba9876543210"

static void change_definition(struct scene *scene)
{
    (void)snprintf(
        scene->bench.job.hash, sizeof(scene->bench.job.hash), "%s", OTHER_HASH);
}

/* A person resumes the run while the attempt completes the load. The next
 * attempt must not move more under the changed definition. */
SCENE_TEST(after_a_pause_that_is_taken_back_the_definition_is_judged_again)
{
    size_t moved;

    leave_half(scene);
    change_definition(scene);
    scene->bench.definition.jobs = &scene->loading.jobs;
    ask_for(scene, ASK_PAUSE, true);
    scene->events[0] = (struct event){.at = 8, .ask = ASK_RESUME};
    assert_int_equal(attempt(scene), ATTEMPT_STOPPED);
    expect_asked(scene, "queued", "");
    expect_whole(scene);
    moved = count(scene, "There");
    assert_int_equal(attempt(scene), ATTEMPT_DEFERRED);
    expect_state(scene, "waiting");
    assert_int_equal(count(scene, "There"), moved);
}

/* No person has accepted the changed definition; the run keeps the former
 * one. */
SCENE_TEST(a_half_load_is_completed_also_under_a_changed_definition)
{
    leave_half(scene);
    change_definition(scene);
    ask_for(scene, ASK_PAUSE, true);
    assert_int_equal(attempt(scene), ATTEMPT_PAUSED);
    expect_whole(scene);
    assert_false(slice_is(
        workbench_stored(&scene->bench, "mv", ID)->definition, OTHER_HASH));
}

SCENE_TEST(a_half_load_is_completed_also_if_its_job_has_other_tables)
{
    leave_half(scene);
    change_definition(scene);
    scene->bench.job.settings = scene->loading.jobs.list[1].settings;
    ask_for(scene, ASK_CANCEL, true);
    expect_cancelled_whole(scene);
}

/* The job now has another kind, which cannot read intents. The run waits until
 * its kind is `move` again. */
SCENE_TEST(a_half_load_is_kept_while_its_job_is_of_another_kind)
{
    struct job move = scene->bench.job;

    leave_half(scene);
    scene->bench.job.kind = &scene->bench.kind;
    scene->bench.kind.name = "delete";
    ask_for(scene, ASK_CANCEL, true);
    assert_int_equal(attempt(scene), ATTEMPT_DEFERRED);
    expect_asked(scene, "waiting", LEDGER_CONTROL_CANCEL);
    scene->bench.job = move;
    expect_cancelled_whole(scene);
}

/* While the intents cannot be read, it is not known whether a load is open. */
SCENE_TEST(without_the_intents_a_half_load_is_neither_cancelled_nor_paused)
{
    leave_half(scene);
    for (int i = 0; i < 2; i++) {
        struct ledger_run was;
        struct err err;
        bool asked;

        ledger_run_init(&was);
        workbench_meets(&scene->bench, BENCH_SCAN, 1, 1000, BENCH_FAIL);
        assert_int_not_equal(
            (i == 0 ? control_cancel : control_pause)(scene->bench.store,
                slice_of("mv"), slice_of(ID), &was, &asked, &err),
            TW_OK);
        ledger_run_done(&was);
    }
    expect_asked(scene, "queued", "");
}

SCENE_TEST(a_half_load_that_no_queue_serves_gets_no_message)
{
    bool unserved = false;
    struct err err;

    leave_half(scene);
    scene->bench.definition.jobs = &scene->loading.jobs;
    scene->bench.setup.queue_count = 0;
    assert_int_equal(
        control_wake(&scene->bench.definition,
            workbench_stored(&scene->bench, "mv", ID), &unserved, &err),
        TW_NOT_FOUND);
    assert_true(unserved);
    assert_non_null(strstr(err.text, "run mv"));
}

SCENE_TEST(a_run_is_not_resumed_without_its_job)
{
    leave_half(scene);
    scene->bench.definition.jobs = &(struct jobs){.count = 0};
    assert_int_equal(ask(scene, ASK_RESUME), TW_NOT_FOUND);
    expect_state(scene, "queued");
}

/* ---- stopped, killed, paused or cancelled at any request ---- */

static void stop_anywhere(unsigned at, unsigned then, bool dies, enum ask what)
{
    static struct scene scene;

    begin(&scene);
    scene.bench.job.max_entities_per_second = 0;
    scene.events[0] = (struct event){.at = at, .dies = dies, .stops = !dies};
    (void)attempt(&scene);
    virtual_sleep(120000);
    (void)!ask(&scene, what);
    scene.events[0] = (struct event){.at = then, .dies = !dies, .stops = dies};
    if (strcmp(workbench_state(&scene.bench, "mv", ID), "none") != 0)
        (void)attempt(&scene);
    attempt_all(&scene);
    expect_whole(&scene);
    end(&scene);
}

VIRTUAL_BENCH_TEST(a_load_is_whole_wherever_its_move_is_stopped_and_cancelled)
{
    for (unsigned at = 1; at < STEPS; at++)
        stop_anywhere(at, 1 + at * 5 % 9, at % 2 == 0,
            at % 3 == 0 ? ASK_PAUSE : ASK_CANCEL);
}
