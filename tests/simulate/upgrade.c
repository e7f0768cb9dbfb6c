/* SPDX-License-Identifier: MIT */
/*
 * The kind schema-upgrade: an old and a new release of an application write
 * and read entities of one table, while runs bring them from version to
 * version; and a model of what the table may be.
 *
 * A world is one of three: an upgrade alone; two that make a chain; one that
 * expands, and one that contracts when it has.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"

#define TABLE "Things"
#define SECOND_JOB "next"
#define JOBS 2

#define PARTITIONS_MAX 2
#define NUMBERS 24 /* RowKeys of a partition */
#define THINGS_MAX (PARTITIONS_MAX * NUMBERS)
#define MOST_ALIVE 40

static const char *const KINDS[] = {"Blog", "Post"};
#define KIND_COUNT 2

/* ---- the model ---- */

/* How a key stands to one of the jobs, and since when. */
struct standing {
    enum model_end end;
    int64_t end_since_ms;
    int64_t failing_until_ms; /* when it was so last; 0: never */
    bool its;                 /* its filter and the version say yes */
    int64_t its_since_ms, its_until_ms;
};

/* One key. */
struct thing {
    struct slice partition_key, row_key;
    bool alive;
    struct entity now;
    struct slice etag;
    const char *what; /* the argument of runs that mean it; NULL: none does */
    struct standing standings[JOBS];
};

struct upgrade_state {
    struct sim *sim;
    struct arena arena;
    struct model_upgrade jobs[JOBS];
    int job_count;
    bool by_argument; /* the filter names the kind by the argument */
    bool filtered;    /* it names Blogs */
    unsigned bad;     /* percent of values that no step can take */
    const char *passes[SIM_DEFINITIONS];
    struct thing things[THINGS_MAX];
    int count, alive;
    int64_t last_user_ms; /* the last write that was acknowledged to one */
    int64_t tokens;       /* given out to writes */
    unsigned lasts;       /* of the last runs, those not ended */
};

#define WHERE(thing)                                                           \
    SLICE_ARG((thing)->partition_key), SLICE_ARG((thing)->row_key)

static struct thing *find(struct upgrade_state *s, const struct entity *entity)
{
    for (int i = 0; i < s->count; i++)
        if (slice_equal(s->things[i].partition_key, entity->partition_key) &&
            slice_equal(s->things[i].row_key, entity->row_key))
            return &s->things[i];
    return NULL;
}

/* The job as a run with that argument does it. */
static struct model_upgrade job_for(
    const struct upgrade_state *s, int job, const char *what)
{
    struct model_upgrade upgrade = s->jobs[job];

    if (s->by_argument)
        upgrade.filter_value = what;
    return upgrade;
}

/* Which runs mean it. */
static const char *what_of(
    const struct upgrade_state *s, const struct entity *entity)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        struct model_upgrade upgrade = job_for(s, 0, KINDS[i]);

        if (model_matches(&upgrade, entity))
            return KINDS[i];
    }
    return NULL;
}

/* Without an argument, a run means them all. */
static bool means(const struct upgrade_state *s, const struct sim_run *run,
    const struct thing *thing)
{
    return thing->what &&
           (!s->by_argument || strcmp(run->what, thing->what) == 0);
}

static int job_of(const struct sim_run *run)
{
    return slice_is(run->now.job, SIM_JOB) ? 0 : 1;
}

static bool is_contract(const struct upgrade_state *s, int job)
{
    return s->jobs[job].phase == MODEL_CONTRACT;
}

/* ---- how things stand ---- */

static void stand(struct standing *standing, enum model_end end, bool its)
{
    int64_t now_ms = virtual_ms();

    if (standing->end == MODEL_FAILED)
        standing->failing_until_ms = now_ms;
    if (standing->its)
        standing->its_until_ms = now_ms;
    if (standing->end != end)
        standing->end_since_ms = now_ms;
    if (standing->its != its)
        standing->its_since_ms = now_ms;
    standing->end = end;
    standing->its = its;
}

