/* SPDX-License-Identifier: MIT */
/* What the tables of a migration may be: see copies.h. */
#include "tests/simulate/copies.h"

#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "worker/base/mem.h"

#define THINGS_MAX 48
#define SPANS_MAX 64

/* So long a lease lasts at most, in which who was cancelled may not hear it. */
#define HEARS_MS 30000

/* From when to when a run was at work. */
struct span {
    const struct sim_run *run;
    int64_t begun_ms, ended_ms;
};

struct copies {
    struct sim *sim;
    struct arena arena;
    struct copies_rules rules;
    struct thing things[THINGS_MAX];
    int count;
    struct cell *cells;
    struct span spans[SPANS_MAX];
    int span_count;
    int64_t last_user_ms;
    int64_t meddled_ms; /* a user's last write to a copy */
    bool rest;
};

#define KEYS(entity)                                                           \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

struct copies *copies_new(struct sim *sim, const struct copies_rules *rules)
{
    struct copies *copies = mem_alloc(sizeof(*copies));

    copies->sim = sim;
    copies->rules = *rules;
    arena_init(&copies->arena);
    return copies;
}

void copies_free(struct copies *copies)
{
    arena_done(&copies->arena);
    mem_free(copies);
}

/* ---- things ---- */

struct thing *copies_add(
    struct copies *copies, struct slice partition_key, struct slice row_key)
{
    struct thing *thing = &copies->things[copies->count++];

    thing->partition_key = arena_copy(&copies->arena, partition_key);
    thing->row_key = arena_copy(&copies->arena, row_key);
    return thing;
}

struct thing *copies_some(struct copies *copies)
{
    return &copies->things[sim_draw((unsigned)copies->count)];
}

int copies_alive(const struct copies *copies)
{
    int alive = 0;

    for (int i = 0; i < copies->count; i++)
        alive += copies->things[i].alive;
    return alive;
}

static struct thing *thing_at(
    struct copies *copies, struct slice partition_key, struct slice row_key)
{
    for (int i = 0; i < copies->count; i++)
        if (slice_equal(copies->things[i].partition_key, partition_key) &&
            slice_equal(copies->things[i].row_key, row_key))
            return &copies->things[i];
    return NULL;
}

/* In a table that copies may be in too. */
static bool is_source(
    struct copies *copies, const char *table, const struct entity *entity)
{
    return strcmp(table, COPIES_SOURCE) == 0 &&
           thing_at(copies, entity->partition_key, entity->row_key);
}

static struct version *version_of(const struct thing *thing, struct slice etag)
{
    struct version *version = thing->last;

    while (version && !slice_equal(version->now.etag, etag))
        version = version->before;
    return version;
}

/* Would a run with that argument take it? run NULL: any run at all. */
static bool is_meant(const struct copies *copies, const struct sim_run *run,
    const struct version *version)
{
    const struct copies_rules *rules = &copies->rules;
    const struct property *kind =
        entity_find(&version->now, slice_of("EntityType"));
    char json[80];

    if (!rules->filtered)
        return true;
    if (rules->by_argument && !run)
        return kind && !slice_is(kind->json, "\"Channel\"");
    (void)snprintf(json, sizeof(json), "\"%s\"",
        rules->by_argument ? run->what : rules->kind);
    return kind && kind->type == EDM_STRING && slice_is(kind->json, json);
}

/* ---- cells ---- */

static struct cell *cell_at(
    struct copies *copies, struct slice table, const struct entity *entity)
{
    struct cell *cell = copies->cells;

    while (cell &&
           !(slice_equal(cell->table, table) &&
               slice_equal(cell->now.partition_key, entity->partition_key) &&
               slice_equal(cell->now.row_key, entity->row_key)))
        cell = cell->next;
    return cell;
}

static struct cell *cell_for(
    struct copies *copies, struct slice table, const struct entity *entity)
{
    struct cell *cell = cell_at(copies, table, entity);

    if (cell)
        return cell;
    cell = arena_alloc(&copies->arena, sizeof(*cell));
    cell->table = arena_copy(&copies->arena, table);
    entity_init(
        &cell->now, &copies->arena, entity->partition_key, entity->row_key);
    cell->next = copies->cells;
    copies->cells = cell;
    return cell;
}

