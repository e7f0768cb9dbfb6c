/* SPDX-License-Identifier: MIT */
/*
 * A table that is read in several parts at once, each of them a range of
 * PartitionKeys. Which keys part it evenly is known from what an earlier scan
 * met; where that was too little, or one partition, there is one part.
 */
#ifndef TW_JOBS_ENGINE_PARTS_H
#define TW_JOBS_ENGINE_PARTS_H

#include <stddef.h>

#include "jobs/engine/scan.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

#define PARTS_MAX 4
#define PARTS_SAMPLE_KEYS 64

/* PartitionKeys, one of each so many entities. Zeroed: none; freed by
 * parts_sample_clear(). */
struct parts_sample {
    struct slice keys[PARTS_SAMPLE_KEYS]; /* owned */
    size_t count;
    size_t every, left; /* entities between two keys; until the next one */
    size_t bytes;       /* what the last of these took in memory */
};
void parts_sample_add(struct parts_sample *sample, const struct entity *entity);
void parts_sample_clear(struct parts_sample *sample);

struct parts;

/* parts_open: as scan_open(). One part where spec is resumed, its filter has no
 * room for two comparisons more, or sample is NULL or holds too little; sample
 * is only read now. */
struct parts *parts_open(struct pool_client *request_pool,
    const struct scan_spec *spec, const struct parts_sample *sample);

/* parts_next, parts_pages, parts_close: as those of a scan; pages of different
 * parts come in any order, and each entity once. */
TW_MUST_USE enum tw_err parts_next(
    struct parts *parts, const struct page **ret, struct err *err);
size_t parts_pages(const struct parts *parts);
void parts_close(struct parts *parts);

#endif
