/* SPDX-License-Identifier: MIT */
/*
 * Applies the steps of an upgrade to one entity: pure functions. A round, a dry
 * run, `verify` and `convert` get the same result for the same entity.
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
    UPGRADE_CHANGED,   /* ret->entity is to be stored: same keys and ETag */
    UPGRADE_UNCHANGED, /* the steps change nothing */
    UPGRADE_OUTSIDE,   /* the document does not contain its version */
    UPGRADE_SKIPPED,   /* on_error: skip; err has the reason */
    UPGRADE_FAILED,    /* err has the reason: "version 3, retype Rating: an
                          Edm.String that is no number" */
};

/* How often each step changed an entity, by version and step, for a dry run. */
struct upgrade_tally {
    int64_t (*counts)[UPGRADE_MAX_STEPS]; /* one list per version */
};

struct upgrade_result {
    struct entity entity; /* UPGRADE_CHANGED: lives in arena, or borrows from
                             the entity that was read */
    bool is_below;        /* it was below the newest version */
    size_t first;   /* UPGRADE_CHANGED: steps of versions[first] and later ones
                       may have changed it */
    char step[160]; /* SKIPPED, FAILED: "version 3, retype Rating" */
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
 * version, that version's pairs of old and new properties are settled as
 * `contract` settles them. A result that the service would not store (252
 * properties, 1 MiB, 64 KiB) fails here.
 *
 * In phase `all` an entity that expand brought to the newest version keeps its
 * old properties: only `contract` removes them.
 */
enum upgrade_outcome upgrade_apply(const struct upgrade_how *how,
    const struct entity *entity, struct arena *arena,
    struct upgrade_result *ret, struct err *err);

/*
 * upgrade_leftover: does an entity at the newest version hold a property that
 * an older version's step removed, or that has another type than an older
 * version's retype gives, and that no later step names? A release two versions
 * back wrote it. It is reported and stays unchanged. Returns the step, or NULL;
 * *ret_version: its version.
 */
const struct upgrade_step *upgrade_leftover(const struct upgrade *upgrade,
    const struct entity *entity, int64_t *ret_version);

#endif