const struct cell *copies_some_cell(struct copies *copies)
{
    unsigned alive = 0, drawn;

    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        alive += cell->alive;
    if (alive == 0)
        return NULL;
    drawn = sim_draw(alive);
    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        if (cell->alive && drawn-- == 0)
            return cell;
    return NULL;
}

/* How a copy of a version stands. */
enum standing {
    STANDS,     /* it is there, or what equals it */
    TOUCHED,    /* a user has had a hand in it since the version was made */
    MISSING,    /* nothing, or a copy of another state */
    IN_THE_WAY, /* something else is there, which on_conflict is about */
    COLLIDES,   /* a copy of another source is there */
    IMPOSSIBLE, /* no copy can be made */
};

/* Is it what the copy would be, to whoever looks at it? */
static bool is_equal(const struct copies *copies, const struct entity *there,
    const struct entity *made)
{
    return copies->rules.on_conflict == COPIES_MERGE
               ? copy_model_covers(there, made)
               : copy_model_same(there, made);
}

static enum standing stands(struct copies *copies, const struct thing *thing,
    const struct version *version, size_t target)
{
    const struct copy_model *model = &copies->rules.model;
    const struct cell *cell;
    struct entity made;

    if (!copy_model_make(model, target, &version->now, &copies->arena, &made))
        return IMPOSSIBLE;
    cell = cell_at(copies, slice_of(model->targets[target].table), &made);
    if (cell && cell->user_ms >= version->since_ms && !copies->rules.reindex)
        return TOUCHED;
    if (!cell || !cell->alive)
        return MISSING;
    if (cell->marked && cell->of != thing)
        return COLLIDES;
    if (cell->marked && cell->holds == version)
        return copies->rules.reindex && !is_equal(copies, &cell->now, &made)
                   ? MISSING
                   : STANDS;
    if (cell->marked)
        return cell->touched && !copies->rules.reindex &&
                       !is_equal(copies, &cell->now, &made)
                   ? IN_THE_WAY
                   : MISSING;
    return is_equal(copies, &cell->now, &made) ? STANDS : IN_THE_WAY;
}

/* Do all its copies? */
static bool all_stand(struct copies *copies, const struct thing *thing,
    const struct version *version)
{
    for (size_t i = 0; i < copies->rules.model.count; i++) {
        enum standing standing = stands(copies, thing, version, i);

        if (standing != STANDS && standing != TOUCHED)
            return false;
    }
    return true;
}

/* ---- runs ---- */

/* One that was cancelled may write for a moment, until it hears. */
static bool is_at_work(const struct sim_run *run)
{
    return run && run->claimed_ms > 0 &&
           (!run->ended || run->now.state == LEDGER_CANCELLED);
}

static const struct sim_run *run_named(
    const struct copies *copies, const struct copy_source *source)
{
    char key[sizeof(((struct sim_run *)0)->key)];

    (void)snprintf(key, sizeof(key), "%.*s/%.*s", SLICE_ARG(source->job),
        SLICE_ARG(source->run));
    return book_find(copies->sim->book, slice_of(key));
}

static struct span *span_of(struct copies *copies, const struct sim_run *run)
{
    for (int i = 0; i < copies->span_count; i++)
        if (copies->spans[i].run == run)
            return &copies->spans[i];
    return NULL;
}

void copies_run_moved(struct copies *copies, const struct sim_run *run)
{
    struct span *span = span_of(copies, run);

    if (!span && run->claimed_ms > 0 && copies->span_count < SPANS_MAX) {
        span = &copies->spans[copies->span_count++];
        *span = (struct span){run, run->claimed_ms, INT64_MAX};
    }
    if (span && run->now.state == LEDGER_CANCELLED)
        span->ended_ms = virtual_ms() + HEARS_MS;
    else if (span)
        span->ended_ms = run->ended ? virtual_ms() : INT64_MAX;
}

