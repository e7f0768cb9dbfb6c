/* SPDX-License-Identifier: MIT */
/*
 * The kind copy: two jobs keep copies of one table, in another table or as
 * index rows beside their sources. Their runs are requested again and again,
 * and cancelled. An application writes and deletes sources, also so that two
 * sources exchange their copy keys; it edits copies, deletes them, inserts
 * entities of its own at copy keys, and copies copies with their
 * TablewardSource.
 *
 * The judge checks every write of a worker:
 *
 * - the worker writes only copies, each as the job defines it from a state of
 *   the source that a client stored;
 * - it deletes no entity that a client wrote, and replaces such an entity only
 *   if on_conflict allows this (an edited index row belongs to the job).
 *
 * At the end, after a last run of each job, every source has its copy and every
 * copy has its source, unless a client's entity or another source has the key.
 */
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/cells.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define SOURCES "Things"
#define COPIES "Copies"
#define MARK CELLS_MARK
#define ROWS 5
#define MOST_ALIVE 14
#define JOBS 2

static const char *const TABLES[] = {SOURCES, COPIES};
#define TABLE_COUNT 2

enum design {
    SAME_KEYS,
    BY_PROPERTY,  /* RowKey from a property: sources collide and exchange
                     keys */
    BY_PARTITION, /* PartitionKey from a property */
    INDEX_ROWS,   /* index rows in the table of the sources */
    DESIGNS,
};

struct copy_state {
    struct sim *sim;
    struct cells cells;
    enum design designs[JOBS];
    bool selects; /* the first job has a filter */
    bool replaces, skips;
};

/* ---- what the jobs say ---- */

/* True if this cell of the source table is an index row; index rows are never
 * selected. */
static bool is_index_row(const struct cell *cell)
{
    return slice_is(cell->table, SOURCES) && cells_has_mark(cell);
}

static const char *table_of(const struct copy_state *s, int job)
{
    return s->designs[job] == INDEX_ROWS ? SOURCES : COPIES;
}

static bool is_selected(
    const struct copy_state *s, int job, const struct cell *cell)
{
    if (!cell->there || !slice_is(cell->table, SOURCES) || is_index_row(cell))
        return false;
    return job > 0 || !s->selects || !slice_is(cells_group(&cell->now), "k0");
}

/* Returns the copy that the job must make of a source, without TablewardSource.
 * Written separately from the product. The properties are not copied. */
static struct entity copy_of(
    struct copy_state *s, int job, const struct entity *source)
{
    struct arena *arena = &s->cells.arena;
    struct entity copy = entity_without(source, slice_of(MARK), arena);
    struct slice k = cells_group(source);

    switch (s->designs[job]) {
    case BY_PROPERTY:
        copy.row_key = k;
        break;
    case BY_PARTITION:
        copy.partition_key = arena_format(arena, "c%d_%.*s", job, SLICE_ARG(k));
        break;
    case INDEX_ROWS:
        copy.row_key = arena_format(arena, "i:%d:%.*s", job, SLICE_ARG(k));
        break;
    default:
        break;
    }
    return copy;
}

static bool has_keys(const struct entity *a, const struct entity *b)
{
    return slice_equal(a->partition_key, b->partition_key) &&
           slice_equal(a->row_key, b->row_key);
}

/* ---- the judge ---- */

/* True if some job makes this copy of an entity that a client stored. */
static bool is_a_copy(
    struct copy_state *s, const char *table, const struct entity *entity)
{
    struct entity bare =
        entity_without(entity, slice_of(MARK), &s->cells.arena);
    const struct written *written;
    int value = cells_value_of(&s->cells, entity);

    for (written = s->cells.values[value].written; written;
         written = written->before)
        for (int job = 0; job < JOBS; job++) {
            struct entity wanted = copy_of(s, job, &written->entity);

            if (strcmp(table, table_of(s, job)) == 0 &&
                model_same(&bare, &wanted))
                return true;
        }
    return false;
}

/* True if `replace` may adopt what a client wrote there (rule C4). */
static bool may_adopt(const struct copy_state *s, const struct cell *cell)
{
    bool may = !slice_is(cell->table, SOURCES);

    for (int job = 0; job < JOBS && !may; job++)
        may = s->designs[job] == INDEX_ROWS && !is_selected(s, job, cell);
    return s->replaces && may;
}

/* True if a client has restored a copy with its TablewardSource; by rule C1 it
 * is the job's own copy again. */
static bool is_put_back(
    struct copy_state *s, const char *table, const struct cell *cell)
{
    return cells_has_mark(cell) && is_a_copy(s, table, &cell->now);
}

static void judge_worker(
    struct copy_state *s, const char *table, const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    const struct cell *cell =
        cells_find(&s->cells, table, entity->partition_key, entity->row_key);
    bool deletes = operation->type == OPERATION_DELETE;
    const char *what = NULL;

    if (!deletes && !entity_find(entity, slice_of(MARK)))
        what = "is written without " MARK;
    else if (!deletes && !is_a_copy(s, table, entity))
        what = "is written, and is the copy of nothing that was stored";
    else if (cell && cell->there && !slice_equal(cell->now.etag, entity->etag))
        what = "is overwritten on stale knowledge";
    else if (cell && cell->there && cell->client && !is_index_row(cell) &&
             (deletes ? !is_put_back(s, table, cell) : !may_adopt(s, cell)))
        what = deletes ? "is deleted, and a client wrote it"
                       : "is replaced, and a client wrote it";
    if (what)
        sim_complain(
            s->sim, "%s: %.*s/%.*s %s", table, ENTITY_KEYS(entity), what);
}

