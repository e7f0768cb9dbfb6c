/* SPDX-License-Identifier: MIT */
/* The dry run of a move, and its verification. */
#include "jobs/move/count.h"

#include <stdlib.h>

#include "jobs/counting.h"
#include "jobs/engine/call.h"
#include "jobs/engine/scan.h"
#include "jobs/move/carry.h"
#include "jobs/move/mover.h"
#include "jobs/move/takeover.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Number of requests of a load besides those for its entities: one reads the
 * destination's clock; the others store, change and remove the intent. */
#define REQUESTS_PER_LOAD 4

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_difference *)0)->first_keys) / sizeof(char *))

/* Sets the fields of a mover that only reads. */
static enum tw_err begin_reading(struct mover *m, struct err *err)
{
    arena_init(&m->arena);
    mover_set_ends(m);
    return selection_of_run(
        &m->rules->selector, &m->run->args, &m->arena, &m->selection, err);
}

/* Calls each(ctx, entity) for every source. */
static enum tw_err read_sources(struct mover *m,
    void (*each)(void *ctx, const struct entity *entity), void *ctx,
    int64_t *ret_pages, struct err *err)
{
    struct scan_spec spec = {.store = m->ends.stores[PAIR_SOURCE],
        .table = m->ends.tables[PAIR_SOURCE],
        .run = m->run};
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    selection_spec(&m->selection, true, NULL, 0, &m->arena, &spec);
    scan = scan_open(m->run->pool_client, &spec);
    do {
        outcome = scan_next(scan, &page, err);
        if (outcome != TW_OK || !page)
            break;
        atomic_fetch_add(&m->run->counts.read, (int64_t)page->count);
        for (size_t i = 0; i < page->count; i++)
            if (carry_selects(m, &page->entities[i]))
                each(ctx, &page->entities[i]);
    } while (true);
    *ret_pages = (int64_t)scan_pages(scan);
    scan_close(scan);
    return outcome;
}

/* ---- the dry run ---- */

struct estimating {
    struct mover m;
    struct job_estimate *ret;
    struct counting sources;
    uint64_t partitions[LOAD_MAX_PAIRS]; /* hashes of the partitions of a
                                            load's copies */
    size_t count;
    size_t limit; /* maximum number of pairs of a load */
    int64_t loads, unmade;
    struct err unmade_why;
};

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

/* Adds the batches of a load: one for each 100 copies of a partition, and one
 * for the remaining copies. */
static void close_load(struct estimating *e)
{
    struct job_estimate_table *copies = &e->ret->tables[PAIR_COPY];
    size_t in_batch = 0;

    qsort(e->partitions, e->count, sizeof(e->partitions[0]), compare_numbers);
    for (size_t i = 0; i < e->count; i++) {
        if (i == 0 || e->partitions[i] != e->partitions[i - 1] ||
            in_batch == BATCH_MAX_OPERATIONS) {
            copies->batches++;
            in_batch = 0;
        }
        in_batch++;
    }
    e->loads += e->count > 0;
    e->count = 0;
}

static void add_copy(struct estimating *e, const struct entity *copy)
{
    struct job_estimate_table *copies = &e->ret->tables[PAIR_COPY];

    if ((size_t)copies->entities < FIRST_KEYS)
        copies->first_keys[copies->entities] =
            arena_format(&e->ret->arena, "%.*s/%.*s",
                SLICE_ARG(copy->partition_key), SLICE_ARG(copy->row_key))
                .at;
    copies->entities++;
    e->partitions[e->count++] = digest_of(copy->partition_key).low;
    if (e->count == e->limit)
        close_load(e);
}

static void estimate_entity(void *ctx, const struct entity *source)
{
    struct estimating *e = ctx;
    struct arena scratch;
    struct entity copy;
    struct err why;

    arena_init(&scratch);
    if (carry_make(&e->m, source, &scratch, &copy, &why) == TW_OK) {
        counting_add(&e->sources, source, 0);
        add_copy(e, &copy);
    } else if (e->unmade++ == 0) {
        e->unmade_why = why;
    }
    arena_done(&scratch);
}

static void sum_up(struct estimating *e)
{
    struct job_estimate *ret = e->ret;

    close_load(e);
    ret->transactions =
        ret->tables[PAIR_SOURCE].pages + ret->tables[PAIR_SOURCE].batches +
        2 * ret->tables[PAIR_COPY].batches + REQUESTS_PER_LOAD * e->loads;
    ret->read = ret->tables[PAIR_COPY].entities;
    if (e->unmade > 0)
        ret->details = arena_format(&ret->arena,
            "%lld %s cannot be moved and would stay; reason for the first: "
            "%s\n",
            (long long)e->unmade, e->unmade == 1 ? "entity" : "entities",
            e->unmade_why.text)
                           .at;
}

