/* SPDX-License-Identifier: MIT */
/*
 * A batch buffer gathers operations of one table and PartitionKey into a batch
 * and keeps them until they are completed. An entry is one operation with its
 * sequence number and its state. Only batch_writer.c and resolve.c use batch
 * buffers.
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
    ENTRY_SEND,    /* the operation must be sent, or sent again */
    ENTRY_DONE,    /* the wanted state exists */
    ENTRY_NO_OP,   /* the wanted state existed before this operation */
    ENTRY_ABSENT,  /* the entity to delete did not exist any more */
    ENTRY_SKIPPED, /* the entity no longer concerns the run */
    ENTRY_FAILED,  /* the operation can never succeed; entry->why has the
                    * reason */
};

struct batch_buffer_entry {
    struct batch_item item; /* item.operation lives in the batch's arena */
    uint64_t sequence;
    enum entry_state state;
    const char *why;
    struct slice etag;  /* ETag of the entity as stored now, once known; else
                         * empty */
    bool indeterminate; /* a request that carried the operation had an unknown
                         * outcome */
};

struct batch_buffer {
    struct pool_request task; /* must be the first member: the request pool's
                               * pointer to it is cast to the batch */
    struct batch_buffer *next;
    struct arena arena;
    struct store *store;
    const char *table;
    struct slice partition_key;

    struct batch_buffer_entry *entries;
    size_t count, room;
    size_t bytes;              /* upper estimate of the encoded size of all
                                * entries */
    struct slice last_row_key; /* RowKey of the newest entry; the greatest
                                * RowKey while in_order */
    bool in_order; /* the entries are in the order of their RowKeys */

    /* Used while the batch is sent. */
    struct batch batch;
    struct batch_result *result; /* result of the request; lives in arena */

    unsigned singles;      /* number of refusals so far that were handled by
                            * re-reading only the refused entity */
    unsigned rounds;       /* number of responses in a row that completed no
                            * operation */
    unsigned unknowns;     /* number of unknown outcomes in a row */
    int64_t not_before_ms; /* the batch is not sent before this time
                            * of platform_boot_ms() */
    struct resolving *resolving; /* the re-read in progress; NULL: none */
    size_t resolving_bytes;      /* estimated memory of the re-read in progress,
                                  * as the batch writer counts it */
    bool waits_to_resolve; /* the re-read has not begun, because too many other
                            * re-reads are in progress (RESOLVING_MAX) */
};

/* batch_buffer_new: returns an empty batch for the table and PartitionKey of
 * item, owned by the caller. */
struct batch_buffer *batch_buffer_new(const struct batch_item *item);
void batch_buffer_free(struct batch_buffer *batch_buffer);

/* batch_buffer_takes: does item have the store, table and PartitionKey of this
 * batch? */
bool batch_buffer_takes(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

/*
 * batch_buffer_has_room: can item be added to this batch? False if the batch is
 * full, would become too large, or already has an operation with the RowKey of
 * item.
 */
bool batch_buffer_has_room(
    const struct batch_buffer *batch_buffer, const struct batch_item *item);

void batch_buffer_add(struct batch_buffer *batch_buffer,
    const struct batch_item *item, uint64_t sequence);

/* batch_buffer_find: returns the entry with that RowKey, or NULL. */
struct batch_buffer_entry *batch_buffer_find(
    const struct batch_buffer *batch_buffer, struct slice row_key);

/* batch_buffer_change: replace the operation of entry by `operation` (copied),
 * which is sent next. */
void batch_buffer_change(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const struct operation *operation);

/* batch_buffer_store: set the state of entry to `state`, and its ETag to `etag`
 * (copied), which the stored entity has now. */
void batch_buffer_store(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, enum entry_state state,
    struct slice etag);

/* batch_buffer_doubt: mark all entries as indeterminate, because the outcome of
 * the request that carried them is unknown. */
void batch_buffer_doubt(struct batch_buffer *batch_buffer);

/* batch_buffer_fail: mark entry as failed for good, for the reason `why`
 * (copied). */
void batch_buffer_fail(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const char *why);

/* batch_buffer_compact: keep only the entries in state ENTRY_SEND, and free the
 * memory of all others. */
void batch_buffer_compact(struct batch_buffer *batch_buffer);

/* batch_buffer_split: move the second half of the entries into a new batch and
 * return that batch, owned by the caller. */
struct batch_buffer *batch_buffer_split(struct batch_buffer *batch_buffer);

/* batch_buffer_submit: hand the batch to the request pool, which borrows it
 * until the request is done. */
void batch_buffer_submit(
    struct batch_buffer *batch_buffer, struct pool_client *pool_client);

/* batch_buffer_call: submit the batch and wait until the request is done. */
void batch_buffer_call(
    struct batch_buffer *batch_buffer, struct pool_client *pool_client);

#endif
