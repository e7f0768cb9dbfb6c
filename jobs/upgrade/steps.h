/* SPDX-License-Identifier: MIT */
/*
 * Applies the steps of an upgrade to one entity, by pure functions. So a round,
 * a dry run, `verify` and `convert` get the same result for the same entity.
 */
#ifndef TW_JOBS_UPGRADE_STEPS_H
#define TW_JOBS_UPGRADE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

enum upgrade_outcome {
    UPGRADE_CHANGED,   /* the caller must store ret->entity, which has the keys
                          and ETag of entity */
    UPGRADE_UNCHANGED, /* the steps change nothing */
    UPGRADE_OUTSIDE,   /* the document does not contain the entity's version */
    UPGRADE_SKIPPED,   /* a step with `on_error: skip` failed; err has the
                          reason */
    UPGRADE_FAILED,    /* err has the reason: "version 3, retype Rating: an
                          Edm.String that is no number" */
};

/* For a dry run: how often each step changed an entity. */
struct upgrade_tally {
    int64_t (*counts)[UPGRADE_MAX_STEPS]; /* counts[v][s]: how often step s of
                                             version v changed an entity */
};

struct upgrade_result {
    struct entity entity; /* only after UPGRADE_CHANGED; lives in arena, or
                             borrows from the entity that was read */
    bool is_below;        /* entity was below the newest version */
    size_t first;   /* only after UPGRADE_CHANGED: index of the first version
                       whose steps may have changed entity */
    char step[160]; /* only after UPGRADE_SKIPPED and UPGRADE_FAILED: the step,
                       such as "version 3, retype Rating" */
};

/* The input of upgrade_apply() beside the entity. */
struct upgrade_how {
    const struct upgrade *upgrade;
    enum upgrade_phase phase;
    const struct run_args *args;
    struct upgrade_tally *tally; /* NULL: steps are not counted */
};

/*
 * upgrade_apply: carry out all steps that the entity lacks, in order, and set
 * the newest version, as one change; rules U1 to U5. Before an entity leaves a
 * version, the pairs of old and new properties of that version are reconciled
 * as `contract` reconciles them, so that only one of the two values remains. A
 * result that the service would not store (252 properties, 1 MiB, 64 KiB) gives
 * UPGRADE_FAILED.
 *
 * In phase `all` an entity that expand brought to the newest version keeps its
 * old properties, because only `contract` removes them.
 */
enum upgrade_outcome upgrade_apply(const struct upgrade_how *how,
    const struct entity *entity, struct arena *arena,
    struct upgrade_result *ret, struct err *err);

/*
 * upgrade_leftover: entity is at the newest version. Find a property in it that
 * only a release of the application two versions behind can have written: a
 * step of an older version removed the property or gave it another type, and no
 * later step names it. An upgrade reports such a property and leaves it
 * unchanged. Returns that step, and its version in *ret_version; NULL: entity
 * has no such property.
 */
const struct upgrade_step *upgrade_leftover(const struct upgrade *upgrade,
    const struct entity *entity, int64_t *ret_version);

#endif
