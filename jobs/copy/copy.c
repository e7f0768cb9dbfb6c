/* SPDX-License-Identifier: MIT */
/*
 * copy: keeps copies of a table's entities, under other keys, in other tables
 * or stores, in sync with their sources while the application writes.
 *
 * An attempt makes rounds (jobs/engine/rounds.h) until the run ends, waits or
 * is stopped. A round has up to four steps (jobs/copy/work.h).
 */
#include "jobs/copy/copy.h"

#include <stdio.h>

#include "jobs/copy/backward.h"
#include "jobs/copy/checkpoint.h"
#include "jobs/copy/count.h"
#include "jobs/copy/forward.h"
#include "jobs/copy/rules.h"
#include "jobs/copy/verify.h"
#include "jobs/copy/work.h"
#include "jobs/engine/call.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/probe.h"
#include "jobs/engine/run.h"
#include "jobs/jobs.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* After this number of interrupted comparisons a round continues without a
 * comparison. */
#define RESTARTS_MAX 3

/* A run with `follow: true` makes a full round every hour. It makes a full
 * round earlier if the last comparison took at most CHEAP_COMPARISON_MS, and at
 * least COMPARISON_PART times that duration has passed since the last full
 * round began. */
#define CHEAP_COMPARISON_MS 2000
#define COMPARISON_PART 20

/* ---- the steps ---- */

/* The steps of a round, by mode. */
static const struct step {
    enum copy_mode mode;
    enum copy_step step;
    enum tw_err (*make)(struct copy_work *work);
    bool waits; /* before this step, wait until no earlier request can arrive
                   (rule A4) */
    enum copy_step next;
} STEPS[] = {
    {COPY_SEND_ALL, COPY_FORWARD, copy_forward, false, COPY_STEPS_END},
    {COPY_SEND_NEWER, COPY_FORWARD, copy_forward, false, COPY_STEPS_END},
    {COPY_COMPARE, COPY_FORWARD, copy_forward, false, COPY_OWN},
    {COPY_COMPARE, COPY_OWN, copy_own, true, COPY_REPAIR},
    {COPY_COMPARE, COPY_REPAIR, copy_forward, false, COPY_BACKWARD},
    {COPY_COMPARE, COPY_BACKWARD, copy_backward, true, COPY_STEPS_END},
    {COPY_EACH, COPY_FORWARD, copy_forward, false, COPY_BACKWARD},
    {COPY_EACH, COPY_BACKWARD, copy_backward, true, COPY_STEPS_END},
};

#define STEP_COUNT (sizeof(STEPS) / sizeof(STEPS[0]))

/* Returns the row of the present step, or NULL if the present mode has no such
 * step. */
static const struct step *step_of(const struct copy_work *work)
{
    for (size_t i = 0; i < STEP_COUNT; i++)
        if (STEPS[i].mode == work->at.mode && STEPS[i].step == work->at.step)
            return &STEPS[i];
    return NULL;
}

/* ---- before the first round ---- */

/* Fails if two stores of the configuration are one account, because a copy
 * could then overwrite its source (rule C5). */
static enum tw_err check_alias(
    struct copy_work *work, const struct copy_table *table)
{
    bool same;
    enum tw_err outcome =
        probe_same(work->run, work->from_store, table->store, &same, work->err);

    if (outcome != TW_OK || !same)
        return outcome;
    return err_fail(work->err, TW_INVALID,
        "stores %s and %s are one account, and its table %s is both source and "
        "destination: write the same store in `from:` and `to:`",
        work->from_store->name, table->store->name, table->table);
}

static enum tw_err prepare_tables(struct copy_work *work)
{
    enum tw_err outcome = copy_check_sources(work);

    for (size_t i = 0; i < work->table_count && outcome == TW_OK; i++)
        if (work->tables[i].may_be_index)
            outcome = check_alias(work, &work->tables[i]);
    for (size_t i = 0; i < work->table_count && outcome == TW_OK; i++)
        if (!work->tables[i].is_index)
            outcome = call_create_table(work->run->pool_client,
                work->tables[i].store, work->tables[i].table, work->err);
    return outcome;
}

