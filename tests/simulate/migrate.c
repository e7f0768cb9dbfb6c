/* SPDX-License-Identifier: MIT */
/*
 * The kind migrate: an application writes to a table that runs copy, or move,
 * to others; who polls the one and then the others; now and then somebody has a
 * hand in what was copied. What the tables may be is in copies.c.
 *
 * In the end, when nobody writes any more, everything is asked for a last time;
 * and then once more, which must find nothing to do.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/copies.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"
#include "worker/base/mem.h"

#define PARTITIONS_MAX 2
#define NUMBERS_MAX 16 /* RowKeys of a partition */
#define MOST_ALIVE 28
#define LANDED_MS 31000 /* what was late has landed by then */

static const char *const KINDS[] = {"Blog", "Post"};
#define KIND_COUNT 2

struct migrate_state {
    struct sim *sim;
    struct arena arena;
    struct copies *copies;
    struct copies_rules rules;
    const char *passes[SIM_DEFINITIONS];
    bool verify[SIM_DEFINITIONS];
    unsigned bad;     /* percent of sources of which no copy can be made */
    unsigned collide; /* percent of names that others have */
    bool meddled;     /* users have a hand in the copies */
    bool alone;       /* one run at a time is asked for */
    int64_t tokens;   /* given out to writes */
    unsigned lasts;   /* of the last runs, those not ended */
};

/* ---- what the application stores ---- */

static void set_text(struct migrate_state *s, struct entity *entity,
    const char *name, const char *text)
{
    entity_set_string(entity, &s->arena, name, slice_of(text));
}

/* What the keys of copies are made of. */
static void set_key_parts(
    struct migrate_state *s, struct entity *entity, const struct thing *thing)
{
    static const char *const NAMES[] = {"One", "one", "Two"};

    if (!sim_chance(s->bad))
        entity_set_int32(entity, &s->arena, "Month", 1 + (int32_t)sim_draw(3));
    if (sim_chance(s->bad))
        set_text(s, entity, "Name", "a/b");
    else if (sim_chance(s->collide))
        set_text(s, entity, "Name", SIM_PICK(NAMES));
    else
        entity_set_string(entity, &s->arena, "Name",
            arena_format(&s->arena, "%.*s-%.*s",
                SLICE_ARG(thing->partition_key), SLICE_ARG(thing->row_key)));
}

static void make(
    struct migrate_state *s, struct entity *entity, const struct thing *thing)
{
    entity_init(entity, &s->arena, thing->partition_key, thing->row_key);
    if (sim_chance(90))
        set_text(s, entity, "EntityType", KINDS[sim_draw(KIND_COUNT)]);
    else if (sim_chance(50))
        set_text(s, entity, "EntityType", "Channel");
    if (sim_chance(70))
        set_text(s, entity, "Title", "Some");
    if (sim_chance(s->bad))
        set_text(s, entity, "Heading", "Other");
    if (sim_chance(4)) /* it was a copy once, of something else */
        set_text(s, entity, COPY_PROVENANCE, "of old");
    set_key_parts(s, entity, thing);
    front_sets_bystanders(&s->arena, entity, "Large", "Legacy");
    entity_set_int64(entity, &s->arena, "Token", ++s->tokens);
}

/* ---- front ends: writing ---- */

/* Refused where somebody else was faster: then it was not acknowledged. */
static void put(struct migrate_state *s, const char *table,
    enum operation_type type, const struct entity *entity)
{
    (void)sim_write(s->sim, table, type, entity, NULL);
}

static void inserts(struct migrate_state *s)
{
    struct thing *thing = copies_some(s->copies);
    struct entity entity;

    if (thing->alive || copies_alive(s->copies) >= MOST_ALIVE)
        return;
    make(s, &entity, thing);
    put(s, COPIES_SOURCE, OPERATION_INSERT, &entity);
}

/* False: it is not there. */
static bool reads(
    struct migrate_state *s, const struct thing *thing, struct slice *etag)
{
    return sim_get_etag(
        s->sim, COPIES_SOURCE, thing->partition_key, thing->row_key, etag);
}

/* The whole entity, by who has read it and takes its time. */
static void replaces(struct migrate_state *s)
{
    const struct thing *thing = copies_some(s->copies);
    struct entity entity;
    struct slice etag;

    if (!reads(s, thing, &etag))
        return;
    front_thinks(500);
    make(s, &entity, thing);
    entity.etag = etag;
    put(s, COPIES_SOURCE, OPERATION_REPLACE, &entity);
}

