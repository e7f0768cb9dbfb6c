/* SPDX-License-Identifier: MIT */
/*
 * A store that fails on request: it wraps another, lets each request pass or
 * fail as a pattern says, and counts what it sees.
 */
#ifndef TW_TESTS_FAULTY_H
#define TW_TESTS_FAULTY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "worker/base/world.h"
#include "worker/store/store.h"

enum fault {
    FAULT_NONE,
    FAULT_BUSY,         /* not done, and said so */
    FAULT_LOSE_REQUEST, /* not done, no answer */
    FAULT_LOSE_ANSWER,  /* done, no answer */
    FAULT_REFUSED,      /* wrong credentials, from now on */
    FAULT_NO_INDEX,     /* a batch: refused for an operation not named */
    FAULT_BUSY_HINTED,  /* not done, may come again after 1 ms */
    FAULT_SHORT_PAGE,   /* a scan: one entity at most, and a continuation */
    FAULT_EMPTY_PAGE,   /* a scan: no entity, but a continuation */
    FAULT_LATE,         /* an insert: no answer, and it lands later, where
                           nothing stands in its way; else lost */
};

/* Inserts that are on their way at a time. */
#define FAULTY_LATE_MAX 16

/* An insert that got no answer and lands at due_ms, boot clock. */
struct faulty_late {
    const char *table;
    struct operation operation;
    int64_t due_ms;
};

enum faulty_call { FAULTY_SCAN, FAULTY_GET, FAULTY_BATCH };

struct faulty {
    struct store store; /* first: use &faulty->store */
    struct store *inner;

    /* choose: what the n-th call of that sort (from 0) meets; NULL: none ever
     * fails. Called with the lock held. */
    enum fault (*choose)(void *ctx, enum faulty_call call, unsigned n);
    void *ctx;

    /* before: called before each batch is applied, without the lock. */
    void (*before)(void *ctx, const struct batch *batch);

    const char *refused_key; /* a batch with that RowKey is refused ... */
    enum tw_err refusal;     /* ... with this outcome */
    bool refusal_unnamed;    /* ... which names no operation */

    int64_t late_ms;       /* an insert that is late lands so much later */
    unsigned top_max;      /* pages of more are TW_TOO_LARGE; 0: none */
    bool refuse_scans;     /* every page is TW_TOO_LARGE */
    unsigned expire_token; /* continued scans from the n-th on, once; 0: none */

    unsigned page_max; /* pages hold so many entities; 0: no limit */

    struct world_mutex mutex;
    struct arena arena; /* of what is late */
    struct faulty_late late[FAULTY_LATE_MAX];
    size_t late_count;
    unsigned scans, gets, batches, operations; /* that came */
    unsigned tops[64];                         /* asked for, by scan */
    size_t largest_batch;
    unsigned running, most_running; /* batches at a time */
};

/* faulty_batches: that came so far, while more may come. */
unsigned faulty_batches(struct faulty *faulty);

/* faulty_land: what is late and due by now_ms lands. */
void faulty_land(struct faulty *faulty, int64_t now_ms);

/* faulty_init: inner is borrowed. */
void faulty_init(struct faulty *faulty, struct store *inner);
void faulty_done(struct faulty *faulty);

#endif
