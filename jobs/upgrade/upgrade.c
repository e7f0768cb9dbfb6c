/* SPDX-License-Identifier: MIT */
/*
 * schema-upgrade: brings every entity of a table to the newest version of the
 * job's document of versions (rules.h).
 *
 * Meanwhile, releases of the application read and write entities in old and new
 * shapes. So no decision depends on a filter that the service evaluates: the
 * service never returns an entity that lacks a property which the filter
 * compares. And no entity is changed in two writes: one replace, with the ETag
 * that was read, carries out all steps that the entity lacks and sets the new
 * version. The value of a property and its recorded digest (record.h) show
 * whether the property was written since expand. Rounds (jobs/engine/rounds.h)
 * repeat until only the latest changes of writers are not converted.
 *
 * The entity itself holds its version. So an attempt may stop anywhere, and the
 * next attempt continues. Without the checkpoint it would only read entities
 * again. The rules A1 to A5 and U1 to U9 are in jobs/GUIDE.md.
 */
#include "jobs/upgrade/upgrade.h"

#include <inttypes.h>
#include <stdio.h>

#include "jobs/engine/batch_writer.h"
#include "jobs/engine/checkpoint_queue.h"
#include "jobs/engine/rounds.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/index_row.h"
#include "jobs/upgrade/applied.h"
#include "jobs/upgrade/checkpoint.h"
#include "jobs/upgrade/count.h"
#include "jobs/upgrade/explain.h"
#include "jobs/upgrade/rules.h"
#include "jobs/upgrade/step_rules.h"
#include "jobs/upgrade/steps.h"
#include "jobs/upgrade/verify.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Maximum number of batches of one run in flight. */
#define BATCHES_IN_FLIGHT 16

#define KEY_MAX 256

/* One attempt. */
struct upgrade_run {
    const struct upgrade *upgrade;
    struct upgrade_how how;
    struct store *store;
    struct run *run;
    struct err *err;

    struct arena arena; /* memory of selection and the checkpoint's keys */
    struct selection selection;
    struct upgrade_checkpoint at; /* current position and counts */
    struct applied applied;
    struct batch_writer *batch_writer;
    struct checkpoint_queue checkpoint_queue;
    struct arena scratch;   /* memory of one entity */
    enum tw_err noting;     /* TW_OK, or the first failure of note_steps() in
                               this round */
    char leftover[KEY_MAX]; /* one example of at.leftover, as text; or empty */
};

/* ---- the checkpoint ---- */

static void save(struct upgrade_run *u, bool progress)
{
    char *text = upgrade_checkpoint_write(&u->at);

    u->run->callbacks->save(u->run, slice_of(text), progress);
    mem_free(text);
}

/* Reset the checkpoint, so that the run reads everything again after `retry`.
 */
static enum run_end fail(struct upgrade_run *u)
{
    u->at = (struct upgrade_checkpoint){.in_round = false};
    save(u, false);
    return RUN_FAILED;
}

static enum run_end end_of(struct upgrade_run *u, enum tw_err outcome)
{
    if (outcome == TW_INVALID || outcome == TW_NOT_FOUND ||
        outcome == TW_TOO_LARGE)
        return fail(u);
    return run_end_of(u->run, outcome);
}

/*
 * Reset the counts, because a full round finds all failed and skipped entities
 * again.
 */
static void begin_counts(struct upgrade_run *u)
{
    struct upgrade_checkpoint *at = &u->at;

    *at = (struct upgrade_checkpoint){.rounds = at->rounds};
    u->leftover[0] = '\0';
    u->run->callbacks->forget_failed(u->run, 0);
    atomic_store(&u->run->counts.skipped, 0);
}

/* Restore the counts of the checkpoint, for a round that resumes. */
static void resume_counts(struct upgrade_run *u)
{
    u->run->callbacks->forget_failed(u->run, u->at.failed);
    atomic_store(&u->run->counts.skipped, u->at.skipped);
}

static void take_counts(struct upgrade_run *u)
{
    u->at.failed = atomic_load(&u->run->counts.failed);
    u->at.skipped = atomic_load(&u->run->counts.skipped);
}

/* Call when the operations of all entities up to last are added to the batch
 * writer. Queues a checkpoint; saves the newest checkpoint whose operations are
 * completed. */
