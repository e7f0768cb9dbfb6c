/* SPDX-License-Identifier: MIT */
/*
 * Converts one entity to the newest version by the steps of a job, without a
 * run. An application must do the same with each entity that it reads. No
 * request is made.
 */
#ifndef TW_JOBS_UPGRADE_CONVERT_H
#define TW_JOBS_UPGRADE_CONVERT_H

#include <stddef.h>

#include "jobs/engine/run.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

struct job;

enum upgrade_converted {
    UPGRADE_CONVERTED, /* *ret is at the newest version (and equals entity if no
                          step changes it) */
    UPGRADE_PASSED,    /* the result equals entity. Reasons: the job does not
                          select it; or it is an index row of the table
                          (jobs/index_row.h); or its version is not listed in
                          `versions:` */
    UPGRADE_REFUSED, /* a step fails, or skips the entity (on_error: skip); err
                        has the reason: "version 3, retype Rating: an Edm.String
                        that ..." */
};

struct upgrade_converter;

/*
 * upgrade_convert_open: make a converter, which the caller owns. job is a job
 * of kind schema-upgrade. args are the arguments of a run, `phase` included.
 * Both are borrowed. TW_INVALID: the filter cannot be rendered; err has the
 * reason.
 */
TW_MUST_USE enum tw_err upgrade_convert_open(const struct job *job,
    const struct run_args *args, struct upgrade_converter **ret,
    struct err *err);

/* upgrade_convert_close: free converter, which may be NULL. */
void upgrade_convert_close(struct upgrade_converter *converter);

/* upgrade_convert: convert entity. *ret lives in arena, or borrows from entity.
 */
enum upgrade_converted upgrade_convert(
    const struct upgrade_converter *converter, const struct entity *entity,
    struct arena *arena, struct entity *ret, struct err *err);

/*
 * upgrade_convert_vectors: generates `count` example entities that the job
 * selects, at all versions of the document in turn, and calls each(ctx, before,
 * after) with each example and the converted entity. The same document gives
 * the same examples. TW_INVALID: no example was found for a version, because
 * the filter or the steps refused all candidates; err has the reason. Any other
 * outcome is that of each(), and ends the generation.
 */
TW_MUST_USE enum tw_err upgrade_convert_vectors(
    const struct upgrade_converter *converter, size_t count,
    enum tw_err (*each)(void *ctx, const struct entity *before,
        const struct entity *after, struct err *err),
    void *ctx, struct err *err);

#endif
