/* SPDX-License-Identifier: MIT */
/* The sources that a round has repaired: a bounded hash table. */
#include "jobs/copy/repaired.h"

#include <string.h>

#include "worker/base/hash.h"

static uint64_t hash_keys(struct slice partition_key, struct slice row_key)
{
    uint64_t hash = hash_slice(HASH_BEGIN, partition_key);

    hash = hash_slice(hash, slice_of("/"));
    hash = hash_mix(hash_slice(hash, row_key));
    return hash ? hash : 1;
}

static uint64_t hash_etag(struct slice etag)
{
    return hash_mix(hash_slice(HASH_BEGIN, etag));
}

/* Returns the slot of these keys, or the free slot for them. */
static size_t find(const struct repaired *repaired, uint64_t keys)
{
    size_t at = (size_t)(keys % REPAIRED_MAX);

    while (
        repaired->entries[at].keys != 0 && repaired->entries[at].keys != keys)
        at = (at + 1) % REPAIRED_MAX;
    return at;
}

void repaired_clear(struct repaired *repaired)
{
    memset(repaired, 0, sizeof(*repaired));
}

void repaired_add(struct repaired *repaired, struct slice partition_key,
    struct slice row_key, struct slice etag)
{
    uint64_t keys = hash_keys(partition_key, row_key);
    size_t at = find(repaired, keys);

    if (repaired->entries[at].keys == 0) {
        if (repaired->count == REPAIRED_MAX / 2) {
            repaired->overflow = true;
            return;
        }
        repaired->count++;
    }
    repaired->entries[at].keys = keys;
    repaired->entries[at].etag = hash_etag(etag);
}

/* Sets the ETag hash of the source to 0, so that the source is never behind.
 * The slot keeps its hash of the keys, because linear probing may have placed
 * other keys behind this slot. */
void repaired_drop(
    struct repaired *repaired, struct slice partition_key, struct slice row_key)
{
    size_t at = find(repaired, hash_keys(partition_key, row_key));

    repaired->entries[at].etag = 0;
}

bool repaired_is_behind(
    const struct repaired *repaired, const struct entity *source)
{
    uint64_t keys = hash_keys(source->partition_key, source->row_key);
    size_t at = find(repaired, keys);

    if (repaired->entries[at].keys == 0)
        return repaired->overflow;
    return repaired->entries[at].etag != 0 &&
           repaired->entries[at].etag != hash_etag(source->etag);
}
