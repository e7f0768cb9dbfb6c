/* SPDX-License-Identifier: MIT */
/* Deletes runs that ended long ago from the ledger. */
#include "worker/run/prune.h"

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger_change.h"
#include "worker/store/retry.h"

/* The maximum time for which a message is hidden. If a run was cancelled before
 * a worker received the run's message, the message may be hidden for this time.
 */
#define HIDDEN_MAX (7 * 24 * 3600 * TICKS_PER_S)
/* How long a run is kept while its queue has messages, counted from the time at
 * which the run's message must be visible. The run's message may still be in
 * the queue, because perhaps no worker has served the queue since then. */
#define UNSERVED_MAX (30 * 24 * 3600 * TICKS_PER_S)
/* Upper bound of the time from the end of a run until a message that the run
 * has left is visible. (The real time is the visibility timeout, usually
 * minutes at most.) From then on the message is among the first messages of its
 * queue, or all first messages were put before it became visible. */
#define FRONT_MAX (3600 * TICKS_PER_S)

void prune_init(struct prune *prune)
{
    *prune = (struct prune){.pruned = 0};
    walk_init(&prune->walk);
}

static void forget_front(struct prune *prune)
{
    mem_free(prune->front_queue);
    prune->front_queue = NULL;
}

void prune_done(struct prune *prune)
{
    forget_front(prune);
    walk_done(&prune->walk);
}

void prune_begin(struct prune *prune, struct store *store,
    const struct deadline *deadline, int64_t now_ticks, int64_t keep_ticks)
{
    const struct ledger_index_scan scan = {.index = LEDGER_INDEX_ENDED,
        .below_day = ledger_day(now_ticks - keep_ticks, prune->below_day)};

    walk_begin(&prune->walk, store, deadline, &scan);
    forget_front(prune);
    prune->keep_ticks = keep_ticks;
    prune->pruned = 0;
}

static struct exchange begin_attempt(const struct prune *prune)
{
    return (struct exchange){
        .deadline = prune->walk.deadline, .retry_after_ms = -1};
}

/* Delete a ledger index row whose run does not exist or is on another list. */
static enum tw_err delete_row(
    struct prune *prune, struct exchange *exchange, const struct entity *row)
{
    const struct operation operation = {
        .type = OPERATION_DELETE, .entity = *row};
    const struct batch batch = {LEDGER_TABLE, &operation, 1};
    struct batch_result result;

    *exchange = begin_attempt(prune);
    return store_batch(prune->walk.store, exchange, &batch, &result);
}

static enum tw_err remove_run(
    struct prune *prune, struct exchange *exchange, struct ledger_run *run)
{
    enum tw_err outcome;

    run->index_etag = ledger_text(run, prune->walk.row->etag);
    *exchange = begin_attempt(prune);
    outcome = ledger_remove(prune->walk.store, exchange, run);
    prune->pruned += outcome == TW_OK;
    return outcome;
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

static int64_t day_number(int64_t ticks)
{
    return ticks / (24 * 3600 * TICKS_PER_S);
}

/* Is the run too recent to be pruned? date_ticks: the present time by the
 * ledger's clock, which also gave FinishedAt. */
static bool is_kept(
    const struct prune *prune, const struct ledger_run *run, int64_t date_ticks)
{
    return day_number(run->finished_ticks) >=
           day_number(date_ticks - prune->keep_ticks);
}

/* Returns the time until which a message of the ended run may be hidden:
 * MessageUntil or, for a cancelled run, HIDDEN_MAX after its end if that is
 * later. 0: that time is not after the end of the run. */
static int64_t hidden_until(const struct ledger_run *run)
{
    int64_t until = run->message_until_ticks;

    if (run->state == LEDGER_CANCELLED &&
        until < run->finished_ticks + HIDDEN_MAX)
        until = run->finished_ticks + HIDDEN_MAX;
    return until > run->finished_ticks ? until : 0;
}

/* Read the first visible messages of queue. Set prune->front_ticks to the time
 * at which the oldest of these messages was put. INT64_MAX: the queue has no
 * visible message; INT64_MIN: the messages cannot be read. */
static enum tw_err read_front(
    struct prune *prune, struct exchange *exchange, struct slice queue)
{
    struct messages first;
    enum tw_err outcome;

