/* SPDX-License-Identifier: MIT */
/*
 * The runs that a drain does not wait for: those that are held or paused, those
 * of a job with `follow` between two rounds, those that no worker of the
 * configuration can take (unserved.h), and those that a newer version of
 * tableward has written. The messages of these runs may remain hidden on the
 * queue. Once the queues are empty, a drain also does not wait for runs that
 * have lost their message, because a command was killed before it put the
 * message, or because the queue was deleted.
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
 * jobs). *ret_count: number of runs that the drain does not wait for. names:
 * cleared, then filled with these runs as "JOB/ID is STATE for CAUSE", with the
 * reason if unserved_is(), separated by commas. *ret_only: true if no open run
 * is left that the drain waits for. all: true if no queue has a message, hidden
 * ones too: read all runs; false: stop at the first run that the drain waits
 * for.
 */
TW_MUST_USE enum tw_err drain_left(const struct definition *definition,
    const struct deadline *deadline, bool all, bool *ret_only,
    size_t *ret_count, struct buf *names, struct err *err);

#endif
