/* SPDX-License-Identifier: MIT */
/*
 * Intents: what a move is about to do with a load, stored beside the ledger
 * (partition !intents) before the load's first insert and removed after its
 * last delete. What a crashed attempt left is taken over by the next one
 * (takeover.h).
 *
 * An intent is a row for each chunk of its list of pairs, all written in one
 * batch. Their RowKey is HASH-SLOT-CHUNK: HASH of the source table's account
 * and name, SLOT 0 or 1, so that a second owner of the same load meets a 409
 * (rule M1). The first row has what is known of the whole:
 *
 *   Format    INTENT_FORMAT; absent: 1
 *   State     copying: copies are being inserted; leaving: the list holds
 *             confirmed pairs only, with both ETags (rule M3)
 *   Load      random, of the load; Change: random, of the last write
 *   Job, Run  who moves
 *   SourceStore, SourceAccount, SourceTable, DestinationStore, ...
 *   Since     the destination's clock before the first insert (rule M2)
 *   Chunks, Pairs, Digest   of the list, to tell a damaged intent
 *
 * Each row has Load and Text. A pair is a line of seven texts with tabs
 * between: both keys and the ETag of the source, the same of the copy, the
 * digest of the copy. No key and no ETag holds a control character.
 */
#ifndef TW_JOBS_MOVE_INTENT_H
#define TW_JOBS_MOVE_INTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/move/load.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct late;
struct run;
struct store;

#define INTENTS_PARTITION "!intents"
#define INTENT_MAX_CHUNKS 99
/* An intent of a higher one is a newer version's: it is left alone. */
#define INTENT_FORMAT 1

/* A table, whatever the configuration calls its store. */
struct location {
    struct slice store;   /* the name, for people */
    struct slice account; /* location_account() of the store */
    struct slice table;
};

/* location_account: which store it is; in arena. */
struct slice location_account(const struct store *store, struct arena *arena);

/* location_same: one table. Names differ in case only. */
bool location_same(const struct location *a, const struct location *b);

struct intent {
    struct slice job, run;
    struct location table_refs[2]; /* by enum pair_side */
    int64_t since_ticks;
    bool leaving;

    char row_key[24]; /* HASH-SLOT */
    char id[33];      /* Load */
    char change[33];
    size_t chunks; /* stored; 0: none */
    char etags[INTENT_MAX_CHUNKS][ETAG_MAX];
};

/* intent_name: set row_key and id of a new intent in that slot. */
void intent_name(struct intent *intent, unsigned slot);

/*
 * intent_store: insert it with all pairs of the load. intent_leave: replace it
 * as `leaving` with the pairs that are PAIR_COPIED. intent_remove: delete it.
 *
 * An unknown outcome is resolved by reading; an insert whose outcome is
 * unknown is waited for, so that it cannot arrive after the intent was
 * removed. TW_CONFLICT: another attempt has taken it over, or it is in the way;
 * nothing more may be done for this load.
 */
TW_MUST_USE enum tw_err intent_store(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_leave(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_remove(
    struct intent *intent, struct run *run, struct late *late, struct err *err);

/*
 * intent_each: read all intents of the ledger, one after another. load is
 * lent: it holds the pairs of the intent while `each` is called, which may
 * remove or change it. Any outcome of `each` but TW_OK ends the reading.
 * TW_INVALID: an intent is damaged, or a newer version's, and err says which
 * and what to do.
 */
TW_MUST_USE enum tw_err intent_each(struct run *run, struct load *load,
    enum tw_err (*each)(
        void *ctx, struct intent *intent, struct load *load, struct err *err),
    void *ctx, struct err *err);

#endif
