/* SPDX-License-Identifier: MIT */
/*
 * The ledger: one entity for each run, in the table TablewardRuns of the
 * queues' store. PartitionKey: the job's name ("-" for a message that could not
 * be read); RowKey: the run id. Each run also has one ledger index row, which
 * changes in the same batch as the run's entity. So lists, orphan scans and
 * pruning read only what they need. The RowKey of the ledger index row:
 *
 *   !open!ID        the run has not ended
 *   !failed!ID      failed, poisoned
 *   !ended!DAY!ID   succeeded, cancelled; DAY: yyyy-mm-dd of FinishedAt
 *
 * PartitionKeys that begin with '!' are not names of jobs. These partitions
 * hold locks (locks.h) and entities that kinds of jobs store here.
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
#define LEDGER_UNREADABLE "-"    /* PartitionKey of messages without a job */
#define LEDGER_IMPORTS "-import" /* PartitionKey of imports */
/* First byte of the RowKeys of ledger index rows, and of the PartitionKeys of
 * partitions that hold no runs. */
#define LEDGER_OWN_MARK '!'
/* The highest Format that this version knows. An entity with a higher Format
 * was written by a newer version, and is left unchanged. */
#define LEDGER_FORMAT 1

/* The service's limit on one String property, in UTF-16 units. */
#define LEDGER_MAX_TEXT_UNITS 32768
/* Maximum numbers of bytes of Error and of Note. A longer Error is cut. A
 * sentence that would make Note longer is not added. */
#define LEDGER_MAX_ERROR_BYTES 8192
#define LEDGER_MAX_NOTE_BYTES 4096

enum ledger_state {
    LEDGER_QUEUED,    /* a message is on the queue; no owner */
    LEDGER_RUNNING,   /* Owner has the lease until LeaseUntil */
    LEDGER_WAITING,   /* waits until ResumesAt, for WaitsFor */
    LEDGER_PAUSED,    /* paused by an operator until `resume`; no message */
    LEDGER_SUCCEEDED, /* ended */
    LEDGER_FAILED,    /* ended; a poison copy is put before the end */
    LEDGER_POISONED,  /* ended; a poison copy is put before the end */
    LEDGER_CANCELLED, /* ended by `cancel` or `drop` */
    LEDGER_NEWER,     /* a State that only a newer version knows; state_name has
                         its name */
    LEDGER_DAMAGED,   /* the entity cannot be read as a run; never stored */
};

/* ledger_state_name: return the name of state: "queued", "running", ...
 * ledger_state_named: find the state of this name; false: no such state. */
const char *ledger_state_name(enum ledger_state state);
bool ledger_state_named(struct slice name, enum ledger_state *ret);

/* ledger_state_ended: is state succeeded, failed, poisoned or cancelled? */
bool ledger_state_ended(enum ledger_state state);

/* Values of WaitsFor. A run that waits for one of the last three is called
 * held: ledger_is_held(). */
#define LEDGER_WAITS_FOR_SETTLE "settle"
#define LEDGER_WAITS_FOR_ROUND "round"
#define LEDGER_WAITS_FOR_TURN "turn"
#define LEDGER_WAITS_FOR_DEFINITION "definition"
#define LEDGER_WAITS_FOR_STORE "store"
#define LEDGER_WAITS_FOR_ARCHIVE "archive"

/* Values of Control, a request to the run's owner, and of Finish, a request to
 * a run of a job with `follow` to end. */
#define LEDGER_CONTROL_CANCEL "cancel"
#define LEDGER_CONTROL_PAUSE "pause"
#define LEDGER_FINISH "finish"
#define LEDGER_FINISH_NOW "now"

/* Maximum number of failed entities of a run that are logged. */
#define LEDGER_FAILED_LOGGED_MAX 100

/* One run's entity. All slices live in arena. */
struct ledger_run {
    struct arena arena;
    struct slice job, id;    /* PartitionKey, RowKey */
    struct slice etag;       /* empty: the run is not stored yet */
    struct slice index_etag; /* ETag of the run's ledger index row; empty: not
                                known */