static void changed(void *state, const struct sim_change *change)
{
    struct copy_state *s = state;

    if (!change->by_front_end)
        judge_worker(s, change->table, change->operation);
    cells_store(&s->cells, change);
}

/* ---- the end ---- */

/* True if another source (of this job or of the other job) has the same copy
 * key. */
static bool is_shared(struct copy_state *s, const char *table,
    const struct entity *copy, const struct cell *source, int of_job)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        for (int job = 0; job < JOBS; job++) {
            struct entity other;

            if ((cell == source && job == of_job) ||
                strcmp(table, table_of(s, job)) != 0 ||
                !is_selected(s, job, cell))
                continue;
            other = copy_of(s, job, &cell->now);
            if (has_keys(&other, copy))
                return true;
        }
    return false;
}

static const struct sim_run *last_run(struct copy_state *s, int job)
{
    static const char *const LAST[JOBS] = {"work/last0", "second/last1"};

    return book_find(s->sim->book, slice_of(LAST[job]));
}

/* True if the copies of the other job may still have been at this job's copy
 * keys when this job's last run ended. FinishedAt comes from a Date of whole
 * seconds. So a run whose FinishedAt is less than a second earlier may have
 * ended later. */
static bool other_left_later(struct copy_state *s, int job)
{
    const struct sim_run *run = last_run(s, job), *other = last_run(s, 1 - job);

    return strcmp(table_of(s, 0), table_of(s, 1)) == 0 && run && other &&
           other->now.finished_ticks + TICKS_PER_S > run->now.finished_ticks;
}

/* True if the other job may have adopted (`replace`) a source of this job as an
 * index row after this job last read its sources. */
static bool other_adopted_later(struct copy_state *s, int job)
{
    const struct sim_run *run = last_run(s, job), *other = last_run(s, 1 - job);

    return s->replaces && s->designs[1 - job] == INDEX_ROWS && run && other &&
           other->now.finished_ticks >= run->now.started_ticks;
}

static void judge_source(
    struct copy_state *s, int job, const struct cell *source)
{
    struct entity wanted = copy_of(s, job, &source->now), is;
    const char *table = table_of(s, job);
    const struct cell *copy =
        cells_find(&s->cells, table, wanted.partition_key, wanted.row_key);

    /* A client's entity remains unless `replace` adopts it. `replace` adopts
     * neither an edited copy, which may be the copy of another source, nor an
     * entity that the job selects (rules C3 and C4). */
    if (is_shared(s, table, &wanted, source, job) ||
        (copy && copy->there && copy->client && !is_index_row(copy) &&
            (!s->replaces || cells_has_mark(copy) ||
                is_selected(s, job, copy))))
        return;
    if (copy && copy->there) {
        is = entity_without(&copy->now, slice_of(MARK), &s->cells.arena);
        if (model_same(&is, &wanted))
            return;
    } else if (other_left_later(s, job)) {
        return;
    }
    sim_complain(s->sim, "job %d: the copy of %.*s/%.*s is %s", job,
        ENTITY_KEYS(&source->now),
        copy && copy->there ? "not as its source" : "missing");
}

/* Complains of a copy without a source. */
static void judge_copy(struct copy_state *s, const struct cell *copy)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        for (int job = 0; job < JOBS; job++) {
            struct entity wanted;

            if (!slice_is(copy->table, table_of(s, job)))
                continue;
            if (other_adopted_later(s, job))
                return;
            if (!is_selected(s, job, cell))
                continue;
            wanted = copy_of(s, job, &cell->now);
            if (has_keys(&wanted, &copy->now))
                return;
        }
    sim_complain(s->sim, "%.*s: %.*s/%.*s is a copy without a source",
        SLICE_ARG(copy->table), ENTITY_KEYS(&copy->now));
}

static void end(void *state)
{
    struct copy_state *s = state;

    cells_judge_tables(&s->cells, TABLES, TABLE_COUNT);
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next) {
        if (!cell->there)
            continue;
        if (!cell->client)
            judge_copy(s, cell);
        for (int job = 0; job < JOBS; job++)
            if (is_selected(s, job, cell))
                judge_source(s, job, cell);
    }
    cells_done(&s->cells);
    mem_free(s);
}

/* ---- front ends ---- */

static void inserts(struct copy_state *s)
{
    struct arena *arena = &s->cells.arena;
    struct entity entity;

    if (cells_alive(&s->cells, SOURCES) >= MOST_ALIVE * 2)
        return;
    entity_init(&entity, arena, arena_format(arena, "p%u", sim_draw(2)),
        arena_format(
            arena, "%c%u", sim_chance(30) ? 'k' : 'r', sim_draw(ROWS)));
    cells_fill(&s->cells, &entity, ROWS);
    (void)sim_write(s->sim, SOURCES, OPERATION_INSERT, &entity, NULL);
}

