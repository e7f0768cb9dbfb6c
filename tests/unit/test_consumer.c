/* SPDX-License-Identifier: MIT */
/* The service: queues, slots, orphans, outages, drain, stop, reload. */
#include "tests/support/service.h"
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/consumer.h"
#include "worker/run/control.h"
#include "worker/run/notify.h"

/* What control_cancel() says beside: not looked at here. */
static bool asked;

static struct control_retried retried;

#define JOB "delete-channel"
#define MESSAGE(id)                                                            \
    "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"},"         \
    "\"id\":\"" id "\"}"

/* The service that a test runs, and what came of it. */
static struct service service;

static void start_with(
    struct workbench *bench, struct definition *(*reload)(void *context))
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .reload = reload,
        .context = bench};

    service_start(&service, &options);
}

static void start(struct workbench *bench)
{
    start_with(bench, NULL);
}

static void stop(void)
{
    service_stop(&service);
}

static void finish(void)
{
    service_join(&service);
    service_free(&service);
}

static void start_drain(struct workbench *bench)
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition), .drain = true};

    service_start(&service, &options);
}

static void drain(struct workbench *bench)
{
    start_drain(bench);
    finish();
    assert_ok(service.outcome);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 0);
}

/* ---- messages ---- */

/* The message's own id, which is its run's, is in id. */
static void put_named(struct workbench *bench, const char *queue,
    const char *body, char id[QUEUE_ID_MAX])
{
    (void)snprintf(id, QUEUE_ID_MAX, "%s", workbench_put(bench, queue, body));
}

VIRTUAL_BENCH_TEST(a_drain_finishes_what_the_queues_hold)
{
    struct buf coded;

    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    buf_init(&coded, 1000);
    crypto_base64(&coded, slice_of(MESSAGE("r2")));
    workbench_put(bench, BENCH_QUEUE, buf_text(&coded));
    buf_done(&coded);
    workbench_put(bench, BENCH_BOUND, "SURF");
    drain(bench);
    assert_false(service.result.stopped);
    assert_int_equal(service.result.succeeded, 3);
    assert_int_equal(service.result.failed + service.result.poisoned, 0);
    assert_int_equal(bench->attempts, 3);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, "r2"), "succeeded");
}

BENCH_TEST(without_an_id_the_message_s_own_is_the_run_s)
{
    char id[QUEUE_ID_MAX];

    put_named(bench, BENCH_BOUND, "Football", id);
    drain(bench);
    assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
}

BENCH_TEST(bad_messages_are_poisoned_and_the_worker_goes_on)
{
    static const struct {
        const char *body, *job, *why;
    } cases[] = {
        {"", "-", "empty"},
        {"not json", "-", "neither"},
        {"{\"job\":\"no-such\"}", "-", "unknown job"},
        {"{\"job\":\"delete-channel\"}", JOB, "missing argument"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"a/b\"}}", JOB,
            "must not contain"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"a\"},"
         "\"id\":\"../x\"}",
            JOB, "invalid id"},
    };
    enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
    struct ledger_run *run;
    char ids[COUNT][QUEUE_ID_MAX];

    for (size_t i = 0; i < COUNT; i++)
        (void)snprintf(ids[i], sizeof(ids[i]), "%s",
            workbench_put(bench, BENCH_QUEUE, cases[i].body));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    assert_int_equal(service.result.poisoned, COUNT);
    assert_int_equal(service.result.succeeded, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        run = workbench_stored(bench, cases[i].job, ids[i]);
        assert_int_equal(run->state, LEDGER_POISONED);
        assert_non_null(strstr(run->error.at, cases[i].why));
        assert_true(run->finished_ticks > 0);
    }
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
}

BENCH_TEST(an_id_with_other_arguments_is_poisoned)
{
    char id[QUEUE_ID_MAX];

    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    put_named(bench, BENCH_QUEUE,
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Tennis\"},"
        "\"id\":\"r1\"}",
        id);
    drain(bench);
    assert_int_equal(service.result.poisoned, 1);
    assert_non_null(strstr(service.result.err.text, "other arguments"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, id), "poisoned");
}

/* Somebody has written there with a tool that knows no types. */
static void spoil_run(struct workbench *bench, const char *id)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(id));
    entity_set_int32(&entity, &arena, "State", 7);
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* They were taken for an outage, again and again, and held up all others. */
BENCH_TEST(a_run_that_the_ledger_has_spoilt_is_poisoned)
{
    struct ledger_run *run;
    char named[QUEUE_ID_MAX], own[QUEUE_ID_MAX];

    drain(bench); /* makes the ledger */
    put_named(bench, BENCH_QUEUE, MESSAGE("r1"), named);
    put_named(bench, BENCH_BOUND, "SURF", own);
    spoil_run(bench, "r1");
    spoil_run(bench, own);
    drain(bench);
    assert_int_equal(service.result.poisoned, 2);
    assert_int_equal(bench->attempts, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 1);
    assert_string_equal(workbench_state(bench, JOB, named), "poisoned");
    run = workbench_stored(bench, "-", own);
    assert_non_null(strstr(run->error.at, "State"));
}

BENCH_SCRIPT(fails_once)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    (void)err_fail(err, TW_INVALID, "refused above");
    return RUN_FAILED;
}

BENCH_TEST(a_failed_run_can_be_retried_on_a_bound_queue)
{
    struct err err;
    char id[QUEUE_ID_MAX];

    bench->script = fails_once;
    put_named(bench, BENCH_BOUND, "Football", id);
    drain(bench);
    assert_int_equal(service.result.failed, 1);
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 1);
    assert_ok(control_retry(
        &bench->definition, slice_of(JOB), slice_of(id), true, &retried, &err));
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 0);
    assert_string_equal(workbench_state(bench, JOB, id), "queued");
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
    assert_int_equal(bench->attempts, 2);
}

BENCH_SCRIPT(waits_once)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    run->resumes_ticks = platform_wall_ticks() + TICKS_PER_S / 2;
    return RUN_WAITING;
}

BENCH_TEST(a_drain_waits_for_what_is_hidden)
{
    bench->script = waits_once;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    assert_int_equal(bench->attempts, 2);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

static bool first_succeeded(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r1"), "succeeded") == 0;
}

VIRTUAL_BENCH_TEST(a_hidden_message_is_expected_when_it_comes_back)
{
    int64_t since_ms = virtual_ms();

    /* Idle polling alone would ask again after an hour, and after 8 s because
     * an open run waits. */
    bench->setup.poll_min_ms = INT64_C(3600000);
    bench->setup.poll_max_ms = INT64_C(3600000);
    bench->script = waits_once;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    while (!first_succeeded(bench) && virtual_ms() < since_ms + 5000)
        virtual_sleep(100);
    stop();
    assert_true(first_succeeded(bench));
    assert_int_equal(bench->attempts, 2);
}

/* ---- slots ---- */

BENCH_SCRIPT(waits_for_gate)
{
    return workbench_pass_gate(bench, run, 1) ? RUN_SUCCEEDED : RUN_STOPPED;
}

static unsigned running(struct workbench *bench)
{
    unsigned n;

    workbench_locked(bench, n = bench->running);
    return n;
}

static bool two_running(struct workbench *bench)
{
    return running(bench) == 2;
}

static bool one_running(struct workbench *bench)
{
    return running(bench) == 1;
}

BENCH_TEST(as_many_runs_at_once_as_there_are_slots)
{
    bench->script = waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r3"));
    start_drain(bench);
    workbench_wait(bench, two_running);
    workbench_open_gate(bench);
    finish();
    assert_int_equal(bench->together, 2);
    assert_int_equal(service.result.succeeded, 3);
}

BENCH_TEST(a_stop_lets_go_of_everything_in_order)
{
    struct messages again;
    struct ledger_run *run;

    bench->script = waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    workbench_wait(bench, one_running);
    stop();
    assert_ok(service.outcome);
    assert_true(service.result.stopped);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_int_equal(run->owner.len, 0);
    messages_init(&again);
    (void)workbench_take(bench, BENCH_QUEUE, &again);
    messages_done(&again);
}

/* ---- cancel ---- */

BENCH_TEST(a_cancelled_run_stops_and_its_message_goes)
{
    struct ledger_run *before;
    struct err err;

    bench->script = waits_for_gate;
    bench->setup.visibility_timeout_s = 2;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_drain(bench);
    workbench_wait(bench, one_running);
    before = workbench_new_run(bench);
    assert_ok(control_cancel(bench->wrapped.inner, slice_of(JOB),
        slice_of("r1"), before, &asked, &err));
    assert_int_equal(before->state, LEDGER_RUNNING);
    finish();
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
}

/* ---- pause and resume ---- */

static void leave_paused(struct workbench *bench)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->state = LEDGER_PAUSED;
    assert_ok(workbench_store_run(bench, run));
}

