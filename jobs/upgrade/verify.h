/* SPDX-License-Identifier: MIT */
/* `verify` of an upgrade: do all entities agree with the steps? */
#ifndef TW_JOBS_UPGRADE_VERIFY_H
#define TW_JOBS_UPGRADE_VERIFY_H

#include "jobs/job.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/err.h"

struct run;
struct store;

/*
 * upgrade_verify: see struct kind, verify. Reads only. Reports entities below
 * the newest version, and entities at the newest version that differ from what
 * rename, retype and remove make in the phase of run->args. What add and set
 * make is not compared, because the application may change it (rule U9). A
 * difference counts only if a second reading finds it too.
 */
TW_MUST_USE enum tw_err upgrade_verify(const struct upgrade *upgrade,
    struct store *store, struct run *run, struct job_verification *ret,
    struct err *err);

#endif
