/* SPDX-License-Identifier: MIT */
/*
 * The kind delete: an application writes to a table, and runs delete the
 * entities that they select; a model knows what the table may contain.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/cells.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "worker/base/mem.h"

#define TABLE "Things"
#define PARTITIONS 3
#define NUMBERS 20 /* number of RowKeys in a partition */
#define THINGS (PARTITIONS * NUMBERS)
#define MOST_ALIVE 40

/* The argument of a run: an EntityType, or a partition. */
static const char *const WHATS[] = {"p0", "p1"};
#define WHAT_COUNT 2

enum choice {
    BY_FILTER,
    BY_PARTITION,
    BY_RANGE, /* by a range of keys and by the filter */
    CHOICES,
};

struct delete_state {
    struct sim *sim;
    struct cells cells;
    enum choice choice;
    int64_t tokens;
};

/* ---- the model ---- */

static struct cell *find(
    struct delete_state *s, const char *table, const struct entity *entity)
{
    return cells_find(&s->cells, table, entity->partition_key, entity->row_key);
}

static bool is_of_kind(const struct entity *entity, const char *what)
{
    const struct property *kind = entity_find(entity, slice_of("EntityType"));
    char json[16];

    (void)snprintf(json, sizeof(json), "\"%s\"", what);
    return kind && kind->type == EDM_STRING && slice_is(kind->json, json);
}

/* Returns the argument of the runs that select the entity, or NULL. */
static const char *what_of(
    const struct delete_state *s, const struct entity *entity)
{
    bool in_range = slice_compare(entity->row_key, slice_of("e05")) >= 0 &&
                    slice_compare(entity->row_key, slice_of("e15")) < 0;

    for (int i = 0; i < WHAT_COUNT; i++)
        if (s->choice == BY_PARTITION
                ? slice_is(entity->partition_key, WHATS[i])
                : is_of_kind(entity, WHATS[i]) &&
                      (s->choice == BY_FILTER || in_range))
            return WHATS[i];
    return NULL;
}

static bool may_delete(const void *ctx, const struct sim_run *run)
{
    const struct cell *cell = ctx;

    return run->acquired_ms > 0 &&
           (!run->ended || run->now.state == LEDGER_CANCELLED) &&
           strcmp(run->what, cell->what) == 0;
}

static void judge_worker(struct delete_state *s, const char *table,
    const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    const struct cell *cell = find(s, table, entity);
    const char *what = NULL;

    if (!cell)
        what = "is none of its business";
    else if (operation->type != OPERATION_DELETE)
        what = "is written by a worker";
    else if (!cell->there || !slice_equal(entity->etag, cell->now.etag))
        what = "is deleted on stale knowledge";
    else if (!cell->what)
        what = "is deleted, and no run means it";
    else if (!book_any(s->sim->book, may_delete, cell))
        what = "is deleted, and none that means it is at work";
    if (what)
        sim_complain(
            s->sim, "%s: %.*s/%.*s %s", table, ENTITY_KEYS(entity), what);
}

static void changed(void *state, const struct sim_change *change)
{
    struct delete_state *s = state;
    struct cell *cell;
    const char *was;

    if (!change->by_front_end)
        judge_worker(s, change->table, change->operation);
    cells_store(&s->cells, change);
    cell = find(s, change->table, &change->operation->entity);
    was = cell->what;
    cell->what = cell->there ? what_of(s, &cell->now) : NULL;
    if (cell->what != was)
        cell->since_ms = virtual_ms();
}

/* Complains of each entity that the run left, although the run selected it
 * during its whole time. */
static void judge_success(struct delete_state *s, const struct sim_run *run)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        if (cell->what && strcmp(cell->what, run->what) == 0 &&
            cell->since_ms < run->acquired_ms)
            sim_complain(s->sim, "%s has succeeded, and left %.*s/%.*s",
                run->key, ENTITY_KEYS(&cell->now));
}

static void run_ended(void *state, const struct sim_run *run)
{
    struct delete_state *s = state;

    if (run->now.state == LEDGER_SUCCEEDED)
        judge_success(s, run);
    else if (run->now.state != LEDGER_CANCELLED)
        sim_complain(s->sim, "%s has ended %s: %.*s", run->key,
            ledger_state_name(run->now.state), SLICE_ARG(run->now.error));
}

/* ---- front ends ---- */

/* Gives entity random keys and no properties. Returns the cell of these keys,
 * or NULL. */
