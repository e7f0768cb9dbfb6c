/* SPDX-License-Identifier: MIT */
/* Starts and stops everything that is served on `worker.listen`. */
#include "worker/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/address.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/monitor/api.h"
#include "worker/monitor/health.h"
#include "worker/monitor/metrics.h"
#include "worker/monitor/server.h"
#include "worker/run/activity.h"
#include "worker/run/setup.h"
#include "worker/store/meter.h"
#include "worker/store/store.h"

#define OBJECT "worker"
#define ROUTES_MAX 32

struct monitor {
    struct health health;
    struct metrics *metrics;
    struct consumer *consumer;
    struct activity *activity;
    struct api *api;
    struct http_server *server;
};

/* Check that the file exists and is not empty, so that a wrong path is noticed
 * at the start. */
static enum tw_err check_token_file(
    const struct definition *definition, struct err *err)
{
    const char *named = definition->setup->admin_token_file;
    enum tw_err outcome = TW_OK;
    char *path, first;
    ssize_t len = -1;
    int fd;

    if (!named)
        return TW_OK;
    path = definition_path(definition, named);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        len = read(fd, &first, 1);
    if (len < 0)
        outcome = err_fail(err, TW_INVALID,
            "admin_token_file %s cannot be read: %s", path, strerror(errno));
    else if (len == 0)
        outcome = err_fail(err, TW_INVALID,
            "admin_token_file %s is empty: write a long random text into it, "
            "or remove the key",
            path);
    if (fd >= 0)
        (void)close(fd);
    mem_free(path);
    return outcome;
}

/* ---- what the dashboard shows of this process ---- */

static struct definition *newest_definition(void *context)
{
    const struct monitor *monitor = context;

    return consumer_definition(monitor->consumer);
}

static int64_t refusals_of(const struct store *store)
{
    uint64_t sum = 0;

    for (size_t i = 0; store && store->meter && i < METER_OPERATIONS; i++)
        sum +=
            atomic_load(&store->meter->operations[i].outcomes[METER_THROTTLED]);
    return (int64_t)sum;
}

static void add_totals(void *context, struct history_totals *ret)
{
    const struct monitor *monitor = context;
    struct definition *definition = newest_definition(context);
    size_t count = 0;
    struct activity_job *jobs = activity_jobs(monitor->activity, &count);

    for (size_t i = 0; i < count; i++)
        ret->entities += jobs[i].entities[ACTIVITY_WRITTEN] +
                         jobs[i].entities[ACTIVITY_DELETED];
    for (size_t i = 0; i < definition->stores->count; i++)
        ret->refusals += refusals_of(definition->stores->stores[i]);
    mem_free(jobs);
    definition_drop(definition);
}

/* ---- the routes ---- */

/* Fill in the routes of all that is served. Returns their number. */
static size_t add_routes(struct monitor *monitor, struct http_route *routes)
{
    size_t count = 0;

    health_routes(&monitor->health, routes + count);
    count += HEALTH_ROUTES;
    metrics_routes(monitor->metrics, routes + count);
    count += METRICS_ROUTES;
    api_routes(monitor->api, routes + count);
    count += API_ROUTES;
    return count;
}

static void log_address(const struct monitor *monitor, const char *listen)
{
    struct address address;

    log_info(OBJECT,
        "listens on %s (port %u): dashboard, /metrics, /livez, /readyz", listen,
        monitor_port(monitor));
    if (address_parse(slice_of(listen), &address, NULL) == TW_OK &&
        !address.loopback)
        log_warn(OBJECT,
            "other machines can connect to %s, without TLS, and read what this "
            "worker does: let only a trusted network connect, or listen on "
            "127.0.0.1",
            listen);
}

enum tw_err monitor_start(const struct monitor_options *options,
    struct monitor **ret, struct err *err)
{
    const char *listen = options->definition->setup->listen;
    struct http_route routes[ROUTES_MAX];
    struct monitor *monitor;
    enum tw_err outcome = check_token_file(options->definition, err);

    if (outcome != TW_OK)
        return outcome;
    monitor = mem_alloc(sizeof(*monitor));
    monitor->health = (struct health){.consumer = options->consumer,
        .limit_ms =
            options->watchdog_ms > 0 ? options->watchdog_ms : HEALTH_LIMIT_MS};
    monitor->metrics = metrics_new(options->consumer, options->activity);
    monitor->consumer = options->consumer;
    monitor->activity = options->activity;
    monitor->api = api_new(&(struct api_options){
        .started_with = options->definition,
        .definition = newest_definition,
        .totals = add_totals,
        .context = monitor,
    });
    outcome = http_server_start(
        listen, routes, add_routes(monitor, routes), &monitor->server, err);
    if (outcome != TW_OK) {
        monitor_stop(monitor);
        return outcome;
    }
    log_address(monitor, listen);
    *ret = monitor;
    return TW_OK;
}

unsigned monitor_port(const struct monitor *monitor)
{
    return http_server_port(monitor->server);
}

void monitor_note_reload(struct monitor *monitor, bool accepted)
{
    if (monitor)
        metrics_note_reload(monitor->metrics, accepted);
}

void monitor_stop(struct monitor *monitor)
{
    if (!monitor)
        return;
    http_server_stop(monitor->server);
    api_free(monitor->api);
    metrics_free(monitor->metrics);
    mem_free(monitor);
}
