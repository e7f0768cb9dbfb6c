/* SPDX-License-Identifier: MIT */
/* Checks whether the copies match their sources now, in both directions. */
#ifndef TW_JOBS_COPY_VERIFY_H
#define TW_JOBS_COPY_VERIFY_H

#include "jobs/job.h"

/* copy_verify: compares both sides; see verify of struct kind. */
TW_MUST_USE enum tw_err copy_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err);

#endif