static void begin_steps(struct copy_work *work, enum copy_mode mode)
{
    work->at = (struct copy_progress){.mode = mode,
        .restarts = work->at.restarts,
        .compared_ms = work->at.compared_ms};
    work->selected = 0;
    if (mode == COPY_SEND_NEWER)
        return;
    /* Forget the reports of earlier rounds, because this round reads every
     * source and reports all failed and edited copies again. */
    work->run->callbacks->forget_failed(work->run, 0);
    atomic_store(&work->run->counts.skipped, 0);
    work->edited = 0;
    work->first_edited[0] = '\0';
}

static void resume(struct copy_work *work)
{
    bool resumes = copy_checkpoint_read(
        work->run->checkpoint, &work->arena, &work->rounds, &work->at);

    if (work->run->previous_owner_crashed || (resumes && work->at.late))
        for (size_t i = 0; i < work->table_count; i++)
            late_note(&work->late, work->tables[i].store);
    if (!step_of(work))
        begin_steps(work, work->at.mode);
    if (resumes && work->rounds.under_way && work->at.mode == COPY_COMPARE) {
        /* The comparison was in the memory of the previous attempt, and is
         * lost. */
        work->at.restarts++;
        begin_steps(
            work, work->at.restarts < RESTARTS_MAX ? COPY_COMPARE : COPY_EACH);
        copy_save(work, false);
    }
}

/* ---- a round ---- */

static bool compares_early(const struct copy_work *work)
{
    int64_t part_ms = COMPARISON_PART * work->at.compared_ms;

    return work->rounds.stage == ROUNDS_FOLLOWING && work->at.compared_ms > 0 &&
           work->at.compared_ms <= CHEAP_COMPARISON_MS &&
           work->rounds.began_ticks - work->rounds.full_ticks >=
               part_ms * TICKS_PER_MS;
}

static enum tw_err choose_mode(struct copy_work *work, enum copy_mode *ret)
{
    struct rounds *rounds = &work->rounds;
    enum tw_err outcome = TW_OK;
    bool any;

    if (!rounds->full && compares_early(work)) {
        rounds->full = true;
        rounds->full_ticks = rounds->began_ticks;
    }
    *ret = rounds->full ? COPY_COMPARE : COPY_SEND_NEWER;
    if (rounds->number > 1)
        return TW_OK;
    outcome = copy_check_for_own(work, &any);
    if (outcome == TW_OK && !any)
        *ret = COPY_SEND_ALL;
    return outcome;
}

static enum tw_err begin_round(struct copy_work *work)
{
    bool begins = !work->rounds.under_way;
    enum copy_mode mode;
    enum tw_err outcome = rounds_begin(&work->rounds, work->run,
        work->from_store, work->rules->from.table, work->err);

    work->accepts = atomic_load(&work->run->accept_deletes);
    if (outcome != TW_OK || !begins)
        return outcome;
    outcome = choose_mode(work, &mode);
    if (outcome != TW_OK)
        return outcome;
    begin_steps(work, mode);
    repaired_clear(&work->repaired);
    copy_save(work, false);
    return TW_OK;
}

static enum tw_err make_step(struct copy_work *work, const struct step *step)
{
    enum tw_err outcome = TW_OK;

    if (step->waits)
        outcome = late_wait(&work->late, work->run, work->err);
    return outcome == TW_OK ? step->make(work) : outcome;
}

/* Makes the steps from work->at.step to the end of the round. */
static enum tw_err make_steps(struct copy_work *work)
{
    const struct step *step = step_of(work);
    enum tw_err outcome = make_step(work, step);

    while (outcome == TW_OK && step->next != COPY_STEPS_END &&
           !(step->step == COPY_OWN && difference_is_none(work->difference))) {
        work->at.step = step->next;
        if (work->at.mode == COPY_EACH)
            copy_save(work, true);
        step = step_of(work);
        outcome = make_step(work, step);
    }
    return outcome;
}

/* Makes a round with a comparison; compares again if a delete had an unknown
 * outcome. */
