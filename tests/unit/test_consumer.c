/* SPDX-License-Identifier: MIT */
/* The worker as a service: queues, slots, orphans, outages, drain, stop,
 * reload. */
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

/* Set by control_pause() and control_retry(); not read here. */
static bool asked;
static struct control_retried retried;

#define JOB "delete-channel"
#define MESSAGE(id)                                                            \
    "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"},"         \
    "\"id\":\"" id "\"}"

#define GONE_JOB_MESSAGE "{\"job\":\"gone-job\",\"id\":\"r1\"}"
#define ALWAYS 1, UINT_MAX

/* The worker that a test runs, and its result. */
static struct service service;

/* Numbers of reloads that the worker has accepted and refused. */
static _Atomic unsigned accepted_reloads, refused_reloads;

static void count_reload(void *context, const struct definition *accepted)
{
    atomic_fetch_add(accepted ? &accepted_reloads : &refused_reloads, 1);
}

/* Starts the worker with these options, to which it adds those that every
 * worker here has. */
static void start_as(struct workbench *bench, struct consumer_options options)
{
    atomic_store(&accepted_reloads, 0);
    atomic_store(&refused_reloads, 0);
    options.definition = definition_hold(&bench->definition);
    options.reloaded = count_reload;
    options.context = bench;
    service_start(&service, &options);
}

static void start(struct workbench *bench)
{
    start_as(bench, (struct consumer_options){0});
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
    start_as(bench, (struct consumer_options){.drain = true});
}

/* Runs a drain, which may leave messages. */
static void drain_partly(struct workbench *bench)
{
    start_drain(bench);
    finish();
    assert_ok(service.outcome);
}

static void drain(struct workbench *bench)
{
    drain_partly(bench);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 0);
}

static void serve_until(
    struct workbench *bench, bool (*condition)(struct workbench *bench))
{
    start(bench);
    workbench_wait(bench, condition);
    stop();
}

/* Fails unless queue `work` has `left` messages, and its poison queue has
 * `poisoned`. */
static void expect_messages(
    struct workbench *bench, int64_t left, int64_t poisoned)
{
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), left);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), poisoned);
}

static bool is_in_state(
    struct workbench *bench, const char *id, const char *state)
{
    return strcmp(workbench_state(bench, JOB, id), state) == 0;
}

static void expect_state(
    struct workbench *bench, const char *id, const char *state)
{
    assert_string_equal(workbench_state(bench, JOB, id), state);
}

static bool first_succeeded(struct workbench *bench)
{
    return is_in_state(bench, "r1", "succeeded");
}

static bool second_succeeded(struct workbench *bench)
{
    return is_in_state(bench, "r2", "succeeded");
}

static bool both_succeeded(struct workbench *bench)
{
    return first_succeeded(bench) && second_succeeded(bench);
}

/* ---- messages ---- */

/* Puts the message of run "nNUMBER". Returns the run's id, valid until the next
 * call. */
static const char *put_number(struct workbench *bench, unsigned number)
{
    static char id[16];
    char body[200];

    (void)snprintf(id, sizeof(id), "n%u", number);
    (void)snprintf(body, sizeof(body),
        "{\"job\":\"" JOB "\",\"args\":{\"channel\":\"Tennis\"},\"id\":\"%s\"}",
        id);
    workbench_put(bench, BENCH_QUEUE, body);
    return id;
}

static void put_numbers(struct workbench *bench, unsigned count)
{
    for (unsigned i = 1; i <= count; i++)
        (void)put_number(bench, i);
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
    expect_state(bench, "r1", "succeeded");
    expect_state(bench, "r2", "succeeded");
}

static void leave_run(
    struct workbench *bench, const char *id, enum ledger_state run_state)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->state = run_state;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_TEST(bad_messages_are_poisoned_and_the_worker_goes_on)
{
    static const struct {
        const char *body, *job, *why;
    } cases[] = {
        {"", "-", "empty"}, {"not json", "-", "neither"},
        {"{\"job\":\"no-such\"}", "-", "unknown job"},
        /* No run can have such a job name, so the worker does not read the
         * ledger. */
        {"{\"job\":\"gone/job\",\"id\":\"r1\"}", "-", "unknown job"},
        {"{\"job\":\"delete-channel\"}", JOB, "missing argument"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"a/b\"}}", JOB,
            "must not contain"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"a\"},"
         "\"id\":\"../x\"}",
            JOB, "invalid id"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Tennis\"},"
         "\"id\":\"r0\"}",
            JOB, "other arguments"}, /* run r0 has other arguments */
    };
    enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
    const char *ids[COUNT];

    leave_run(bench, "r0", LEDGER_SUCCEEDED);
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = workbench_put(bench, BENCH_QUEUE, cases[i].body);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain(bench);
    assert_int_equal(service.result.poisoned, COUNT);
    assert_int_equal(service.result.succeeded, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), COUNT);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct ledger_run *run = workbench_stored(bench, cases[i].job, ids[i]);

        assert_int_equal(run->state, LEDGER_POISONED);
        assert_non_null(strstr(run->error.at, cases[i].why));
        assert_true(run->finished_ticks > 0);
    }
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
}

