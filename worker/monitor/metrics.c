/* SPDX-License-Identifier: MIT */
/*
 * A scrape takes a copy of each state first (consumer, activity, samples), then
 * writes the families of the table at the end of this file. No function here
 * sends a request or waits for one.
 */
#include "worker/monitor/metrics.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/monitor/exposition.h"
#include "worker/monitor/health.h"
#include "worker/monitor/sampler.h"
#include "worker/run/activity.h"
#include "worker/run/consumer.h"
#include "worker/run/setup.h"
#include "worker/store/meter.h"
#include "worker/store/store.h"

/* Maximum size of the samples of one family. */
#define FAMILY_MAX ((size_t)4 * 1024 * 1024)
#define MS_PER_S 1000.0

struct metrics {
    struct consumer *consumer;
    struct activity *activity;
    struct sampler *sampler;
    int64_t started_ticks; /* start of the process by the wall clock */
    _Atomic bool reload_refused;
};

/* One scrape. */
struct scrape {
    struct metrics *metrics;
    struct definition *definition; /* the scrape has a reference to it */
    struct consumer_view view;
    struct activity_job *jobs;
    size_t job_count;
    struct activity_hold *holds;
    size_t hold_count;
    struct samples samples;

    const char *name; /* name of the family that is being written */
    struct buf to;    /* samples of that family */
};

struct metrics *metrics_new(
    struct consumer *consumer, struct activity *activity)
{
    struct metrics *metrics = mem_alloc(sizeof(*metrics));

    metrics->consumer = consumer;
    metrics->activity = activity;
    metrics->sampler = sampler_new(consumer);
    metrics->started_ticks = platform_wall_ticks();
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    sampler_free(metrics->sampler);
    mem_free(metrics);
}

void metrics_note_reload(struct metrics *metrics, bool accepted)
{
    atomic_store(&metrics->reload_refused, !accepted);
}

/* ---- samples with up to three labels ---- */

static void put(struct scrape *scrape, double value)
{
    exposition_sample(&scrape->to, scrape->name, "", NULL, 0, value);
}

static void put1(
    struct scrape *scrape, const char *label, const char *text, int64_t value)
{
    const struct exposition_label labels[] = {{label, text}};

    exposition_count(&scrape->to, scrape->name, "", labels, 1, value);
}

static void put2(struct scrape *scrape, const char *label, const char *text,
    const char *other, const char *other_text, int64_t value)
{
    const struct exposition_label labels[] = {
        {label, text}, {other, other_text}};

    exposition_count(&scrape->to, scrape->name, "", labels, 2, value);
}

/* ---- the worker ---- */

static void build_info(struct scrape *scrape)
{
    put1(scrape, "version", TABLEWARD_VERSION, 1);
}

static void ready(struct scrape *scrape)
{
    struct buf why;

    buf_init(&why, 4096);
    put(scrape,
        health_is_ready(&scrape->view, scrape->definition->setup->queue_count,
            platform_boot_ms(), &why));
    buf_done(&why);
}

static void progress_age(struct scrape *scrape)
{
    put(scrape,
        (double)(platform_boot_ms() - scrape->view.progress_ms) / MS_PER_S);
}

static void reload_successful(struct scrape *scrape)
{
    put(scrape, !atomic_load(&scrape->metrics->reload_refused));
}

static void slots(struct scrape *scrape)
{
    put(scrape, (double)scrape->view.slots);
}

static void busy_slots(struct scrape *scrape)
{
    put(scrape, (double)scrape->view.threads.busy);
}

static void ceiling(struct scrape *scrape)
{
    const struct setup *setup = scrape->definition->setup;

    if (setup->max_entities_per_second > 0)
        put(scrape, (double)setup->max_entities_per_second);
}

/* ---- runs ---- */

static void runs_in_progress(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->job_count; i++)
        put1(scrape, "job_name", scrape->jobs[i].name,
            scrape->jobs[i].in_progress);
}

