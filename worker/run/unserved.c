/* SPDX-License-Identifier: MIT */
/* Finds the open runs that no worker of a configuration can take. */
#include "worker/run/unserved.h"

#include "jobs/job.h"
#include "worker/base/mem.h"
#include "worker/run/bound.h"
#include "worker/run/orphans.h"

bool unserved_is_job(struct slice partition_key)
{
    return partition_key.len > 0 && partition_key.at[0] >= 'a' &&
           partition_key.at[0] <= 'z';
}

/* Does a process own the run, or may one own it? */
static bool may_have_owner(
    const struct setup *setup, const struct ledger_run *run, int64_t now_ticks)
{
    if (ledger_lease_is_live(run, now_ticks))
        return true;
    return run->queue.len == 0 &&
           !orphans_is(run, now_ticks, setup->visibility_timeout_s);
}

bool unserved_is(const struct jobs *jobs, const struct setup *setup,
    const struct ledger_run *run, int64_t now_ticks)
{
    const struct job *job;

    if (ledger_state_ended(run->state) || run->state == LEDGER_PAUSED ||
        run->state == LEDGER_DAMAGED || run->newer ||
        !unserved_is_job(run->job) || may_have_owner(setup, run, now_ticks))
        return false;
    job = jobs_find(jobs, run->job);
    return !job || bound_kind_changed(run, job) ||
           !setup_queue_of_orphan(setup, job, run->queue);
}

/* Append the reason of a run whose queue is not served, or is bound to another
 * job. */
static void add_queue_reason(const struct setup *setup, const struct job *job,
    const struct ledger_run *run, struct buf *to)
{
    const struct setup_queue *other = setup_queue_for(setup, job);

    if (!other) {
        buf_add_format(to,
            "no queue in `queues` serves job %s: add one, or execute the run "
            "with `tableward run`",
            job->name);
        return;
    }
    if (setup_queue_named(setup, run->queue))
        buf_add_format(to, "queue %.*s is bound to another job now",
            SLICE_ARG(run->queue));
    else
        buf_add_format(
            to, "queue %.*s is not in `queues`", SLICE_ARG(run->queue));
    buf_add_format(to,
        ": restore it, or move the run to queue %s with `tableward resume "
        "%.*s`",
        other->name, SLICE_ARG(run->id));
}

void unserved_add_reason(const struct jobs *jobs, const struct setup *setup,
    const struct ledger_run *run, struct buf *to)
{
    const struct job *job = jobs_find(jobs, run->job);
    char *what;

    if (!job) {
        buf_add_format(to,
            "job %.*s is not in the configuration: restore it, or `cancel` "
            "the run",
            SLICE_ARG(run->job));
    } else if (bound_kind_changed(run, job)) {
        what = bound_kind_sentence(run, job);
        buf_add_format(
            to, "%s: restore the former kind, or `cancel` the run", what);
        mem_free(what);
    } else {
        add_queue_reason(setup, job, run, to);
    }
}
