/* SPDX-License-Identifier: MIT */
/*
 * cascade-delete: deletes a parent and everything under it, and no other
 * entity.
 *
 * The tombstone is the lock. Before the run deletes anything, it merges the
 * tombstone, with the run's own name, into the parent. So writers add no more
 * children, and no other run works on the same parent. Then:
 *
 *   hold the parent    at the beginning of every pass, read the parent and
 *                      check that it still carries this run's tombstone
 *   walk               delete what is under the parent, leaves first (entities
 *                      whose rule has no child rules)
 *   settle passes      walk again some time after the tombstone, for children
 *                      that were added late. Entities with child rules are
 *                      deleted only in the last settle pass, each only if
 *                      nothing is found under it
 *   delete the parent  after a last settle pass that found nothing
 *
 * Every attempt decides by the entities that it reads, and every change carries
 * the ETag that was read. So an attempt may stop anywhere, and the next attempt
 * reads the current state and continues.
 */
#include "jobs/cascade/cascade.h"

#include <string.h>

#include "jobs/cascade/attempt.h"
#include "jobs/cascade/count.h"
#include "jobs/cascade/order.h"
#include "jobs/cascade/outlive.h"
#include "jobs/cascade/parent.h"
#include "jobs/cascade/precheck.h"
#include "jobs/cascade/verify.h"
#include "jobs/engine/archive.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/template.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* Maximum number of batches of one run in flight. */
#define BATCHES_IN_FLIGHT 16

/* The last settle pass is repeated while it finds entities. The run fails after
 * this number of such passes in a row that read everything and delete nothing.
 * Late children would not prevent every delete, so the entities must be under
 * one another in a cycle. */
#define STUCK_PASSES 3

/* The phase that only deletes the parent. An application may reuse the parent's
 * keys as soon as the parent is deleted, so no attempt may walk again. */
#define PHASE_PARENT "parent"

/* The share, in thousandths, of a run whose first pass has ended. Only children
 * that were added late, and the parent, remain to be deleted. */
#define SHARE_OF_PASS 999

/* Context of the deletes of one page: what decide_leaf() needs if an entity of
 * the page has changed. */
struct held {
    struct cascade_attempt *c;
    struct match *match;
    uint64_t sequence; /* sequence number of the last operation that may use
                          this context */
    struct held *next;
};

/* ---- settle ---- */

/* Returns when settle pass `index` is due. If the tombstone's time was cut to
 * whole seconds, round up to the next second, so that the full settle time has
 * passed. */
static int64_t due_ticks(const struct cascade_attempt *c, size_t index)
{
    int64_t settle_ticks = c->cascade->settle_ms[index] * TICKS_PER_MS;
    int64_t due = c->state.tombstone_ticks + settle_ticks;

    if (settle_ticks > 0 && c->state.tombstone_ticks % TICKS_PER_S == 0)
        due = (due / TICKS_PER_S + 1) * TICKS_PER_S;
    return due;
}

static size_t settles_due_at(const struct cascade_attempt *c, int64_t ticks)
{
    size_t due = 0;

    while (due < c->cascade->settle_count && due_ticks(c, due) <= ticks)
        due++;
    return due;
}

static bool is_last_settle_at(const struct cascade_attempt *c, int64_t ticks)
{
    return settles_due_at(c, ticks) == c->cascade->settle_count &&
           ticks >= c->state.not_before_ticks;
}

/* Returns the number of settle passes that were due when this pass began. This
 * one pass counts as all of them. */
static size_t settles_due(const struct cascade_attempt *c)
{
    return settles_due_at(c, c->state.began_ticks);
}

/* Returns when the next settle pass may begin. */
static int64_t next_settle_ticks(const struct cascade_attempt *c)
{
    size_t due = settles_due(c);

    return due < c->cascade->settle_count ? due_ticks(c, due)
                                          : c->state.not_before_ticks;
}

/* Call between two passes. If the next settle pass is not due yet, end the
 * attempt as RUN_WAITING, so that the worker thread can do other work until the
 * pass is due. After a settle pass that found something, another pass follows
 * at once. */
