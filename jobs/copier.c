/* SPDX-License-Identifier: MIT */
/*
 * One attempt of a run that copies or moves: what follows what. Nothing is
 * decided by what the checkpoint says was done, only by what is read: so an
 * attempt may end anywhere, and the next one goes on.
 */
#include "jobs/copier.h"

#include "jobs/copier_look.h"
#include "jobs/copier_pass.h"
#include "jobs/copier_strip.h"
#include "jobs/copier_sweep.h"
#include "jobs/copier_tables.h"
#include "jobs/copier_work.h"
#include "jobs/engine/keyset.h"
#include "jobs/job.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The service ends a request after 30 s: what was sent before has landed or
 * never will. */
#define LATE_WRITE_MS 30000

#define PHASE_STRIP "strip"

/* ---- ends ---- */

/* A step returns false when the attempt is over; c->end says how. */
static bool ends(struct copier *c, enum run_end end)
{
    c->end = end;
    return false;
}

/* Somebody may mend what is wrong and have the run tried again: then all is
 * looked at again. What may still land, or is in doubt, is so then too. */
static bool fails(struct copier *c)
{
    if (c->at.stage != COPIER_STRIPS)
        c->at.stage = COPIER_BEGINS;
    c->at.pass = 0;
    c->at.left_over = 0;
    c->at.in_pass = false;
    copier_save(c, false);
    return ends(c, RUN_FAILED);
}

static bool ends_by(struct copier *c, enum tw_err outcome)
{
    if (outcome == TW_INVALID || outcome == TW_NOT_FOUND ||
        outcome == TW_TOO_LARGE)
        return fails(c);
    copier_save(c, false);
    return ends(c, run_end_of(c->run, outcome));
}

static bool goes_on(struct copier *c, enum tw_err outcome)
{
    return outcome == TW_OK || ends_by(c, outcome);
}

/* ---- what may still land ---- */

/* The service's clock, once; then the time that was set. */
static bool wait_until(struct copier *c, int64_t now_ticks)
{
    if (c->at.not_before_ticks == 0) {
        int64_t until = now_ticks + LATE_WRITE_MS * TICKS_PER_MS;

        c->at.not_before_ticks = (until / TICKS_PER_S + 1) * TICKS_PER_S;
    }
    if (now_ticks >= c->at.not_before_ticks)
        return true;
    log_info(run_object(c->run),
        "waits: copies that were sent before may still land");
    copier_save(c, false);
    c->run->resumes_ticks = c->at.not_before_ticks;
    return ends(c, RUN_WAITING);
}

static bool settle_late(struct copier *c)
{
    int64_t now_ticks;
    enum tw_err outcome;

    if (c->at.late && c->late_writes) {
        outcome = copier_tables_now(c, &now_ticks, c->err);
        if (!goes_on(c, outcome) || !wait_until(c, now_ticks))
            return false;
    }
    c->at.late = false;
    c->at.not_before_ticks = 0;
    return true;
}

/* ---- the end ---- */

static bool strip(struct copier *c)
{
    return goes_on(c, copier_strip_run(c, c->err));
}

/* From here on a run that is resumed only strips. */
static bool strip_last(struct copier *c)
{
    char *checkpoint;
    enum tw_err outcome;

    if (!c->rules->strip)
        return true;
    c->at.stage = COPIER_STRIPS;
    checkpoint = copier_checkpoint_write(&c->at);
    outcome =
        c->run->host->phase(c->run, PHASE_STRIP, slice_of(checkpoint), c->err);
    mem_free(checkpoint);
    return goes_on(c, outcome) && strip(c);
}

static bool verify(struct copier *c)
{
    if (!c->rules->verify)
        return true;
    if (c->rules->move)
        return goes_on(c, copier_look_moved(c, c->err));
    copier_look_tell(c);
    return true;
}

static void warn_of_changed(const struct copier *c)
{
    if (c->findings.changed > 0)
        log_warn(run_object(c->run),
            "%lld copies have been changed by others since they were made, "
            "and were left so",
            (long long)c->findings.changed);
}