/* Something else is stored there now, or nothing. */
static void look_again(struct upgrade_state *s, struct thing *thing)
{
    const char *what = thing->alive ? what_of(s, &thing->now) : NULL;
    bool same = what && thing->what && strcmp(what, thing->what) == 0;

    for (int job = 0; job < s->job_count; job++) {
        struct standing *standing = &thing->standings[job];
        struct model_upgrade upgrade = job_for(s, job, what);
        enum model_end end = MODEL_NOT_ITS;
        struct entity result;

        if (what)
            end = model_apply(&upgrade, &thing->now, &s->arena, &result);
        if (!same)
            stand(standing, MODEL_NOT_ITS, false);
        stand(standing, end, end != MODEL_NOT_ITS);
    }
    thing->what = what;
}

static void store(struct upgrade_state *s, struct thing *thing,
    const struct operation *operation, const char *etag)
{
    struct entity whole;

    if (operation->type == OPERATION_MERGE) {
        entity_copy(&whole, &s->arena, &thing->now);
        for (size_t i = 0; i < operation->entity.property_count; i++)
            entity_set(&whole, &s->arena, &operation->entity.properties[i]);
    } else {
        entity_copy(&whole, &s->arena, &operation->entity);
    }
    s->alive -= thing->alive;
    thing->alive = operation->type != OPERATION_DELETE;
    s->alive += thing->alive;
    thing->now = whole;
    thing->etag = arena_copy(&s->arena, slice_of(etag));
    look_again(s, thing);
}

/* ---- what a run may do ---- */

/* May it write? One that was cancelled may for a moment, until it hears. */
static bool is_at_work(const struct sim_run *run)
{
    return run->claimed_ms > 0 &&
           (!run->ended || run->now.state == LEDGER_CANCELLED);
}

/* The first that is below what the contract needs, from before since_ms to
 * now, or NULL. */
static const struct thing *below_since(
    const struct upgrade_state *s, const struct sim_run *run, int64_t since_ms)
{
    for (int i = 0; i < s->count; i++) {
        const struct thing *thing = &s->things[i];

        if (means(s, run, thing) && thing->standings[0].its &&
            thing->standings[0].its_since_ms < since_ms)
            return thing;
    }
    return NULL;
}

struct search {
    struct upgrade_state *s;
    const struct thing *thing;
    int job;
};

/* One whose job the write may have been. */
static bool may_have_written(const void *ctx, const struct sim_run *run)
{
    const struct search *search = ctx;

    return job_of(run) == search->job && is_at_work(run) &&
           means(search->s, run, search->thing) &&
           (!is_contract(search->s, search->job) ||
               !below_since(search->s, run, run->claimed_ms));
}

/* Before the write is in the model. */
static void judge_result(struct upgrade_state *s, const struct thing *thing,
    const struct entity *stored)
{
    struct search search = {s, thing, 0};
    bool known = false;

    for (int job = 0; job < s->job_count && thing->what; job++) {
        struct model_upgrade upgrade = job_for(s, job, thing->what);
        struct entity result;

        if (model_apply(&upgrade, &thing->now, &s->arena, &result) !=
                MODEL_CHANGED ||
            !model_same(&result, stored))
            continue;
        known = true;
        search.job = job;
        if (book_any(s->sim->book, may_have_written, &search))
            return;
    }
    if (known)
        sim_complain(s->sim, "%.*s/%.*s is upgraded, and no run may do it now",
            WHERE(thing));
    else
        sim_complain(s->sim,
            "%.*s/%.*s: what a worker has stored is no upgrade of what was "
            "there",
            WHERE(thing));
}

