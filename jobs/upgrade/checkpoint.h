/* SPDX-License-Identifier: MIT */
/* What a schema upgrade keeps between attempts, and its JSON. Pure. */
#ifndef TW_JOBS_UPGRADE_CHECKPOINT_H
#define TW_JOBS_UPGRADE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/engine/rounds.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* A String property holds 32 Ki UTF-16 units. */
#define UPGRADE_CHECKPOINT_MAX_BYTES (30 * 1024)

/* Counts are of the last full round, and of the rounds since. */
struct upgrade_checkpoint {
    struct rounds rounds;
    bool in_round; /* the round goes on after this key: */
    struct slice partition_key, row_key;
    int64_t selected; /* entities that are meant */
    int64_t outside;  /* at versions that the document does not contain */
    int64_t leftover; /* at the newest one, with what an older one removed */
    int64_t failed, skipped;
};

/* upgrade_checkpoint_write: as JSON. Keys that do not fit are left out: the
 * round begins again. Owned. */
char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint);

/* upgrade_checkpoint_read: the opposite; keys live in arena. Another version,
 * or a text that is not ours: all is as for a run that just begins. */
void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint);

#endif
