/* SPDX-License-Identifier: MIT */
/* Open runs that nobody works on and no message rings for. */
#include "worker/run/orphans.h"

#include "worker/base/text.h"
#include "worker/store/retry.h"

/* How many visibility timeouts nothing must have happened for. */
#define PATIENCE 2

void orphans_init(struct orphans *orphans, const struct fence *fence)
{
    *orphans = (struct orphans){.fence = fence};
    page_init(&orphans->page);
    ledger_run_init(&orphans->run);
}

void orphans_done(struct orphans *orphans)
{
    page_done(&orphans->page);
    ledger_run_done(&orphans->run);
}

void orphans_begin(struct orphans *orphans, struct definition *definition)
{
    page_done(&orphans->page);
    orphans->definition = definition;
    orphans->under_way = true;
    orphans->job = 0;
    orphans->at = 0;
    orphans->more = true;
}

bool orphans_is(const struct ledger_run *run, int64_t now_ticks,
    int64_t visibility_timeout_s)
{
    int64_t since = run->lease_until_ticks;

    if (ledger_state_ended(run->state) || run->state == LEDGER_PAUSED ||
        run->newer)
        return false;
    /* Enqueued and never taken: it has neither. */
    if (run->updated_ticks > since)
        since = run->updated_ticks;
    if (run->resumes_ticks > since)
        since = run->resumes_ticks;
    return since + PATIENCE * visibility_timeout_s * TICKS_PER_S <= now_ticks;
}

static enum orphans_step give_up(
    struct orphans *orphans, const struct attempt *attempt, struct err *err)
{
    orphans->under_way = false;
    (void)err_fail(err, TW_BUSY, "%s", attempt->err.text);
    return ORPHANS_FAILED;
}

/* One page of the index rows of the job's open runs. */
static enum orphans_step read_rows(struct orphans *orphans, struct err *err)
{
    const struct definition *definition = orphans->definition;
    struct retry_call call = retry_call(orphans->fence, RETRY_BUSY_MS, 0);
    struct ledger_index_scan scan = {
        .job = slice_of(definition->jobs->list[orphans->job].name),
        .index = LEDGER_INDEX_OPEN};
    bool first =
        !orphans->page.next.more; /* the page has the place of the next */
    enum tw_err outcome;

    do
        outcome = ledger_scan_index(definition_store(definition), &call.attempt,
            &scan, orphans->page.next, &orphans->page);
    while (first && retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND) {
        orphans->under_way = false;
        return ORPHANS_DONE;
    }
    if (outcome != TW_OK)
        return give_up(orphans, &call.attempt, err);
    orphans->at = 0;
    orphans->more = orphans->page.next.more;
    return ORPHANS_MORE;
}

/* The run of one row. One that cannot be read is passed over. */
static enum orphans_step read_run(struct orphans *orphans, struct err *err)
{
    const struct definition *definition = orphans->definition;
    const struct entity *row = &orphans->page.entities[orphans->at++];
    struct retry_call call = retry_call(orphans->fence, RETRY_BUSY_MS, 0);
    struct slice id;
    enum tw_err outcome;

    if (!ledger_index_id(row->row_key, &id))
        return ORPHANS_MORE;
    do
        outcome = ledger_get(definition_store(definition), &call.attempt,
            row->partition_key, id, &orphans->run);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID)
        return ORPHANS_MORE;
    if (outcome != TW_OK)
        return give_up(orphans, &call.attempt, err);
    return orphans_is(&orphans->run, call.attempt.date_ticks,
               definition->setup->visibility_timeout_s)
               ? ORPHANS_FOUND
               : ORPHANS_MORE;
}

enum orphans_step orphans_step(struct orphans *orphans, struct err *err)
{
    if (!orphans->under_way ||
        orphans->job >= orphans->definition->jobs->count) {
        orphans->under_way = false;
        return ORPHANS_DONE;
    }
    if (orphans->at < orphans->page.count)
        return read_run(orphans, err);
    if (orphans->more)
        return read_rows(orphans, err);
    orphans->job++;
    orphans->more = true;
    page_done(&orphans->page);
    orphans->at = 0;
    return ORPHANS_MORE;
}
