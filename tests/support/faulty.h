/* SPDX-License-Identifier: MIT */
/*
 * A store that fails on request: it wraps another, of any sort, and decides
 * for each request whether it passes or what happens to it; it counts what it
 * sees. Who decides is a function of the test, or a seed with a table of
 * shares: the same seed and the same requests meet the same faults.
 */
#ifndef TW_TESTS_FAULTY_H
#define TW_TESTS_FAULTY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/interpose.h"
#include "worker/base/platform.h"
#include "worker/store/store.h"

enum fault {
    FAULT_NONE,
    FAULT_UNSENT,       /* not done: it never left */
    FAULT_BUSY,         /* not done: 503 */
    FAULT_BUSY_HINTED,  /* not done: 503 with a Retry-After of hint_ms */
    FAULT_ERROR,        /* not done: 500, which leaves it open for a write */
    FAULT_ERROR_HINTED, /* the same with a Retry-After of hint_ms */
    FAULT_LOSE_REQUEST, /* not done, no answer */
    FAULT_LOSE_ANSWER,  /* done, no answer */
    FAULT_REFUSED,      /* not done: wrong credentials */
    FAULT_DELAY,        /* done, and answered delay_ms later */
    FAULT_LATE,         /* a write: no answer, and it comes later, after the
                           next requests: with what it carries, if that still
                           holds then */
    FAULT_TWICE,        /* done, then done again: the second answer is seen */
    FAULT_TWICE_UNSEEN, /* the same, the first answer is seen */
    FAULT_NO_INDEX,     /* a batch: refused for an operation not named */
    FAULT_ONE_KEY,      /* a batch: not done, refused for one of its keys */
    FAULT_SHORT_PAGE,   /* a scan: one entity at most, and a continuation */
    FAULT_EMPTY_PAGE,   /* a scan: no entity, but a continuation */
    FAULTS,
};

/* How often a fault happens to a request of one of these calls, where it can
 * happen to it at all: the rest of the thousand passes. */
struct faulty_share {
    enum fault fault;
    unsigned per_mille;
    unsigned calls;
};

struct faulty_late;

struct faulty {
    struct interposed outer; /* first: use &faulty->outer.store */

    /* choose: what the n-th call of that sort (from 0) meets; NULL: the shares
     * decide. Called with the lock held. */
    enum fault (*choose)(void *ctx, enum store_call call, unsigned n);
    void *ctx;
    uint64_t seed;
    const struct faulty_share *shares; /* NULL: nothing ever fails */
    size_t share_count;

    /* before: called before each batch is applied, by one request thread at a
     * time; what it sends itself comes by here too, in the same thread. */
    void (*before)(void *ctx, const struct batch *batch);

    const char *refused_key; /* a batch with that RowKey is refused ... */
    enum tw_err refusal;     /* ... with this outcome (0: a conflict) */
    bool refusal_unnamed;    /* ... which names no operation */

    /* What is late lands at the first request at which late_ms are over, and a
     * share of late_spread_ms; late_requests have come since. */
    int64_t late_ms, late_spread_ms;
    unsigned late_requests;
    int64_t hint_ms;       /* 1 at first */
    int64_t delay_ms;      /* 100 at first */
    unsigned top_max;      /* pages of more are TW_TOO_LARGE; 0: none */
    bool refuse_scans;     /* every page is TW_TOO_LARGE */
    unsigned expire_token; /* continued scans from the n-th on, once; 0: none */
    unsigned page_max;     /* pages hold so many entities; 0: no limit */

    pthread_mutex_t turn;        /* whose turn it is to be in before() */
    struct platform_mutex mutex; /* guards all below */
    struct platform_cond never;  /* for delays */
    struct faulty_late *late;    /* in the order they were sent */
    unsigned requests;           /* that came, all sorts */
    unsigned calls[STORE_CALLS], operations;
    unsigned met[FAULTS];  /* faults */
    unsigned landed;       /* of what was late */
    unsigned changed_late; /* of these, that the store took */
    unsigned tops[64];     /* asked for, by scan */
    size_t largest_batch;
    unsigned running, most_running; /* batches at a time */
};

/* FAULTY_CHOICE: a function for the member choose; it need not use its
 * parameters. */
#define FAULTY_CHOICE(name)                                                    \
    static enum fault name(void *ctx, enum store_call call, unsigned n)

/* faulty_calls: of that sort that came so far, while more may come. */
unsigned faulty_calls(struct faulty *faulty, enum store_call call);

/* faulty_name: of a fault, for people. */
const char *faulty_name(enum fault fault);

/* faulty_happens: can it happen to such a call? */
bool faulty_happens(enum fault fault, enum store_call call);

/* faulty_land: what is late and due by now_ms lands; INT64_MAX: all of it. */
void faulty_land(struct faulty *faulty, int64_t now_ms);

/* faulty_init: inner is borrowed, and is closed by whoever closes this one.
 * faulty_done: what is still late is lost. */
void faulty_init(struct faulty *faulty, struct store *inner);
void faulty_done(struct faulty *faulty);

/* faulty_seed: from now on the shares decide. They are borrowed. */
void faulty_seed(struct faulty *faulty, uint64_t seed,
    const struct faulty_share *shares, size_t count);

#endif
