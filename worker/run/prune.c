/* SPDX-License-Identifier: MIT */
/* Runs that ended long ago leave the ledger. */
#include "worker/run/prune.h"

#include "worker/run/ledger_change.h"
#include "worker/store/retry.h"

void prune_init(struct prune *prune)
{
    *prune = (struct prune){.under_way = false};
    arena_init(&prune->arena);
    page_init(&prune->page);
}

void prune_done(struct prune *prune)
{
    page_done(&prune->page);
    arena_done(&prune->arena);
    prune_init(prune);
}

void prune_begin(struct prune *prune, struct store *store,
    const struct fence *fence, int64_t before_ticks)
{
    prune_done(prune);
    prune->store = store;
    prune->fence = fence;
    prune->under_way = true;
    (void)ledger_day(before_ticks, prune->below_day);
}

static enum prune_step give_up(
    struct prune *prune, const struct attempt *attempt, struct err *err)
{
    prune->under_way = false;
    (void)err_fail(err, TW_BUSY, "%s", attempt->err.text);
    return PRUNE_FAILED;
}

static struct attempt begin_attempt(const struct prune *prune)
{
    return (struct attempt){.fence = prune->fence, .retry_after_ms = -1};
}

static struct retry_call begin_call(const struct prune *prune)
{
    return retry_call(prune->fence, RETRY_BUSY_MS, 0);
}

static enum prune_step find_job(struct prune *prune, struct err *err)
{
    struct retry_call call = begin_call(prune);
    enum tw_err outcome;

    do
        outcome = ledger_next_job(prune->store, &call.attempt, prune->job,
            &prune->arena, &prune->job);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND) {
        prune->under_way = false;
        return PRUNE_DONE;
    }
    if (outcome != TW_OK)
        return give_up(prune, &call.attempt, err);
    page_done(&prune->page);
    prune->at = 0;
    prune->more = true;
    return PRUNE_MORE;
}

static enum prune_step read_rows(struct prune *prune, struct err *err)
{
    const struct ledger_index_scan scan = {.job = prune->job,
        .index = LEDGER_INDEX_ENDED,
        .below_day = prune->below_day};
    struct retry_call call = begin_call(prune);
    bool first =
        !prune->page.next.more; /* the page has the place of the next */
    enum tw_err outcome;

    do
        outcome = ledger_scan_index(
            prune->store, &call.attempt, &scan, prune->page.next, &prune->page);
    while (first && retry_call_again(&call, outcome));
    if (outcome != TW_OK)
        return give_up(prune, &call.attempt, err);
    prune->at = 0;
    prune->more = prune->page.next.more;
    return PRUNE_MORE;
}

/* A row whose run is gone, or is on another list. */
static enum tw_err delete_row(
    struct prune *prune, struct attempt *attempt, const struct entity *row)
{
    const struct operation operation = {
        .type = OPERATION_DELETE, .entity = *row};
    const struct batch batch = {LEDGER_TABLE, &operation, 1};
    struct batch_result result;

    *attempt = begin_attempt(prune);
    return store_batch(prune->store, attempt, &batch, &result);
}

static bool is_listed(const struct ledger_run *run, struct slice row_key)
{
    struct arena arena;
    bool listed;

    arena_init(&arena);
    listed = slice_equal(ledger_index_key(run, &arena), row_key);
    arena_done(&arena);
    return listed;
}

static enum tw_err prune_row(struct prune *prune, const struct entity *row,
    struct slice id, struct attempt *attempt)
{
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    outcome = ledger_get(prune->store, attempt, prune->job, id, &run);
    if (outcome == TW_OK && !run.newer && is_listed(&run, row->row_key)) {
        run.index_etag = ledger_text(&run, row->etag);
        *attempt = begin_attempt(prune);
        outcome = ledger_remove(prune->store, attempt, &run);
        prune->pruned += outcome == TW_OK;
    } else if (outcome == TW_NOT_FOUND || (outcome == TW_OK && !run.newer)) {
        outcome = delete_row(prune, attempt, row);
    }
    ledger_run_done(&run);
    return outcome;
}

/* What others change meanwhile, and what cannot be read, is left for the next
 * pass. */
static enum prune_step take_row(struct prune *prune, struct err *err)
{
    const struct entity *row = &prune->page.entities[prune->at++];
    struct retry_call call = begin_call(prune);
    struct slice id;
    enum tw_err outcome;

    if (!ledger_index_id(row->row_key, &id) || row->etag.len == 0 ||
        ledger_is_newer(row))
        return PRUNE_MORE;
    do
        outcome = prune_row(prune, row, id, &call.attempt);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK || outcome == TW_CONFLICT || outcome == TW_NOT_FOUND ||
        outcome == TW_UNKNOWN ||
        (outcome == TW_INVALID && call.attempt.http_status < 400))
        return PRUNE_MORE;
    return give_up(prune, &call.attempt, err);
}

enum prune_step prune_step(struct prune *prune, struct err *err)
{
    if (!prune->under_way)
        return PRUNE_DONE;
    if (prune->at < prune->page.count)
        return take_row(prune, err);
    if (prune->more)
        return read_rows(prune, err);
    return find_job(prune, err);
}
