/* SPDX-License-Identifier: MIT */
/*
 * The ledger: one entity for each run, in the table TablewardRuns of the
 * queues' store. PartitionKey: the job's name ("-" for a message that could
 * not be read); RowKey: the run id. Beside each run lies one index row, changed
 * in the batch that changes the run:
 *
 *   !open!ID        it has not ended
 *   !failed!ID      failed, poisoned
 *   !ended!DAY!ID   succeeded, cancelled; DAY: yyyy-mm-dd of FinishedAt
 *
 * so that lists, orphan searches and pruning read what they show and no more.
 * PartitionKeys that begin with '!' are no jobs: locks (locks.h), and what the
 * kinds keep beside the ledger.
 *
 * This module reads; ledger_change.h is the only code that writes a run.
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
/* Of RowKeys (index rows) and PartitionKeys (no jobs) of our own. */
#define LEDGER_OWN_MARK '!'
/* Of the entity; a row of a higher one is a newer version's: left alone. */
#define LEDGER_FORMAT 1

/* The service's limit on one String property, in UTF-16 units. */
#define LEDGER_MAX_TEXT_UNITS 32768
/* Error is cut to this; a Note has room for so much. */
#define LEDGER_MAX_ERROR_BYTES 8192
#define LEDGER_MAX_NOTE_BYTES 4096

enum ledger_state {
    LEDGER_QUEUED,    /* its message is on the queue, nobody works on it     */
    LEDGER_RUNNING,   /* Owner works on it until LeaseUntil at least         */
    LEDGER_WAITING,   /* for ResumesAt; WaitsFor says why                    */
    LEDGER_PAUSED,    /* by a person, until `resume`; no message             */
    LEDGER_SUCCEEDED, /* ended, as are the next three                        */
    LEDGER_FAILED,    /* its message is in the poison queue                  */
    LEDGER_POISONED,  /* its message is in the poison queue                  */
    LEDGER_CANCELLED,
    LEDGER_NEWER,   /* a State of a newer version (state_name): left alone   */
    LEDGER_DAMAGED, /* never stored: what is there cannot be read as a run   */
};

/* "queued", "running", ... ; ledger_state_named: false: no such state. */
const char *ledger_state_name(enum ledger_state state);
bool ledger_state_named(struct slice name, enum ledger_state *ret);

/* ledger_state_ended: succeeded, failed, poisoned, cancelled. */
bool ledger_state_ended(enum ledger_state state);

/* WaitsFor, beside `waiting`. The last three: the run is held. */
#define LEDGER_WAITS_FOR_SETTLE "settle"
#define LEDGER_WAITS_FOR_ROUND "round"
#define LEDGER_WAITS_FOR_TURN "turn"
#define LEDGER_WAITS_FOR_DEFINITION "definition"
#define LEDGER_WAITS_FOR_STORE "store"
#define LEDGER_WAITS_FOR_ARCHIVE "archive"

/* Control, a request to the owner; Finish, one to a following run. */
#define LEDGER_CONTROL_CANCEL "cancel"
#define LEDGER_CONTROL_PAUSE "pause"
#define LEDGER_FINISH "finish"
#define LEDGER_FINISH_NOW "now"

/* One run's entity. All slices live in arena. */
struct ledger_run {
    struct arena arena;
    struct slice job, id;    /* PartitionKey, RowKey */
    struct slice etag;       /* empty: not stored yet */
    struct slice index_etag; /* of its index row; empty: not known */