static enum run_end wait_for_settle(struct cascade_attempt *c)
{
    int64_t at_ticks = next_settle_ticks(c);

    if (c->parent_lost || (c->found && settles_due(c) > 0) ||
        at_ticks <= cascade_service_ticks(c))
        return RUN_CONTINUES;
    cascade_save(c, NULL, true);
    c->run->waits_for = RUN_WAITS_FOR_SETTLE;
    run_wait(
        c->run, cascade_parent_store(c), cascade_service_ticks(c), at_ticks);
    return RUN_WAITING;
}

/* ---- a pass ---- */

static void release_held(struct cascade_attempt *c, uint64_t low_water)
{
    while (c->held && c->held->sequence <= low_water) {
        struct held *held = c->held;

        c->held = held->next;
        if (!c->held)
            c->held_end = &c->held;
        match_release(held->match);
        mem_free(held);
    }
}

/* Returns a context with a reference to match. release_held() releases both
 * when all operations up to held->sequence are completed. The caller sets
 * held->sequence after it has added the operations; until then it is
 * UINT64_MAX. */
static struct held *hold_match(struct cascade_attempt *c, struct match *match)
{
    struct held *held = mem_alloc(sizeof(*held));

    match_hold(match);
    held->c = c;
    held->match = match;
    held->sequence = UINT64_MAX;
    *c->held_end = held;
    c->held_end = &held->next;
    return held;
}

/* ---- the share ---- */

/* Set run->share from two numbers: the share of the walk that has been read,
 * and the part of its operations that are completed. run->share never falls. */
static void set_share(struct cascade_attempt *c)
{
    const struct cascade_share *share = &c->share;
    uint64_t done =
        share->completed < share->sequence ? share->completed : share->sequence;
    int now;

    if (share->noted < share->begun || share->sequence == 0)
        return;
    now = share->begun + (int)((uint64_t)(share->noted - share->begun) * done /
                               share->sequence);
    if (now > c->run->share)
        c->run->share = now;
}

static void count_completed(
    void *context, const struct batch_writer_completed *how)
{
    const struct held *held = context;

    (void)how;
    held->c->share.completed++;
    set_share(held->c);
}

/* ---- deletes ---- */

/* Save the newest path before which everything is deleted. Queue `path`, which
 * is saved once the deletes before it are completed. */
static void reached(void *context, const struct walk_path *path)
{
    struct cascade_attempt *c = context;
    uint64_t low_water = batch_writer_low_water(c->batch_writer);

    checkpoint_queue_save(&c->checkpoint_queue, c->run, low_water);
    release_held(c, low_water);
    checkpoint_queue_add(&c->checkpoint_queue,
        batch_writer_sequence(c->batch_writer),
        cascade_checkpoint_write(&c->state, path));
    c->share.noted = c->share.walked;
    c->share.sequence = batch_writer_sequence(c->batch_writer);
    set_share(c);
}

/* Archive the entities of a page and sync to disk. Call before the first delete
 * of the page is sent. */
static enum tw_err archive_page(struct cascade_attempt *c, const char *table,
    const struct entity *const *entities, size_t count, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (!c->archive)
        return TW_OK;
    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        outcome = archive_add(c->archive, table, entities[i], err);
    if (outcome == TW_OK)
        outcome = archive_sync(c->archive, err);
    return cascade_archive_outcome(c, outcome);
}

/*
 * Decide about a leaf that changed since it was read. Delete the leaf if it
 * still matches its rule. If a rule with children may now find the leaf, skip
 * it, because the next settle pass decides. The current state is archived too;
 * if that fails, the leaf is not deleted, and the next settle pass reports the
 * failure.
 */
static enum write_decision decide_leaf(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    const struct held *held = context;
    const struct rule *rule = match_rule(held->match);

    (void)arena;
    if (!match_has(held->match, now) ||
        cascade_is_contested(held->c->cascade, rule))
        return WRITE_SKIP;
    if (archive_page(held->c, rule->table, &now, 1, err) != TW_OK)
        return WRITE_SKIP;
    *ret = *sent;
    ret->entity.etag = now->etag;
    return WRITE_SEND;
}

