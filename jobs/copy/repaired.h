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

#define REPAIRED_MAX 8192 /* at most half of them are used */

struct repaired {
    struct {
        uint64_t keys, etag; /* hashes; keys 0: free */
    } table_refs[REPAIRED_MAX];
    size_t count;
    bool overflow; /* more were not recorded */
};

void repaired_clear(struct repaired *repaired);

/* repaired_add: the round sends copies of a source with these keys and this
 * ETag. repaired_drop: no copy was written after all (for example it was
 * current). */
void repaired_add(struct repaired *repaired, struct slice partition_key,
    struct slice row_key, struct slice etag);
void repaired_drop(struct repaired *repaired, struct slice partition_key,
    struct slice row_key);

/* repaired_is_behind: does the source, as read now, have another ETag than the
 * one that was copied? Of a source that is not recorded: did the set overflow?
 */
bool repaired_is_behind(
    const struct repaired *repaired, const struct entity *source);

#endif
