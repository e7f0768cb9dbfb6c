/* SPDX-License-Identifier: MIT */
/* Finds the runs that a drain does not wait for. */
#include "worker/run/drain.h"

#include "worker/run/ledger.h"
#include "worker/run/setup.h"
#include "worker/run/unserved.h"
#include "worker/run/walk.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

struct search {
    const struct definition *definition;
    struct walk walk;
    struct buf *names;
    size_t left;
    bool empty;  /* no queue has a message, hidden or not */
    bool others; /* there is an open run that the drain waits for */
};

/* True: the drain does not wait for the run. It leaves a run that a newer
 * version has written to the workers of that version. */
static bool is_left(const struct ledger_run *run)
{
    return run->newer || run->state == LEDGER_PAUSED || ledger_is_held(run) ||
           (run->state == LEDGER_WAITING &&
               slice_is(run->waits_for, LEDGER_WAITS_FOR_ROUND) &&
               run->finish.len == 0);
}

/* Has the run lost its message? A command may have been killed after it had
 * stored the run and before it put the message. A run that the command `run`
 * began has no queue, and needs no message. */
static bool lacks_message(const struct search *search,
    const struct ledger_run *run, int64_t now_ticks)
{
    return search->empty && run->queue.len > 0 &&
           !ledger_lease_is_live(run, now_ticks);
}

/* Add run to the names of the runs that the drain does not wait for, with the
 * reason. unserved: true if no worker of this configuration can take the run.
 * lacks: true if lacks_message() is the reason. */
static void add_name(struct search *search, const struct ledger_run *run,
    bool unserved, bool lacks)
{
    const struct definition *definition = search->definition;

    buf_add_format(search->names, "%s%.*s/%.*s is %s",
        search->left > 0 ? ", " : "", SLICE_ARG(run->job), SLICE_ARG(run->id),
        run->newer ? "in a state of a newer version"
                   : ledger_state_name(run->state));
    if (!run->newer && run->waits_for.len > 0)
        buf_add_format(search->names, " for %.*s", SLICE_ARG(run->waits_for));
    if (unserved) {
        buf_add_text(search->names, ": ");
        unserved_add_reason(
            definition->jobs, definition->setup, run, search->names);
    } else if (lacks) {
        buf_add_text(search->names, ": its queue has no message of the run, "
                                    "and a worker finds the run later");
    }
    search->left++;
}

/* Read the run that the walk has found, and note whether the drain waits for
 * it. A run that was deleted or cannot be read is skipped, because no worker
 * executes it. */
static enum walk_step read_run(struct search *search, struct err *err)
{
    struct retry_call call =
        retry_call(search->walk.deadline, RETRY_BUSY_MS, 0);
    const struct definition *definition = search->definition;
    struct ledger_run run;
    enum tw_err outcome;
    bool unserved, left;

    ledger_run_init(&run);
    do
        outcome = ledger_get(search->walk.store, &call.exchange,
            search->walk.row->partition_key, search->walk.id, &run);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK && !ledger_state_ended(run.state)) {
        unserved = unserved_is(definition->jobs, definition->setup, &run,
            call.exchange.date_ticks);
        left = unserved || is_left(&run);
        if (left || lacks_message(search, &run, call.exchange.date_ticks))
            add_name(search, &run, unserved, !left);
        else
            search->others = true;
    }
    ledger_run_done(&run);
    return outcome == TW_OK || outcome == TW_NOT_FOUND || outcome == TW_INVALID
               ? WALK_MORE
               : walk_give_up(&search->walk, &call.exchange, err);
}

enum tw_err drain_left(const struct definition *definition,
    const struct deadline *deadline, bool all, bool *ret_only,
    size_t *ret_count, struct buf *names, struct err *err)
{
    struct search search = {
        .definition = definition, .names = names, .empty = all};
    enum walk_step step = WALK_MORE;

    walk_init(&search.walk);
    walk_begin(&search.walk, definition_store(definition), deadline,
        &(struct ledger_index_scan){.index = LEDGER_INDEX_OPEN});
    buf_clear(names);
    while (step == WALK_MORE && (all || !search.others)) {
        step = walk_step(&search.walk, err);
        if (step == WALK_FOUND)
            step = unserved_is_job(search.walk.row->partition_key)
                       ? read_run(&search, err)
                       : WALK_MORE;
    }
    *ret_only = step != WALK_FAILED && !search.others;
    *ret_count = search.left;
    walk_done(&search.walk);
    return step == WALK_FAILED ? TW_BUSY : TW_OK;
}