/* Decide about an entity with child rules that changed since it was read. Skip
 * it, because its child rules may find other children now; the next settle pass
 * visits the entity again. */
static enum write_decision decide_emptied(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    (void)context;
    (void)sent;
    (void)now;
    (void)arena;
    (void)ret;
    (void)err;
    return WRITE_SKIP;
}

/* Delete entities of one page, all found by one rule. If an entity changed
 * since it was read, decide_leaf() decides about it or, if the rule has child
 * rules, decide_emptied(). TW_CONFLICT: c->parent_lost is set. */
static enum tw_err delete_page(void *context, struct match *match,
    const struct entity *const *entities, size_t count, struct err *err)
{
    struct cascade_attempt *c = context;
    const struct rule *rule = match_rule(match);
    struct held *held = hold_match(c, match);
    struct batch_item item = {
        .store = c->stores->stores[rule->store],
        .table = rule->table,
        .operation = {.type = OPERATION_DELETE},
        .decide = rule->child_count == 0 ? decide_leaf : decide_emptied,
        .context = held,
        .completed = count_completed,
    };
    enum tw_err outcome = TW_CONFLICT;

    cascade_watch_parent(c);
    if (!c->parent_lost)
        outcome = archive_page(c, rule->table, entities, count, err);
    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        item.operation.entity =
            (struct entity){.partition_key = entities[i]->partition_key,
                .row_key = entities[i]->row_key,
                .etag = entities[i]->etag};
        outcome = batch_writer_add(c->batch_writer, &item, err);
    }
    held->sequence = batch_writer_sequence(c->batch_writer);
    return outcome;
}

/* Delete entities with child rules only in the last settle pass, because
 * writers may still add children before it. */
static enum tw_err delete_emptied(void *context, struct match *match,
    const struct entity *const *entities, size_t count, struct err *err)
{
    const struct cascade_attempt *c = context;

    if (!c->last_settle)
        return TW_OK;
    return delete_page(context, match, entities, count, err);
}

static void note_left(
    void *context, struct match *match, const struct entity *entity)
{
    struct cascade_attempt *c = context;
    struct buf keys;

    if (c->left[0])
        return;
    buf_init(&keys, sizeof(c->left) - 1);
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    buf_add_format(&keys, " of %s", match_rule(match)->table);
    memcpy(c->left, buf_text(&keys), keys.len + 1);
    buf_done(&keys);
}

/* Complete the operations in flight and save the progress, whatever the result
 * of the pass. */
static void end_pass(struct cascade_attempt *c)
{
    batch_writer_finish(c->batch_writer);
    checkpoint_queue_save(
        &c->checkpoint_queue, c->run, batch_writer_low_water(c->batch_writer));
    checkpoint_queue_drop(&c->checkpoint_queue);
    release_held(c, UINT64_MAX);
    batch_writer_free(c->batch_writer);
    c->batch_writer = NULL;
    c->from->depth = 0;
}

static enum run_end fail_for_entities(struct cascade_attempt *c, int64_t failed)
{
    err_fail(c->err, TW_INVALID,
        "%lld %s cannot be deleted (the first are listed); the parent stays, "
        "with its tombstone",
        (long long)failed, failed == 1 ? "entity" : "entities");
    return RUN_FAILED;
}

/* Fail the run after STUCK_PASSES passes in a row that were stuck. stuck: this
 * pass deleted nothing, because every remaining entity has another entity under
 * it. */
static enum run_end check_circle(struct cascade_attempt *c, bool stuck)
{
    c->stuck = stuck ? c->stuck + 1 : 0;
    if (c->stuck < STUCK_PASSES)
        return RUN_CONTINUES;
    err_fail(c->err, TW_INVALID,
        "by the job's rules the remaining entities form a cycle, each under "
        "another, so none can be deleted first (e.g. %s). The parent stays, "
        "with its tombstone: delete one entity of the cycle yourself, then "
        "retry",
        c->left);
    return RUN_FAILED;
}

/*
 * May the page that was read ahead be older than the tombstone? Such a page may
 * lack children that were added in between, so another settle pass must follow.
 */
