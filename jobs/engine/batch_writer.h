/* SPDX-License-Identifier: MIT */
/*
 * A batch writer sends a kind's operations to the store. It groups them by
 * table and PartitionKey into batches of at most 100 operations and at most the
 * size that the store allows, and keeps several batches in flight. If a batch
 * is refused, or its outcome is unknown, the batch writer re-reads the entities
 * and the kind decides again. So every operation ends as done, no-op, skipped
 * or failed.
 *
 * Operations are added in the order of the scan. Each gets a sequence number.
 * All operations up to the low-water mark are completed; a checkpoint may cover
 * only these.
 *
 * A batch writer is used only by the thread of its run.
 */
#ifndef TW_JOBS_ENGINE_BATCH_WRITER_H
#define TW_JOBS_ENGINE_BATCH_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct batch_writer;
struct run;

/* The kind's decision about an operation whose entity is no longer in the state
 * that was read. */
enum write_decision {
    WRITE_SEND,    /* send *ret now, with the ETag just read */
    WRITE_IS_DONE, /* the wanted state exists: counted as done */
    WRITE_NO_OP,   /* the wanted state existed before this operation: not
                    * counted */
    WRITE_SKIP,    /* the entity no longer concerns the run: counted as
                    * skipped */
    WRITE_FAIL,    /* the operation can never succeed; err says why */
};

/* How an operation ended. */
enum batch_writer_end {
    WRITTEN,           /* the operation was carried out, or the kind decided
                        * WRITE_IS_DONE */
    WRITE_WAS_NO_OP,   /* the kind decided WRITE_NO_OP */
    WRITE_OF_ABSENT,   /* the entity to delete did not exist any more */
    WRITE_WAS_SKIPPED, /* the kind decided WRITE_SKIP */
    WRITE_FAILED,      /* the kind decided WRITE_FAIL, or the service refuses
                        * the operation */
};

struct batch_writer_completed {
    enum batch_writer_end end;
    bool indeterminate; /* a request that carried the operation had an unknown
                         * outcome: the current state may come from this very
                         * operation, and a late request may still arrive */
    struct slice etag;  /* ETag of the entity as stored now. Known after an
                         * insert, replace or merge that was carried out, and
                         * after WRITE_IS_DONE or WRITE_NO_OP on a re-read
                         * entity; else empty. Lives until the callback
                         * returns */
};

struct batch_item {
    struct store *store;        /* borrowed for the life of the batch writer */
    const char *table;          /* borrowed for the life of the batch writer */
    struct operation operation; /* copied; a delete uses only keys and ETag */

    /*
     * decide: called when the entity was re-read, after a refusal or an unknown
     * outcome, and is not in the state that the operation expects. `now` is the
     * entity with all its properties; NULL: it does not exist. For WRITE_SEND,
     * decide fills *ret, whose texts live in arena or in `now`. context is
     * item->context. In these cases the batch writer decides itself: a delete
     * or an insert finds no entity; the ETag is unchanged.
     *
     * A merge or a replace of an entity that does not exist any more is decided
     * with now = NULL: return WRITE_SKIP, WRITE_NO_OP or WRITE_FAIL, or send an
     * insert. Do not send the merge or replace again: there is no ETag for it.
     */
    enum write_decision (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void *context; /* borrowed until the item is completed */

    /*
     * completed (may be NULL): called once when the operation is completed, on
     * the run's thread, within a function of the batch writer. completed may
     * not call this batch writer, but may add operations to another one. It is
     * not called for operations that batch_writer_finish() or a broken batch
     * writer drops.
     */
    void (*completed)(void *context, const struct batch_writer_completed *how);
};

/*
 * batch_writer_new: returns a batch writer for run that keeps at most in_flight
 * batches in flight (the request pool may allow fewer). Owned by the caller.
 */
struct batch_writer *batch_writer_new(struct run *run, unsigned in_flight);

/*
 * batch_writer_add: add an operation to the open batch of its table and
 * partition. A batch is sent when it is full, or when too many batches are
 * open. batch_writer_seal() and batch_writer_drain() send the batches that are
 * still open. batch_writer_add() may wait until other batches are completed.
 * Afterwards batch_writer_sequence() is the sequence number of the operation;
 * the first operation has 1. An outcome other than TW_OK is the outcome of a
 * batch that failed for good (the request pool's final outcome, or TW_STOPPED).
 * The batch writer is then broken and takes no more operations;
 * batch_writer_finish() can still be called.
 */
TW_MUST_USE enum tw_err batch_writer_add(struct batch_writer *batch_writer,
    const struct batch_item *item, struct err *err);

/*
 * batch_writer_seal: send all queued batches without waiting for their
 * responses. Call when no later operation can be added to these batches,
 * because the scan has left a partition or a rule is done.
 */
TW_MUST_USE enum tw_err batch_writer_seal(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_drain: send all queued batches, and wait until every operation
 * is completed. A single batch is sent on the calling thread. */
TW_MUST_USE enum tw_err batch_writer_drain(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_finish: wait for the batches in flight, and drop the operations
 * that were not sent. */
void batch_writer_finish(struct batch_writer *batch_writer);

/* batch_writer_sequence: returns the newest sequence number. */
uint64_t batch_writer_sequence(const struct batch_writer *batch_writer);

/* batch_writer_low_water: returns the low-water mark; all operations up to this
 * sequence number are completed. First handles the responses that have arrived
 * (so operations may be completed or fail), and sends ready batches. */
uint64_t batch_writer_low_water(struct batch_writer *batch_writer);

/* batch_writer_failed: returns the number of operations of this batch writer
 * with the end WRITE_FAILED. */
int64_t batch_writer_failed(const struct batch_writer *batch_writer);

/* batch_writer_done: returns the number of operations of this batch writer with
 * the end WRITTEN or WRITE_OF_ABSENT. */
int64_t batch_writer_done(const struct batch_writer *batch_writer);

/* batch_writer_is_indeterminate: has any request of this batch writer had an
 * unknown outcome? The store may still carry out the operations of that request
 * late, even operations that the batch writer has dropped. */
bool batch_writer_is_indeterminate(const struct batch_writer *batch_writer);

/* batch_writer_free: calls batch_writer_finish() first. Does nothing if given
 * NULL. */
void batch_writer_free(struct batch_writer *batch_writer);

#endif