enum tw_err move_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    struct estimating *e;
    enum tw_err outcome;

    ret->table_count = 2;
    ret->tables = arena_alloc(&ret->arena, 2 * sizeof(*ret->tables));
    e = arena_alloc(&ret->arena, sizeof(*e));
    e->ret = ret;
    e->limit = move_load_limit(job->max_entities_per_second);
    e->m = (struct mover){.rules = job->settings, .stores = stores, .run = run};
    outcome = begin_reading(&e->m, err);
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++)
        ret->tables[side].table = e->m.ends.tables[side];
    ret->tables[PAIR_SOURCE].table_scan =
        selector_scans_table(&e->m.rules->selector);
    counting_begin(&e->sources, &ret->tables[PAIR_SOURCE], &ret->arena,
        e->m.ends.stores[PAIR_SOURCE]->capabilities.batch_max_bytes);
    if (outcome == TW_OK)
        outcome = read_sources(
            &e->m, estimate_entity, e, &ret->tables[PAIR_SOURCE].pages, err);
    if (outcome == TW_OK)
        sum_up(e);
    arena_done(&e->m.arena);
    return outcome;
}

/* ---- verification ---- */

struct verifying {
    struct mover m;
    struct job_verification *ret;
    bool second;         /* true in the second pass, which confirms
                            differences */
    int64_t began_ticks; /* the service's clock before the first pass */
};

static void note_difference(struct verifying *v, struct job_difference *found,
    struct slice where, struct slice partition_key, struct slice row_key)
{
    if (v->second && (size_t)found->count < FIRST_KEYS)
        found->first_keys[found->count] =
            arena_format(&v->ret->arena, "%.*s %.*s/%.*s", SLICE_ARG(where),
                SLICE_ARG(partition_key), SLICE_ARG(row_key))
                .at;
    found->count++;
}

/* Verifies one source. The second pass skips sources written after the first
 * pass began, because the first pass may not have found such sources. */
static void verify_source(void *ctx, const struct entity *entity)
{
    struct verifying *v = ctx;
    int64_t ticks;

    if (v->second && text_ticks(entity->timestamp, &ticks) &&
        ticks >= v->began_ticks)
        return;
    note_difference(v, &v->ret->differences[0],
        slice_of(v->m.ends.tables[PAIR_SOURCE]), entity->partition_key,
        entity->row_key);
}

static enum tw_err verify_intent(
    void *ctx, struct intent *intent, struct load *load, struct err *err)
{
    struct verifying *v = ctx;
    bool concerns;
    enum tw_err outcome = takeover_concerns(&v->m, intent, &concerns, err);

    (void)load;
    if (outcome == TW_OK && concerns)
        note_difference(v, &v->ret->differences[1],
            slice_of(v->m.run->ledger_table), slice_of(INTENTS_PARTITION),
            slice_of(intent->row_key));
    return outcome;
}

static enum tw_err verify_pass(struct verifying *v, struct err *err)
{
    struct load load;
    int64_t pages;
    enum tw_err outcome;

    v->ret->differences[0].count = v->ret->differences[1].count = 0;
    outcome = read_sources(&v->m, verify_source, v, &pages, err);
    if (outcome != TW_OK || !v->m.run->ledger)
        return outcome;
    move_load_init(&load);
    outcome = intent_each(v->m.run, &load, verify_intent, v, err);
    move_load_done(&load);
    return outcome;
}

static enum tw_err verify_twice(struct verifying *v, struct err *err)
{
    struct run *run = v->m.run;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(run->pool_client, v->m.ends.stores[PAIR_SOURCE],
        v->m.ends.tables[PAIR_SOURCE], slice_of("!"), slice_of("!"), &page,
        &v->began_ticks, err);
    page_done(&page);
    if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        return outcome;
    outcome = verify_pass(v, err);
    if (outcome != TW_OK || (v->ret->differences[0].count == 0 &&
                                v->ret->differences[1].count == 0))
        return outcome;
    v->second = true;
    return verify_pass(v, err);
}

enum tw_err move_verify(const struct job *job, const struct job_stores *stores,
    struct run *run, struct job_verification *ret, struct err *err)
{
    struct verifying *v;
    enum tw_err outcome;

    ret->count = 2;
    ret->differences = arena_alloc(&ret->arena, 2 * sizeof(*ret->differences));
    ret->differences[0].what = "sources that are selected and were not moved";
    ret->differences[1].what = "intents of interrupted moves";
    v = arena_alloc(&ret->arena, sizeof(*v));
    v->ret = ret;
    v->m = (struct mover){.rules = job->settings, .stores = stores, .run = run};
    outcome = begin_reading(&v->m, err);
    if (outcome == TW_OK)
        outcome = verify_twice(v, err);
    ret->read = atomic_load(&run->counts.read);
    arena_done(&v->m.arena);
    return outcome;
}
