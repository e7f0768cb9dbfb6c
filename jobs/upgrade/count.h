/* SPDX-License-Identifier: MIT */
/* The dry run of an upgrade: reads every entity and writes nothing. */
#ifndef TW_JOBS_UPGRADE_COUNT_H
#define TW_JOBS_UPGRADE_COUNT_H

#include "jobs/job.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/err.h"

/*
 * upgrade_count: see struct kind, estimate. The estimate counts the entities
 * that would be written. Its details list the versions, how many entities each
 * step would change, and the first entities that would fail, with keys and
 * reason.
 */
TW_MUST_USE enum tw_err upgrade_count(const struct upgrade *upgrade,
    struct store *store, struct run *run, struct job_estimate *ret,
    struct err *err);

#endif