/* Copies of this job's whose source is gone or has other keys now. */
static bool judge_surplus(struct copier *c)
{
    long long surplus = (long long)c->findings.surplus;
    struct err why;

    if (surplus == 0)
        return true;
    err_fail(&why, TW_INVALID,
        "%lld copies are left over: their source is gone, or has other keys "
        "now, and %s",
        surplus,
        c->rules->on_conflict == CONFLICT_MERGE
            ? "what was merged is never taken away"
            : "they are not what this run has written");
    if (c->rules->verify) {
        *c->err = why;
        return fails(c);
    }
    log_warn(run_object(c->run), "%s", why.text);
    return true;
}

/* Nothing is left to do that can be done. */
static bool finish(struct copier *c)
{
    int64_t failed = atomic_load(&c->run->counts.failed);

    if (!verify(c))
        return false;
    warn_of_changed(c);
    if (failed > 0) {
        err_fail(c->err, TW_INVALID,
            "%lld entities cannot be %s; the first of them are listed, and all "
            "others are done",
            (long long)failed, c->rules->move ? "moved" : "copied");
        return fails(c);
    }
    return judge_surplus(c) && strip_last(c) && ends(c, RUN_SUCCEEDED);
}

static enum tw_err count_sources(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    int64_t *count = context;

    (void)err;
    for (size_t i = 0; i < page->count; i++)
        *count += copier_is_source(c, &page->entities[i], scratch);
    return TW_OK;
}

/* What cannot be moved at all is among them. */
static bool fail_to_move(struct copier *c)
{
    int64_t left = 0;
    const struct copier_reader reader = {count_sources, &left};

    if (!goes_on(c, copier_scan_sources(c, false, &reader, c->err)))
        return false;
    err_fail(c->err, TW_INVALID,
        "after %lld passes, each of which found something to move, the number "
        "of sources left is %lld: they are changed, or answers are lost, as "
        "fast as they are moved; or they are to have the keys of others that "
        "go first, and need more passes (max_passes)",
        (long long)c->rules->max_passes, (long long)left);
    return fails(c);
}

static bool fail_to_copy(struct copier *c)
{
    err_fail(c->err, TW_INVALID,
        "after %lld passes both sides do not agree yet, and the number of "
        "copies that the last one wrote or deleted is %lld: the sources are "
        "changed, or answers are lost, as fast as they are copied",
        (long long)c->rules->max_passes,
        (long long)(copier_changes(c) - c->changes_before));
    return fails(c);
}

static bool fail_by_passes(struct copier *c)
{
    return c->rules->move ? fail_to_move(c) : fail_to_copy(c);
}

/* A round is over: another one? */
static bool goes_round(struct copier *c)
{
    if (!c->wrote)
        return finish(c);
    c->at.pass++;
    if (c->at.pass > c->rules->max_passes)
        return fail_by_passes(c);
    copier_save(c, true);
    return true;
}

/* ---- a copy ---- */

/* Into empty tables everything is sent at once; else a look comes first. */
static bool copy_first(struct copier *c)
{
    bool begins = c->at.stage == COPIER_BEGINS;

    if (begins && copier_tables_empty(c))
        c->at.stage = COPIER_PASSES;
    if (c->at.stage == COPIER_PASSES) {
        c->run->passes += begins;
        c->at.pass = 1;
        copier_save(c, false);
        copier_forget(c);
        if (!goes_on(c, copier_pass_run(c, c->err)))
            return false;
    }
    c->at.stage = COPIER_LOOKS;
    copier_save(c, true);
    return true;
}

static bool mend(struct copier *c)
{
    enum tw_err outcome;

    c->run->passes++;
    copier_forget(c);
    c->stands = keyset_new();
    outcome = copier_pass_run(c, c->err);
    if (outcome == TW_OK)
        outcome = copier_sweep_mend(c, c->err);
    keyset_free(c->stands);
    c->stands = NULL;
    return goes_on(c, outcome);
}

/* True: once more. */
static bool look_and_mend(struct copier *c)
{
    if (!settle_late(c) || !goes_on(c, copier_look_run(c, c->err)))
        return false;
    if (tally_agrees(c->tally))
        return finish(c);
    return mend(c) && goes_round(c);
}

