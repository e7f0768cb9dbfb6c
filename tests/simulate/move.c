/* SPDX-License-Identifier: MIT */
/*
 * The kind move: two jobs move entities between three tables. Their runs are
 * requested again and again, and cancelled. An application keeps the rules for
 * writers. It inserts sources, also under keys that were used before. It
 * changes and deletes entities that it has read, but an entity at the
 * destination only when no source has this destination key. In some simulations
 * other clients insert entities at destination keys.
 *
 * The judge checks:
 *
 * - at every write of a worker: the worker creates no new value, and each value
 *   that was acknowledged to a client is in a table, unless a client overwrote
 *   or deleted it;
 * - after every run that was not cancelled: no value exists twice, unless a
 *   report names it;
 * - a value that a client deleted comes back only if a process crashed, or a
 *   request failed or arrived late.
 */
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/cells.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"

#define ROWS 4
#define MOST_ALIVE 14

static const char *const TABLES[] = {"Aaa", "Bbb", "Ccc"};
#define TABLE_COUNT 3

enum design {
    SAME_KEYS,
    BY_PROPERTY, /* RowKey from a property: sources collide */
    SELECTED,    /* selected by a filter */
    WITHIN,      /* from one partition of a table to another */
    DESIGNS,
};

struct move_state {
    struct sim *sim;
    struct cells cells;
    enum design design;
    bool back;    /* the second job moves entities back to the first table;
                     false: on to the third table */
    bool skip;    /* on_conflict of both jobs is `skip` */
    bool foreign; /* other clients insert entities at destination keys */
};

/* ---- what the jobs say ---- */

#define MOVES 2

static const char *from_of(const struct move_state *s, int move)
{
    return TABLES[move];
}

static const char *to_of(const struct move_state *s, int move)
{
    if (move == 1)
        return TABLES[s->back ? 0 : 2];
    return TABLES[s->design == WITHIN ? 0 : 1];
}

static bool is_selected(
    const struct move_state *s, int move, const struct cell *cell)
{
    if (!cell->there || !slice_is(cell->table, from_of(s, move)))
        return false;
    if (move == 0 && s->design == SELECTED)
        return slice_is(cells_group(&cell->now), "k0");
    if (move == 0 && s->design == WITHIN)
        return slice_is(cell->now.partition_key, "p");
    return true;
}

/* True if this source would be moved to the keys of `to` in `table`. */
static bool goes_to(const struct move_state *s, int move,
    const struct cell *source, const char *table, const struct entity *to)
{
    struct slice partition_key = source->now.partition_key;
    struct slice row_key = source->now.row_key;

    if (move == 0 && s->design == BY_PROPERTY)
        row_key = cells_group(&source->now);
    if (move == 0 && s->design == WITHIN)
        partition_key = slice_of("o");
    return strcmp(table, to_of(s, move)) == 0 &&
           slice_equal(partition_key, to->partition_key) &&
           slice_equal(row_key, to->row_key);
}

/* True if these are the destination keys of any source. */
static bool has_sources(
    struct move_state *s, const char *table, const struct entity *entity)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        for (int move = 0; move < MOVES; move++)
            if (is_selected(s, move, cell) &&
                goes_to(s, move, cell, table, entity))
                return true;
    return false;
}

/* ---- the judge ---- */

static void judge_worker(
    struct move_state *s, const char *table, const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    int value = cells_value_of(&s->cells, entity);
    struct entity wanted = {.property_count = 0};

    if (operation->type == OPERATION_DELETE)
        return;
    if (value > 0)
        wanted = s->cells.values[value].written->entity;
    wanted.partition_key = entity->partition_key;
    wanted.row_key = entity->row_key;
    if (!model_same(entity, &wanted))
        sim_complain(s->sim, "%s: %.*s/%.*s is written, and nobody wrote such",
            table, ENTITY_KEYS(entity));
}

static void changed(void *state, const struct sim_change *change)
{
    struct move_state *s = state;

    if (!change->by_front_end)
        judge_worker(s, change->table, change->operation);
    cells_store(&s->cells, change);
    cells_judge_losses(&s->cells, "after a write");
}

