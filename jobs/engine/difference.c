/* SPDX-License-Identifier: MIT */
/* Differences between two sides, by sums of digests in buckets. */
#include "jobs/engine/difference.h"

#include <stddef.h>
#include <stdint.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

struct difference {
    struct digest buckets[DIFFERENCE_BUCKETS];
};

static size_t bucket_of(struct slice partition_key, struct slice row_key)
{
    uint64_t hash = hash_slice(HASH_BEGIN, partition_key);

    hash = hash_slice(hash, slice_of("/"));
    hash = hash_slice(hash, row_key);
    return (size_t)(hash_mix(hash) % DIFFERENCE_BUCKETS);
}

static bool is_zero(const struct digest *digest)
{
    return digest->low == 0 && digest->high == 0;
}

/* Returns -digest modulo 2^128. */
static struct digest negated(struct digest digest)
{
    return (struct digest){
        .low = ~digest.low + 1, .high = ~digest.high + (digest.low == 0)};
}

struct difference *difference_new(void)
{
    return mem_alloc(sizeof(struct difference));
}

void difference_free(struct difference *difference)
{
    mem_free(difference);
}

void difference_expect(struct difference *difference,
    struct slice partition_key, struct slice row_key, struct digest digest)
{
    digest_add(&difference->buckets[bucket_of(partition_key, row_key)], digest);
}

void difference_found(struct difference *difference, struct slice partition_key,
    struct slice row_key, struct digest digest)
{
    difference_expect(difference, partition_key, row_key, negated(digest));
}

bool difference_is_none(const struct difference *difference)
{
    for (size_t i = 0; i < DIFFERENCE_BUCKETS; i++)
        if (!is_zero(&difference->buckets[i]))
            return false;
    return true;
}

bool difference_is_at(const struct difference *difference,
    struct slice partition_key, struct slice row_key)
{
    return !is_zero(&difference->buckets[bucket_of(partition_key, row_key)]);
}
