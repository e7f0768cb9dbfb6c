/* SPDX-License-Identifier: MIT */
/* What a cascade keeps between attempts, and its JSON. Pure. */
#ifndef TW_JOBS_CASCADE_CHECKPOINT_H
#define TW_JOBS_CASCADE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/cascade/walk.h"
#include "worker/base/slice.h"

/* A String property holds 32 Ki UTF-16 units. */
#define CASCADE_CHECKPOINT_MAX_BYTES (30 * 1024)

#define CASCADE_DIGEST_MAX 65

/* Times are ticks of the service's clock; 0: not known. */
struct cascade_checkpoint {
    int64_t tombstone_ticks;  /* at the tombstone                         */
    int64_t began_ticks;      /* at the beginning of this pass            */
    int64_t not_before_ticks; /* the last look begins no sooner           */
    int parent_found;         /* before the tombstone: 0, 1; -1: not known */
    bool crashed;             /* an attempt crashed: counts may be too low */
    char values[CASCADE_DIGEST_MAX]; /* digest of what the rules read of the
                                        parent; "": not known */
};

/*
 * cascade_checkpoint_write: as JSON. path is where the pass goes on (NULL: at
 * its beginning); one that does not fit is left out. Owned.
 */
char *cascade_checkpoint_write(
    const struct cascade_checkpoint *checkpoint, const struct walk_path *path);

/*
 * cascade_checkpoint_read: the opposite. Another version, or a text that is
 * not ours: all is as for a run that just begins. The tombstone says all that
 * must not be forgotten.
 */
void cascade_checkpoint_read(struct slice text,
    struct cascade_checkpoint *checkpoint, struct walk_path *path);

#endif
