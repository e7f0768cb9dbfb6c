/* SPDX-License-Identifier: MIT */
/* The text of /metrics after real runs, and while a store does not respond. */
#include "tests/support/service.h"
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <ctype.h>
#include <stdio.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"
#include "worker/monitor/exposition.h"
#include "worker/monitor/metrics.h"
#include "worker/monitor/sampler.h"
#include "worker/run/activity.h"
#include "worker/run/consumer.h"
#include "worker/store/meter.h"

#define MESSAGE(id)                                                            \
    "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"},"         \
    "\"id\":\"" id "\"}"

/* Names of samples with their labels. */
#define OF_JOB(metric) metric "{job_name=\"delete-channel\"}"
#define OF_WORK(metric) metric "{queue=\"work\"}"
#define OF_CHANNELS(metric) metric "{queue=\"channels\"}"
#define ENDED(result)                                                          \
    "tableward_runs_ended_total{job_name=\"delete-channel\","                  \
    "result=\"" result "\"}"
#define ENTITIES(action)                                                       \
    "tableward_run_entities_total{job_name=\"delete-channel\","                \
    "action=\"" action "\"}"
#define HELD "tableward_runs_held{store=\"main\",cause=\"archive\"}"
#define OUTAGE "tableward_store_outage{store=\"main\"}"

/* The service whose metrics the tests read. */
static struct {
    struct service service;
    struct activity *activity;
    struct metrics *metrics;
    char *text; /* metrics text of the last scrape() */
} measured;

static void make(struct workbench *bench)
{
    struct consumer_options options = {
        .definition = definition_hold(&bench->definition),
        .activity = measured.activity = activity_new()};

    service_new(&measured.service, &options);
    measured.metrics =
        metrics_new(measured.service.consumer, measured.activity);
}

static void start(struct workbench *bench)
{
    make(bench);
    service_run(&measured.service);
}

static void unmake(void)
{
    mem_free(measured.text);
    measured.text = NULL;
    metrics_free(measured.metrics);
    service_free(&measured.service);
    activity_free(measured.activity);
}

static void stop(void)
{
    consumer_stop(measured.service.consumer);
    service_join(&measured.service);
    assert_ok(measured.service.outcome);
    unmake();
}

/* Returns the metrics text, which is valid until the next scrape(). */
static char *scrape(void)
{
    struct buf text;

    buf_init(&text, (size_t)1024 * 1024);
    metrics_write(measured.metrics, &text);
    assert_false(text.overflow);
    mem_free(measured.text);
    return measured.text = buf_take(&text);
}

/* Returns the value of the sample "name{labels}" in a new scrape; -1: the text
 * does not have the sample. */
static double value_of(const char *sample)
{
    size_t len = strlen(sample);
    double value = -1;

    for (const char *line = scrape(); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, sample, len) == 0 && line[len] == ' ')
            (void)sscanf(line + len, "%lf", &value);
    }
    return value;
}

static void shows(const char *sample, double wanted)
{
    double value = value_of(sample);

    if (value < wanted || value > wanted)
        fail_msg(
            "%s is %g, not %g, in:\n%s", sample, value, wanted, measured.text);
}

/* Makes `times` scrapes, a second apart. */
static void scrape_often(int times)
{
    for (int i = 0; i < times; i++) {
        (void)scrape();
        virtual_sleep(1000);
    }
}

/* Makes a scrape, after which the worker reads the queues, and waits a second
 * until it has read them. */
static void wait_for_samples(void)
{
    scrape_often(1);
}

/* ---- runs ---- */

