/* SPDX-License-Identifier: MIT */
/*
 * The shared state of a copy attempt.
 *
 * An own copy is one that this job made (rule C1). The rules A1 to A5 and C1 to
 * C7 are in jobs/GUIDE.md.
 *
 * A full round compares both sides in constant memory:
 *
 *   forward   scan the sources: difference_expect() each copy (difference.h);
 *             write copies of the sources that changed since the previous round
 *   own       scan the job's own copies: difference_found() each
 *   repair    scan the sources again: write each copy whose bucket differs
 *   backward  scan the own copies again: if the bucket of a copy differs, read
 *             its source; delete the copy unless its source is still selected
 *             and still makes a copy with this key
 *
 * Which entry of `to:` made an own copy? The entry whose table is that of the
 * copy, and whose key templates have the digest that is stored in the copy
 * (`by`). The index in TablewardSource only decides between two entries with
 * the same table and the same key templates, which are possible if an account
 * has two names. A copy that no entry made is a former copy (COPY_FORMER).
 *
 * Each item below begins with a simpler rule, and shows what goes wrong with
 * it. One and Two are tables; w, x, y and z are key templates. If an item does
 * not say otherwise, the job had `to: [One x, Two y]`:
 *
 *   - By the index alone. After `to: [Two y]` the copies in Two (index 1) are
 *     foreign: they are not updated, and not deleted with their sources. After
 *     `to: [Two y, One x]` every copy is foreign.
 *   - By the index if its entry has the table of the copy. After
 *     `to: [Two y, Two w]` the index of every copy of y names the entry w,
 *     and the run is refused, as if y had been changed to w.
 *   - A former copy is foreign. After `to: [One x, One y]` has become
 *     `to: [One y]`, nothing ever deletes or reports the copies that x made.
 *   - A former copy counts as stale although its source still makes a copy with
 *     this key. Suppose an operator writes x in another way that gives the same
 *     keys, and a second source gets the key of a former copy. Then the copy of
 *     the second source replaces the former copy (rule C2), and the first
 *     source is reported. So the state of a former copy's source is
 *     COPY_HAS_KEY if any entry of the table makes a copy of it with this key.
 *     The forward step writes such a copy again.
 *   - A former copy is replaced as a stale copy is. After `to: [One x]` has
 *     become `to: [One z]`, z may give another source the key of the former
 *     copy, which is then lost without --accept-deletes (rule C6).
 *   - The comparison includes the index. After a change of the order every
 *     bucket differs in every full round, although no copy is written. So
 *     copy_digest() omits the index.
 *
 * Index rows that were imported from another account or store are own copies
 * too, although their TablewardSource names that account (source.restored).
 * They never count as current, so a run writes them again, with the name of
 * this account. The source of such a row may not have been imported. So only a
 * run with --accept-deletes deletes the row, or replaces it by the copy of
 * another source. The same is true of former copies.
 *
 * An entry that is removed and added again finds its copies, because the digest
 * depends on its key templates only. A table that `to:` no longer names is not
 * read.
 *
 * Without a difference, repair and backward do not run. If the destinations
 * hold no own copy, the first round of a run copies every source and compares
 * nothing. The comparison exists in memory only, so an interrupted round starts
 * over. After three interruptions the round runs without a comparison and with
 * checkpoints: it writes a copy of every source, and reads the source of every
 * own copy.
 */
#ifndef TW_JOBS_COPY_WORK_H
#define TW_JOBS_COPY_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/copy/repaired.h"
#include "jobs/copy/rules.h"
#include "jobs/copy/source.h"
#include "jobs/engine/checkpoint_queue.h"
#include "jobs/engine/late.h"
#include "jobs/engine/parts.h"
#include "jobs/engine/rounds.h"
#include "jobs/engine/selector.h"
#include "jobs/job.h"
#include "worker/base/arena.h"

struct difference;
struct batch_writer;
struct sorter;

/* Length of copy_entry.by: hexadecimal characters of a digest of key
 * templates. */
#define COPY_BY_CHARACTERS 8

enum copy_mode {
    COPY_SEND_ALL,   /* copy every source, because no own copy existed before */
    COPY_SEND_NEWER, /* copy sources that changed since the previous round */
    COPY_COMPARE,    /* make a full round with a comparison */
    COPY_EACH,       /* make a full round without a comparison */
};

