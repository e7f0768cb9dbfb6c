/* SPDX-License-Identifier: MIT */
/* An attempt at a move: what its parts share. */
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

/* A load under way. Two may be: the deletes of one and the inserts of the next.
 */
struct carried {
    struct load load;
    struct intent intent;
    struct ends ends;
    struct batch_writer *deletes; /* under way; NULL: none */
    struct keys done;             /* the last source that was read for it */
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
    bool may_be_late; /* a request of an attempt before may still arrive */
    bool takes_over;  /* an intent concerns this move */
    bool prepared; /* the location of the destination is known to be another */

    struct carried carried[2];
    struct carried *gathering; /* one of them */
    struct carried *leaving;   /* the other one while it is open, or NULL */

    /* Where to continue, and where the checkpoint says so. */
    bool resumes;
    struct keys done; /* owned texts */

    /* Entities that were named and will not be met again: kept in the
     * checkpoint, because the run fails by them. */
    int64_t named, named_stored;

    /* Digests of sources that were named; the first KNOWN_MAX. */
    struct digest *known; /* owned; a hash table of 2 * KNOWN_MAX */
    size_t known_count;

    /* Destination keys that this attempt has filled, the newest of each slot:
     * an equal entity there is the copy of another source, however young. */
    uint32_t *filled; /* owned; FILLED_SLOTS of them */
};

#define FILLED_SLOTS 65536

/* mover_set_ends: the stores, tables and places of both sides; needs m->arena.
 */
void mover_set_ends(struct mover *m);

/* mover_know: remember the source; with its ETag, or (empty) whatever its ETag
 * is. mover_knows: is it remembered like that? */
void mover_know(struct mover *m, const struct keys *keys, struct slice etag);
bool mover_knows(
    const struct mover *m, const struct keys *keys, struct slice etag);

/* mover_fill: a copy is at these keys. mover_has_filled: since then no other
 * key has taken its slot. */
void mover_fill(struct mover *m, const struct keys *keys);
bool mover_has_filled(const struct mover *m, const struct keys *keys);

/*
 * mover_name: report the pair as one where both sides stay, or one side that
 * the move may have left behind. Kept in the checkpoint.
 */
void mover_name(struct mover *m, const struct ends *ends, struct pair *pair);

/* mover_name_all: every pair of the load that has a reason and was not named
 * yet; what was named is in the ledger when this returns TW_OK. */
TW_MUST_USE enum tw_err mover_name_all(struct mover *m, const struct ends *ends,
    struct load *load, struct err *err);

/* mover_save: hand over the checkpoint. done: all up to this source is done;
 * NULL: as before. */
void mover_save(struct mover *m, const struct keys *done);

/* mover_read_checkpoint: rounds, named and where to continue; false: the run
 * has no checkpoint, it begins. */
bool mover_read_checkpoint(struct mover *m);

/* mover_forget_position: a round begins at the first key. mover_forget: the run
 * starts over, at once or when it is retried. */
void mover_forget_position(struct mover *m);
void mover_forget(struct mover *m);

#endif
