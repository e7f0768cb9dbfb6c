/* SPDX-License-Identifier: MIT */
/*
 * The conditional write of the ledger: the only code that writes a run's entity
 * and its ledger index row. ledger_change() reads the run (or uses what the
 * caller knows), calls apply(), and writes with the ETag. After an unknown
 * outcome ledger_change() reads the run: the property Operation shows which
 * write is stored. After a conflict, which another process's write causes,
 * ledger_change() reads the run and calls apply() again.
 *
 * ledger_change() refuses, and writes nothing, if the stored state may not
 * change to the new one, or a newer version has stored the run.
 */
#ifndef TW_RUN_LEDGER_CHANGE_H
#define TW_RUN_LEDGER_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* What is known of the run before the first request. */
enum ledger_known {
    LEDGER_READ,   /* only job and id are known: read the run first */
    LEDGER_STORED, /* the run is known as stored: write at once */
    LEDGER_ABSENT, /* the run is probably not stored: insert at once */
};

#define LEDGER_OPERATION_MAX 17

struct ledger_change {
    struct store *store;
    const struct deadline *deadline; /* borrowed; NULL: no deadline */

    /*
     * apply: change run, which is the run as stored (without an ETag it is not
     * stored yet), into the run to store. now_ticks: the service's clock.
     * TW_OK: write the run. Any other outcome: nothing is written,
     * ledger_change() returns this outcome, and run is as stored again. apply
     * may be called more than once.
     */
    enum tw_err (*apply)(struct ledger_run *run, int64_t now_ticks,
        void *context, struct err *err);
    /* made: called after each request, to read the service's clock or to count;
     * NULL: not called. */
    void (*made)(void *context, const struct exchange *exchange);
    void *context; /* passed to apply() and made() */

    /* How long a request that was not carried out is retried; NULL: no
     * retry. */
    const struct retry_limits *limits; /* borrowed */

    bool closes_job; /* the batch that writes the run also inserts the job's
                        `!closed` rows (rule A5) */

    /* Set by ledger_change(). */
    struct exchange last; /* the last request */
    bool left_alone;      /* TW_INVALID: a newer version wrote the run */
    bool damaged;         /* TW_INVALID: the entity cannot be read as a run */
    bool of_run; /* this run, not the store, is the cause of the failure:
                    left_alone or damaged is set, apply() failed, the run cannot
                    be stored, or it keeps changing */
    /* Operation of the last write that was sent. After TW_UNKNOWN, a run that
     * is read later and has this Operation shows that the write was stored. */
    char operation[LEDGER_OPERATION_MAX];
};

/*
 * ledger_change: call with job and id set in run, and for LEDGER_STORED with
 * the run as stored. On TW_OK run is as stored now, with its ETags. Creates the
 * table if it is missing.
 *
 * TW_OK       stored.
 * TW_UNKNOWN  the write had no response, and the run could not be read then.
 * TW_INVALID  left_alone or damaged; or the stored state may not change to the
 *             one that apply() has set; or the request can never succeed.
 * others      outcome of apply() or of the store. TW_BUSY also if other
 *             processes kept writing the run.
 */
TW_MUST_USE enum tw_err ledger_change(struct ledger_change *change,
    enum ledger_known known, struct ledger_run *run, struct err *err);

/*
 * ledger_remove: delete the run and its ledger index row, if the run's ETag in
 * the ledger is run->etag. TW_CONFLICT, TW_NOT_FOUND: the run has changed or is
 * gone; nothing is deleted. One request, and more if run->index_etag is empty
 * or out of date.
 */
TW_MUST_USE enum tw_err ledger_remove(struct store *store,
    struct exchange *exchange, const struct ledger_run *run);

/* ---- closed jobs (rule A5) ---- */

/* RowKey of the row that closes a job. */
#define LEDGER_CLOSED "!closed"

/* ledger_closed_key: return the RowKey (in arena) of the row that says that a
 * `finish` has ended a run of the job. The row stays when the job is opened
 * again, because the tables that the run has closed stay closed. It also stays
 * when the run is deleted: then the run's id may be used again, so the key has
 * RequestedAt too. */
struct slice ledger_closed_key(
    struct slice id, int64_t requested_ticks, struct arena *arena);

/* ledger_has_closed: set *ret to true if the job has the row with this key. */
TW_MUST_USE enum tw_err ledger_has_closed(struct store *store,
    struct exchange *exchange, struct slice job, struct slice key, bool *ret);

/* ledger_check_open: may the job have another run? TW_CONFLICT: `finish` has
 * closed the job; err says which run it was, and what opens the job again. Any
 * other failure is the store's, and err is unchanged. */
TW_MUST_USE enum tw_err ledger_check_open(struct store *store,
    struct exchange *exchange, struct slice job, struct err *err);

/* ledger_reopen: delete the job's `!closed` row. TW_OK also if the job has no
 * such row. */
TW_MUST_USE enum tw_err ledger_reopen(
    struct store *store, struct exchange *exchange, struct slice job);

#endif