static void reached(struct upgrade_run *u, const struct entity *last)
{
    u->at.in_round = true;
    u->at.partition_key = last->partition_key;
    u->at.row_key = last->row_key;
    take_counts(u);
    checkpoint_queue_save(
        &u->checkpoint_queue, u->run, batch_writer_low_water(u->batch_writer));
    checkpoint_queue_add(&u->checkpoint_queue,
        batch_writer_sequence(u->batch_writer),
        upgrade_checkpoint_write(&u->at));
}

/* ---- one entity ---- */

static void report_failed(struct upgrade_run *u, const struct entity *entity,
    const struct upgrade_result *result, const char *why)
{
    u->run->callbacks->failed(
        u->run, &(struct run_failure){.table = u->upgrade->table_ref.table,
                    .partition_key = entity->partition_key,
                    .row_key = entity->row_key,
                    .step = result->step,
                    .why = why});
}

static void note_leftover(struct upgrade_run *u, const struct entity *entity)
{
    int64_t version;
    const struct upgrade_step *step =
        upgrade_leftover(u->upgrade, entity, &version);
    struct buf key;

    if (!step)
        return;
    u->at.leftover++;
    if (u->leftover[0])
        return;
    buf_init(&key, sizeof(u->leftover) - 1);
    buf_add_format(&key, "%.*s (version %" PRId64 ") in ",
        SLICE_ARG(step->property), version);
    entity_add_keys(&key, entity->partition_key, entity->row_key);
    (void)snprintf(u->leftover, sizeof(u->leftover), "%s", buf_text(&key));
    buf_done(&key);
}

/* Does the job select entity? Never an index row, because it belongs to the
 * copy job that wrote it. */
static bool is_selected(
    const struct upgrade_run *u, const struct entity *entity)
{
    return selection_matches(&u->selection, entity) &&
           !is_index_row(entity, u->upgrade->table_ref.table);
}

/* Is the stored entity equal to the one that was sent? */
static bool is_same_entity(const struct entity *now, const struct entity *sent)
{
    return now->property_count == sent->property_count &&
           entity_has_all(now, sent);
}

/* Store the digests of the steps before the steps are carried out (rule U8).
 * After one failure every later call returns the same outcome, so that no
 * entity is written any more, and the round starts over. */
static enum tw_err note_steps(
    struct upgrade_run *u, const struct upgrade_result *result)
{
    struct err err;

    if (u->noting != TW_OK)
        return u->noting;
    u->noting = applied_note(&u->applied, result->first, &err);
    if (u->noting != TW_OK)
        *u->err = err;
    return u->noting;
}

/* Decide again from the current entity, because another write came first, or
 * the response was lost. */
static enum write_decision decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    struct upgrade_run *u = context;
    struct upgrade_result result;

    if (!now)
        return WRITE_NO_OP;
    if (is_same_entity(now, &sent->entity))
        return WRITE_IS_DONE;
    if (!is_selected(u, now))
        return WRITE_NO_OP;
    switch (upgrade_apply(&u->how, now, arena, &result, err)) {
    case UPGRADE_CHANGED:
        if (note_steps(u, &result) != TW_OK)
            return WRITE_NO_OP;
        *ret = (struct operation){
            .type = OPERATION_REPLACE, .entity = result.entity};
        return WRITE_SEND;
    case UPGRADE_FAILED:
        report_failed(u, now, &result, err->text);
        return WRITE_NO_OP;
    case UPGRADE_SKIPPED:
        return WRITE_SKIP;
    case UPGRADE_UNCHANGED:
    case UPGRADE_OUTSIDE:
        break;
    }
    return WRITE_NO_OP;
}

static enum tw_err send(
    struct upgrade_run *u, const struct upgrade_result *result, struct err *err)
{
    const struct batch_item item = {
        .store = u->store,
        .table = u->upgrade->table_ref.table,
        .operation = {.type = OPERATION_REPLACE, .entity = result->entity},
        .decide = decide,
        .context = u,
    };
    enum tw_err outcome = note_steps(u, result);

    if (outcome != TW_OK)
        return outcome;
    u->at.rounds.found++;
    return batch_writer_add(u->batch_writer, &item, err);
}