/* Was another at work at the same time? */
static bool is_overlapped(struct copies *copies, const struct sim_run *run)
{
    const struct span *own = span_of(copies, run);

    for (int i = 0; own && i < copies->span_count; i++) {
        const struct span *span = &copies->spans[i];

        if (span != own && span->begun_ms <= own->ended_ms &&
            span->ended_ms >= own->begun_ms)
            return true;
    }
    return false;
}

/* ---- what a worker may write ---- */

/* A move makes another run's copy nobody's before it relies on it: the other
 * one does not take it back then. */
static bool makes_nobodys(struct copies *copies, const struct cell *cell,
    const struct version *version, const struct entity *stored)
{
    struct copy_source source;

    return copies->rules.move && cell->alive && cell->marked &&
           cell->holds == version && copy_model_same(&cell->now, stored) &&
           cell->run && copy_model_source(stored, &copies->arena, &source) &&
           source.run.len == 0;
}

static void judge_over(struct copies *copies, const struct cell *cell,
    const struct thing *thing, const struct version *version,
    const struct entity *made)
{
    enum copies_conflict on_conflict = copies->rules.on_conflict;
    bool forced = on_conflict == COPIES_REPLACE ||
                  on_conflict == COPIES_MERGE || copies->rules.reindex;
    bool repairs = copies->rules.reindex && cell->touched &&
                   !is_equal(copies, &cell->now, made);
    const char *what = NULL;

    if (cell->marked && cell->of != thing)
        what = "takes the place of another source's copy";
    else if (cell->marked && cell->holds->number > version->number)
        what = "goes back to an older state of its source";
    else if (cell->marked && cell->holds == version && !repairs)
        what = "is written again, and was that already";
    else if (cell->marked && cell->touched && !forced &&
             !is_equal(copies, &cell->now, made))
        what = "takes the place of what a user has made of it";
    else if (!cell->marked && is_equal(copies, &cell->now, made))
        what = "takes the place of what is equal";
    else if (!cell->marked && !forced)
        what = "takes the place of what is no copy";
    if (what)
        sim_complain(copies->sim, "%.*s: %.*s/%.*s %s", SLICE_ARG(cell->table),
            KEYS(made), what);
}

/* As the job makes it; merged, over what was there. */
static bool is_as_made(struct copies *copies, const struct cell *cell,
    const struct entity *made, const struct entity *stored)
{
    struct entity merged;

    if (copy_model_same(made, stored))
        return true;
    if (copies->rules.on_conflict != COPIES_MERGE || !cell || !cell->alive)
        return false;
    entity_copy(&merged, &copies->arena, &cell->now);
    copy_model_lay(&merged, made, &copies->arena);
    return copy_model_same(&merged, stored);
}

/* Which of the copies of that version it is. False: none. */
static bool find_made(struct copies *copies, const struct batch *batch,
    const struct entity *stored, const struct version *version,
    struct entity *ret)
{
    const struct copy_model *model = &copies->rules.model;

    for (size_t i = 0; i < model->count; i++)
        if (strcmp(model->targets[i].table, batch->table) == 0 &&
            copy_model_make(model, i, &version->now, &copies->arena, ret) &&
            slice_equal(ret->partition_key, stored->partition_key) &&
            slice_equal(ret->row_key, stored->row_key))
            return true;
    return false;
}

static void judge_copy(struct copies *copies, const struct batch *batch,
    const struct operation *operation, const struct copy_source *source)
{
    const struct entity *stored = &operation->entity;
    struct thing *thing =
        thing_at(copies, source->partition_key, source->row_key);
    const struct version *version =
        thing ? version_of(thing, source->etag) : NULL;
    const struct sim_run *run = run_named(copies, source);
    const struct cell *cell = cell_at(copies, slice_of(batch->table), stored);
    bool nobodys = cell && makes_nobodys(copies, cell, version, stored);
    struct entity made;
    const char *what = NULL;

    if (!slice_is(source->store, "main") ||
        !slice_is(source->table, COPIES_SOURCE) ||
        !slice_is(source->job, SIM_JOB))
        what = "says that it is from somewhere else";
    else if (!version)
        what = "says that it is of what never was";
    else if (!nobodys && !is_at_work(run))
        what = "is of a run that is not at work";
    else if (!nobodys && !is_meant(copies, run, version))
        what = "is of what that run does not mean";
    else if (!find_made(copies, batch, stored, version, &made))
        what = "is where no copy of its source should be";
    else if (!is_as_made(copies, cell, &made, stored))
        what = "is not as the job makes it";
    if (what)
        sim_complain(
            copies->sim, "%s: %.*s/%.*s %s", batch->table, KEYS(stored), what);
    else if (copies->rest && !nobodys)
        sim_complain(copies->sim,
            "%s: %.*s/%.*s is written, and nothing was left to do",
            batch->table, KEYS(stored));
    else if (cell && cell->alive && !nobodys)
        judge_over(copies, cell, thing, version, &made);
}

