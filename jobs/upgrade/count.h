/* SPDX-License-Identifier: MIT */
/* What an upgrade would do: every entity is read, nothing is written. */
#ifndef TW_JOBS_UPGRADE_COUNT_H
#define TW_JOBS_UPGRADE_COUNT_H

#include "jobs/job.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/err.h"

/*
 * upgrade_count: see struct kind, estimate. The estimate's entities are those
 * that would be written; its details say the versions, what each step would
 * do to how many, and the first that would fail, with keys and reason.
 */
TW_MUST_USE enum tw_err upgrade_count(const struct upgrade *upgrade,
    struct store *store, struct run *run, struct job_estimate *ret,
    struct err *err);

#endif