static enum tw_err compare(struct copy_work *work)
{
    int64_t began_ms = platform_boot_ms();
    enum tw_err outcome;

    do {
        work->difference = difference_new();
        outcome = make_steps(work);
        difference_free(work->difference);
        work->difference = NULL;
        if (outcome != TW_OK || !work->late.any)
            break;
        begin_steps(work, COPY_COMPARE);
    } while (true);
    work->at.compared_ms = platform_boot_ms() - began_ms;
    return outcome;
}

/* Makes a round without a comparison; reads the own copies again if a delete
 * had an unknown outcome. */
static enum tw_err send_each(struct copy_work *work)
{
    enum tw_err outcome;

    do {
        outcome = make_steps(work);
        work->at.checked = false;
        work->at.own = work->at.deletes = work->at.former = 0;
    } while (outcome == TW_OK && work->late.any);
    return outcome;
}

static enum tw_err make_round(struct copy_work *work)
{
    switch (work->at.mode) {
    case COPY_COMPARE:
        return compare(work);
    case COPY_EACH:
        return send_each(work);
    case COPY_SEND_ALL:
    case COPY_SEND_NEWER:
        break;
    }
    return make_steps(work);
}

/* Ends the acceptance of deletes (rule C6). An operator accepts only the
 * deletes that are due at that time. So the acceptance ends with the first
 * complete round that reads the own copies. Call before the checkpoint of the
 * next round is saved: the write that stores this checkpoint in the ledger also
 * removes the acceptance. */
static void end_acceptance(struct copy_work *work)
{
    bool read_own = work->at.mode == COPY_COMPARE || work->at.mode == COPY_EACH;

    if (work->accepts && read_own)
        atomic_store(&work->run->accept_deletes, false);
}

static enum tw_err end_round(struct copy_work *work, enum rounds_next *ret)
{
    int64_t behind = 0;
    enum tw_err outcome = TW_OK;

    if (rounds_counts_behind(&work->rounds))
        outcome = copy_count_behind(work, &behind);
    if (outcome != TW_OK)
        return outcome;
    *ret = rounds_end(&work->rounds, work->run, behind);
    work->at.restarts = 0;
    end_acceptance(work);
    copy_save(work, true);
    return TW_OK;
}

/* ---- the end ---- */

static void note_rest(struct copy_work *work)
{
    char sentence[512];

    if (work->selected == 0 && work->at.mode == COPY_COMPARE)
        work->run->callbacks->note(work->run, "nothing was selected");
    if (work->edited == 0)
        return;
    (void)snprintf(sentence, sizeof(sentence),
        "%lld edited %s %s unchanged (e.g. %s)", (long long)work->edited,
        work->edited == 1 ? "copy" : "copies", work->edited == 1 ? "is" : "are",
        work->first_edited);
    work->run->callbacks->note(work->run, sentence);
}

/* Resets the checkpoint, so that the run reads everything again after `retry`.
 */
static enum run_end fail(struct copy_work *work)
{
    work->rounds = (struct rounds){.follow = work->rules->follow};
    work->at = (struct copy_progress){.mode = COPY_SEND_ALL};
    copy_save(work, false);
    return RUN_FAILED;
}

static enum run_end end_run(struct copy_work *work)
{
    int64_t failed = atomic_load(&work->run->counts.failed);

    note_rest(work);
    if (failed > 0) {
        err_fail(work->err, TW_INVALID,
            failed == 1
                ? "%lld entity could not be copied; all others were copied"
                : "%lld entities could not be copied; all others were copied",
            (long long)failed);
        return fail(work);
    }
    work->run->closes_job = work->rounds.stage == ROUNDS_FINISHING;
    return RUN_SUCCEEDED;
}

static enum run_end end_of(struct copy_work *work, enum tw_err outcome)
{
    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID ||
        outcome == TW_TOO_LARGE)
        return fail(work);
    copy_save_late(work);
    return run_end_of(work->run, outcome);
}

static enum run_end attempt(struct copy_work *work)
{
    enum rounds_next next = ROUNDS_AGAIN;
    enum tw_err outcome;

