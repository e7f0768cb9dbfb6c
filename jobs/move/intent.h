/* SPDX-License-Identifier: MIT */
/*
 * An intent lists the pairs of a load. It is stored beside the ledger
 * (partition !intents) before the load's first insert and removed after its
 * last delete. The next attempt takes over the intents of a crashed attempt
 * (takeover.h).
 *
 * An intent is a row for each chunk of its list of pairs, all written in one
 * batch. Their RowKey is HASH-SLOT-CHUNK: HASH of the source table's account
 * and name, SLOT 0 or 1, so that a second owner of the same load gets a 409
 * (rule M1). The first row has the properties of the whole intent:
 *
 *   Format    INTENT_FORMAT; absent: 1
 *   State     copying: copies are being inserted; leaving: the list holds
 *             confirmed pairs only, with both ETags (rule M3)
 *   Load      random, of the load; Change: random, of the last write
 *   Job, Run  the run that moves
 *   SourceStore, SourceAccount, SourceTable, DestinationStore, ...
 *   Since     the destination's clock before the first insert (rule M2)
 *   Chunks, Pairs, Digest   of the list, to detect a damaged intent
 *
 * Each row has Load and Text. A pair is a line of seven texts separated by
 * tabs: both keys and the ETag of the source, the same of the copy, the digest
 * of the copy. No key and no ETag holds a control character.
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
/* A newer version wrote an intent with a higher Format: it stays unchanged. */
#define INTENT_FORMAT 1

/* A table, independent of the store's name in the configuration. */
struct location {
    struct slice store;   /* the name, for messages */
    struct slice account; /* location_account() of the store */
    struct slice table;
};

/* location_account: the identity of the store; in arena. */
struct slice location_account(const struct store *store, struct arena *arena);

/* location_same: is it the same table? Compares names without case. */
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
 * intent_store: insert the intent with all pairs of the load. intent_leave:
 * replace it, as `leaving`, with the pairs that are PAIR_COPIED. intent_remove:
 * delete it.
 *
 * After an unknown outcome the rows are read. After an unknown insert the
 * function also waits, so that the insert cannot arrive after the intent was
 * removed. TW_CONFLICT: another attempt has written the intent, or holds its
 * keys; the caller must do nothing more for this load.
 */
TW_MUST_USE enum tw_err intent_store(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_leave(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_remove(
    struct intent *intent, struct run *run, struct late *late, struct err *err);

/*
 * intent_each: read all intents of the ledger, one after another. load is
 * borrowed: it holds the pairs of the intent during `each`, which may remove or
 * change the intent. Any outcome of `each` but TW_OK ends the reading.
 * TW_INVALID: an intent is damaged, or a newer version wrote it; err names the
 * row, and what to do.
 */
TW_MUST_USE enum tw_err intent_each(struct run *run, struct load *load,
    enum tw_err (*each)(
        void *ctx, struct intent *intent, struct load *load, struct err *err),
    void *ctx, struct err *err);

#endif
