/* SPDX-License-Identifier: MIT */
/*
 * An intent lists the pairs of a load (load.h). The intent is stored beside the
 * ledger (partition !intents) before the load's first insert and removed after
 * its last delete. The next attempt takes over the intents of a crashed attempt
 * (takeover.h).
 *
 * An intent has one row for each chunk of its list of pairs; one batch writes
 * all rows. The RowKey of a row is HASH-SLOT-CHUNK: HASH of the source table's
 * account and name; SLOT 0 or 1, for the two loads of an attempt. These keys
 * are fixed, so a second attempt that inserts the intent gets a 409 (rule M1).
 * The first row has the properties of the whole intent:
 *
 *   Format    INTENT_FORMAT; absent: 1
 *   State     copying: copies are being inserted; leaving: the list has
 *             confirmed pairs only, with both ETags (rule M3)
 *   Load      random id of the load
 *   Change    random id of the last write of the intent
 *   Job, Run  job and run that stored the intent
 *   SourceStore, SourceAccount, SourceTable, DestinationStore, ...
 *   SourceAccountName, DestinationAccountName   absent: unknown, or written by
 *             a former version
 *   Since     the destination's clock before the first insert (rule M2)
 *   Chunks, Pairs, Digest   numbers of rows and of pairs, and the digest of the
 *             list, to detect a damaged intent
 *
 * Each row has Load, and a chunk of the list in Text. A pair is a line of seven
 * fields separated by tabs: PartitionKey, RowKey and ETag of the source, then
 * of the copy, and the digest of the copy. Keys and ETags contain no control
 * characters, so no field contains a tab or a newline.
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
struct retry_call;
struct run;
struct store;

#define INTENTS_PARTITION "!intents"
#define INTENT_MAX_CHUNKS 99
/* The Format that this version of tableward writes. An intent with a higher
 * Format was written by a newer version, and is left unchanged. */
#define INTENT_FORMAT 1

/* A table, identified independently of the store's name in the
 * configuration. */
struct location {
    struct slice store;   /* the store's name, for messages */
    struct slice account; /* the identity of the store */
    struct slice table;
    struct slice account_name; /* the store's capabilities.account_name; empty:
                                  unknown */
};

/* location_of: returns where `table` of store is. Texts are in arena, or
 * borrowed from store and table. */
struct location location_of(
    const struct store *store, struct slice table, struct arena *arena);

/* location_same: are `a` and `b` the same table? Ignores the case of names. */
bool location_same(const struct location *a, const struct location *b);

/*
 * location_may_be_same: are `a` and `b` the same table, or tables of the same
 * name in accounts with the same AccountName but different hosts? In the second
 * case they may be different tables, because two services may have accounts of
 * the same name. So the caller may use the result to choose the intents to take
 * over, but not to find an entity.
 */
bool location_may_be_same(const struct location *a, const struct location *b);

struct intent {
    struct slice job, run;
    struct location locations[2]; /* tables of source and destination, by enum
                                     pair_side */
    int64_t since_ticks;
    bool leaving;

    char row_key[24]; /* HASH-SLOT */
    char id[33];      /* Load */
    char change[33];
    size_t chunks; /* number of stored rows; 0: the intent is not stored */
    char etags[INTENT_MAX_CHUNKS][ETAG_MAX];
};

/* intent_name: set row_key (with slot, 0 or 1) and id of a new intent. Call
 * after locations are set. */
void intent_name(struct intent *intent, unsigned slot);

/*
 * intent_store: insert the intent with all pairs of the load. intent_leave:
 * replace the stored intent by one in state `leaving` that lists the pairs in
 * state PAIR_COPIED. intent_remove: delete the stored intent.
 *
 * After an unknown outcome the functions read the rows. If the outcome of an
 * insert is unknown and no row is stored, intent_store() also waits until the
 * insert can no longer arrive. Otherwise the insert could arrive after the
 * intent was removed. TW_CONFLICT: another attempt has changed the intent, or
 * has stored an intent with the same keys; the caller must do nothing more for
 * this load.
 */
TW_MUST_USE enum tw_err intent_store(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_leave(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err);
TW_MUST_USE enum tw_err intent_remove(
    struct intent *intent, struct run *run, struct late *late, struct err *err);

/*
 * intent_each: read all intents of the ledger and call `each` for each of them,
 * one after the other. load is borrowed; during the call it has the pairs of
 * the intent. `each` may remove or change the intent; an outcome of `each`
 * other than TW_OK ends the reading and is returned. TW_INVALID: an intent is
 * damaged, or a newer version wrote the intent; err has the RowKey, and what to
 * do.
 */
TW_MUST_USE enum tw_err intent_each(struct run *run, struct load *load,
    enum tw_err (*each)(
        void *ctx, struct intent *intent, struct load *load, struct err *err),
    void *ctx, struct err *err);

/* intent_is_open: open_load of struct kind. Has the run stored an intent that
 * is not removed? */
TW_MUST_USE enum tw_err intent_is_open(struct store *ledger,
    const char *ledger_table, struct slice job, struct slice id,
    struct retry_call *call, bool *ret);

#endif
