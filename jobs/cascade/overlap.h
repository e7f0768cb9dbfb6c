/* SPDX-License-Identifier: MIT */
/* Rules of a cascade that look into one table, and what each sees under the
 * entities that it finds there. */
#ifndef TW_JOBS_CASCADE_OVERLAP_H
#define TW_JOBS_CASCADE_OVERLAP_H

#include <stdbool.h>

struct cascade;
struct problems;

/*
 * cascade_overlap_check: may every rule delete what it finds, for all that the
 * others see under it? A walk asks the rules that are bound where it is: those
 * beside a rule, those above it and those beside these. Any other rule for the
 * same table is asked nothing, so whatever has children there must have them
 * here too. False: problems has been added to.
 */
bool cascade_overlap_check(
    const struct cascade *cascade, struct problems *problems);

#endif