enum copy_step {
    COPY_FORWARD,
    COPY_OWN,
    COPY_REPAIR,
    COPY_BACKWARD,
    COPY_STEPS_END, /* the end of the round, in the table of steps (copy.c) */
};

/* A destination table. */
struct copy_table {
    struct copy_work *work; /* the attempt */
    struct store *store;
    const char *table;
    struct source_table at;
    struct parts_sample copies; /* a sample of the PartitionKeys of the copies
                                   that this attempt made */
    bool is_index;              /* this table is the source table */
    bool may_be_index; /* this table has the name of the source table, in a
                          store that may be the same account (rule C5) */
};

/* An entry of `to:`. */
struct copy_entry {
    const struct copying_target *target;
    size_t table; /* index into struct copy_work.tables */
    char by[COPY_BY_CHARACTERS + 1];
    struct source stamp; /* fields that all copies of the entry share */
};

/* The progress of a round, kept in the checkpoint. */
struct copy_progress {
    enum copy_mode mode;
    enum copy_step step;
    bool resumes; /* continue the step after partition_key and row_key (in
                     COPY_BACKWARD, in table number `table`) */
    size_t table;
    struct slice partition_key, row_key;
    int64_t restarts;    /* number of times that the comparison of this round
                            was interrupted */
    int64_t compared_ms; /* duration of the last comparison; 0: unknown */
    bool late; /* a request sent before this checkpoint may still arrive */

    /* What rule C6, which refuses too many deletes, counts in this round. */
    bool checked;    /* the deletes were counted, and are not too many */
    int64_t own;     /* number of own copies */
    int64_t deletes; /* number of own copies to delete */
    int64_t former;  /* number of copies in `deletes` for which
                        copy_needs_consent() is true */
};

struct copy_work {
    const struct job *job;
    const struct copy_rules *rules;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    struct arena arena;   /* memory of the attempt */
    struct arena scratch; /* memory of one entity or page */

    struct selection selection;
    struct store *from_store;
    struct source_table from;
    bool has_index; /* one of the entries writes to the source table */
    struct copy_entry entries[COPYING_MAX_TARGETS];
    struct copy_table tables[COPYING_MAX_TARGETS];
    size_t table_count;

    struct rounds rounds;
    bool accepts; /* the round accepts deletes (rule C6): run->accept_deletes
                     was true when this attempt began or continued the round */
    struct copy_progress at;
    struct late late;
    struct difference *difference; /* the comparison; NULL: no comparison is in
                                      progress */
    struct repaired repaired;
    struct parts_sample sources; /* a sample of the PartitionKeys of sources
                                    that were read */
    int64_t selected;            /* number of selected sources in this round */
    int64_t edited; /* number of edited copies left unchanged in this round */
    char first_edited[256];

    /* The state of one step. */
    struct batch_writer *batch_writer;
    struct sorter *sorter;
    /* gathering: checkpoints that wait until the sorter has passed all earlier
     * operations to the batch writer. checkpoint_queue: checkpoints that wait
     * until all earlier operations are completed. */
    struct checkpoint_queue gathering;
    struct checkpoint_queue checkpoint_queue;
    char *saved;        /* the last saved checkpoint, owned; NULL: none */
    enum tw_err broken; /* outcome of the first request of a decide function
                           (decide.h) that failed; TW_OK: none failed */
    struct err why;     /* the error of the request in `broken` */
};

/*
 * copy_work_init: set the fields that are constant during the attempt. Fails if
 * the selection cannot be bound to the arguments of the run. Call
 * copy_work_done() after an error too.
 */
TW_MUST_USE enum tw_err copy_work_init(struct copy_work *work,
    const struct job *job, const struct job_stores *stores, struct run *run,
    struct err *err);
void copy_work_done(struct copy_work *work);

/* copy_is_selected: is entity, read from the source table, a source of the job?
 * An index row is never a source. */
bool copy_is_selected(
    const struct copy_work *work, const struct entity *entity);

/*
 * copy_make: make the copy of source for an entry, with TablewardSource, in
 * arena. TW_INVALID, TW_TOO_LARGE: err has the reason why the copy cannot be
 * made, without the keys of source.
 */
TW_MUST_USE enum tw_err copy_make(const struct copy_work *work, size_t entry,
    const struct entity *source, struct arena *arena, struct entity *ret,
    struct err *err);

