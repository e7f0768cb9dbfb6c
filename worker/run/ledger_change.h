/* SPDX-License-Identifier: MIT */
/*
 * The conditional write of the ledger: the only code that writes a run's entity
 * and its index row. It reads the run (or uses what is known), applies a
 * function, and writes with the ETag. After an unknown outcome it reads the
 * run: the property Operation shows which write is stored. After a conflict,
 * another process has written: it reads, and applies the function again.
 *
 * It refuses, and writes nothing, if the stored state may not change to the new
 * one, or a newer version has stored the run.
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
    LEDGER_READ,   /* job and id: read the run first */
    LEDGER_STORED, /* all that is stored: write at once */
    LEDGER_ABSENT, /* probably not stored: insert at once */
};

#define LEDGER_OPERATION_MAX 17

struct ledger_change {
    struct store *store;
    const struct deadline *deadline; /* borrowed; NULL: none */

    /*
     * apply: change run (as stored; without an ETag: not stored yet) into what
     * to store. now_ticks: the service's clock. Any outcome but TW_OK: nothing
     * is written, ledger_change() returns it, and run is as stored again. It
     * may be called more than once.
     */
    enum tw_err (*apply)(struct ledger_run *run, int64_t now_ticks,
        void *context, struct err *err);
    /* made (NULL: nothing): called after each request, for clocks, counts. */
    void (*made)(void *context, const struct exchange *exchange);
    void *context; /* of both */

    /* How long a request that was not done is retried; NULL: no retry. */
    const struct retry_limits *limits; /* borrowed */

    bool closes_job; /* the same batch writes the job's `!closed` (rule A5) */

    /* Set by ledger_change(). */
    struct exchange last; /* the last request */
    bool left_alone;      /* TW_INVALID: a newer version's run */
    bool damaged;         /* TW_INVALID: unreadable as a run */
    bool of_run; /* not TW_OK because of this run (both above, apply()'s
                    outcome, a run that cannot be stored or keeps changing), not
                    because of the store */
    /* Operation of the last write sent; after TW_UNKNOWN a later read can be
     * compared. */
    char operation[LEDGER_OPERATION_MAX];
};

/*
 * ledger_change: run has job and id, and with LEDGER_STORED all that is stored.
 * On TW_OK run is what is stored now, with its ETags. Creates the table if it
 * is missing.
 *
 * TW_OK       stored.
 * TW_UNKNOWN  sent, no response, and the run could not be read either.
 * TW_INVALID  left_alone or damaged; or the stored state may not change to the
 *             one that apply() has set; or the request can never succeed.
 * others      apply()'s, or the store's. TW_BUSY: other processes kept writing.
 */
TW_MUST_USE enum tw_err ledger_change(struct ledger_change *change,
    enum ledger_known known, struct ledger_run *run, struct err *err);

/*
 * ledger_remove: delete the run, if it is as last stored, and its index row.
 * TW_CONFLICT, TW_NOT_FOUND: the run has changed; nothing is deleted. One
 * request, and one or two more if the index row is not known.
 */
TW_MUST_USE enum tw_err ledger_remove(struct store *store,
    struct exchange *exchange, const struct ledger_run *run);

/* ---- closed jobs (rule A5) ---- */

#define LEDGER_CLOSED "!closed"

/* ledger_is_closed: has a `finish` closed the job? *ret_id (in arena): the run
 * that closed it. */
TW_MUST_USE enum tw_err ledger_is_closed(struct store *store,
    struct exchange *exchange, struct slice job, struct arena *arena, bool *ret,
    struct slice *ret_id);

/* ledger_reopen: delete the `!closed` row. TW_OK also if there is none. */
TW_MUST_USE enum tw_err ledger_reopen(
    struct store *store, struct exchange *exchange, struct slice job);

#endif