static const struct cell *draw_keys(
    struct delete_state *s, struct entity *entity)
{
    struct arena *arena = &s->cells.arena;
    unsigned drawn = sim_draw(THINGS);

    entity_init(entity, arena, arena_format(arena, "p%u", drawn / NUMBERS),
        arena_format(arena, "e%02u", drawn % NUMBERS));
    return find(s, TABLE, entity);
}

static void fill(struct delete_state *s, struct entity *entity)
{
    struct arena *arena = &s->cells.arena;

    if (sim_chance(85))
        entity_set_string(entity, arena, "EntityType",
            slice_of(sim_chance(20) ? "none" : SIM_PICK(WHATS)));
    entity_set_int64(entity, arena, "Token", ++s->tokens);
}

static void inserts(struct delete_state *s)
{
    struct entity entity;
    const struct cell *cell = draw_keys(s, &entity);

    if ((cell && cell->there) || cells_alive(&s->cells, TABLE) >= MOST_ALIVE)
        return;
    fill(s, &entity);
    (void)sim_write(s->sim, TABLE, OPERATION_INSERT, &entity, NULL);
}

/* Changes or deletes an entity that was read some time before. The write fails
 * if another front end was faster. */
static void changes(struct delete_state *s)
{
    static const enum operation_type TYPES[] = {
        OPERATION_REPLACE, OPERATION_MERGE, OPERATION_DELETE};
    struct entity entity;
    const struct cell *cell = draw_keys(s, &entity);

    if (!cell || !cell->there)
        return;
    entity.etag = cell->now.etag;
    front_thinks(500);
    fill(s, &entity);
    (void)sim_write(s->sim, TABLE, SIM_PICK(TYPES), &entity, NULL);
}

static void acts(void *state)
{
    struct delete_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 35)
        inserts(s);
    else if (drawn < 65)
        changes(s);
    else if (drawn < 95)
        front_asks(s->sim, SIM_PICK(WHATS));
    else if (drawn < 98)
        sim_ask(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

static void ask_last(void *state)
{
    struct delete_state *s = state;

    for (int i = 0; i < WHAT_COUNT; i++)
        sim_control_enqueue(s->sim, WHATS[i], i == 0 ? "last0" : "last1");
}

/* ---- the kind ---- */

static void *begin(struct sim *sim)
{
    struct delete_state *s = mem_alloc(sizeof(*s));
    unsigned tries = 10 + sim_draw(60);

    s->sim = sim;
    sim->state = s; /* from now on each write is judged */
    cells_init(&s->cells, sim);
    s->choice = (enum choice)sim_draw(CHOICES);
    sim_create_table(sim, TABLE);
    for (unsigned i = 0; i < tries; i++)
        inserts(s);
    return s;
}

static char *job(void *state, unsigned n)
{
    static const char *const SELECTIONS[CHOICES] = {
        [BY_FILTER] = "    filter: \"EntityType eq '{" SIM_ARGUMENT "}'\"\n",
        [BY_PARTITION] = "    partition_key: \"{" SIM_ARGUMENT "}\"\n",
        [BY_RANGE] = "    row_key_from: e05\n"
                     "    row_key_below: e15\n"
                     "    filter: \"EntityType eq '{" SIM_ARGUMENT "}'\"\n",
    };
    const struct delete_state *s = state;
    struct buf text;

    buf_init(&text, 4096);
    buf_add_format(&text,
        SIM_JOB ":\n"
                "    kind: delete\n"
                "    args: [" SIM_ARGUMENT "]\n"
                "    table: " TABLE "\n%s",
        SELECTIONS[s->choice]);
    return buf_take(&text);
}

/* Complains of each entity that the last runs should have deleted. */
static void end(void *state)
{
    struct delete_state *s = state;

    cells_judge_tables(&s->cells, &(const char *){TABLE}, 1);
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        if (cell->what)
            sim_complain(s->sim, "%.*s/%.*s is left", ENTITY_KEYS(&cell->now));
    cells_done(&s->cells);
    mem_free(s);
}

const struct sim_kind sim_delete = {
    .name = "delete",
    .begin = begin,
    .job = job,
    .front = {.act = acts,
        .last = ask_last,
        .acts = 30,
        .pauses_ms = {20, 200, 2000, 5000}},
    .changed = changed,
    .run_ended = run_ended,
    .end = end,
};