/* Without a word of its source: it was taken off. */
static void judge_stripped(struct copies *copies, const struct batch *batch,
    const struct operation *operation)
{
    const struct entity *stored = &operation->entity;
    const struct cell *cell = cell_at(copies, slice_of(batch->table), stored);
    bool was = cell && cell->alive && cell->marked &&
               copy_model_same(&cell->now, stored);

    if (!copies->rules.strip || operation->type != OPERATION_REPLACE || !was)
        sim_complain(copies->sim,
            "%s: %.*s/%.*s is written, and does not say of what it is a copy",
            batch->table, KEYS(stored));
}

/* Where a user has deleted what another run has moved there, it goes again. */
static void judge_pruned(struct copies *copies, const struct batch *batch,
    const struct operation *operation)
{
    const struct cell *cell =
        cell_at(copies, slice_of(batch->table), &operation->entity);
    const struct thing *thing = cell ? cell->of : NULL;
    const char *what = NULL;

    if (!cell || !cell->alive || !cell->marked || !thing)
        what = "is no copy";
    else if (cell->touched && !copies->rules.reindex)
        what = "was changed by a user";
    else if (!copies->rules.reindex && !is_at_work(cell->run))
        what = "is of a run that is not at work";
    else if (!copies->rules.move && thing->alive &&
             thing->last == cell->holds && is_meant(copies, NULL, cell->holds))
        what = "is of a source that is as it was copied";
    else if (thing->last == cell->holds && cell->holds->moved &&
             cell->user_ms == 0)
        what = "is all there is";
    if (what)
        sim_complain(copies->sim, "%s: %.*s/%.*s goes, and %s", batch->table,
            KEYS(&operation->entity), what);
}

/* One whose work it may be. */
struct search {
    const struct copies *copies;
    const struct version *version;
};

static bool may_move(const void *ctx, const struct sim_run *run)
{
    const struct search *search = ctx;

    return is_at_work(run) && is_meant(search->copies, run, search->version);
}

static void judge_source_gone(struct copies *copies, const struct thing *thing)
{
    struct search search = {copies, thing->last};
    const char *what = NULL;

    if (!copies->rules.move)
        what = "it is no move";
    else if (!book_any(copies->sim->book, may_move, &search))
        what = "no run may take it";
    else if (!all_stand(copies, thing, thing->last))
        what = "it is not at the destination";
    if (what)
        sim_complain(copies->sim, COPIES_SOURCE ": %.*s/%.*s goes, and %s",
            KEYS(thing), what);
}

static void judge_worker(struct copies *copies, const struct batch *batch,
    const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    struct copy_source source;

    if (copies->rest && operation->type == OPERATION_DELETE)
        sim_complain(copies->sim,
            "%s: %.*s/%.*s is deleted, and nothing was left to do",
            batch->table, KEYS(entity));
    else if (operation->type == OPERATION_MERGE)
        sim_complain(copies->sim, "%s: %.*s/%.*s: a worker merges",
            batch->table, KEYS(entity));
    else if (is_source(copies, batch->table, entity) &&
             operation->type == OPERATION_DELETE)
        judge_source_gone(
            copies, thing_at(copies, entity->partition_key, entity->row_key));
    else if (strcmp(batch->table, COPIES_TARGET) != 0 &&
             strcmp(batch->table, COPIES_OTHER) != 0 &&
             (strcmp(batch->table, COPIES_SOURCE) != 0 ||
                 !copies->rules.reindex))
        sim_complain(copies->sim, "a worker writes to table %s", batch->table);
    else if (operation->type == OPERATION_DELETE)
        judge_pruned(copies, batch, operation);
    else if (copy_model_source(entity, &copies->arena, &source))
        judge_copy(copies, batch, operation, &source);
    else
        judge_stripped(copies, batch, operation);
}

