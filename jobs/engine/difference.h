/* SPDX-License-Identifier: MIT */
/*
 * Finds the differences between two sides (the entities that should be stored,
 * and those that are stored) in constant memory. Each side is read once, in any
 * order. The keys of an entity choose a bucket. The digest of the entity is
 * added to this bucket for one side, and subtracted for the other. If a bucket
 * is zero in the end, its entities do not differ; only the entities of the
 * other buckets must be read again.
 */
#ifndef TW_JOBS_ENGINE_DIFFERENCE_H
#define TW_JOBS_ENGINE_DIFFERENCE_H

#include <stdbool.h>

#include "jobs/engine/digest.h"
#include "worker/base/slice.h"

#define DIFFERENCE_BUCKETS 65536 /* 16 bytes each: 1 MiB in all */

struct difference;

/* difference_new: returns a difference whose buckets are all zero, owned by the
 * caller. difference_free: does nothing if given NULL. */
struct difference *difference_new(void);
void difference_free(struct difference *difference);

/* difference_expect: record that an entity with these keys and this digest
 * should exist. difference_found: record that such an entity exists. The two
 * calls with equal arguments cancel each other. */
void difference_expect(struct difference *difference,
    struct slice partition_key, struct slice row_key, struct digest digest);
void difference_found(struct difference *difference, struct slice partition_key,
    struct slice row_key, struct digest digest);

/* difference_is_none: is every bucket zero? */
bool difference_is_none(const struct difference *difference);

/* difference_is_at: may there be a difference at these keys? */
bool difference_is_at(const struct difference *difference,
    struct slice partition_key, struct slice row_key);

#endif
