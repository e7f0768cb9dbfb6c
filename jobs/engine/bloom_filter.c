/* SPDX-License-Identifier: MIT */
/* A Bloom filter: each key sets some bits, chosen by double hashing. */
#include "jobs/engine/bloom_filter.h"

#include <stdint.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

#define BITS (UINT64_C(8) * 1024 * 1024) /* a power of two */
#define BITS_PER_KEY 12

struct bloom_filter {
    unsigned char bits[BITS / 8];
};

/* ---- hashes ---- */

/* Returns the hash of a key. PartitionKey is hashed after its length, so that
 * no two pairs of keys are hashed as the same bytes. */
static uint64_t hash_of(uint64_t seed, size_t table, struct slice partition_key,
    struct slice row_key)
{
    uint64_t hash = HASH_BEGIN ^ seed;

    hash = hash_bytes(hash, &table, sizeof table);
    hash = hash_bytes(hash, &partition_key.len, sizeof partition_key.len);
    hash = hash_slice(hash, partition_key);
    return hash_mix(hash_slice(hash, row_key));
}

/* The positions of a key's bits. */
struct walk {
    uint64_t at, step;
};

static struct walk walk_of(
    size_t table, struct slice partition_key, struct slice row_key)
{
    return (struct walk){
        .at = hash_of(0, table, partition_key, row_key),
        .step = hash_of(UINT64_MAX, table, partition_key, row_key) | 1,
    };
}

static uint64_t next_bit(struct walk *walk)
{
    walk->at += walk->step;
    return walk->at % BITS;
}

/* ---- public functions ---- */

struct bloom_filter *bloom_filter_new(void)
{
    return mem_alloc(sizeof(struct bloom_filter));
}

void bloom_filter_free(struct bloom_filter *set)
{
    mem_free(set);
}

void bloom_filter_add(struct bloom_filter *set, size_t table,
    struct slice partition_key, struct slice row_key)
{
    struct walk walk = walk_of(table, partition_key, row_key);

    for (int i = 0; i < BITS_PER_KEY; i++) {
        uint64_t bit = next_bit(&walk);

        set->bits[bit / 8] |= (unsigned char)(1u << (bit % 8));
    }
}

bool bloom_filter_has(const struct bloom_filter *set, size_t table,
    struct slice partition_key, struct slice row_key)
{
    struct walk walk = walk_of(table, partition_key, row_key);

    for (int i = 0; i < BITS_PER_KEY; i++) {
        uint64_t bit = next_bit(&walk);

        if (!(set->bits[bit / 8] >> (bit % 8) & 1))
            return false;
    }
    return true;
}
