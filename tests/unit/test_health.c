/* SPDX-License-Identifier: MIT */
/* What /livez and /readyz answer in each state of a worker. */
#include "tests/support/service.h"
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "tests/support/virtual_platform.h"
#include "worker/monitor/health.h"
#include "worker/run/consumer.h"

#define NOW_MS INT64_C(1000000)

static struct consumer_view serving(void)
{
    return (struct consumer_view){
        .stage = CONSUMER_SERVES, .progress_ms = NOW_MS, .slots = 4};
}

static void alive(
    const struct consumer_view *view, bool wanted, const char *sentence)
{
    struct buf why;

    buf_init(&why, 4096);
    assert_int_equal(health_is_alive(view, NOW_MS, 60000, &why), wanted);
    assert_contains(buf_text(&why), sentence);
    buf_done(&why);
}

static void is_ready(const struct consumer_view *view, unsigned queues,
    bool wanted, const char *sentence)
{
    struct buf why;

    buf_init(&why, 4096);
    assert_int_equal(health_is_ready(view, queues, NOW_MS, &why), wanted);
    assert_contains(buf_text(&why), sentence);
    buf_done(&why);
}

TEST(a_worker_is_alive_while_its_loop_makes_progress)
{
    struct consumer_view view = serving();

    view.progress_ms = NOW_MS - 60000;
    alive(&view, true, "alive");
    view.progress_ms = NOW_MS - 61000;
    alive(&view, false, "no progress for 61 s, more than the 60 s");
    /* An outage of a store is no reason to restart the worker. */
    view = serving();
    view.outage = true;
    alive(&view, true, "alive");
}

TEST(a_worker_that_starts_or_stops_is_alive_and_not_ready)
{
    struct consumer_view view = serving();

    view.progress_ms = NOW_MS - 100000;
    view.stage = CONSUMER_STARTS;
    alive(&view, true, "alive");
    is_ready(&view, 2, false, "starting");
    view.stage = CONSUMER_STOPS;
    alive(&view, true, "alive");
    is_ready(&view, 2, false, "stopping");
}

TEST(a_worker_is_ready_while_it_takes_messages)
{
    struct consumer_view view = serving();

    is_ready(&view, 2, true, "from 2 of 2 queues");
    is_ready(&view, 0, false, "`queues` of the configuration");
    view.threads.queues_failing = 1;
    view.threads.cause = (struct err){"queue work is gone"};
    is_ready(&view, 2, true, "from 1 of 2 queues");
    view.threads.queues_failing = 2;
    is_ready(&view, 2, false, "no queue can be served: queue work is gone");
    view = serving();
    view.outage = true;
    view.outage_since_ms = NOW_MS - 5000;
    view.cause = (struct err){"store 'main' does not respond"};
    is_ready(&view, 2, false, "for 5 s: store 'main' does not respond");
}

/* ---- with a consumer that runs ---- */

static void start(struct service *service, struct workbench *bench)
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .heartbeat_ms = HEALTH_HEARTBEAT_MS};

    service_start(service, &options);
}

static void stop(struct service *service)
{
    service_stop(service);
    assert_ok(service->outcome);
}

/* For an hour the consumer has nothing to do. Its loop still makes a turn
 * within each heartbeat. */
VIRTUAL_BENCH_TEST(an_idle_worker_shows_progress)
{
    struct service service;
    struct consumer_view view;

    start(&service, bench);
    for (int minute = 0; minute < 60; minute++) {
        virtual_sleep(60000);
        consumer_read_view(service.consumer, &view);
        assert_int_equal(view.stage, CONSUMER_SERVES);
        assert_true(platform_boot_ms() - view.progress_ms <=
                    HEALTH_HEARTBEAT_MS + 1000);
    }
    assert_int_equal(view.slots, 2);
    stop(&service);
}

VIRTUAL_BENCH_TEST(an_outage_of_the_ledger_is_shown_while_it_lasts)
{
    struct service service;
    struct consumer_view view;

    start(&service, bench);
    virtual_sleep(5000);
    consumer_read_view(service.consumer, &view);
    assert_false(view.outage);
    workbench_locked(bench, bench->down = true);
    workbench_put(bench, BENCH_QUEUE, "{}");
    virtual_sleep(60000);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(view.threads.queues_failing, 2);
    assert_true(consumer_queue_fails(service.consumer, BENCH_QUEUE));
    assert_false(consumer_queue_fails(service.consumer, "none"));
    workbench_locked(bench, bench->down = false);
    virtual_sleep(60000);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(view.threads.queues_failing, 0);
    assert_true(view.past.ended_ticks > 0);
    assert_true(view.past.lasted_s > 0);
    assert_false(consumer_queue_fails(service.consumer, BENCH_QUEUE));
    stop(&service);
}

VIRTUAL_BENCH_TEST(before_and_after_its_threads_a_consumer_can_be_looked_at)
{
    struct service service;
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition)};
    struct consumer_view view;

    service_new(&service, &options);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(view.stage, CONSUMER_STARTS);
    assert_int_equal(view.threads.busy, 0);
    assert_false(consumer_queue_fails(service.consumer, BENCH_QUEUE));
    assert_true(consumer_rate(service.consumer, bench->store, false) < 0);
    service_run(&service);
    virtual_sleep(2000);
    consumer_stop(service.consumer);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(view.stage, CONSUMER_STOPS);
    service_join(&service);
    assert_ok(service.outcome);
    consumer_read_view(service.consumer, &view);
    assert_int_equal(view.stage, CONSUMER_STOPS);
    service_free(&service);
}