static void runs_ended(struct scrape *scrape)
{
    static const char *const results[ACTIVITY_RESULTS] = {
        [ACTIVITY_RUN_SUCCEEDED] = "succeeded",
        [ACTIVITY_RUN_FAILED] = "failed",
        [ACTIVITY_RUN_POISONED] = "poisoned",
        [ACTIVITY_RUN_CANCELLED] = "cancelled",
    };

    for (size_t i = 0; i < scrape->job_count; i++)
        for (size_t k = 0; k < ACTIVITY_RESULTS; k++)
            put2(scrape, "job_name", scrape->jobs[i].name, "result", results[k],
                scrape->jobs[i].ended[k]);
}

static void run_entities(struct scrape *scrape)
{
    static const char *const actions[ACTIVITY_ENTITIES] = {
        [ACTIVITY_READ] = "read",
        [ACTIVITY_WRITTEN] = "written",
        [ACTIVITY_DELETED] = "deleted",
        [ACTIVITY_SKIPPED] = "skipped",
        [ACTIVITY_FAILED] = "failed",
    };

    for (size_t i = 0; i < scrape->job_count; i++)
        for (size_t k = 0; k < ACTIVITY_ENTITIES; k++)
            put2(scrape, "job_name", scrape->jobs[i].name, "action", actions[k],
                scrape->jobs[i].entities[k]);
}

static void leases_lost(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->job_count; i++)
        put1(scrape, "job_name", scrape->jobs[i].name,
            scrape->jobs[i].leases_lost);
}

static void runs_held(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->hold_count; i++)
        put2(scrape, "store", scrape->holds[i].store, "cause",
            scrape->holds[i].cause, scrape->holds[i].count);
}

static void job_ceilings(struct scrape *scrape)
{
    const struct jobs *jobs = scrape->definition->jobs;

    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->list[i].max_entities_per_second > 0)
            put1(scrape, "job_name", jobs->list[i].name,
                jobs->list[i].max_entities_per_second);
}

/* ---- stores ---- */

