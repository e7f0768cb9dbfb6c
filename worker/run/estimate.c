/* SPDX-License-Identifier: MIT */
/* Computes share, rate and time left of a run. */
#include "worker/run/estimate.h"

#include "worker/base/text.h"

static int64_t done_of(const struct ledger_run *run)
{
    return run->deleted + run->written;
}

/* Is the share of the run known? Only in the first round and after the end of
 * the run, because it is not known how much later rounds have to do. */
static bool has_share(const struct ledger_run *run)
{
    return run->share >= 0 && run->share <= 1 &&
           (run->rounds <= 1 || run->finished_ticks > 0);
}

/* Returns the time from the start of the run to its end or last ledger update,
 * without the time for which no attempt worked on it (ledger_note_idle()); 0:
 * not started. */
static int64_t worked_ticks(const struct ledger_run *run)
{
    int64_t end_ticks =
        run->finished_ticks > 0 ? run->finished_ticks : run->updated_ticks;

    int64_t begin_ticks = run->started_ticks;

    if (run->started_ticks == 0)
        return 0;
    if (run->idle_s > 0)
        begin_ticks += run->idle_s * TICKS_PER_S;
    return end_ticks > begin_ticks ? end_ticks - begin_ticks : 0;
}

/* Returns the average speed in entities a second; -1: unknown. */
static double rate_of(const struct ledger_run *run)
{
    int64_t ticks = worked_ticks(run);

    if (ticks < TICKS_PER_S || done_of(run) == 0)
        return -1;
    return (double)done_of(run) * (double)TICKS_PER_S / (double)ticks;
}

static bool is_expired(const struct ledger_run *run, int64_t now_ticks)
{
    return run->state == LEDGER_RUNNING && run->owner.len > 0 &&
           run->lease_until_ticks > 0 && run->lease_until_ticks < now_ticks;
}

/*
 * Returns the estimated time to the end of the run at its average speed; -1:
 * unknown, for example after the first round, or if the lease has expired.
 */
static int64_t left_ticks(const struct ledger_run *run, int64_t now_ticks)
{
    int64_t ticks = worked_ticks(run);

    if (run->state != LEDGER_RUNNING || ticks == 0 || !has_share(run) ||
        run->share < 0.01 || is_expired(run, now_ticks))
        return -1;
    return (int64_t)((double)ticks * (1 - run->share) / run->share);
}

struct estimate estimate_run(const struct ledger_run *run, int64_t now_ticks)
{
    return (struct estimate){
        .done = done_of(run),
        .share = has_share(run) ? run->share : -1,
        .rate = rate_of(run),
        .left_ticks = left_ticks(run, now_ticks),
        .expired = is_expired(run, now_ticks),
    };
}
