/* SPDX-License-Identifier: MIT */
/*
 * A set of keys in constant memory (a Bloom filter of 1 MiB): what was added is
 * always found; what was not is found in one of some 10^10 cases, as long as no
 * more was added than it is made for.
 */
#ifndef TW_JOBS_ENGINE_KEYSET_H
#define TW_JOBS_ENGINE_KEYSET_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/slice.h"

#define KEYSET_MAX_KEYS 100000

struct keyset;

/* keyset_new: empty. Owned. keyset_free: NULL: nothing. */
struct keyset *keyset_new(void);
void keyset_free(struct keyset *set);

/* keyset_add: a key of table number `table`. */
void keyset_add(struct keyset *set, size_t table, struct slice partition_key,
    struct slice row_key);

bool keyset_has(const struct keyset *set, size_t table,
    struct slice partition_key, struct slice row_key);

#endif
