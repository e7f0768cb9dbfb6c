/* SPDX-License-Identifier: MIT */
/*
 * A batch writer sends a kind's operations to the store: grouped by table and
 * PartitionKey, in batches of at most 100 operations and the store's size
 * limit, several batches in flight. If a batch is refused, or its outcome is
 * unknown, the batch writer re-reads the entities and the kind decides again.
 * Every operation so ends as done, no-op, skipped or failed, and the set of
 * open ones only shrinks.
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

/* The kind's decision about an entity whose current state is not the one that
 * was read. */
enum write_decision {
    WRITE_SEND,    /* send *ret now, with the ETag just read */
    WRITE_IS_DONE, /* the wanted state exists: counted as done */
    WRITE_NO_OP,   /* the wanted state existed before: not counted */
    WRITE_SKIP,    /* it no longer concerns the run: counted as skipped */
    WRITE_FAIL,    /* can never succeed; err says why */
};

/* How an operation ended. */
enum batch_writer_end {
    WRITTEN, /* carried out, or the wanted state exists (WRITE_IS_DONE) */
    WRITE_WAS_NO_OP,   /* WRITE_NO_OP */
    WRITE_OF_ABSENT,   /* a delete of an entity that did not exist any more */
    WRITE_WAS_SKIPPED, /* WRITE_SKIP */
    WRITE_FAILED,      /* WRITE_FAIL, or the service refuses the operation */
};

struct batch_writer_settled {
    enum batch_writer_end end;
    bool indeterminate; /* a request that carried the operation had an unknown
                         * outcome: the current state may come from this very
                         * operation, and a late request may still arrive */
    struct slice etag;  /* of the current state, where it is known: after an
                         * insert, replace or merge that was carried out, and of
                         * the entity that was re-read at WRITE_IS_DONE and
                         * WRITE_NO_OP; else empty. Lives until the callback
                         * returns */
};

struct batch_item {
    struct store *store;        /* borrowed for the life of the batch writer */
    const char *table;          /* borrowed for the life of the batch writer */
    struct operation operation; /* copied; of a delete only keys and ETag are
                                 * used */

    /*
     * decide: called if the entity's current state is not the one that was
     * read, or if the outcome is unknown. now is the entity with all its
     * properties; NULL: it does not exist. The kind is not asked where a delete
     * finds no entity, where an insert finds none, and where the ETag is
     * unchanged. ret is filled for WRITE_SEND; what it refers to lives in arena
     * or in now. context is the item's.
     */
    enum write_decision (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void *context; /* borrowed until the item is completed */

    /*
     * settled (may be NULL): called once when the operation is completed, on
     * the run's thread, within a function of the batch writer. It may not call
     * this batch writer, but may add to another one. It is not called for
     * operations that batch_writer_finish() or a broken batch writer drops.
     */
    void (*settled)(void *context, const struct batch_writer_settled *how);
};

/*
 * batch_writer_new: for run, with at most in_flight batches in flight (the
 * request pool may allow fewer). Owned.
 */
struct batch_writer *batch_writer_new(struct run *run, unsigned in_flight);

/*
 * batch_writer_add: add an operation; may wait until there is room. Its
 * sequence number is then batch_writer_sequence(), from 1 upwards. Any outcome
 * but TW_OK is that of a batch that no retry can repair (the request pool's
 * final outcome; TW_STOPPED): the batch writer is broken and takes no more
 * operations; batch_writer_finish() can still be called.
 */
TW_MUST_USE enum tw_err batch_writer_add(struct batch_writer *batch_writer,
    const struct batch_item *item, struct err *err);

/*
 * batch_writer_seal: send all queued batches without waiting for their
 * responses. The caller knows that no later operation can join them (the scan
 * has left a partition, a rule is done).
 */
TW_MUST_USE enum tw_err batch_writer_seal(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_drain: batch_writer_seal, then wait until every operation is
 * completed. */
TW_MUST_USE enum tw_err batch_writer_drain(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_finish: wait for the batches in flight, and drop the operations
 * that were not sent. */
void batch_writer_finish(struct batch_writer *batch_writer);

/* batch_writer_sequence: the newest sequence number. batch_writer_low_water:
 * all operations up to it are completed. */
uint64_t batch_writer_sequence(const struct batch_writer *batch_writer);
uint64_t batch_writer_low_water(struct batch_writer *batch_writer);

/* batch_writer_failed: how many operations of this batch writer ended
 * WRITE_FAILED. */
int64_t batch_writer_failed(const struct batch_writer *batch_writer);

/* batch_writer_done: how many operations of this batch writer ended WRITTEN or
 * WRITE_OF_ABSENT. */
int64_t batch_writer_done(const struct batch_writer *batch_writer);

/* batch_writer_is_indeterminate: has any request had an unknown outcome? Its
 * operations may still be carried out late, also those that the batch writer
 * has dropped. */
bool batch_writer_is_indeterminate(const struct batch_writer *batch_writer);

/* batch_writer_free: calls batch_writer_finish first. NULL is allowed. */
void batch_writer_free(struct batch_writer *batch_writer);

#endif
