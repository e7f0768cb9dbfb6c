/* SPDX-License-Identifier: MIT */
/*
 * The one conditional write of the ledger: the only code that writes a run's
 * entity and its index row. It reads (or uses what is known), applies a
 * function, and writes with the ETag. Of an unknown outcome it reads what is
 * stored: the property Operation says whose write that is. A conflict means
 * that somebody else wrote: it reads and applies the function again.
 *
 * Refused, with nothing written: a state that the stored one may not move to,
 * and whatever a newer version has stored.
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
    LEDGER_READ,   /* its job and id: read it first                  */
    LEDGER_STORED, /* it is as it was last stored: write at once    */
    LEDGER_ABSENT, /* probably not there: insert at once            */
};

#define LEDGER_OPERATION_MAX 17

struct ledger_change {
    struct store *store;
    const struct deadline *deadline; /* borrowed; NULL: none */

    /*
     * apply: make of run (as stored; without an ETag where there is none) what
     * is to be stored. now_ticks: the service's clock. Anything but TW_OK:
     * nothing is written, and ledger_change() returns that; run is then as
     * stored again. It may be called more than once.
     */
    enum tw_err (*apply)(struct ledger_run *run, int64_t now_ticks,
        void *context, struct err *err);
    /* made (NULL: nothing): called after each request, for clocks, counts. */
    void (*made)(void *context, const struct exchange *exchange);
    void *context; /* of both */

    /* How long a request that was not made is made again; NULL: once. */
    const struct retry_limits *limits; /* borrowed */

    bool closes_job; /* the same batch writes the job's `!closed` (rule A5) */

    /* Set by ledger_change(). */
    struct exchange last; /* the last request */
    bool left_alone;      /* TW_INVALID: a newer version's */
    bool damaged;         /* TW_INVALID: what is stored is no run */
    bool of_run;          /* not TW_OK because of this run (both above, what
                             apply() says, a run that cannot be stored, or that
                             keeps changing), and not of the store */
    char operation[LEDGER_OPERATION_MAX]; /* Operation of the last write sent;
                                             after TW_UNKNOWN it tells later */
};

/*
 * ledger_change: run has job and id, and with LEDGER_STORED all that was
 * stored. On TW_OK it is what is stored now, with its ETags. The table is made
 * where it is missing.
 *
 * TW_OK       stored.
 * TW_UNKNOWN  sent, no answer, and it could not be read either.
 * TW_INVALID  left_alone or damaged; or the state may not be left for the one
 *             that apply() has set; or the request can never succeed.
 * others      apply's own, or the store's. Others kept writing: TW_BUSY.
 */
TW_MUST_USE enum tw_err ledger_change(struct ledger_change *change,
    enum ledger_known known, struct ledger_run *run, struct err *err);

/*
 * ledger_remove: delete the run, as it was last stored, and its index row.
 * TW_CONFLICT, TW_NOT_FOUND: it is no longer as it was, and stays. One attempt,
 * and one or two more where the index row is not known.
 */
TW_MUST_USE enum tw_err ledger_remove(struct store *store,
    struct exchange *exchange, const struct ledger_run *run);

/* ---- closed jobs (rule A5) ---- */

#define LEDGER_CLOSED "!closed"

/* ledger_is_closed: has a `finish` closed the job? *ret_id (in arena): by
 * which run. */
TW_MUST_USE enum tw_err ledger_is_closed(struct store *store,
    struct exchange *exchange, struct slice job, struct arena *arena, bool *ret,
    struct slice *ret_id);

/* ledger_reopen: delete the row. TW_OK also where there is none. */
TW_MUST_USE enum tw_err ledger_reopen(
    struct store *store, struct exchange *exchange, struct slice job);

#endif