    enum ledger_state state; /* changed by ledger_move() only */
    struct slice state_name; /* as stored, for LEDGER_NEWER */
    int32_t format;
    bool newer; /* Format or State of a newer version: left alone */
    struct slice kind, args; /* args: JSON object of strings */
    struct slice queue;      /* empty: made by `run` */
    struct slice worker;     /* "host:process" of the last attempt */
    struct slice owner;      /* random, of the attempt that holds it; empty
                                once it let go */
    struct slice phase, checkpoint;
    struct slice definition; /* hash of the job the checkpoint was made under */
    struct slice error;
    struct slice failed_entities; /* the first ten that failed, a line each */
    struct slice note;            /* what to know of a run that did not fail */
    struct slice waits_for;       /* LEDGER_WAITS_FOR_*, beside `waiting` */
    struct slice control;         /* LEDGER_CONTROL_*: asked of the owner */
    struct slice finish;    /* LEDGER_FINISH, LEDGER_FINISH_NOW, or empty */
    struct slice operation; /* random, of the last write: whose it was */
    struct slice traceparent;
    struct slice poison_id, /* of the copy in the poison queue; after a retry,
                               of the former one */
        poison_receipt;     /* empty: not known */
    struct slice ending;    /* how it ends once it has a copy: lease_ending() */

    int32_t attempt, failures, rounds, epoch;
    int32_t silent;    /* attempts since progress or an end in order */
    int32_t throttled; /* answers 503 or 429 */

    int64_t read, written, deleted, skipped, failed, transactions;
    int64_t behind;      /* -1: not known */
    int parent_found;    /* of a cascade; -1: not known */
    double share;        /* of the key range, 0 to 1; below 0: not known */
    bool accept_deletes; /* asked for with the message */

    /* Ticks; 0: absent. */
    int64_t requested_ticks, started_ticks, updated_ticks, lease_until_ticks,
        resumes_ticks, finished_ticks, caught_up_ticks, waits_since_ticks;

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

/*
 * ledger_take_over: to (as stored) becomes what its owner wants to store: all
 * of from, but for what others may write: the ETags, Control, Finish and the
 * properties that are not ours.
 */
void ledger_take_over(struct ledger_run *to, const struct ledger_run *from);

/* ledger_compact: give up what earlier changes have left in the arena. */
void ledger_compact(struct ledger_run *run);

/* ledger_set_error: cut to LEDGER_MAX_ERROR_BYTES at a character. */
void ledger_set_error(struct ledger_run *run, const char *error);

/* ledger_add_note: add a sentence, unless it is there already or there is no
 * room (LEDGER_MAX_NOTE_BYTES). */
void ledger_add_note(struct ledger_run *run, struct slice sentence);

/* ledger_may_move: may a run go from that state to this one? To stay is
 * allowed. An ended run moves only from failed or poisoned, to queued (retry)
 * or cancelled (drop). */
bool ledger_may_move(enum ledger_state from, enum ledger_state to);

/* ledger_move: change the state. TW_INVALID, and nothing changed: the run may
 * not go there; err says so. A run that ends, or is retried, has no Ending. */
TW_MUST_USE enum tw_err ledger_move(
    struct ledger_run *run, enum ledger_state to, struct err *err);

/* ledger_wait: `waiting` until then, for a reason (LEDGER_WAITS_FOR_*, or ""
 * after a failure). WaitsSince is kept where it waited for that already. */
TW_MUST_USE enum tw_err ledger_wait(struct ledger_run *run,
    const char *waits_for, int64_t now_ticks, int64_t until_ticks,
    struct err *err);

/* ledger_state_shown: the state's name, also a newer version's. */
struct slice ledger_state_shown(const struct ledger_run *run);

/* ledger_is_held: does it wait for a store, an archive, a definition? */
bool ledger_is_held(const struct ledger_run *run);

/* ledger_lease_is_live: does an owner work on it, by the service's clock? */
bool ledger_lease_is_live(const struct ledger_run *run, int64_t now_ticks);

/* ledger_drop_owner: its owner has not released it. That stays known
 * (ledger_takes_over()) until an attempt ends in order or makes progress. */
void ledger_drop_owner(struct ledger_run *run);

/* ledger_takes_over: did its last owner not release it? */
bool ledger_takes_over(const struct ledger_run *run);

/* ledger_is_newer: has a newer version written this entity of the ledger, a run
 * or any other? (Its Format; without one it is of the first.) */
bool ledger_is_newer(const struct entity *entity);

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
    struct store *store, struct exchange *exchange);

