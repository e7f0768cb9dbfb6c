/* SPDX-License-Identifier: MIT */
/* Rules that can reach their own entities again, in a circle. */
#ifndef TW_JOBS_CASCADE_ENDS_H
#define TW_JOBS_CASCADE_ENDS_H

#include <stdbool.h>

struct cascade;
struct problems;

/*
 * cascade_ends_check: an entity is deleted after everything under it. Where
 * rules lead from an entity to others of the same table, entities could be
 * under one another in a circle, and none of them could be deleted first.
 * Within one partition a run detects that. Across partitions the rules must
 * show that it cannot happen: PartitionKey or RowKey gets longer from level to
 * level, or the rules never find the same entity. False: problems has been
 * added to.
 */
bool cascade_ends_check(
    const struct cascade *cascade, struct problems *problems);

#endif
