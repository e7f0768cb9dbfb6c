/* SPDX-License-Identifier: MIT */
/* What is checked before a cascade writes anything. */
#ifndef TW_JOBS_CASCADE_PRECHECK_H
#define TW_JOBS_CASCADE_PRECHECK_H

#include "jobs/cascade/attempt.h"

/*
 * cascade_check_stores: check that the job does not name one table by two
 * stores that are one account. TW_INVALID: it does; err names them. Later steps
 * do not compare the two names, so the parent could be deleted as its own
 * child. Call before every walk. To find out whether two Azure stores with
 * different hosts are one account, an entity is written (probe.h). If may_write
 * is false, nothing is written, and such stores are assumed to be different
 * accounts. Other outcomes are those of probe_same().
 */
TW_MUST_USE enum tw_err cascade_check_stores(
    const struct cascade_attempt *c, bool may_write);

/*
 * cascade_check_first: check that the first-level rules can be bound to the
 * parent as last read, and that the tables of the parent and of all rules
 * exist, except tables of optional rules. Checks nothing if this run has
 * already written its tombstone. RUN_CONTINUES: nothing is wrong. Otherwise the
 * attempt ends before anything is written; c->err names the rule or the table.
 */
enum run_end cascade_check_first(struct cascade_attempt *c);

/*
 * cascade_count_first: check that the rules find no more entities than
 * refuse_above allows. RUN_CONTINUES: the rules find no more. Otherwise the run
 * fails before anything is written. Sends no request if the job has no
 * refuse_above. Counts nothing once this run has written its tombstone, because
 * earlier attempts may have deleted entities, and a count would be too low.
 */
enum run_end cascade_count_first(struct cascade_attempt *c);

#endif
