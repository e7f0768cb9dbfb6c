/* SPDX-License-Identifier: MIT */
/* Finds the copies that a job has made (its own copies), and deletes those
 * without a source. */
#ifndef TW_JOBS_COPY_BACKWARD_H
#define TW_JOBS_COPY_BACKWARD_H

#include <stdbool.h>

#include "worker/base/err.h"

struct copy_work;

/* copy_own: make the step COPY_OWN. Adds every own copy to the comparison.
 * Counts and reports the edited copies that the job leaves unchanged (rule C3).
 */
TW_MUST_USE enum tw_err copy_own(struct copy_work *work);

/*
 * copy_backward: make the step COPY_BACKWARD. TW_INVALID: rule C6 refuses the
 * deletes; err has the reason, and no copy was deleted. TW_NOT_FOUND: the
 * source table does not exist (rule C7).
 */
TW_MUST_USE enum tw_err copy_backward(struct copy_work *work);

/*
 * copy_check_deletes: checks whether rule C6 would refuse the deletes of
 * copy_backward(). For a dry run, after the sources and the own copies were
 * compared. Counts the copies to delete, deletes none, and reports none. The
 * job's own copies are counted as they are now, without the copies that the run
 * would write first. TW_INVALID: the rule would refuse the deletes; err has the
 * reason.
 */
TW_MUST_USE enum tw_err copy_check_deletes(struct copy_work *work);

/*
 * copy_check_for_own: set *ret to true if a destination already has copies of
 * this job. Reads one page of each destination. TW_INVALID: the run does not
 * accept deletes (rule C6), and one of the copies read is a former index row,
 * or another former copy that was not edited.
 */
TW_MUST_USE enum tw_err copy_check_for_own(struct copy_work *work, bool *ret);

/* copy_check_sources: read the source table once. TW_NOT_FOUND: the source
 * table does not exist (rule C7). */
TW_MUST_USE enum tw_err copy_check_sources(struct copy_work *work);

#endif