static void judge_worker(struct upgrade_state *s, const struct batch *batch,
    const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    const struct thing *thing = find(s, entity);

    if (strcmp(batch->table, TABLE) != 0)
        sim_complain(s->sim, "a worker writes to table %s", batch->table);
    else if (!thing || !thing->alive)
        sim_complain(s->sim, "%.*s/%.*s: a worker writes what is not there",
            SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
    else if (operation->type != OPERATION_REPLACE)
        sim_complain(s->sim, "%.*s/%.*s: operation %d of a worker is no PUT",
            WHERE(thing), (int)operation->type);
    else if (!slice_equal(entity->etag, thing->etag))
        sim_complain(s->sim, "%.*s/%.*s: a worker overwrites another ETag",
            WHERE(thing));
    else
        judge_result(s, thing, entity);
}

static void committed(void *state, const struct sim_commit *commit)
{
    struct upgrade_state *s = state;
    const struct batch *batch = commit->batch;

    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        struct thing *thing = find(s, &operation->entity);

        if (!commit->by_front_end)
            judge_worker(s, batch, operation);
        else
            s->last_user_ms = virtual_ms();
        if (thing)
            store(s, thing, operation, commit->result->etags[i]);
    }
}

/* ---- how a run may end ---- */

/* What stood so from then on, the run's last pass has met: it began later. */
static int64_t last_look_ms(const struct sim_run *run)
{
    return run->looked_ms > run->claimed_ms ? run->looked_ms : run->claimed_ms;
}

/* What stood so from before the last look, all the time. */
static int standing_since(const struct upgrade_state *s,
    const struct sim_run *run, enum model_end end, const struct thing **first)
{
    int count = 0;

    for (int i = 0; i < s->count; i++) {
        const struct thing *thing = &s->things[i];
        const struct standing *standing = &thing->standings[job_of(run)];

        if (!means(s, run, thing) || standing->end != end ||
            standing->end_since_ms >= last_look_ms(run))
            continue;
        if (count++ == 0 && first)
            *first = thing;
    }
    return count;
}

/* Those that could not be upgraded at some moment of the run. Of whatever
 * kind: too many at most. */
static int ever_failing(
    const struct upgrade_state *s, const struct sim_run *run)
{
    int count = 0;

    for (int i = 0; i < s->count; i++) {
        const struct standing *standing = &s->things[i].standings[job_of(run)];

        count += standing->end == MODEL_FAILED ||
                 (standing->failing_until_ms > 0 &&
                     standing->failing_until_ms >= run->claimed_ms);
    }
    return count;
}

/* Was anything below, at some moment of the contract's run? */
static bool ever_below(const struct upgrade_state *s, const struct sim_run *run)
{
    for (int i = 0; i < s->count; i++) {
        const struct standing *standing = &s->things[i].standings[0];

        if (standing->its || (standing->its_until_ms > 0 &&
                                 standing->its_until_ms >= run->claimed_ms))
            return true;
    }
    return false;
}

/* Another job's run, from before the first attempt of that one until now. */
static bool was_open_before(const void *ctx, const struct sim_run *run)
{
    const struct sim_run *other = ctx;

    return job_of(run) == 0 && !run->ended && run->now.etag.len > 0 &&
           run->opened_ms < other->claimed_ms;
}

static void judge_success(struct upgrade_state *s, const struct sim_run *run)
{
    const struct thing *thing = NULL;

    if (run->now.failed > 0)
        sim_complain(s->sim, "%s has succeeded, and counts %lld failed",
            run->key, (long long)run->now.failed);
    else if (standing_since(s, run, MODEL_CHANGED, &thing) > 0)
        sim_complain(s->sim, "%s has succeeded, and left %.*s/%.*s as it was",
            run->key, WHERE(thing));
    else if (standing_since(s, run, MODEL_FAILED, &thing) > 0)
        sim_complain(s->sim,
            "%s has succeeded, and %.*s/%.*s cannot be upgraded", run->key,
            WHERE(thing));
    else if (is_contract(s, job_of(run)) &&
             (thing = below_since(s, run, last_look_ms(run))) != NULL)
        sim_complain(s->sim, "%s has succeeded, and %.*s/%.*s is below",
            run->key, WHERE(thing));
    else if (run->wrote_ms > run->looked_ms)
        sim_complain(
            s->sim, "%s has succeeded after a pass that wrote", run->key);
    else if (job_of(run) == 1 && !is_contract(s, 1) &&
             below_since(s, run, last_look_ms(run)) &&
             book_any(s->sim->book, was_open_before, run))
        sim_complain(s->sim,
            "%s has succeeded, and has not waited for the other job", run->key);
}