static void resume(struct workbench *bench)
{
    struct control_resumed resumed;
    struct err err;

    assert_ok(control_resume(
        &bench->definition, slice_of(JOB), slice_of("r1"), &resumed, &err));
}

/* Sleeps until `condition`, at most most_s. */
static void sleep_until(
    struct workbench *bench, bool (*condition)(struct workbench *), int most_s)
{
    for (int i = 0; i < most_s && !condition(bench); i++)
        virtual_sleep(1000);
    assert_true(condition(bench));
}

static bool first_is_paused(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r1"), "paused") == 0;
}

/* Start a worker that polls once an hour and finds a paused run, and expect the
 * run to succeed within 10 s of `resume`. */
static void expect_resumed(struct workbench *bench)
{
    bench->setup.poll_min_ms = bench->setup.poll_max_ms = INT64_C(3600000);
    leave_paused(bench);
    start(bench);
    virtual_sleep(300000);
    resume(bench);
    sleep_until(bench, first_succeeded, 10);
}

VIRTUAL_BENCH_TEST(a_resumed_run_that_was_found_paused_continues_within_10_s)
{
    expect_resumed(bench);
    stop();
}

VIRTUAL_BENCH_TEST(a_resumed_run_that_this_worker_paused_continues_within_10_s)
{
    struct ledger_run *before;
    struct err err;

    bench->setup.poll_min_ms = bench->setup.poll_max_ms = INT64_C(3600000);
    bench->script = waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    sleep_until(bench, one_running, 10);
    before = workbench_new_run(bench);
    assert_ok(control_pause(bench->wrapped.inner, slice_of(JOB), slice_of("r1"),
        before, &asked, &err));
    sleep_until(bench, first_is_paused, 10);
    virtual_sleep(300000);
    workbench_open_gate(bench);
    resume(bench);
    sleep_until(bench, first_succeeded, 10);
    stop();
}

VIRTUAL_BENCH_TEST(a_worker_without_paused_runs_polls_at_its_own_interval)
{
    unsigned gets;

    expect_resumed(bench);
    /* After the next pass over the open runs the interval doubles again. */
    virtual_sleep(INT64_C(18000000));
    gets = bench->calls[BENCH_QUEUE_GET];
    virtual_sleep(INT64_C(7200000));
    stop();
    assert_in_range(bench->calls[BENCH_QUEUE_GET] - gets, 2, 6);
}

/* ---- orphans ---- */

static void leave_orphan(
    struct workbench *bench, const char *id, int64_t lease_until_ticks)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->state = LEDGER_RUNNING;
    run->owner = slice_of("somebody");
    run->epoch = run->attempt = 1;
    run->lease_until_ticks = lease_until_ticks;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_TEST(open_runs_that_nobody_works_on_are_taken_up)
{
    int64_t now = platform_wall_ticks();

    leave_orphan(bench, "old", now - 121 * TICKS_PER_S);
    leave_orphan(bench, "recent", now - 60 * TICKS_PER_S);
    leave_orphan(bench, "held", now + 60 * TICKS_PER_S);
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_string_equal(workbench_state(bench, JOB, "old"), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, "recent"), "running");
    assert_string_equal(workbench_state(bench, JOB, "held"), "running");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 2);
}

/* Its first look finds all slots with those who ask the queue. */
VIRTUAL_BENCH_TEST(a_drain_searches_for_orphans_before_it_ends)
{
    bench->setup.queue_count = 1;
    bench->setup.slots = 1;
    leave_orphan(bench, "old", platform_wall_ticks() - 121 * TICKS_PER_S);
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
}

static void leave_queued(struct workbench *bench, int64_t updated_ticks)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->queue = slice_of(BENCH_QUEUE);
    run->updated_ticks = updated_ticks;
    assert_ok(workbench_store_run(bench, run));
}

static unsigned others_put;

static void put_other(struct workbench *bench)
{
    char body[200];

    (void)snprintf(body, sizeof(body),
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Tennis\"},"
        "\"id\":\"other-%u\"}",
        others_put++);
    workbench_put(bench, BENCH_QUEUE, body);
}

/* Another message is on the queue at each Get. */
BENCH_BETWEEN(put_another)
{
    if (call == BENCH_QUEUE_GET)
        put_other(bench);
}

VIRTUAL_BENCH_TEST(a_busy_queue_starves_no_run_without_a_message)
{
    int64_t since_ms = virtual_ms();

    leave_queued(bench, platform_wall_ticks() - 1000 * TICKS_PER_S);
    bench->delay_ms = 100;
    bench->between = put_another;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("first"));
    start(bench);
    while (strcmp(workbench_state(bench, JOB, "r1"), "succeeded") != 0 &&
           virtual_ms() < since_ms + 120000)
        virtual_sleep(1000);
    bench->between = NULL;
    stop();
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

/* Its message has waited for as long as the run. */
VIRTUAL_BENCH_TEST(a_run_in_a_long_queue_is_no_orphan)
{
    bench->setup.queue_count = 1;
    bench->delay_ms = 100;
    for (int i = 0; i < 60; i++)
        put_other(bench);
    leave_queued(bench, platform_wall_ticks());
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    virtual_sleep(300000);
    workbench_log_begin();
    drain(bench);
    assert_int_equal(workbench_log_end("which no worker executes"), 0);
    assert_int_equal(service.result.succeeded, 61);
}

/* ---- outages ---- */

static bool was_asked(struct workbench *bench)
{
    bool created;

    workbench_locked(bench, created = bench->calls[BENCH_CREATE] > 0);
    return created;
}

static void set_down(struct workbench *bench, bool down)
{
    workbench_locked(bench, bench->down = down);
}

BENCH_TEST(an_outage_at_the_start_is_sat_out)
{
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    set_down(bench, true);
    start_drain(bench);
    workbench_wait(bench, was_asked);
    set_down(bench, false);
    finish();
    assert_ok(service.outcome);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

BENCH_SCRIPT(meets_outage_once)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    (void)err_fail(err, TW_BUSY, "503 from the tables");
    return RUN_OUTAGE;
}

