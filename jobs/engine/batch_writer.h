/* SPDX-License-Identifier: MIT */
/*
 * A batch writer carries a kind's operations to the store: grouped by table and
 * PartitionKey, cut at 100 operations and at the store's size limit, several
 * batches in flight. What is refused or unknown it reads again and lets the
 * kind decide anew, so that every operation ends done or spared; the set of
 * what remains only shrinks.
 *
 * Operations are added in the order of the scan. Each gets a sequence number;
 * the low-water mark is the last sequence number before which everything is
 * settled, and that is what a checkpoint may claim.
 *
 * A batch writer belongs to the thread of its run.
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

/* What the kind decides of an entity that stood in the way. */
enum write_decision {
    WRITE_SEND,    /* *ret is what to send now, with the ETag just read */
    WRITE_IS_DONE, /* what was wanted is so: counted as done             */
    WRITE_NO_OP,   /* what was wanted was so before: counted as nothing  */
    WRITE_SKIP,    /* it no longer concerns the run: counted as skipped  */
    WRITE_FAIL,    /* it can never succeed: err says why                 */
};

/* How an operation ended. */
enum batch_writer_end {
    WRITTEN,         /* carried out, or what was wanted is so (WRITE_IS_DONE) */
    WRITE_WAS_NO_OP, /* WRITE_NO_OP */
    WRITE_OF_ABSENT, /* a delete of what was not there any more */
    WRITE_WAS_SKIPPED, /* WRITE_SKIP */
    WRITE_FAILED,      /* WRITE_FAIL, or the service will not take it */
};

struct batch_writer_settled {
    enum batch_writer_end end;
    bool indeterminate; /* the outcome of a request that carried it was unknown:
                    it may have been this very operation that was met, and a
                    late one may still land */
    struct slice etag;  /* of what is stored now, where it is known: after an
                           insert, a replace or a merge that was carried out,
                           and of what was met at WRITE_IS_DONE and WRITE_NO_OP;
                           else empty. Lives until the callback returns */
};

struct batch_item {
    struct store *store;        /* borrowed for the life of the batch writer */
    const char *table;          /* borrowed for the life of the batch writer */
    struct operation operation; /* copied; of a delete only keys and ETag */

    /*
     * decide: the operation met something else than was read, or its outcome
     * is unknown. now is the entity as it is, all its properties; NULL: there
     * is none. A delete of what is gone, and what is unchanged, is settled
     * without asking. ret is filled for WRITE_SEND; what it refers to lives in
     * arena or in now. context is the item's.
     */
    enum write_decision (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void *context; /* borrowed until the item is settled */

    /*
     * settled (NULL: nobody asks): the operation has ended. Called once, on
     * the run's thread, within a function of the batch writer; it may not call
     * this batch writer, but may add to another. What batch_writer_finish() or
     * a broken batch writer drops is never told.
     */
    void (*settled)(void *context, const struct batch_writer_settled *how);
};

/*
 * batch_writer_new: for run, with at most in_flight batches under way (they
 * also go through the request pool, which may allow fewer). Owned.
 */
struct batch_writer *batch_writer_new(struct run *run, unsigned in_flight);

/*
 * batch_writer_add: take an operation; may wait until there is room. Its
 * sequence number is batch_writer_sequence(), from 1 upwards. Any outcome but
 * TW_OK is that of a batch that no retry can repair (the request pool's last
 * word; TW_STOPPED): the batch writer takes nothing more, batch_writer_finish()
 * can still be called.
 */
TW_MUST_USE enum tw_err batch_writer_add(struct batch_writer *batch_writer,
    const struct batch_item *item, struct err *err);

/*
 * batch_writer_seal: send what is gathered, without waiting: nothing that
 * follows can join it (the scan has left a partition, a rule is done).
 */
TW_MUST_USE enum tw_err batch_writer_seal(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_drain: batch_writer_seal, then wait until everything is settled.
 */
TW_MUST_USE enum tw_err batch_writer_drain(
    struct batch_writer *batch_writer, struct err *err);

/* batch_writer_finish: the end in order: what is in flight is waited for, what
 * was gathered and not sent is dropped. */
void batch_writer_finish(struct batch_writer *batch_writer);

/* batch_writer_sequence: the newest sequence number given out;
 * batch_writer_low_water: all sequence numbers up to it are settled. */
uint64_t batch_writer_sequence(const struct batch_writer *batch_writer);
uint64_t batch_writer_low_water(struct batch_writer *batch_writer);

/* batch_writer_failed: entities that ended WRITE_FAIL, of this batch writer. */
int64_t batch_writer_failed(const struct batch_writer *batch_writer);

/* batch_writer_done: operations that were carried out, of this batch writer. */
int64_t batch_writer_done(const struct batch_writer *batch_writer);

/* batch_writer_is_indeterminate: has the outcome of any request been unknown?
 * What it carried may still land, also where the batch writer has dropped it.
 */
bool batch_writer_is_indeterminate(const struct batch_writer *batch_writer);

/* batch_writer_free: batch_writer_finish first. NULL: nothing. */
void batch_writer_free(struct batch_writer *batch_writer);

#endif
