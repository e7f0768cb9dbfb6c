/* SPDX-License-Identifier: MIT */
/* The output of `verify`, as text or JSON. */
#ifndef TW_CLI_VERIFICATION_H
#define TW_CLI_VERIFICATION_H

#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/buf.h"

/* verification_count: return the number of all differences. */
int64_t verification_count(const struct job_verification *verification);

/* verification_add_text: add a line with the number of entities compared. If
 * there are differences, also add a line for each kind of difference, followed
 * by the first differences of that kind. */
void verification_add_text(const struct job *job,
    const struct job_verification *verification, struct buf *to);

/*
 * verification_add_json: add {"Job":...,"Kind":...,"EntitiesRead":n,
 * "Differences":[{"What":...,"Count":n,"First":[...]}],"Note":...} and a line
 * end. Kinds of difference that were not found are included with Count 0. Note
 * is left out if verification has none.
 */
void verification_add_json(const struct job *job,
    const struct job_verification *verification, struct buf *to);

#endif