/* Users have written since it began: passes may find something for ever. */
static bool had_company(
    const struct upgrade_state *s, const struct sim_run *run)
{
    return s->last_user_ms >= run->claimed_ms;
}

static void judge_failure(struct upgrade_state *s, const struct sim_run *run)
{
    int least = standing_since(s, run, MODEL_FAILED, NULL);
    int most = ever_failing(s, run);
    bool fits;

    if (is_contract(s, job_of(run)) && ever_below(s, run))
        fits = true; /* it has refused */
    else if (run->now.failed > 0)
        fits = run->now.failed >= least && run->now.failed <= most;
    else
        fits = least == 0 && had_company(s, run);
    if (fits)
        return;
    sim_complain(s->sim,
        "%s has failed with %lld entities (there are %d to %d): %.*s", run->key,
        (long long)run->now.failed, least, most, SLICE_ARG(run->now.error));
}

static void ask_last(struct upgrade_state *s, int job);

static void ask_for_contract(void *arg)
{
    struct upgrade_state *s = arg;

    ask_last(s, 1);
    s->sim->front_ends--;
}

/* Of the last ones, asked for when nobody writes any more. */
static void last_ended(struct upgrade_state *s)
{
    if (--s->lasts > 0 || s->job_count < 2 || !is_contract(s, 1))
        return;
    s->sim->front_ends++;
    virtual_start(virtual_process("contract"), "contract", ask_for_contract, s);
}

static void run_moved(
    void *state, const struct sim_run *run, enum ledger_state was)
{
    struct upgrade_state *s = state;

    (void)was;
    if (!run->ended || slice_is(run->now.job, LEDGER_UNREADABLE))
        return;
    if (run->now.state == LEDGER_SUCCEEDED)
        judge_success(s, run);
    else if (run->now.state == LEDGER_FAILED)
        judge_failure(s, run);
    else if (run->now.state != LEDGER_CANCELLED)
        sim_complain(s->sim, "%s has ended %s: %.*s", run->key,
            ledger_state_name(run->now.state), SLICE_ARG(run->now.error));
    if (job_of(run) == 0 && slice_begins(run->now.id, slice_of("last")))
        last_ended(s);
}

/* ---- what the applications store ---- */

static void set_text(struct upgrade_state *s, struct entity *entity,
    const char *name, const char *text)
{
    entity_set_string(entity, &s->arena, name, slice_of(text));
}

static void set_json(struct upgrade_state *s, struct entity *entity,
    const char *name, enum edm_type type, const char *json)
{
    model_set(entity, &s->arena, name, type, json);
}

/* A text: a number, unless it is a bad one. */
static const char *number_text(struct upgrade_state *s)
{
    static const char *const GOOD[] = {"\"0\"", "\"12\"", "\"-3\""};

    return sim_chance(s->bad) ? model_text(sim_draw((unsigned)model_texts()))
                              : SIM_PICK(GOOD);
}

/* What the steps of RECIPES read, as an old release stores it. */
static void set_old_properties(struct upgrade_state *s, struct entity *entity)
{
    static const char *const BIG[] = {
        "\"9007199254740993\"", "\"-9007199254740993\"", "\"7\""};
    static const char *const TIMES[] = {"\"2024-01-01T00:00:00Z\"",
        "\"1601-01-01T00:00:00Z\"", "\"2024-06-30T12:34:56.1234567Z\""};

    if (sim_chance(70))
        set_text(s, entity, "Text", "Some");
    if (sim_chance(s->bad))
        set_text(s, entity, "Body", "Other");
    if (sim_chance(70))
        set_json(s, entity, "Rating", EDM_STRING, number_text(s));
    else if (sim_chance(30))
        set_json(s, entity, "Rating", EDM_DOUBLE, "2.5");
    if (sim_chance(70))
        set_json(s, entity, "Score", EDM_STRING, number_text(s));
    if (sim_chance(70))
        set_json(s, entity, "Size", EDM_INT64, SIM_PICK(BIG));
    if (sim_chance(70))
        set_json(s, entity, "When", EDM_DATETIME, SIM_PICK(TIMES));
    if (sim_chance(70))
        set_json(s, entity, "Amount", EDM_DOUBLE,
            sim_chance(s->bad) ? "2.75" : "-2.0");
    if (sim_chance(70))
        set_json(s, entity, "Large", EDM_INT64,
            sim_chance(s->bad) ? BIG[0] : "\"4503599627370496\"");
    if (sim_chance(70))
        set_json(s, entity, "Legacy", EDM_BOOLEAN, "true");
    if (sim_chance(20))
        set_text(s, entity, "Language", "cy");
}

