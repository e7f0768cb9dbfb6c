/* SPDX-License-Identifier: MIT */
/* Warns of jobs that carry a cascade's children into tables that the cascade
 * does not list. */
#ifndef TW_JOBS_CASCADE_OUTLIVE_H
#define TW_JOBS_CASCADE_OUTLIVE_H

struct job;
struct jobs;
struct problems;

/*
 * cascade_outlive_check: warn of each move and copy job whose source table is
 * listed by a rule of the cascade, and whose destination table is listed by no
 * rule. A run of the cascade would delete the parent and leave the moved
 * entities, or the copies, without a parent. No warning if it is certain that
 * the rule and the other job never select the same entity.
 */
void cascade_outlive_check(
    const struct job *job, const struct jobs *jobs, struct problems *problems);

#endif
