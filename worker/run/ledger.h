/* SPDX-License-Identifier: MIT */
/*
 * The ledger: one entity for each run, in the table TablewardRuns of the
 * queues' store. PartitionKey: the job's name ("-" for a message that could
 * not be read); RowKey: the run id. Beside an open run stands a marker, RowKey
 * "!" + run id, made in the batch of the entity's first write and removed in
 * that of its last, so that open runs are found cheaply.
 *
 * Every write carries the ETag last seen. Functions make one request, but for
 * what is said at ledger_insert() and ledger_update(); an unknown outcome is
 * the caller's to resolve by ledger_get(): Owner and Epoch say whose write is
 * stored.
 */
#ifndef TW_RUN_LEDGER_H
#define TW_RUN_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"
#include "worker/store/store.h"

#define LEDGER_TABLE "TablewardRuns"
#define LEDGER_UNREADABLE "-" /* PartitionKey of messages without a job */
#define LEDGER_MARKER '!'

/* The service's limit on one String property, in UTF-16 units. */
#define LEDGER_MAX_TEXT_UNITS 32768
/* Error is cut to this. */
#define LEDGER_MAX_ERROR_BYTES 8192

enum ledger_state {
    LEDGER_QUEUED,    /* its message is on the queue, nobody works on it   */
    LEDGER_RUNNING,   /* Owner works on it until LeaseUntil at least       */
    LEDGER_WAITING,   /* for ResumesAt: a settle look, its turn, a failure */
    LEDGER_SUCCEEDED, /* ended, as are all below                           */
    LEDGER_FAILED,    /* its message is in the poison queue                */
    LEDGER_POISONED,  /* its message is in the poison queue                */
    LEDGER_CANCELLED,
    LEDGER_DAMAGED, /* never stored: what is there cannot be read as a run  */
};

/* "queued", "running", ... ; ledger_state_named: false: no such state. */
const char *ledger_state_name(enum ledger_state state);
bool ledger_state_named(struct slice name, enum ledger_state *ret);

/* ledger_state_ended: succeeded, failed, poisoned, cancelled. */
bool ledger_state_ended(enum ledger_state state);

/* One run's entity. All slices live in arena. */
struct ledger_run {
    struct arena arena;
    struct slice job, id;     /* PartitionKey, RowKey */
    struct slice etag;        /* empty: not stored yet */
    struct slice marker_etag; /* empty: not known */

    enum ledger_state state; /* changed by ledger_move() only */
    struct slice kind, args; /* args: JSON object of strings */
    struct slice queue;      /* empty: made by `run` */
    struct slice worker;     /* "host:process" of the last attempt */
    struct slice owner;      /* random, of the attempt that holds it; empty
                                once it let go */
    struct slice phase, checkpoint;
    struct slice definition; /* hash of the job the checkpoint was made under */
    struct slice error;
    struct slice failed_entities; /* the first ten that failed, a line each */
    struct slice traceparent;
    struct slice poison_id,
        poison_receipt; /* of the copy in the poison queue */

    int32_t attempt, failures, passes, epoch;
    int32_t silent; /* claims since progress or an end in order */

    int64_t read, written, deleted, skipped, failed, transactions;

    /* Ticks; 0: absent. */
    int64_t requested_ticks, started_ticks, updated_ticks, lease_until_ticks,
        resumes_ticks, finished_ticks;

    struct property *others; /* properties that are not ours: kept */
    size_t other_count;
};

/* ledger_run_init: an empty run, `queued`; ledger_run_done frees. */
void ledger_run_init(struct ledger_run *run);
void ledger_run_done(struct ledger_run *run);

/* ledger_text: a copy of text that lives as long as run, for its fields. */
struct slice ledger_text(struct ledger_run *run, struct slice text);

/* ledger_copy: to (init'ed) becomes a deep copy of from, another one. */
void ledger_copy(struct ledger_run *to, const struct ledger_run *from);

/* ledger_take_others: from is to's entity after somebody else has written it:
 * its ETag and the properties that are not ours become to's. */
void ledger_take_others(struct ledger_run *to, const struct ledger_run *from);

/* ledger_compact: give up what earlier changes have left in the arena. */
void ledger_compact(struct ledger_run *run);

