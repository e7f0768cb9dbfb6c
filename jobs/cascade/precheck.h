/* SPDX-License-Identifier: MIT */
/* What is checked before a cascade writes anything. */
#ifndef TW_JOBS_CASCADE_PRECHECK_H
#define TW_JOBS_CASCADE_PRECHECK_H

#include "jobs/cascade/attempt.h"

/* cascade_check_first: fails for all causes that can be known before anything
 * is written: a missing table, a rule that cannot be bound. */
enum run_end cascade_check_first(struct cascade_attempt *c);

/* cascade_count_first: checks refuse_above. Attempts after the tombstone do not
 * count: earlier attempts may have deleted entities. */
enum run_end cascade_count_first(struct cascade_attempt *c);

#endif
