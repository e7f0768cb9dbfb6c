/* SPDX-License-Identifier: MIT */
/*
 * Finds the differences between two sides (what should be stored, what is
 * stored) in constant memory. Each side is read once, in any order. The digest
 * of each entity is added to a bucket that its keys choose, or subtracted from
 * it. A bucket that is zero in the end holds no difference; only the entities
 * of all other buckets have to be read again.
 */
#ifndef TW_JOBS_ENGINE_DIFFERENCE_H
#define TW_JOBS_ENGINE_DIFFERENCE_H

#include <stdbool.h>

#include "jobs/engine/digest.h"
#include "worker/base/slice.h"

#define DIFFERENCE_BUCKETS 65536 /* 1 MiB */

struct difference;

/* difference_new: empty. Owned. difference_free: NULL is allowed. */
struct difference *difference_new(void);
void difference_free(struct difference *difference);

/* difference_expect: an entity with these keys and this digest should exist.
 * difference_found: it exists. The two calls cancel each other. */
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