BENCH_SCRIPT(works)
{
    atomic_fetch_add(&run->counts.read, 10);
    if (!workbench_pass_gate(bench, run, 1))
        return RUN_STOPPED;
    atomic_fetch_add(&run->counts.deleted, 7);
    atomic_fetch_add(&run->counts.skipped, 3);
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_run_is_seen_in_progress_and_at_its_end)
{
    bench->script = works;
    start(bench);
    virtual_sleep(1000);
    shows("tableward_slots", 2);
    shows("tableward_slots_busy", 0);
    shows("tableward_ready", 1);
    shows(ENDED("succeeded"), 0);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    virtual_sleep(1000);
    shows("tableward_slots_busy", 1);
    shows(OF_JOB("tableward_runs_in_progress"), 1);
    shows(ENTITIES("read"), 10);
    workbench_open_gate(bench);
    virtual_sleep(1000);
    shows("tableward_slots_busy", 0);
    shows(OF_JOB("tableward_runs_in_progress"), 0);
    shows(ENDED("succeeded"), 1);
    shows(ENTITIES("deleted"), 7);
    shows(ENTITIES("skipped"), 3);
    stop();
    assert_int_equal(measured.service.result.succeeded, 1);
}

BENCH_SCRIPT(fails)
{
    (void)err_fail(err, TW_INVALID, "as it must");
    return RUN_FAILED;
}

VIRTUAL_BENCH_TEST(failed_and_poisoned_ends_are_counted_once)
{
    bench->script = fails;
    start(bench);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1")); /* r1 has already ended */
    workbench_put(bench, BENCH_QUEUE, "nonsense");
    virtual_sleep(10000);
    shows(ENDED("failed"), 1);
    shows("tableward_runs_ended_total{job_name=\"-\",result=\"poisoned\"}", 1);
    stop();
}

BENCH_SCRIPT(is_held)
{
    bool goes_on;

    workbench_locked(bench, goes_on = bench->gate > 0);
    if (goes_on)
        return RUN_SUCCEEDED;
    run->archive_full = true;
    (void)err_fail(err, TW_FULL, "the disk is full");
    return RUN_OUTAGE;
}

VIRTUAL_BENCH_TEST(a_held_run_is_shown_with_its_cause)
{
    bench->script = is_held;
    start(bench);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    virtual_sleep(3000);
    shows(HELD, 1);
    virtual_sleep(120000);
    shows(HELD, 1);
    workbench_open_gate(bench);
    virtual_sleep(400000);
    shows(HELD, 0);
    shows(ENDED("succeeded"), 1);
    stop();
}

/* No request succeeds for two minutes, so the lease of the run expires during
 * its attempt. */
VIRTUAL_BENCH_TEST(a_lost_lease_is_counted)
{
    bench->script = works;
    start(bench);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    virtual_sleep(2000);
    workbench_locked(bench, bench->down = true);
    virtual_sleep(120000);
    shows(OF_JOB("tableward_leases_lost_total"), 1);
    shows("tableward_ready", 0);
    shows(OUTAGE, 1);
    workbench_locked(bench, bench->down = false);
    workbench_open_gate(bench);
    virtual_sleep(120000);
    shows(OUTAGE, 0);
    shows("tableward_ready", 1);
    stop();
}

/* ---- queues ---- */

VIRTUAL_BENCH_TEST(lengths_of_queues_and_poison_queues_are_shown)
{
    bench->script = works; /* hidden messages of waiting runs count too */
    start(bench);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r3"));
    workbench_make_queue(bench, BENCH_BOUND SETUP_POISON_SUFFIX);
    workbench_put(bench, BENCH_BOUND SETUP_POISON_SUFFIX, "x");
    wait_for_samples();
    shows(OF_WORK("tableward_queue_length_known"), 1);
    shows(OF_WORK("tableward_queue_messages"), 3);
    shows(OF_CHANNELS("tableward_queue_messages"), 0);
    shows(OF_CHANNELS("tableward_queue_oldest_message_age_seconds"), 0);
    shows(OF_WORK("tableward_poison_queue_messages"), 0);
    shows(OF_CHANNELS("tableward_poison_queue_messages"), 1);
    stop();
}