static void set_version(
    struct upgrade_state *s, struct entity *entity, int version)
{
    const char *name = s->jobs[0].version;

    if (s->jobs[0].texts)
        set_json(s, entity, name, EDM_STRING,
            arena_format(&s->arena, "\"%d\"", version).at);
    else if (sim_chance(70))
        entity_set_int32(entity, &s->arena, name, version);
    else if (sim_chance(50))
        entity_set_int64(entity, &s->arena, name, version);
    else
        entity_set_double(entity, &s->arena, name, version);
}

/* Neither the one nor the other's. */
static void set_other_version(struct upgrade_state *s, struct entity *entity)
{
    const char *name = s->jobs[0].version;

    switch (sim_draw(3)) {
    case 0:
        set_version(s, entity, 7);
        break;
    case 1:
        set_text(s, entity, name, "one");
        break;
    default:
        set_json(s, entity, name, EDM_BOOLEAN, "true");
    }
}

/* An old release's, with a version or without. */
static void make_old(
    struct upgrade_state *s, struct entity *entity, const struct thing *thing)
{
    static const char *const TITLES[] = {"One", "Two WORDS", "three"};

    entity_init(entity, &s->arena, thing->partition_key, thing->row_key);
    set_text(s, entity, "Title", SIM_PICK(TITLES));
    if (sim_chance(85))
        set_text(s, entity, "EntityType", KINDS[sim_draw(KIND_COUNT)]);
    else if (sim_chance(50))
        set_text(s, entity, "EntityType", "Channel");
    front_sets_bystanders(&s->arena, entity, "Large0", "Small");
    set_old_properties(s, entity);
    if (sim_chance(60))
        set_version(s, entity, s->jobs[0].from);
    entity_set_int64(entity, &s->arena, "Token", ++s->tokens);
}

/* A new release's: what the newest upgrade would have made of an old one; an
 * old one where there is no such thing. */
static void make_new(
    struct upgrade_state *s, struct entity *entity, const struct thing *thing)
{
    make_old(s, entity, thing);
    for (int job = 0; job < s->job_count; job++) {
        const char *what = what_of(s, entity);
        struct model_upgrade upgrade = job_for(s, job, what);
        struct entity newer;

        if (what &&
            model_apply(&upgrade, entity, &s->arena, &newer) == MODEL_CHANGED)
            *entity = newer;
    }
}

/* ---- front ends: writing ---- */

/* Refused where somebody else was faster: then it was not acknowledged. */
static void put(struct upgrade_state *s, enum operation_type type,
    const struct entity *entity)
{
    (void)sim_write(s->sim, TABLE, type, entity, NULL);
}

static struct thing *some_thing(struct upgrade_state *s)
{
    return &s->things[sim_draw((unsigned)s->count)];
}

static void inserts(struct upgrade_state *s, bool new)
{
    struct thing *thing = some_thing(s);
    struct entity entity;

    if (thing->alive || s->alive >= MOST_ALIVE)
        return;
    if (new)
        make_new(s, &entity, thing);
    else
        make_old(s, &entity, thing);
    if (sim_chance(8))
        set_other_version(s, &entity);
    put(s, OPERATION_INSERT, &entity);
}

/* False: it is not there. */
static bool reads(
    struct upgrade_state *s, const struct thing *thing, struct slice *etag)
{
    return sim_get_etag(
        s->sim, TABLE, thing->partition_key, thing->row_key, etag);
}

/* The whole entity, by who has read it and takes its time. An old release
 * writes over a new one's too. */