    enum ledger_state state; /* changed by ledger_move() only */
    struct slice state_name; /* State as stored, for LEDGER_NEWER */
    int32_t format;
    bool newer; /* Format or State is of a newer version: the run is left
                   unchanged */
    struct slice kind, args; /* args: JSON object of strings */
    struct slice queue;      /* queue of the run; empty: the command `tableward
                                run` created the run */
    struct slice worker;     /* "host:process" of the last attempt */
    struct slice owner; /* lock_file_owner() of the attempt with the lease, or
                           empty after its release */
    struct slice phase, checkpoint;
    struct slice definition; /* the definition and the accounts under which the
                                checkpoint was made: see bound.h */
    struct slice error;
    struct slice failed_entities; /* the first ten failed entities, one line
                                     each */
    struct slice note;            /* sentences about a run that did not fail */
    struct slice waits_for;       /* LEDGER_WAITS_FOR_* of a waiting run */
    struct slice control;         /* LEDGER_CONTROL_*: a request to the owner */
    struct slice finish;    /* LEDGER_FINISH, LEDGER_FINISH_NOW, or empty */
    struct slice operation; /* random id of the last write */
    struct slice traceparent;
    struct slice poison_id, /* id of the poison copy; after a retry, id of the
                               poison copy that was there before the retry */
        poison_receipt;     /* pop receipt of the poison copy; empty: not
                               known */
    struct slice binding;   /* for a message that was refused: how its queue was
                               bound (binding.h) */
    struct slice ending; /* state and reason with which the run will end, once
                            its poison copy is put: lease_ending() */

    int32_t attempt, failures, rounds, epoch;
    int32_t silent;    /* number of attempts since the last attempt that made
                          progress or released its lease; at least 1 after a
                          release with keeps_crash (lease.h) */
    int32_t throttled; /* number of responses with status 429 or 503 */
    int32_t failed_logged; /* number of log lines about failed entities of the
                              run. After LEDGER_FAILED_LOGGED_MAX of these lines
                              one more line says that this is the maximum. 0 is
                              not stored */
    int32_t idle_s; /* seconds since started_ticks during which no attempt
                       worked on the run: see ledger_note_idle(). 0 is not
                       stored */

    int64_t read, written, deleted, skipped, failed, transactions;
    int64_t behind; /* number of changed sources still to copy; -1: not known */
    int parent_found;    /* cascade: 1 if the parent exists; -1: not known */
    double share;        /* part of the key range that is done, 0 to 1; < 0: not
                            known */
    bool accept_deletes; /* the run accepts deletes until its next round that
                            compares everything is complete */
    int64_t accepted_ticks; /* when accept_deletes was last set, or all earlier
                               acceptances were withdrawn; 0: never */

    /* Times in ticks; 0: absent. */
    int64_t requested_ticks, started_ticks, updated_ticks, lease_until_ticks,
        resumes_ticks, finished_ticks, caught_up_ticks, waits_since_ticks,
        message_until_ticks; /* a message of the run may be hidden until then:
                                prune.h */

    struct property *others; /* unknown properties, written back unchanged */
    size_t other_count;
};

/* ledger_run_init: make run an empty run in state `queued`. ledger_run_done:
 * free its memory. */
void ledger_run_init(struct ledger_run *run);
void ledger_run_done(struct ledger_run *run);

/* ledger_text: copy text into run's arena, for a field of run. */
struct slice ledger_text(struct ledger_run *run, struct slice text);

/* ledger_copy: make `to` a deep copy of `from`. `to` is init'ed, and not the
 * same struct as `from`. */
void ledger_copy(struct ledger_run *to, const struct ledger_run *from);

/*
 * ledger_take_over: copy `from`, which is what the owner wants to store, into
 * `to`, which is the run as stored. `to` keeps what other processes may write:
 * the ETags, Control, Finish, a later MessageUntil and unknown properties.
 */
void ledger_take_over(struct ledger_run *to, const struct ledger_run *from);

/*
 * ledger_accept_deletes: let run accept deletes (accepts is true), or withdraw
 * the acceptance (false). AcceptedAt becomes at_ticks, or rises by one tick if
 * at_ticks is not later. As it rises with each call, the owner sees a new
 * acceptance, and a message that is older than AcceptedAt accepts nothing.
 */
void ledger_accept_deletes(
    struct ledger_run *run, bool accepts, int64_t at_ticks);

/*
 * ledger_note_idle: call before a change that sets UpdatedAt or the state of a
 * run whose lease the caller does not have. Adds to idle_s the time for which
 * no attempt has worked on the run:
 *
 *   paused, failed, poisoned or queued  since its last change
 *   waiting (WaitsFor is not empty)     since its last change: for a round, a
 *                                       settle pass, a lock, a definition, a
 *                                       store or an archive
 *   running                             since its lease expired, if it has
 *
 * The wait before a retry (WaitsFor is empty) counts as work: the failures of
 * the run cause it, and more of them may follow.
 */