static int move_of(const struct sim_run *run)
{
    return slice_is(run->now.job, SIM_JOB) ? 0 : 1;
}

/* True if the value is in a table of this move; *ret: its cell. */
static bool is_in(
    struct move_state *s, int move, int value, const struct cell **ret)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next)
        if (cell->there && cell->value == value &&
            (slice_is(cell->table, from_of(s, move)) ||
                slice_is(cell->table, to_of(s, move)))) {
            *ret = cell;
            return true;
        }
    return false;
}

static bool is_at_work(const void *ctx, const struct sim_run *run)
{
    return run != ctx && run->acquired_ms > 0 && !run->ended;
}

static void judge_doubles(struct move_state *s, int move, const char *when)
{
    bool trouble = cells_has_trouble(&s->cells);
    const struct cell *cell;

    for (int i = 1; i < s->cells.count; i++) {
        const struct value *value = &s->cells.values[i];

        if (value->is <= value->live || value->named || value->doubtful ||
            (trouble && value->live == 0) || !is_in(s, move, i, &cell))
            continue;
        sim_complain(s->sim,
            "%s: value %d is there %d times, not %d, and no report names it "
            "(%.*s %.*s/%.*s)",
            when, i, value->is, value->live, SLICE_ARG(cell->table),
            ENTITY_KEYS(&cell->now));
    }
}

/* Marks the values that exist twice as doubtful, or (doubtful: false) unmarks
 * all values. A cancelled run may leave a load that a crashed attempt began and
 * did not complete; the next run on a table of this load completes it. */
static void note_doubts(struct move_state *s, bool doubtful)
{
    for (int i = 1; i < s->cells.count; i++) {
        struct value *value = &s->cells.values[i];

        value->doubtful = doubtful && value->is > value->live;
    }
}

/* Complains of each source that was not moved, unless its destination keys are
 * in use or a report names it. */
static void judge_rest(struct move_state *s)
{
    for (const struct cell *cell = s->cells.first; cell; cell = cell->next) {
        bool taken = false;

        if (s->back || !is_selected(s, 0, cell))
            continue;
        for (const struct cell *other = s->cells.first; other;
             other = other->next)
            taken =
                taken || (other->there &&
                             goes_to(s, 0, cell, other->table.at, &other->now));
        if (!taken && !s->cells.values[cell->value].named)
            sim_complain(
                s->sim, "%.*s/%.*s was not moved", ENTITY_KEYS(&cell->now));
    }
}

static void run_ended(void *state, const struct sim_run *run)
{
    struct move_state *s = state;

    cells_note_named(&s->cells, run);
    cells_judge_losses(&s->cells, run->key);
    if (run->now.state == LEDGER_CANCELLED)
        note_doubts(s, true);
    else if (!book_any(s->sim->book, is_at_work, run))
        judge_doubles(s, move_of(run), run->key);
    /* The application writes no more. */
    if (slice_is(run->now.id, "last0") && run->now.state != LEDGER_CANCELLED)
        judge_rest(s);
}

/* ---- front ends ---- */

static void draw_keys(struct move_state *s, struct entity *entity)
{
    static const char *const PARTITIONS[] = {"p", "q", "o"};
    struct arena *arena = &s->cells.arena;
    unsigned row = sim_draw(ROWS);

    entity_init(entity, arena, slice_of(SIM_PICK(PARTITIONS)),
        arena_format(arena, "%c%u", sim_chance(30) ? 'k' : 'r', row));
}

static void inserts_into(struct move_state *s, const char *table)
{
    struct entity entity;

    if (cells_alive(&s->cells, table) >= MOST_ALIVE)
        return;
    draw_keys(s, &entity);
    cells_fill(&s->cells, &entity, ROWS);
    (void)sim_write(s->sim, table, OPERATION_INSERT, &entity, NULL);
}

static void inserts(struct move_state *s)
{
    inserts_into(s, TABLES[0]);
}

/* Replaces or deletes an entity, conditional on the ETag that was read some
 * time before. */
