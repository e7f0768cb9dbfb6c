/* SPDX-License-Identifier: MIT */
/* A following run keeps the locks of its tables while it is open (rule L3). */
#ifndef TW_JOBS_FOLLOWING_H
#define TW_JOBS_FOLLOWING_H

#include "config/problems.h"
#include "jobs/jobs.h"

/*
 * following_check: two following jobs that write the same table are a problem:
 * a run of the second would wait until `finish` of the first. Another table job
 * that writes such a table is a warning. Tables are the same if their store
 * names are equal and their table names are equal regardless of case.
 */
void following_check(const struct jobs *jobs, struct problems *problems);

#endif
