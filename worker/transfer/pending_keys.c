/* SPDX-License-Identifier: MIT */
/* A set of hashes with open addressing, at most half full. */
#include "worker/transfer/pending_keys.h"

#include <string.h>

#include "worker/base/hash.h"

static uint64_t hash_keys(const struct entity *entity)
{
    const struct slice nul = {"", 1}; /* no key contains a NUL */
    uint64_t hash = hash_slice(HASH_BEGIN, entity->partition_key);

    hash = hash_slice(hash_slice(hash, nul), entity->row_key);
    return hash ? hash : 1;
}

bool pending_keys_add(struct pending_keys *keys, const struct entity *entity)
{
    uint64_t hash = hash_keys(entity);
    size_t at = hash % PENDING_KEYS_BUCKETS;

    while (keys->buckets[at] && keys->buckets[at] != hash)
        at = (at + 1) % PENDING_KEYS_BUCKETS;
    if (keys->buckets[at] || keys->count == PENDING_KEYS_MAX)
        return false;
    keys->buckets[at] = hash;
    keys->count++;
    return true;
}

void pending_keys_clear(struct pending_keys *keys)
{
    if (keys->count > 0)
        memset(keys, 0, sizeof(*keys));
}