void ledger_note_idle(struct ledger_run *run, int64_t now_ticks);

/* ledger_expect_message: note that a message of run may be hidden until
 * until_ticks. An earlier time than the one noted changes nothing. */
void ledger_expect_message(struct ledger_run *run, int64_t until_ticks);

/* ledger_compact: free the texts of the arena that are no longer used, because
 * later changes replaced them. */
void ledger_compact(struct ledger_run *run);

/* ledger_set_error: set Error, cut to LEDGER_MAX_ERROR_BYTES between
 * characters. */
void ledger_set_error(struct ledger_run *run, const char *error);

/* ledger_add_note: add sentence to Note, unless Note has it already or would
 * exceed LEDGER_MAX_NOTE_BYTES. */
void ledger_add_note(struct ledger_run *run, struct slice sentence);

/*
 * ledger_may_move: may the state change from `from` to `to`? Also true if
 * `from` equals `to`. An ended run changes only from failed or poisoned, to
 * queued (retry) or cancelled (drop).
 */
bool ledger_may_move(enum ledger_state from, enum ledger_state to);

/*
 * ledger_move: set state `to`. TW_INVALID: ledger_may_move() is false, nothing
 * is changed. Clears Ending if the run ends or is retried.
 */
TW_MUST_USE enum tw_err ledger_move(
    struct ledger_run *run, enum ledger_state to, struct err *err);

/*
 * ledger_wait: set `waiting` until until_ticks, for a reason
 * (LEDGER_WAITS_FOR_*, or "" after a failure). Keeps WaitsSince if the run
 * already waited for the same reason.
 */
TW_MUST_USE enum tw_err ledger_wait(struct ledger_run *run,
    const char *waits_for, int64_t now_ticks, int64_t until_ticks,
    struct err *err);

/* ledger_state_shown: return the name of run's state. If only a newer version
 * knows the state, this is its name as stored. */
struct slice ledger_state_shown(const struct ledger_run *run);

/* ledger_is_held: does the run wait for a store, archive or definition? */
bool ledger_is_held(const struct ledger_run *run);

/* ledger_waits_for_definition: is the run held because its job has changed, or
 * is not configured? */
bool ledger_waits_for_definition(const struct ledger_run *run);

/* ledger_lease_is_live: is there an owner whose lease is valid at now_ticks
 * (the service's clock)? */
bool ledger_lease_is_live(const struct ledger_run *run, int64_t now_ticks);

/*
 * ledger_drop_owner: remove an Owner that did not release the lease.
 * Afterwards ledger_has_crashed_owner() is true until an attempt ends in order
 * or makes progress.
 */
void ledger_drop_owner(struct ledger_run *run);

/* ledger_has_crashed_owner: may requests of an owner that did not release its
 * lease still arrive (rule A4)? */
bool ledger_has_crashed_owner(const struct ledger_run *run);

/* ledger_is_newer: did a newer version write this entity (of any sort) of the
 * ledger? Compares Format; an entity without Format is of the first version. */
bool ledger_is_newer(const struct entity *entity);

/* ledger_parse: read a run from an entity. TW_INVALID: the entity is not a run;
 * err has the reason. ret is init'ed and changes only on success. */
TW_MUST_USE enum tw_err ledger_parse(
    const struct entity *entity, struct ledger_run *ret, struct err *err);

/* ledger_parse_any: ledger_parse() for lists. An unreadable entity becomes a
 * run with the entity's keys, state LEDGER_DAMAGED and the reason as error. */
void ledger_parse_any(const struct entity *entity, struct ledger_run *ret);

/* ledger_entity: compose the entity to store. Its texts live in arena and in
 * run. */
void ledger_entity(
    const struct ledger_run *run, struct arena *arena, struct entity *ret);

/* ledger_add_json: add the run as one JSON object, as `status --json` prints
 * it: Job, Id, then the ledger's property names, numbers as numbers. */
void ledger_add_json(const struct ledger_run *run, struct buf *to);

/* ledger_create: create the table if it is missing. */
TW_MUST_USE enum tw_err ledger_create(
    struct store *store, struct exchange *exchange);

