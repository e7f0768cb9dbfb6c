/* SPDX-License-Identifier: MIT */
/*
 * A pass over the ledger index rows of one list (open, failed or ended runs),
 * job after job. Used for pruning, for the search for orphans and by a drain. A
 * step makes one request at most, so that the consumer can do other things
 * between steps.
 */
#ifndef TW_RUN_WALK_H
#define TW_RUN_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

struct walk {
    struct store *store;             /* borrowed */
    const struct deadline *deadline; /* borrowed */
    struct ledger_index_scan scan;   /* scan.job: the job whose rows are in
                                        page */
    bool under_way;

    const struct entity *row; /* the row that was found last; lives in page */
    struct slice id;          /* run id of row */

    struct arena arena; /* holds the job's name */
    struct page page;
    size_t at; /* index of the next row in page */
    bool more; /* this job has rows that are not read yet */
};

enum walk_step {
    WALK_MORE,  /* the pass is not over: step again */
    WALK_FOUND, /* row and id are set; then step again */
    WALK_DONE,  /* the pass is over */
    WALK_FAILED /* an outage ended the pass; err has the cause */
};

/* walk_init: set up, without a pass. walk_done: free, and set up again. */
void walk_init(struct walk *walk);
void walk_done(struct walk *walk);

/* walk_begin: start a pass. scan->job must be empty; the other texts of scan
 * are borrowed until the end of the pass. */
void walk_begin(struct walk *walk, struct store *store,
    const struct deadline *deadline, const struct ledger_index_scan *scan);

/* walk_step: make one step. A step that returns WALK_FOUND sets row and id, and
 * makes no request. */
enum walk_step walk_step(struct walk *walk, struct err *err);

/* walk_give_up: end the pass, with the error of exchange in err. Returns
 * WALK_FAILED. */
enum walk_step walk_give_up(
    struct walk *walk, const struct exchange *exchange, struct err *err);

#endif
