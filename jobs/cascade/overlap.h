/* SPDX-License-Identifier: MIT */
/* Checks that rules of a cascade for the same table have the child rules that
 * they need. */
#ifndef TW_JOBS_CASCADE_OVERLAP_H
#define TW_JOBS_CASCADE_OVERLAP_H

#include <stdbool.h>

struct cascade;
struct problems;

/*
 * cascade_overlap_check: checks that every rule may delete the entities that it
 * finds, although other rules may find children under the same entities. Before
 * the walk deletes an entity that a rule found, it also evaluates the siblings
 * and the ancestors of that rule, and the siblings of the ancestors. It
 * evaluates no other rule for the same table. So the rule must itself have the
 * child rules of each rule for this table that the walk does not evaluate.
 * False: problems were added.
 */
bool cascade_overlap_check(
    const struct cascade *cascade, struct problems *problems);

#endif