/*
 * ledger_ensure: the same, or see that it can be read where rights allow that
 * and not this. Waits a while for a service that is busy, and unanswered_ms
 * for one that does not respond. Never TW_UNKNOWN.
 */
TW_MUST_USE enum tw_err ledger_ensure(struct store *store,
    const struct deadline *deadline, int64_t unanswered_ms, struct err *err);

/*
 * ledger_get: read one run. ret (init'ed) changes only on TW_OK. TW_NOT_FOUND:
 * no such run (or no such table). exchange->date_ticks is the service's clock
 * on these two. TW_INVALID: what is stored there is not a run.
 */
TW_MUST_USE enum tw_err ledger_get(struct store *store,
    struct exchange *exchange, struct slice job, struct slice id,
    struct ledger_run *ret);

/* ---- index rows ---- */

enum ledger_index {
    LEDGER_INDEX_OPEN,
    LEDGER_INDEX_FAILED,
    LEDGER_INDEX_ENDED,
};

/* ledger_index_of: on which list a run is. */
enum ledger_index ledger_index_of(enum ledger_state state);

/* ledger_index_key: the RowKey of run's index row; lives in arena. */
struct slice ledger_index_key(
    const struct ledger_run *run, struct arena *arena);

/* ledger_index_id: the run id in an index row's RowKey. False: it is none. */
bool ledger_index_id(struct slice row_key, struct slice *ret_id);

/* What an index row says of its run. Borrowed from the row. */
struct ledger_row {
    struct slice job, id;
    enum ledger_state state; /* of an open run only QUEUED can be relied on
                                not to be one that has ended */
    struct slice queue;
    int64_t requested_ticks, finished_ticks; /* 0: not known */
};

/* ledger_index_row: false: the entity is no index row. Texts live in arena. */
bool ledger_index_row(
    const struct entity *entity, struct arena *arena, struct ledger_row *ret);

struct ledger_index_scan {
    struct slice job; /* one job: lists are by job, see ledger_next_job() */
    enum ledger_index index;
    const char *from_day, *below_day; /* of LEDGER_INDEX_ENDED: yyyy-mm-dd, from
                                         <= DAY < below; NULL: no bound */
    struct slice id_prefix; /* of OPEN and FAILED: ids that begin with it */
    unsigned top;           /* 0: 1000 */
};

/* ledger_scan_index: one page of index rows, for ledger_index_row(). */
TW_MUST_USE enum tw_err ledger_scan_index(struct store *store,
    struct exchange *exchange, const struct ledger_index_scan *scan,
    struct continuation from, struct page *ret);

/*
 * ledger_next_job: the first job, in order of names, that comes after `after`
 * (empty: the first of all) and has runs in the ledger, also one that is not
 * configured. ret: its name, copied into arena. TW_NOT_FOUND: there is none.
 * More than one request only where pages are empty.
 */
TW_MUST_USE enum tw_err ledger_next_job(struct store *store,
    struct exchange *exchange, struct slice after, struct arena *arena,
    struct slice *ret);

/* A day for LEDGER_INDEX_ENDED: 11 bytes. Returns to. */
#define LEDGER_DAY_MAX 11
const char *ledger_day(int64_t ticks, char *to);

/* ---- many runs ---- */

/*
 * ledger_scan: one page of runs, without index rows and what is no job's. job
 * empty: of all jobs; page is the caller's, page->entities are for
 * ledger_parse(). from: as for store_scan. filter: OData over ledger
 * properties, or empty. A row that cannot be read comes too, past the filter:
 * see ledger_parse_any(). Reads every row there is: for lists use the index.
 */
TW_MUST_USE enum tw_err ledger_scan(struct store *store,
    struct exchange *exchange, struct slice job, struct slice filter,
    struct continuation from, struct page *ret);

#endif