/* A property alone: mostly that which keys are made of. */
static void merges(struct migrate_state *s)
{
    const struct thing *thing = copies_some(s->copies);
    struct entity entity;
    struct slice etag;

    if (!reads(s, thing, &etag))
        return;
    entity_init(&entity, &s->arena, thing->partition_key, thing->row_key);
    entity_set_int64(&entity, &s->arena, "Token", ++s->tokens);
    if (sim_chance(60))
        entity_set_int32(&entity, &s->arena, "Month", 1 + (int32_t)sim_draw(3));
    else
        set_text(s, &entity, "Title", "New");
    front_thinks(500);
    entity.etag = etag;
    put(s, COPIES_SOURCE, OPERATION_MERGE, &entity);
}

static void deletes(struct migrate_state *s)
{
    const struct thing *thing = copies_some(s->copies);
    struct entity entity = {
        .partition_key = thing->partition_key, .row_key = thing->row_key};

    if (!reads(s, thing, &entity.etag))
        return;
    front_thinks(500);
    put(s, COPIES_SOURCE, OPERATION_DELETE, &entity);
}

/* ---- front ends: at the destinations ---- */

/* What is there already when a copy comes: equal to it, or not. */
static void puts_foreign(struct migrate_state *s)
{
    const struct thing *thing = copies_some(s->copies);
    const struct copy_model *model = &s->rules.model;
    size_t target = sim_draw((unsigned)model->count);
    struct entity entity;

    if (!thing->last ||
        !copy_model_make(model, target, &thing->last->now, &s->arena, &entity))
        return;
    if (sim_chance(50))
        set_text(s, &entity, "Title", "Foreign");
    if (sim_chance(30))
        set_text(s, &entity, "Extra", "Foreign");
    put(s, model->targets[target].table, OPERATION_INSERT, &entity);
}

/* An application that knows nothing of copies writes them whole. */
static void meddles(struct migrate_state *s)
{
    const struct cell *cell = copies_some_cell(s->copies);
    char table[80];
    struct entity entity;

    if (!cell)
        return;
    (void)snprintf(table, sizeof(table), "%.*s", SLICE_ARG(cell->table));
    entity_copy(&entity, &s->arena, &cell->now);
    if (sim_chance(20)) {
        put(s, table, OPERATION_DELETE, &entity);
        return;
    }
    if (!s->rules.reindex && sim_chance(30)) {
        struct slice etag = entity.etag;

        entity_init(&entity, &s->arena, entity.partition_key, entity.row_key);
        entity.etag = etag;
    }
    set_text(s, &entity, "Hand", "here");
    put(s, table, OPERATION_REPLACE, &entity);
}

/* ---- front ends: reading ---- */

/* First the source; then, where it is not there, where it should be. */
static void polls(struct migrate_state *s)
{
    const struct thing *thing = copies_some(s->copies);
    const struct version *was = thing->last;
    struct slice etag;

    if (!was || reads(s, thing, &etag))
        return;
    front_thinks(200);
    copies_judge_reader(s->copies, thing, was);
}

/* ---- front ends: asking for runs ---- */

static const char *some_what(const struct migrate_state *s)
{
    return s->rules.by_argument ? KINDS[sim_draw(KIND_COUNT)] : KINDS[0];
}

static void asks(struct migrate_state *s)
{
    struct front_ask ask = front_draw_ask(some_what(s));

    ask.named = s->alone;
    if (!s->alone || book_all_ended(s->sim->book))
        front_asks(s->sim, &ask);
}

static unsigned ask_all(struct migrate_state *s, const char *name)
{
    unsigned count = s->rules.by_argument ? KIND_COUNT : 1;
    char id[16];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "%s%u", name, i);
        sim_control_enqueue(s->sim, KINDS[i], id);
    }
    return count;
}

static void ask_second(void *arg)
{
    struct migrate_state *s = arg;

    while (!s->sim->quiet || !book_all_ended(s->sim->book))
        virtual_sleep(1000);
    virtual_sleep(LANDED_MS);
    copies_rest(s->copies);
    (void)ask_all(s, "second");
    s->sim->late_comers--;
}

/* Of the last ones, asked for when nobody writes any more. */
static void last_ended(struct migrate_state *s)
{
    if (--s->lasts > 0)
        return;
    s->sim->late_comers++;
    virtual_start(virtual_process("second"), "second", ask_second, s);
}