static bool is_too_early(const struct cascade_attempt *c)
{
    return c->ahead_ticks == 0 || !c->parent_is_ours;
}

/* Does this walk begin a pass? If not, it resumes a pass that an earlier
 * attempt began. */
static bool is_whole(const struct cascade_attempt *c)
{
    return c->from->depth == 0;
}

/*
 * Does this pass, which is about to walk, set the share of the run? Only the
 * first pass does, if it deletes everything that it finds. Before the last
 * settle pass the entities with child rules stay, and it is not known how long
 * their deletes will take.
 */
static bool tells_share(const struct cascade_attempt *c)
{
    if (c->run->rounds + (is_whole(c) ? 1 : 0) != 1)
        return false;
    for (size_t i = 0; i < c->usable.rule_count && !c->last_settle; i++)
        if (c->usable.rules[i].child_count > 0)
            return false;
    return true;
}

/*
 * Walk once and delete what the walk finds. Before the last settle pass,
 * entities with child rules are not deleted, and c->found does not become true
 * because of them.
 */
static enum run_end walk_and_delete(struct cascade_attempt *c)
{
    const struct walk_visitor visitor = {
        .leaves = delete_page,
        .emptied = delete_emptied,
        .met = note_left,
        .reached = reached,
        .context = c,
    };
    struct walk_plan plan = cascade_walk_plan(c, c->archive != NULL);
    struct walk_result result = {.failed = 0};
    bool whole = is_whole(c), stuck;
    int64_t failed, deleted;
    enum tw_err outcome;
    enum run_end end;

    plan.from = c->from;
    plan.share = tells_share(c) ? &c->share.walked : NULL;
    c->share = (struct cascade_share){.walked = -1,
        .noted = -1,
        .begun = c->run->share > 0 ? c->run->share : 0};
    plan.too_early = c->ahead && is_too_early(c);
    plan.first = c->ahead;
    c->ahead = NULL;
    c->left[0] = '\0';
    c->parent_lost = false;
    c->checked_ms = platform_boot_ms();
    if (whole)
        c->run->rounds++;
    c->batch_writer = batch_writer_new(c->run, BATCHES_IN_FLIGHT);
    outcome = walk_run(&plan, &visitor, &result, c->err);
    if (outcome == TW_OK)
        outcome = batch_writer_drain(c->batch_writer, c->err);
    failed = result.failed + batch_writer_failed(c->batch_writer);
    deleted = batch_writer_done(c->batch_writer);
    stuck = c->last_settle && whole && result.found && !plan.too_early &&
            batch_writer_sequence(c->batch_writer) == 0;
    end_pass(c);
    c->found = c->parent_lost || (c->last_settle ? result.found : deleted > 0);
    if (c->parent_lost)
        return RUN_CONTINUES; /* the next pass holds the parent first */
    end = cascade_end_of(c, outcome);
    if (end == RUN_CONTINUES && plan.share && c->run->share >= 0)
        c->run->share = SHARE_OF_PASS;
    if (end == RUN_CONTINUES && failed > 0)
        end = fail_for_entities(c, failed);
    if (end == RUN_CONTINUES)
        end = check_circle(c, stuck);
    return end;
}

/*
 * May the first page of a pass be requested before the parent is read?
 *
 * - The job has an archive: no. Whole entities are too large to be read in
 *   vain.
 * - The tombstone is written: yes, if the last settle pass is due already.
 * - The tombstone is not written: yes, if the first rule has no child rules.
 *   What such a rule finds is deleted with the ETag that was read. But an
 *   entity that has children could be moved away from the parent after it was
 *   read, and its children would be deleted nevertheless.
 */
static bool may_read_ahead(const struct cascade_attempt *c)
{
    if (c->from->depth > 0 || c->archive || c->usable.rule_count == 0)
        return false;
    if (c->state.tombstone_ticks == 0)
        return c->usable.rules[0].child_count == 0;
    return c->read_ms != 0 && is_last_settle_at(c, cascade_service_ticks(c));
}

/* Set the beginning of the pass back to ticks, because the pass uses data that
 * was read then. If ticks is 0 (unknown), the beginning stays. */