/* A run whose row in the ledger cannot be read was once taken for an outage,
 * again and again, so that no other message was received. */
BENCH_TEST(a_run_that_the_ledger_has_spoilt_is_poisoned)
{
    const char *named = workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    const char *own = workbench_put(bench, BENCH_BOUND, "SURF");

    workbench_spoil_run(bench, JOB, "r1");
    workbench_spoil_run(bench, JOB, own);
    drain(bench);
    assert_int_equal(service.result.poisoned, 2);
    assert_int_equal(bench->attempts, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 1);
    expect_state(bench, named, "poisoned");
    assert_non_null(
        strstr(workbench_stored(bench, "-", own)->error.at, "State"));
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
    const char *id = workbench_put(bench, BENCH_BOUND, "Football");
    struct err err;

    bench->script = fails_once;
    drain(bench);
    assert_int_equal(service.result.failed, 1);
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 1);
    assert_ok(control_retry(
        &bench->definition, slice_of(JOB), slice_of(id), true, &retried, &err));
    assert_int_equal(workbench_count(bench, BENCH_BOUND "-poison"), 0);
    expect_state(bench, id, "queued");
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
    expect_state(bench, id, "succeeded");
    assert_int_equal(bench->attempts, 2);
}

/* Sleeps until `condition` holds; fails if that takes more than most_s
 * seconds. */
static void sleep_until(
    struct workbench *bench, bool (*condition)(struct workbench *), int most_s)
{
    for (int i = 0; i < most_s && !condition(bench); i++)
        virtual_sleep(1000);
    assert_true(condition(bench));
}

static void poll_once_an_hour(struct workbench *bench)
{
    bench->setup.poll_min_ms = bench->setup.poll_max_ms = INT64_C(3600000);
}

BENCH_SCRIPT(waits_once)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    run->resumes_ticks = platform_wall_ticks() + TICKS_PER_S / 2;
    return RUN_WAITING;
}

VIRTUAL_BENCH_TEST(a_hidden_message_is_expected_when_it_comes_back)
{
    /* Idle polling would find the message too late: after an hour, or, because
     * an open run waits, after 8 s. */
    poll_once_an_hour(bench);
    bench->script = waits_once;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    sleep_until(bench, first_succeeded, 5);
    stop();
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

/* ---- pause and resume ---- */

/* Resumes run r1 after five minutes; fails unless it succeeds within 10 s. */
static void expect_resumed(struct workbench *bench)
{
    struct control_resumed resumed;
    struct err err;

    virtual_sleep(300000);
    assert_ok(control_resume(
        &bench->definition, slice_of(JOB), slice_of("r1"), &resumed, &err));
    sleep_until(bench, first_succeeded, 10);
}

static bool first_is_paused(struct workbench *bench)
{
    return is_in_state(bench, "r1", "paused");
}

VIRTUAL_BENCH_TEST(a_resumed_run_that_was_found_paused_continues_within_10_s)
{
    unsigned gets;

    poll_once_an_hour(bench);
    leave_run(bench, "r1", LEDGER_PAUSED);
    start(bench);
    expect_resumed(bench);
    /* If no run is paused, the interval between polls doubles again after the
     * next pass over the open runs. */
    virtual_sleep(INT64_C(18000000));
    gets = bench->calls[BENCH_QUEUE_GET];
    virtual_sleep(INT64_C(7200000));
    stop();
    assert_in_range(bench->calls[BENCH_QUEUE_GET] - gets, 2, 6);
}

VIRTUAL_BENCH_TEST(a_resumed_run_that_this_worker_paused_continues_within_10_s)
{
    struct err err;

    poll_once_an_hour(bench);
    bench->script = waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start(bench);
    sleep_until(bench, one_running, 10);
    assert_ok(control_pause(bench->wrapped.inner, slice_of(JOB), slice_of("r1"),
        workbench_new_run(bench), &asked, &err));
    sleep_until(bench, first_is_paused, 10);
    workbench_open_gate(bench);
    expect_resumed(bench);
    stop();
}

/* ---- orphans ---- */

/* Stores a run whose owner's lease expired since_s seconds ago. */
static void leave_orphan(
    struct workbench *bench, const char *id, int64_t since_s)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->state = LEDGER_RUNNING;
    run->owner = slice_of("somebody");
    run->epoch = run->attempt = 1;
    run->lease_until_ticks = platform_wall_ticks() - since_s * TICKS_PER_S;
    assert_ok(workbench_store_run(bench, run));
}

/* At the first search all slots are taken by threads that poll the queue. */
VIRTUAL_BENCH_TEST(a_drain_searches_for_orphans_before_it_ends)
{
    bench->setup.queue_count = 1;
    bench->setup.slots = 1;
    leave_orphan(bench, "old", 121);
    drain(bench);
    assert_int_equal(service.result.succeeded, 1);
}

/* Stores run `id` of queue `work` as queued, as it is before its first
 * attempt. */
static void leave_queued(
    struct workbench *bench, const char *id, int64_t updated_ticks)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->queue = slice_of(BENCH_QUEUE);
    run->updated_ticks = updated_ticks;
    assert_ok(workbench_store_run(bench, run));
}