VIRTUAL_BENCH_TEST(an_error_of_the_service_counts_as_no_failure)
{
    struct ledger_run *run;

    bench->script = meets_outage_once;
    bench->setup.max_attempts = 1;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_SUCCEEDED);
    assert_int_equal(run->failures, 0);
    assert_int_equal(run->attempt, 2);
}

BENCH_SCRIPT(archive_is_full)
{
    run->archive_full = attempt_number == 1;
    return meets_outage_once(bench, run, attempt_number, err);
}

VIRTUAL_BENCH_TEST(a_drain_does_not_wait_for_a_run_that_is_held)
{
    bench->script = archive_is_full;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_drain(bench);
    finish();
    assert_int_equal(service.result.left, 1);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "waiting");
    virtual_sleep(10000);
    drain(bench);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

BENCH_FAULT(wrong_key)
{
    return BENCH_REFUSE;
}

BENCH_TEST(refused_credentials_end_it_at_the_start)
{
    bench->fault = wrong_key;
    start(bench);
    finish();
    assert_int_equal(service.outcome, TW_REFUSED);
    assert_string_equal(service.err.text, "the key is wrong");
}

BENCH_TEST(who_may_not_create_uses_what_is_there)
{
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_BOUND, "Football");
    workbench_meets(bench, BENCH_CREATE, 1, UINT_MAX, BENCH_FORBID);
    start_drain(bench);
    finish();
    assert_ok(service.outcome);
    assert_int_equal(service.result.succeeded, 2);
}

/* ---- reload, the manager ---- */

static struct workbench *reload_bench;
static struct definition reload_definition;
static struct setup reload_setup;
static struct setup_queue reload_queue;

static struct definition *read_again(void *context)
{
    reload_queue = (struct setup_queue){
        .name = "another", .poison_queue = "another-poison"};
    reload_setup = reload_bench->setup;
    reload_setup.queues = &reload_queue;
    reload_setup.queue_count = 1;
    /* Not a copy of the whole: slots count references at the same time, and
     * is_reloaded() looks at them. */
    reload_definition.jobs = reload_bench->definition.jobs;
    reload_definition.stores = reload_bench->definition.stores;
    reload_definition.setup = &reload_setup;
    atomic_store(&reload_definition.references, 1);
    return &reload_definition;
}

static bool other_succeeded(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r2"), "succeeded") == 0;
}

static bool both_succeeded(struct workbench *bench)
{
    return other_succeeded(bench) &&
           strcmp(workbench_state(bench, JOB, "r1"), "succeeded") == 0;
}

BENCH_SCRIPT(first_waits_for_gate)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    return waits_for_gate(bench, run, attempt_number, err);
}

BENCH_TEST(a_reload_serves_new_queues_and_keeps_running_runs)
{
    reload_bench = bench;
    bench->script = first_waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_with(bench, read_again);
    workbench_wait(bench, one_running);
    workbench_put(bench, "another", MESSAGE("r2"));
    consumer_reload(service.consumer);
    workbench_wait(bench, other_succeeded);
    /* The first run still holds the definition it began under. */
    assert_int_equal(atomic_load(&bench->definition.references), 2);
    workbench_open_gate(bench);
    workbench_wait(bench, both_succeeded);
    stop();
    assert_int_equal(atomic_load(&bench->definition.references), 1);
    assert_int_equal(atomic_load(&reload_definition.references), 0);
}

static _Atomic bool refuses_writes;

BENCH_FAULT(refuse_writes)
{
    return call == BENCH_BATCH && atomic_load(&refuses_writes) ? BENCH_REFUSE
                                                               : BENCH_PASS;
}

/* The first run, which began before the reload, cannot store its end. */
BENCH_SCRIPT(first_ends_while_refused)
{
    enum run_end end = first_waits_for_gate(bench, run, attempt_number, err);

    if (attempt_number == 1)
        atomic_store(&refuses_writes, true);
    return end;
}

/* Nothing holds the configuration with which the first run began. */
static bool first_ended(struct workbench *bench)
{
    return atomic_load(&bench->definition.references) == 1;
}

static bool third_succeeded(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r3"), "succeeded") == 0;
}

BENCH_TEST(an_outage_of_a_former_configuration_stops_no_messages)
{
    struct consumer_view view;

    reload_bench = bench;
    bench->script = first_ends_while_refused;
    bench->fault = refuse_writes;
    bench->setup.visibility_timeout_s = 2;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_with(bench, read_again);
    workbench_wait(bench, one_running);
    workbench_put(bench, "another", MESSAGE("r2"));
    consumer_reload(service.consumer);
    workbench_wait(bench, other_succeeded);
    workbench_log_begin();
    workbench_open_gate(bench);
    workbench_wait(bench, first_ended);
    atomic_store(&refuses_writes, false);
    workbench_put(bench, "another", MESSAGE("r3"));
    workbench_wait(bench, third_succeeded);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(workbench_log_end("receives no messages"), 0);
    assert_false(view.outage);
    stop();
}

static int64_t reload_slots;

static struct definition *read_again_with_slots(void *context)
{
    (void)read_again(context);
    reload_setup.queues = reload_bench->setup.queues;
    reload_setup.queue_count = reload_bench->setup.queue_count;
    reload_setup.slots = reload_slots;
    return &reload_definition;
}

static bool five_run(struct workbench *bench)
{
    bool five;

    workbench_locked(bench, five = bench->running == 5);
    return five;
}

static bool is_reloaded(struct workbench *bench)
{
    return atomic_load(&reload_definition.references) > 1;
}

static void put_runs(struct workbench *bench, int count)
{
    char body[100];

    for (int i = 1; i <= count; i++) {
        (void)snprintf(body, sizeof(body),
            "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"c\"},"
            "\"id\":\"s%d\"}",
            i);
        workbench_put(bench, BENCH_QUEUE, body);
    }
}

/* Queue "work" is bound to a job since. */
static struct definition *read_again_bound(void *context)
{
    struct definition *definition = read_again(context);

    reload_queue = (struct setup_queue){.name = BENCH_QUEUE,
        .poison_queue = BENCH_QUEUE "-poison",
        .job = &reload_bench->job};
    return definition;
}

static unsigned log_of_reload(struct workbench *bench,
    struct definition *(*reload)(void *context), const char *text)
{
    reload_bench = bench;
    reload_slots = bench->setup.slots;
    start_with(bench, reload);
    workbench_log_begin();
    consumer_reload(service.consumer);
    workbench_wait(bench, is_reloaded);
    stop();
    return workbench_log_end(text);
}

#define WERE_READ "warn worker: the messages of queue work were read "

BENCH_TEST(a_reload_warns_of_a_queue_that_is_bound_otherwise)
{
    assert_int_equal(log_of_reload(bench, read_again_bound,
                         WERE_READ "as JSON messages of any job; from now on "
                                   "they are read as the argument of job "
                                   "delete-channel, in plain text, also those "
                                   "that are in the queue already"),
        1);
}

BENCH_TEST(a_reload_with_the_same_queues_warns_of_none)
{
    assert_int_equal(log_of_reload(bench, read_again_with_slots, WERE_READ), 0);
}

/* ---- a reload, and the store of the ledger ---- */

static struct bench_store reload_store;
static struct store *reload_list[1];
static const char *reload_names[1];
static struct job_stores reload_stores;

/* The store has another name, "second". */
static struct definition *read_again_renamed(void *context)
{
    struct definition *definition = read_again_with_slots(context);

