/* SPDX-License-Identifier: MIT */
/* Runs of the ledger for the commands that show or change them. */
#ifndef TW_CLI_RUNS_H
#define TW_CLI_RUNS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct session;
struct store;

struct runs {
    struct ledger_run *list;
    size_t count, room;
};

/*
 * runs_read: all runs of job (empty: of every job) that filter, in OData,
 * matches, newest request first. A ledger that is not there has none. ret is
 * zeroed before; runs_done() always.
 */
TW_MUST_USE enum tw_err runs_read(struct session *session, struct store *store,
    struct slice job, struct slice filter, struct runs *ret, struct err *err);
void runs_done(struct runs *runs);

/*
 * runs_find: the runs of that id, of every job of the configuration or, where
 * these have none, of the ledger; job not empty, or id "JOB/ID": of that job
 * alone. ret is zeroed before; runs_done() always. TW_NOT_FOUND: there is none,
 * err says so.
 */
TW_MUST_USE enum tw_err runs_find(struct session *session, struct store *store,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/*
 * runs_pick: which of runs (at least one) is meant: the one that is wanted(),
 * the first where none is. Borrowed. TW_CONFLICT: several are; err names them.
 */
TW_MUST_USE enum tw_err runs_pick(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), const struct ledger_run **ret,
    struct err *err);

/* runs_print_json: one array of objects on standard output. */
void runs_print_json(const struct ledger_run *list, size_t count);

#endif