static void copy(struct copier *c)
{
    if (copy_first(c))
        while (look_and_mend(c))
            continue;
}

/* ---- a move ---- */

/* What an earlier pass may have left in two places. */
static bool sweep_first(struct copier *c)
{
    if (!settle_late(c))
        return false;
    if (!c->at.sweep)
        return true;
    if (!goes_on(c, copier_sweep_moved(c, c->err)))
        return false;
    c->at.sweep = false;
    c->at.anew = false;
    /* Once their source has gone from its new place, no sweep finds them. */
    c->at.left_over += c->findings.surplus;
    copier_save(c, false);
    return true;
}

/* True: once more. */
static bool move_once(struct copier *c)
{
    copier_forget(c);
    if (!sweep_first(c))
        return false;
    c->findings.surplus = c->at.left_over;
    if (!c->at.in_pass) {
        c->run->passes++;
        c->at.stage = COPIER_PASSES;
        copier_save(c, false);
    }
    return goes_on(c, copier_pass_run(c, c->err)) && goes_round(c);
}

static void move(struct copier *c)
{
    while (move_once(c))
        continue;
}

/* ---- the attempt ---- */

/* An attempt that did not let go may have sent anything, and a part of it may
 * still land. */
static void take_over(struct copier *c)
{
    if (!c->run->took_over)
        return;
    c->at.doubt = true;
    c->at.late = true;
    c->at.not_before_ticks = 0;
    c->at.sweep |= c->rules->move && c->keys_change;
    c->at.anew |= c->at.sweep;
    copier_save(c, false);
}

static bool set_up(struct copier *c)
{
    arena_init(&c->arena);
    buf_init(&c->findings.differences, COPIER_DIFFERENCES_MAX_BYTES);
    if (selection_bind(&c->rules->selector, &c->run->args, NULL, &c->arena,
            &c->selection, c->err) != TW_OK ||
        selection_check(&c->selection, c->err) != TW_OK ||
        copier_tables_find(c, c->err) != TW_OK)
        return ends(c, RUN_FAILED);
    c->keys_change |= c->selection.filter != NULL;
    copier_checkpoint_read(c->run->checkpoint, &c->arena, &c->at);
    /* A scan that is in no order goes on at no place: it starts over. */
    c->at.in_pass = c->at.in_pass && c->store->traits.ordered;
    take_over(c);
    return goes_on(c, copier_tables_ready(c, c->err));
}

static void tear_down(struct copier *c)
{
    tally_free(c->tally);
    buf_done(&c->findings.differences);
    arena_done(&c->arena);
}

enum run_end copier_run(const struct copier_rules *rules,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct copier c = {.rules = rules,
        .stores = stores,
        .run = run,
        .err = err,
        .store = stores->stores[rules->from.store],
        .end = RUN_SUCCEEDED};

    if (set_up(&c)) {
        /* One whose definition was changed since begins anew, phase or no. */
        if (slice_is(run->phase, PHASE_STRIP) && c.at.stage == COPIER_STRIPS)
            (void)strip(&c);
        else if (rules->move)
            move(&c);
        else
            copy(&c);
    }
    tear_down(&c);
    return c.end;
}

/* ---- may a run have these arguments? ---- */

static enum tw_err accept_keys(const struct copying_target *target,
    const struct run_args *args, struct arena *arena, struct err *err)
{
    struct slice key;
    bool alone;
    enum tw_err outcome = copier_tables_key(
        target->partition_key, args, "PartitionKey", arena, &alone, &key, err);

    if (outcome == TW_OK)
        outcome = copier_tables_key(
            target->row_key, args, "RowKey", arena, &alone, &key, err);
    return outcome;
}

enum tw_err copier_accept(const struct copier_rules *rules,
    const struct run_args *args, struct err *err)
{
    struct selection selection;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    outcome =
        selection_bind(&rules->selector, args, NULL, &arena, &selection, err);
    if (outcome == TW_OK)
        outcome = selection_check(&selection, err);
    for (size_t i = 0; i < rules->target_count && outcome == TW_OK; i++)
        outcome = accept_keys(&rules->targets[i], args, &arena, err);
    arena_done(&arena);
    return outcome;
}
