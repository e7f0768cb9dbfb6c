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
 * without a value in run->args is derived from the child. If the template of a
 * key is the argument alone, the key is the value of the argument; likewise a
 * property that the filter compares with the argument by `eq`. If the template
 * of a key begins with the argument, the value is a beginning of the key: the
 * longest one with which the parent exists. ret->note names the rules that
 * cannot be verified. TW_CONFLICT: an argument cannot be derived from a rule;
 * err names the rule and the argument.
 */
TW_MUST_USE enum tw_err cascade_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err);

#endif