static void replaces(struct upgrade_state *s, bool new)
{
    const struct thing *thing = some_thing(s);
    struct entity entity;
    struct slice etag;

    if (!reads(s, thing, &etag))
        return;
    front_thinks(500);
    if (new)
        make_new(s, &entity, thing);
    else
        make_old(s, &entity, thing);
    entity.etag = etag;
    put(s, OPERATION_REPLACE, &entity);
}

/* Properties alone: a new release's own, or what an old one knows, which may
 * land on an entity that is at the new version. */
static void merges(struct upgrade_state *s, bool new)
{
    const struct thing *thing = some_thing(s);
    struct entity entity;
    struct slice etag;

    if (!reads(s, thing, &etag))
        return;
    entity_init(&entity, &s->arena, thing->partition_key, thing->row_key);
    entity_set_int64(&entity, &s->arena, "Token", ++s->tokens);
    if (new)
        set_text(s, &entity, "Language", "fi");
    else
        set_text(s, &entity, "Text", "Late");
    front_thinks(500);
    entity.etag = etag;
    put(s, OPERATION_MERGE, &entity);
}

static void deletes(struct upgrade_state *s)
{
    const struct thing *thing = some_thing(s);
    struct entity entity = {
        .partition_key = thing->partition_key, .row_key = thing->row_key};

    if (!reads(s, thing, &entity.etag))
        return;
    front_thinks(500);
    put(s, OPERATION_DELETE, &entity);
}

/* ---- front ends: reading ---- */

static void judge_seen(
    void *state, const char *table, const struct entity *seen)
{
    struct upgrade_state *s = state;
    const struct thing *thing = find(s, seen);

    (void)table;
    if (!thing || !thing->alive)
        sim_complain(s->sim, "%.*s/%.*s is there, and should not be",
            SLICE_ARG(seen->partition_key), SLICE_ARG(seen->row_key));
    else if (!slice_equal(thing->etag, seen->etag) ||
             !model_same(&thing->now, seen))
        sim_complain(
            s->sim, "%.*s/%.*s is not as it was stored last", WHERE(thing));
}

/* Every entity, at one moment. */
static void judge_table(struct upgrade_state *s)
{
    virtual_mask();
    if (sim_each(s->sim, TABLE, judge_seen, s) != s->alive)
        sim_complain(s->sim, "an entity is gone that nobody has deleted");
    virtual_unmask();
}

/* ---- front ends: asking for runs ---- */

static const char *some_what(const struct upgrade_state *s)
{
    return s->by_argument ? KINDS[sim_draw(KIND_COUNT)] : KINDS[0];
}

static void asks(struct upgrade_state *s)
{
    struct front_ask ask = front_draw_ask(some_what(s));
    char id[16];

    if (s->job_count > 1 && sim_chance(40)) {
        (void)snprintf(id, sizeof(id), "n%u", ++s->sim->ids);
        sim_control_enqueue_job(s->sim, 1, ask.what, id);
    } else {
        front_asks(s->sim, &ask);
    }
}

/* When nobody writes any more. In the ledger at once: who waits for them finds
 * them there. */
static void ask_last(struct upgrade_state *s, int job)
{
    char id[16];

    for (int i = 0; i < (s->by_argument ? KIND_COUNT : 1); i++) {
        (void)snprintf(id, sizeof(id), "last%d", i);
        s->lasts += job == 0;
        sim_control_enqueue_job(s->sim, (size_t)job, KINDS[i], id);
    }
}

