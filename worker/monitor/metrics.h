/* SPDX-License-Identifier: MIT */
/*
 * /metrics: what Prometheus scrapes. One table in metrics.c names every metric;
 * systemd/MONITORING.md describes them. No label has a key, an argument or a
 * run id: all values are names of the configuration or of this program, so that
 * their number is bounded. The name of a job is `job_name`, because Prometheus
 * gives every sample a label `job` of its own.
 */
#ifndef TW_MONITOR_METRICS_H
#define TW_MONITOR_METRICS_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/monitor/server.h"

struct activity;
struct consumer;
struct metrics;

/* metrics_new: create the metrics of consumer and activity, which are borrowed
 * until metrics_free(). The caller owns the metrics. */
struct metrics *metrics_new(
    struct consumer *consumer, struct activity *activity);
void metrics_free(struct metrics *metrics); /* does nothing if given NULL */

/* metrics_note_reload: call when the configuration was read again. accepted:
 * false if the configuration was refused. Any thread may call it. */
void metrics_note_reload(struct metrics *metrics, bool accepted);

/* metrics_write: add all metrics to `to`, in Prometheus' text format. */
void metrics_write(struct metrics *metrics, struct buf *to);

/* metrics_routes: fill in METRICS_ROUTES routes, whose context is metrics. */
#define METRICS_ROUTES 1
void metrics_routes(struct metrics *metrics, struct http_route *routes);

#endif
