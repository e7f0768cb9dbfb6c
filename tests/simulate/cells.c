/* SPDX-License-Identifier: MIT */
/* The oracle: which entity is at which keys, and which values were acknowledged
 * to clients. */
#include "tests/simulate/cells.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/upgrade_model.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

/* Maximum number of failed entities that a run's entity in the ledger names. */
#define NAMED_MAX 10

void cells_init(struct cells *cells, struct sim *sim)
{
    memset(cells, 0, sizeof(*cells));
    cells->sim = sim;
    cells->count = 1;
    arena_init(&cells->arena);
}

void cells_done(struct cells *cells)
{
    while (cells->first) {
        struct cell *cell = cells->first;

        cells->first = cell->next;
        mem_free(cell);
    }
    arena_done(&cells->arena);
}

struct cell *cells_find(struct cells *cells, const char *table,
    struct slice partition_key, struct slice row_key)
{
    struct cell *cell = cells->first;

    while (cell && (!slice_is(cell->table, table) ||
                       !slice_equal(cell->now.partition_key, partition_key) ||
                       !slice_equal(cell->now.row_key, row_key)))
        cell = cell->next;
    return cell;
}

static struct cell *find_or_add(
    struct cells *cells, const char *table, const struct entity *entity)
{
    struct cell *cell =
        cells_find(cells, table, entity->partition_key, entity->row_key);

    if (cell)
        return cell;
    cell = mem_alloc(sizeof(*cell));
    cell->table = arena_copy(&cells->arena, slice_of(table));
    entity_init(&cell->now, &cells->arena,
        arena_copy(&cells->arena, entity->partition_key),
        arena_copy(&cells->arena, entity->row_key));
    cell->next = cells->first;
    cells->first = cell;
    return cell;
}

bool cells_has_mark(const struct cell *cell)
{
    const struct property *mark = entity_find(&cell->now, slice_of(CELLS_MARK));

    return mark && cell->mark.len > 0 && slice_equal(mark->json, cell->mark);
}

struct cell *cells_some(struct cells *cells, const char *table)
{
    struct cell *some = NULL;
    unsigned seen = 0;

    for (struct cell *cell = cells->first; cell; cell = cell->next)
        if (cell->there && slice_is(cell->table, table) &&
            sim_draw(++seen) == 0)
            some = cell;
    return some;
}

int cells_alive(const struct cells *cells, const char *table)
{
    int count = 0;

    for (const struct cell *cell = cells->first; cell; cell = cell->next)
        count += cell->there && slice_is(cell->table, table);
    return count;
}

/* ---- values ---- */

int cells_value_of(const struct cells *cells, const struct entity *entity)
{
    const struct property *property =
        entity_find(entity, slice_of(CELLS_VALUE));
    int32_t value = 0;

    if (!property || !property_int32(property, &value) || value < 1 ||
        value >= cells->count)
        return 0;
    return value;
}

void cells_fill(struct cells *cells, struct entity *entity, unsigned groups)
{
    struct arena *arena = &cells->arena;

    if (cells->count == CELLS_VALUES_MAX)
        sim_complain(cells->sim, "more values than the oracle has room for");
    else
        entity_set_int32(entity, arena, CELLS_VALUE, cells->count++);
    entity_set_string(
        entity, arena, "K", arena_format(arena, "k%u", sim_draw(groups)));
    front_sets_bystanders(arena, entity, "Big", "Small");
}

struct slice cells_group(const struct entity *entity)
{
    const struct property *group = entity_find(entity, slice_of("K"));

    return group ? (struct slice){group->json.at + 1, group->json.len - 2}
                 : slice_of("");
}

void cells_store(struct cells *cells, const struct sim_change *change)
{
    const struct operation *operation = change->operation;
    struct cell *cell = find_or_add(cells, change->table, &operation->entity);
    bool by_client = change->by_front_end;
    const struct property *mark;
    struct value *value = &cells->values[cell->value];
    struct written *written;

    if (cell->there) {
        value->is--;
        if (by_client && value->live > 0)
            value->live--;
    }
    cell->there = operation->type != OPERATION_DELETE;
    cell->client = by_client;
    cell->value = 0;
    if (!cell->there)
        return;
    if (operation->type != OPERATION_MERGE)
        entity_copy(&cell->now, &cells->arena, &operation->entity);
    else
        for (size_t i = 0; i < operation->entity.property_count; i++)
            entity_set(
                &cell->now, &cells->arena, &operation->entity.properties[i]);
    cell->now.etag = arena_copy(&cells->arena, slice_of(change->etag));
    cell->value = cells_value_of(cells, &cell->now);
    value = &cells->values[cell->value];
    value->is++;
    mark = entity_find(&cell->now, slice_of(CELLS_MARK));
    if (!by_client) {
        cell->mark = mark ? mark->json : slice_of("");
        return;
    }
    value->live++;
    written = arena_alloc(&cells->arena, sizeof(*written));
    *written = (struct written){.before = value->written, .entity = cell->now};
    value->written = written;
}

void cells_judge_losses(struct cells *cells, const char *when)
{
    for (int i = 1; i < cells->count; i++)
        if (cells->values[i].is < cells->values[i].live)
            sim_complain(cells->sim,
                "%s: value %d, which a client was told is stored, is lost",
                when, i);
}

/* ---- reports ---- */

static bool has(struct slice text, const struct buf *part)
{
    return text.len > 0 && memmem(text.at, text.len, part->at, part->len);
}

/* True if the report of the run names the entity. If more than NAMED_MAX
 * entities failed, the report names only some of them, so this entity may be
 * one of the others: true. */
static bool is_named(const struct sim_run *run, const struct entity *entity)
{
    struct buf keys;
    bool named;

    if (run->now.failed > NAMED_MAX)
        return true;
    buf_init(&keys, 4096);
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    named = has(run->now.failed_entities, &keys) || has(run->now.error, &keys);
    buf_done(&keys);
    return named;
}

void cells_note_named(struct cells *cells, const struct sim_run *run)
{
    for (const struct cell *cell = cells->first; cell; cell = cell->next)
        if (cell->there && is_named(run, &cell->now))
            cells->values[cell->value].named = true;
}

bool cells_has_trouble(const struct cells *cells)
{
    const struct sim *sim = cells->sim;
    unsigned faults = sim->result->crashes + sim->result->stalls;

    for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++)
        faults += sim->faults.met[fault];
    return faults > 0;
}

/* ---- the tables themselves ---- */

static void judge_one(void *ctx, const char *table, const struct entity *entity)
{
    struct cells *cells = ctx;
    const struct cell *cell =
        cells_find(cells, table, entity->partition_key, entity->row_key);

    if (!cell || !cell->there || !model_same(&cell->now, entity))
        sim_complain(cells->sim, "%s: %.*s/%.*s is not as it was written",
            table, ENTITY_KEYS(entity));
}

void cells_judge_tables(
    struct cells *cells, const char *const *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int alive = cells_alive(cells, tables[i]);

        if (sim_each(cells->sim, tables[i], judge_one, cells) != alive)
            sim_complain(cells->sim,
                "%s has not the %d entities that were "
                "written",
                tables[i], alive);
    }
}
