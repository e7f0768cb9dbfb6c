/* SPDX-License-Identifier: MIT */
/*
 * The sources that a round has repaired, each with the ETag that was copied.
 * After the round, the sources whose ETag has changed since are counted
 * (Behind, rule A2). The set is bounded: sources beyond the bound are not
 * recorded.
 */
#ifndef TW_JOBS_COPY_REPAIRED_H
#define TW_JOBS_COPY_REPAIRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/store/entity.h"

#define REPAIRED_MAX 8192 /* slots of the hash table; at most half are used */

struct repaired {
    struct {
        uint64_t keys, etag; /* hashes of keys and ETag; keys 0: free slot */
    } entries[REPAIRED_MAX];
    size_t count;
    bool overflow; /* some repaired sources are not recorded */
};

void repaired_clear(struct repaired *repaired);

/* repaired_add: record that the round sends copies of a source with these keys
 * and this ETag. repaired_drop: withdraw that record, because no copy was
 * written (for example, the copy was current). */
void repaired_add(struct repaired *repaired, struct slice partition_key,
    struct slice row_key, struct slice etag);
void repaired_drop(struct repaired *repaired, struct slice partition_key,
    struct slice row_key);

/* repaired_is_behind: does the source, as read now, have another ETag than the
 * recorded one? If the source is not recorded, returns the member overflow:
 * after an overflow the round may have repaired the source without recording
 * it. */
bool repaired_is_behind(
    const struct repaired *repaired, const struct entity *source);

#endif
