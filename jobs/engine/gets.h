/* SPDX-License-Identifier: MIT */
/* Reads several entities, which may be anywhere in a table, by concurrent point
 * reads. */
#ifndef TW_JOBS_ENGINE_GETS_H
#define TW_JOBS_ENGINE_GETS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/store/request_pool.h"

/* Maximum number of concurrent reads. */
#define GETS_MAX 16

struct get {
    /* Set by gets_add(); borrowed from the caller. */
    struct store *store;
    const char *table;
    struct slice partition_key, row_key;

    /* The entity that was read; NULL: it does not exist. Lives until
     * gets_done(). */
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

/* gets_read: read all entities and wait. TW_OK also if entities do not exist;
 * their get->found is then NULL. Any other outcome is that of the first get in
 * the list that failed after all retries. */
TW_MUST_USE enum tw_err gets_read(
    struct gets *gets, struct pool_client *pool_client, struct err *err);

/* gets_done: free what was read, and empty the list. */
void gets_done(struct gets *gets);

#endif
