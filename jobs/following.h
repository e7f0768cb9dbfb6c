/* SPDX-License-Identifier: MIT */
/* Checks of jobs with follow: true. A following run keeps the locks of its
 * tables until it ends, so runs of other table jobs wait (rule L3 of
 * jobs/GUIDE.md). */
#ifndef TW_JOBS_FOLLOWING_H
#define TW_JOBS_FOLLOWING_H

#include "config/problems.h"
#include "jobs/jobs.h"

/*
 * following_check: add a problem if two following jobs write the same table: a
 * run of one job would wait until `finish` of the other job's run. Warn if a
 * following job and another table job write the same table. Tables are the same
 * if their store names are equal and their table names are equal regardless of
 * case.
 */
void following_check(const struct jobs *jobs, struct problems *problems);

#endif
