/* SPDX-License-Identifier: MIT */
/*
 * What the dashboard shows, read from the ledger and the queues, as JSON. Each
 * reading has a deadline of some seconds and bounded numbers of rows, runs and
 * bytes, and uses a request pool of its own, so that it takes nothing from the
 * worker's runs. Property names are those of `status --json`.
 */
#ifndef TW_MONITOR_VIEW_H
#define TW_MONITOR_VIEW_H

#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct definition;
struct view;

/* Index rows that are read of each of the three lists. */
#define VIEW_MAX_ROWS 20000
/* The largest page of runs, and the usual one. */
#define VIEW_PAGE_MAX 200
#define VIEW_PAGE 100
/* The largest JSON text. */
#define VIEW_MAX_BYTES ((size_t)4 * 1024 * 1024)

/* view_new: owned. Not thread-safe, except for view_stop(). */
struct view *view_new(void);
void view_free(struct view *view); /* NULL: nothing */

/* view_stop: any thread: ends the reading under way soon, and all later ones at
 * once. */
void view_stop(struct view *view);

/*
 * view_overview: add one object: Store, the names of configured Jobs, Queues,
 * Counts of Open, Failed and (in the last day) Ended runs, the oldest Open
 * runs, which workers take first, and the newest Failed ones. Any outcome but
 * TW_OK: err says why, for a person.
 */
TW_MUST_USE enum tw_err view_overview(struct view *view,
    const struct definition *definition, struct buf *to, struct err *err);

/* Selects a page of runs. */
struct view_page {
    unsigned states;     /* bits of RUNS_STATE(); 0: any */
    struct slice job;    /* empty: every job */
    size_t limit;        /* 1 .. VIEW_PAGE_MAX */
    struct slice before; /* Next of the page before; empty: the newest runs */
};

/*
 * view_runs: add one object: Runs, newest first, and Next (absent: there are no
 * more). A page may have fewer runs than limit, because it reads at most some
 * thousand runs. TW_INVALID: before is no Next.
 */
TW_MUST_USE enum tw_err view_runs(struct view *view,
    const struct definition *definition, const struct view_page *page,
    struct buf *to, struct err *err);

/* view_run: add one object, the run with whole texts, and Message, the body of
 * its message in the poison queue PoisonQueue, if it is among the first. */
TW_MUST_USE enum tw_err view_run(struct view *view,
    const struct definition *definition, struct slice job, struct slice id,
    struct buf *to, struct err *err);

#endif
