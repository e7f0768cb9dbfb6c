/* SPDX-License-Identifier: MIT */
/*
 * Reads a table in several parts at once; each part is a range of
 * PartitionKeys. The bounds of the parts come from a sample of the
 * PartitionKeys that an earlier scan found. If the sample is too small, or has
 * one partition only, there is one part.
 */
#ifndef TW_JOBS_ENGINE_PARTS_H
#define TW_JOBS_ENGINE_PARTS_H

#include <stddef.h>

#include "jobs/engine/scan.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

#define PARTS_MAX 3
#define PARTS_SAMPLE_KEYS 64

/* A sample of PartitionKeys: one entity in `every` gives its PartitionKey. A
 * sample whose members are all zero is empty. parts_sample_clear() frees the
 * keys. */
struct parts_sample {
    struct slice keys[PARTS_SAMPLE_KEYS]; /* the texts are owned */
    size_t count;
    size_t every, left; /* every: one entity in `every` is sampled; left: number
                         * of entities until the next one is sampled */
    size_t bytes;       /* memory of the last sampled entity, used as an
                         * estimate for every entity */
};
void parts_sample_add(struct parts_sample *sample, const struct entity *entity);
void parts_sample_clear(struct parts_sample *sample);

struct parts;

/*
 * parts_open: begin to read as scan_open() does. sample is used only during
 * this call. In these cases the table is read in a single part:
 *
 *   - spec->resumed is set;
 *   - spec->filter has no room for two more comparisons;
 *   - sample is NULL or too small.
 */
struct parts *parts_open(struct pool_client *pool_client,
    const struct scan_spec *spec, const struct parts_sample *sample);

/* parts_next, parts_pages, parts_close: as scan_next(), scan_pages() and
 * scan_close(). The pages of different parts are returned in any order; each
 * entity is returned once. */
TW_MUST_USE enum tw_err parts_next(
    struct parts *parts, const struct page **ret, struct err *err);
size_t parts_pages(const struct parts *parts);
void parts_close(struct parts *parts);

#endif