    reload_list[0] = &reload_store.store;
    reload_names[0] = "second";
    reload_stores = reload_bench->stores;
    reload_stores.stores = reload_list;
    reload_stores.names = reload_names;
    definition->stores = &reload_stores;
    return definition;
}

static _Atomic bool judged;

static void note_judged(void *context, const struct definition *accepted)
{
    atomic_store(&judged, true);
}

static bool is_judged(struct workbench *bench)
{
    return atomic_load(&judged);
}

/* How often the log has text when the ledger is in reload_store after a
 * reload. */
static unsigned log_of_other_store(struct workbench *bench, const char *text)
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .reload = read_again_renamed,
        .reloaded = note_judged,
        .context = bench};

    reload_bench = bench;
    reload_slots = bench->setup.slots;
    atomic_store(&judged, false);
    service_start(&service, &options);
    workbench_log_begin();
    consumer_reload(service.consumer);
    workbench_wait(bench, is_judged);
    stop();
    assert_int_equal(atomic_load(&reload_definition.references), 0);
    return workbench_log_end(text);
}

BENCH_TEST(a_reload_with_another_ledger_is_refused)
{
    workbench_open_store(bench, "second", &reload_store);
    assert_int_equal(
        log_of_other_store(bench,
            "error worker: the new configuration is refused, and the old one "
            "stays: store 'second' is another account or file than that of the "
            "ledger, store 'main' so far: runs, closed jobs and locks do not "
            "move; restart the worker if another ledger is meant"),
        1);
    store_close(reload_store.inner);
}

BENCH_TEST(a_reload_may_rename_the_store_of_the_ledger)
{
    bench->wrapped.store.capabilities.identity = "file";
    reload_store = bench->wrapped;
    reload_store.store.name = "second";
    assert_int_equal(log_of_other_store(bench, "configuration reloaded"), 1);
}

/* The ledger's account is reached by another host name, a private endpoint for
 * example. */
BENCH_TEST(a_reload_may_name_another_host_of_the_ledgers_account)
{
    bench->wrapped.store.capabilities.cloud_account = "account@cloud";
    reload_store = bench->wrapped;
    reload_store.store.capabilities.identity = "account.private.example.com";
    assert_int_equal(log_of_other_store(bench, "configuration reloaded"), 1);
}

BENCH_TEST(a_reload_with_more_slots_starts_more_runs)
{
    reload_bench = bench;
    reload_slots = 5;
    bench->script = waits_for_gate;
    put_runs(bench, 7);
    start_with(bench, read_again_with_slots);
    workbench_wait(bench, two_running);
    consumer_reload(service.consumer);
    workbench_wait(bench, five_run);
    stop();
    assert_int_equal(bench->together, 5);
}

static _Atomic unsigned most_later;

/* The first two wait for the gate; the others note how many are at work. */
BENCH_SCRIPT(counts_later_runs)
{
    unsigned running;

    if (attempt_number <= 2)
        return waits_for_gate(bench, run, attempt_number, err);
    for (int i = 0; i < 20; i++) {
        workbench_locked(bench, running = bench->running);
        if (running > atomic_load(&most_later))
            atomic_store(&most_later, running);
        (void)poll(NULL, 0, 1);
    }
    return RUN_SUCCEEDED;
}

static bool queue_is_empty(struct workbench *bench)
{
    return workbench_count(bench, BENCH_QUEUE) == 0;
}

BENCH_TEST(a_reload_with_fewer_slots_lets_runs_end_and_starts_fewer)
{
    reload_bench = bench;
    reload_slots = 1;
    atomic_store(&most_later, 0);
    bench->script = counts_later_runs;
    put_runs(bench, 6);
    start_with(bench, read_again_with_slots);
    workbench_wait(bench, two_running);
    consumer_reload(service.consumer);
    workbench_wait(bench, is_reloaded);
    workbench_open_gate(bench);
    workbench_wait(bench, queue_is_empty);
    stop();
    assert_int_equal(atomic_load(&most_later), 1);
}

static struct definition *read_again_with_2_s(void *context)
{
    struct definition *definition = read_again(context);

    reload_setup.visibility_timeout_s = 2;
    return definition;
}

static bool new_timeouts_are_used(struct workbench *bench)
{
    bool are;

    workbench_locked(
        bench, are = bench->hidden_s == 2 &&
                     bench->scan_max_ms == deadline_request_ms(2000));
    return are;
}

BENCH_TEST(a_reload_takes_the_new_timeouts)
{
    int64_t hidden_s;

    reload_bench = bench;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_with(bench, read_again_with_2_s);
    workbench_wait(bench, first_succeeded);
    workbench_locked(bench, hidden_s = bench->hidden_s); /* slots still poll */
    assert_int_equal(hidden_s, 60);
    consumer_reload(service.consumer);
    workbench_wait(bench, new_timeouts_are_used);
    stop();
}

static struct definition *refuses(void *context)
{
    platform_lock(&((struct workbench *)context)->lock);
    ((struct workbench *)context)->gate++;
    platform_unlock(&((struct workbench *)context)->lock);
    return NULL;
}

static bool gate_open(struct workbench *bench)
{
    bool open;

    workbench_locked(bench, open = bench->gate > 0);
    return open;
}

BENCH_TEST(a_wrong_configuration_leaves_the_old_one)
{
    start_with(bench, refuses);
    consumer_reload(service.consumer);
    workbench_wait(bench, gate_open);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    stop();
}

/* The service manager that a test plays. */
static struct {
    int fd;
    char name[64];
    struct notify *notify; /* by which the service speaks to it */
} manager;

static void manager_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len;

    (void)snprintf(manager.name, sizeof(manager.name), "@tableward-consumer-%d",
        (int)getpid());
    len = strlen(manager.name);
    memcpy(address.sun_path + 1, manager.name + 1, len - 1);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(
        bind(manager.fd, (struct sockaddr *)&address,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
        0);
}

/* Read until `wanted` comes. */
static void hears(const char *wanted)
{
    char text[600];
    ssize_t len;

    do {
        len = recv(manager.fd, text, sizeof(text) - 1, 0);
        assert_true(len >= 0);
        text[len] = '\0';
    } while (strncmp(text, wanted, strlen(wanted)) != 0);
}

/* The same, in a virtual world. */
static void will_hear(const char *wanted)
{
    char text[600] = "";
    ssize_t len;

    while (strncmp(text, wanted, strlen(wanted)) != 0) {
        len = recv(manager.fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[len > 0 ? len : 0] = '\0';
        if (len < 0)
            virtual_sleep(500);
    }
}

BENCH_TEST(a_store_without_queues_is_refused)
{
    bench->wrapped.store.capabilities.has_queues = false;
    start(bench);
    finish();
    assert_int_equal(service.outcome, TW_INVALID);
}

/* ---- in a virtual world: outages and waits cost nothing ---- */

BENCH_SCRIPT(archive_stays_full)
{
    run->archive_full = true;
    (void)err_fail(err, TW_FULL, "no space left");
    return RUN_OUTAGE;
}

static void start_under_manager(struct workbench *bench, const char *watchdog)
{
    struct err err;
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .reload = refuses,
        .context = bench};

    manager_open();
    options.notify = manager.notify =
        notify_open(manager.name, watchdog, NULL, &err);
    service_start(&service, &options);
}

static void manager_close(void)
{
    notify_close(manager.notify);
    (void)close(manager.fd);
}

