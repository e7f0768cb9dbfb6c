/* SPDX-License-Identifier: MIT */
/* Rules of a cascade that read the same table, and the child rules that each of
 * them has there. */
#ifndef TW_JOBS_CASCADE_OVERLAP_H
#define TW_JOBS_CASCADE_OVERLAP_H

#include <stdbool.h>

struct cascade;
struct problems;

/*
 * cascade_overlap_check: may every rule delete what it finds, given the
 * children that other rules find under it? Before a delete, a walk evaluates
 * only the rules that are bound at its position: the siblings of a rule, its
 * ancestors and their siblings. It does not evaluate other rules for the same
 * table, so the child rules of these must exist here too. False: problems were
 * added.
 */
bool cascade_overlap_check(
    const struct cascade *cascade, struct problems *problems);

#endif
