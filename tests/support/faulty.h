/* SPDX-License-Identifier: MIT */
/*
 * A store that fails on request. It wraps another store, counts the requests,
 * and decides for each request whether it goes through or meets a fault. A
 * function of the test decides, or a seed with a table of shares: with the same
 * seed, the same requests meet the same faults.
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
    FAULT_UNSENT,      /* not done: the request was never sent */
    FAULT_BUSY,        /* not done: 503 */
    FAULT_BUSY_HINTED, /* not done: 503 with a Retry-After of hint_ms */
    FAULT_ERROR, /* not done: 500, from which the caller cannot tell whether a
                    write was done */
    FAULT_ERROR_HINTED, /* the same as FAULT_ERROR, with a Retry-After of
                           hint_ms */
    FAULT_LOSE_REQUEST, /* not done, no answer */
    FAULT_LOSE_ANSWER,  /* done, no answer */
    FAULT_REFUSED,      /* not done: wrong credentials */
    FAULT_DELAY,        /* done, and answered delay_ms later */
    FAULT_LATE,  /* a write: no answer; it is carried out later, after the next
                    requests, if its conditions hold then */
    FAULT_TWICE, /* done twice; the caller gets the second answer */
    FAULT_TWICE_UNSEEN, /* done twice; the caller gets the first answer */
    FAULT_NO_INDEX,     /* a batch: if refused, the answer does not name the
                           operation */
    FAULT_ONE_KEY,      /* a batch: not done, refused for one of its keys */
    FAULT_SHORT_PAGE,   /* a scan: at most one entity, and a continuation */
    FAULT_EMPTY_PAGE,   /* a scan: no entity, but a continuation */
    FAULTS,
};

/* Of 1000 requests whose call is in the set `calls`, per_mille meet this fault,
 * if it can happen to the call. Requests that belong to no share meet no
 * fault. */
struct faulty_share {
    enum fault fault;
    unsigned per_mille;
    unsigned calls;
};

struct faulty_late;

struct faulty {
    struct interposed outer; /* first member: use &faulty->outer.store */

    /* choose: returns what the n-th request (from 0) of this call meets; NULL:
     * the shares decide. Called with the lock held. */
    enum fault (*choose)(void *ctx, enum store_call call, unsigned n);
    void *ctx;
    uint64_t seed;
    const struct faulty_share *shares; /* NULL: no request fails */
    size_t share_count;

    /* before: called before each batch is applied, for one batch at a time. A
     * request that it sends to this store, in the same thread, is treated as
     * any other. */
    void (*before)(void *ctx, const struct batch *batch);

    const char *refused_key; /* a batch with this RowKey is refused ... */
    enum tw_err refusal;     /* ... with this outcome (0: TW_CONFLICT) */
    bool refusal_unnamed;    /* ... and the answer names no operation */

    /* A late write is carried out when both are true: late_ms and a random part
     * of late_spread_ms have passed, and late_requests more requests have
     * come. */
    int64_t late_ms, late_spread_ms;
    unsigned late_requests;
    int64_t hint_ms;   /* 1 at first */
    int64_t delay_ms;  /* 100 at first */
    unsigned top_max;  /* a scan that asks for more entities gets TW_TOO_LARGE;
                          0: no limit */
    bool refuse_scans; /* every scan gets TW_TOO_LARGE */
    unsigned expire_token; /* n: TW_INVALID for the first scan with a
                              continuation, beginning with the n-th scan; 0: for
                              no scan */
    unsigned page_max;     /* maximum entities of a page; 0: no limit */

    pthread_mutex_t turn;        /* held while before() runs */
    struct platform_mutex mutex; /* guards all members below */
    struct platform_cond never;  /* never signalled: delays wait on it */
    struct faulty_late *late;    /* in the order of their sending */
    unsigned requests;           /* of all calls, so far */
    unsigned calls[STORE_CALLS], operations;
    unsigned met[FAULTS];  /* how often each fault was met */
    unsigned landed;       /* late writes that were carried out */
    unsigned changed_late; /* of these, those that succeeded */
    unsigned tops[64];     /* `top` of the n-th scan */
    size_t largest_batch;
    unsigned running, most_running; /* batches that run now; maximum of
                                       `running` */
};

/* FAULTY_CHOICE: begins the definition of a function for the member choose. */
#define FAULTY_CHOICE(name)                                                    \
    static enum fault name(void *ctx, enum store_call call, unsigned n)

/* faulty_calls: returns the number of requests of this call so far. More may
 * come at the same time. */
unsigned faulty_calls(struct faulty *faulty, enum store_call call);

/* faulty_land: carries out the late writes that are due by now_ms; INT64_MAX:
 * all late writes. */
void faulty_land(struct faulty *faulty, int64_t now_ms);

/* faulty_init: wraps inner, which is borrowed: the caller that closes this
 * store closes inner too. faulty_done: drops the late writes that are still to
 * be carried out. */
void faulty_init(struct faulty *faulty, struct store *inner);
void faulty_done(struct faulty *faulty);

/* faulty_seed: from now on the seed and the shares decide. The shares are
 * borrowed. */
void faulty_seed(struct faulty *faulty, uint64_t seed,
    const struct faulty_share *shares, size_t count);

#endif
