/* SPDX-License-Identifier: MIT */
/*
 * The kind delete: an application writes to a table from which runs delete what
 * they select; and a model of what the table may be.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"

#define TABLE "Things"
#define PARTITIONS 3
#define NUMBERS 20 /* RowKeys of a partition */
#define THINGS (PARTITIONS * NUMBERS)
#define MOST_ALIVE 40

/* A run means one of these: a kind of things, or a partition. */
static const char *const WHATS[] = {"p0", "p1"};
#define WHAT_COUNT 2

struct thing {
    struct slice partition_key, row_key;
    bool alive;
    struct entity now;
    struct slice etag;
    const char *what; /* the argument of runs that mean it; NULL: none does */
    int64_t since_ms; /* ... and from when on */
};

enum choice {
    BY_FILTER,
    BY_PARTITION,
    BY_RANGE, /* of keys, and the filter */
    CHOICES,
};

struct delete_state {
    struct sim *sim;
    struct arena arena;
    enum choice choice;
    struct thing things[THINGS];
    int alive;
    int64_t tokens;
};

#define KEYS(entity)                                                           \
    SLICE_ARG((entity)->partition_key), SLICE_ARG((entity)->row_key)

/* ---- the model ---- */

static struct thing *find(struct delete_state *s, const struct entity *entity)
{
    for (int i = 0; i < THINGS; i++)
        if (slice_equal(s->things[i].partition_key, entity->partition_key) &&
            slice_equal(s->things[i].row_key, entity->row_key))
            return &s->things[i];
    return NULL;
}

static bool is_of_kind(const struct entity *entity, const char *what)
{
    const struct property *kind = entity_find(entity, slice_of("EntityType"));
    char json[16];

    (void)snprintf(json, sizeof(json), "\"%s\"", what);
    return kind && kind->type == EDM_STRING && slice_is(kind->json, json);
}

/* Which runs mean it. */
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

static void store(struct delete_state *s, struct thing *thing,
    const struct operation *operation, const char *etag)
{
    const char *was = thing->alive ? thing->what : NULL;
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
    thing->what = thing->alive ? what_of(s, &whole) : NULL;
    if (thing->what != was)
        thing->since_ms = virtual_ms();
}

static bool may_delete(const void *ctx, const struct sim_run *run)
{
    const struct thing *thing = ctx;

    return run->acquired_ms > 0 &&
           (!run->ended || run->now.state == LEDGER_CANCELLED) &&
           strcmp(run->what, thing->what) == 0;
}

static void judge_worker(struct delete_state *s, const struct batch *batch,
    const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    const struct thing *thing = find(s, entity);
    const char *what = NULL;

    if (strcmp(batch->table, TABLE) != 0 || !thing)
        what = "is none of its business";
    else if (operation->type != OPERATION_DELETE)
        what = "is written by a worker";
    else if (!thing->alive || !slice_equal(entity->etag, thing->etag))
        what = "is deleted on stale knowledge";
    else if (!thing->what)
        what = "is deleted, and no run means it";
    else if (!book_any(s->sim->book, may_delete, thing))
        what = "is deleted, and none that means it is at work";
    if (what)
        sim_complain(
            s->sim, "%s: %.*s/%.*s %s", batch->table, KEYS(entity), what);
}

static void committed(void *state, const struct sim_commit *commit)
{
    struct delete_state *s = state;
    const struct batch *batch = commit->batch;

    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        struct thing *thing = find(s, &operation->entity);

        if (!commit->by_front_end)
            judge_worker(s, batch, operation);
        if (thing)
            store(s, thing, operation, commit->result->etags[i]);
    }
}

/* What it meant from before it began, it has met. */
static void judge_success(struct delete_state *s, const struct sim_run *run)
{
    for (int i = 0; i < THINGS; i++)
        if (s->things[i].what && strcmp(s->things[i].what, run->what) == 0 &&
            s->things[i].since_ms < run->acquired_ms)
            sim_complain(s->sim, "%s has succeeded, and left %.*s/%.*s",
                run->key, KEYS(&s->things[i]));
}