/* struct source.entry of a former copy: an own copy whose entry of `to:` was
 * removed, or that was made with other key templates. */
#define COPY_FORMER (-1)

/*
 * copy_is_own: is entity, read from table number `table`, a copy of this job
 * (rule C1)? *ret becomes its TablewardSource, in arena, with these changes:
 *
 *   entry     index of the entry that made the copy, or COPY_FORMER
 *   from, at  the tables of this job
 *   restored  true if the copy is an index row written in another account
 */
bool copy_is_own(const struct copy_work *work, size_t table,
    const struct entity *entity, struct arena *arena, struct source *ret);

/* copy_needs_consent: `is` is what copy_is_own() returned for an own copy. Is
 * this copy a former copy or a restored index row? If its source no longer
 * makes a copy with this key, only a run with --accept-deletes may delete or
 * replace the copy (rule C6). */
bool copy_needs_consent(const struct source *is);

/* copy_is_of_same: `is` is what copy_is_own() returned for an own copy. Is this
 * the copy that a new copy with the TablewardSource `mine` replaces? Both must
 * have the same source. They must also have the same entry, unless the own copy
 * is a former copy, which has no entry. */
bool copy_is_of_same(const struct source *is, const struct source *mine);

/* The state of the source of an own copy. */
enum copy_source_state {
    COPY_HAS_KEY,   /* source is selected, and the entry makes a copy of it with
                       the key of the own copy (former copy: some entry of this
                       table does) */
    COPY_HAS_OTHER, /* source is selected; its copy has another key now */
    COPY_IS_GONE,   /* source does not exist or is no longer selected */
    COPY_UNCLEAR, /* no copy of the source can be made; the forward step reports
                     the source */
};

/* copy_source_state: returns the state of the source of an own copy. `is` is
 * the result of copy_is_own() for the copy. source is the entity at the source
 * keys in `is`, or NULL if none exists. */
enum copy_source_state copy_source_state(struct copy_work *work,
    const struct source *is, const struct entity *source);

/* copy_read_source: read the source of an own copy with one request; set *ret
 * to the state of the source, and *ret_etag (in arena) to its ETag, empty if
 * the source does not exist. */
TW_MUST_USE enum tw_err copy_read_source(struct copy_work *work,
    const struct source *is, enum copy_source_state *ret,
    struct slice *ret_etag, struct arena *arena, struct err *err);

/* copy_digest: returns the digest that difference.h compares: that of the
 * TablewardSource of copy, without the index of the entry. If edited is true,
 * returns another digest, so that the bucket of the copy differs. */
struct digest copy_digest(const struct entity *copy, bool edited);

/* copy_keeps_edits: is an edited copy in this table left unchanged (rule C3)?
 * If not, the copy is restored, because it is an index row or on_conflict is
 * `replace`. */
bool copy_keeps_edits(const struct copy_work *work, size_t table);

/* copy_name_source: report a source that cannot be copied. */
void copy_name_source(
    struct copy_work *work, const struct entity *source, const char *why);

/* copy_begin_step: create the batch writer and the sorter of a step.
 * copy_end_step: drain and free both, and return outcome or, if outcome is
 * TW_OK, the first error of the remaining writes. */
void copy_begin_step(struct copy_work *work);
TW_MUST_USE enum tw_err copy_end_step(
    struct copy_work *work, enum tw_err outcome);

/* copy_send: pass an operation to the sorter. */
struct batch_item;
TW_MUST_USE enum tw_err copy_send(
    struct copy_work *work, const struct batch_item *item);

/* copy_flush: pass all operations of the sorter to the batch writer. */
TW_MUST_USE enum tw_err copy_flush(struct copy_work *work);

/* copy_save: save a checkpoint with the present work->rounds and work->at.
 * progress: see save() of struct run_callbacks. */
void copy_save(struct copy_work *work, bool progress);

/* copy_save_late: call at the end of an attempt. If requests may still arrive,
 * saves the last checkpoint once more, with `late` set. */
void copy_save_late(struct copy_work *work);

/* copy_reached: call when the operations of all entities of the step up to
 * `last` were passed to copy_send(). Queues a checkpoint, which is saved once
 * these operations are completed. In mode COPY_COMPARE no checkpoint is
 * queued. */
void copy_reached(
    struct copy_work *work, size_t table, const struct entity *last);

#endif
