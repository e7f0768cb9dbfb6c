/* SPDX-License-Identifier: MIT */
/*
 * A set of keys in constant memory (a Bloom filter of 1 MiB). An added key is
 * always found. A key that was not added is found with a probability of about 1
 * in 10^10, as long as no more than BLOOM_FILTER_MAX_KEYS keys were added.
 */
#ifndef TW_JOBS_ENGINE_BLOOM_FILTER_H
#define TW_JOBS_ENGINE_BLOOM_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/slice.h"

#define BLOOM_FILTER_MAX_KEYS 100000

struct bloom_filter;

/* bloom_filter_new: returns an empty set, owned by the caller.
 * bloom_filter_free: does nothing if given NULL. */
struct bloom_filter *bloom_filter_new(void);
void bloom_filter_free(struct bloom_filter *set);

/* bloom_filter_add: add a key of the table with the index `table`, which the
 * caller chooses. */
void bloom_filter_add(struct bloom_filter *set, size_t table,
    struct slice partition_key, struct slice row_key);

bool bloom_filter_has(const struct bloom_filter *set, size_t table,
    struct slice partition_key, struct slice row_key);

#endif
