/* SPDX-License-Identifier: MIT */
/* `verify` of an upgrade: is every entity as the steps make it? */
#ifndef TW_JOBS_UPGRADE_VERIFY_H
#define TW_JOBS_UPGRADE_VERIFY_H

#include "jobs/job.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/err.h"

struct run;
struct store;

/*
 * upgrade_verify: see struct kind, verify. Reads only. Reported are entities
 * below the newest version, and those at it whose properties are not as
 * rename, retype and remove make them (rule U9: not what the application may
 * change afterwards, as add and set do); in the phase of run->args. A
 * difference counts once a second reading has found it too.
 */
TW_MUST_USE enum tw_err upgrade_verify(const struct upgrade *upgrade,
    struct store *store, struct run *run, struct job_verification *ret,
    struct err *err);

#endif
