/* SPDX-License-Identifier: MIT */
/*
 * Hashes for tables and buckets in memory: fast, not cryptographic. For a
 * stored or unpredictable digest use crypto.h.
 *
 * FNV-1a of 64 bits; source: "The FNV Non-Cryptographic Hash Algorithm".
 */
#ifndef TW_BASE_HASH_H
#define TW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"

#define HASH_BEGIN UINT64_C(14695981039346656037)

/* hash_bytes, hash_slice: return the hash of earlier bytes followed by the
 * given bytes. `hash` is the hash of the earlier bytes; HASH_BEGIN: there are
 * none. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len);
uint64_t hash_slice(uint64_t hash, struct slice text);

/* hash_mix: do the last step of SplitMix64, so that each bit of the result
 * depends on all bits of hash. */
uint64_t hash_mix(uint64_t hash);

#endif