    forget_front(prune);
    prune->front_queue = mem_format("%.*s", SLICE_ARG(queue));
    prune->front_ticks = INT64_MAX;
    messages_init(&first);
    *exchange = begin_attempt(prune);
    outcome = store_queue_peek(
        prune->walk.store, exchange, prune->front_queue, QUEUE_MAX_GET, &first);
    for (size_t i = 0; outcome == TW_OK && i < first.count; i++)
        if (first.list[i].inserted_ticks < prune->front_ticks)
            prune->front_ticks = first.list[i].inserted_ticks;
    messages_done(&first);
    if (outcome == TW_BUSY || outcome == TW_STOPPED)
        forget_front(prune);
    else if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        prune->front_ticks = INT64_MIN;
    return outcome;
}

/*
 * May the queue still have a message of the run that was visible when the run
 * ended, or soon afterwards? The command `run` ends a run without its message,
 * and a worker may be killed before it deletes the message. *ret is set if
 * TW_OK is returned.
 */
static enum tw_err left_message(struct prune *prune, struct exchange *exchange,
    const struct ledger_run *run, bool *ret)
{
    enum tw_err outcome = TW_OK;

    if (!prune->front_queue || !slice_is(run->queue, prune->front_queue))
        outcome = read_front(prune, exchange, run->queue);
    if (outcome == TW_BUSY || outcome == TW_STOPPED)
        return outcome;
    *ret = prune->front_ticks <= run->finished_ticks + FRONT_MAX;
    return TW_OK;
}

/*
 * May a message of the run still come? A worker that receives the message
 * deletes it, because the ledger says that the run has ended. Without the run
 * in the ledger, the worker would execute the run again. The message may have
 * become visible while no worker was running. So after the time at which the
 * message must be visible, the run is kept until its queue has no message, but
 * at most for UNSERVED_MAX. *ret is set if TW_OK is returned.
 */
static enum tw_err expects_message(struct prune *prune,
    struct exchange *exchange, const struct ledger_run *run, bool *ret)
{
    int64_t until = hidden_until(run), now = exchange->date_ticks, count = 0;
    enum tw_err outcome;
    char *queue;

    *ret = until >= now;
    if (*ret || run->queue.len == 0 ||
        now > (until > 0 ? until : run->finished_ticks) + UNSERVED_MAX)
        return TW_OK;
    if (until == 0)
        return left_message(prune, exchange, run, ret);
    queue = mem_format("%.*s", SLICE_ARG(run->queue));
    *exchange = begin_attempt(prune);
    outcome = store_queue_count(prune->walk.store, exchange, queue, &count);
    mem_free(queue);
    if (outcome == TW_BUSY || outcome == TW_STOPPED)
        return outcome;
    *ret = outcome == TW_OK ? count > 0 : outcome != TW_NOT_FOUND;
    return TW_OK;
}

/* Delete the run and its ledger index row, unless the run is too recent or the
 * run's message may still come. */
static enum tw_err prune_run(
    struct prune *prune, struct exchange *exchange, struct ledger_run *run)
{
    bool expects = false;
    enum tw_err outcome;

    if (is_kept(prune, run, exchange->date_ticks))
        return TW_OK;
    outcome = expects_message(prune, exchange, run, &expects);
    return outcome != TW_OK || expects ? outcome
                                       : remove_run(prune, exchange, run);
}

static enum tw_err prune_row(struct prune *prune, struct exchange *exchange)
{
    struct store *store = prune->walk.store;
    const struct entity *row = prune->walk.row;
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    outcome =
        ledger_get(store, exchange, row->partition_key, prune->walk.id, &run);
    if (outcome == TW_OK && !run.newer && is_listed(&run, row->row_key)) {
        outcome = prune_run(prune, exchange, &run);
    } else if (outcome == TW_NOT_FOUND || (outcome == TW_OK && !run.newer)) {
        outcome = delete_row(prune, exchange, row);
    }
    ledger_run_done(&run);
    return outcome;
}

/* Delete the row and its run, unless prune_run() keeps them. A run that another
 * process changes at the same time, or that cannot be read, is left for the
 * next pass. */
static enum walk_step take_row(struct prune *prune, struct err *err)
{
    const struct entity *row = prune->walk.row;
    struct retry_call call = retry_call(prune->walk.deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    if (row->etag.len == 0 || ledger_is_newer(row))
        return WALK_MORE;
    do
        outcome = prune_row(prune, &call.exchange);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK || outcome == TW_CONFLICT || outcome == TW_NOT_FOUND ||
        outcome == TW_UNKNOWN ||
        (outcome == TW_INVALID && call.exchange.http_status < 400))
        return WALK_MORE;
    return walk_give_up(&prune->walk, &call.exchange, err);
}

enum walk_step prune_step(struct prune *prune, struct err *err)
{
    enum walk_step step = walk_step(&prune->walk, err);

    return step == WALK_FOUND ? take_row(prune, err) : step;
}
