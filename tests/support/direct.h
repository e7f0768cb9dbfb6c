/* SPDX-License-Identifier: MIT */
/*
 * A store that is filled and looked at directly, by programs that are no unit
 * tests. What fails ends the process with 2, and says why.
 */
#ifndef TW_TESTS_DIRECT_H
#define TW_TESTS_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/store/store.h"

/* For "%.*s/%.*s": the keys of an entity, or of what else has both. */
#define ENTITY_KEYS(entity)                                                    \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

/* direct_open: the embedded store of that file. path is borrowed. */
struct store *direct_open(const char *name, const char *path);

/* direct_insert: an entity, into a table that is made. direct_put: a message,
 * into a queue that is made. */
void direct_insert(
    struct store *store, const char *table, const struct entity *entity);
void direct_put(struct store *store, const char *queue, const char *text);

/* direct_messages: of a queue, hidden or not; -1: there is no such queue. */
int64_t direct_messages(struct store *store, const char *queue);

/* direct_get: TW_NOT_FOUND: it is not there. Whatever else it may be is the
 * caller's. to: NULL: nobody looks. */
enum tw_err direct_get(struct store *store, const char *table,
    struct slice partition_key, struct slice row_key, struct page *to);

/* direct_each: has the entities of a table seen until seen() says false.
 * direct_each_table: those of all tables. False: it did. */
typedef bool direct_seen(
    void *ctx, const char *table, const struct entity *entity);
bool direct_each(
    struct store *store, const char *table, direct_seen *seen, void *ctx);
bool direct_each_table(struct store *store, direct_seen *seen, void *ctx);

#endif
