/* SPDX-License-Identifier: MIT */
/* A pass over ledger index rows, in steps of one request. */
#include "worker/run/walk.h"

#include "worker/store/retry.h"

void walk_init(struct walk *walk)
{
    *walk = (struct walk){.under_way = false};
    arena_init(&walk->arena);
    page_init(&walk->page);
}

void walk_done(struct walk *walk)
{
    page_done(&walk->page);
    arena_done(&walk->arena);
    walk_init(walk);
}

void walk_begin(struct walk *walk, struct store *store,
    const struct deadline *deadline, const struct ledger_index_scan *scan)
{
    walk_done(walk);
    walk->store = store;
    walk->deadline = deadline;
    walk->scan = *scan;
    walk->under_way = true;
}

enum walk_step walk_give_up(
    struct walk *walk, const struct exchange *exchange, struct err *err)
{
    walk->under_way = false;
    (void)err_fail(err, TW_BUSY, "%s", exchange->err.text);
    return WALK_FAILED;
}

static enum walk_step end(struct walk *walk)
{
    walk->under_way = false;
    return WALK_DONE;
}

/* Set scan.job to the next job that has runs in the ledger. TW_NOT_FOUND: no
 * further job. */
static enum tw_err next_of_ledger(struct walk *walk, struct retry_call *call)
{
    enum tw_err outcome;

    do
        outcome = ledger_next_job(walk->store, &call->exchange, walk->scan.job,
            &walk->arena, &walk->scan.job);
    while (retry_call_again(call, outcome));
    return outcome;
}

static enum walk_step next_job(struct walk *walk, struct err *err)
{
    struct retry_call call = retry_call(walk->deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome = next_of_ledger(walk, &call);

    if (outcome == TW_NOT_FOUND)
        return end(walk);
    if (outcome != TW_OK)
        return walk_give_up(walk, &call.exchange, err);
    page_done(&walk->page);
    walk->at = 0;
    walk->more = true;
    return WALK_MORE;
}

static enum walk_step read_rows(struct walk *walk, struct err *err)
{
    struct retry_call call = retry_call(walk->deadline, RETRY_BUSY_MS, 0);
    struct continuation from = walk->page.next;
    enum tw_err outcome;

    do
        outcome = ledger_scan_index(
            walk->store, &call.exchange, &walk->scan, from, &walk->page);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND)
        return end(walk);
    if (outcome != TW_OK)
        return walk_give_up(walk, &call.exchange, err);
    walk->at = 0;
    walk->more = walk->page.next.more;
    return WALK_MORE;
}

enum walk_step walk_step(struct walk *walk, struct err *err)
{
    if (!walk->under_way)
        return WALK_DONE;
    while (walk->at < walk->page.count) {
        walk->row = &walk->page.entities[walk->at++];
        if (ledger_index_id(walk->row->row_key, &walk->id))
            return WALK_FOUND;
    }
    return walk->more ? read_rows(walk, err) : next_job(walk, err);
}
