/* SPDX-License-Identifier: MIT */
/* Detects rules that may lead from an entity back to the same entity. */
#ifndef TW_JOBS_CASCADE_ENDS_H
#define TW_JOBS_CASCADE_ENDS_H

#include <stdbool.h>

struct cascade;
struct problems;

/*
 * cascade_ends_check: check that the rules of cascade cannot lead to a cycle of
 * entities. An entity is deleted after everything under it. If rules lead from
 * an entity to other entities of the same table, these entities could form a
 * cycle, each of them under the next, and none could be deleted first. Within
 * one partition a run detects a cycle. Across partitions the rules must exclude
 * cycles: PartitionKey or RowKey gets longer from level to level, or the rules
 * never find the same entity. False: problems were added.
 */
bool cascade_ends_check(
    const struct cascade *cascade, struct problems *problems);

#endif
