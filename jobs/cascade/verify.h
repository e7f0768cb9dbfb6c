/* SPDX-License-Identifier: MIT */
/* What cascades should have deleted: for `verify`. */
#ifndef TW_JOBS_CASCADE_VERIFY_H
#define TW_JOBS_CASCADE_VERIFY_H

#include "jobs/job.h"
#include "worker/base/err.h"

/*
 * cascade_verify: see struct kind, verify. Two differences: parents left with
 * the tombstone of a run that is not open, and children of first-level rules
 * without a parent. An argument that run->args leaves out (at is NULL) is read
 * from the child: from a key or a filter's `eq` that it stands in alone, or
 * from how a key begins; there the longest parent that exists wins.
 * TW_CONFLICT: a rule does not tell an argument; err names both.
 */
TW_MUST_USE enum tw_err cascade_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err);

#endif
