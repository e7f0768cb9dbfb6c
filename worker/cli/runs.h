/* SPDX-License-Identifier: MIT */
/* Runs of the ledger for the commands that show or change them. */
#ifndef TW_CLI_RUNS_H
#define TW_CLI_RUNS_H

#include <stddef.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct session;
struct store;

/* PartitionKey of what `import --id` keeps in the ledger: no job is named so.
 */
#define RUNS_IMPORT "-import"

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
 * runs_find: the run of that id, in whichever job of the configuration or,
 * after those, of the ledger it is. TW_NOT_FOUND: err says so.
 */
TW_MUST_USE enum tw_err runs_find(struct session *session, struct store *store,
    const char *id, struct ledger_run *ret, struct err *err);

#endif