static void acts(void *state)
{
    struct migrate_state *s = state;
    unsigned drawn = sim_draw(100);

    if (drawn < 20)
        inserts(s);
    else if (drawn < 30)
        replaces(s);
    else if (drawn < 45)
        merges(s);
    else if (drawn < 55)
        deletes(s);
    else if (drawn < 60 && s->meddled)
        meddles(s);
    else if (drawn < 62 && s->meddled && !s->rules.reindex)
        puts_foreign(s);
    else if (drawn < 74)
        polls(s);
    else if (drawn < 78)
        copies_judge_tables(s->copies);
    else if (drawn < 96)
        asks(s);
    else if (drawn < 99)
        sim_cancel(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

static void ask_last(void *state)
{
    struct migrate_state *s = state;

    s->lasts = ask_all(s, "last");
}

static void front_ends(void *state)
{
    struct migrate_state *s = state;

    front_start(&(struct front){.sim = s->sim,
        .state = s,
        .act = acts,
        .last = ask_last,
        .acts = 30,
        .pauses_ms = {20, 200, 2000, 5000}});
}

/* ---- the kind ---- */

static void committed(void *state, const struct sim_commit *commit)
{
    struct migrate_state *s = state;

    copies_committed(s->copies, commit);
}

static void unsure(void *state, const struct batch *batch)
{
    struct migrate_state *s = state;

    copies_unsure(s->copies, batch);
}

static void run_moved(
    void *state, const struct sim_run *run, enum ledger_state was)
{
    struct migrate_state *s = state;

    (void)was;
    copies_run_moved(s->copies, run);
    if (!run->ended || slice_is(run->now.job, LEDGER_UNREADABLE))
        return;
    copies_judge_end(s->copies, run);
    if (slice_begins(run->now.id, slice_of("last")))
        last_ended(s);
}

/* Designs that people use; the second are copies beside the first. */
static void draw_targets(struct copy_model *model)
{
    static const struct copy_target FIRST[] = {
        {COPIES_TARGET, COPY_SAME, COPY_SAME},
        {COPIES_TARGET, COPY_SUFFIX, COPY_SAME},
        {COPIES_TARGET, COPY_ALL, COPY_FULL},
        {COPIES_TARGET, COPY_ALL, COPY_SAME}, /* partitions collide */
        {COPIES_TARGET, COPY_MONTH, COPY_SAME},
        {COPIES_TARGET, COPY_MONTH, COPY_SAME},
        {COPIES_TARGET, COPY_SAME, COPY_ROW_MONTH},
        {COPIES_TARGET, COPY_SAME, COPY_NAME},
    };
    static const struct copy_target SECOND[] = {
        {COPIES_TARGET, COPY_SAME, COPY_PREFIX},
        {COPIES_TARGET, COPY_SAME, COPY_PREFIX_MONTH},
        {COPIES_OTHER, COPY_SAME, COPY_SAME},
        {COPIES_OTHER, COPY_ALL, COPY_NAME},
        {COPIES_OTHER, COPY_MONTH, COPY_SAME},
    };

    model->targets[0] = SIM_PICK(FIRST);
    model->targets[1] = SIM_PICK(SECOND);
    model->count = sim_chance(70) ? 1 : 2;
    model->shape = (enum copy_shape)sim_draw(COPY_SHAPES);
}

/* What was stripped cannot be told from what is foreign: to replace that would
 * be to let two sources of one key take each other's place. */
static void draw_rules(struct copies_rules *rules)
{
    draw_targets(&rules->model);
    rules->move = sim_chance(60);
    rules->on_conflict = (enum copies_conflict)sim_draw(COPIES_CONFLICTS);
    rules->strip = sim_chance(15);
    if (rules->strip && rules->on_conflict >= COPIES_REPLACE)
        rules->on_conflict = COPIES_FAIL;
    rules->by_argument = sim_chance(30);
    rules->filtered = rules->by_argument || sim_chance(50);
    rules->kind = KINDS[0];
}

static void fill(struct migrate_state *s)
{
    int partitions = 1 + (int)sim_draw(PARTITIONS_MAX);
    int numbers = 3 + (int)sim_draw(NUMBERS_MAX - 3);
    unsigned tries = 5 + sim_draw(40);

    for (int i = 0; i < partitions * numbers; i++)
        (void)copies_add(s->copies, arena_format(&s->arena, "p%d", i / numbers),
            arena_format(&s->arena, "e%02d", i % numbers));
    for (unsigned i = 0; i < tries; i++)
        inserts(s);
    if (s->rules.reindex || sim_chance(50))
        return; /* nothing is at the destinations */
    for (unsigned i = 0; i < tries / 4; i++)
        puts_foreign(s);
}

/* Copies beside their sources. An entity without provenance is a source there,
 * whoever has made it: so nobody takes it off. */
static void draw_reindex(struct copies_rules *rules)
{
    static const struct copy_target FIRST[] = {
        {COPIES_SOURCE, COPY_SAME, COPY_PREFIX},
        {COPIES_SOURCE, COPY_SUFFIX, COPY_PREFIX},
        {COPIES_SOURCE, COPY_MONTH, COPY_PREFIX},
    };

    rules->reindex = true;
    rules->model.targets[0] = SIM_PICK(FIRST);
    rules->model.targets[1] =
        (struct copy_target){COPIES_SOURCE, COPY_SAME, COPY_PREFIX_MONTH};
    rules->model.count = 1 + sim_draw(2);
    rules->model.shape = (enum copy_shape)sim_draw(COPY_SHAPES);
    rules->filtered = sim_chance(60);
    rules->kind = KINDS[0];
}

static void *begin_world(
    struct sim *sim, void (*draw)(struct copies_rules *rules))
{
    static const char *const PASSES[] = {
        "", "    max_passes: 5\n", "    max_passes: 20\n"};
    struct migrate_state *s = mem_alloc(sizeof(*s));

    s->sim = sim;
    sim->state = s; /* what it writes now is judged already */
    sim->once = true;
    arena_init(&s->arena);
    draw(&s->rules);
    s->copies = copies_new(sim, &s->rules);
    s->bad = SIM_PICK(((unsigned[]){0, 0, 0, 5, 20}));
    s->collide = SIM_PICK(((unsigned[]){0, 0, 20, 60}));
    s->meddled = sim_chance(25);
    s->alone = sim_chance(50);
    for (unsigned n = 0; n < SIM_DEFINITIONS; n++) {
        s->passes[n] = SIM_PICK(PASSES);
        s->verify[n] = sim_chance(50);
    }
    sim_create_table(sim, COPIES_SOURCE);
    /* Else the worker makes them. */
    if (!s->rules.reindex && sim_chance(70)) {
        sim_create_table(sim, COPIES_TARGET);
        sim_create_table(sim, COPIES_OTHER);
    }
    fill(s);
    return s;
}

static void *begin(struct sim *sim)
{
    return begin_world(sim, draw_rules);
}

static void *begin_reindex(struct sim *sim)
{
    return begin_world(sim, draw_reindex);
}

static void add_filter(const struct copies_rules *rules, struct buf *to)
{
    if (rules->filtered)
        buf_add_format(to, ", filter: \"EntityType eq '%s'\"",
            rules->by_argument ? "{" SIM_ARGUMENT "}" : rules->kind);
}

static void add_migrate(
    const struct migrate_state *s, unsigned n, struct buf *to)
{
    static const char *const CONFLICTS[] = {
        [COPIES_FAIL] = "fail",
        [COPIES_SKIP] = "skip",
        [COPIES_REPLACE] = "replace",
        [COPIES_MERGE] = "merge",
    };
    const struct copies_rules *rules = &s->rules;

    buf_add_text(to, "    kind: migrate\n    from: {table: " COPIES_SOURCE);
    add_filter(rules, to);
    buf_add_text(to, "}\n");
    copy_model_add(&rules->model, to);
    buf_add_format(to,
        "    mode: %s\n"
        "    on_conflict: %s\n"
        "    verify: %s\n%s",
        rules->move ? "move" : "copy", CONFLICTS[rules->on_conflict],
        s->verify[n] ? "true" : "false",
        rules->strip ? "    strip: true\n" : "");
}

static char *job(void *state, unsigned n)
{
    const struct migrate_state *s = state;
    struct buf text;

    buf_init(&text, 64 * 1024);
    buf_add_text(&text, SIM_JOB ":\n    args: [" SIM_ARGUMENT "]\n");
    if (s->rules.reindex) {
        buf_add_text(
            &text, "    kind: reindex\n    table: " COPIES_SOURCE "\n");
        if (s->rules.filtered)
            buf_add_format(
                &text, "    filter: \"EntityType eq '%s'\"\n", s->rules.kind);
        copy_model_add_reindex(&s->rules.model, &text);
    } else {
        add_migrate(s, n, &text);
    }
    buf_add_text(&text, s->passes[n]);
    virtual_note("definition %u: %s", n, buf_text(&text));
    return buf_take(&text);
}

static void end(void *state)
{
    struct migrate_state *s = state;

    copies_judge_tables(s->copies);
    copies_free(s->copies);
    arena_done(&s->arena);
    mem_free(s);
}

const struct sim_kind sim_migrate = {
    .name = "migrate",
    .looks_at = COPIES_SOURCE,
    .begin = begin,
    .job = job,
    .front_ends = front_ends,
    .committed = committed,
    .unsure = unsure,
    .run_moved = run_moved,
    .end = end,
};

const struct sim_kind sim_reindex = {
    .name = "reindex",
    .looks_at = COPIES_SOURCE,
    .begin = begin_reindex,
    .job = job,
    .front_ends = front_ends,
    .committed = committed,
    .unsure = unsure,
    .run_moved = run_moved,
    .end = end,
};
