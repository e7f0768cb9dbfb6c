/* SPDX-License-Identifier: MIT */
/*
 * schema-upgrade: every entity of a table from one version to the next.
 *
 * The table's users go on reading and writing meanwhile, in the old shape and
 * in the new one. So nothing is decided by a server's filter, which never
 * matches what an entity lacks, and nothing is done in two writes:
 *
 *   pass        read everything; an entity at `from` gets all steps and its
 *               new version in one replace with the ETag that was read
 *   again       old writers may have added behind the scan: until a whole pass
 *               finds nothing
 *   wait        while another job brings entities to `from`
 *   contract    looks first, and refuses while anything is below `to`
 *
 * A version is in the entity itself, so an attempt may end anywhere and the
 * next one goes on; the checkpoint only saves it the reading.
 */
#include "jobs/upgrade/upgrade.h"

#include "jobs/engine/flow.h"
#include "jobs/engine/milestones.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/upgrade/checkpoint.h"
#include "jobs/upgrade/count.h"
#include "jobs/upgrade/rules.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Batches of one run under way at once. */
#define BATCHES_IN_FLIGHT 16

/* When to ask again whether another job is done: at first, and at most, while
 * it has a run and while it has none. */
#define WAIT_MIN_MS INT64_C(5000)
#define WAIT_OPEN_MAX_MS INT64_C(60000)
#define WAIT_IDLE_MAX_MS INT64_C(600000)

/* A run of another job that ended so long before this one was asked for has
 * done what it could all the same. It is more than clocks differ. */
#define ENDED_BEFORE_TICKS (300 * TICKS_PER_S)

/* One attempt. */
struct upgrade_run {
    const struct upgrade *upgrade;
    struct store *store;
    struct run *run;
    struct err *err;
    enum run_end end; /* how it ended, once a step returned false */

    struct arena arena; /* the selection, keys of the checkpoint */
    struct selection selection;
    struct upgrade_checkpoint at; /* this pass, as far as it has been read */
    bool begun;        /* it was, by another attempt, and has no place yet */
    bool *awaited;     /* by upgrade->befores: its entities are waited for */
    bool others_open;  /* one of them is being worked on */
    size_t waits_for;  /* which of befores is told to people */
    int64_t now_ticks; /* the service's clock when that was asked */
    bool writes;       /* this pass may; else it only looks */
    struct flow *flow;
    int64_t refused; /* of this pass, by the service */
    struct milestones milestones;
    struct arena scratch; /* of one page */
    char held_key[256];   /* one of at.held, for people, or empty */
};

/* ---- ends ---- */

/* A step returns false when the attempt is over; u->end says how. */
static bool ends(struct upgrade_run *u, enum run_end end)
{
    u->end = end;
    return false;
}

/* ---- the checkpoint ---- */

static void save(struct upgrade_run *u, bool progress)
{
    char *text = upgrade_checkpoint_write(&u->at);

    u->run->host->save(u->run, slice_of(text), progress);
    mem_free(text);
}

/* Somebody may mend what is wrong and have the run tried again: then all is
 * looked at again. */
static bool fails(struct upgrade_run *u)
{
    u->at = (struct upgrade_checkpoint){.pass = 0};
    save(u, false);
    return ends(u, RUN_FAILED);
}

static bool ends_by(struct upgrade_run *u, enum tw_err outcome)
{
    if (outcome == TW_INVALID || outcome == TW_NOT_FOUND ||
        outcome == TW_TOO_LARGE)
        return fails(u);
    return ends(u, run_end_of(u->run, outcome));
}

/* What a pass counts is counted anew in the next one. */
static void begin_counts(struct upgrade_run *u)
{
    struct upgrade_checkpoint *at = &u->at;

    *at = (struct upgrade_checkpoint){
        .pass = at->pass, .waits = at->waits, .surveyed = at->surveyed};
    u->held_key[0] = '\0';
    u->run->host->forget_failed(u->run, 0);
    atomic_store(&u->run->counts.skipped, 0);
}