static void acts(void *state)
{
    struct upgrade_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 25)
        inserts(s, sim_chance(30));
    else if (drawn < 45)
        replaces(s, sim_chance(50));
    else if (drawn < 55)
        merges(s, sim_chance(70));
    else if (drawn < 62)
        deletes(s);
    else if (drawn < 75)
        judge_table(s);
    else if (drawn < 95)
        asks(s);
    else if (drawn < 98)
        sim_cancel(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

static void ask_lasts(void *state)
{
    struct upgrade_state *s = state;

    ask_last(s, 0);
    if (s->job_count > 1 && !is_contract(s, 1))
        ask_last(s, 1);
}

static void front_ends(void *state)
{
    struct upgrade_state *s = state;

    front_start(&(struct front){.sim = s->sim,
        .state = s,
        .act = acts,
        .last = ask_lasts,
        .acts = 30,
        .pauses_ms = {20, 200, 2000, 5000}});
}

/* ---- the kind ---- */

/* Each with properties of its own, so that any of them go together. */
static const struct model_step RECIPES[] = {
    {MODEL_ADD, "Language", NULL, EDM_STRING, "\"en\"", false, NULL},
    {MODEL_ADD_LOWER, "Slug", NULL, EDM_STRING, "Title", false, NULL},
    {MODEL_ADD, "Limit", NULL, EDM_INT64, "\"9007199254740993\"", false, NULL},
    {MODEL_SET, "Checked", NULL, EDM_BOOLEAN, "false", false, NULL},
    {MODEL_SET, "Stamp", NULL, EDM_DATETIME, "\"2024-02-29T12:34:56.1234567Z\"",
        false, NULL},
    {MODEL_RENAME, "Text", "Body", EDM_STRING, NULL, false, NULL},
    {MODEL_RETYPE, "Rating", NULL, EDM_DOUBLE, NULL, false, "fail"},
    {MODEL_RETYPE, "Score", "ScoreNumber", EDM_INT32, NULL, false, "fail"},
    {MODEL_RETYPE, "Size", "SizeText", EDM_STRING, NULL, false, "fail"},
    {MODEL_RETYPE, "When", NULL, EDM_INT64, NULL, false, "fail"},
    {MODEL_RETYPE, "Amount", NULL, EDM_INT32, NULL, true, "fail"},
    {MODEL_RETYPE, "Large", NULL, EDM_DOUBLE, NULL, false, "fail"},
    {MODEL_REMOVE, "Legacy", NULL, EDM_STRING, NULL, false, NULL},
};

/* Of the second in a chain. */
static const struct model_step SECOND[] = {
    {MODEL_RENAME, "Title", "Heading", EDM_STRING, NULL, false, NULL},
    {MODEL_ADD, "Level", NULL, EDM_INT32, "3", false, NULL},
    {MODEL_SET, "Checked", NULL, EDM_STRING, "\"yes\"", false, NULL},
    {MODEL_REMOVE, "Bytes", NULL, EDM_STRING, NULL, false, NULL},
};

static void draw_steps(
    struct model_upgrade *upgrade, const struct model_step *from, size_t count)
{
    static const char *const ON_ERROR[] = {"fail", "skip", "null"};

    while (upgrade->count == 0)
        for (size_t i = 0; i < count; i++) {
            struct model_step *step = &upgrade->steps[upgrade->count];

            *step = from[i];
            if (!sim_chance(60) || (upgrade->phase != MODEL_ALL &&
                                       step->type == MODEL_RETYPE && !step->to))
                continue;
            if (step->type == MODEL_RETYPE)
                step->on_error = SIM_PICK(ON_ERROR);
            upgrade->count++;
        }
}

static void draw_jobs(struct upgrade_state *s)
{
    struct model_upgrade *first = &s->jobs[0], *second = &s->jobs[1];
    unsigned shape = sim_draw(10);

    s->by_argument = sim_chance(50);
    s->filtered = s->by_argument || sim_chance(70);
    *first = (struct model_upgrade){
        .filter_property = s->filtered ? "EntityType" : NULL,
        .filter_value = KINDS[0],
        .version = "SchemaVersion",
        .from = 1,
        .to = 2,
        .texts = sim_chance(20),
        .absent_is_at = true,
        .phase = shape < 3 ? MODEL_EXPAND : MODEL_ALL};
    draw_steps(first, RECIPES, sizeof(RECIPES) / sizeof(RECIPES[0]));
    s->job_count = shape < 6 ? 2 : 1;
    *second = *first;
    if (shape < 3) {
        second->phase = MODEL_CONTRACT;
    } else {
        second->from = 2;
        second->to = 3;
        second->absent_is_at = false;
        second->count = 0;
        draw_steps(second, SECOND, sizeof(SECOND) / sizeof(SECOND[0]));
    }
}

static void add_thing(struct upgrade_state *s, int partition, int number)
{
    struct thing *thing = &s->things[s->count++];

    thing->partition_key = arena_format(&s->arena, "p%d", partition);
    thing->row_key = arena_format(&s->arena, "e%02d", number);
}

static void *begin(struct sim *sim)
{
    static const char *const PASSES[] = {
        "", "    max_passes: 5\n", "    max_passes: 20\n"};
    struct upgrade_state *s = mem_alloc(sizeof(*s));
    int partitions = 1 + (int)sim_draw(PARTITIONS_MAX);
    unsigned tries = 5 + sim_draw(60);

    s->sim = sim;
    sim->state = s; /* what it writes now is judged already */
    arena_init(&s->arena);
    draw_jobs(s);
    s->bad = SIM_PICK(((unsigned[]){0, 0, 5, 30}));
    for (unsigned n = 0; n < SIM_DEFINITIONS; n++)
        s->passes[n] = SIM_PICK(PASSES);
    sim_create_table(sim, TABLE);
    for (int i = 0; i < partitions * NUMBERS; i++)
        add_thing(s, i / NUMBERS, i % NUMBERS);
    for (unsigned i = 0; i < tries; i++)
        inserts(s, sim_chance(25));
    return s;
}

static void add_job(const struct upgrade_state *s, int job, const char *name,
    unsigned n, struct buf *to)
{
    static const char *const PHASES[] = {[MODEL_ALL] = "all",
        [MODEL_EXPAND] = "expand",
        [MODEL_CONTRACT] = "contract"};
    const struct model_upgrade *upgrade = &s->jobs[job];
    const char *quote = upgrade->texts ? "\"" : "";

    buf_add_format(to,
        "%s:\n"
        "    kind: schema-upgrade\n"
        "    args: [" SIM_ARGUMENT "]\n"
        "    table: " TABLE "\n",
        name);
    if (s->filtered)
        buf_add_format(to, "    filter: \"EntityType eq '%s'\"\n",
            s->by_argument ? "{" SIM_ARGUMENT "}" : KINDS[0]);
    buf_add_format(to,
        "    version: {property: %s, from: %s%d%s, to: %s%d%s}\n"
        "    phase: %s\n%s"
        "    steps:\n",
        upgrade->version, quote, upgrade->from, quote, quote, upgrade->to,
        quote, PHASES[upgrade->phase], s->passes[n]);
    model_add_steps(upgrade, to);
}

static char *job(void *state, unsigned n)
{
    const struct upgrade_state *s = state;
    struct buf text;

    buf_init(&text, 64 * 1024);
    add_job(s, 0, SIM_JOB, n, &text);
    if (s->job_count > 1)
        add_job(s, 1, SECOND_JOB, n, &text);
    return buf_take(&text);
}

/* ---- the end ---- */

/* Does anything keep a contract of that argument from its work? */
static bool is_held_up(const struct upgrade_state *s, const char *what)
{
    for (int i = 0; i < s->count; i++)
        if (s->things[i].standings[0].its &&
            strcmp(s->things[i].what, what) == 0)
            return true;
    return false;
}

/* The last runs have left nothing that could be done. */
static void judge_left(struct upgrade_state *s, const struct thing *thing)
{
    for (int job = 0; job < s->job_count; job++)
        if (thing->standings[job].end == MODEL_CHANGED &&
            !(is_contract(s, job) && is_held_up(s, thing->what)))
            sim_complain(s->sim, "%.*s/%.*s is left as it was by job %d",
                WHERE(thing), job + 1);
}

static void end(void *state)
{
    struct upgrade_state *s = state;

    judge_table(s);
    for (int i = 0; i < s->count; i++)
        if (s->things[i].alive)
            judge_left(s, &s->things[i]);
    arena_done(&s->arena);
    mem_free(s);
}

const struct sim_kind sim_upgrade = {
    .name = "schema-upgrade",
    .begin = begin,
    .job = job,
    .front_ends = front_ends,
    .committed = committed,
    .run_moved = run_moved,
    .end = end,
};
