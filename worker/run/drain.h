/* SPDX-License-Identifier: MIT */
/*
 * What a drain does not wait for: runs that are held or paused, following runs
 * between two rounds, and runs that a newer version has written. Their messages
 * stay hidden on the queue.
 */
#ifndef TW_RUN_DRAIN_H
#define TW_RUN_DRAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"

struct deadline;
struct store;

/*
 * drain_left: reads the open runs of all jobs in the ledger (imports are no
 * jobs). *ret_count: how many the drain does not wait for. names: cleared, then
 * filled with these as "JOB/ID is STATE for CAUSE", joined. *ret_only: there
 * are no other open runs. all: do not stop at the first other run.
 */
TW_MUST_USE enum tw_err drain_left(struct store *store,
    const struct deadline *deadline, bool all, bool *ret_only,
    size_t *ret_count, struct buf *names, struct err *err);

#endif
