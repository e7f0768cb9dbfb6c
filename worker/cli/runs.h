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

/* Selects the runs of a list. */
struct runs_query {
    struct slice job;     /* empty: of every job */
    unsigned states;      /* bits of RUNS_STATE(); 0: any */
    struct slice queue;   /* empty: of any */
    int64_t since_ticks;  /* succeeded and cancelled ones: ended no earlier */
    int64_t failed_ticks; /* failed and poisoned ones, likewise; 0: all */
    size_t limit;         /* the newest ones; 0: all */
    bool no_imports;      /* without imports */
};

#define RUNS_STATE(state) (1u << (unsigned)(state))

/*
 * runs_list: newest request first. Reads the index rows of the selected lists,
 * and then only the runs that it returns, so earlier ended runs cost nothing. A
 * run that cannot be read is returned as LEDGER_DAMAGED, with its keys. A
 * missing ledger has no runs. ret is zeroed by the caller; call runs_done() in
 * any case.
 */
TW_MUST_USE enum tw_err runs_list(struct session *session, struct store *store,
    const struct runs_query *query, struct runs *ret, struct err *err);
void runs_done(struct runs *runs);

/*
 * runs_find: the runs of that id, of all configured jobs; if there is none, of
 * all jobs that have runs. job not empty, or id "JOB/ID": of that job alone.
 * ret is zeroed by the caller; call runs_done() in any case. TW_NOT_FOUND:
 * there is none, err says so.
 */
TW_MUST_USE enum tw_err runs_find(struct session *session, struct store *store,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/* runs_find_prefix: the same; if there is no run of that id, the runs whose ids
 * begin with it, at most RUNS_PREFIX_MAX. */
#define RUNS_PREFIX_MAX 50
TW_MUST_USE enum tw_err runs_find_prefix(struct session *session,
    struct store *store, struct slice job, const char *id, struct runs *ret,
    struct err *err);

/*
 * runs_pick: select one of runs (at least one): the one that is wanted(), or
 * the first if none is. Borrowed. TW_CONFLICT: several are wanted; err names
 * them.
 */
TW_MUST_USE enum tw_err runs_pick(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), const struct ledger_run **ret,
    struct err *err);

/* runs_print_json: one array of objects on standard output. */
void runs_print_json(const struct ledger_run *list, size_t count);

#endif
