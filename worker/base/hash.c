/* SPDX-License-Identifier: MIT */
/* FNV-1a, a byte at a time. */
#include "worker/base/hash.h"

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t hash_slice(uint64_t hash, struct slice text)
{
    return hash_bytes(hash, text.at, text.len);
}

uint64_t hash_mix(uint64_t hash)
{
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}
