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
    struct slice job;     /* job of the runs; empty: every job */
    unsigned states;      /* states of the runs, bits of RUNS_STATE(); 0: any */
    struct slice queue;   /* queue of the runs; empty: any */
    int64_t since_ticks;  /* earliest end if succeeded or cancelled; 0: any */
    int64_t failed_ticks; /* earliest end if failed or poisoned; 0: any */
    size_t limit;         /* maximum number of runs, newest first; 0: all */
    bool no_imports;      /* imports are left out */
};

#define RUNS_STATE(state) (1u << (unsigned)(state))

/*
 * runs_list: the runs that query selects, newest request first. Reads the index
 * rows of the selected lists, and then only the returned runs, so earlier ended
 * runs cost nothing. A run that cannot be read is returned as LEDGER_DAMAGED,
 * with its keys. A missing ledger has no runs. ret is zeroed by the caller;
 * call runs_done() in any case.
 */
TW_MUST_USE enum tw_err runs_list(struct session *session, struct store *store,
    const struct runs_query *query, struct runs *ret, struct err *err);
void runs_done(struct runs *runs);

/*
 * runs_find: the runs with that id, of all configured jobs; if no such run
 * exists, of all jobs that have runs. If job is not empty, or id is "JOB/ID":
 * only runs of that job. ret is zeroed by the caller; call runs_done() in any
 * case. TW_NOT_FOUND: no such run exists, and err says so.
 */
TW_MUST_USE enum tw_err runs_find(struct session *session, struct store *store,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/* runs_find_prefix: find runs as runs_find(); if there is no run with that id,
 * find runs whose ids begin with id, at most RUNS_PREFIX_MAX. */
#define RUNS_PREFIX_MAX 50
TW_MUST_USE enum tw_err runs_find_prefix(struct session *session,
    struct store *store, struct slice job, const char *id, struct runs *ret,
    struct err *err);

/*
 * runs_pick: select one of runs (at least one): the run for which wanted() is
 * true, or the first if wanted() is true for none. Borrowed. TW_CONFLICT:
 * wanted() is true for several; err names them.
 */
TW_MUST_USE enum tw_err runs_pick(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), const struct ledger_run **ret,
    struct err *err);

/* runs_print_json: print the runs as one array of objects on standard
 * output. */
void runs_print_json(const struct ledger_run *list, size_t count);

#endif