/* Puts another message at each Get. */
BENCH_BETWEEN(put_another)
{
    if (call == BENCH_QUEUE_GET)
        (void)put_number(bench, n);
}

VIRTUAL_BENCH_TEST(a_busy_queue_starves_no_run_without_a_message)
{
    leave_queued(bench, "r1", platform_wall_ticks() - 1000 * TICKS_PER_S);
    bench->delay_ms = 100;
    bench->between = put_another;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("first"));
    start(bench);
    sleep_until(bench, first_succeeded, 120);
    bench->between = NULL;
    stop();
}

/* The run is as old as its message, which has waited in the queue. */
VIRTUAL_BENCH_TEST(a_run_in_a_long_queue_is_no_orphan)
{
    bench->setup.queue_count = 1;
    bench->delay_ms = 100;
    put_numbers(bench, 60);
    leave_queued(bench, "r1", platform_wall_ticks());
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    virtual_sleep(300000);
    workbench_log_begin();
    drain(bench);
    assert_int_equal(workbench_log_end("which no worker executes"), 0);
    assert_int_equal(service.result.succeeded, 61);
}

/* ---- outages ---- */

static void set_down(struct workbench *bench, bool down)
{
    workbench_locked(bench, bench->down = down);
}

BENCH_SCRIPT(archive_is_full_once)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    run->archive_full = true;
    (void)err_fail(err, TW_FULL, "no space left");
    return RUN_OUTAGE;
}

VIRTUAL_BENCH_TEST(a_drain_does_not_wait_for_a_run_that_is_held)
{
    bench->script = archive_is_full_once;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    drain_partly(bench);
    assert_int_equal(service.result.left, 1);
    expect_state(bench, "r1", "waiting");
    virtual_sleep(10000);
    drain(bench);
    expect_state(bench, "r1", "succeeded");
}

BENCH_TEST(who_may_not_create_uses_what_is_there)
{
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_BOUND, "Football");
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_FORBID);
    drain(bench);
    assert_int_equal(service.result.succeeded, 2);
}

/* ---- reload, and the service manager ---- */

/* The configuration that the next reload reads. */
static struct {
    struct definition definition;
    struct setup setup;
    struct setup_queue queue;
    struct job_stores stores;
    struct bench_store store;
    struct store *list[1]; /* used by `stores`, as is `names` */
    const char *names[1];
} next;

static const struct setup_queue another = {
    .name = "another", .poison_queue = "another-poison"};

/* Prepares the present configuration for the next reload. The caller may change
 * it before the start. */
static struct setup *prepare(struct workbench *bench)
{
    next.setup = bench->setup;
    next.list[0] = bench->store;
    next.names[0] = bench->store_names[0];
    next.stores = (struct job_stores){
        .count = 1, .names = next.names, .stores = next.list};
    next.definition.jobs = bench->definition.jobs;
    next.definition.stores = &next.stores;
    next.definition.setup = &next.setup;
    return &next.setup;
}

static void prepare_queue(struct workbench *bench, struct setup_queue queue)
{
    struct setup *setup = prepare(bench);

    next.queue = queue;
    setup->queues = &next.queue;
    setup->queue_count = 1;
}

static struct definition *read_next(void *context)
{
    atomic_store(&next.definition.references, 1);
    return &next.definition;
}

static struct definition *cannot_be_read(void *context)
{
    return NULL;
}

static bool is_reloaded(struct workbench *bench)
{
    return atomic_load(&next.definition.references) > 1;
}

/* Starts the worker, and waits until `condition` holds (NULL: no wait). Then
 * makes the worker reload; it reads the prepared configuration. */
static void start_and_reload(
    struct workbench *bench, bool (*condition)(struct workbench *bench))
{
    start_as(bench, (struct consumer_options){.reload = read_next});
    if (condition)
        workbench_wait(bench, condition);
    consumer_reload(service.consumer);
}

BENCH_SCRIPT(first_waits_for_gate)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    return waits_for_gate(bench, run, attempt_number, err);
}

BENCH_TEST(a_reload_serves_new_queues_and_keeps_running_runs)
{
    bench->script = first_waits_for_gate;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    prepare_queue(bench, another);
    start_and_reload(bench, one_running);
    workbench_put(bench, "another", MESSAGE("r2"));
    workbench_wait(bench, second_succeeded);
    /* The first run still uses the definition under which it began. */
    assert_int_equal(atomic_load(&bench->definition.references), 2);
    workbench_open_gate(bench);
    workbench_wait(bench, both_succeeded);
    stop();
    assert_int_equal(atomic_load(&bench->definition.references), 1);
    assert_int_equal(atomic_load(&next.definition.references), 0);
}

static _Atomic bool refuses_writes;

BENCH_FAULT(refuse_writes)
{
    return call == BENCH_BATCH && atomic_load(&refuses_writes) ? BENCH_REFUSE
                                                               : BENCH_PASS;
}

/* The first run began before the reload, and its end cannot be stored. */
BENCH_SCRIPT(first_ends_while_refused)
{
    enum run_end end = first_waits_for_gate(bench, run, attempt_number, err);

    if (attempt_number == 1)
        atomic_store(&refuses_writes, true);
    return end;
}