/*
 * ledger_ensure: create the table if it is missing; without the right to create
 * tables, check that the table can be read. Retries for RETRY_BUSY_MS while the
 * service is busy, for unanswered_ms while the service does not respond. Never
 * returns TW_UNKNOWN.
 */
TW_MUST_USE enum tw_err ledger_ensure(struct store *store,
    const struct deadline *deadline, int64_t unanswered_ms, struct err *err);

/*
 * ledger_get: read one run. ret (init'ed) changes only on TW_OK. TW_NOT_FOUND:
 * no such run (or no such table). After TW_OK and TW_NOT_FOUND,
 * exchange->date_ticks is the service's clock. TW_INVALID: the stored entity is
 * not a run.
 */
TW_MUST_USE enum tw_err ledger_get(struct store *store,
    struct exchange *exchange, struct slice job, struct slice id,
    struct ledger_run *ret);

/* ---- ledger index rows ---- */

enum ledger_index {
    LEDGER_INDEX_OPEN,
    LEDGER_INDEX_FAILED,
    LEDGER_INDEX_ENDED,
};

/* ledger_index_of: return the list that contains the runs of this state. */
enum ledger_index ledger_index_of(enum ledger_state state);

/* ledger_index_key: compose the RowKey of run's ledger index row. Lives in
 * arena. */
struct slice ledger_index_key(
    const struct ledger_run *run, struct arena *arena);

/* ledger_index_id: find the run id in the RowKey of a ledger index row. False:
 * row_key is not that of a ledger index row. */
bool ledger_index_id(struct slice row_key, struct slice *ret_id);

/* What a ledger index row holds about its run. Texts live in an arena. */
struct ledger_row {
    struct slice job, id;
    enum ledger_state state; /* state of the run when the row was written; an
                                open run may have changed its state since */
    struct slice queue;
    int64_t requested_ticks, finished_ticks; /* 0: not known */
};

/*
 * ledger_index_row: read a ledger index row. False: entity is no such row.
 * Texts live in arena.
 */
bool ledger_index_row(
    const struct entity *entity, struct arena *arena, struct ledger_row *ret);

struct ledger_index_scan {
    struct slice job; /* the job whose list is read; ledger_next_job() finds the
                         next job */
    enum ledger_index index;
    const char *from_day, *below_day; /* only for LEDGER_INDEX_ENDED:
                                         yyyy-mm-dd, from_day <= DAY <
                                         below_day; NULL: no bound */
    struct slice id_prefix; /* lists of open and failed runs: only ids that
                               begin with this text */
    unsigned top;           /* maximum number of rows in a page; 0: 1000 */
};

/* ledger_scan_index: read one page of ledger index rows, for
 * ledger_index_row(). */
TW_MUST_USE enum tw_err ledger_scan_index(struct store *store,
    struct exchange *exchange, const struct ledger_index_scan *scan,
    struct continuation from, struct page *ret);

/*
 * ledger_next_job: find the first job, in order of names, that is after `after`
 * and has runs in the ledger. `after` empty: the first of all. The job may be
 * one that is not configured. ret: the job's name, copied into arena.
 * TW_NOT_FOUND: no further job. Makes one request, and further ones only while
 * the service returns empty pages.
 */
TW_MUST_USE enum tw_err ledger_next_job(struct store *store,
    struct exchange *exchange, struct slice after, struct arena *arena,
    struct slice *ret);

/* ledger_day: write the day of ticks as yyyy-mm-dd, with a NUL, to `to`, which
 * has room for LEDGER_DAY_MAX bytes. Returns `to`. */
#define LEDGER_DAY_MAX 11
const char *ledger_day(int64_t ticks, char *to);

/* ---- many runs ---- */

/*
 * ledger_scan: read one page of runs into ret; parse ret->entities with
 * ledger_parse(). Leaves out ledger index rows, and partitions that are not
 * jobs. job: the job of the runs; empty: runs of all jobs. from: the
 * continuation of the page before, as for store_scan(). filter: an OData filter
 * of ledger properties, or empty. An entity that cannot be read as a run is
 * returned even if filter does not select it: see ledger_parse_any(). This
 * reads every run; for lists use ledger_scan_index().
 */
TW_MUST_USE enum tw_err ledger_scan(struct store *store,
    struct exchange *exchange, struct slice job, struct slice filter,
    struct continuation from, struct page *ret);

#endif
