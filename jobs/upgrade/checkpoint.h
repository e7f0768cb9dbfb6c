/* SPDX-License-Identifier: MIT */
/* What a schema upgrade keeps between attempts, and its JSON. Pure. */
#ifndef TW_JOBS_UPGRADE_CHECKPOINT_H
#define TW_JOBS_UPGRADE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* A String property holds 32 Ki UTF-16 units. */
#define UPGRADE_CHECKPOINT_MAX_BYTES (30 * 1024)

/* Counts are of the pass under way, up to its place. */
struct upgrade_checkpoint {
    int64_t pass;  /* 1 is the first; 0: none was begun since the last wait */
    int64_t waits; /* for other jobs, one after the other */
    bool surveyed; /* contract: nothing was below `to` at its beginning */
    bool in_pass;  /* the pass goes on behind this key: */
    struct slice partition_key, row_key;
    int64_t found;   /* entities that were to be changed */
    int64_t awaited; /* entities that another job is to bring to `from` */
    int64_t other;   /* at other versions */
    int64_t held;    /* at `to`, with something that a step takes away */
    int64_t below;   /* contract: below `to` */
    int64_t failed, skipped;
};

/* upgrade_checkpoint_write: as JSON. Keys that do not fit are left out: the
 * pass begins anew. Owned. */
char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint);

/* upgrade_checkpoint_read: the opposite; keys live in arena. Another version,
 * or a text that is not ours: all is as for a run that just begins. */
void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint);

#endif
