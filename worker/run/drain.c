/* SPDX-License-Identifier: MIT */
/* What a drain does not wait for. */
#include "worker/run/drain.h"

#include "worker/base/arena.h"
#include "worker/run/ledger.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

struct looking {
    struct store *store;
    const struct fence *fence;
    struct buf *names;
    size_t left;
    bool all;
    bool others; /* there is an open run that the drain waits for */
    struct retry_call call;
};

static void begin_call(struct looking *l)
{
    l->call = retry_call(l->fence, RETRY_BUSY_MS, 0);
}

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

/* A newer version's is for its own workers. */
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
        run->newer ? "a newer version's" : ledger_state_name(run->state));
    if (!run->newer && run->waits_for.len > 0)
        buf_add_format(l->names, " for %.*s", SLICE_ARG(run->waits_for));
    l->left++;
}

static enum tw_err look_at_run(
    struct looking *l, struct slice job, struct slice id)
{
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    begin_call(l);
    do
        outcome = ledger_get(l->store, &l->call.attempt, job, id, &run);
    while (retry_call_again(&l->call, outcome));
    if (outcome == TW_OK && !ledger_state_ended(run.state)) {
        if (is_left(&run))
            add_name(l, &run);
        else
            l->others = true;
    }
    ledger_run_done(&run);
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID)
        outcome = TW_OK; /* no worker works on these */
    return outcome;
}

static enum tw_err look_at_job(struct looking *l, struct slice job)
{
    const struct ledger_index_scan scan = {
        .job = job, .index = LEDGER_INDEX_OPEN};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    do {
        bool first = !page.next.more; /* the page has the place of the next */

        begin_call(l);
        do
            outcome = ledger_scan_index(
                l->store, &l->call.attempt, &scan, page.next, &page);
        while (first && retry_call_again(&l->call, outcome));
        for (size_t i = 0; outcome == TW_OK && goes_on(l) && i < page.count;
             i++) {
            struct slice id;

            if (ledger_index_id(page.entities[i].row_key, &id))
                outcome = look_at_run(l, job, id);
        }
    } while (outcome == TW_OK && goes_on(l) && page.next.more);
    page_done(&page);
    return outcome;
}

enum tw_err drain_left(struct store *store, const struct fence *fence, bool all,
    bool *ret_only, size_t *ret_count, struct buf *names, struct err *err)
{
    struct looking l = {
        .store = store, .fence = fence, .names = names, .all = all};
    struct slice job = {0};
    struct arena arena;
    enum tw_err outcome = TW_OK;

    arena_init(&arena);
    buf_clear(names);
    while (outcome == TW_OK && goes_on(&l)) {
        begin_call(&l);
        do
            outcome =
                ledger_next_job(store, &l.call.attempt, job, &arena, &job);
        while (retry_call_again(&l.call, outcome));
        if (outcome == TW_OK && is_job(job))
            outcome = look_at_job(&l, job);
    }
    if (outcome == TW_NOT_FOUND)
        outcome = TW_OK;
    *ret_only = outcome == TW_OK && !l.others;
    *ret_count = l.left;
    arena_done(&arena);
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", l.call.attempt.err.text);
    return outcome;
}