/* ... and one that goes on has counted what lies before its place. */
static void resume_counts(struct upgrade_run *u)
{
    u->run->host->forget_failed(u->run, u->at.failed);
    atomic_store(&u->run->counts.skipped, u->at.skipped);
}

/* Everything up to here has been handed to the flow. */
static void reached(struct upgrade_run *u, const struct entity *last)
{
    u->at.in_pass = true;
    u->at.partition_key = last->partition_key;
    u->at.row_key = last->row_key;
    u->at.failed = atomic_load(&u->run->counts.failed);
    u->at.skipped = atomic_load(&u->run->counts.skipped);
    milestones_save(&u->milestones, u->run, flow_low_water(u->flow));
    milestones_add(
        &u->milestones, flow_ticket(u->flow), upgrade_checkpoint_write(&u->at));
}

/* ---- one entity ---- */

static void tell_failed(
    struct upgrade_run *u, const struct entity *entity, const char *why)
{
    u->run->host->failed(
        u->run, &(struct run_failure){u->upgrade->place.table,
                    entity->partition_key, entity->row_key, NULL, why});
}

static void note_below(struct upgrade_run *u, const struct entity *entity)
{
    u->at.below++;
    tell_failed(u, entity, "is below the version that is to be contracted");
}

static void note_held(
    struct upgrade_run *u, const struct entity *entity, int step)
{
    struct buf key;

    u->at.held++;
    if (u->held_key[0])
        return;
    buf_init(&key, sizeof(u->held_key) - 1);
    entity_add_keys(&key, entity->partition_key, entity->row_key);
    buf_add_format(&key, ", step %d", step + 1);
    (void)snprintf(u->held_key, sizeof(u->held_key), "%s", buf_text(&key));
    buf_done(&key);
}

static void note_before(struct upgrade_run *u, size_t before)
{
    if (!u->awaited[before]) {
        u->at.other++;
        return;
    }
    if (u->at.awaited++ == 0)
        u->waits_for = before;
}

/* Is this one for the steps? Counts what is not. */
static bool is_due(struct upgrade_run *u, const struct entity *entity)
{
    bool contracts = u->upgrade->phase == UPGRADE_CONTRACT;
    size_t before;
    int step;

    if (!selection_matches(&u->selection, entity))
        return false;
    switch (upgrade_version(u->upgrade, entity, &before)) {
    case UPGRADE_AT_FROM:
        if (contracts)
            note_below(u, entity);
        return !contracts;
    case UPGRADE_AT_TO:
        step = contracts ? -1 : upgrade_holds(u->upgrade, entity);
        if (step >= 0)
            note_held(u, entity, step);
        return contracts;
    case UPGRADE_BEFORE:
        if (contracts)
            note_below(u, entity);
        else
            note_before(u, before);
        return false;
    case UPGRADE_OTHER:
        u->at.other++;
        return false;
    }
    return false;
}

/* Does what stands there say all that was sent? */
static bool says_the_same(const struct entity *now, const struct entity *sent)
{
    return now->property_count == sent->property_count &&
           entity_has_all(now, sent);
}

/*
 * Somebody was there first, or the answer was lost: the same decision, made of
 * what is there now. What has left the upgrade's reach is nobody's failure.
 */
static enum flow_verdict decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    struct upgrade_run *u = context;

    if (!now)
        return FLOW_SPARE;
    if (says_the_same(now, &sent->entity))
        return FLOW_DONE;
    if (!is_due(u, now))
        return FLOW_SPARE;
    *ret = (struct operation){.type = OPERATION_REPLACE};
    switch (upgrade_apply(
        u->upgrade, &u->run->args, now, arena, &ret->entity, NULL, err)) {
    case UPGRADE_CHANGED:
        return FLOW_SEND;
    case UPGRADE_FAILED:
        return FLOW_FAIL;
    case UPGRADE_UNCHANGED:
    case UPGRADE_SKIPPED:
        break;
    }
    return FLOW_SPARE;
}

