/* SPDX-License-Identifier: MIT */
/* Runs of the ledger for the commands that show or change them. */
#ifndef TW_CLI_RUNS_H
#define TW_CLI_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct session;
struct store;

struct runs {
    struct ledger_run *list;
    size_t count, room;
};

/* Which runs a list has. */
struct runs_query {
    struct slice job;     /* empty: of every job */
    unsigned states;      /* bits of RUNS_STATE(); 0: any */
    struct slice queue;   /* empty: of any */
    int64_t since_ticks;  /* succeeded and cancelled ones: ended no earlier */
    int64_t failed_ticks; /* failed and poisoned ones, likewise; 0: all */
    size_t limit;         /* so many, the newest; 0: all */
    bool no_imports;      /* without what `import --id` keeps */
};

#define RUNS_STATE(state) (1u << (unsigned)(state))

/*
 * runs_list: newest request first. Reads the index rows of the lists that are
 * asked for, and then the runs it returns: what ended before costs nothing. A
 * run that cannot be read is in the list as LEDGER_DAMAGED, with its keys. A
 * ledger that is not there has none. ret is zeroed before; runs_done() always.
 */
TW_MUST_USE enum tw_err runs_list(struct session *session, struct store *store,
    const struct runs_query *query, struct runs *ret, struct err *err);
void runs_done(struct runs *runs);

/*
 * runs_find: the runs of that id, of every job that is configured or has runs;
 * job not empty, or id "JOB/ID": of that job alone. ret is zeroed before;
 * runs_done() always. TW_NOT_FOUND: there is none, err says so.
 */
TW_MUST_USE enum tw_err runs_find(struct session *session, struct store *store,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/* runs_find_prefix: the same; where there is none of that id, those whose ids
 * begin with it, at most RUNS_PREFIX_MAX. */
#define RUNS_PREFIX_MAX 50
TW_MUST_USE enum tw_err runs_find_prefix(struct session *session,
    struct store *store, struct slice job, const char *id, struct runs *ret,
    struct err *err);

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
