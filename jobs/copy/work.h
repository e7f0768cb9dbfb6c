/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a copy run share.
 *
 * A full round compares both sides in constant memory:
 *
 *   forward   scan the sources: what should be stored is expected
 * (difference.h); sources that changed since the round before are sent at once
 *   own       scan the job's own copies: what is stored is found
 *   repair    scan the sources again: those whose bucket differs are sent
 *   backward  scan the own copies again: of those whose bucket differs the
 *             source is read; without a source that has this key they are
 *             deleted
 *
 * The last two are left out if nothing differs. The first round of a run whose
 * destination holds no copy of the job yet sends every source and compares
 * nothing. A comparison lives in memory; after it has been interrupted three
 * times the round is made without one, from checkpoint to checkpoint: every
 * source is sent, the source of every own copy is read.
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

/* Characters of a digest of key templates. */
#define COPY_BY_CHARACTERS 8

enum copy_mode {
    COPY_SEND_ALL,   /* every selected source; no own copy was there before */
    COPY_SEND_NEWER, /* sources that changed since the round before */
    COPY_COMPARE,    /* a full round */
    COPY_EACH,       /* a full round without a comparison */
};

enum copy_step {
    COPY_FORWARD,
    COPY_OWN,
    COPY_REPAIR,
    COPY_BACKWARD,
};

/* A table that copies go to. */
struct copy_table {
    struct store *store;
    const char *table;
    struct source_table at;
    struct parts_sample copies; /* partitions that were written, or read */
    bool is_index;              /* it is the table of the sources */
    bool may_be_index; /* it has its name, in a store that may be the same
                          under another name (rule C5) */
};

/* An entry of `to:`. */
struct copy_entry {
    const struct copying_target *target;
    size_t table; /* index into struct copy_work.tables */
    char by[COPY_BY_CHARACTERS + 1];
    struct source stamp; /* what all its copies have in common */
};

/* How far the round is: kept in the checkpoint. */
struct copy_progress {
    enum copy_mode mode;
    enum copy_step step;
    bool resumes; /* behind these keys, of table number `table` backward */
    size_t table;
    struct slice partition_key, row_key;
    int64_t restarts;    /* comparisons that were interrupted */
    int64_t compared_ms; /* what the last one took; 0: not known */
    bool late;           /* an attempt ended with an unknown outcome */

    /* The brake (rule C6), of this round. */
    bool checked; /* the deletes may be made */
    int64_t own, deletes;
    int64_t former; /* of these, under former key templates */
};

struct copy_work {
    const struct job *job;
    const struct copy_rules *rules;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    struct arena arena;   /* of the attempt */
    struct arena scratch; /* of one entity */

    struct selection selection;
    struct store *from_store;
    struct source_table from;
    bool has_index; /* an entry goes to the table of the sources */
    struct copy_entry entries[COPYING_MAX_TARGETS];
    struct copy_table tables[COPYING_MAX_TARGETS];
    size_t table_count;

    struct rounds rounds;
    struct copy_progress at;
    struct late late;
    struct difference *difference; /* NULL: nothing is compared */
    struct repaired repaired;
    struct parts_sample
        sources;      /* partitions that rounds of this attempt met */
    int64_t selected; /* sources, in this round */
    int64_t edited;   /* copies that were edited and stay, in this round */
    char first_edited[256];

    /* Of the step. */
    struct batch_writer *batch_writer;
    struct sorter *sorter;
    struct checkpoint_queue gathering; /* by what the sorter has handed over */
    struct checkpoint_queue checkpoint_queue;
    char *saved; /* the checkpoint that was handed over last; NULL: none */
    enum tw_err broken; /* of a request that a decision needed ... */
    struct err why;     /* ... and why */
};

/*
 * copy_work_init: everything about job and run that does not change. Not
 * TW_OK: the selection cannot be bound; copy_work_done() all the same.
 */
TW_MUST_USE enum tw_err copy_work_init(struct copy_work *work,
    const struct job *job, const struct job_stores *stores, struct run *run,
    struct err *err);
void copy_work_done(struct copy_work *work);

/* copy_is_selected: is entity, as read from the table of the sources, one? An
 * index row never is. */
bool copy_is_selected(
    const struct copy_work *work, const struct entity *entity);

/*
 * copy_make: the copy of source for an entry, as it is to be stored, with
 * TablewardSource; in arena. TW_INVALID, TW_TOO_LARGE: err says why there can
 * be none, without naming source.
 */
TW_MUST_USE enum tw_err copy_make(const struct copy_work *work, size_t entry,
    const struct entity *source, struct arena *arena, struct entity *ret,
    struct err *err);

/* copy_is_own: is entity, as read from table number `table`, a copy of this
 * job (rule C1)? ret lives in arena. */
bool copy_is_own(const struct copy_work *work, size_t table,
    const struct entity *entity, struct arena *arena, struct source *ret);

/* What the source of an own copy says of it. */
enum copy_source_state {
    COPY_HAS_KEY,   /* it is selected, and its copy has this key */
    COPY_HAS_OTHER, /* its copy has another key now */
    COPY_IS_GONE,   /* it is gone, or no longer selected */
    COPY_UNCLEAR,   /* its copy cannot be made: it is named elsewhere */
};

/* copy_source_state: source is what is stored at the keys that `is` names;
 * NULL: nothing. */
enum copy_source_state copy_source_state(struct copy_work *work,
    const struct source *is, const struct entity *source);

/* copy_read_source: the same, with one request. */
TW_MUST_USE enum tw_err copy_read_source(struct copy_work *work,
    const struct source *is, enum copy_source_state *ret,
    struct slice *ret_etag, struct arena *arena, struct err *err);

/* copy_digest: for difference.h, of a copy as it is stored; edited: as one
 * that does not count as what it says. */
struct digest copy_digest(const struct entity *copy, bool edited);

/* copy_keeps_edits: does a copy in this table that was edited stay as it is
 * (rule C3)? An index row is restored, and so are all with `replace`. */
bool copy_keeps_edits(const struct copy_work *work, size_t table);

/* copy_name_source: report a source that cannot be copied. */
void copy_name_source(
    struct copy_work *work, const struct entity *source, const char *why);

/* copy_begin_step, copy_end_step: batch writer and sorter of a step. At the end
 * they are drained; what could not be repaired is the outcome. */
void copy_begin_step(struct copy_work *work);
TW_MUST_USE enum tw_err copy_end_step(
    struct copy_work *work, enum tw_err outcome);

/* copy_send: an operation through the sorter. */
struct batch_item;
TW_MUST_USE enum tw_err copy_send(
    struct copy_work *work, const struct batch_item *item);

/* copy_flush: all that waits in the sorter goes to the batch writer. */
TW_MUST_USE enum tw_err copy_flush(struct copy_work *work);

/* copy_save: hand over the checkpoint as it is now. */
void copy_save(struct copy_work *work, bool progress);

/* copy_save_late: at the end of an attempt: the checkpoint that was handed over
 * last says whether requests may still arrive late. */
void copy_save_late(struct copy_work *work);

/* copy_reached: everything up to this entity of the step is sent or needs
 * nothing; saved once it is stored. */
void copy_reached(
    struct copy_work *work, size_t table, const struct entity *last);

#endif
