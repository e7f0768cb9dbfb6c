/* SPDX-License-Identifier: MIT */
/* Several point reads at once, of entities scattered over a table. */
#ifndef TW_JOBS_ENGINE_GETS_H
#define TW_JOBS_ENGINE_GETS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/store/request_pool.h"

/* The number of reads in flight. */
#define GETS_MAX 16

struct get {
    /* Set by the caller; borrowed. */
    struct store *store;
    const char *table;
    struct slice partition_key, row_key;

    /* NULL: the entity does not exist. Lives until gets_done(). */
    const struct entity *found;

    struct pool_request task;
    struct page page;
};

struct gets {
    struct get list[GETS_MAX];
    size_t count;
};

/* gets_add: add an entity to be read; at most GETS_MAX. */
void gets_add(struct gets *gets, struct store *store, const char *table,
    struct slice partition_key, struct slice row_key);

/* gets_read: read all entities and wait. TW_NOT_FOUND of one read is no error;
 * any other outcome is that of the first read that no retry could repair. */
TW_MUST_USE enum tw_err gets_read(
    struct gets *gets, struct pool_client *request_pool, struct err *err);

/* gets_done: free the pages; the list is empty again. */
void gets_done(struct gets *gets);

#endif
