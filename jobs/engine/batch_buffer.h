/* SPDX-License-Identifier: MIT */
/*
 * A batch is a batch in the making, and on its way: operations of one table and
 * PartitionKey, each with its sequence number and its fate. Used by batch
 * writer and resolve alone.
 */
#ifndef TW_JOBS_ENGINE_BATCH_BUFFER_H
#define TW_JOBS_ENGINE_BATCH_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/batch_writer.h"
#include "worker/base/arena.h"
#include "worker/store/request_pool.h"
#include "worker/store/store.h"

enum entry_state {
    ENTRY_SEND,    /* to be sent, again perhaps */
    ENTRY_DONE,    /* what was wanted is so */
    ENTRY_NO_OP,   /* it was so before */
    ENTRY_ABSENT,  /* what was to be deleted was not there any more */
    ENTRY_SKIPPED, /* it no longer concerns the run */
    ENTRY_FAILED,  /* it can never succeed: entry->why */
};

struct batch_buffer_entry {
    struct batch_item item; /* its operation lives in the batch's arena */
    uint64_t sequence;
    enum entry_state fate;
    const char *why;
    struct slice etag;  /* of what is stored now, once that is known */
    bool indeterminate; /* the outcome of a request that carried it was unknown
                         */
};

struct batch_buffer {
    struct pool_request task; /* first, so that it leads back to the batch */
    struct batch_buffer *next;
    struct arena arena;
    struct store *store;
    const char *table;
    struct slice partition_key;

    struct batch_buffer_entry *entries;
    size_t count, room;
    size_t bytes;              /* when encoded, counted generously */
    struct slice last_row_key; /* of the entries, while they are in order */
    bool in_order;

    /* While it is sent. */
    struct batch batch;
    struct batch_result *result; /* in arena */

    unsigned singles;  /* refused operations that were read one by one */
    unsigned rounds;   /* answers in a row after which none was settled */
    unsigned unknowns; /* unknown outcomes in a row */
    int64_t not_before_ms;
    struct resolving *resolving; /* what it met is being read, or NULL; */
    size_t resolving_bytes;      /* the batch writer counts so much for that */
    bool waits_to_resolve;       /* for its turn */
};

/* batch_buffer_new: an empty one for what item is for. Owned. */
struct batch_buffer *batch_buffer_new(const struct batch_item *item);
void batch_buffer_free(struct batch_buffer *batch_buffer);

/* batch_buffer_takes: is item for this table and PartitionKey? */
bool batch_buffer_takes(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

/* batch_buffer_has_room: would item still go into the same batch? Not when it
 * is full or would be too large, nor when it has the same key already. */
bool batch_buffer_has_room(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

void batch_buffer_add(struct batch_buffer *batch_buffer,
    const struct batch_item *item, uint64_t sequence);

/* batch_buffer_find: the entry of that RowKey, or NULL. */
struct batch_buffer_entry *batch_buffer_find(
    const struct batch_buffer *batch_buffer, struct slice row_key);

/* batch_buffer_change: send operation instead; copied. */
void batch_buffer_change(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const struct operation *operation);

/* batch_buffer_store: entry ends with fate, and this ETag (copied) is stored
 * now. */
void batch_buffer_store(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, enum entry_state fate, struct slice etag);

/* batch_buffer_doubt: nobody knows what became of the operations just sent. */
void batch_buffer_doubt(struct batch_buffer *batch_buffer);

/* batch_buffer_fail: entry can never succeed. */
void batch_buffer_fail(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const char *why);

/* batch_buffer_compact: keep only what is to be sent, and only its memory. */
void batch_buffer_compact(struct batch_buffer *batch_buffer);

/* batch_buffer_split: the second half goes into a batch of its own. Owned. */
struct batch_buffer *batch_buffer_split(struct batch_buffer *batch_buffer);

/* batch_buffer_submit: hand it to the request pool; it is borrowed until it is
 * done. */
void batch_buffer_submit(
    struct batch_buffer *batch_buffer, struct pool_client *request_pool);

/* batch_buffer_call: the same, and it is done when this returns. */
void batch_buffer_call(
    struct batch_buffer *batch_buffer, struct pool_client *request_pool);

#endif