/* Is the configuration with which the first run began no longer used? */
static bool first_ended(struct workbench *bench)
{
    return atomic_load(&bench->definition.references) == 1;
}

static bool third_succeeded(struct workbench *bench)
{
    return is_in_state(bench, "r3", "succeeded");
}

BENCH_TEST(an_outage_of_a_former_configuration_stops_no_messages)
{
    struct consumer_view view;

    bench->script = first_ends_while_refused;
    bench->fault = refuse_writes;
    bench->setup.visibility_timeout_s = 2;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    prepare_queue(bench, another);
    start_and_reload(bench, one_running);
    workbench_put(bench, "another", MESSAGE("r2"));
    workbench_wait(bench, second_succeeded);
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

static bool five_run(struct workbench *bench)
{
    return running(bench) == 5;
}

static bool is_judged(struct workbench *bench)
{
    return atomic_load(&accepted_reloads) + atomic_load(&refused_reloads) > 0;
}

/* Makes a reload; returns how many lines of the log contain `text`. */
static unsigned log_of_reload(struct workbench *bench, const char *text)
{
    workbench_log_begin();
    start_and_reload(bench, NULL);
    workbench_wait(bench, is_judged);
    stop();
    assert_int_equal(atomic_load(&next.definition.references), 0);
    return workbench_log_end(text);
}

#define WERE_READ "warn worker: the messages of queue work were read "

BENCH_TEST(a_reload_warns_of_a_queue_that_is_bound_otherwise)
{
    prepare_queue(bench, (struct setup_queue){.name = BENCH_QUEUE,
                             .poison_queue = BENCH_QUEUE "-poison",
                             .job = &bench->job});
    assert_int_equal(log_of_reload(bench, WERE_READ
                         "as JSON messages of any job; from now on they are "
                         "read as the argument of job delete-channel, in plain "
                         "text, also messages that are in the queue already"),
        1);
}

BENCH_TEST(a_reload_with_the_same_queues_warns_of_none)
{
    (void)prepare(bench);
    assert_int_equal(log_of_reload(bench, WERE_READ), 0);
}

/* ---- a reload with another store of the ledger ---- */

/* Prepares a reload after which the ledger is in next.store, under the name
 * "second". */
static void prepare_store(struct workbench *bench)
{
    (void)prepare(bench);
    next.list[0] = &next.store.store;
    next.names[0] = "second";
}

BENCH_TEST(a_reload_with_another_ledger_is_refused)
{
    prepare_store(bench);
    workbench_open_store(bench, "second", &next.store);
    assert_int_equal(
        log_of_reload(bench,
            "error worker: the new configuration is refused, and the old one "
            "stays: store 'second' is another account or file than store "
            "'main', which has the ledger now: runs, closed jobs and locks do "
            "not move; restart the worker if another ledger is meant"),
        1);
    store_close(next.store.inner);
}

BENCH_TEST(a_reload_may_rename_the_store_of_the_ledger)
{
    prepare_store(bench);
    bench->wrapped.store.capabilities.identity = "file";
    next.store = bench->wrapped;
    next.store.store.name = "second";
    assert_int_equal(log_of_reload(bench, "configuration reloaded"), 1);
}

/* The configuration names the ledger's account by another host name, for
 * example that of a private endpoint. */
BENCH_TEST(a_reload_may_name_another_host_of_the_ledgers_account)
{
    prepare_store(bench);
    bench->wrapped.store.capabilities.cloud_account = "account@cloud";
    next.store = bench->wrapped;
    next.store.store.capabilities.identity = "account.private.example.com";
    assert_int_equal(log_of_reload(bench, "configuration reloaded"), 1);
}

BENCH_TEST(a_reload_with_more_slots_starts_more_runs)
{
    bench->script = waits_for_gate;
    put_numbers(bench, 7);
    prepare(bench)->slots = 5;
    start_and_reload(bench, two_running);
    workbench_wait(bench, five_run);
    stop();
    assert_ok(service.outcome);
    assert_true(service.result.stopped);
    assert_int_equal(bench->running, 0);
    assert_int_equal(bench->together, 5);
}

static _Atomic unsigned most_later;

/* The first two runs wait for the gate. Each later run notes the largest number
 * of runs that work at the same time. */
BENCH_SCRIPT(counts_later_runs)
{
    if (attempt_number <= 2)
        return waits_for_gate(bench, run, attempt_number, err);
    for (int i = 0; i < 20; i++) {
        unsigned now = running(bench);

        if (now > atomic_load(&most_later))
            atomic_store(&most_later, now);
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
    atomic_store(&most_later, 0);
    bench->script = counts_later_runs;
    put_numbers(bench, 6);
    prepare(bench)->slots = 1;
    start_and_reload(bench, two_running);
    workbench_wait(bench, is_reloaded);
    workbench_open_gate(bench);
    workbench_wait(bench, queue_is_empty);
    stop();
    assert_int_equal(atomic_load(&most_later), 1);
}

static bool old_timeout_is_used(struct workbench *bench)
{
    bool is;

    workbench_locked(bench, is = bench->hidden_s == 60);
    return is && first_succeeded(bench);
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
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    prepare(bench)->visibility_timeout_s = 2;
    start_and_reload(bench, old_timeout_is_used);
    workbench_wait(bench, new_timeouts_are_used);
    stop();
}

/* The test in place of systemd, which receives the worker's notifications. */
static struct {
    int fd;
    char name[64];
    struct notify *notify; /* the worker's end of the socket */
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

enum { HEARD_MAX = 600 };

/* Receives the next notification; returns false if there is none yet. */
static bool hear(char ret[HEARD_MAX])
{
    ssize_t len = recv(manager.fd, ret, HEARD_MAX - 1, MSG_DONTWAIT);

    ret[len > 0 ? len : 0] = '\0';
    return len >= 0;
}

/* Sleeps until a notification that begins with `wanted` has been received. */
static void will_hear(const char *wanted)
{
    char text[HEARD_MAX] = "";

    while (strncmp(text, wanted, strlen(wanted)) != 0)
        if (!hear(text))
            virtual_sleep(500);
}

/* ---- on a virtual clock: waits take no time ---- */

BENCH_SCRIPT(archive_stays_full)
{
    run->archive_full = true;
    (void)err_fail(err, TW_FULL, "no space left");
    return RUN_OUTAGE;
}

static void start_under_manager(struct workbench *bench, const char *watchdog)
{
    struct err err;

    manager_open();
    manager.notify = notify_open(manager.name, watchdog, NULL, &err);
    start_as(bench, (struct consumer_options){
                        .reload = cannot_be_read, .notify = manager.notify});
}

static void manager_close(void)
{
    notify_close(manager.notify);
    (void)close(manager.fd);
}

static void stop_under_manager(void)
{
    stop();
    manager_close();
}

VIRTUAL_BENCH_TEST(the_manager_is_told)
{
    start_under_manager(bench, "2000000");
    will_hear("READY=1");
    will_hear("WATCHDOG=1");
    will_hear("WATCHDOG=1");
    consumer_reload(service.consumer);
    will_hear("RELOADING=1\nMONOTONIC_USEC=");
    will_hear("READY=1");
    will_hear("STATUS=0 of 2 slots busy; the last reload was refused");
    consumer_stop(service.consumer);
    will_hear("STOPPING=1");
    finish();
    manager_close();
}

/* The two runs that wait are tried again 5, 10, 20 and 40 s after they were
 * held. The log counts two runs, not the tries. */
VIRTUAL_BENCH_TEST(of_held_runs_the_log_tells_once_a_minute)
{
    bench->script = archive_stays_full;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    workbench_log_begin();
    start_under_manager(bench, NULL);
    virtual_sleep(1230000);
    stop();
    assert_in_range(workbench_log_end(" 2 runs held or waiting; last cause: no "
                                      "space left"),
        19, 22);
    will_hear(
        "STATUS=0 of 2 slots busy; runs are held or waiting: no space left");
    manager_close();
}

VIRTUAL_BENCH_TEST(the_manager_hears_of_what_failed)
{
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"nothing\"}");
    start_under_manager(bench, NULL);
    will_hear("STATUS=0 of 2 slots busy; 0 failed, 1 poisoned since "
              "the start: `tableward poison list`");
    stop_under_manager();
}

/* The end of an outage is shown until the next outage begins. */
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
    stop_under_manager();
}

/* Receives the notifications of 60 s, joined by line breaks. */
static void hear_a_minute(char *said, size_t room)
{
    char text[HEARD_MAX];

    said[0] = '\0';
    for (int i = 0; i < 120; i++) {
        while (hear(text))
            (void)snprintf(
                said + strlen(said), room - strlen(said), "%s\n", text);
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
    stop_under_manager();
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
    bench->fault_count = 0;
    bench->down_queue = NULL;
    will_hear("READY=1");
    stop_under_manager();
}

VIRTUAL_BENCH_TEST(without_queues_the_worker_is_ready_and_takes_no_message)
{
    bench->setup.queue_count = 0;
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    start_under_manager(bench, NULL);
    will_hear("READY=1");
    will_hear("STATUS=receives no messages: `queues` of the "
              "configuration is empty; 0 of 2 slots busy");
    virtual_sleep(120000);
    stop_under_manager();
    assert_ok(service.outcome);
    assert_int_equal(bench->calls[BENCH_QUEUE_GET], 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

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
    assert_in_range(all_calls(bench) - before, 50, 600);
    set_down(bench, false);
    workbench_wait(bench, first_succeeded);
    stop();
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

/* Queue `work` was deleted a moment ago, so it cannot be created yet. The
 * worker once waited for that queue before it served other queues. */
VIRTUAL_BENCH_TEST(a_queue_that_is_being_deleted_delays_no_other)
{
    int64_t began_ms = platform_boot_ms();

    bench->setup.slots = 1;
    bench->queues[1].job = NULL;
    workbench_put(bench, BENCH_BOUND, MESSAGE("r1"));
    workbench_meets(bench, BENCH_CREATE, 2, 2, BENCH_LOCK); /* queue `work` */
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

/* Requests to queue BENCH_BOUND fail: in the first case at once, in the second
 * one after 15 s. */
VIRTUAL_BENCH_TEST(a_queue_that_does_not_answer_delays_no_other)
{
    static const int64_t answers_ms[] = {0, 15000};

    bench->setup.poll_max_ms = 500;
    bench->down_queue = BENCH_BOUND;
    for (unsigned i = 0; TEST_EACH(i, answers_ms); i++) {
        bench->down_queue_ms = answers_ms[i];
        start(bench);
        virtual_sleep(3000);
        for (unsigned k = 0; k < 8; k++) {
            int64_t put_ms = platform_boot_ms();
            const char *id = put_number(bench, 8 * i + k);

            while (!is_in_state(bench, id, "succeeded"))
                virtual_sleep(20);
            assert_in_range(platform_boot_ms() - put_ms, 0, 1000);
            virtual_sleep(4000);
        }
        stop();
    }
}

/* The second Get to queue BENCH_BOUND has no response yet. That Get takes one
 * slot; all other slots serve queue `work`. */
VIRTUAL_BENCH_TEST(a_queue_that_does_not_answer_keeps_no_slots)
{
    bench->setup.slots = 8;
    bench->setup.poll_max_ms = 500;
    bench->down_queue = BENCH_BOUND;
    bench->down_queue_ms = 15000;
    bench->script = waits_for_gate;
    start(bench);
    virtual_sleep(16500);
    put_numbers(bench, 6);
    virtual_sleep(3000);
    assert_int_equal(running(bench), 6);
    workbench_open_gate(bench);
    stop();
}

/* ---- slots of a queue ---- */

static bool second_runs(struct workbench *bench)
{
    return running(bench) == 2 && is_in_state(bench, "r2", "running");
}

/* Messages above the limit of a queue are not received, so another worker can
 * receive them. */
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
    /* The message is visible, so the worker has not received it. */
    (void)workbench_take(bench, BENCH_QUEUE, &left);
    assert_int_equal(left.count, 1);
    messages_done(&left);
    workbench_open_gate(bench);
    virtual_sleep(90000);
    workbench_wait(bench, both_succeeded);
    assert_int_equal(bench->together, 2);
    stop();
}

/* The limit counts all runs of this queue name: also orphans, and runs that
 * began before a reload. */
VIRTUAL_BENCH_TEST(an_orphan_counts_as_a_run_of_its_queue)
{
    bench->script = waits_for_gate;
    bench->queues[0].slots = 1;
    bench->queues[1].job = NULL;
    leave_orphan(bench, "r1", 200);
    leave_orphan(bench, "r2", 200);
    start(bench);
    workbench_wait(bench, one_running);
    virtual_sleep(30000);
    assert_int_equal(running(bench), 1);
    workbench_open_gate(bench);
    virtual_sleep(90000); /* until the next search for orphans */
    workbench_wait(bench, both_succeeded);
    assert_int_equal(bench->together, 1);
    stop();
}

static unsigned messages_received;

BENCH_BETWEEN(count_received)
{
    if (call == BENCH_QUEUE_GET && bench->running == 0)
        messages_received++;
}

/* One Get asks for as many messages as there are idle slots. */
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
    workbench_wait(bench, both_succeeded);
    stop();
}

static void expect_refused(
    struct workbench *bench, enum tw_err outcome, const char *why)
{
    start(bench);
    finish();
    assert_int_equal(service.outcome, outcome);
    assert_non_null(strstr(service.err.text, why));
}

VIRTUAL_BENCH_TEST(a_store_that_can_never_be_used_is_said_at_the_start)
{
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_INVALID);
    expect_refused(bench, TW_INVALID, "the service says 400");
    bench->fault_count = 0;
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    expect_refused(bench, TW_REFUSED, "the key is wrong");
    bench->fault_count = 0;
    bench->setup.store = 1;
    expect_refused(bench, TW_INVALID, "the worker has no store");
    bench->setup.store = 0;
    bench->wrapped.store.capabilities.has_queues = false;
    expect_refused(bench, TW_INVALID, "has no queues");
    consumer_free(NULL);
}

VIRTUAL_BENCH_TEST(a_configuration_that_cannot_be_used_leaves_the_old_one)
{
    static const char *const names[] = {
        "it cannot be read", "the worker has no store", "no queues"};
    struct store cosmos = *bench->store;

    cosmos.capabilities.has_queues = false;
    for (unsigned i = 0; i < 3; i++) {
        test_case("%s", names[i]);
        prepare(bench)->store = i == 1 ? 7 : 0;
        next.list[0] = i == 2 ? &cosmos : bench->store;
        start_as(bench, (struct consumer_options){
                            .reload = i == 0 ? cannot_be_read : read_next});
        consumer_reload(service.consumer);
        virtual_sleep(5000);
        assert_int_equal(atomic_load(&accepted_reloads), 0);
        assert_int_equal(atomic_load(&refused_reloads), 1);
        assert_int_equal(atomic_load(&next.definition.references), 0);
        workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
        virtual_sleep(1000);
        stop();
        assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    }
}

/* A drain ends soon, even if an idle worker polls every ten minutes. */
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

/* An orphan has no message that becomes visible. If the worker did not begin a
 * search when a waiting orphan is due, each wait would last until the next
 * usual search (every ten minutes), while other runs wait for the orphan's
 * locks. */
VIRTUAL_BENCH_TEST(an_orphan_that_waits_goes_on_soon_after)
{
    bench->script = waits_twice;
    leave_orphan(bench, "r1", 1000);
    start(bench);
    /* Two waits of 5 s each. After each wait the run is an orphan again when
     * two visibility timeouts of 60 s are over: 250 s in all. */
    sleep_until(bench, first_succeeded, 300);
    stop();
}

VIRTUAL_BENCH_TEST(orphans_that_cannot_be_looked_for_are_found_later)
{
    leave_orphan(bench, "r1", 1000);
    workbench_meets(bench, BENCH_SCAN, 1, 1, BENCH_FAIL);
    serve_until(bench, first_succeeded);
}

BENCH_SCRIPT(waits_ten_minutes)
{
    if (run->checkpoint.len > 0)
        return RUN_SUCCEEDED;
    run->callbacks->save(run, slice_of("{\"waited\":1}"), true);
    run->resumes_ticks = platform_wall_ticks() + 600 * TICKS_PER_S;
    return RUN_WAITING;
}

/* 60 messages are hidden while their runs wait. The worker can remember for
 * only 32 messages when they become visible; polling finds the others. */
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

/* On a bound queue a body may look like the wake-up message of a run. It is an
 * argument if there is no run with that id, or if that run has other
 * arguments. */
VIRTUAL_BENCH_TEST(a_wake_up_without_its_run_is_an_argument)
{
    const char *id = workbench_put(bench, BENCH_BOUND, MESSAGE("nowhere"));

    drain(bench);
    expect_state(bench, id, "succeeded");
    expect_state(bench, "nowhere", "none");
    workbench_put(bench, BENCH_QUEUE,
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Tennis\"},"
        "\"id\":\"taken\"}");
    id = workbench_put(bench, BENCH_BOUND, MESSAGE("taken"));
    drain(bench);
    expect_state(bench, "taken", "succeeded");
    expect_state(bench, id, "succeeded");
    assert_int_equal(service.result.succeeded, 2);
}

/* Binds queue "work" to job archive-user, as an edit of the configuration may
 * while the queue has messages. */
static void bind_to_another_job(struct workbench *bench, struct job both[2])
{
    both[0] = both[1] = bench->job;
    both[1].name = "archive-user";
    bench->jobs = (struct jobs){.list = both, .count = 2};
    bench->queues[0].job = &both[1];
    bench->queues[1].job = &both[0];
}

/* The bodies were once read as arguments of archive-user, so that the runs
 * which they name had no message. */
VIRTUAL_BENCH_TEST(a_queue_that_is_bound_since_wakes_the_runs_of_its_messages)
{
    static const char *const bodies[] = {MESSAGE("r1"),
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"}}"};
    struct job both[2];

    bind_to_another_job(bench, both);
    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        const char *id = workbench_put(bench, BENCH_QUEUE, bodies[i]);

        if (i == 0)
            id = "r1";
        assert_ok(workbench_store_run(bench, workbench_football(bench, id)));
        drain(bench);
        expect_state(bench, id, "succeeded");
        assert_int_equal(bench->attempts, i + 1);
    }
    assert_int_equal(
        workbench_listed(bench, "archive-user", LEDGER_INDEX_ENDED), 0);
}

/* The messages were put while queue "work" was bound. Their bodies are
 * arguments, and their ids are those of the runs. The messages used to be
 * poisoned, and the runs stayed queued until they were found as orphans, ten
 * minutes later. */
VIRTUAL_BENCH_TEST(
    a_queue_that_is_bound_no_more_wakes_the_runs_of_its_arguments)
{
    static const struct {
        const char *body;
        bool is_woken;
    } cases[] = {
        {"Football", true}, {"Rm9vdGJhbGw=", true},
        {"Tennis", false}, /* another argument than that of the run */
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *id = workbench_put(bench, BENCH_QUEUE, cases[i].body);
        unsigned before = bench->attempts;

        leave_queued(bench, id, platform_wall_ticks());
        drain(bench);
        expect_state(bench, id, cases[i].is_woken ? "succeeded" : "queued");
        assert_string_equal(workbench_state(bench, "-", id),
            cases[i].is_woken ? "none" : "poisoned");
        assert_int_equal(bench->attempts - before, cases[i].is_woken);
    }
}

/* ---- a job that is no longer in the configuration ---- */

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

/* Writes run r1 of job gone-job, in this format and with this State (NULL:
 * without). */
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

/* Fails unless the worker executes the message on BENCH_BOUND without an
 * outage: after one it would create the ledger and the queues again. Then queue
 * `work` must have `left` messages, and its poison queue `poisoned`. */
static void goes_on(struct workbench *bench, int64_t left, int64_t poisoned)
{
    bench->queues[1].job = NULL;
    start(bench);
    virtual_sleep(3000);
    workbench_put(bench, BENCH_BOUND, MESSAGE("r1"));
    workbench_wait(bench, first_succeeded);
    stop();
    /* One request for the ledger's table, and one for each of four queues. */
    assert_int_equal(bench->calls[BENCH_CREATE], 5);
    assert_int_equal(service.result.poisoned, poisoned);
    expect_messages(bench, left, poisoned);
}

/* Such a run was once taken for an outage of the ledger, every five seconds.
 * The outages stopped all queues. */
VIRTUAL_BENCH_TEST(a_newer_run_of_a_removed_job_delays_no_other)
{
    write_run_of_gone_job(bench, 99, "queued");
    workbench_put(bench, BENCH_QUEUE, GONE_JOB_MESSAGE);
    goes_on(bench, 1, 0);
    assert_string_equal(workbench_state(bench, "gone-job", "r1"), "queued");
}

/* Writes a run with as many properties as an entity may have, so that no lease
 * can be stored. */
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

/* Such a run was once taken for an outage of the ledger, every five seconds. */
VIRTUAL_BENCH_TEST(a_run_that_cannot_be_stored_delays_no_other)
{
    static const char *const JOBS[] = {JOB, "gone-job"};

    for (size_t i = 0; i < 2; i++) {
        char *text = mem_format("{\"job\":\"%s\",\"args\":{\"channel\":"
                                "\"Football\"},\"id\":\"full\"}",
            JOBS[i]);

        write_full_run(bench, JOBS[i]);
        workbench_put(bench, BENCH_QUEUE, text);
        mem_free(text);
    }
    goes_on(bench, 2, 0);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(workbench_state(bench, JOBS[i], "full"), "queued");
}

/* If the ledger refuses a few requests as busy, that is no outage: the worker
 * continues to receive messages. */
VIRTUAL_BENCH_TEST(a_run_whose_ledger_is_busy_delays_no_other)
{
    workbench_meets(bench, BENCH_BATCH, 1, 2, BENCH_THROTTLE);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    goes_on(bench, 0, 0);
    expect_state(bench, "r2", "succeeded");
}

VIRTUAL_BENCH_TEST(an_unknown_job_whose_ledger_is_busy_delays_no_other)
{
    workbench_meets(bench, BENCH_GET, 1, 2, BENCH_THROTTLE);
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"gone-job\",\"id\":\"r2\"}");
    goes_on(bench, 0, 1);
}