static void run_moved(
    void *state, const struct sim_run *run, enum ledger_state was)
{
    struct delete_state *s = state;

    if (!run->ended || slice_is(run->now.job, LEDGER_UNREADABLE))
        return;
    if (run->now.state == LEDGER_SUCCEEDED)
        judge_success(s, run);
    else if (run->now.state != LEDGER_CANCELLED)
        sim_complain(s->sim, "%s has ended %s: %.*s", run->key,
            ledger_state_name(run->now.state), SLICE_ARG(run->now.error));
}

/* ---- front ends ---- */

static void put(struct delete_state *s, enum operation_type type,
    const struct entity *entity)
{
    (void)sim_write(s->sim, TABLE, type, entity, NULL);
}

static void make(struct delete_state *s, const struct thing *thing,
    struct entity *entity, const struct slice *etag)
{
    entity_init(entity, &s->arena, thing->partition_key, thing->row_key);
    if (sim_chance(85))
        entity_set_string(entity, &s->arena, "EntityType",
            slice_of(sim_chance(20) ? "none" : SIM_PICK(WHATS)));
    entity_set_int64(entity, &s->arena, "Token", ++s->tokens);
    if (etag)
        entity->etag = *etag;
}

static struct thing *some_thing(struct delete_state *s)
{
    return &s->things[sim_draw(THINGS)];
}

static void inserts(struct delete_state *s)
{
    const struct thing *thing = some_thing(s);
    struct entity entity;

    if (thing->alive || s->alive >= MOST_ALIVE)
        return;
    make(s, thing, &entity, NULL);
    put(s, OPERATION_INSERT, &entity);
}

/* By who has read it and takes its time. Refused where somebody else was
 * faster. */
static void changes(struct delete_state *s)
{
    static const enum operation_type TYPES[] = {
        OPERATION_REPLACE, OPERATION_MERGE, OPERATION_DELETE};
    const struct thing *thing = some_thing(s);
    struct entity entity;
    struct slice etag = thing->etag;

    if (!thing->alive)
        return;
    front_thinks(500);
    make(s, thing, &entity, &etag);
    put(s, SIM_PICK(TYPES), &entity);
}

static void judge_table(struct delete_state *s)
{
    struct page page;

    for (int i = 0; i < THINGS; i++) {
        const struct thing *thing = &s->things[i];
        bool there;

        page_init(&page);
        there =
            sim_get(s->sim, TABLE, thing->partition_key, thing->row_key, &page);
        if (there != thing->alive ||
            (there && !model_same(&thing->now, &page.entities[0])))
            sim_complain(
                s->sim, "%.*s/%.*s is not as it was stored last", KEYS(thing));
        page_done(&page);
    }
}

static void asks(struct delete_state *s)
{
    struct front_ask ask = front_draw_ask(WHATS[sim_draw(WHAT_COUNT)]);

    front_asks(s->sim, &ask);
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
        asks(s);
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
    sim->state = s; /* what it writes now is judged already */
    arena_init(&s->arena);
    s->choice = (enum choice)sim_draw(CHOICES);
    sim_create_table(sim, TABLE);
    for (int i = 0; i < THINGS; i++) {
        s->things[i].partition_key =
            arena_format(&s->arena, "p%d", i / NUMBERS);
        s->things[i].row_key = arena_format(&s->arena, "e%02d", i % NUMBERS);
    }
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

/* The last runs have left nothing that they mean. */
static void end(void *state)
{
    struct delete_state *s = state;

    judge_table(s);
    for (int i = 0; i < THINGS; i++)
        if (s->things[i].what)
            sim_complain(s->sim, "%.*s/%.*s is left", KEYS(&s->things[i]));
    arena_done(&s->arena);
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
    .committed = committed,
    .run_moved = run_moved,
    .end = end,
};
