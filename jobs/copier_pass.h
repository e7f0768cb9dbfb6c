/* SPDX-License-Identifier: MIT */
/*
 * Forward: sources are read, and their copies stored. Of a move, a source goes
 * once all its copies stand.
 */
#ifndef TW_JOBS_COPIER_PASS_H
#define TW_JOBS_COPIER_PASS_H

#include "jobs/copier_work.h"
#include "worker/base/err.h"

/*
 * copier_pass_run: over all sources, from the checkpoint's place on; with
 * c->tally, over those whose copies lie where it does not agree. c->wrote: it
 * has, or it cannot be told; the checkpoint knows what is late or in doubt,
 * whatever the outcome.
 */
TW_MUST_USE enum tw_err copier_pass_run(struct copier *c, struct err *err);

#endif
