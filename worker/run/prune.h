/* SPDX-License-Identifier: MIT */
/*
 * Pruning: runs that succeeded or were cancelled longer than `keep_runs` ago
 * leave the ledger, with their index rows. Failed ones stay until an operator
 * drops them. A pass reads the index by day, job after job, also those that are
 * no longer configured; it is made in steps of one run, so that the consumer
 * can poll between them.
 */
#ifndef TW_RUN_PRUNE_H
#define TW_RUN_PRUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

struct prune {
    struct store *store;       /* borrowed */
    const struct fence *fence; /* borrowed */
    bool under_way;
    char below_day[LEDGER_DAY_MAX];
    struct arena arena;
    struct slice job; /* whose rows page has; empty: none yet */
    struct page page; /* of that job's index rows */
    size_t at;        /* the next row on it */
    bool more;        /* rows that are still to be read */
    int64_t pruned;   /* runs, by this pass */
};

enum prune_step {
    PRUNE_MORE,   /* step again                              */
    PRUNE_DONE,   /* the pass is over                        */
    PRUNE_FAILED, /* an outage: the pass is given up; err    */
};

/* prune_init: no pass is under way. prune_done frees; init'ed again after. */
void prune_init(struct prune *prune);
void prune_done(struct prune *prune);

/* prune_begin: start a pass over what ended before before_ticks' day. Both are
 * borrowed until its end. */
void prune_begin(struct prune *prune, struct store *store,
    const struct fence *fence, int64_t before_ticks);

enum prune_step prune_step(struct prune *prune, struct err *err);

#endif
