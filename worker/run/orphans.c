/* SPDX-License-Identifier: MIT */
/* Finds open runs without a valid lease and without a message. */
#include "worker/run/orphans.h"

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/lease.h"
#include "worker/run/ledger_change.h"
#include "worker/run/unserved.h"
#include "worker/store/retry.h"

/* Number of visibility timeouts after which an unchanged run is an orphan. */
#define PATIENCE 2
/* Maximum number of noted runs that wait to be read; a pass finds the others.
 */
#define NOTED_MAX 4096
#define EXAMPLE_MAX_BYTES 2000

struct orphans_noted {
    char *job, *id; /* owned */
};

void orphans_init(struct orphans *orphans, const struct deadline *deadline,
    struct lock_file *lock_file)
{
    *orphans = (struct orphans){.deadline = deadline, .lock_file = lock_file};
    walk_init(&orphans->walk);
    ledger_run_init(&orphans->run);
}

static void forget_first(struct orphans *orphans)
{
    mem_free(orphans->noted[0].job);
    mem_free(orphans->noted[0].id);
    orphans->noted_count--;
    memmove(&orphans->noted[0], &orphans->noted[1],
        orphans->noted_count * sizeof(*orphans->noted));
}

void orphans_done(struct orphans *orphans)
{
    while (orphans->noted_count > 0)
        forget_first(orphans);
    mem_free(orphans->noted);
    orphans->noted = NULL;
    walk_done(&orphans->walk);
    mem_free(orphans->unserved_example);
    orphans->unserved_example = NULL;
    ledger_run_done(&orphans->run);
}

void orphans_use(struct orphans *orphans, struct definition *definition)
{
    orphans->definition = definition;
    orphans->walk.under_way = false;
}

void orphans_begin(struct orphans *orphans)
{
    mem_free(orphans->unserved_example);
    orphans->unserved_example = NULL;
    orphans->unserved = 0;
    orphans->any_waits = false;
    walk_begin(&orphans->walk, definition_store(orphans->definition),
        orphans->deadline,
        &(struct ledger_index_scan){.index = LEDGER_INDEX_OPEN});
}

int64_t orphans_patience_ms(int64_t visibility_timeout_s)
{
    return PATIENCE * visibility_timeout_s * 1000;
}

/* Returns when run becomes an orphan, if it stays unchanged until then. */
static int64_t orphan_at(
    const struct ledger_run *run, int64_t visibility_timeout_s)
{
    int64_t since = run->lease_until_ticks;

    /* A run without an attempt has no LeaseUntil. */
    if (run->updated_ticks > since)
        since = run->updated_ticks;
    if (run->resumes_ticks > since)
        since = run->resumes_ticks;
    return since + orphans_patience_ms(visibility_timeout_s) * TICKS_PER_MS;
}

bool orphans_is(const struct ledger_run *run, int64_t now_ticks,
    int64_t visibility_timeout_s)
{
    if (ledger_state_ended(run->state) || run->state == LEDGER_PAUSED ||
        run->newer)
        return false;
    return orphan_at(run, visibility_timeout_s) <= now_ticks;
}

bool orphans_may_be_queued(const struct orphans *orphans, const char *queue)
{
    const struct definition *definition = orphans->definition;
    int64_t at =
        orphan_at(&orphans->run, definition->setup->visibility_timeout_s);
    struct retry_call call = retry_call(orphans->deadline, RETRY_BUSY_MS, 0);
    struct messages first;
    enum tw_err outcome;
    bool later = false;

    messages_init(&first);
    do
        outcome = store_queue_peek(definition_store(definition), &call.exchange,
            queue, QUEUE_MAX_GET, &first);
    while (retry_call_again(&call, outcome));
    for (size_t i = 0; outcome == TW_OK && i < first.count && !later; i++)
        later = first.list[i].inserted_ticks > at;
    later = later || (outcome == TW_OK && first.count == 0);
    messages_done(&first);
    return !later;
}

/* ---- runs of dead processes ---- */

static void add_noted(void *context, struct slice job, struct slice id)
{
    struct orphans *orphans = context;

    if (orphans->noted_count == NOTED_MAX)
        return;
    orphans->noted = mem_resize(
        orphans->noted, (orphans->noted_count + 1) * sizeof(*orphans->noted));
    orphans->noted[orphans->noted_count++] = (struct orphans_noted){
        mem_text(job.at, job.len), mem_text(id.at, id.len)};
}

bool orphans_find_dead(struct orphans *orphans)
{
    lock_file_find_dead(orphans->lock_file, add_noted, orphans);
    return orphans->noted_count > 0;
}

/* ---- what a run is ---- */

