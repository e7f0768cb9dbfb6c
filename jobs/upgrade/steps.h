/* SPDX-License-Identifier: MIT */
/*
 * One entity and the steps of an upgrade: pure functions. The same entity gives
 * the same result, whoever asks and however often.
 */
#ifndef TW_JOBS_UPGRADE_STEPS_H
#define TW_JOBS_UPGRADE_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

/* At which version an entity is, seen from one upgrade. Integers are equal by
 * value, whichever of Int32, Int64 or a whole Double they are. */
enum upgrade_version {
    UPGRADE_AT_FROM,
    UPGRADE_AT_TO,
    UPGRADE_BEFORE, /* another job brings it to `from`; contract: any
                       number below `to` that is not `from`          */
    UPGRADE_OTHER,  /* left alone and counted                        */
};

/* upgrade_version: *ret_before (may be NULL): for UPGRADE_BEFORE the index of
 * the job that is waited for. */
enum upgrade_version upgrade_version(const struct upgrade *upgrade,
    const struct entity *entity, size_t *ret_before);

enum upgrade_end {
    UPGRADE_CHANGED,   /* *ret is what to store: same keys, same ETag        */
    UPGRADE_UNCHANGED, /* contract: nothing is left that could go            */
    UPGRADE_SKIPPED,   /* on_error: skip; err says why                       */
    UPGRADE_FAILED,    /* it can never succeed; err says why: "step 3, retype
                          Rating: an Edm.String that is no number"           */
};

/* What the steps did, for a dry run. */
struct upgrade_tally {
    int64_t carried_out[UPGRADE_MAX_STEPS]; /* entities that the step changed */
};

/*
 * upgrade_apply: the steps of the upgrade's phase, in order, on an entity that
 * is at `from` (contract: at `to`), and then the new version. What the service
 * would not take (252 properties, 1 MiB, 64 KiB) fails here. *ret lives in
 * arena, or as long as entity. tally may be NULL; added to only where the
 * entity is changed.
 */
enum upgrade_end upgrade_apply(const struct upgrade *upgrade,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct entity *ret, struct upgrade_tally *tally,
    struct err *err);

/*
 * upgrade_holds: does an entity at `to` still hold something that a step takes
 * away or changes the type of? The step's index, or -1. It is reported, not
 * touched: somebody has written it in the old shape and named it new. Of phase
 * expand, where the old properties stay: one whose new one is missing.
 */
int upgrade_holds(const struct upgrade *upgrade, const struct entity *entity);

#endif
