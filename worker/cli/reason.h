/* SPDX-License-Identifier: MIT */
/* Whether runs ended for the same reason. */
#ifndef TW_CLI_REASON_H
#define TW_CLI_REASON_H

#include "worker/base/buf.h"
#include "worker/base/slice.h"

/*
 * reason_add: add the first line of the error of a run, without what differs
 * between runs that ended for the same reason. So the service's id of the
 * request is left out, and every number becomes 0. The lines below the first
 * one are left out, because they name entities. Names in quotation marks stay
 * as they are, because they may be the reason, as in: unknown job 'job2'.
 */
void reason_add(struct slice error, struct buf *to);

#endif
