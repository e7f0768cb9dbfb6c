/* SPDX-License-Identifier: MIT */
/* Looking, and what a look has found: do the copies that stand agree with the
 * sources? */
#ifndef TW_JOBS_COPIER_LOOK_H
#define TW_JOBS_COPIER_LOOK_H

#include "jobs/copier_work.h"
#include "worker/base/err.h"

/* copier_look_run: each side is read once and summed into c->tally. */
TW_MUST_USE enum tw_err copier_look_run(struct copier *c, struct err *err);

/*
 * copier_look_moved: what this run has moved, against what it says of itself:
 * c->findings.changed are those that others have changed since. A destination
 * is read once, and told as Verification.
 */
TW_MUST_USE enum tw_err copier_look_moved(struct copier *c, struct err *err);

/* copier_look_tell: the last look, as Verification. */
void copier_look_tell(struct copier *c);

#endif