static uint64_t read_count(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* Calls each() for every open store. */
static void for_each_store(struct scrape *scrape,
    void (*each)(struct scrape *scrape, const struct store *store))
{
    const struct job_stores *stores = scrape->definition->stores;

    for (size_t i = 0; i < stores->count; i++)
        if (stores->stores[i])
            each(scrape, stores->stores[i]);
}

/* Calls each() for every operation of which the store has had a request. */
static void for_each_operation(struct scrape *scrape, const struct store *store,
    void (*each)(struct scrape *scrape, const struct store *store,
        const char *operation, const struct meter_counts *counts))
{
    for (unsigned i = 0; store->meter && i < METER_OPERATIONS; i++) {
        const struct meter_counts *counts = &store->meter->operations[i];
        uint64_t total = 0;

        for (size_t k = 0; k < METER_OUTCOMES; k++)
            total += read_count(&counts->outcomes[k]);
        if (total > 0)
            each(scrape, store, meter_operation_name(i), counts);
    }
}

static void outcomes_of(struct scrape *scrape, const struct store *store,
    const char *operation, const struct meter_counts *counts)
{
    for (unsigned i = 0; i < METER_OUTCOMES; i++) {
        const struct exposition_label labels[] = {{"store", store->name},
            {"operation", operation}, {"outcome", meter_outcome_name(i)}};
        uint64_t count = read_count(&counts->outcomes[i]);

        if (count > 0 || i == METER_OK)
            exposition_count(
                &scrape->to, scrape->name, "", labels, 3, (int64_t)count);
    }
}

static void requests_of(struct scrape *scrape, const struct store *store)
{
    for_each_operation(scrape, store, outcomes_of);
}

static void store_requests(struct scrape *scrape)
{
    for_each_store(scrape, requests_of);
}

static void durations_of(struct scrape *scrape, const struct store *store,
    const char *operation, const struct meter_counts *counts)
{
    struct exposition_label labels[] = {
        {"store", store->name}, {"operation", operation}, {"le", "+Inf"}};
    char bound[32];
    uint64_t sum = 0;

    for (size_t i = 0; i < METER_BOUNDS; i++) {
        sum += read_count(&counts->durations[i]);
        (void)snprintf(bound, sizeof(bound), "%.15g",
            (double)meter_bounds_ms[i] / MS_PER_S);
        labels[2].value = bound;
        exposition_count(
            &scrape->to, scrape->name, "_bucket", labels, 3, (int64_t)sum);
    }
    sum += read_count(&counts->durations[METER_BOUNDS]);
    labels[2].value = "+Inf";
    exposition_count(
        &scrape->to, scrape->name, "_bucket", labels, 3, (int64_t)sum);
    exposition_sample(&scrape->to, scrape->name, "_sum", labels, 2,
        (double)read_count(&counts->total_ms) / MS_PER_S);
    exposition_count(
        &scrape->to, scrape->name, "_count", labels, 2, (int64_t)sum);
}

static void request_durations_of(
    struct scrape *scrape, const struct store *store)
{
    for_each_operation(scrape, store, durations_of);
}

static void store_durations(struct scrape *scrape)
{
    for_each_store(scrape, request_durations_of);
}

static void throttled_of(struct scrape *scrape, const struct store *store)
{
    uint64_t sum = 0;

    if (!store->meter)
        return;
    for (size_t i = 0; i < METER_OPERATIONS; i++)
        sum +=
            read_count(&store->meter->operations[i].outcomes[METER_THROTTLED]);
    put1(scrape, "store", store->name, (int64_t)sum);
}

static void store_throttled(struct scrape *scrape)
{
    for_each_store(scrape, throttled_of);
}

static void outage_of(struct scrape *scrape, const struct store *store)
{
    bool ledgers = store == definition_store(scrape->definition);

    put1(scrape, "store", store->name,
        (ledgers && scrape->view.outage) ||
            consumer_is_away(scrape->metrics->consumer, store));
}

static void store_outage(struct scrape *scrape)
{
    for_each_store(scrape, outage_of);
}

static void rates_of(struct scrape *scrape, const struct store *store)
{
    static const char *const scopes[] = {"account", "partition"};

    for (size_t i = 0; i < 2; i++) {
        const struct exposition_label labels[] = {
            {"store", store->name}, {"scope", scopes[i]}};
        double per_s = consumer_rate(scrape->metrics->consumer, store, i == 1);

        if (per_s >= 0)
            exposition_sample(&scrape->to, scrape->name, "", labels, 2, per_s);
    }
}

static void store_rates(struct scrape *scrape)
{
    for_each_store(scrape, rates_of);
}

/* ---- outages that are over ---- */

static void last_outage_end(struct scrape *scrape)
{
    int64_t ended_ticks = scrape->view.past.ended_ticks;

    if (ended_ticks > 0)
        put(scrape, (double)(ended_ticks - TICKS_1970) / (double)TICKS_PER_S);
}

static void last_outage_duration(struct scrape *scrape)
{
    if (scrape->view.past.ended_ticks > 0)
        put(scrape, (double)scrape->view.past.lasted_s);
}

/* ---- queues ---- */

static void queue_outage(struct scrape *scrape)
{
    const struct setup *setup = scrape->definition->setup;

    for (size_t i = 0; i < setup->queue_count; i++)
        put1(scrape, "queue", setup->queues[i].name,
            consumer_queue_fails(
                scrape->metrics->consumer, setup->queues[i].name));
}

static void queue_known(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.queue_count; i++)
        put1(scrape, "queue", scrape->samples.queues[i].queue,
            scrape->samples.queues[i].good);
}

static void queue_messages(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.queue_count; i++)
        if (scrape->samples.queues[i].good)
            put1(scrape, "queue", scrape->samples.queues[i].queue,
                scrape->samples.queues[i].messages);
}

