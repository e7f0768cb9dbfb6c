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

/* A load in progress. There may be two: the deletes of one overlap the inserts
 * of the next. */
struct carried {
    struct load load;
    struct intent intent;
    struct ends ends;
    struct batch_writer *deletes; /* in flight; NULL: none */
    struct keys done;             /* the last source read for it */
};

#define KNOWN_MAX 4096

struct mover {
    const struct move_rules *rules;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    struct arena arena; /* the selection, locations */
    struct selection selection;
    struct ends ends;
    struct location table_refs[2];

    struct rounds rounds;
    struct late late;
    bool may_be_late; /* a request of an earlier attempt may still arrive */
    bool takes_over;  /* an intent concerns this move */
    bool prepared;    /* source and destination are known to differ */

    struct carried carried[2];
    struct carried *gathering; /* one of them */
    struct carried *leaving;   /* the other load while it is open, or NULL */

    /* Where the scan continues; saved in the checkpoint. */
    bool resumes;
    struct keys done; /* owned texts */

    /* Named entities that no later round finds again. Kept in the checkpoint,
     * because they make the run fail. named_stored: as in the ledger. */
    int64_t named, named_stored;

    /* Digests of sources that were named; the first KNOWN_MAX. */
    struct digest *known; /* owned; a hash table of 2 * KNOWN_MAX */
    size_t known_count;

    /* Hashes of destination keys at which this attempt has stored a copy, the
     * newest of each slot. An equal entity there is the copy of another
     * source, however recent it is. */
    uint32_t *filled; /* owned; FILLED_SLOTS of them */
};

#define FILLED_SLOTS 65536

/* mover_set_ends: set stores, tables and locations of both sides; needs
 * m->arena. */
void mover_set_ends(struct mover *m);

/* mover_know: remember the source; etag: only with this ETag; empty: with any
 * ETag. mover_knows: was it remembered with the same arguments? */
void mover_know(struct mover *m, const struct keys *keys, struct slice etag);
bool mover_knows(
    const struct mover *m, const struct keys *keys, struct slice etag);

/* mover_fill: a copy is at these keys. mover_has_filled: is it remembered?
 * False once another key has its slot. */
void mover_fill(struct mover *m, const struct keys *keys);
bool mover_has_filled(const struct mover *m, const struct keys *keys);

/*
 * mover_name: report a pair of which both sides stay, or a side that the move
 * may have left behind. Counted in the checkpoint.
 */
void mover_name(struct mover *m, const struct ends *ends, struct pair *pair);

/* mover_name_all: report every pair of the load that has a reason and is not
 * reported yet. TW_OK: the ledger has the count. */
TW_MUST_USE enum tw_err mover_name_all(struct mover *m, const struct ends *ends,
    struct load *load, struct err *err);

/* mover_save: save the checkpoint. done: all sources up to this one are done;
 * NULL: unchanged. */
void mover_save(struct mover *m, const struct keys *done);

/* mover_read_checkpoint: read rounds, named and the position. False: the run
 * has no checkpoint, so it begins. */
bool mover_read_checkpoint(struct mover *m);

/* mover_forget_position: the next scan begins at the first key. mover_forget:
 * reset the checkpoint, so that the run, or its retry, starts over. */
void mover_forget_position(struct mover *m);
void mover_forget(struct mover *m);

#endif
