/* SPDX-License-Identifier: MIT */
/*
 * Prometheus' text format 0.0.4: families of metrics with their samples.
 *
 *     # HELP tableward_slots Slots of this worker.
 *     # TYPE tableward_slots gauge
 *     tableward_slots 16
 *
 * Source: Prometheus, "Exposition formats", text-based format.
 */
#ifndef TW_MONITOR_EXPOSITION_H
#define TW_MONITOR_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition_label {
    const char *name, *value; /* value: any UTF-8 text */
};

/* exposition_family: add HELP and TYPE of a family. type: "counter", "gauge" or
 * "histogram". */
void exposition_family(
    struct buf *to, const char *name, const char *type, const char *help);

/* exposition_sample: add a sample. suffix: "", or for a histogram "_bucket",
 * "_sum" or "_count". exposition_count: the same with a whole number. */
void exposition_sample(struct buf *to, const char *name, const char *suffix,
    const struct exposition_label *labels, size_t count, double value);
void exposition_count(struct buf *to, const char *name, const char *suffix,
    const struct exposition_label *labels, size_t count, int64_t value);

#endif
