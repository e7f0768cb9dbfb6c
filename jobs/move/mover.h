/* SPDX-License-Identifier: MIT */
/* The shared state of an attempt at a move. */
#ifndef TW_JOBS_MOVE_MOVER_H
#define TW_JOBS_MOVE_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/engine/late.h"
#include "jobs/engine/rounds.h"
#include "jobs/engine/run.h"
#include "jobs/engine/selector.h"
#include "jobs/move/intent.h"
#include "jobs/move/load.h"
#include "jobs/move/rules.h"

struct batch_writer;
struct job_stores;

/* Both sides of a move, by enum pair_side. */
struct ends {
    struct store *stores[2];
    const char *tables[2];
};

/* A load in progress. There may be two loads, because the deletes of one load
 * overlap the inserts of the next load. */
struct carried {
    struct load load;
    struct intent intent;
    struct ends ends;
    struct batch_writer *deletes; /* deletes in flight; NULL: none */
    bool open; /* this attempt has stored the intent and not removed it, or the
                  outcome of storing it is not known */
    struct keys done; /* keys of the last source read for the load, from which
                         the scan continues once the load is completed. NULL
                         texts: the load is the last of its round */
};

#define KNOWN_MAX 4096 /* maximum number of sources in mover.known */

struct mover {
    const struct move_rules *rules;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    struct arena arena; /* memory of selection and locations */
    struct selection selection;
    struct ends ends;
    struct location locations[2];

    struct rounds rounds;
    struct late late;
    bool may_be_late; /* a request of an earlier attempt may still arrive */
    bool takes_over;  /* an intent in the ledger concerns this move */
    bool prepared;    /* source and destination are known to differ */

    struct carried carried[2];
    struct carried *gathering; /* the element of carried that is being filled */
    struct carried *leaving;   /* the element of carried whose deletes are in
                                  flight; NULL: none */

    /* The position after which the scan continues; saved in the checkpoint. */
    bool resumes;
    struct keys done; /* keys of the last completed source; owned texts */

    /* named is the number of reported entities that no later round finds again.
     * It is saved in the checkpoint, because such entities make the run fail.
     * named_stored is the value of `named` in the ledger. */
    int64_t named, named_stored;

    /* Digests of the first KNOWN_MAX sources that this attempt has reported or
     * counted as skipped. */
    struct digest *known; /* owned; a hash table of 2 * KNOWN_MAX slots */
    size_t known_count;

    /* Hashes of the destination keys at which this attempt has stored or
     * accepted a copy. If several keys have one slot, only the newest is
     * remembered. If an insert finds an equal entity at one of these keys, that
     * entity is the copy of another source, even if its Timestamp is recent. */
    uint32_t *filled; /* owned; array of FILLED_SLOTS */
};

#define FILLED_SLOTS 65536

/* mover_set_ends: set stores, tables and locations of both sides. Call after
 * arena_init(&m->arena). */
void mover_set_ends(struct mover *m);

/* mover_know: remember that a source with these keys and this ETag is reported.
 * If etag is empty, the source is remembered with any ETag. mover_knows: was
 * mover_know() called with the same keys and etag? */
void mover_know(struct mover *m, const struct keys *keys, struct slice etag);
bool mover_knows(
    const struct mover *m, const struct keys *keys, struct slice etag);

/* mover_fill: remember that a copy is at these keys of the destination.
 * mover_has_filled: are these keys remembered? Returns false if other keys have
 * replaced them in their slot since. */
void mover_fill(struct mover *m, const struct keys *keys);
bool mover_has_filled(const struct mover *m, const struct keys *keys);

/*
 * mover_name: report a pair that is not moved: both entities remain, or only
 * the copy remains, or it is unknown which of the two exist. Adds 1 to
 * m->named, which the checkpoint contains.
 */
void mover_name(struct mover *m, const struct ends *ends, struct pair *pair);

/* mover_name_all: report every pair of the load that has a reason and is not
 * reported yet. TW_OK: m->named is stored in the ledger. */
TW_MUST_USE enum tw_err mover_name_all(struct mover *m, const struct ends *ends,
    struct load *load, struct err *err);

/* mover_save: save the checkpoint. done is the new position, which means that
 * all sources up to these keys are completed. If done is NULL, the position is
 * unchanged. */
void mover_save(struct mover *m, const struct keys *done);

/* mover_read_checkpoint: read rounds, named and the position. False: the run
 * has no checkpoint with progress, and begins with its first round. */
bool mover_read_checkpoint(struct mover *m);

/* mover_forget_position: let the next scan begin at the first key.
 * mover_forget: reset the checkpoint, so that the run, or its retry, starts
 * over. */
void mover_forget_position(struct mover *m);
void mover_forget(struct mover *m);

#endif
