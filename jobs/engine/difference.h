/* SPDX-License-Identifier: MIT */
/*
 * The difference between two sides in constant memory: what should be stored,
 * and what is. Each side is read once, in any order. The digest of each entity
 * is added to a bucket that its keys choose, or subtracted from it; a bucket
 * that is zero in the end holds no difference, and only the entities of the
 * others have to be read again.
 */
#ifndef TW_JOBS_ENGINE_DIFFERENCE_H
#define TW_JOBS_ENGINE_DIFFERENCE_H

#include <stdbool.h>

#include "jobs/engine/digest.h"
#include "worker/base/slice.h"

#define DIFFERENCE_BUCKETS 65536 /* 1 MiB */

struct difference;

/* difference_new: no difference. Owned. difference_free: NULL: nothing. */
struct difference *difference_new(void);
void difference_free(struct difference *difference);

/* difference_expect: an entity of these keys and this digest should be there.
 * difference_found: it is. One undoes the other. */
void difference_expect(struct difference *difference,
    struct slice partition_key, struct slice row_key, struct digest digest);
void difference_found(struct difference *difference, struct slice partition_key,
    struct slice row_key, struct digest digest);

/* difference_is_none: is every bucket zero? */
bool difference_is_none(const struct difference *difference);

/* difference_is_at: may there be one at these keys? */
bool difference_is_at(const struct difference *difference,
    struct slice partition_key, struct slice row_key);

#endif
