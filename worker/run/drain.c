/* SPDX-License-Identifier: MIT */
/* Finds the runs that a drain does not wait for. */
#include "worker/run/drain.h"

#include "worker/run/ledger.h"
#include "worker/run/walk.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

struct looking {
    struct walk walk;
    struct buf *names;
    size_t left;
    bool all;
    bool others; /* there is an open run that the drain waits for */
};

static bool goes_on(const struct looking *l)
{
    return l->all || !l->others;
}

/* A job's name begins with a letter. */
static bool is_job(struct slice partition_key)
{
    return partition_key.len > 0 && partition_key.at[0] >= 'a' &&
           partition_key.at[0] <= 'z';
}

/* Does the drain not wait for the run? A run that a newer version has written
 * is left to the workers of that version. */
static bool is_left(const struct ledger_run *run)
{
    return run->newer || run->state == LEDGER_PAUSED || ledger_is_held(run) ||
           (run->state == LEDGER_WAITING &&
               slice_is(run->waits_for, LEDGER_WAITS_FOR_ROUND) &&
               run->finish.len == 0);
}

static void add_name(struct looking *l, const struct ledger_run *run)
{
    buf_add_format(l->names, "%s%.*s/%.*s is %s", l->left > 0 ? ", " : "",
        SLICE_ARG(run->job), SLICE_ARG(run->id),
        run->newer ? "in a state of a newer version"
                   : ledger_state_name(run->state));
    if (!run->newer && run->waits_for.len > 0)
        buf_add_format(l->names, " for %.*s", SLICE_ARG(run->waits_for));
    l->left++;
}

/* Skip a run that was deleted or cannot be read: no worker runs it. */
static enum walk_step look_at_run(struct looking *l, struct err *err)
{
    struct retry_call call = retry_call(l->walk.deadline, RETRY_BUSY_MS, 0);
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    do
        outcome = ledger_get(l->walk.store, &call.exchange,
            l->walk.row->partition_key, l->walk.id, &run);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK && !ledger_state_ended(run.state)) {
        if (is_left(&run))
            add_name(l, &run);
        else
            l->others = true;
    }
    ledger_run_done(&run);
    return outcome == TW_OK || outcome == TW_NOT_FOUND || outcome == TW_INVALID
               ? WALK_MORE
               : walk_give_up(&l->walk, &call.exchange, err);
}

enum tw_err drain_left(struct store *store, const struct deadline *deadline,
    bool all, bool *ret_only, size_t *ret_count, struct buf *names,
    struct err *err)
{
    struct looking l = {.names = names, .all = all};
    enum walk_step step = WALK_MORE;

    walk_init(&l.walk);
    walk_begin(&l.walk, store, deadline, NULL,
        &(struct ledger_index_scan){.index = LEDGER_INDEX_OPEN});
    buf_clear(names);
    while (step == WALK_MORE && goes_on(&l)) {
        step = walk_step(&l.walk, err);
        if (step == WALK_FOUND)
            step = is_job(l.walk.row->partition_key) ? look_at_run(&l, err)
                                                     : WALK_MORE;
    }
    *ret_only = step != WALK_FAILED && !l.others;
    *ret_count = l.left;
    walk_done(&l.walk);
    return step == WALK_FAILED ? TW_BUSY : TW_OK;
}
