/* SPDX-License-Identifier: MIT */
/* What a schema upgrade saves between attempts, and its JSON. Pure
 * functions. */
#ifndef TW_JOBS_UPGRADE_CHECKPOINT_H
#define TW_JOBS_UPGRADE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/engine/rounds.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* Maximum size of the JSON, which is stored in a String property of at most 32
 * Ki UTF-16 units. */
#define UPGRADE_CHECKPOINT_MAX_BYTES (30 * 1024)

/* The counts cover the last full round and all rounds after it. */
struct upgrade_checkpoint {
    struct rounds rounds;
    bool in_round; /* the round resumes after partition_key and row_key */
    struct slice partition_key, row_key;
    int64_t selected; /* number of entities that the job selects */
    int64_t outside;  /* number of entities at versions that the document does
                         not contain */
    int64_t leftover; /* number of entities at the newest version that have
                         properties which an older version removed or retyped */
    int64_t failed, skipped;
};

/* upgrade_checkpoint_write: returns checkpoint as JSON, owned by the caller.
 * Keys that do not fit are omitted, and the round then starts over. */
char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint);

/* upgrade_checkpoint_read: parse the JSON of upgrade_checkpoint_write(); keys
 * live in arena. A text of another version, or an invalid one, gives the state
 * of a new run. */
void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint);

#endif