VIRTUAL_BENCH_TEST(a_message_for_what_is_no_run_is_poisoned)
{
    write_run_of_gone_job(bench, 1, NULL);
    workbench_put(bench, BENCH_QUEUE, GONE_JOB_MESSAGE);
    goes_on(bench, 0, 1);
}

/* The poison queue may be deleted, or the worker may lack rights: the message
 * is received again later. */
VIRTUAL_BENCH_TEST(a_poison_queue_that_takes_nothing_delays_no_other)
{
    workbench_put(bench, BENCH_QUEUE, "not json");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_LOCK);
    goes_on(bench, 1, 0);
}

/* The waits between the tries are 5, 10, 15 ... s, so the worker tries at 0, 5,
 * 15, 30, 50, 75 and 105 s. */
VIRTUAL_BENCH_TEST(a_message_that_cannot_be_poisoned_comes_ever_later)
{
    workbench_put(bench, BENCH_QUEUE, "not json");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_LOCK);
    start(bench);
    virtual_sleep(120000);
    stop();
    assert_in_range(bench->calls[BENCH_PUT], 5, 7);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    bench->fault_count = 0;
    drain(bench);
    assert_int_equal(service.result.poisoned, 1);
}

VIRTUAL_BENCH_TEST(a_paused_run_of_a_removed_job_needs_no_message)
{
    leave_run_of_gone_job(bench, LEDGER_PAUSED);
    workbench_put(bench, BENCH_QUEUE, GONE_JOB_MESSAGE);
    goes_on(bench, 0, 0);
    assert_string_equal(workbench_state(bench, "gone-job", "r1"), "paused");
}