static enum tw_err send(
    struct upgrade_run *u, const struct entity *changed, struct err *err)
{
    const struct flow_item item = {
        .store = u->store,
        .table = u->upgrade->place.table,
        .operation = {.type = OPERATION_REPLACE, .entity = *changed},
        .decide = decide,
        .context = u,
    };

    u->at.found++;
    return flow_add(u->flow, &item, err);
}

static enum tw_err upgrade_one(
    struct upgrade_run *u, const struct entity *entity, struct err *err)
{
    struct entity changed;
    struct err why;

    switch (upgrade_apply(
        u->upgrade, &u->run->args, entity, &u->scratch, &changed, NULL, &why)) {
    case UPGRADE_CHANGED:
        if (u->writes)
            return send(u, &changed, err);
        u->at.found++;
        break;
    case UPGRADE_UNCHANGED:
        break;
    case UPGRADE_SKIPPED:
        atomic_fetch_add(&u->run->counts.skipped, 1);
        break;
    case UPGRADE_FAILED:
        tell_failed(u, entity, why.text);
        break;
    }
    return TW_OK;
}

/* ---- a pass ---- */

static enum tw_err upgrade_page(
    struct upgrade_run *u, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&u->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        if (is_due(u, &page->entities[i]))
            outcome = upgrade_one(u, &page->entities[i], err);
        arena_clear(&u->scratch);
    }
    if (outcome == TW_OK)
        reached(u, &page->entities[page->count - 1]);
    return outcome;
}

static struct scan *open_scan(struct upgrade_run *u)
{
    struct scan_spec spec = {
        .store = u->store, .table = u->upgrade->place.table, .run = u->run};
    struct scan *scan;
    struct arena arena;

    arena_init(&arena);
    selection_spec_sure(&u->selection, &arena, &spec);
    if (u->at.in_pass) {
        spec.resumed = true;
        spec.after_partition_key = u->at.partition_key;
        spec.after_row_key = u->at.row_key;
    }
    scan = scan_open(u->run->lanes, &spec);
    arena_done(&arena);
    return scan;
}

static enum tw_err read_all(struct upgrade_run *u)
{
    struct scan *scan = open_scan(u);
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = run_stopping(u->run) ? err_fail(u->err, TW_STOPPED, "stopped")
                                       : scan_next(scan, &page, u->err);
        if (outcome == TW_OK && page)
            outcome = upgrade_page(u, page, u->err);
    } while (outcome == TW_OK && page);
    if (outcome == TW_OK)
        outcome = flow_drain(u->flow, u->err);
    flow_settle(u->flow);
    u->refused = flow_failed(u->flow);
    scan_close(scan);
    return outcome;
}

/* What was in flight is settled and saved, however the pass ended. */
static bool walk(struct upgrade_run *u)
{
    enum tw_err outcome;

    if (u->at.in_pass)
        resume_counts(u);
    else
        begin_counts(u);
    u->flow = flow_new(u->run, BATCHES_IN_FLIGHT);
    outcome = read_all(u);
    milestones_save(&u->milestones, u->run, flow_low_water(u->flow));
    milestones_drop(&u->milestones);
    flow_free(u->flow);
    u->flow = NULL;
    u->at.in_pass = false;
    return outcome == TW_OK || ends_by(u, outcome);
}

/* ---- other jobs ---- */

/* Of which jobs is there something to come? Asked before a pass: what ends
 * during it may have left its work behind the scan. */