static enum tw_err upgrade_one(
    struct upgrade_run *u, const struct entity *entity, struct err *err)
{
    struct upgrade_result result;
    struct err why;

    u->at.selected++;
    switch (upgrade_apply(&u->how, entity, &u->scratch, &result, &why)) {
    case UPGRADE_CHANGED:
        return send(u, &result, err);
    case UPGRADE_UNCHANGED:
        note_leftover(u, entity);
        break;
    case UPGRADE_OUTSIDE:
        u->at.outside++;
        break;
    case UPGRADE_SKIPPED:
        atomic_fetch_add(&u->run->counts.skipped, 1);
        break;
    case UPGRADE_FAILED:
        report_failed(u, entity, &result, why.text);
        break;
    }
    return TW_OK;
}

/* ---- reading ---- */

/* Opens a scan of the entities written since since_ticks, or of all entities if
 * since_ticks is 0. If resumes is true, the scan begins after the keys in
 * u->at. */
static struct scan *open_scan(
    struct upgrade_run *u, int64_t since_ticks, bool resumes)
{
    struct scan_spec spec = {.store = u->store,
        .table = u->upgrade->table_ref.table,
        .run = u->run,
        .tells_share = since_ticks == 0 && u->at.rounds.number == 1};
    char since[TEXT_TIME_MAX];
    struct scan *scan;
    struct arena arena;

    arena_init(&arena);
    selection_spec_sure(&u->selection, &arena, &spec);
    /* The service allows 15 comparisons in a filter. So the Timestamp replaces
     * the job's own filter: is_selected() tests each entity. */
    if (since_ticks > 0)
        spec.filter = arena_format(&arena, "Timestamp ge datetime'%s'",
            text_from_ticks(since_ticks, since));
    if (resumes) {
        spec.resumed = true;
        spec.after_partition_key = u->at.partition_key;
        spec.after_row_key = u->at.row_key;
    }
    scan = scan_open(u->run->pool_client, &spec);
    arena_done(&arena);
    return scan;
}

static enum tw_err upgrade_page(
    struct upgrade_run *u, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&u->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        if (is_selected(u, &page->entities[i]))
            outcome = upgrade_one(u, &page->entities[i], err);
        arena_clear(&u->scratch);
    }
    if (outcome == TW_OK)
        outcome = u->noting;
    if (outcome == TW_OK)
        reached(u, &page->entities[page->count - 1]);
    return outcome;
}

static enum tw_err next_page(
    struct upgrade_run *u, struct scan *scan, const struct page **ret)
{
    *ret = NULL;
    if (run_stopping(u->run))
        return err_fail(u->err, TW_STOPPED, "stopped");
    return scan_next(scan, ret, u->err);
}

static enum tw_err read_all(struct upgrade_run *u)
{
    const struct rounds *rounds = &u->at.rounds;
    struct scan *scan =
        open_scan(u, rounds->full ? 0 : rounds->since_ticks, u->at.in_round);
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = next_page(u, scan, &page);
        if (outcome == TW_OK && page)
            outcome = upgrade_page(u, page, u->err);
    } while (outcome == TW_OK && page);
    if (outcome == TW_OK)
        outcome = batch_writer_drain(u->batch_writer, u->err);
    batch_writer_finish(u->batch_writer);
    if (outcome == TW_OK)
        outcome = u->noting;
    scan_close(scan);
    return outcome;
}

/* Carry out one round. Complete the batches in flight and save the progress,
 * whatever the outcome. If note_steps() failed, the round starts over, because
 * decide() may have left an entity unchanged that lies before the position in
 * the checkpoint. */
static enum tw_err walk(struct upgrade_run *u)
{
    enum tw_err outcome;

    u->noting = TW_OK;
    u->batch_writer = batch_writer_new(u->run, BATCHES_IN_FLIGHT);
    outcome = read_all(u);
    if (u->noting == TW_OK)
        checkpoint_queue_save(&u->checkpoint_queue, u->run,
            batch_writer_low_water(u->batch_writer));
    checkpoint_queue_drop(&u->checkpoint_queue);
    batch_writer_free(u->batch_writer);
    u->batch_writer = NULL;
    take_counts(u);
    u->at.in_round = false;
    if (u->noting != TW_OK)
        save(u, false);
    return outcome;
}

/* ---- entities behind ---- */