static void queue_oldest(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.queue_count; i++) {
        const struct sample_queue *queue = &scrape->samples.queues[i];
        const struct exposition_label labels[] = {{"queue", queue->queue}};

        if (queue->good)
            exposition_sample(&scrape->to, scrape->name, "", labels, 1,
                (double)queue->oldest_ms / MS_PER_S);
    }
}

static void queue_poisoned(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.queue_count; i++)
        if (scrape->samples.queues[i].good)
            put1(scrape, "queue", scrape->samples.queues[i].queue,
                scrape->samples.queues[i].poisoned);
}

/* ---- archives ---- */

static void archive_free(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.archive_count; i++)
        put1(scrape, "job_name", scrape->samples.archives[i].job,
            scrape->samples.archives[i].free_bytes);
}

static void archive_size(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->samples.archive_count; i++)
        put1(scrape, "job_name", scrape->samples.archives[i].job,
            scrape->samples.archives[i].size_bytes);
}

/* ---- the process ---- */

static void start_time(struct scrape *scrape)
{
    put(scrape, (double)(scrape->metrics->started_ticks - TICKS_1970) /
                    (double)TICKS_PER_S);
}

static void cpu_seconds(struct scrape *scrape)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) == 0)
        put(scrape,
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
                    1e6);
}

/* Reads the memory of this process. Source: proc(5), /proc/PID/statm: "SIZE
 * RESIDENT ...", in pages. */
static bool read_resident_pages(int64_t *ret)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[256];
    size_t len;
    const char *second;
    bool known = false;

    if (!file)
        return false;
    if (fgets(line, sizeof(line), file)) {
        second = line + strcspn(line, " ");
        second += *second == ' ';
        len = strcspn(second, " ");
        known = text_int64((struct slice){second, len}, 0, INT64_MAX, ret);
    }
    (void)fclose(file);
    return known;
}

static void resident_memory(struct scrape *scrape)
{
    int64_t pages;

    if (read_resident_pages(&pages))
        put(scrape, (double)pages * (double)sysconf(_SC_PAGESIZE));
}

static void open_fds(struct scrape *scrape)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    put(scrape, count - 1); /* without the folder itself */
}

static void max_fds(struct scrape *scrape)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put(scrape, (double)limit.rlim_cur);
}

/* ---- all ---- */

