/* SPDX-License-Identifier: MIT */
/*
 * The sources that a round has repaired, with the ETag that was copied: so
 * that those whose ETag has changed again since can be counted (Behind, rule
 * A2). Bounded: beyond it nothing is known of a source.
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
    bool overflow; /* more were repaired */
};

void repaired_clear(struct repaired *repaired);

/* repaired_add: the copies of a source with these keys and this ETag are
 * written. repaired_drop: they were not: they were current. */
void repaired_add(struct repaired *repaired, struct slice partition_key,
    struct slice row_key, struct slice etag);
void repaired_drop(struct repaired *repaired, struct slice partition_key,
    struct slice row_key);

/* repaired_is_behind: has the source, as read now, another ETag than the one
 * that was repaired? Of what is not known: if there was no room for it. */
bool repaired_is_behind(
    const struct repaired *repaired, const struct entity *source);

#endif
