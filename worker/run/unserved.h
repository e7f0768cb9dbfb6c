/* SPDX-License-Identifier: MIT */
/*
 * Open runs that no worker of a configuration can take: their job was removed
 * or has another kind now, or their queue is not served any more. Their
 * messages, if they have any, stay in a queue that no worker reads. So such
 * runs are reported until an operator acts: by `worker --drain`, `status
 * --failing` and the log of the worker.
 */
#ifndef TW_RUN_UNSERVED_H
#define TW_RUN_UNSERVED_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

/* unserved_is_job: is this PartitionKey of the ledger the name of a job? Names
 * of jobs begin with a letter; the keys of imports do not. */
bool unserved_is_job(struct slice partition_key);

/*
 * unserved_is: return true if run is open, not paused and without a live lease,
 * and no worker with these jobs and this setup can take it. False for an
 * import. False for a run that the command `run` began, until the run is an
 * orphan (orphans_is()), because the command may still wait to continue it.
 * now_ticks: the service's clock.
 */
bool unserved_is(const struct jobs *jobs, const struct setup *setup,
    const struct ledger_run *run, int64_t now_ticks);

/* unserved_add_reason: append why no worker can take the run, and what to do.
 * Call if unserved_is(). */
void unserved_add_reason(const struct jobs *jobs, const struct setup *setup,
    const struct ledger_run *run, struct buf *to);

#endif
