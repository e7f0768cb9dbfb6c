/* SPDX-License-Identifier: MIT */
/*
 * Pruning: runs that succeeded or were cancelled longer than `keep_runs` ago
 * leave the ledger, with their index rows. Failed ones stay until an operator
 * drops them. A pass reads the index by day, job after job, also those that are
 * no longer configured, in steps of one run.
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
    int64_t pruned; /* runs, by this pass */
};

/* prune_init: no pass is under way. prune_done frees; init'ed again after. */
void prune_init(struct prune *prune);
void prune_done(struct prune *prune);

/*
 * prune_begin: start a pass over what ended on a day before that of keep_ticks
 * ago, by now_ticks, which is this machine's clock, and by the ledger's: where
 * one of them is wrong, what they disagree on stays. store and deadline are
 * borrowed until its end.
 */
void prune_begin(struct prune *prune, struct store *store,
    const struct deadline *deadline, int64_t now_ticks, int64_t keep_ticks);

/* prune_step: never WALK_FOUND. WALK_DONE also where no pass is under way. */
enum walk_step prune_step(struct prune *prune, struct err *err);

#endif