static bool ask_others(struct upgrade_run *u)
{
    int64_t since_ticks = u->run->requested_ticks - ENDED_BEFORE_TICKS;

    u->others_open = false;
    for (size_t i = 0; i < u->upgrade->before_count; i++) {
        struct run_others others;
        enum tw_err outcome = u->run->host->others(u->run,
            slice_of(u->upgrade->befores[i].job), since_ticks, &others, u->err);

        if (outcome != TW_OK)
            return ends(u, run_end_of(u->run, outcome));
        u->awaited[i] = others.open || !others.ended;
        if (others.open || (u->awaited[i] && !u->others_open))
            u->waits_for = i;
        u->others_open |= others.open;
        u->now_ticks = others.now_ticks;
    }
    return true;
}

/* While nobody works on it, to look means to read everything. */
static int64_t wait_ms(const struct upgrade_run *u)
{
    int64_t most_ms = u->others_open ? WAIT_OPEN_MAX_MS : WAIT_IDLE_MAX_MS;
    int64_t ms = WAIT_MIN_MS;

    for (int64_t i = 0; i < u->at.waits && ms < most_ms; i++)
        ms *= 2;
    return ms < most_ms ? ms : most_ms;
}

static bool wait_for_others(struct upgrade_run *u)
{
    log_info(run_object(u->run),
        "waits: entities are at a version that job %s brings further%s",
        u->upgrade->befores[u->waits_for].job,
        u->others_open ? "" : "; no run of it is open: enqueue one");
    u->run->resumes_ticks = u->now_ticks + wait_ms(u) * TICKS_PER_MS;
    u->at.waits++;
    u->at.pass = 0;
    save(u, true);
    return ends(u, RUN_WAITING);
}

/* ---- the end ---- */

static void say_left(const struct upgrade_run *u)
{
    if (u->at.other > 0)
        log_info(run_object(u->run),
            "%lld entities are at other versions, and were left alone",
            (long long)u->at.other);
    if (u->at.held > 0)
        log_warn(run_object(u->run),
            "%lld entities carry the new version and yet what a step takes "
            "away, and were left alone%s%s",
            (long long)u->at.held, u->held_key[0] ? "; one of them: " : "",
            u->held_key);
}

/* A whole pass has found nothing that can be done. */
static bool end_of_passes(struct upgrade_run *u)
{
    int64_t failed = atomic_load(&u->run->counts.failed);

    say_left(u);
    if (failed == 0)
        return ends(u, RUN_SUCCEEDED);
    err_fail(u->err, TW_INVALID,
        "%lld entities cannot be brought to the new version; the first of them "
        "are listed, and all others are done",
        (long long)failed);
    return fails(u);
}

static bool fail_by_passes(struct upgrade_run *u)
{
    err_fail(u->err, TW_INVALID,
        "after %lld passes %lld entities are still to be upgraded: something "
        "writes them in the old shape as fast as they are upgraded",
        (long long)u->upgrade->max_passes, (long long)u->at.found);
    return fails(u);
}

/* ---- the attempt ---- */

static bool refuses_contract(struct upgrade_run *u)
{
    if (u->at.below == 0)
        return true;
    err_fail(u->err, TW_INVALID,
        "%lld entities are below the version whose old properties are to go; "
        "the first of them are listed: run the job that brings them there",
        (long long)u->at.below);
    return fails(u);
}

/* Nothing is written before a look that found nothing below `to`. */
static bool survey(struct upgrade_run *u)
{
    if (u->upgrade->phase != UPGRADE_CONTRACT || u->at.surveyed)
        return true;
    u->at.in_pass = false;
    u->writes = false;
    if (!walk(u) || !refuses_contract(u))
        return false;
    u->at.surveyed = true;
    save(u, true);
    return true;
}

/* Behind the last pass comes a look: has it left anything? */
static bool may_write(const struct upgrade_run *u)
{
    return u->at.pass <= u->upgrade->max_passes;
}

