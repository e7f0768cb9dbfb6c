/* SPDX-License-Identifier: MIT */
/* Open runs that nobody works on and no message rings for. */
#include "worker/run/orphans.h"

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/retry.h"

/* How many visibility timeouts nothing must have happened for. */
#define PATIENCE 2
/* Runs of the dead that wait to be looked at; a pass finds the others. */
#define NOTED_MAX 4096

struct orphans_noted {
    char *job, *id; /* owned */
};

void orphans_init(struct orphans *orphans, const struct fence *fence,
    struct lock_file *lock_file)
{
    *orphans = (struct orphans){.fence = fence, .lock_file = lock_file};
    page_init(&orphans->page);
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
    page_done(&orphans->page);
    ledger_run_done(&orphans->run);
}

void orphans_use(struct orphans *orphans, struct definition *definition)
{
    orphans->definition = definition;
    orphans->under_way = false;
}

void orphans_begin(struct orphans *orphans)
{
    page_done(&orphans->page);
    orphans->under_way = true;
    orphans->job = 0;
    orphans->at = 0;
    orphans->more = true;
}

int64_t orphans_patience_ms(int64_t visibility_timeout_s)
{
    return PATIENCE * visibility_timeout_s * 1000;
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
    return since + orphans_patience_ms(visibility_timeout_s) * TICKS_PER_MS <=
           now_ticks;
}

/* ---- runs of the dead ---- */

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

bool orphans_look(struct orphans *orphans)
{
    lock_file_look(orphans->lock_file, add_noted, orphans);
    return orphans->noted_count > 0;
}

/* ---- one step ---- */

/* Nobody works on it, or who did is dead. */
static bool is_left(const struct orphans *orphans, int64_t now_ticks)
{
    const struct ledger_run *run = &orphans->run;

    if (orphans_is(
            run, now_ticks, orphans->definition->setup->visibility_timeout_s))
        return true;
    return run->state == LEDGER_RUNNING && !run->newer &&
           lock_file_is_dead(orphans->lock_file, run->owner);
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

/* One that cannot be read is passed over, and so is one whose id nobody can
 * have given it: ids become names of files. */
static enum orphans_step read_run(
    struct orphans *orphans, struct slice job, struct slice id, struct err *err)
{
    const struct definition *definition = orphans->definition;
    struct retry_call call = retry_call(orphans->fence, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    if (!text_is_run_id(id))
        return ORPHANS_MORE;
    do
        outcome = ledger_get(definition_store(definition), &call.attempt, job,
            id, &orphans->run);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID)
        return ORPHANS_MORE;
    if (outcome != TW_OK)
        return give_up(orphans, &call.attempt, err);
    return is_left(orphans, call.attempt.date_ticks) ? ORPHANS_FOUND
                                                     : ORPHANS_MORE;
}

/* The run of one row. */
static enum orphans_step read_next(struct orphans *orphans, struct err *err)
{
    const struct entity *row = &orphans->page.entities[orphans->at++];
    struct slice id;

    if (!ledger_index_id(row->row_key, &id))
        return ORPHANS_MORE;
    return read_run(orphans, row->partition_key, id, err);
}

/* One that no job of ours is for is left to others. */
static enum orphans_step read_noted(struct orphans *orphans, struct err *err)
{
    struct slice job = slice_of(orphans->noted[0].job);
    enum orphans_step step = ORPHANS_MORE;

    if (jobs_find(orphans->definition->jobs, job))
        step = read_run(orphans, job, slice_of(orphans->noted[0].id), err);
    if (step != ORPHANS_FAILED)
        forget_first(orphans);
    return step;
}

enum orphans_step orphans_step(struct orphans *orphans, struct err *err)
{
    if (orphans->noted_count > 0)
        return read_noted(orphans, err);
    if (!orphans->under_way ||
        orphans->job >= orphans->definition->jobs->count) {
        orphans->under_way = false;
        return ORPHANS_DONE;
    }
    if (orphans->at < orphans->page.count)
        return read_next(orphans, err);
    if (orphans->more)
        return read_rows(orphans, err);
    orphans->job++;
    orphans->more = true;
    page_done(&orphans->page);
    orphans->at = 0;
    return ORPHANS_MORE;
}