/* ---- what is stored ---- */

static void store_thing(struct copies *copies, struct thing *thing,
    const struct operation *operation, const char *etag, bool by_user)
{
    struct version *version;

    thing->changed_ms = virtual_ms();
    thing->alive = operation->type != OPERATION_DELETE;
    if (!thing->alive) {
        thing->last->moved = !by_user;
        thing->last->deleted = by_user;
        return;
    }
    version = arena_alloc(&copies->arena, sizeof(*version));
    if (operation->type == OPERATION_MERGE) {
        entity_copy(&version->now, &copies->arena, &thing->last->now);
        for (size_t i = 0; i < operation->entity.property_count; i++)
            entity_set(&version->now, &copies->arena,
                &operation->entity.properties[i]);
    } else {
        entity_copy(&version->now, &copies->arena, &operation->entity);
    }
    version->now.etag = arena_copy(&copies->arena, slice_of(etag));
    version->since_ms = virtual_ms();
    version->number = thing->last ? thing->last->number + 1 : 1;
    version->before = thing->last;
    thing->last = version;
}

/* Of whom it is now. What was stripped is what it was. */
static void note_source(struct copies *copies, struct cell *cell, bool by_user)
{
    struct copy_source source;
    bool marked = copy_model_source(&cell->now, &copies->arena, &source);

    if (marked && !by_user) {
        cell->of = thing_at(copies, source.partition_key, source.row_key);
        cell->holds = cell->of ? version_of(cell->of, source.etag) : NULL;
        cell->run = run_named(copies, &source);
    } else if (!marked && by_user) {
        cell->of = NULL;
        cell->holds = NULL;
    }
    cell->marked = marked && cell->holds;
}

/* A worker's write that takes the provenance off, and nothing else. */
static bool is_strip(struct copies *copies, const struct operation *operation)
{
    struct copy_source source;

    return operation->type == OPERATION_REPLACE &&
           !copy_model_source(&operation->entity, &copies->arena, &source);
}

static void store_cell(struct copies *copies, struct cell *cell,
    const struct operation *operation, const char *etag, bool by_user)
{
    const struct cell was = *cell;

    /* What a user has made of it stays so without its provenance. */
    cell->touched = by_user || (cell->touched && is_strip(copies, operation));
    if (by_user)
        copies->meddled_ms = cell->user_ms = virtual_ms();
    cell->alive = operation->type != OPERATION_DELETE;
    if (cell->alive) {
        entity_copy(&cell->now, &copies->arena, &operation->entity);
        cell->now.etag = arena_copy(&copies->arena, slice_of(etag));
        note_source(copies, cell, by_user);
    } else {
        cell->marked = false;
    }
    cell->forced =
        !by_user && was.alive &&
        (was.touched || was.forced || !was.marked || was.run != cell->run);
}

void copies_committed(struct copies *copies, const struct sim_commit *commit)
{
    const struct batch *batch = commit->batch;
    bool by_user = commit->by_front_end;

    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        const struct entity *entity = &operation->entity;
        bool of_source = is_source(copies, batch->table, entity);
        const char *etag = commit->result->etags[i];

        virtual_note("%s %s %d %.*s/%.*s %s", by_user ? "user" : "worker",
            batch->table, (int)operation->type, KEYS(entity), etag);
        if (by_user)
            copies->last_user_ms = virtual_ms();
        else
            judge_worker(copies, batch, operation);
        if (of_source)
            store_thing(copies,
                thing_at(copies, entity->partition_key, entity->row_key),
                operation, etag, by_user);
        else
            store_cell(copies, cell_for(copies, slice_of(batch->table), entity),
                operation, etag, by_user);
    }
}

