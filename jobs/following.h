/* SPDX-License-Identifier: MIT */
/* A following run keeps its tables for as long as it runs (rule L3). */
#ifndef TW_JOBS_FOLLOWING_H
#define TW_JOBS_FOLLOWING_H

#include "config/problems.h"
#include "jobs/jobs.h"

/*
 * following_check: two following jobs that write one table are a problem: the
 * second would wait until `finish` of the first. Another table job of such a
 * table is a warning. Tables are one if the store's name and the table's, in
 * any case of letters, are the same.
 */
void following_check(const struct jobs *jobs, struct problems *problems);

#endif
