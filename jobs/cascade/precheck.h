/* SPDX-License-Identifier: MIT */
/* What is checked before a cascade writes anything. */
#ifndef TW_JOBS_CASCADE_PRECHECK_H
#define TW_JOBS_CASCADE_PRECHECK_H

#include "jobs/cascade/attempt.h"

/* cascade_check_first: fails for all causes that can be known before anything
 * is written: a missing table, a rule that cannot be bound. */
enum run_end cascade_check_first(struct cascade_attempt *c);

/* cascade_count_first: checks refuse_above. Does nothing if the tombstone is
 * already written: earlier attempts may then have deleted entities, so a count
 * would be too low. */
enum run_end cascade_count_first(struct cascade_attempt *c);

#endif
