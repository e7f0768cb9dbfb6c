/* SPDX-License-Identifier: MIT */
/*
 * Reads a table in several parts at once; each part is a range of
 * PartitionKeys. The bounds come from a sample of the keys that an earlier scan
 * found. Where the sample is too small, or has one partition only, there is one
 * part.
 */
#ifndef TW_JOBS_ENGINE_PARTS_H
#define TW_JOBS_ENGINE_PARTS_H

#include <stddef.h>

#include "jobs/engine/scan.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

#define PARTS_MAX 4
#define PARTS_SAMPLE_KEYS 64

/* A sample of PartitionKeys, one per `every` entities. Zeroed: empty; freed by
 * parts_sample_clear(). */
struct parts_sample {
    struct slice keys[PARTS_SAMPLE_KEYS]; /* owned */
    size_t count;
    size_t every, left; /* entities between two keys; entities until the next
                         * key */
    size_t bytes;       /* memory of the last sampled entity */
};
void parts_sample_add(struct parts_sample *sample, const struct entity *entity);
void parts_sample_clear(struct parts_sample *sample);

struct parts;

/* parts_open: as scan_open(). Opens one part only if spec is resumed, its
 * filter has no room for two more comparisons, or sample is NULL or too small.
 * sample is read only during this call. */
struct parts *parts_open(struct pool_client *request_pool,
    const struct scan_spec *spec, const struct parts_sample *sample);

/* parts_next, parts_pages, parts_close: as those of a scan. Pages of different
 * parts come in any order; each entity comes once. */
TW_MUST_USE enum tw_err parts_next(
    struct parts *parts, const struct page **ret, struct err *err);
size_t parts_pages(const struct parts *parts);
void parts_close(struct parts *parts);

#endif
