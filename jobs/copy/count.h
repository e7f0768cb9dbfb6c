/* SPDX-License-Identifier: MIT */
/* The dry run of a copy job. */
#ifndef TW_JOBS_COPY_COUNT_H
#define TW_JOBS_COPY_COUNT_H

#include "jobs/job.h"

/* copy_estimate: makes the dry run; see estimate of struct kind. */
TW_MUST_USE enum tw_err copy_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err);

#endif