static void count_page(
    struct upgrade_run *u, const struct page *page, int64_t *behind)
{
    struct upgrade_result result;
    struct err why;

    atomic_fetch_add(&u->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count; i++) {
        const struct entity *entity = &page->entities[i];

        if (is_selected(u, entity) &&
            upgrade_apply(&u->how, entity, &u->scratch, &result, &why) ==
                UPGRADE_CHANGED)
            (*behind)++;
        arena_clear(&u->scratch);
    }
}

/* Count the entities that the application has written since the round began,
 * after the scan had passed their keys, and that the steps would change. */
static enum tw_err count_behind(struct upgrade_run *u, int64_t *ret)
{
    struct scan *scan;
    const struct page *page;
    enum tw_err outcome;

    *ret = 0;
    if (!rounds_counts_behind(&u->at.rounds))
        return TW_OK;
    scan = open_scan(u, rounds_margin(u->at.rounds.began_ticks), false);
    do {
        outcome = next_page(u, scan, &page);
        if (outcome == TW_OK && page)
            count_page(u, page, ret);
    } while (outcome == TW_OK && page);
    scan_close(scan);
    return outcome;
}

/* ---- the end ---- */

static void note_left(struct upgrade_run *u)
{
    const struct run_callbacks *callbacks = u->run->callbacks;
    char *text;

    if (u->at.selected == 0)
        callbacks->note(u->run, "nothing was selected");
    if (u->at.outside > 0) {
        text = mem_format("%lld entit%s at a version that `versions:` does not "
                          "contain; unchanged",
            (long long)u->at.outside, u->at.outside == 1 ? "y is" : "ies are");
        callbacks->note(u->run, text);
        mem_free(text);
    }
    if (u->at.leftover > 0) {
        text = mem_format("%lld entit%s a property that a step of an older "
                          "version removed or retyped%s%s; unchanged",
            (long long)u->at.leftover,
            u->at.leftover == 1 ? "y has" : "ies have",
            u->leftover[0] ? ", e.g. " : "", u->leftover);
        callbacks->note(u->run, text);
        mem_free(text);
    }
}

static enum run_end end_run(struct upgrade_run *u)
{
    int64_t failed = atomic_load(&u->run->counts.failed);

    note_left(u);
    if (failed == 0)
        return RUN_SUCCEEDED;
    err_fail(u->err, TW_INVALID,
        "%lld entit%s be brought to version %lld and %s unchanged; all "
        "others are done",
        (long long)failed, failed == 1 ? "y cannot" : "ies cannot",
        (long long)upgrade_rules_newest(u->upgrade),
        failed == 1 ? "is" : "are");
    return fail(u);
}

/* ---- the attempt ---- */

static enum tw_err begin_round(struct upgrade_run *u)
{
    int64_t before = u->at.rounds.number;
    enum tw_err outcome = rounds_begin(
        &u->at.rounds, u->run, u->store, u->upgrade->table_ref.table, u->err);

    if (outcome != TW_OK)
        return outcome;
    if (u->at.rounds.number == before) {
        /* The previous attempt may have changed an entity after its checkpoint.
         * So this round counts as a round that found a difference. */
        u->at.rounds.found++;
        if (!u->at.in_round && u->at.rounds.full)
            begin_counts(u);
        else
            resume_counts(u);
    } else {
        u->at.in_round = false;
        if (u->at.rounds.full)
            begin_counts(u);
    }
    save(u, false);
    return TW_OK;
}

static enum tw_err note_behind(struct upgrade_run *u, int64_t behind)
{
    if (u->how.phase != UPGRADE_EXPAND)
        return TW_OK;
    return applied_note_expand(&u->applied, behind, u->err);
}

static enum tw_err make_round(struct upgrade_run *u, enum rounds_next *ret)
{
    enum tw_err outcome = begin_round(u);
    int64_t behind;

    if (outcome == TW_OK)
        outcome = walk(u);
    if (outcome == TW_OK)
        outcome = count_behind(u, &behind);
    if (outcome == TW_OK)
        outcome = note_behind(u, behind);
    if (outcome == TW_OK)
        *ret = rounds_end(&u->at.rounds, u->run, behind);
    return outcome;
}

