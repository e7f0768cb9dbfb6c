/* SPDX-License-Identifier: MIT */
/* Several point reads at once: entities that lie scattered over a table. */
#ifndef TW_JOBS_ENGINE_GETS_H
#define TW_JOBS_ENGINE_GETS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/store/request_pool.h"

/* So many are in flight. */
#define GETS_MAX 16

struct get {
    /* Set by the caller; borrowed. */
    struct store *store;
    const char *table;
    struct slice partition_key, row_key;

    /* NULL: there is no such entity. Lives until gets_done(). */
    const struct entity *found;

    struct pool_request task;
    struct page page;
};

struct gets {
    struct get list[GETS_MAX];
    size_t count;
};

/* gets_add: an entity to be read; at most GETS_MAX. */
void gets_add(struct gets *gets, struct store *store, const char *table,
    struct slice partition_key, struct slice row_key);

/* gets_read: read them all, and wait. TW_NOT_FOUND of one is no error; any
 * other outcome is the first that could not be repaired. */
TW_MUST_USE enum tw_err gets_read(
    struct gets *gets, struct pool_client *request_pool, struct err *err);

/* gets_done: empty again. */
void gets_done(struct gets *gets);

#endif
