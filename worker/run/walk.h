/* SPDX-License-Identifier: MIT */
/*
 * A pass over the index rows of one list, job after job: what pruning, the
 * search for orphans and a drain read. It is made in steps of one request, so
 * that the consumer can poll between them.
 */
#ifndef TW_RUN_WALK_H
#define TW_RUN_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/jobs.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

struct walk {
    struct store *store; /* borrowed, as are the next two */
    const struct deadline *deadline;
    const struct jobs *jobs;       /* these; NULL: all that the ledger has */
    struct ledger_index_scan scan; /* of the job whose rows page has */
    bool under_way;

    const struct entity *row; /* the last one found, on page */
    struct slice id;          /* of its run */

    struct arena arena; /* has the job's name */
    size_t job;         /* index in jobs of the next one */
    struct page page;
    size_t at; /* the next row on it */
    bool more; /* rows of this job are still to be read */
};

enum walk_step {
    WALK_MORE,  /* step again                                   */
    WALK_FOUND, /* there is one; then step again                */
    WALK_DONE,  /* the pass is over                             */
    WALK_FAILED /* an outage: the pass is given up; err         */
};

/* walk_init: no pass is under way. walk_done frees; init'ed again after. */
void walk_init(struct walk *walk);
void walk_done(struct walk *walk);

/* walk_begin: start a pass; scan without its job. Its texts are borrowed until
 * the end of the pass. */
void walk_begin(struct walk *walk, struct store *store,
    const struct deadline *deadline, const struct jobs *jobs,
    const struct ledger_index_scan *scan);

/* walk_step: WALK_FOUND: row and id. That takes no request. */
enum walk_step walk_step(struct walk *walk, struct err *err);

/* walk_give_up: the pass ends with what attempt says. WALK_FAILED. */
enum walk_step walk_give_up(
    struct walk *walk, const struct exchange *exchange, struct err *err);

#endif