/* The first run waits for the definition of its job and has a message; the
 * second one is paused and has none. The drain counts both as left, and
 * ends. */
BENCH_TEST(a_drain_does_not_wait_for_what_is_held_or_paused)
{
    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(bench, BENCH_QUEUE, GONE_JOB_MESSAGE);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    leave_run(bench, "r2", LEDGER_PAUSED);
    drain_partly(bench);
    assert_int_equal(service.result.succeeded, 1);
    assert_int_equal(service.result.left, 2);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    expect_state(bench, "r2", "paused");
    assert_int_equal(bench->attempts, 1);
}

BENCH_TEST(a_run_of_a_removed_job_that_has_ended_holds_no_message)
{
    leave_run_of_gone_job(bench, LEDGER_CANCELLED);
    workbench_put(bench, BENCH_QUEUE, GONE_JOB_MESSAGE);
    drain(bench);
    assert_int_equal(service.result.poisoned, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* The body is the wake-up message of a run, not the name of a channel. It is
 * recognised because it has the arguments of that run. */
BENCH_TEST(a_bound_queue_holds_the_wake_up_of_a_removed_job)
{
    struct ledger_run *run;

    leave_run_of_gone_job(bench, LEDGER_QUEUED);
    workbench_put(
        bench, BENCH_BOUND, "{\"job\":\"gone-job\",\"args\":{},\"id\":\"r1\"}");
    serve_until(bench, gone_job_waits);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
    assert_int_equal(bench->attempts, 0);
    run = workbench_stored(bench, "gone-job", "r1");
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION));
    assert_non_null(strstr(run->error.at, "not in the configuration"));
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