/* Replaces or deletes an entity, conditional on the ETag that was read. A
 * replaced copy mostly keeps its TablewardSource. */
static void changes(struct copy_state *s, const char *table)
{
    const struct cell *cell = cells_some(&s->cells, table);
    enum operation_type type =
        sim_chance(30) ? OPERATION_DELETE : OPERATION_REPLACE;
    const struct property *mark;
    struct entity entity;

    if (!cell)
        return;
    mark = entity_find(&cell->now, slice_of(MARK));
    entity_init(
        &entity, &s->cells.arena, cell->now.partition_key, cell->now.row_key);
    entity.etag = cell->now.etag;
    front_thinks(500);
    if (type == OPERATION_REPLACE) {
        cells_fill(&s->cells, &entity, ROWS);
        if (mark && sim_chance(80))
            entity_set(&entity, &s->cells.arena, mark);
    }
    (void)sim_write(s->sim, table, type, &entity, NULL);
}

/* Inserts an entity of the application at a copy key, or a copy of a copy with
 * all its properties. */
static void inserts_at_copies(struct copy_state *s)
{
    const struct cell *cell =
        cells_some(&s->cells, sim_chance(60) ? SOURCES : COPIES);
    int job = (int)sim_draw(JOBS);
    struct entity entity, wanted;

    if (!cell)
        return;
    wanted = copy_of(s, job, &cell->now);
    entity_copy(&entity, &s->cells.arena, &cell->now);
    entity.partition_key = wanted.partition_key;
    entity.row_key = wanted.row_key;
    entity.etag = slice_of("");
    if (!entity_find(&entity, slice_of(MARK))) {
        entity_init(
            &entity, &s->cells.arena, wanted.partition_key, wanted.row_key);
        cells_fill(&s->cells, &entity, ROWS);
    }
    (void)sim_write(s->sim, table_of(s, job), OPERATION_INSERT, &entity, NULL);
}

static void acts(void *state)
{
    struct copy_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 25)
        inserts(s);
    else if (drawn < 55)
        changes(s, SOURCES);
    else if (drawn < 68)
        changes(s, COPIES);
    else if (drawn < 74)
        inserts_at_copies(s);
    else if (drawn < 93)
        front_asks(s->sim, "");
    else if (drawn < 97)
        sim_ask(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

/* Requests a last run of both jobs, because a copy of one job may be at a copy
 * key of the other job. */
static void ask_last(void *state)
{
    struct copy_state *s = state;

    sim_control_enqueue_job(s->sim, 0, "", "last0");
    sim_control_enqueue_job(s->sim, 1, "", "last1");
}

/* ---- the kind ---- */

static void *begin(struct sim *sim)
{
    struct copy_state *s = mem_alloc(sizeof(*s));
    unsigned tries = 4 + sim_draw(10);

    s->sim = sim;
    sim->state = s; /* from now on each write is judged */
    cells_init(&s->cells, sim);
    s->designs[0] = (enum design)sim_draw(DESIGNS);
    s->designs[1] =
        sim_chance(60) ? BY_PARTITION : (enum design)sim_draw(DESIGNS);
    s->selects = sim_chance(50);
    s->replaces = sim_chance(25);
    s->skips = sim_chance(40);
    for (int i = 0; i < TABLE_COUNT; i++)
        sim_create_table(sim, TABLES[i]);
    for (unsigned i = 0; i < tries; i++)
        inserts(s);
    return s;
}

static void add_job(
    const struct copy_state *s, int job, const char *name, struct buf *to)
{
    const char *filter =
        job == 0 && s->selects ? ", filter: \"K ne 'k0'\"" : "";

    buf_add_format(to,
        "%s: {kind: copy, from: {table: " SOURCES "%s}, "
        "to: {table: %s",
        name, filter, table_of(s, job));
    switch (s->designs[job]) {
    case BY_PROPERTY:
        buf_add_format(to, ", row_key: \"{K}\"");
        break;
    case BY_PARTITION:
        buf_add_format(to, ", partition_key: \"c%d_{K}\"", job);
        break;
    case INDEX_ROWS:
        buf_add_format(to, ", row_key: \"i:%d:{K}\"", job);
        break;
    default:
        break;
    }
    buf_add_format(to, "}, on_conflict: %s}\n",
        s->replaces ? "replace"
        : s->skips  ? "skip"
                    : "fail");
}

static char *job(void *state, unsigned n)
{
    const struct copy_state *s = state;
    struct buf text;

    buf_init(&text, 4096);
    add_job(s, 0, SIM_JOB, &text);
    add_job(s, 1, "second", &text);
    return buf_take(&text);
}

const struct sim_kind sim_copy = {
    .name = "copy",
    .two_jobs = true,
    .begin = begin,
    .job = job,
    .front = {.act = acts,
        .last = ask_last,
        .acts = 25,
        .pauses_ms = {20, 200, 2000, 5000}},
    .changed = changed,
    .end = end,
};