static void set_began(struct cascade_attempt *c, int64_t ticks)
{
    if (ticks == 0 || ticks >= c->state.began_ticks)
        return;
    c->read_ms -= (c->state.began_ticks - ticks) / TICKS_PER_MS;
    c->state.began_ticks = ticks;
}

/*
 * Makes one pass: holds the parent, then walks and deletes. A pass that resumes
 * an earlier attempt's pass keeps the time at which that pass began, because
 * part of its data was read then.
 */
static enum run_end make_pass(struct cascade_attempt *c)
{
    int64_t began_ticks = c->from->depth > 0 ? c->state.began_ticks : 0;
    enum run_end end;

    if (may_read_ahead(c)) {
        struct walk_plan plan = cascade_walk_plan(c, false);

        c->ahead_ticks =
            c->state.tombstone_ticks > 0 ? cascade_service_ticks(c) : 0;
        plan.share = tells_share(c) ? &c->share.walked : NULL;
        c->ahead = walk_read_ahead(&plan);
    }
    end = cascade_hold_parent(c);
    if (end != RUN_CONTINUES) {
        scan_close(c->ahead);
        c->ahead = NULL;
        return end;
    }
    set_began(c, began_ticks);
    if (c->ahead)
        set_began(c, c->ahead_ticks);
    c->last_settle = is_last_settle_at(c, c->state.began_ticks);
    if (c->from->depth == 0) {
        /* Forget the failed entities of earlier passes, because this pass finds
         * them again. */
        c->run->callbacks->forget_failed(c->run, 0);
        cascade_save(c, NULL, false);
    }
    return walk_and_delete(c);
}

/* ---- the attempt ---- */

static enum tw_err render_key(struct cascade_attempt *c,
    const struct template *template, const char *which, struct slice *ret)
{
    enum tw_err outcome = template_render_key(
        template, &c->run->args, which, &c->arena, ret, c->err);

    if (outcome != TW_OK)
        err_prefix(c->err, "parent");
    return outcome;
}

static enum tw_err render_keys(struct cascade_attempt *c)
{
    enum tw_err outcome = render_key(
        c, c->cascade->partition_key, "PartitionKey", &c->partition_key);

    if (outcome == TW_OK)
        outcome = render_key(c, c->cascade->row_key, "RowKey", &c->row_key);
    return outcome;
}

static enum run_end open_archive(struct cascade_attempt *c)
{
    const char *folder = c->cascade->archive;
    struct archive_run run = {.job = c->run->job,
        .id = c->run->id,
        .epoch = c->run->epoch,
        .requested_ticks = c->run->requested_ticks};
    char *path = folder[0] == '/'
                     ? mem_text(folder, strlen(folder))
                     : mem_format("%s/%s", c->run->archive_folder, folder);
    enum tw_err outcome = archive_open(path, &run, &c->archive, c->err);

    mem_free(path);
    return run_end_of(c->run, cascade_archive_outcome(c, outcome));
}

static enum run_end set_up(struct cascade_attempt *c)
{
    c->owner = mem_format("%s/%s", c->run->job, c->run->id);
    c->from = walk_path_new();
    c->held_end = &c->held;
    arena_init(&c->arena);
    page_init(&c->parent);
    cascade_checkpoint_read(c->run->checkpoint, &c->state, c->from);
    c->state.crashed = c->state.crashed || c->run->previous_owner_crashed;
    c->tombstone_sent = c->state.archived;
    c->delete_sent = slice_is(c->run->phase, PHASE_PARENT);
    c->run->parent_found = c->state.parent_found;
    cascade_choose_rules(c);
    if (render_keys(c) != TW_OK)
        return RUN_FAILED;
    return c->cascade->archive ? open_archive(c) : RUN_CONTINUES;
}

static void tear_down(struct cascade_attempt *c)
{
    archive_close(c->archive);
    page_done(&c->parent);
    arena_done(&c->arena);
    mem_free(c->from);
    mem_free(c->owner);
}