static void changes(struct move_state *s, const char *table)
{
    const struct cell *cell = cells_some(&s->cells, table);
    enum operation_type type =
        sim_chance(50) ? OPERATION_DELETE : OPERATION_REPLACE;
    struct entity entity;

    if (!cell)
        return;
    entity_init(
        &entity, &s->cells.arena, cell->now.partition_key, cell->now.row_key);
    entity.etag = cell->now.etag;
    if (has_sources(s, table, &entity))
        return;
    front_thinks(500);
    if (type == OPERATION_REPLACE)
        cells_fill(&s->cells, &entity, ROWS);
    (void)sim_write(s->sim, table, type, &entity, NULL);
}

static void acts(void *state)
{
    struct move_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 40)
        inserts(s);
    else if (drawn < 70)
        changes(s, TABLES[sim_draw(TABLE_COUNT)]);
    else if (drawn < 90)
        front_asks(s->sim, "");
    else if (drawn < 95)
        sim_ask(s->sim);
    else if (s->foreign)
        inserts_into(s, TABLES[1 + sim_draw(TABLE_COUNT - 1)]);
    else
        sim_enqueue_garbage(s->sim);
}

static void ask_last(void *state)
{
    struct move_state *s = state;

    sim_control_enqueue_job(s->sim, 1, "", "last1");
    sim_control_enqueue_job(s->sim, 0, "", "last0");
}

/* ---- the kind ---- */

static void *begin(struct sim *sim)
{
    struct move_state *s = mem_alloc(sizeof(*s));
    unsigned tries = 4 + sim_draw(10);

    s->sim = sim;
    sim->state = s; /* from now on each write is judged */
    cells_init(&s->cells, sim);
    s->design = (enum design)sim_draw(DESIGNS);
    s->back = s->design == SAME_KEYS && sim_chance(50);
    s->skip = sim_chance(40);
    s->foreign = sim_chance(30);
    /* If the network delivers a delete twice, the second is answered 404, as if
     * the application had deleted the source. HTTPS prevents that. */
    sim->once = true;
    for (int i = 0; i < TABLE_COUNT; i++)
        sim_create_table(sim, TABLES[i]);
    for (unsigned i = 0; i < tries; i++)
        inserts(s);
    return s;
}

static char *job(void *state, unsigned n)
{
    static const char *const SELECTIONS[DESIGNS] = {
        [SAME_KEYS] = "{table: Aaa}",
        [BY_PROPERTY] = "{table: Aaa}",
        [SELECTED] = "{table: Aaa, filter: \"K eq 'k0'\"}",
        [WITHIN] = "{table: Aaa, partition_key: p}",
    };
    static const char *const TARGETS[DESIGNS] = {
        [SAME_KEYS] = "{table: Bbb}",
        [BY_PROPERTY] = "{table: Bbb, row_key: \"{K}\"}",
        [SELECTED] = "{table: Bbb}",
        [WITHIN] = "{table: Aaa, partition_key: o}",
    };
    const struct move_state *s = state;
    const char *conflict = s->skip ? "skip" : "fail";
    struct buf text;

    buf_init(&text, 4096);
    buf_add_format(&text,
        SIM_JOB ": {kind: move, from: %s, to: %s, on_conflict: %s}\n"
                "second: {kind: move, from: {table: Bbb}, to: {table: %s}, "
                "on_conflict: %s}\n",
        SELECTIONS[s->design], TARGETS[s->design], conflict,
        s->back ? "Aaa" : "Ccc", conflict);
    return buf_take(&text);
}

static void end(void *state)
{
    struct move_state *s = state;

    note_doubts(s, false);
    cells_judge_losses(&s->cells, "at the end");
    cells_judge_tables(&s->cells, TABLES, TABLE_COUNT);
    for (int move = 0; move < MOVES; move++)
        judge_doubles(s, move, "at the end");
    cells_done(&s->cells);
    mem_free(s);
}

const struct sim_kind sim_move = {
    .name = "move",
    .two_jobs = true,
    .begin = begin,
    .job = job,
    .front = {.act = acts,
        .last = ask_last,
        .acts = 25,
        .pauses_ms = {20, 200, 2000, 5000}},
    .changed = changed,
    .run_ended = run_ended,
    .end = end,
};