VIRTUAL_BENCH_TEST(the_age_of_a_message_grows_between_two_samples)
{
    double first, second;

    bench->setup.queues[0].slots = 0;
    bench->script = works;
    start(bench);
    /* Both slots wait at the gate, so the third message stays visible. */
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r1"));
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r2"));
    virtual_sleep(2000);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("r3"));
    virtual_sleep(10000);
    wait_for_samples();
    first = value_of(OF_WORK("tableward_queue_oldest_message_age_seconds"));
    virtual_sleep(5000);
    second = value_of(OF_WORK("tableward_queue_oldest_message_age_seconds"));
    assert_true(first >= 10 && first < 15);
    assert_true(second >= first + 4 && second < first + 7);
    shows(OF_WORK("tableward_queue_messages"), 3);
    workbench_open_gate(bench);
    stop();
}

static unsigned samples_taken(struct workbench *bench)
{
    unsigned calls;

    workbench_locked(bench, calls = bench->calls[BENCH_OTHER]);
    return calls / 4; /* one sample counts the messages of two queues and of
                         their poison queues */
}

VIRTUAL_BENCH_TEST(queues_are_asked_seldom_and_only_while_somebody_looks)
{
    unsigned before;

    start(bench);
    virtual_sleep(100000);
    assert_int_equal(samples_taken(bench), 0);
    scrape_often(100);
    assert_in_range(samples_taken(bench), 4, 6);
    virtual_sleep(30000); /* the last scrape may still cause one sample */
    scrape_often(1);
    before = samples_taken(bench);
    virtual_sleep(600000);
    assert_int_equal(samples_taken(bench), before);
    stop();
}

/* Makes a scrape a second for a minute. Each must return within 100 ms. */
static void scrape_without_delay(void)
{
    for (int i = 0; i < 60; i++) {
        int64_t began_ms = platform_boot_ms();

        (void)scrape();
        assert_true(platform_boot_ms() - began_ms < 100);
        virtual_sleep(1000);
    }
}

static void set_store(struct workbench *bench, bool down, int64_t delay_ms)
{
    platform_lock(&bench->lock);
    bench->down = down;
    bench->delay_ms = delay_ms;
    platform_unlock(&bench->lock);
}

VIRTUAL_BENCH_TEST(a_slow_or_dead_store_holds_up_no_scrape)
{
    start(bench);
    wait_for_samples();
    shows(OF_WORK("tableward_queue_length_known"), 1);
    set_store(bench, false, 4000);
    scrape_without_delay();
    shows(OF_WORK("tableward_queue_length_known"), 1);
    set_store(bench, true, 4000);
    scrape_without_delay();
    shows(OF_WORK("tableward_queue_length_known"), 0);
    shows(OF_WORK("tableward_queue_messages"), -1);
    shows(OF_WORK("tableward_queue_outage"), 1);
    set_store(bench, false, 0);
    stop();
}

/* The sampler gives up a request earlier than a run does. So time-outs of the
 * sampler must not open the circuit breaker, which would stop the runs. No
 * consumer runs here, because its own requests would count. */
VIRTUAL_BENCH_TEST(time_outs_of_samples_open_no_breaker)
{
    make(bench);
    set_store(bench, true, 5000);
    scrape_often(1000);
    assert_true(4 * samples_taken(bench) >= BREAKER_FAILURES);
    assert_false(breaker_is_away(&bench->store->breakers[SERVICE_QUEUES]));
    set_store(bench, false, 0);
    unmake();
}

/* ---- archives, stores, the configuration ---- */

static const char *has_archive(const struct job *job)
{
    return "not/there/yet";
}

VIRTUAL_BENCH_TEST(free_space_of_an_archive_is_shown)
{
    bench->kind.archive = has_archive;
    start(bench);
    wait_for_samples();
    assert_true(value_of(OF_JOB("tableward_archive_free_bytes")) > 0);
    assert_true(value_of(OF_JOB("tableward_archive_size_bytes")) > 0);
    stop();
}

