/* SPDX-License-Identifier: MIT */
/*
 * What the dashboard shows, read from the ledger and the queues, as JSON. Each
 * reading takes some seconds at most, and has limits for rows, runs and bytes.
 * It uses a request pool of its own, so that it takes no request thread from
 * the worker's runs. Property names are those of `status --json`.
 */
#ifndef TW_MONITOR_VIEW_H
#define TW_MONITOR_VIEW_H

#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct definition;
struct view;

/* Maximum number of ledger index rows read from each of the three lists. */
#define VIEW_MAX_ROWS 20000
/* Maximum and default number of runs of a page. */
#define VIEW_PAGE_MAX 200
#define VIEW_PAGE 100
/* Maximum size of a JSON text. */
#define VIEW_MAX_BYTES ((size_t)4 * 1024 * 1024)

/* view_new: create a view. Owned. Only view_stop() may be called while another
 * thread uses the view. */
struct view *view_new(void);
void view_free(struct view *view); /* does nothing if given NULL */

/* view_stop: make the reading under way end soon, and every later reading fail
 * at once. Any thread. */
void view_stop(struct view *view);

/*
 * view_overview: add one object:
 *
 *   Store    name of the store
 *   Jobs     names of the configured jobs
 *   Queues   the served queues, as queues_add_json() describes them
 *   Counts   numbers of runs: Open, Failed, and Ended (in the last day); Cut is
 *            true if there are more than were read (VIEW_MAX_ROWS)
 *   Open     the oldest open runs, which workers take first
 *   Failed   the newest failed runs
 *
 * Any outcome but TW_OK: err has the cause, for an operator.
 */
TW_MUST_USE enum tw_err view_overview(struct view *view,
    const struct definition *definition, struct buf *to, struct err *err);

/* Selects a page of runs. */
struct view_page {
    unsigned states;     /* bits of RUNS_STATE(); 0: any */
    struct slice job;    /* empty: every job */
    size_t limit;        /* maximum number of runs of the page, 1 ..
                            VIEW_PAGE_MAX */
    struct slice before; /* value of `Next` of the page before; empty: the
                            newest runs */
};

/*
 * view_runs: add one object: Runs, newest first; Left, the number of older
 * runs, of which some may be in other states; and Next, which selects the next
 * page (absent: there are no more runs). A page may have fewer runs than
 * limit, because at most some thousand runs are read for it. TW_INVALID:
 * page->before is not the value of `Next` of any page.
 */
TW_MUST_USE enum tw_err view_runs(struct view *view,
    const struct definition *definition, const struct view_page *page,
    struct buf *to, struct err *err);

/* view_run: add one object: the run, with whole texts. A failed or poisoned run
 * also has PoisonQueue, and Message: the body of its message in that queue. If
 * the body cannot be read (only the first 32 messages of a queue can be), the
 * run has MessageError instead, with the reason. */
TW_MUST_USE enum tw_err view_run(struct view *view,
    const struct definition *definition, struct slice job, struct slice id,
    struct buf *to, struct err *err);

#endif