void copies_unsure(struct copies *copies, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct entity *entity = &batch->operations[i].entity;
        bool of_source = is_source(copies, batch->table, entity);
        struct copy_source source;
        struct cell *cell = cell_at(copies, slice_of(batch->table), entity);
        struct thing *thing = cell ? cell->of : NULL;

        if (of_source)
            thing = thing_at(copies, entity->partition_key, entity->row_key);
        else if (copy_model_source(entity, &copies->arena, &source))
            thing = thing_at(copies, source.partition_key, source.row_key);
        if (thing)
            thing->unsure = true;
    }
}

/* ---- how a run may end ---- */

/* What has stood so from before then, it has met. */
static int64_t look_ms(const struct sim_run *run)
{
    return run->looked_before_ms > run->claimed_ms ? run->looked_before_ms
                                                   : run->claimed_ms;
}

/* How a source stands to a run. */
enum state {
    NOT_ITS,
    DONE,
    SKIPPED, /* on_conflict: skip */
    FAILS,
    LEFT,    /* it could be copied, and was not */
    UNKNOWN, /* users have a hand in its copies */
};

/* Worst of its copies. */
static enum state state_of(
    struct copies *copies, const struct thing *thing, const struct sim_run *run)
{
    bool skip = copies->rules.on_conflict == COPIES_SKIP;
    bool fail = copies->rules.on_conflict == COPIES_FAIL;
    enum state state = copies->rules.move ? LEFT : DONE;
    bool missing = false;

    if (!thing->alive || !is_meant(copies, run, thing->last))
        return NOT_ITS;
    for (size_t i = 0; i < copies->rules.model.count; i++) {
        enum standing standing = stands(copies, thing, thing->last, i);

        if (standing == IMPOSSIBLE || standing == COLLIDES ||
            (standing == IN_THE_WAY && fail))
            return FAILS;
        if (standing == TOUCHED)
            return UNKNOWN;
        missing =
            missing || standing == MISSING || (standing == IN_THE_WAY && !skip);
        if (standing == IN_THE_WAY && skip)
            state = SKIPPED;
    }
    /* It stays in the source, whatever its other copies are. */
    if (missing && !(copies->rules.move && state == SKIPPED))
        return LEFT;
    return state;
}

/* Of the destinations' copies, one whose source is no more as it was copied.
 * since_ms: it has not been so from before then. */
static bool is_surplus(const struct cell *cell, int64_t since_ms)
{
    const struct thing *thing = cell->of;

    return cell->alive && thing && cell->holds && cell->user_ms < since_ms &&
           (!cell->touched || cell->marked) && thing->changed_ms < since_ms &&
           !(thing->alive && thing->last == cell->holds) && !cell->holds->moved;
}

/* May it be that a user's delete was undone? Or does it stand where a worker
 * has replaced what others had made, and what a move does not take back? */
static bool is_excused(
    struct copies *copies, const struct cell *cell, const struct sim_run *run)
{
    return copies->rules.on_conflict == COPIES_MERGE ||
           (copies->rules.move && !cell->of->alive &&
               (cell->of->unsure || cell->forced || run->now.epoch > 1));
}

/* Of a source that is there, and not selected any more: it may be that of a run
 * with another argument. */
static bool is_of_others(
    struct copies *copies, const struct cell *cell, const struct sim_run *run)
{
    return cell->run != run && cell->of->alive &&
           !is_meant(copies, run, cell->of->last);
}

/* Of a source that a move leaves where it is, because another copy of it is
 * refused. */
static bool is_part(struct copies *copies, const struct cell *cell)
{
    bool refuses =
        copies->rules.move && (copies->rules.on_conflict == COPIES_SKIP ||
                                  copies->rules.on_conflict == COPIES_FAIL);

    for (size_t i = 0; i < copies->rules.model.count && refuses; i++) {
        enum standing standing = stands(copies, cell->of, cell->holds, i);

        if (standing == IN_THE_WAY || standing == TOUCHED)
            return true;
    }
    return false;
}