BENCH_TEST(the_manager_is_told)
{
    start_under_manager(bench, "200000");
    hears("READY=1");
    hears("WATCHDOG=1");
    hears("WATCHDOG=1");
    consumer_reload(service.consumer);
    hears("RELOADING=1\nMONOTONIC_USEC=");
    hears("READY=1");
    hears("STATUS=0 of 2 slots busy; the last reload was refused");
    consumer_stop(service.consumer);
    hears("STOPPING=1");
    finish();
    manager_close();
}

/* It is looked at after 5 s, 10 s, ... 5 min, and the log and the manager are
 * told of it all the same. */
VIRTUAL_BENCH_TEST(of_a_held_run_the_log_tells_once_a_minute)
{
    bench->script = archive_stays_full;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_log_begin();
    start_under_manager(bench, NULL);
    virtual_sleep(1230000);
    stop();
    assert_in_range(workbench_log_end("1 run held or waiting; last cause: no "
                                      "space left"),
        19, 22);
    hears("STATUS=0 of 2 slots busy; runs are held or waiting: no space left");
    manager_close();
}

/* Held for a minute it is tried four times, and is one run all the same. */
VIRTUAL_BENCH_TEST(held_runs_are_counted_and_not_their_tries)
{
    bench->script = archive_stays_full;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    workbench_log_begin();
    start_under_manager(bench, NULL);
    virtual_sleep(200000);
    stop();
    assert_in_range(workbench_log_end(" 2 runs held or waiting; "), 2, 4);
    manager_close();
}

VIRTUAL_BENCH_TEST(the_manager_hears_of_what_failed)
{
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"nothing\"}");
    start_under_manager(bench, NULL);
    will_hear("STATUS=0 of 2 slots busy; 0 failed, 1 poisoned since "
              "the start: `tableward poison list`");
    stop();
    manager_close();
}

/* How long it lasted is shown until the next one is over. */
VIRTUAL_BENCH_TEST(of_an_outage_the_manager_hears_how_long_it_lasted)
{
    start_under_manager(bench, NULL);
    will_hear("READY=1");
    bench->down_queue = BENCH_BOUND;
    will_hear("STATUS=0 of 2 slots busy; 1 of 2 queues cannot be served");
    bench->down_queue = NULL;
    will_hear("STATUS=0 of 2 slots busy; the last outage ended at ");
    workbench_meets(bench, BENCH_GET, 1, 12, BENCH_FAIL);
    workbench_meets(bench, BENCH_BATCH, 1, 12, BENCH_FAIL);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    will_hear("STATUS=receives no messages during an outage: ");
    will_hear("STATUS=0 of 2 slots busy; the last outage ended at ");
    stop();
    manager_close();
}

/* The datagrams of the next 60 s, joined by line breaks. */
static void hear_a_minute(char *said, size_t room)
{
    char text[600];
    ssize_t len;

    said[0] = '\0';
    for (int i = 0; i < 120; i++) {
        while ((len = recv(manager.fd, text, sizeof(text) - 1, MSG_DONTWAIT)) >=
               0) {
            text[len] = '\0';
            (void)snprintf(
                said + strlen(said), room - strlen(said), "%s\n", text);
        }
        virtual_sleep(500);
    }
}

VIRTUAL_BENCH_TEST(ready_is_told_only_once_messages_are_received)
{
    char said[8192];

    bench->down = true;
    start_under_manager(bench, NULL);
    consumer_reload(service.consumer);
    hear_a_minute(said, sizeof(said));
    assert_non_null(
        strstr(said, "STATUS=receives no messages during an outage: "));
    assert_null(strstr(said, "READY=1"));
    bench->down = false;
    will_hear("READY=1");
    stop();
    manager_close();
}

VIRTUAL_BENCH_TEST(ready_waits_until_one_of_the_queues_can_be_served)
{
    char said[8192];

    bench->setup.queue_count = 1;
    workbench_meets(bench, BENCH_CREATE, 2, UINT_MAX, BENCH_FAIL);
    bench->down_queue = BENCH_QUEUE;
    start_under_manager(bench, NULL);
    hear_a_minute(said, sizeof(said));
    assert_null(strstr(said, "READY=1"));
    bench->fate_count = 0;
    bench->down_queue = NULL;
    will_hear("READY=1");
    stop();
    manager_close();
}

VIRTUAL_BENCH_TEST(without_queues_the_worker_is_ready_and_takes_no_message)
{
    unsigned got;

    bench->setup.queue_count = 0;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    got = bench->calls[BENCH_QUEUE_GET];
    start_under_manager(bench, NULL);
    will_hear("READY=1");
    will_hear("STATUS=receives no messages: `queues` of the "
              "configuration is empty; 0 of 2 slots busy");
    virtual_sleep(120000);
    stop();
    assert_ok(service.outcome);
    assert_int_equal(bench->calls[BENCH_QUEUE_GET], got);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    manager_close();
}

#define ALWAYS 1, UINT_MAX

static unsigned all_calls(struct workbench *bench)
{
    unsigned all = 0;

    platform_lock(&bench->lock);
    for (int i = 0; i < BENCH_CALLS; i++)
        all += bench->calls[i];
    platform_unlock(&bench->lock);
    return all;
}

