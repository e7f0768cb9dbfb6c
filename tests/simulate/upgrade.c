/* SPDX-License-Identifier: MIT */
/*
 * The kind schema-upgrade: an old and a new release of an application write the
 * entities of one table while runs with phase `expand` convert them; then the
 * old release stops, and a run with phase `contract` removes the old
 * properties. tests/support/releases.h says what a release may write and what
 * must hold of the values that were acknowledged.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/releases.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define TABLE "Blogs"
#define THINGS 24
#define PARTITIONS 2
#define LAST "last"
#define CONTRACT "contract"

/* One entity, and what was acknowledged to its writers. */
struct thing {
    struct slice partition_key, row_key;
    struct release_state is;
    struct slice etag;
};

struct upgrade_state {
    struct sim *sim;
    struct arena arena;
    struct releases *releases;
    struct thing things[THINGS];
    enum release_way ways[1 + RELEASE_GROUP_MAX]; /* those of the old release
                                                     first */
    unsigned way_count;
    bool converted; /* a run has expanded: the new release may begin */
    int value;      /* the next value to write */
    bool contracts; /* the contract run was requested */
    enum ledger_state contracted;
    int64_t named; /* number of entities that the report of the contract run
                      names */
};

static struct thing *find(struct upgrade_state *s, const struct entity *entity)
{
    for (int i = 0; i < THINGS; i++)
        if (slice_equal(s->things[i].partition_key, entity->partition_key) &&
            slice_equal(s->things[i].row_key, entity->row_key))
            return &s->things[i];
    return NULL;
}

static void judge(
    struct upgrade_state *s, const struct thing *thing, enum release_end end)
{
    const char *lost = releases_lost(s->releases, &thing->is, end);

    if (lost)
        sim_complain(s->sim, "%.*s/%.*s: %s", ENTITY_KEYS(thing), lost);
}

/* ---- what is stored ---- */

static struct entity entity_of(struct upgrade_state *s,
    const struct thing *thing, const struct release_state *is)
{
    struct entity entity = releases_entity(s->releases, is);

    entity.partition_key = thing->partition_key;
    entity.row_key = thing->row_key;
    return entity;
}

static void judge_worker(struct upgrade_state *s, struct thing *thing,
    const struct operation *operation)
{
    if (operation->type != OPERATION_REPLACE)
        sim_complain(s->sim, "%.*s/%.*s: operation %d of a worker is no PUT",
            ENTITY_KEYS(thing), (int)operation->type);
    else if (!slice_equal(operation->entity.etag, thing->etag))
        sim_complain(s->sim, "%.*s/%.*s: a worker overwrites another ETag",
            ENTITY_KEYS(thing));
    releases_read(s->releases, &operation->entity, &thing->is);
    judge(s, thing, RELEASE_OPEN);
}

static void changed(void *state, const struct sim_change *change)
{
    struct upgrade_state *s = state;
    struct thing *thing = find(s, &change->operation->entity);

    if (strcmp(change->table, TABLE) != 0 || !thing) {
        sim_complain(
            s->sim, "a write to %s that nobody asked for", change->table);
        return;
    }
    if (!change->by_front_end)
        judge_worker(s, thing, change->operation);
    thing->etag = arena_copy(&s->arena, slice_of(change->etag));
    releases_clear(s->releases);
}

/* ---- the releases ---- */

static void writes(struct upgrade_state *s, unsigned way)
{
    struct thing *thing = &s->things[sim_draw(THINGS)];
    struct release_state now = thing->is;
    struct entity entity;
    bool does;

    if (way > 0 && !s->converted)
        return;
    if (s->ways[way] == OLD_DYNAMIC && sim_chance(25))
        does = releases_remove_old(s->releases, &now, s->converted);
    else
        does = releases_write(s->releases, &now, s->ways[way], s->value);
    s->value += 2;
    if (!does)
        return;
    entity = entity_of(s, thing, &now);
    entity.etag = thing->etag;
    if (sim_write(s->sim, TABLE, OPERATION_REPLACE, &entity, NULL) == TW_OK)
        thing->is = now;
    judge(s, thing, RELEASE_OPEN);
}

static void judge_seen(
    void *state, const char *table, const struct entity *seen)
{
    struct upgrade_state *s = state;
    const struct thing *thing = find(s, seen);

    if (!thing || !slice_equal(thing->etag, seen->etag))
        sim_complain(s->sim, "%.*s/%.*s is not as it was stored last",
            ENTITY_KEYS(seen));
}

static void judge_table(struct upgrade_state *s)
{
    virtual_mask();
    if (sim_each(s->sim, TABLE, judge_seen, s) != THINGS)
        sim_complain(s->sim, "an entity is gone that nobody has deleted");
    virtual_unmask();
}

/* ---- runs ---- */

