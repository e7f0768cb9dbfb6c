/* SPDX-License-Identifier: MIT */
/* Checks of jobs with `follow: true`. A run of such a job (a following run)
 * makes round after round until `finish`. Until it ends, it keeps the locks of
 * its tables, and the runs of other jobs that need these locks wait (rule L3 of
 * jobs/GUIDE.md). */
#ifndef TW_JOBS_FOLLOWING_H
#define TW_JOBS_FOLLOWING_H

#include "config/problems.h"
#include "jobs/jobs.h"

/*
 * following_check: add a problem if two jobs with `follow: true` write the same
 * table, because a run of one job would wait until an operator finishes the run
 * of the other job. Warn if two jobs that lock their tables write the same
 * table, and one of them has `follow: true`. Tables are the same if their store
 * names are equal and their table names are equal regardless of case.
 */
void following_check(const struct jobs *jobs, struct problems *problems);

#endif