/* Check the digests before any entity is changed (rule U8). */
static enum tw_err check_applied(struct upgrade_run *u)
{
    enum tw_err outcome = applied_check(&u->applied, u->how.phase, u->err);

    if (outcome == TW_OK && u->at.rounds.number == 0)
        outcome = note_behind(u, -1);
    return outcome;
}

static enum tw_err set_up(struct upgrade_run *u)
{
    upgrade_checkpoint_read(u->run->checkpoint, &u->arena, &u->at);
    u->at.rounds.follow = u->upgrade->follow;
    /* In a store without key order a scan cannot resume. */
    u->at.in_round = u->at.in_round && u->store->capabilities.ordered;
    return selection_of_run(
        &u->upgrade->selector, &u->run->args, &u->arena, &u->selection, u->err);
}

static enum run_end attempt(struct upgrade_run *u)
{
    enum rounds_next next = ROUNDS_AGAIN;
    enum tw_err outcome = set_up(u);

    if (outcome != TW_OK)
        return RUN_FAILED;
    outcome = check_applied(u);
    while (outcome == TW_OK && next == ROUNDS_AGAIN)
        outcome = make_round(u, &next);
    if (outcome != TW_OK)
        return end_of(u, outcome);
    if (next == ROUNDS_DONE)
        return end_run(u);
    save(u, true);
    return RUN_WAITING;
}

static enum run_end schema_upgrade_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    const struct upgrade *upgrade = job->settings;
    size_t store = upgrade->table_ref.store;
    struct upgrade_run u = {.upgrade = upgrade,
        .how = {.upgrade = upgrade,
            .phase = upgrade_rules_phase(&run->args),
            .args = &run->args},
        .store = stores->stores[store],
        .run = run,
        .err = err};
    enum run_end end;

    arena_init(&u.arena);
    arena_init(&u.scratch);
    applied_init(&u.applied, upgrade, u.store, run);
    end = attempt(&u);
    arena_done(&u.scratch);
    arena_done(&u.arena);
    return end;
}

/* ---- the other functions of the kind ---- */

static void *schema_upgrade_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    return upgrade_rules_load(node, loader);
}

static void schema_upgrade_explain(const struct job *job, struct buf *to)
{
    upgrade_explain(job->settings, to);
}

static void schema_upgrade_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct upgrade *upgrade = job->settings;

    each(ctx, upgrade->table_ref.store, upgrade->table_ref.table, JOB_WRITES);
}

/* Refuse arguments with which the filter is invalid, because no run with them
 * can succeed. */
static enum tw_err schema_upgrade_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct upgrade *upgrade = job->settings;

    return selector_accept(&upgrade->selector, args, err);
}

static enum tw_err schema_upgrade_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err)
{
    const struct upgrade *upgrade = job->settings;

    return upgrade_verify(
        upgrade, stores->stores[upgrade->table_ref.store], run, ret, err);
}

static enum tw_err schema_upgrade_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    const struct upgrade *upgrade = job->settings;

    return upgrade_count(
        upgrade, stores->stores[upgrade->table_ref.store], run, ret, err);
}

static const char *const PHASES[] = {"all", "expand", "contract", NULL};
static const struct kind_arg ARGS[] = {{UPGRADE_PHASE_ARG, "all", PHASES}};

static bool schema_upgrade_follows(const struct job *job)
{
    const struct upgrade *upgrade = job->settings;

    return upgrade->follow;
}

static const struct settings_section *const SECTIONS[] = {
    &upgrade_job_section,
    &upgrade_version_section,
    &upgrade_entry_section,
    &upgrade_put_section,
    &upgrade_rename_section,
    &upgrade_retype_section,
    &upgrade_remove_section,
    NULL,
};

const struct kind schema_upgrade_kind = {
    .name = "schema-upgrade",
    .summary = "brings every entity of a table to the newest version",
    .destructive = true,
    .table_job = true,
    .args = ARGS,
    .arg_count = 1,
    .sections = SECTIONS,
    .load = schema_upgrade_load,
    .explain = schema_upgrade_explain,
    .link = upgrade_rules_link,
    .accept = schema_upgrade_accept,
    .tables = schema_upgrade_tables,
    .follows = schema_upgrade_follows,
    .verify = schema_upgrade_verify,
    .estimate = schema_upgrade_estimate,
    .run = schema_upgrade_run,
};