static const struct family {
    const char *name, *type, *help;
    void (*write)(struct scrape *scrape); /* adds samples, or none */
} families[] = {
    {"tableward_build_info", "gauge",
        "Version of this worker, as a label; the value is always 1.",
        build_info},
    {"tableward_ready", "gauge",
        "Whether messages are received, as in /readyz: 1 or 0.", ready},
    {"tableward_progress_age_seconds", "gauge",
        "Time since the loop of the worker last made progress; /livez compares "
        "it with its limit.",
        progress_age},
    {"tableward_config_last_reload_successful", "gauge",
        "Whether the last reload (SIGHUP) succeeded; 0: the configuration was "
        "refused.",
        reload_successful},
    {"tableward_slots", "gauge",
        "Maximum number of runs of this worker at once.", slots},
    {"tableward_slots_busy", "gauge", "Slots with a message or a run.",
        busy_slots},
    {"tableward_runs_in_progress", "gauge",
        "Runs that this worker executes now.", runs_in_progress},
    {"tableward_runs_ended_total", "counter", "Runs that ended in this worker.",
        runs_ended},
    {"tableward_run_entities_total", "counter",
        "Entities that runs of this worker read, wrote, deleted or skipped, or "
        "that failed.",
        run_entities},
    {"tableward_runs_held", "gauge",
        "Open runs that this worker has tried and that wait for a store, an "
        "archive, a definition or their turn.",
        runs_held},
    {"tableward_leases_lost_total", "counter",
        "Attempts that ended because their lease was lost or expired.",
        leases_lost},
    {"tableward_max_entities_per_second", "gauge",
        "Configured maximum rate of this worker; absent: none.", ceiling},
    {"tableward_job_max_entities_per_second", "gauge",
        "Configured maximum rate of the job; absent: none.", job_ceilings},
    {"tableward_store_requests_total", "counter",
        "Requests to the store, by operation and outcome.", store_requests},
    {"tableward_store_request_duration_seconds", "histogram",
        "Duration of a request.", store_durations},
    {"tableward_store_throttled_total", "counter",
        "Responses of the store with status 429 or 503.", store_throttled},
    {"tableward_store_outage", "gauge",
        "Whether the store is unavailable now: it does not respond, serves no "
        "request, or refuses the credentials.",
        store_outage},
    {"tableward_store_rate_limit_entities_per_second", "gauge",
        "Limit of the store, derived from its refusals; absent: none.",
        store_rates},
    {"tableward_last_outage_end_timestamp_seconds", "gauge",
        "When the last outage of the ledger or a queue ended.",
        last_outage_end},
    {"tableward_last_outage_duration_seconds", "gauge",
        "How long the last outage of the ledger or a queue lasted.",
        last_outage_duration},
    {"tableward_queue_outage", "gauge",
        "Whether the queue cannot be served now.", queue_outage},
    {"tableward_queue_length_known", "gauge",
        "Whether the queue could be read recently; 0: its length and age are "
        "absent.",
        queue_known},
    {"tableward_queue_messages", "gauge",
        "Messages in the queue, approximately, hidden ones included.",
        queue_messages},
    {"tableward_queue_oldest_message_age_seconds", "gauge",
        "Age of the first visible message; 0: none is visible.", queue_oldest},
    {"tableward_poison_queue_messages", "gauge",
        "Messages in the poison queue of the queue, approximately.",
        queue_poisoned},
    {"tableward_archive_free_bytes", "gauge",
        "Free space of the file system of the job's archive.", archive_free},
    {"tableward_archive_size_bytes", "gauge",
        "Size of the file system of the job's archive.", archive_size},
    {"process_start_time_seconds", "gauge", "When the process started.",
        start_time},
    {"process_cpu_seconds_total", "counter", "CPU time of the process.",
        cpu_seconds},
    {"process_resident_memory_bytes", "gauge",
        "Resident memory of the process.", resident_memory},
    {"process_open_fds", "gauge", "Open file descriptors.", open_fds},
    {"process_max_fds", "gauge", "Limit of open file descriptors.", max_fds},
};

static void begin(struct scrape *scrape)
{
    struct metrics *metrics = scrape->metrics;
    const struct jobs *jobs;

    scrape->definition = consumer_definition(metrics->consumer);
    jobs = scrape->definition->jobs;
    for (size_t i = 0; i < jobs->count; i++)
        activity_add_job(metrics->activity, jobs->list[i].name);
    consumer_read_view(metrics->consumer, &scrape->view);
    scrape->jobs = activity_jobs(metrics->activity, &scrape->job_count);
    scrape->holds = activity_holds(metrics->activity, &scrape->hold_count);
    sampler_look(metrics->sampler, &scrape->samples);
    buf_init(&scrape->to, FAMILY_MAX);
}

static void end(struct scrape *scrape)
{
    buf_done(&scrape->to);
    samples_done(&scrape->samples);
    mem_free(scrape->holds);
    mem_free(scrape->jobs);
    definition_drop(scrape->definition);
}

void metrics_write(struct metrics *metrics, struct buf *to)
{
    struct scrape scrape = {.metrics = metrics};

    begin(&scrape);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        scrape.name = families[i].name;
        buf_clear(&scrape.to);
        families[i].write(&scrape);
        if (scrape.to.len == 0)
            continue;
        exposition_family(
            to, families[i].name, families[i].type, families[i].help);
        buf_add_slice(to, buf_slice(&scrape.to));
    }
    end(&scrape);
}

static void handle(void *context, const struct http_request *request,
    struct http_response *response)
{
    (void)request;
    response->content_type = EXPOSITION_TYPE;
    metrics_write(context, &response->body);
}

void metrics_routes(struct metrics *metrics, struct http_route *routes)
{
    routes[0] = (struct http_route){"GET", "/metrics", handle, metrics};
}
