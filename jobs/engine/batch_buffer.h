/* SPDX-License-Identifier: MIT */
/*
 * A batch buffer gathers operations of one table and PartitionKey into a batch
 * and keeps them until they are completed: each with its sequence number and
 * its state. Only the batch writer and resolve use it.
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
    ENTRY_SEND,    /* to be sent, or to be sent again */
    ENTRY_DONE,    /* the wanted state exists */
    ENTRY_NO_OP,   /* the wanted state existed before */
    ENTRY_ABSENT,  /* the entity to delete did not exist any more */
    ENTRY_SKIPPED, /* the entity no longer concerns the run */
    ENTRY_FAILED,  /* it can never succeed: entry->why */
};

struct batch_buffer_entry {
    struct batch_item item; /* its operation lives in the batch's arena */
    uint64_t sequence;
    enum entry_state fate;
    const char *why;
    struct slice etag;  /* of the current state, once it is known */
    bool indeterminate; /* a request that carried the operation had an unknown
                         * outcome */
};

struct batch_buffer {
    struct pool_request task; /* first member: cast to the batch */
    struct batch_buffer *next;
    struct arena arena;
    struct store *store;
    const char *table;
    struct slice partition_key;

    struct batch_buffer_entry *entries;
    size_t count, room;
    size_t bytes;              /* encoded size, an upper estimate */
    struct slice last_row_key; /* of the newest entry; the greatest while
                                * in_order */
    bool in_order;

    /* Used while the batch is sent. */
    struct batch batch;
    struct batch_result *result; /* in arena */

    unsigned singles;  /* refused operations that were re-read one by one */
    unsigned rounds;   /* responses in a row that completed no operation */
    unsigned unknowns; /* unknown outcomes in a row */
    int64_t not_before_ms;
    struct resolving *resolving; /* the re-read in progress, or NULL */
    size_t resolving_bytes;      /* what the batch writer counts for that
                                  * re-read */
    bool waits_to_resolve; /* the re-read has to wait: see RESOLVING_MAX */
};

/* batch_buffer_new: an empty batch for the table and PartitionKey of item.
 * Owned. */
struct batch_buffer *batch_buffer_new(const struct batch_item *item);
void batch_buffer_free(struct batch_buffer *batch_buffer);

/* batch_buffer_takes: has item the table and PartitionKey of this batch? */
bool batch_buffer_takes(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

/*
 * batch_buffer_has_room: can item be added to this batch? False if the batch is
 * full, would become too large, or has an operation with the same key already.
 */
bool batch_buffer_has_room(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

void batch_buffer_add(struct batch_buffer *batch_buffer,
    const struct batch_item *item, uint64_t sequence);

/* batch_buffer_find: the entry with that RowKey, or NULL. */
struct batch_buffer_entry *batch_buffer_find(
    const struct batch_buffer *batch_buffer, struct slice row_key);

/* batch_buffer_change: replace the operation of entry by this one (copied), to
 * be sent. */
void batch_buffer_change(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const struct operation *operation);

/* batch_buffer_store: set the state of entry and the ETag (copied) of the
 * entity as it is stored now. */
void batch_buffer_store(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, enum entry_state fate, struct slice etag);

/* batch_buffer_doubt: mark all entries as indeterminate: the outcome of the
 * request that carried them is unknown. */
void batch_buffer_doubt(struct batch_buffer *batch_buffer);

/* batch_buffer_fail: mark entry as failed for good; why is copied. */
void batch_buffer_fail(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const char *why);

/* batch_buffer_compact: keep only the entries to be sent, and free the memory
 * of all others. */
void batch_buffer_compact(struct batch_buffer *batch_buffer);

/* batch_buffer_split: move the second half into a new batch. Owned. */
struct batch_buffer *batch_buffer_split(struct batch_buffer *batch_buffer);

/* batch_buffer_submit: hand the batch to the request pool, which borrows it
 * until the request is done. */
void batch_buffer_submit(
    struct batch_buffer *batch_buffer, struct pool_client *request_pool);

/* batch_buffer_call: submit the batch and wait until the request is done. */
void batch_buffer_call(
    struct batch_buffer *batch_buffer, struct pool_client *request_pool);

#endif
