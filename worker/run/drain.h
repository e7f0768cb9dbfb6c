/* SPDX-License-Identifier: MIT */
/*
 * The runs that a drain does not wait for:
 *
 * - runs that are held or paused;
 * - runs of a job with `follow` that wait for their next round;
 * - runs that no worker of the configuration can take (unserved.h);
 * - runs that a newer version of tableward has written;
 * - when all queues are empty: runs that have lost their message, because a
 *   command was killed before it put the message, or because the queue was
 *   deleted.
 *
 * The messages of these runs may remain hidden on the queue.
 */
#ifndef TW_RUN_DRAIN_H
#define TW_RUN_DRAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"

struct deadline;
struct definition;

/*
 * drain_left: read the open runs of all jobs in the ledger (imports are no
 * jobs).
 *
 * all         true: no queue has a message, not even a hidden one; all open
 *             runs are read. false: stop at the first run that the drain waits
 *             for
 * *ret_only   true: the drain waits for none of the open runs
 * *ret_count  number of runs that the drain does not wait for
 * names       is cleared, then gets these runs as "JOB/ID is STATE for CAUSE",
 *             separated by commas; the reason is added if unserved_is(), or if
 *             the run has lost its message
 */
TW_MUST_USE enum tw_err drain_left(const struct definition *definition,
    const struct deadline *deadline, bool all, bool *ret_only,
    size_t *ret_count, struct buf *names, struct err *err);

#endif
