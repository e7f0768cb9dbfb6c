/* SPDX-License-Identifier: MIT */
/* Scans the sources of a copy job and sends their copies. */
#ifndef TW_JOBS_COPY_FORWARD_H
#define TW_JOBS_COPY_FORWARD_H

#include <stdint.h>

#include "worker/base/err.h"

struct copy_work;

/*
 * copy_forward: make the step COPY_FORWARD, or COPY_REPAIR. TW_NOT_FOUND: the
 * source table does not exist (rule C7).
 */
TW_MUST_USE enum tw_err copy_forward(struct copy_work *work);

/* copy_count_behind: set *ret to the number of sources that this round repaired
 * and whose ETag has changed since. Writes nothing. */
TW_MUST_USE enum tw_err copy_count_behind(struct copy_work *work, int64_t *ret);

#endif