VIRTUAL_BENCH_TEST(ten_minutes_of_outage_are_probed_at_most_once_a_second)
{
    unsigned before;

    start(bench);
    virtual_sleep(5000);
    set_down(bench, true);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    before = all_calls(bench);
    virtual_sleep(600000);
    assert_true(all_calls(bench) - before <= 600);
    assert_true(all_calls(bench) - before >= 50); /* it does look */
    set_down(bench, false);
    workbench_wait(bench, first_succeeded);
    stop();
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

VIRTUAL_BENCH_TEST(a_store_that_is_away_at_the_start_is_waited_for)
{
    set_down(bench, true);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    virtual_sleep(120000);
    set_down(bench, false);
    workbench_wait(bench, first_succeeded);
    stop();
}

VIRTUAL_BENCH_TEST(queues_that_cannot_be_made_yet_are_made_later)
{
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_meets(bench, BENCH_CREATE, 2, 2, BENCH_FAIL); /* the queue */
    workbench_meets(bench, BENCH_CREATE, 4, 4, BENCH_FAIL); /* its poison */
    start(bench);
    workbench_wait(bench, first_succeeded);
    stop();
    assert_int_equal(bench->calls[BENCH_CREATE], 7); /* 5 and once more */
}

/* Deleted a moment ago: the worker waited for it before it began. */
VIRTUAL_BENCH_TEST(a_queue_that_is_being_deleted_delays_no_other)
{
    int64_t began_ms = platform_boot_ms();

    bench->setup.slots = 1;
    bench->queues[1].job = NULL;
    workbench_put(bench, BENCH_BOUND, MESSAGE("r1"));
    workbench_meets(bench, BENCH_CREATE, 2, 2, BENCH_LOCK); /* the first */
    workbench_meets(bench, BENCH_CREATE, 5, 9, BENCH_LOCK);
    start(bench);
    workbench_wait(bench, first_succeeded);
    assert_in_range(platform_boot_ms() - began_ms, 0, 500);
    stop();
}

VIRTUAL_BENCH_TEST(a_queue_that_is_gone_is_made_again)
{
    unsigned created;

    start(bench);
    virtual_sleep(5000);
    created = bench->calls[BENCH_CREATE];
    workbench_meets(bench, BENCH_QUEUE_GET, 1, 1, BENCH_GONE);
    workbench_meets(bench, BENCH_QUEUE_GET, 2, 3, BENCH_FAIL);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    assert_true(bench->calls[BENCH_CREATE] > created);
    stop();
}

VIRTUAL_BENCH_TEST(a_queue_that_fails_delays_no_other)
{
    int64_t put_ms;

    bench->setup.poll_max_ms = 500;
    bench->down_queue = BENCH_BOUND;
    start(bench);
    virtual_sleep(30000);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    put_ms = platform_boot_ms();
    workbench_wait(bench, first_succeeded);
    assert_in_range(platform_boot_ms() - put_ms, 0, 1000);
    stop();
}

/* Its requests have no answer until their time is over. */
VIRTUAL_BENCH_TEST(a_queue_that_does_not_answer_delays_no_other)
{
    bench->setup.poll_max_ms = 500;
    bench->down_queue = BENCH_BOUND;
    bench->down_queue_ms = 15000;
    start(bench);
    virtual_sleep(3000);
    for (int i = 0; i < 8; i++) {
        int64_t put_ms = platform_boot_ms();
        char id[8], text[200];

        (void)snprintf(id, sizeof(id), "r%d", i);
        (void)snprintf(text, sizeof(text),
            "{\"job\":\"" JOB "\",\"args\":{\"channel\":\"a\"},\"id\":\"%s\"}",
            id);
        workbench_put(bench, BENCH_QUEUE, text);
        while (strcmp(workbench_state(bench, JOB, id), "succeeded") != 0)
            virtual_sleep(20);
        assert_in_range(platform_boot_ms() - put_ms, 0, 1000);
        virtual_sleep(4000);
    }
    stop();
}

/* Its second Get is under way: all slots but the one that asks are there for
 * the others. */
VIRTUAL_BENCH_TEST(a_queue_that_does_not_answer_keeps_no_slots)
{
    char text[200];

    bench->setup.slots = 8;
    bench->setup.poll_max_ms = 500;
    bench->down_queue = BENCH_BOUND;
    bench->down_queue_ms = 15000;
    bench->script = waits_for_gate;
    start(bench);
    virtual_sleep(16500);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(text, sizeof(text),
            "{\"job\":\"" JOB "\",\"args\":{\"channel\":\"a\"},\"id\":\"r%d\"}",
            i);
        workbench_put(bench, BENCH_QUEUE, text);
    }
    virtual_sleep(3000);
    assert_int_equal(running(bench), 6);
    workbench_open_gate(bench);
    stop();
}

/* ---- what a queue may take ---- */

static bool both_have_run(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r1"), "succeeded") == 0 &&
           strcmp(workbench_state(bench, JOB, "r2"), "succeeded") == 0;
}

static bool second_runs(struct workbench *bench)
{
    return running(bench) == 2 &&
           strcmp(workbench_state(bench, JOB, "r2"), "running") == 0;
}

/* What is over a queue's limit stays in the queue, for any worker. */
VIRTUAL_BENCH_TEST(a_queue_has_at_most_its_slots)
{
    struct messages left;

    bench->script = waits_for_gate;
    bench->queues[0].slots = 1;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    start(bench);
    workbench_wait(bench, one_running);
    virtual_sleep(5000);
    assert_int_equal(running(bench), 1);
    workbench_put(bench, BENCH_BOUND, "Football");
    workbench_wait(bench, two_running);
    messages_init(&left);
    (void)workbench_take(bench, BENCH_QUEUE, &left); /* visible: not taken */
    assert_int_equal(left.count, 1);
    messages_done(&left);
    workbench_open_gate(bench);
    virtual_sleep(90000);
    workbench_wait(bench, both_have_run);
    assert_int_equal(bench->together, 2);
    stop();
}

/* The limit is of the queue's name: what a reload finds at work counts. */
VIRTUAL_BENCH_TEST(an_orphan_counts_as_a_run_of_its_queue)
{
    bench->script = waits_for_gate;
    bench->queues[0].slots = 1;
    bench->queues[1].job = NULL;
    leave_orphan(bench, "r1", platform_wall_ticks() - 200 * TICKS_PER_S);
    leave_orphan(bench, "r2", platform_wall_ticks() - 200 * TICKS_PER_S);
    start(bench);
    workbench_wait(bench, one_running);
    virtual_sleep(30000);
    assert_int_equal(running(bench), 1);
    workbench_open_gate(bench);
    virtual_sleep(90000); /* the next look at what was left */
    workbench_wait(bench, both_have_run);
    assert_int_equal(bench->together, 1);
    stop();
}

static unsigned messages_received;

BENCH_BETWEEN(count_received)
{
    if (call == BENCH_QUEUE_GET && bench->running == 0)
        messages_received++;
}

/* One request brings the messages of all slots that are idle. */
VIRTUAL_BENCH_TEST(one_get_serves_all_idle_slots)
{
    messages_received = 0;
    bench->script = waits_for_gate;
    bench->setup.queue_count = 1;
    bench->between = count_received;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    start(bench);
    workbench_wait(bench, second_runs);
    assert_int_equal(messages_received, 1);
    workbench_open_gate(bench);
    workbench_wait(bench, both_have_run);
    stop();
}

VIRTUAL_BENCH_TEST(a_store_that_can_never_be_used_is_said_at_the_start)
{
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_INVALID);
    start(bench);
    finish();
    assert_int_equal(service.outcome, TW_INVALID);
    bench->fate_count = 0;
    bench->setup.store = 1;
    start(bench);
    finish();
    assert_int_equal(service.outcome, TW_INVALID);
    assert_non_null(strstr(service.err.text, "the worker has no store"));
    bench->setup.store = 0;
    consumer_free(NULL);
}

static struct definition *read_without_store(void *context)
{
    struct workbench *bench = context;

    reload_bench = bench;
    (void)read_again(NULL);
    reload_setup.store = 7;
    bench->gate++;
    return &reload_definition;
}

/* Cosmos DB's. */
static struct definition *read_without_queues(void *context)
{
    static struct store store;
    static struct store *list[] = {&store};
    static struct job_stores stores;
    struct workbench *bench = context;

    reload_bench = bench;
    (void)read_again(NULL);
    store = *bench->store;
    store.capabilities.has_queues = false;
    stores = bench->stores;
    stores.stores = list;
    reload_definition.stores = &stores;
    bench->gate++;
    return &reload_definition;
}

static unsigned accepted_reloads, refused_reloads;

static void count_reload(void *context, const struct definition *accepted)
{
    accepted_reloads += accepted != NULL;
    refused_reloads += accepted == NULL;
}

static void refuses_reload(
    struct workbench *bench, struct definition *(*reload)(void *context))
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .reload = reload,
        .reloaded = count_reload,
        .context = bench};

    accepted_reloads = refused_reloads = 0;
    service_start(&service, &options);
    consumer_reload(service.consumer);
    virtual_sleep(5000);
    assert_int_equal(bench->gate, 1);
    assert_int_equal(accepted_reloads, 0);
    assert_int_equal(refused_reloads, 1);
    assert_int_equal(atomic_load(&reload_definition.references), 0);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    stop();
}

VIRTUAL_BENCH_TEST(a_configuration_without_a_store_leaves_the_old_one)
{
    refuses_reload(bench, read_without_store);
}

VIRTUAL_BENCH_TEST(a_configuration_without_queues_leaves_the_old_one)
{
    refuses_reload(bench, read_without_queues);
}

