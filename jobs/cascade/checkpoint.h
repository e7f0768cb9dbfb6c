/* SPDX-License-Identifier: MIT */
/* What a cascade saves between attempts, and its JSON. Pure functions. */
#ifndef TW_JOBS_CASCADE_CHECKPOINT_H
#define TW_JOBS_CASCADE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/cascade/walk.h"
#include "worker/base/slice.h"

/* Maximum size of the JSON, which is stored in a String property of at most 32
 * Ki UTF-16 units. */
#define CASCADE_CHECKPOINT_MAX_BYTES (30 * 1024)

#define CASCADE_DIGEST_MAX 65

/* What an attempt knows of its run, beside the path of the walk. Times are
 * ticks of the service's clock; 0: unknown. */
struct cascade_checkpoint {
    int64_t tombstone_ticks;  /* when the tombstone was written; 0: unknown,
                                 or it was not written yet */
    int64_t began_ticks;      /* when the current pass began */
    int64_t not_before_ticks; /* earliest start of the last settle pass */
    int parent_found;         /* 1: the parent existed before the tombstone was
                                 written; 0: it did not; -1: unknown */
    bool crashed;             /* an attempt crashed: counts may be too low */
    bool archived;            /* this run has archived the parent */
    bool removed;             /* the parent was absent, although this run had
                                 written its tombstone and had not deleted the
                                 parent */
    bool waited;              /* this run has waited for another run that was
                                 deleting the parent */
    bool unmarked;            /* the parent was found with this run's name, but
                                 without the tombstone, and this run has not
                                 written the tombstone again since */
    char values[CASCADE_DIGEST_MAX]; /* digest of the parent's values that
                                        first-level rules read; "" if it is
                                        unknown, or the rules read none */
};

/*
 * cascade_checkpoint_write: returns checkpoint and path as JSON, owned by the
 * caller. path is where the pass resumes; NULL: it begins again. A path that
 * does not fit is omitted.
 */
char *cascade_checkpoint_write(
    const struct cascade_checkpoint *checkpoint, const struct walk_path *path);

/*
 * cascade_checkpoint_read: parse the JSON of cascade_checkpoint_write(). A text
 * of another version, or an invalid one, gives the state of a new run. That is
 * safe: the next attempt finds a tombstone with this run's name, makes all
 * checks that come before a tombstone again, and writes the tombstone again.
 */
void cascade_checkpoint_read(struct slice text,
    struct cascade_checkpoint *checkpoint, struct walk_path *path);

#endif
