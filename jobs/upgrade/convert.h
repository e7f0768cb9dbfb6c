/* SPDX-License-Identifier: MIT */
/*
 * One entity to the newest version, by a job's own steps and without a run:
 * what a front end must do with an entity that it reads. No request is made.
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
    UPGRADE_CONVERTED, /* *ret is at the newest version; perhaps it was before
                        */
    UPGRADE_PASSED,    /* the job does not select it, or its version is not in
                          the document: *ret is as it was                      */
    UPGRADE_REFUSED,   /* a step fails (on_error: skip too); err says which:
                          "version 3, retype Rating: an Edm.String that ..."   */
};

struct upgrade_converter;

/*
 * upgrade_convert_open: job is of kind schema-upgrade and borrowed, as are
 * args: those of a run, `phase` included. TW_INVALID: err says why (a filter
 * that cannot be made). Owned.
 */
TW_MUST_USE enum tw_err upgrade_convert_open(const struct job *job,
    const struct run_args *args, struct upgrade_converter **ret,
    struct err *err);
void upgrade_convert_close(struct upgrade_converter *converter); /* or NULL */

/* upgrade_convert: *ret lives in arena, or as long as entity. */
enum upgrade_converted upgrade_convert(
    const struct upgrade_converter *converter, const struct entity *entity,
    struct arena *arena, struct entity *ret, struct err *err);

/*
 * upgrade_convert_vectors: calls each(ctx, before, after) for count entities
 * that are made up from the document, of all its versions in turn, and what
 * becomes of them; the job selects each. The same document gives the same
 * ones. TW_INVALID: none could be made for a version, as the filter or steps
 * refuse all that was tried; err says why. Any other outcome is that of each(),
 * which ends the work.
 */
TW_MUST_USE enum tw_err upgrade_convert_vectors(
    const struct upgrade_converter *converter, size_t count,
    enum tw_err (*each)(void *ctx, const struct entity *before,
        const struct entity *after, struct err *err),
    void *ctx, struct err *err);

#endif
