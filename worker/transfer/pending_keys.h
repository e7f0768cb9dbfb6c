/* SPDX-License-Identifier: MIT */
/*
 * The keys of the records that an import has sent and not yet confirmed. Two
 * records of one key must not be in flight together, because the service might
 * apply the later one first. The set holds hashes, because a collision costs
 * only a wait.
 */
#ifndef TW_TRANSFER_PENDING_KEYS_H
#define TW_TRANSFER_PENDING_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/store/entity.h"

#define PENDING_KEYS_MAX 32768
#define PENDING_KEYS_BUCKETS (2 * PENDING_KEYS_MAX) /* a power of two */

struct pending_keys {
    size_t count;
    uint64_t buckets[PENDING_KEYS_BUCKETS]; /* hashes of the keys; 0: an empty
                                               bucket */
};

/* pending_keys_add: add the key of entity. False: the key is in the set
 * already, or the set is full. */
bool pending_keys_add(struct pending_keys *keys, const struct entity *entity);

/* pending_keys_clear: remove all keys. */
void pending_keys_clear(struct pending_keys *keys);

#endif
