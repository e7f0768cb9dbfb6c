/* SPDX-License-Identifier: MIT */
/*
 * Fills and reads a store without a worker, for programs that are no unit
 * tests. If a call fails, it prints why and ends the process with exit code 2.
 */
#ifndef TW_TESTS_DIRECT_H
#define TW_TESTS_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/store/store.h"

/* Arguments for "%.*s/%.*s": the keys of an entity, or of any struct with
 * partition_key and row_key. */
#define ENTITY_KEYS(entity)                                                    \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

/* direct_open: opens the embedded store in the file `path`, which is
 * borrowed. */
struct store *direct_open(const char *name, const char *path);

/* direct_insert: creates the table if it does not exist, and inserts an entity.
 * direct_put: creates the queue if it does not exist, and puts a message into
 * it. */
void direct_insert(
    struct store *store, const char *table, const struct entity *entity);
void direct_put(struct store *store, const char *queue, const char *text);

/* direct_messages: returns the number of messages of a queue, hidden ones
 * included; -1: there is no such queue. */
int64_t direct_messages(struct store *store, const char *queue);

/* direct_get: reads an entity into `to` (NULL: it is not kept). It never ends
 * the process, but returns the outcome; TW_NOT_FOUND: there is no such
 * entity. */
enum tw_err direct_get(struct store *store, const char *table,
    struct slice partition_key, struct slice row_key, struct page *to);

/* direct_each_table: calls seen() for each entity of all tables until seen()
 * returns false. Returns false if seen() did. */
typedef bool direct_seen(
    void *ctx, const char *table, const struct entity *entity);
bool direct_each_table(struct store *store, direct_seen *seen, void *ctx);

#endif
