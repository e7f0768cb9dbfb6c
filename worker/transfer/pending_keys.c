/* SPDX-License-Identifier: MIT */
/* A set of hashes with open addressing, never more than half full. */
#include "worker/transfer/pending_keys.h"

#include <string.h>

#include "worker/base/hash.h"

static uint64_t hash_keys(const struct entity *entity)
{
    const struct slice nul = {"", 1}; /* no key has one */
    uint64_t hash = hash_slice(HASH_BEGIN, entity->partition_key);

    hash = hash_slice(hash_slice(hash, nul), entity->row_key);
    return hash ? hash : 1;
}

bool stretch_add(struct stretch *stretch, const struct entity *entity)
{
    uint64_t hash = hash_keys(entity);
    size_t at = hash % STRETCH_PLACES;

    while (stretch->places[at] && stretch->places[at] != hash)
        at = (at + 1) % STRETCH_PLACES;
    if (stretch->places[at] || stretch->count == STRETCH_MAX)
        return false;
    stretch->places[at] = hash;
    stretch->count++;
    return true;
}

void stretch_clear(struct stretch *stretch)
{
    if (stretch->count > 0)
        memset(stretch, 0, sizeof(*stretch));
}
