/* SPDX-License-Identifier: MIT */
/*
 * One entity and the steps of an upgrade: pure functions. The same entity gives
 * the same result, for a round, a dry run, `verify` and `convert`.
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
    UPGRADE_CHANGED,   /* ret->entity is what to store: same keys and ETag  */
    UPGRADE_UNCHANGED, /* it is as the steps make it                        */
    UPGRADE_OUTSIDE,   /* its version is not in the document                */
    UPGRADE_SKIPPED,   /* on_error: skip; err says why                      */
    UPGRADE_FAILED,    /* err says why: "version 3, retype Rating: an
                          Edm.String that is no number"                     */
};

/* Which steps changed an entity, for a dry run: by version and step. */
struct upgrade_tally {
    int64_t (*counts)[UPGRADE_MAX_STEPS]; /* one list a version */
};

struct upgrade_result {
    struct entity entity; /* UPGRADE_CHANGED: lives in arena, or as long as the
                             entity that was read */
    bool is_below;        /* it was at an older version than the newest one */
    size_t first;   /* UPGRADE_CHANGED: the steps of versions[first] and of all
                       behind it had a part in it */
    char step[160]; /* SKIPPED, FAILED: "version 3, retype Rating" */
};

/* Everything that decides what becomes of an entity. */
struct upgrade_how {
    const struct upgrade *upgrade;
    enum upgrade_phase phase;
    const struct run_args *args;
    struct upgrade_tally *tally; /* NULL: nobody counts */
};

/*
 * upgrade_apply: all steps that the entity lacks, in order, in one go, and the
 * newest version; rules U1 to U5. Before it leaves a version, that version's
 * pairs of old and new properties are settled as `contract` settles them. What
 * the service would not store (252 properties, 1 MiB, 64 KiB) fails here.
 *
 * In phase `all` an entity that expand brought to the newest version keeps its
 * old properties: only `contract` removes them.
 */
enum upgrade_outcome upgrade_apply(const struct upgrade_how *how,
    const struct entity *entity, struct arena *arena,
    struct upgrade_result *ret, struct err *err);

/*
 * upgrade_leftover: does an entity at the newest version hold a property that
 * an older version's step removed, or one in a type that it changed, and no
 * later step names it? A release two versions back wrote it. It is reported,
 * and unchanged. The step, or NULL; *ret_version: of which version.
 */
const struct upgrade_step *upgrade_leftover(const struct upgrade *upgrade,
    const struct entity *entity, int64_t *ret_version);

#endif