/* Is the run an orphan, or has the process of its owner died? */
static bool is_left(const struct orphans *orphans, const struct ledger_run *run,
    int64_t now_ticks)
{
    if (orphans_is(
            run, now_ticks, orphans->definition->setup->visibility_timeout_s))
        return true;
    return run->state == LEDGER_RUNNING && !run->newer &&
           lock_file_is_dead(orphans->lock_file, run->owner);
}

static void count_unserved(struct orphans *orphans, int64_t now_ticks)
{
    const struct definition *definition = orphans->definition;
    const struct ledger_run *run = &orphans->run;
    struct buf example;

    if (!unserved_is(definition->jobs, definition->setup, run, now_ticks))
        return;
    if (++orphans->unserved > 1)
        return;
    buf_init(&example, EXAMPLE_MAX_BYTES);
    buf_add_format(
        &example, "%.*s/%.*s: ", SLICE_ARG(run->job), SLICE_ARG(run->id));
    unserved_add_reason(definition->jobs, definition->setup, run, &example);
    orphans->unserved_example = mem_text(buf_text(&example), example.len);
    buf_done(&example);
}

/* Does run wait until an operator resumes or finishes the run? */
static bool waits_for_person(const struct ledger_run *run)
{
    return run->state == LEDGER_PAUSED || ledger_waits_for_definition(run) ||
           (run->state == LEDGER_WAITING &&
               slice_is(run->waits_for, LEDGER_WAITS_FOR_ROUND));
}

/* ---- the job is not configured ---- */

static enum tw_err apply_hold(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    const struct orphans *orphans = context;

    if (run->etag.len == 0 || ledger_waits_for_definition(run) ||
        !is_left(orphans, run, now_ticks))
        return TW_CONFLICT; /* nothing is written */
    return lease_hold_without_job(run, now_ticks, err);
}

/* Hold orphans->run, whose job is not configured. If that fails, a later pass
 * does it. */
static void hold_run(struct orphans *orphans)
{
    const struct definition *definition = orphans->definition;
    const struct retry_call call =
        retry_call(orphans->deadline, RETRY_BUSY_MS, 0);
    struct ledger_run *run = &orphans->run;
    struct ledger_change change = {.store = definition_store(definition),
        .apply = apply_hold,
        .context = orphans,
        .limits = &call.limits};
    struct err err;

    if (ledger_waits_for_definition(run) ||
        (run->queue.len > 0 &&
            !setup_queue_named(definition->setup, run->queue)))
        return;
    if (ledger_change(&change, LEDGER_READ, run, &err) == TW_OK)
        log_warn("worker",
            "run %.*s/%.*s is held: its job is not in the configuration",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
}

/* ---- one step ---- */

/* Read the run. WALK_FOUND: it is an orphan of a configured job. Holds an
 * orphan whose job is not configured. Skips a run that cannot be read, and a
 * run whose id is invalid, because ids become file names. in_pass: true if the
 * pass has reached the run. False if the lock file of a dead process names it;
 * the pass then counts it later. */
static enum walk_step read_run(struct orphans *orphans, struct slice job,
    struct slice id, bool in_pass, struct err *err)
{
    const struct definition *definition = orphans->definition;
    struct retry_call call = retry_call(orphans->deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    if (!text_is_run_id(id))
        return WALK_MORE;
    do
        outcome = ledger_get(definition_store(definition), &call.exchange, job,
            id, &orphans->run);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID)
        return WALK_MORE;
    if (outcome != TW_OK)
        return walk_give_up(&orphans->walk, &call.exchange, err);
    if (in_pass) {
        count_unserved(orphans, call.exchange.date_ticks);
        orphans->any_waits =
            orphans->any_waits || waits_for_person(&orphans->run);
    }
    if (!is_left(orphans, &orphans->run, call.exchange.date_ticks))
        return WALK_MORE;
    if (jobs_find(definition->jobs, job))
        return WALK_FOUND;
    hold_run(orphans);
    return WALK_MORE;
}

static enum walk_step read_noted(struct orphans *orphans, struct err *err)
{
    struct slice job = slice_of(orphans->noted[0].job);
    enum walk_step step =
        read_run(orphans, job, slice_of(orphans->noted[0].id), false, err);

    if (step != WALK_FAILED)
        forget_first(orphans);
    return step;
}

enum walk_step orphans_step(struct orphans *orphans, struct err *err)
{
    const struct walk *walk = &orphans->walk;
    enum walk_step step;

    if (orphans->noted_count > 0)
        return read_noted(orphans, err);
    step = walk_step(&orphans->walk, err);
    if (step == WALK_FOUND && !unserved_is_job(walk->row->partition_key))
        return WALK_MORE; /* an import */
    return step == WALK_FOUND ? read_run(orphans, walk->row->partition_key,
                                    walk->id, true, err)
                              : step;
}