static void judge_surplus(struct copies *copies, const struct sim_run *run)
{
    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        if ((copies->rules.reindex || (cell->run == run && !cell->touched)) &&
            is_surplus(cell, look_ms(run)) && !is_excused(copies, cell, run) &&
            !is_part(copies, cell) && !is_of_others(copies, cell, run))
            sim_complain(copies->sim,
                "%s has succeeded, and %.*s %.*s/%.*s is left over", run->key,
                SLICE_ARG(cell->table), KEYS(&cell->now));
        else if (cell->run == run && cell->alive && cell->marked &&
                 !cell->touched && copies->rules.strip)
            sim_complain(copies->sim,
                "%s has succeeded, and %.*s/%.*s says of what it is a copy",
                run->key, KEYS(&cell->now));
}

static void judge_success(struct copies *copies, const struct sim_run *run)
{
    if (run->now.failed > 0)
        sim_complain(copies->sim, "%s has succeeded, and counts %lld failed",
            run->key, (long long)run->now.failed);
    for (int i = 0; i < copies->count; i++) {
        const struct thing *thing = &copies->things[i];
        enum state state = state_of(copies, thing, run);

        if (thing->changed_ms >= look_ms(run) ||
            (copies->rules.reindex && copies->meddled_ms >= look_ms(run)))
            continue;
        if (state == LEFT)
            sim_complain(copies->sim, "%s has succeeded, and left %.*s/%.*s",
                run->key, KEYS(thing));
        else if (state == FAILS)
            sim_complain(copies->sim,
                "%s has succeeded, and %.*s/%.*s cannot be copied", run->key,
                KEYS(thing));
        else if (state == SKIPPED && run->now.skipped == 0)
            sim_complain(copies->sim,
                "%s has skipped %.*s/%.*s, and does not count it", run->key,
                KEYS(thing));
    }
    if (!is_overlapped(copies, run))
        judge_surplus(copies, run);
}

static bool is_touched(const struct copies *copies)
{
    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        if (cell->alive && cell->touched && cell->marked)
            return true;
    return false;
}

/* Whoever has written them, and had a hand in them. */
static bool has_surplus(const struct copies *copies)
{
    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        if (cell->alive && cell->marked && !cell->holds->moved &&
            !(cell->of->alive && cell->of->last == cell->holds))
            return true;
    return false;
}

/* Of what is no copy, or none any more, one may share a bucket of the tally
 * with a copy that says no more that it is one: that is looked at closely. */
static bool has_strangers(const struct copies *copies)
{
    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        if (cell->alive && !cell->marked &&
            !(cell->of && cell->of->alive && cell->of->last == cell->holds))
            return true;
    return false;
}

/* Users have written since it began: passes may find something for ever, and
 * what has failed may be another thing now. */
static bool had_company(const struct copies *copies, const struct sim_run *run)
{
    return copies->last_user_ms >= run->claimed_ms;
}

static bool is_cancelled(const void *ctx, const struct sim_run *run)
{
    (void)ctx;
    return run->now.state == LEDGER_CANCELLED;
}

static bool is_last(const struct sim_run *run)
{
    return strncmp(run->key, SIM_JOB "/last", strlen(SIM_JOB "/last")) == 0;
}

/* Has another run gone on beside or behind one of the last? */
static bool was_not_last(const struct copies *copies)
{
    for (int i = 0; i < copies->span_count; i++)
        for (int j = 0; j < copies->span_count; j++)
            if (is_last(copies->spans[i].run) &&
                !is_last(copies->spans[j].run) &&
                copies->spans[j].ended_ms >= copies->spans[i].begun_ms)
                return true;
    return false;
}

/*
 * What was in the way of a copy may have gone with a run that came later. What
 * a run that was cancelled had sent may have landed behind all others: nobody
 * waits for it. And of a source that stays, because one of its copies was
 * refused, a run that selects it no more may have taken back the others.
 */
void copies_rest(struct copies *copies)
{
    bool cancelled = book_any(copies->sim->book, is_cancelled, NULL);
    bool several = copies->rules.move && copies->rules.model.count > 1;

    copies->rest = !(cancelled && has_surplus(copies)) &&
                   !(several && was_not_last(copies));
    for (int i = 0; i < copies->count; i++)
        if (state_of(copies, &copies->things[i], NULL) == LEFT)
            copies->rest = false;
}