/* ledger_set_error: cut to LEDGER_MAX_ERROR_BYTES at a character. */
void ledger_set_error(struct ledger_run *run, const char *error);

/*
 * ledger_move: change the state. False, and nothing changed: no run goes from
 * that state to this one. An ended run moves only from failed or poisoned, to
 * queued (retry) or cancelled (drop).
 */
bool ledger_move(struct ledger_run *run, enum ledger_state to);

/* ledger_parse: from an entity that was read. TW_INVALID: it is none of ours;
 * err says why. ret is init'ed and changes only on success. */
TW_MUST_USE enum tw_err ledger_parse(
    const struct entity *entity, struct ledger_run *ret, struct err *err);

/* ledger_parse_any: the same for lists. What cannot be read becomes a run with
 * its keys, the state LEDGER_DAMAGED and the reason as its error. */
void ledger_parse_any(const struct entity *entity, struct ledger_run *ret);

/* ledger_entity: as it is stored; lives in arena and in run. */
void ledger_entity(
    const struct ledger_run *run, struct arena *arena, struct entity *ret);

/* ledger_add_json: add the run as one JSON object, as `status --json` prints
 * it: Job, Id, then the ledger's property names, numbers as numbers. */
void ledger_add_json(const struct ledger_run *run, struct buf *to);

/* ledger_create: make the table where it is missing. */
TW_MUST_USE enum tw_err ledger_create(
    struct store *store, struct attempt *attempt);

/*
 * ledger_get: read one run. ret (init'ed) changes only on TW_OK. TW_NOT_FOUND:
 * no such run (or no such table). attempt->date_ticks is the service's clock
 * on these two. TW_INVALID: what is stored there is not a run.
 */
TW_MUST_USE enum tw_err ledger_get(struct store *store, struct attempt *attempt,
    struct slice job, struct slice id, struct ledger_run *ret);

enum ledger_marker {
    LEDGER_MARKER_KEEP,   /* leave it as it is       */
    LEDGER_MARKER_ADD,    /* the run is open (again) */
    LEDGER_MARKER_REMOVE, /* the run has ended       */
};

/*
 * ledger_insert: the entity's first write; with a marker unless the run has
 * ended. TW_OK: run->etag is set. TW_CONFLICT: the run exists. TW_NOT_FOUND:
 * no table. Two more requests where only a marker is there already, as one that
 * was left when somebody deleted the run.
 */
TW_MUST_USE enum tw_err ledger_insert(
    struct store *store, struct attempt *attempt, struct ledger_run *run);

/*
 * ledger_update: replace the entity where its ETag is still run->etag. TW_OK:
 * run->etag is the new one. TW_CONFLICT, TW_NOT_FOUND: it is not, read again.
 * A marker that is there already (ADD), or gone already (REMOVE), is no
 * conflict. Two more requests at most where the marker is not as it was
 * thought, one more for REMOVE where its ETag is not known.
 */
TW_MUST_USE enum tw_err ledger_update(struct store *store,
    struct attempt *attempt, struct ledger_run *run, enum ledger_marker marker);

/*
 * ledger_withdraw: take back what ledger_insert() made, marker and all, where
 * its ETag is still run->etag. TW_CONFLICT, TW_NOT_FOUND: it is not, and stays.
 */
TW_MUST_USE enum tw_err ledger_withdraw(
    struct store *store, struct attempt *attempt, struct ledger_run *run);

/*
 * ledger_scan: one page of runs, without their markers. job empty: of all
 * jobs; page is the caller's, page->entities are for ledger_parse(); markers
 * are left out of it. from: as for store_scan. filter: OData over ledger
 * properties, or empty. A row that cannot be read comes too, past the filter:
 * see ledger_parse_any().
 */
TW_MUST_USE enum tw_err ledger_scan(struct store *store,
    struct attempt *attempt, struct slice job, struct slice filter,
    struct continuation from, struct page *ret);

/*
 * ledger_scan_open: one page of the markers of a job's open runs; each
 * entity's row_key is LEDGER_MARKER and the run id (ledger_marker_id()).
 */
TW_MUST_USE enum tw_err ledger_scan_open(struct store *store,
    struct attempt *attempt, struct slice job, struct continuation from,
    struct page *ret);

/* ledger_marker_id: the run id in a marker's RowKey. */
struct slice ledger_marker_id(struct slice row_key);

#endif