static unsigned reloads;

/* Other slots, other request threads, another ceiling: one after the other. */
static struct definition *read_other_places(void *context)
{
    struct workbench *bench = context;

    reload_bench = bench;
    (void)read_again(NULL);
    reload_setup.slots += reloads == 0;
    reload_setup.requests += reloads == 1;
    reload_setup.max_entities_per_second += reloads == 2;
    reloads++;
    atomic_store(&reload_definition.references, 1);
    return &reload_definition;
}

VIRTUAL_BENCH_TEST(other_slots_wait_for_a_restart)
{
    reloads = 0;
    for (unsigned i = 1; i <= 3; i++) {
        bench->together = 0;
        bench->script = NULL;
        start_with(bench, read_other_places);
        consumer_reload(service.consumer);
        virtual_sleep(5000);
        assert_int_equal(reloads, i);
        stop();
    }
}

VIRTUAL_BENCH_TEST(without_anything_to_read_a_reload_is_nothing)
{
    start(bench);
    consumer_reload(service.consumer);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    stop();
}

/* However long an idle worker may wait for the next poll. */
VIRTUAL_BENCH_TEST(a_drain_does_not_wait_for_long_polls)
{
    int64_t began_ms = platform_boot_ms();

    bench->setup.poll_min_ms = 30000;
    bench->setup.poll_max_ms = 600000;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_true(platform_boot_ms() - began_ms < 30000);
}

VIRTUAL_BENCH_TEST(a_drain_that_cannot_count_goes_on)
{
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_meets(bench, BENCH_OTHER, 1, 2, BENCH_FAIL);
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_true(bench->calls[BENCH_OTHER] > 2);
}

BENCH_SCRIPT(waits_twice)
{
    run->resumes_ticks = platform_wall_ticks() + 5 * TICKS_PER_S;
    return attempt_number < 3 ? RUN_WAITING : RUN_SUCCEEDED;
}

/* Nothing but a pass finds it again: ten minutes for each of its waits, while
 * others wait for what it has. */
VIRTUAL_BENCH_TEST(an_orphan_that_waits_goes_on_soon_after)
{
    int64_t since_ms = virtual_ms();

    bench->script = waits_twice;
    leave_orphan(bench, "r1", platform_wall_ticks() - 1000 * TICKS_PER_S);
    start(bench);
    while (workbench_listed(bench, JOB, LEDGER_INDEX_OPEN) > 0 &&
           virtual_ms() < since_ms + 3600000)
        virtual_sleep(1000);
    stop();
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
    assert_true(virtual_ms() - since_ms < 300000); /* 2 x (5 s + 2 x 60 s) */
}

VIRTUAL_BENCH_TEST(orphans_that_cannot_be_looked_for_are_found_later)
{
    leave_orphan(bench, "r1", platform_wall_ticks() - 1000 * TICKS_PER_S);
    workbench_meets(bench, BENCH_SCAN, 1, 1, BENCH_FAIL);
    start(bench);
    workbench_wait(bench, first_succeeded);
    stop();
}

BENCH_SCRIPT(waits_ten_minutes)
{
    if (run->checkpoint.len > 0)
        return RUN_SUCCEEDED;
    run->callbacks->save(run, slice_of("{\"waited\":1}"), true);
    run->resumes_ticks = platform_wall_ticks() + 600 * TICKS_PER_S;
    return RUN_WAITING;
}

/* More than it can remember the moments of. */
VIRTUAL_BENCH_TEST(very_many_runs_that_wait_all_go_on)
{
    bench->script = waits_ten_minutes;
    bench->setup.slots = 40;
    for (int i = 0; i < 60; i++)
        workbench_put(bench, BENCH_BOUND, "Football");
    drain(bench);
    assert_int_equal(service.result.succeeded, 60);
    assert_int_equal(bench->attempts, 120);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
}

/* The copy comes first: without one the message stays. */
VIRTUAL_BENCH_TEST(a_bad_message_stays_until_it_can_be_copied)
{
    workbench_put(bench, BENCH_QUEUE, "not json");
    workbench_meets(bench, BENCH_PUT, 1, 5, BENCH_FAIL);
    drain(bench);
    assert_int_equal(service.result.poisoned, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* On a bound queue the body may look like the wake-up message of a run: where
 * there is none of that id, or with other arguments, it is the argument. */
VIRTUAL_BENCH_TEST(a_wake_up_without_its_run_is_an_argument)
{
    char id[QUEUE_ID_MAX];

    put_named(bench, BENCH_BOUND, MESSAGE("nowhere"), id);
    drain(bench);
    assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, "nowhere"), "none");
    workbench_put(bench, BENCH_QUEUE,
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Tennis\"},"
        "\"id\":\"taken\"}");
    put_named(bench, BENCH_BOUND, MESSAGE("taken"), id);
    drain(bench);
    assert_string_equal(workbench_state(bench, JOB, "taken"), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
    assert_int_equal(service.result.succeeded, 2);
}

/* Queue "work" is bound to job archive-user since its messages were put. */
static void bind_to_another_job(struct workbench *bench, struct job both[2])
{
    both[0] = both[1] = bench->job;
    both[1].name = "archive-user";
    bench->jobs = (struct jobs){.list = both, .count = 2};
    bench->queues[0].job = &both[1];
    bench->queues[1].job = &both[0];
}

/* Each was an argument of archive-user, so that its run had no message. */
VIRTUAL_BENCH_TEST(a_queue_that_is_bound_since_wakes_the_runs_of_its_messages)
{
    static const char *const bodies[] = {MESSAGE("r1"),
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"}}"};
    struct job both[2];

    bind_to_another_job(bench, both);
    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        char id[QUEUE_ID_MAX];

        (void)snprintf(
            id, sizeof(id), "%s", workbench_put(bench, BENCH_QUEUE, bodies[i]));
        if (i == 0)
            strcpy(id, "r1");
        assert_ok(workbench_store_run(bench, workbench_football(bench, id)));
        drain(bench);
        assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
        assert_int_equal(bench->attempts, i + 1);
    }
    assert_int_equal(
        workbench_listed(bench, "archive-user", LEDGER_INDEX_ENDED), 0);
}

/* The run of a message. It is no orphan yet. */
static void store_recent(struct workbench *bench, const char *id)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->updated_ticks = platform_wall_ticks();
    assert_ok(workbench_store_run(bench, run));
}

/* Queue "work" was bound when its messages were put. Their runs stayed queued,
 * and nothing but a pass ten minutes later found them. */
VIRTUAL_BENCH_TEST(
    a_queue_that_is_bound_no_more_wakes_the_runs_of_its_arguments)
{
    static const char *const bodies[] = {"Football", "Rm9vdGJhbGw="};
    char id[QUEUE_ID_MAX];

    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        put_named(bench, BENCH_QUEUE, bodies[i], id);
        store_recent(bench, id);
        drain(bench);
        assert_string_equal(workbench_state(bench, JOB, id), "succeeded");
        assert_int_equal(bench->attempts, i + 1);
    }
    /* Another argument is no message of the run. */
    put_named(bench, BENCH_QUEUE, "Tennis", id);
    store_recent(bench, id);
    drain(bench);
    assert_string_equal(workbench_state(bench, JOB, id), "queued");
    assert_string_equal(workbench_state(bench, "-", id), "poisoned");
    assert_int_equal(bench->attempts, 2);
}

