/* SPDX-License-Identifier: MIT */
/*
 * The dashboard: one page, and what it asks for.
 *
 *   GET  /                 the page; /dashboard.css, /dashboard.js
 *   GET  /api/about        Version, Worker, ReadOnly
 *   GET  /api/history      entities a second and refusals of the last hour
 *   GET  /api/overview     queues, counts, open, failed and ended runs
 *   GET  /api/runs         ?state=S,S &job=J &limit=N &before=NEXT
 *   GET  /api/run          ?job=J &id=I: one run, with its message
 *   GET  /api/outcome      ?of=TEXT: the outcome of a change (see below)
 *   POST /api/retry, drop, pause, resume, cancel, finish: {"Job", "Id"}
 *   POST /api/check        200 if the token is right
 *
 * Two threads do what needs the store (answers.h), and no handler waits for
 * them. A GET whose answer is not known yet gets status 202, {"Pending": true},
 * and the client sends it again. A change always gets status 202, {"Pending":
 * TEXT}; with this TEXT, GET /api/outcome?of=TEXT responds with the outcome of
 * the change. Every failure is {"Error": sentence}. access.h says which
 * requests are served.
 */
#ifndef TW_MONITOR_API_H
#define TW_MONITOR_API_H

#include <stddef.h>

#include "worker/monitor/history.h"
#include "worker/monitor/server.h"

struct api;
struct definition;

#define API_ROUTES 17

struct api_options {
    /* The definition at the start of the worker: its admin_token_file applies,
     * also after a reload. Borrowed until api_free(). */
    const struct definition *started_with;
    /* definition: return the newest definition; the caller gets a reference of
     * its own. Called on any thread. */
    struct definition *(*definition)(void *context);
    /* totals: fill in ret. Called on any thread. */
    void (*totals)(void *context, struct history_totals *ret);
    void *context; /* borrowed until api_free() */
};

struct api *api_new(const struct api_options *options); /* owned */

/* api_routes: fill in API_ROUTES routes, whose context is api. */
void api_routes(struct api *api, struct http_route *routes);

/* api_free: call when no handler is called any more. Ends readings and changes
 * that are under way. Does nothing if given NULL. */
void api_free(struct api *api);

#endif
