/* SPDX-License-Identifier: MIT */
/* The last pass of a run that leaves no provenance behind. */
#ifndef TW_JOBS_COPIER_STRIP_H
#define TW_JOBS_COPIER_STRIP_H

#include "jobs/copier_work.h"
#include "worker/base/err.h"

/* copier_strip_run: take the provenance off every copy of this job's. */
TW_MUST_USE enum tw_err copier_strip_run(struct copier *c, struct err *err);

#endif
