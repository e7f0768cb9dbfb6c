/* SPDX-License-Identifier: MIT */
/* The order of a cascade's rules relative to the moves of the configuration. */
#ifndef TW_JOBS_CASCADE_ORDER_H
#define TW_JOBS_CASCADE_ORDER_H

struct arena;
struct job;
struct jobs;
struct problems;

/*
 * cascade_order_check: checks rule L4 of jobs/GUIDE.md; implements `link` of
 * struct kind. A move inserts at its destination before it deletes at its
 * source. A pass that reads the destination before the source may find a moved
 * entity in neither table. The run would then delete the parent but not the
 * moved entity. So the rules for the source must come first.
 */
void cascade_order_check(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems);

#endif