static void asks(struct upgrade_state *s)
{
    unsigned times = 1 + sim_chance(20);
    char id[16];

    (void)snprintf(id, sizeof(id), "r%u", ++s->sim->ids);
    while (times-- > 0)
        sim_enqueue(s->sim, "x", id, false, 0);
}

/* Writes with the old release for the last time, after all expand runs have
 * made their rounds. Then requests the contract run. */
static void ask_for_contract(void *arg)
{
    struct upgrade_state *s = arg;

    for (unsigned left = sim_draw(8); left > 0; left--)
        writes(s, 0);
    sim_control_enqueue_phase(s->sim, "x", CONTRACT, "contract");
    s->sim->front_ends--;
}

/* After the last expand run: no other client writes, so the contract run may be
 * requested. */
static void last_ended(struct upgrade_state *s)
{
    if (s->contracts)
        return;
    s->contracts = true;
    s->sim->front_ends++;
    virtual_start(virtual_process(CONTRACT), CONTRACT, ask_for_contract, s);
}

static void run_ended(void *state, const struct sim_run *run)
{
    struct upgrade_state *s = state;
    enum ledger_state is = run->now.state;

    if ((is == LEDGER_FAILED) != (run->now.failed > 0) &&
        is != LEDGER_CANCELLED)
        sim_complain(s->sim, "%s is %s with %lld entities that failed: %.*s",
            run->key, ledger_state_name(is), (long long)run->now.failed,
            SLICE_ARG(run->now.error));
    if (slice_is(run->now.id, CONTRACT)) {
        s->contracted = is;
        s->named = run->now.failed;
        return;
    }
    s->converted |= is != LEDGER_CANCELLED;
    if (slice_is(run->now.id, LAST))
        last_ended(s);
}

/* ---- front ends ---- */

static void acts(void *state)
{
    struct upgrade_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 70)
        writes(s, sim_draw(s->way_count));
    else if (drawn < 78)
        judge_table(s);
    else if (drawn < 94)
        asks(s);
    else if (drawn < 97)
        sim_ask(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

static void ask_last(void *state)
{
    struct upgrade_state *s = state;

    sim_control_enqueue_phase(s->sim, "x", LAST, "expand");
}

/* ---- set-up and end ---- */

static void add_thing(struct upgrade_state *s, int number)
{
    struct thing *thing = &s->things[number];
    struct entity entity;

    thing->partition_key = arena_format(&s->arena, "p%d", number % PARTITIONS);
    thing->row_key = arena_format(&s->arena, "e%02d", number);
    thing->is = releases_begin(s->releases, s->value);
    s->value += 2;
    entity = entity_of(s, thing, &thing->is);
    (void)sim_write(s->sim, TABLE, OPERATION_INSERT, &entity, NULL);
}

static void *begin(struct sim *sim)
{
    struct upgrade_state *s = mem_alloc(sizeof(*s));
    unsigned group = sim_draw(RELEASE_GROUPS);

    s->sim = sim;
    sim->state = s; /* from now on each write is judged */
    arena_init(&s->arena);
    s->releases = releases_new(sim_chance(50));
    s->value = 1001;
    s->ways[s->way_count++] = (enum release_way)sim_draw(NEW_MERGE);
    for (int i = 0; i < RELEASE_GROUP_MAX; i++)
        if (RELEASE_GROUP[group][i] != RELEASE_WAYS)
            s->ways[s->way_count++] = RELEASE_GROUP[group][i];
    sim_create_table(sim, TABLE);
    for (int i = 0; i < THINGS; i++)
        add_thing(s, i);
    return s;
}

/* The argument selects nothing: every run handles every entity. */
static char *job(void *state, unsigned n)
{
    const struct upgrade_state *s = state;
    const char *text = s->releases->lossy ? RELEASE_LOSSY : RELEASE_RENAME;

    return mem_format(
        SIM_JOB ":\n  args: [" SIM_ARGUMENT "]\n%s", strchr(text, '\n') + 1);
}

/* Judges the end: the report of the contract run must name each entity that it
 * has left. */
static void end(void *state)
{
    struct upgrade_state *s = state;
    int64_t left = 0;

    judge_table(s);
    for (int i = 0; i < THINGS; i++) {
        const struct thing *thing = &s->things[i];
        bool done = thing->is.t == RELEASE_NONE && thing->is.x == RELEASE_NONE;

        left += !done;
        judge(s, thing, done ? RELEASE_CONTRACTED : RELEASE_NAMED);
    }
    if (!s->contracts || left != s->named)
        sim_complain(s->sim, "contract has left %lld entities and named %lld",
            (long long)left, (long long)s->named);
    releases_free(s->releases);
    arena_done(&s->arena);
    mem_free(s);
}

const struct sim_kind sim_upgrade = {
    .name = "schema-upgrade",
    .more_args = ",\"phase\":\"expand\"",
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
