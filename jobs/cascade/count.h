/* SPDX-License-Identifier: MIT */
/* Counts what a cascade would delete: for --dry-run and refuse_above. */
#ifndef TW_JOBS_CASCADE_COUNT_H
#define TW_JOBS_CASCADE_COUNT_H

#include <stdint.h>

#include "jobs/cascade/walk.h"
#include "jobs/job.h"
#include "worker/base/err.h"

/*
 * cascade_count: make the walk of plan, and count what it finds in ret, one
 * entry per table. The caller sets *ret to zero, initialises ret->arena, and
 * releases it with arena_done(&ret->arena), whatever the outcome. Writes
 * nothing.
 *
 * limit  maximum number of entities; -1: no limit. If the walk finds more, it
 *        ends with TW_TOO_LARGE: err has the reason, and ret has the counts so
 *        far. With -1 ret->refused tells whether refuse_above would refuse a
 *        run.
 * Other outcomes as walk_run().
 */
TW_MUST_USE enum tw_err cascade_count(const struct walk_plan *plan,
    int64_t limit, struct job_estimate *ret, struct err *err);

#endif
