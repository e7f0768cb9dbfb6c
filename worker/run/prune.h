/* SPDX-License-Identifier: MIT */
/*
 * Pruning deletes from the ledger the runs that succeeded or were cancelled
 * longer than `keep_runs` ago, with their ledger index rows. Failed runs are
 * kept until an operator drops them.
 *
 * A message whose run is not in the ledger begins a run. So a run whose message
 * may still come is kept for longer, for 30 days at most:
 *
 * - A run that was cancelled, or whose MessageUntil is after its end, is kept
 *   until its message must be visible (at MessageUntil, or 7 days after a
 *   cancel), and then until its queue is empty.
 * - Any other run of a queue is kept while the first messages of the queue were
 *   put before the end of the run, because one of them may be the message of
 *   the run.
 *
 * A pass reads the ledger index rows job after job (also of jobs that are no
 * longer configured), the oldest day first, and makes one step for each run.
 */
#ifndef TW_RUN_PRUNE_H
#define TW_RUN_PRUNE_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/run/walk.h"
#include "worker/store/store.h"

struct prune {
    struct walk walk;
    char below_day[LEDGER_DAY_MAX];
    int64_t keep_ticks;
    int64_t pruned;      /* number of runs that this pass has deleted */
    char *front_queue;   /* the queue whose first messages were read last;
                            owned; NULL: none */
    int64_t front_ticks; /* when the oldest of these messages was put */
};

/* prune_init: set up, without a pass. prune_done: free, and set up again. */
void prune_init(struct prune *prune);
void prune_done(struct prune *prune);

/*
 * prune_begin: start a pass over runs that ended before the day that was
 * keep_ticks ago. A run is deleted only if it is that old both by now_ticks,
 * this machine's clock, and by the ledger's clock, because one of the clocks
 * may be wrong.
 * store and deadline are borrowed until the end of the pass.
 */
void prune_begin(struct prune *prune, struct store *store,
    const struct deadline *deadline, int64_t now_ticks, int64_t keep_ticks);

/* prune_step: make one step. Never returns WALK_FOUND; returns WALK_DONE also
 * without a pass. */
enum walk_step prune_step(struct prune *prune, struct err *err);

#endif