static enum run_end cascade_delete_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct cascade_attempt c = {
        .cascade = job->settings, .stores = stores, .run = run, .err = err};
    enum run_end end = set_up(&c);

    if (end == RUN_CONTINUES && !slice_is(run->phase, PHASE_PARENT)) {
        end = cascade_end_of(&c, cascade_check_stores(&c, true));
        if (end == RUN_CONTINUES)
            end = make_pass(&c);
        while (end == RUN_CONTINUES && (c.found || !c.last_settle)) {
            end = wait_for_settle(&c);
            if (end == RUN_CONTINUES)
                end = make_pass(&c);
        }
        if (end == RUN_CONTINUES)
            end = cascade_enter_phase(&c, PHASE_PARENT);
    }
    if (end == RUN_CONTINUES)
        end = cascade_delete_parent(&c);
    tear_down(&c);
    return end;
}

/* ---- the other functions of the kind ---- */

static void *cascade_delete_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    return cascade_rules_load(node, loader);
}

static void cascade_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems)
{
    cascade_order_check(job, jobs, arena, problems);
    cascade_outlive_check(job, jobs, problems);
}

static void cascade_delete_explain(const struct job *job, struct buf *to)
{
    cascade_rules_explain(job->settings, to);
}

static void each_table(const struct rule *rules, size_t count,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        each(ctx, rules[i].store, rules[i].table,
            rules[i].optional ? JOB_MAKES : JOB_WRITES);
        each_table(rules[i].children, rules[i].child_count, each, ctx);
    }
}

static void cascade_delete_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct cascade *cascade = job->settings;

    each(ctx, cascade->store, cascade->table, JOB_WRITES);
    each_table(cascade->rules, cascade->rule_count, each, ctx);
}

static const char *cascade_delete_archive(const struct job *job)
{
    const struct cascade *cascade = job->settings;

    return cascade->archive;
}

/* Refuse arguments that render an invalid key or filter, because no run with
 * them can succeed. */
static enum tw_err cascade_delete_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct cascade *cascade = job->settings;
    struct run run = {.args = *args};
    struct cascade_attempt c = {.cascade = cascade, .run = &run, .err = err};
    struct selection selection;
    bool good;

    arena_init(&c.arena);
    good = render_keys(&c) == TW_OK;
    for (size_t i = 0; i < cascade->rule_count && good; i++)
        good = selector_reads_entity(&cascade->rules[i].selector) ||
               selection_bind(&cascade->rules[i].selector, args, NULL, &c.arena,
                   &selection, err) == TW_OK;
    arena_done(&c.arena);
    return good ? TW_OK : TW_INVALID;
}

static enum tw_err cascade_delete_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    struct cascade_attempt c = {
        .cascade = job->settings, .stores = stores, .run = run, .err = err};
    enum tw_err outcome;

    arena_init(&c.arena);
    page_init(&c.parent);
    outcome = render_keys(&c);
    if (outcome == TW_OK)
        outcome = cascade_check_stores(&c, false);
    if (outcome == TW_OK)
        outcome = cascade_read_parent(&c, &(int64_t){0});
    if (outcome == TW_OK) {
        struct walk_plan plan;

        cascade_read_values(&c, cascade_parent(&c) != NULL);
        plan = cascade_walk_plan(&c, false);
        outcome = cascade_count(&plan, -1, ret, err);
        if (outcome == TW_OK && !cascade_parent(&c))
            ret->note = "the parent does not exist: a run inserts it as a "
                        "tombstone, and deletes it at the end";
    }
    page_done(&c.parent);
    arena_done(&c.arena);
    return outcome;
}

static const struct settings_section *const SECTIONS[] = {
    &cascade_job_section,
    &cascade_parent_section,
    &cascade_rule_section,
    NULL,
};

const struct kind cascade_delete_kind = {
    .name = "cascade-delete",
    .summary = "deletes an entity and everything under it",
    .destructive = true,
    .has_parent = true,
    .additions = "children",
    .sections = SECTIONS,
    .load = cascade_delete_load,
    .link = cascade_link,
    .explain = cascade_delete_explain,
    .accept = cascade_delete_accept,
    .archive = cascade_delete_archive,
    .tables = cascade_delete_tables,
    .verify = cascade_verify,
    .estimate = cascade_delete_estimate,
    .run = cascade_delete_run,
};
