/* SPDX-License-Identifier: MIT */
/*
 * A flow carries a kind's operations to the store: grouped by table and
 * PartitionKey, cut at 100 operations and at the store's size limit, several
 * batches in flight. What is refused or unknown it reads again and lets the
 * kind decide anew, so that every operation ends done or spared; the set of
 * what remains only shrinks.
 *
 * Operations are added in the order of the scan. Each gets a ticket; the
 * low-water mark is the last ticket before which everything is settled, and
 * that is what a checkpoint may claim.
 *
 * A flow belongs to the thread of its run.
 */
#ifndef TW_JOBS_ENGINE_FLOW_H
#define TW_JOBS_ENGINE_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct flow;
struct run;

/* What the kind decides of an entity that stood in the way. */
enum flow_verdict {
    FLOW_SEND,  /* *ret is what to send now, with the ETag just read */
    FLOW_DONE,  /* what was wanted is so: counted as done             */
    FLOW_KEEP,  /* what was wanted was so before: counted as nothing  */
    FLOW_SPARE, /* it no longer concerns the run: counted as skipped  */
    FLOW_FAIL,  /* it can never succeed: err says why                 */
};

/* How an operation ended. */
enum flow_end {
    FLOW_ENDED_DONE,   /* carried out, or what was wanted is so (FLOW_DONE) */
    FLOW_ENDED_KEPT,   /* FLOW_KEEP */
    FLOW_ENDED_GONE,   /* a delete of what was not there any more */
    FLOW_ENDED_SPARED, /* FLOW_SPARE */
    FLOW_ENDED_FAILED, /* FLOW_FAIL, or the service will not take it */
};

struct flow_settled {
    enum flow_end end;
    bool unsure; /* the outcome of a request that carried it was unknown: it
                    may have been this very operation that was met, and
                    a late one may still land */
    struct slice etag; /* of what is stored now, where it is known: after an
                          insert, a replace or a merge that was carried out,
                          and of what was met at FLOW_DONE and FLOW_KEEP;
                          else empty. Lives until the callback returns */
};

struct flow_item {
    struct store *store;        /* borrowed for the life of the flow */
    const char *table;          /* borrowed for the life of the flow */
    struct operation operation; /* copied; of a delete only keys and ETag */

    /*
     * decide: the operation met something else than was read, or its outcome
     * is unknown. now is the entity as it is, all its properties; NULL: there
     * is none. A delete of what is gone, and what is unchanged, is settled
     * without asking. ret is filled for FLOW_SEND; what it refers to lives in
     * arena or in now. context is the item's.
     */
    enum flow_verdict (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void *context; /* borrowed until the item is settled */

    /*
     * settled (NULL: nobody asks): the operation has ended. Called once, on
     * the run's thread, within a function of the flow; it may not call this
     * flow, but may add to another. What flow_settle() or a broken flow drops
     * is never told.
     */
    void (*settled)(void *context, const struct flow_settled *how);
};

/*
 * flow_new: for run, with at most in_flight batches under way (they also go
 * through the lanes, which may allow fewer). Owned.
 */
struct flow *flow_new(struct run *run, unsigned in_flight);

/*
 * flow_add: take an operation; may wait until there is room. Its ticket is
 * flow_ticket(), from 1 upwards. Any outcome but TW_OK is that of a
 * batch that nobody could mend (lanes' last word; TW_STOPPED): the flow takes
 * nothing more, flow_settle() can still be called.
 */
TW_MUST_USE enum tw_err flow_add(
    struct flow *flow, const struct flow_item *item, struct err *err);

/*
 * flow_cut: send what is gathered, without waiting: nothing that follows can
 * join it (the scan has left a partition, a rule is done).
 */
TW_MUST_USE enum tw_err flow_cut(struct flow *flow, struct err *err);

/* flow_drain: flow_cut, then wait until everything is settled. */
TW_MUST_USE enum tw_err flow_drain(struct flow *flow, struct err *err);

/* flow_settle: the end in order: what is in flight is waited for, what was
 * gathered and not sent is dropped. */
void flow_settle(struct flow *flow);

/* flow_ticket: the newest ticket given out; flow_low_water: all tickets up to
 * it are settled. */
uint64_t flow_ticket(const struct flow *flow);
uint64_t flow_low_water(struct flow *flow);

/* flow_failed: entities that ended FLOW_FAIL, of this flow. */
int64_t flow_failed(const struct flow *flow);

/* flow_done: operations that were carried out, of this flow. */
int64_t flow_done(const struct flow *flow);

/* flow_unsure: has the outcome of any request been unknown? What it carried may
 * still land, also where the flow has dropped it. */
bool flow_unsure(const struct flow *flow);

/* flow_free: flow_settle first. NULL: nothing. */
void flow_free(struct flow *flow);

#endif