static void judge_failure(struct copies *copies, const struct sim_run *run)
{
    int failing = 0, most = 0;

    for (int i = 0; i < copies->count; i++) {
        enum state state = state_of(copies, &copies->things[i], run);

        failing += state == FAILS;
        most += state == FAILS || state == UNKNOWN;
        if (state == LEFT)
            sim_complain(copies->sim,
                "%s has failed (%.*s), and left %.*s/%.*s", run->key,
                SLICE_ARG(run->now.error), KEYS(&copies->things[i]));
    }
    if (most == 0 && !has_surplus(copies))
        sim_complain(copies->sim, "%s has failed, and nothing does: %.*s",
            run->key, SLICE_ARG(run->now.error));
    else if (run->now.failed < failing ||
             run->now.failed > (int64_t)most * COPY_TARGETS_MAX)
        sim_complain(copies->sim,
            "%s has failed with %lld entities, and there are %d to %d: %.*s",
            run->key, (long long)run->now.failed, failing, most,
            SLICE_ARG(run->now.error));
}

void copies_judge_end(struct copies *copies, const struct sim_run *run)
{
    if (run->now.state == LEDGER_SUCCEEDED)
        judge_success(copies, run);
    else if (run->now.state == LEDGER_CANCELLED)
        return;
    else if (run->now.state != LEDGER_FAILED)
        sim_complain(copies->sim, "%s has ended %s: %.*s", run->key,
            ledger_state_name(run->now.state), SLICE_ARG(run->now.error));
    else if (!had_company(copies, run) && !is_overlapped(copies, run))
        judge_failure(copies, run);
    if (copies->rest && run->looks > 1 && run->now.epoch == 1 &&
        run->now.failed == 0 && run->now.skipped == 0 && run->now.read > 0 &&
        !copies->rules.by_argument &&
        copies->rules.on_conflict != COPIES_MERGE && !has_surplus(copies) &&
        !has_strangers(copies) && !is_touched(copies))
        sim_complain(
            copies->sim, "%s reads the source %u times", run->key, run->looks);
}

/* ---- who reads ---- */

void copies_judge_reader(
    struct copies *copies, const struct thing *thing, const struct version *was)
{
    const struct copy_model *model = &copies->rules.model;

    if (thing->alive || thing->last != was || !was->moved)
        return;
    for (size_t i = 0; i < model->count; i++) {
        struct entity made;
        struct page page;

        page_init(&page);
        if (copy_model_make(model, i, &was->now, &copies->arena, &made) &&
            stands(copies, thing, was, i) != TOUCHED &&
            !sim_get(copies->sim, model->targets[i].table, made.partition_key,
                made.row_key, &page))
            sim_complain(copies->sim,
                "%.*s/%.*s is in neither place, to who reads", KEYS(thing));
        page_done(&page);
    }
}

static void judge_seen(
    void *state, const char *table, const struct entity *seen)
{
    struct copies *copies = state;
    const struct thing *thing =
        thing_at(copies, seen->partition_key, seen->row_key);
    const struct cell *cell = cell_at(copies, slice_of(table), seen);
    const struct entity *known = NULL;

    if (is_source(copies, table, seen))
        known = thing->alive ? &thing->last->now : NULL;
    else if (cell && cell->alive)
        known = &cell->now;
    if (!known || !slice_equal(known->etag, seen->etag) ||
        !copy_model_same(known, seen))
        sim_complain(copies->sim, "%s: %.*s/%.*s is not as it was stored last",
            table, KEYS(seen));
}

/* What the worker has not made yet holds none. */
static int judge_table(struct copies *copies, const char *table)
{
    int count = sim_each(copies->sim, table, judge_seen, copies);

    return count < 0 ? 0 : count;
}

void copies_judge_tables(struct copies *copies)
{
    int cells = 0, seen;

    for (const struct cell *cell = copies->cells; cell; cell = cell->next)
        cells += cell->alive;
    virtual_mask();
    seen = judge_table(copies, COPIES_TARGET) +
           judge_table(copies, COPIES_OTHER) +
           judge_table(copies, COPIES_SOURCE);
    if (seen != cells + copies_alive(copies))
        sim_complain(copies->sim, "an entity is gone that nobody has deleted");
    virtual_unmask();
}
