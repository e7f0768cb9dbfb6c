/* SPDX-License-Identifier: MIT */
/* Finds what cascades should have deleted: for `verify`. */
#ifndef TW_JOBS_CASCADE_VERIFY_H
#define TW_JOBS_CASCADE_VERIFY_H

#include "jobs/job.h"
#include "worker/base/err.h"

/*
 * cascade_verify: see struct kind, verify. Reports two differences: parents
 * with the tombstone of a run that is not open, and children without a parent,
 * at every level (nested.h has the rules of level 2 and below). An argument
 * without a value in run->args is derived from the child. If the argument alone
 * is the template of a key, or of a value that a filter compares by `eq`, the
 * child has the argument's value. If a key's template begins with the argument,
 * its value is the longest one whose parent exists. ret->note names the rules
 * that cannot be verified. TW_CONFLICT: an argument cannot be derived from a
 * rule; err names the rule and the argument.
 */
TW_MUST_USE enum tw_err cascade_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err);

#endif
