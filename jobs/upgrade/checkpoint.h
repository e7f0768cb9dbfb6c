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

/* A String property holds 32 Ki UTF-16 units. */
#define UPGRADE_CHECKPOINT_MAX_BYTES (30 * 1024)

/* Counts cover the last full round and the rounds since. */
struct upgrade_checkpoint {
    struct rounds rounds;
    bool in_round; /* the round resumes after this key: */
    struct slice partition_key, row_key;
    int64_t selected; /* entities that the job selects */
    int64_t outside;  /* at versions that the document does not contain */
    int64_t leftover; /* newest version, with what an older one removed */
    int64_t failed, skipped;
};

/* upgrade_checkpoint_write: as JSON. Keys that do not fit are omitted, and the
 * round then starts over. Owned. */
char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint);

/* upgrade_checkpoint_read: read that JSON; keys live in arena. Another version
 * or an invalid text gives the state of a new run. */
void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint);

#endif
