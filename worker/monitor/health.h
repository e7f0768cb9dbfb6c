/* SPDX-License-Identifier: MIT */
/*
 * /livez and /readyz. A worker is alive while its loop makes progress; the
 * service manager's watchdog uses the same rule. A process that is not alive
 * should be killed. A worker is ready while it receives messages. One that is
 * not ready should be left alone, because a restart does not end an outage.
 */
#ifndef TW_MONITOR_HEALTH_H
#define TW_MONITOR_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/monitor/server.h"
#include "worker/run/consumer.h"

/* HEALTH_HEARTBEAT_MS: how often the loop must show progress. HEALTH_LIMIT_MS:
 * a worker that makes no progress for longer than this is not alive, if the
 * unit has no watchdog (WatchdogSec). */
#define HEALTH_HEARTBEAT_MS INT64_C(15000)
#define HEALTH_LIMIT_MS INT64_C(120000)

struct health {
    struct consumer *consumer; /* borrowed */
    int64_t limit_ms; /* a worker that makes no progress for longer than this is
                         not alive */
};

/*
 * health_is_alive, health_is_ready: is the worker alive, is it ready, at now_ms
 * (boot clock)? view: the state of its consumer; queue_count: number of queues
 * that are served. Both add one sentence to why, even if the result is true.
 */
bool health_is_alive(const struct consumer_view *view, int64_t now_ms,
    int64_t limit_ms, struct buf *why);
bool health_is_ready(const struct consumer_view *view, size_t queue_count,
    int64_t now_ms, struct buf *why);

/* health_routes: fill in HEALTH_ROUTES routes, whose context is health. */
#define HEALTH_ROUTES 2
void health_routes(struct health *health, struct http_route *routes);

#endif
