/* SPDX-License-Identifier: MIT */
/*
 * Lists of runs of the ledger, and runs by an id, for callers that show or
 * change them: the commands and the dashboard.
 */
#ifndef TW_RUN_RUNS_H
#define TW_RUN_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct jobs;
struct messages;
struct pool_client;
struct store;

/* How the ledger is read. All borrowed. */
struct runs_reader {
    struct pool_client *client;
    struct store *store;     /* store of queues and ledger */
    const struct jobs *jobs; /* the configured jobs */
};

struct runs {
    struct ledger_run *list;
    size_t count, room;
};

/* Selects the runs of a list. To add a member whose value is not in the ledger
 * index rows, compare it in is_wanted() and name it in all_wanted (both in
 * runs.c). */
struct runs_query {
    struct slice job;     /* job of the runs; empty: every job */
    unsigned states;      /* states of the runs, bits of RUNS_STATE(); 0: any */
    struct slice queue;   /* queue of the runs; empty: any */
    int64_t since_ticks;  /* earliest FinishedAt of succeeded and cancelled
                             runs; 0: any */
    int64_t failed_ticks; /* earliest FinishedAt of failed and poisoned runs;
                             0: any */
    size_t limit;         /* maximum number of runs, newest first; 0: all */
    bool no_imports;      /* imports are left out */
    size_t most_rows;     /* no further page is read when this many ledger index
                             rows are listed; 0: all are read */
};

/* The ledger index rows of a list, newest request first. */
struct runs_rows {
    struct arena arena; /* memory of the rows' texts */
    struct ledger_row *list;
    size_t count, room;
    bool cut; /* reading stopped because of most_rows; there may be more rows */
};

#define RUNS_STATE(state) (1u << (unsigned)(state))

/*
 * runs_list: read the runs that query selects, newest request first. Reads the
 * ledger index rows of the lists that hold such runs, and then only the runs
 * that are returned. A run that cannot be read is returned as LEDGER_DAMAGED,
 * with its keys. A missing ledger has no runs. ret is zeroed by the caller;
 * call runs_done() in any case.
 */
TW_MUST_USE enum tw_err runs_list(const struct runs_reader *reader,
    const struct runs_query *query, struct runs *ret, struct err *err);
void runs_done(struct runs *runs);

/*
 * runs_read_rows, runs_fetch: the two steps of runs_list(), for a caller that
 * keeps the rows. The lists (enum ledger_index) that contain the states of
 * query are read, so a row may belong to a run in another state of the same
 * list.
 *
 * ret of runs_read_rows() is zeroed by the caller; call runs_rows_done() in any
 * case. runs_fetch() reads the runs of list (count rows), leaves out those that
 * query does not select, and stops at query->limit; the runs are appended to
 * ret, in the order of the rows.
 */
TW_MUST_USE enum tw_err runs_read_rows(const struct runs_reader *reader,
    const struct runs_query *query, struct runs_rows *ret, struct err *err);
void runs_rows_done(struct runs_rows *rows);

/* runs_compare_rows: return a number below 0 if the row `one` is before `other`
 * in a list. A row without RequestedAt is before all others, because its run
 * may be damaged, and a limit of the list must not hide such a run. */
int runs_compare_rows(
    const struct ledger_row *one, const struct ledger_row *other);

/* runs_fetch: see runs_read_rows(). */
TW_MUST_USE enum tw_err runs_fetch(const struct runs_reader *reader,
    const struct runs_query *query, const struct ledger_row *list, size_t count,
    struct runs *ret, struct err *err);

/*
 * runs_find: find the runs with this id of all configured jobs, then of all
 * other jobs that have runs in the ledger. If job is not empty, or id is
 * "JOB/ID", find only a run of this job. ret is zeroed by the caller; call
 * runs_done() in any case. TW_NOT_FOUND: no such run exists, and err says so.
 */
TW_MUST_USE enum tw_err runs_find(const struct runs_reader *reader,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/* runs_find_prefix: like runs_find(), but if there is no run with this id, find
 * the runs whose ids begin with id, at most RUNS_PREFIX_MAX. */
#define RUNS_PREFIX_MAX 50
TW_MUST_USE enum tw_err runs_find_prefix(const struct runs_reader *reader,
    struct slice job, const char *id, struct runs *ret, struct err *err);

/*
 * runs_pick: select the one run for which wanted() is true. If wanted() is true
 * for none, select the first run; runs must have at least one. Borrowed.
 * TW_CONFLICT: wanted() is true for several; err names them.
 */
TW_MUST_USE enum tw_err runs_pick(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), const struct ledger_run **ret,
    struct err *err);

/* runs_peek: read the first messages of the poison queue of queue, at most
 * QUEUE_MAX_GET; further ones cannot be peeked. ret is init'ed. */
TW_MUST_USE enum tw_err runs_peek(const struct runs_reader *reader,
    struct slice queue, struct messages *ret, struct err *err);

/*
 * runs_message: find the run's poison copy. *ret_text: its body, *ret_queue:
 * the poison queue's name; both live in arena. TW_NOT_FOUND: the run has no
 * poison copy, or the poison copy is not among the first messages
 * (runs_peek()).
 */
TW_MUST_USE enum tw_err runs_message(const struct runs_reader *reader,
    const struct ledger_run *run, struct arena *arena, struct slice *ret_queue,
    struct slice *ret_text, struct err *err);

#endif
