/* SPDX-License-Identifier: MIT */
/* The own copies of a job: found, and deleted without a source. */
#ifndef TW_JOBS_COPY_BACKWARD_H
#define TW_JOBS_COPY_BACKWARD_H

#include <stdbool.h>

#include "worker/base/err.h"

struct copy_work;

/* copy_own: the step COPY_OWN: every own copy is found; the edited ones that
 * stay are counted and named. */
TW_MUST_USE enum tw_err copy_own(struct copy_work *work);

/*
 * copy_backward: the step COPY_BACKWARD. TW_INVALID: the brake (rule C6): err
 * says how many copies would be deleted, and nothing was. TW_NOT_FOUND: there
 * is no table of sources (rule C7).
 */
TW_MUST_USE enum tw_err copy_backward(struct copy_work *work);

/*
 * copy_any_own: *ret: may the destinations hold copies of this job already?
 * One page of each is read. TW_INVALID: they were made by other key templates,
 * and nobody has accepted deletes (rule C6).
 */
TW_MUST_USE enum tw_err copy_any_own(struct copy_work *work, bool *ret);

/* copy_check_sources: TW_NOT_FOUND: there is no table of sources (rule C7). */
TW_MUST_USE enum tw_err copy_check_sources(struct copy_work *work);

#endif