#define REQUESTS(operation, outcome)                                           \
    "tableward_store_requests_total{store=\"main\","                           \
    "operation=\"" operation "\",outcome=\"" outcome "\"}"
#define DURATION(metric, le)                                                   \
    "tableward_store_request_duration_seconds_" metric "{store=\"main\","      \
    "operation=\"batch\"" le "}"
#define BUCKET(le) DURATION("bucket", ",le=\"" le "\"")

VIRTUAL_BENCH_TEST(requests_are_shown_by_operation_and_outcome)
{
    struct exchange exchange = {.http_status = 503};

    bench->store->meter = meter_named("test-metrics");
    start(bench);
    virtual_sleep(1000);
    meter_add(bench->store->meter, METER_BATCH, &exchange, TW_BUSY, 300);
    meter_add(bench->store->meter, METER_BATCH, &exchange, TW_BUSY, 40000);
    assert_true(value_of(REQUESTS("queue_get", "ok")) > 0);
    assert_true(value_of(REQUESTS("batch", "throttled")) >= 2);
    assert_true(
        value_of("tableward_store_throttled_total{store=\"main\"}") >= 2);
    assert_true(value_of(BUCKET("+Inf")) - value_of(BUCKET("30")) >= 1);
    assert_true(value_of(BUCKET("0.5")) - value_of(BUCKET("0.25")) >= 1);
    assert_true(value_of(DURATION("sum", "")) >= 40.3);
    stop();
}

VIRTUAL_BENCH_TEST(ceilings_and_reloads_are_shown)
{
    bench->setup.max_entities_per_second = 500;
    bench->job.max_entities_per_second = 50;
    start(bench);
    shows("tableward_max_entities_per_second", 500);
    shows(OF_JOB("tableward_job_max_entities_per_second"), 50);
    shows("tableward_config_last_reload_successful", 1);
    metrics_note_reload(measured.metrics, false);
    shows("tableward_config_last_reload_successful", 0);
    metrics_note_reload(measured.metrics, true);
    shows("tableward_config_last_reload_successful", 1);
    stop();
}

/* ---- the format ---- */

/* Fails unless the line is a comment, or NAME{LABELS} NUMBER. */
static void check_line(const char *line)
{
    const char *at = line;
    double value;
    int len = 0;

    if (strncmp(line, "# HELP ", 7) == 0 || strncmp(line, "# TYPE ", 7) == 0)
        return;
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    assert_true(at > line);
    if (*at == '{')
        at = strchr(at, '}') + 1;
    assert_int_equal(*at, ' ');
    assert_int_equal(sscanf(at, " %lf%n", &value, &len), 1);
    assert_int_equal(at[len], '\0');
}

VIRTUAL_BENCH_TEST(every_line_is_of_the_format_and_no_label_has_a_key)
{
    char *text, *line, *rest;

    bench->script = fails;
    bench->store->meter = meter_named("main");
    start(bench);
    workbench_put(bench, BENCH_QUEUE, MESSAGE("secret-run"));
    workbench_put(bench, BENCH_BOUND, "Football");
    workbench_put(bench, BENCH_QUEUE, "{\"job\":\"invented\",\"args\":{}}");
    virtual_sleep(5000);
    wait_for_samples();
    text = scrape();
    assert_null(strstr(text, "Football"));
    assert_null(strstr(text, "secret-run"));
    assert_null(strstr(text, "invented"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        check_line(line);
    stop();
}

TEST(values_of_labels_are_escaped)
{
    const struct exposition_label label = {"store", "a\"b\\c\nd"};
    struct buf text;

    buf_init(&text, 1000);
    exposition_count(&text, "x", "_total", &label, 1, 3);
    exposition_sample(&text, "y", "", NULL, 0, 0.25);
    assert_string_equal(
        buf_text(&text), "x_total{store=\"a\\\"b\\\\c\\nd\"} 3\ny 0.25\n");
    buf_done(&text);
}