VIRTUAL_BENCH_TEST(a_message_of_another_job_without_a_run_is_an_argument)
{
    struct job both[2];
    char id[QUEUE_ID_MAX];

    bind_to_another_job(bench, both);
    (void)snprintf(id, sizeof(id), "%s",
        workbench_put(bench, BENCH_QUEUE, MESSAGE("nowhere")));
    drain(bench);
    assert_string_equal(
        workbench_state(bench, "archive-user", id), "succeeded");
    assert_string_equal(workbench_state(bench, JOB, "nowhere"), "none");
}

/* ---- a job that is not configured any more ---- */

static void leave_run_of_gone_job(
    struct workbench *bench, enum ledger_state run_state)
{
    struct ledger_run *run = workbench_new_run(bench);

    run->job = slice_of("gone-job");
    run->id = slice_of("r1");
    run->state = run_state;
    run->args = slice_of("{}");
    assert_ok(workbench_store_run(bench, run));
}

static bool gone_job_waits(struct workbench *bench)
{
    return strcmp(workbench_state(bench, "gone-job", "r1"), "waiting") == 0;
}

BENCH_TEST(a_run_whose_job_was_removed_is_held)
{
    struct ledger_run *run;

    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    start(bench);
    workbench_wait(bench, gone_job_waits);
    stop();
    assert_int_equal(service.result.poisoned, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    run = workbench_stored(bench, "gone-job", "r1");
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION));
    assert_non_null(strstr(run->error.at, "not in the configuration"));
}

/* A newer version's, or none that can be read. */
static void write_run_of_gone_job(
    struct workbench *bench, int32_t format, const char *state_text)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of("gone-job"), slice_of("r1"));
    entity_set_int32(&entity, &arena, "Format", format);
    if (state_text)
        entity_set_string(&entity, &arena, "State", slice_of(state_text));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* What is on BENCH_BOUND is done, and the ledger is not seen to again, as after
 * an outage. */
static void goes_on(struct workbench *bench)
{
    bench->queues[1].job = NULL;
    start(bench);
    virtual_sleep(3000);
    workbench_put(bench, BENCH_BOUND, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    stop();
    assert_int_equal(bench->calls[BENCH_CREATE], 5); /* four of queues */
}

/* It was an outage of the ledger, every five seconds, for all queues. */
VIRTUAL_BENCH_TEST(a_newer_run_of_a_removed_job_delays_no_other)
{
    write_run_of_gone_job(bench, 99, "queued");
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 0);
    assert_string_equal(workbench_state(bench, "gone-job", "r1"), "queued");
}

/* As many properties as the service takes, none of them the lease's. */
static void write_full_run(struct workbench *bench, const char *job)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(job), slice_of("full"));
    entity_set_string(&entity, &arena, "State", slice_of("queued"));
    entity_set_string(
        &entity, &arena, "Args", slice_of("{\"channel\":\"Football\"}"));
    while (entity.property_count < ENTITY_MAX_PROPERTIES)
        entity_set_int32(&entity, &arena,
            arena_format(&arena, "P%zu", entity.property_count).at, 1);
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* It was an outage of the ledger too, every five seconds. */
VIRTUAL_BENCH_TEST(a_run_that_cannot_be_stored_delays_no_other)
{
    static const char *const JOBS[] = {JOB, "gone-job"};
    char *text;

    for (size_t i = 0; i < 2; i++) {
        write_full_run(bench, JOBS[i]);
        text = mem_format("{\"job\":\"%s\",\"args\":{\"channel\":"
                          "\"Football\"},\"id\":\"full\"}",
            JOBS[i]);
        workbench_put(bench, BENCH_QUEUE, text);
        mem_free(text);
    }
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 0);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(workbench_state(bench, JOBS[i], "full"), "queued");
}

/* One refusal in ten is no outage: messages are taken all the time. */
VIRTUAL_BENCH_TEST(a_run_whose_ledger_is_busy_delays_no_other)
{
    workbench_meets(bench, BENCH_BATCH, 1, 2, BENCH_THROTTLE);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    goes_on(bench);
    assert_string_equal(workbench_state(bench, JOB, "r2"), "succeeded");
}

VIRTUAL_BENCH_TEST(an_unknown_job_whose_ledger_is_busy_delays_no_other)
{
    workbench_meets(bench, BENCH_GET, 1, 2, BENCH_THROTTLE);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r2\"}");
    goes_on(bench);
    assert_int_equal(service.result.poisoned, 1);
}

VIRTUAL_BENCH_TEST(a_message_for_what_is_no_run_is_poisoned)
{
    write_run_of_gone_job(bench, 1, NULL);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* No run can have such a name: the ledger is not asked. */
VIRTUAL_BENCH_TEST(a_message_of_a_job_that_no_ledger_can_name_is_poisoned)
{
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone/job\",\"id\":\"r1\"}");
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* Deleted, or rights that are missing: the message comes again. */
VIRTUAL_BENCH_TEST(a_poison_queue_that_takes_nothing_delays_no_other)
{
    workbench_put(bench, BENCH_QUEUE, "not json");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_LOCK);
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(service.result.poisoned, 0);
}

/* After 5, 10, 15 ... s: at 0, 5, 15, 30, 50, 75 and 105 s. */
VIRTUAL_BENCH_TEST(a_message_that_cannot_be_poisoned_comes_ever_later)
{
    workbench_put(bench, BENCH_QUEUE, "not json");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_LOCK);
    start(bench);
    virtual_sleep(120000);
    stop();
    assert_in_range(bench->calls[BENCH_PUT], 5, 7);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(a_paused_run_of_a_removed_job_needs_no_message)
{
    leave_run_of_gone_job(bench, LEDGER_PAUSED);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    goes_on(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_string_equal(workbench_state(bench, "gone-job", "r1"), "paused");
}

/* Held, with a message; paused, without one: the drain names them and ends. */
BENCH_TEST(a_drain_does_not_wait_for_what_is_held_or_paused)
{
    struct ledger_run *run;

    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    run = workbench_new_run(bench);
    run->job = slice_of(JOB);
    run->id = slice_of("r2");
    run->state = LEDGER_PAUSED;
    assert_ok(workbench_store_run(bench, run));
    start_drain(bench);
    finish();
    assert_ok(service.outcome);
    assert_int_equal(service.result.succeeded, 1);
    assert_int_equal(service.result.left, 2);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_string_equal(workbench_state(bench, JOB, "r2"), "paused");
    assert_int_equal(bench->attempts, 1);
}

BENCH_TEST(a_run_of_a_removed_job_that_has_ended_holds_no_message)
{
    leave_run_of_gone_job(bench, LEDGER_CANCELLED);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r1\"}");
    drain(bench);
    assert_int_equal(service.result.poisoned, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* It is no channel of that name, and says nothing of a run with other
 * arguments. */
BENCH_TEST(a_bound_queue_holds_the_wake_up_of_a_removed_job)
{
    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(
        bench, BENCH_BOUND, "{\"job\":\"gone-job\",\"args\":{},\"id\":\"r1\"}");
    start(bench);
    workbench_wait(bench, gone_job_waits);
    stop();
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
    assert_int_equal(bench->attempts, 0);
}

BENCH_TEST(other_arguments_are_no_wake_up_of_a_removed_job)
{
    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(bench, BENCH_BOUND,
        "{\"job\":\"gone-job\",\"args\":{\"a\":\"A\"},\"id\":\"r1\"}");
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 0);
    assert_int_equal(bench->attempts, 1);
}
