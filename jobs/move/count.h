/* SPDX-License-Identifier: MIT */
/* The dry run and the verification of a move. Writes nothing. */
#ifndef TW_JOBS_MOVE_COUNT_H
#define TW_JOBS_MOVE_COUNT_H

#include "jobs/job.h"

/* move_estimate: see struct kind, estimate. */
TW_MUST_USE enum tw_err move_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err);

/* move_verify: see struct kind, verify. Counts selected sources that were not
 * moved, and intents of moves from or to a table of the job. */
TW_MUST_USE enum tw_err move_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err);

#endif