static bool begin_pass(struct upgrade_run *u)
{
    if (!ask_others(u))
        return false;
    if (u->at.in_pass)
        return true;
    if (u->at.waits > 0 && u->others_open)
        return wait_for_others(u);
    if (!u->begun) {
        u->at.pass++;
        u->run->passes += may_write(u);
    }
    u->begun = false;
    begin_counts(u);
    save(u, false);
    return true;
}

/* What the service itself will not store is found by every pass. A second one
 * is made all the same: it may have been the outcome that was not known. */
static bool finds_only_refused(const struct upgrade_run *u)
{
    return u->at.pass > 1 && u->at.found == u->refused;
}

/* True: another pass. */
static bool pass(struct upgrade_run *u)
{
    if (!begin_pass(u))
        return false;
    u->writes = may_write(u);
    if (!walk(u) || !refuses_contract(u))
        return false;
    if (u->at.awaited > 0)
        return wait_for_others(u);
    if (u->at.found == 0 || finds_only_refused(u))
        return end_of_passes(u);
    return u->writes || fail_by_passes(u);
}

/* The attempt before may have written behind the place that it kept: so the
 * pass has found something, whatever is left of it to find. Only a pass that
 * one attempt made whole can be the one that found nothing. */
static void go_on(struct upgrade_run *u)
{
    if (u->at.in_pass && may_write(u))
        u->at.found++;
}

static bool set_up(struct upgrade_run *u)
{
    arena_init(&u->arena);
    arena_init(&u->scratch);
    u->awaited = mem_array(u->upgrade->before_count + 1, sizeof(bool));
    upgrade_checkpoint_read(u->run->checkpoint, &u->arena, &u->at);
    /* A scan that is in no order goes on at no place: it starts over. */
    u->at.in_pass = u->at.in_pass && u->store->traits.ordered;
    u->begun = u->at.pass > 0 && !u->at.in_pass;
    go_on(u);
    if (upgrade_rules_select(u->upgrade, &u->run->args, &u->arena,
            &u->selection, u->err) != TW_OK)
        return ends(u, RUN_FAILED);
    return true;
}

static void tear_down(struct upgrade_run *u)
{
    mem_free(u->awaited);
    arena_done(&u->scratch);
    arena_done(&u->arena);
}

static enum run_end schema_upgrade_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    const struct upgrade *upgrade = job->settings;
    struct upgrade_run u = {.upgrade = upgrade,
        .store = stores->stores[upgrade->place.store],
        .run = run,
        .err = err,
        .end = RUN_SUCCEEDED};

    if (set_up(&u) && survey(&u))
        while (pass(&u))
            continue;
    tear_down(&u);
    return u.end;
}

/* ---- what else a kind can tell ---- */

static void *schema_upgrade_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    return upgrade_rules_load(node, loader);
}

static void schema_upgrade_explain(const struct job *job, struct buf *to)
{
    upgrade_rules_explain(job->settings, to);
}

static void schema_upgrade_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct upgrade *upgrade = job->settings;

    each(ctx, upgrade->place.store, upgrade->place.table, JOB_WRITES);
}

/* An argument that makes no filter can never be right. */
static enum tw_err schema_upgrade_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct upgrade *upgrade = job->settings;
    struct selection selection;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    outcome = upgrade_rules_select(upgrade, args, &arena, &selection, err);
    arena_done(&arena);
    return outcome;
}

static enum tw_err schema_upgrade_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    const struct upgrade *upgrade = job->settings;

    return upgrade_count(
        upgrade, stores->stores[upgrade->place.store], run, ret, err);
}

const struct kind schema_upgrade_kind = {
    .name = "schema-upgrade",
    .summary = "brings every entity of a table from one version to the next",
    .destructive = true,
    .load = schema_upgrade_load,
    .explain = schema_upgrade_explain,
    .link = upgrade_rules_link,
    .accept = schema_upgrade_accept,
    .tables = schema_upgrade_tables,
    .estimate = schema_upgrade_estimate,
    .run = schema_upgrade_run,
};