    resume(work);
    outcome = prepare_tables(work);
    while (outcome == TW_OK && next == ROUNDS_AGAIN) {
        outcome = begin_round(work);
        if (outcome == TW_OK)
            outcome = make_round(work);
        if (outcome == TW_OK)
            outcome = end_round(work, &next);
    }
    if (outcome != TW_OK)
        return end_of(work, outcome);
    return next == ROUNDS_WAIT ? RUN_WAITING : end_run(work);
}

static enum run_end copy_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct copy_work *work = mem_alloc(sizeof(*work));
    enum tw_err outcome = copy_work_init(work, job, stores, run, err);
    enum run_end end = outcome == TW_OK ? attempt(work) : end_of(work, outcome);

    copy_work_done(work);
    mem_free(work);
    return end;
}

/* ---- the kind ---- */

static void *copy_load(const struct yaml_node *node, struct job_loader *loader)
{
    return copy_rules_load(node, loader);
}

static bool copies_to(
    const struct copy_rules *rules, const struct table_ref *table_ref)
{
    for (size_t i = 0; i < rules->target_count; i++)
        if (table_ref_same(&rules->targets[i].table_ref, table_ref))
            return true;
    return false;
}

/* Returns the first table, other than the source table, to which `rules` copies
 * and from which `back` copies to the source table; NULL: none. */
static const struct table_ref *copied_back(
    const struct copy_rules *rules, const struct copy_rules *back)
{
    for (size_t i = 0; i < rules->target_count; i++) {
        const struct copying_target *target = &rules->targets[i];

        if (!copy_rules_is_index(rules, target) &&
            table_ref_same(&target->table_ref, &back->from) &&
            copies_to(back, &rules->from))
            return &target->table_ref;
    }
    return NULL;
}

/* Warns if another job copies in the opposite direction. The sources of the
 * other job are foreign entities at this job's destination. With `on_conflict:
 * replace` this job may overwrite such a source with an older copy of the same
 * entity. */
static void copy_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems)
{
    const struct copy_rules *rules = job->settings;

    (void)arena;
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *other = &jobs->list[i];
        const struct table_ref *to = other->kind == &copy_kind
                                         ? copied_back(rules, other->settings)
                                         : NULL;

        if (to && rules->on_conflict == COPY_CONFLICT_REPLACE)
            problems_warn(problems, job->mark,
                "job %s copies %s to %s%s with `on_conflict: replace`, and job "
                "%s copies the other way: an entity that the application "
                "writes to this destination is overwritten with an older copy "
                "of the same entity. Run job %s only while the application "
                "does not write to the destination",
                job->name, rules->from.table, to->table,
                to->store == rules->from.store ? "" : " in another store",
                other->name, job->name);
    }
}

static void copy_explain(const struct job *job, struct buf *to)
{
    copy_rules_explain(job->settings, to);
}

static bool copy_follows(const struct job *job)
{
    const struct copy_rules *rules = job->settings;

    return rules->follow;
}

static void copy_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct copy_rules *rules = job->settings;

    each(ctx, rules->from.store, rules->from.table, JOB_READS);
    for (size_t i = 0; i < rules->target_count; i++) {
        const struct table_ref *table_ref = &rules->targets[i].table_ref;

        each(ctx, table_ref->store, table_ref->table, JOB_MAKES);
    }
}

static enum tw_err copy_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct copy_rules *rules = job->settings;

    return selector_accept(&rules->selector, args, err);
}

static const struct settings_section *const SECTIONS[] = {
    &copy_job_section,
    &copy_from_section,
    &copying_target_section,
    &copying_properties_section,
    &copying_set_section,
    NULL,
};

const struct kind copy_kind = {
    .name = "copy",
    .summary = "keeps copies of entities in agreement with their sources",
    .destructive = true,
    .table_job = true,
    .sections = SECTIONS,
    .load = copy_load,
    .link = copy_link,
    .accept = copy_accept,
    .explain = copy_explain,
    .tables = copy_tables,
    .follows = copy_follows,
    .verify = copy_verify,
    .estimate = copy_estimate,
    .run = copy_run,
};
