/* SPDX-License-Identifier: MIT */
/*
 * What a run that copies would do: every source is read and its copies are
 * made, and nothing is written.
 *
 * Batches are counted as the sorter will fill them: one per started hundred of
 * each destination partition among what it holds at a time. Whether two
 * sources would meet at the same keys can be told of those that are not far
 * from each other only, as memory does not grow with the work.
 */
#include <assert.h>
#include <stdlib.h>

#include "jobs/copier_tables.h"
#include "jobs/copier_work.h"
#include "jobs/counting.h"
#include "jobs/engine/sorter.h"
#include "jobs/job.h"
#include "worker/base/mem.h"
#include "worker/store/lanes.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_estimate_table *)0)->first_keys) / sizeof(char *))
#define FIRST_FAILED 10
#define DETAILS_MAX_BYTES (1024 * 1024)

/* What a copy's provenance takes; what is written around it in a batch; and
 * what the sorter keeps beside its texts, of the whole and of a property. */
#define PROVENANCE_BYTES 380
#define OPERATION_BYTES 512
#define HELD_BYTES 200
#define HELD_PROPERTY_BYTES 12

/* No more of them have room in the sorter. */
#define WAITING_MAX (SORTER_MAX_BYTES / (HELD_BYTES + PROVENANCE_BYTES) + 1)

static_assert(WAITING_MAX <= SORTER_MAX_OPERATIONS, "bytes fill it first");

/* The newest keys of copies that are remembered, by their digests. */
#define RECENT_MAX 32768

/* A copy that waits in the sorter. */
struct waiting {
    size_t table; /* of the copier's */
    uint64_t partition;
    size_t bytes;
};

struct copy_count {
    struct copier c;
    struct job_estimate *estimate;
    struct job_estimate_table *shown; /* [0] the sources, then the tables */
    struct counting sources;
    struct waiting *waiting; /* WAITING_MAX */
    size_t waiting_count, waiting_bytes;
    struct digest *recent; /* RECENT_MAX */
    bool missing[COPYING_MAX_TARGETS];
    int64_t copies, there, failed_count, met_count;
    struct buf failed; /* lines about the first ones */
};

/* ---- batches ---- */

static int compare_waiting(const void *left, const void *right)
{
    const struct waiting *a = left, *b = right;

    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return 0;
}

/* The sorter is poured. */
static void pour(struct copy_count *count)
{
    size_t in_batch = 0, bytes = 0;

    qsort(count->waiting, count->waiting_count, sizeof(*count->waiting),
        compare_waiting);
    for (size_t i = 0; i < count->waiting_count; i++) {
        const struct waiting *next = &count->waiting[i];
        size_t most =
            count->c.tables[next->table].store->traits.batch_max_bytes;

        if (i == 0 || compare_waiting(next, next - 1) != 0 ||
            in_batch == BATCH_MAX_OPERATIONS || bytes + next->bytes > most) {
            count->shown[1 + next->table].batches++;
            in_batch = bytes = 0;
        }
        in_batch++;
        bytes += next->bytes;
    }
    count->waiting_count = count->waiting_bytes = 0;
}

static uint64_t partition_of(const struct entity *copy)
{
    const struct entity alone = {
        .partition_key = copy->partition_key, .row_key = slice_of("")};

    return entity_digest(&alone, slice_of("")).low;
}

static size_t held_bytes(const struct entity *copy)
{
    size_t bytes = HELD_BYTES + PROVENANCE_BYTES + copy->partition_key.len +
                   copy->row_key.len;

    for (size_t i = 0; i < copy->property_count; i++)
        bytes += HELD_PROPERTY_BYTES + copy->properties[i].name.len +
                 copy->properties[i].json.len;
    return bytes;
}

static void hold(
    struct copy_count *count, size_t table, const struct entity *copy)
{
    count->waiting[count->waiting_count++] = (struct waiting){
        .table = table,
        .partition = partition_of(copy),
        .bytes = entity_json_bytes(copy) + PROVENANCE_BYTES + OPERATION_BYTES,
    };
    count->waiting_bytes += held_bytes(copy);
    if (count->waiting_bytes >= SORTER_MAX_BYTES)
        pour(count);
}

/* ---- one source ---- */

static void note_failed(
    struct copy_count *count, const struct entity *source, const char *why)
{
    if (count->failed_count + count->met_count > FIRST_FAILED)
        return;
    buf_add_text(&count->failed, "  ");
    entity_add_keys(&count->failed, source->partition_key, source->row_key);
    buf_add_format(&count->failed, ": %s\n", why);
}

/* Was there a copy at these keys not long ago? Remembers this one. */
static bool is_met(
    struct copy_count *count, size_t table, const struct entity *copy)
{
    const struct entity keys = {
        .partition_key = copy->partition_key, .row_key = copy->row_key};
    struct digest digest = entity_digest(&keys, slice_of("")), *place;
    bool is;

    digest.high += table;
    place = &count->recent[digest.low % RECENT_MAX];
    is = place->low == digest.low && place->high == digest.high;
    *place = digest;
    return is;
}

static void note_met(struct copy_count *count, const struct entity *source,
    const struct entity *copy)
{
    struct buf why;

    count->met_count++;
    buf_init(&why, 4 * ENTITY_MAX_KEY_BYTES);
    buf_add_text(&why, "its copy would have the keys of another's: ");
    entity_add_keys(&why, copy->partition_key, copy->row_key);
    note_failed(count, source, buf_text(&why));
    buf_done(&why);
}

static void count_copy(
    struct copy_count *count, size_t table, const struct entity *copy)
{
    struct job_estimate_table *shown = &count->shown[1 + table];

    if ((size_t)shown->entities < FIRST_KEYS)
        shown->first_keys[shown->entities] =
            arena_format(&count->estimate->arena, "%.*s/%.*s",
                SLICE_ARG(copy->partition_key), SLICE_ARG(copy->row_key))
                .at;
    shown->entities++;
    count->copies++;
    hold(count, table, copy);
}

static void count_copies(struct copy_count *count, const struct entity *source,
    const struct entity *copies)
{
    bool good = true;

    for (size_t i = 0; i < count->c.rules->target_count; i++) {
        size_t table = count->c.table_of[i];

        if (is_met(count, table, &copies[i])) {
            note_met(count, source, &copies[i]);
            good = false;
        } else {
            count_copy(count, table, &copies[i]);
        }
    }
    if (good || !count->c.rules->move)
        counting_add(&count->sources, source, 0);
}

static void count_entity(struct copy_count *count, const struct entity *entity,
    struct arena *scratch)
{
    struct copier *c = &count->c;
    struct entity copies[COPYING_MAX_TARGETS];
    struct provenance provenance;
    struct err why;

    if (!copier_is_source(c, entity, scratch)) {
        if (c->rules->sources_lack_provenance &&
            copier_reads_ours(c, &c->tables[0], entity, scratch, &provenance))
            count->there++;
        return;
    }
    if (copier_make(c, entity, scratch, copies, &why)) {
        count_copies(count, entity, copies);
        return;
    }
    count->failed_count++;
    note_failed(count, entity, why.text);
}

static enum tw_err count_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    struct copy_count *count = context;

    (void)c, (void)err;
    count->shown[0].pages++;
    for (size_t i = 0; i < page->count; i++) {
        count_entity(count, &page->entities[i], scratch);
        arena_clear(scratch);
    }
    return TW_OK;
}

/* ---- the destinations ---- */

static enum tw_err see_nothing(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    (void)context;
    (void)page;
    (void)scratch;
    atomic_fetch_sub(&c->run->counts.read, (int64_t)page->count);
    return err_fail(err, TW_CONFLICT, "it holds something");
}

/* Is it there, and does it hold anything? */
static enum tw_err probe(struct copy_count *count, size_t at, struct err *err)
{
    static const struct slice keys_only[1];
    struct copier_table *table = &count->c.tables[at];
    const struct copier_reader reader = {see_nothing, NULL};
    struct scan_spec spec = {.store = table->store,
        .table = table->place.table,
        .select = keys_only,
        .run = count->c.run};
    enum tw_err outcome;

    if (table->has_partition)
        spec.partition_key = key_range_exact(table->partition_key);
    outcome = copier_scan(&count->c, &spec, &reader, err);
    count->missing[at] = outcome == TW_NOT_FOUND;
    table->empty = outcome == TW_OK || count->missing[at];
    if (table->empty || outcome == TW_CONFLICT)
        return TW_OK;
    return outcome;
}

static enum tw_err probe_all(struct copy_count *count, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count->c.table_count && outcome == TW_OK; i++)
        outcome = probe(count, i, err);
    return outcome;
}

/* ---- what is said of it ---- */

static void add_number(struct buf *to, int64_t number, const char *of_which)
{
    if (number > 0)
        buf_add_format(to, "%s%lld\n", of_which, (long long)number);
}

static void add_destinations(const struct copy_count *count, struct buf *to)
{
    const struct copier *c = &count->c;

    for (size_t i = 0; i < c->table_count; i++) {
        const struct place *place = &c->tables[i].place;
        const char *store = c->stores->names[place->store];

        if (count->missing[i])
            buf_add_format(to,
                "table %s does not exist in store %s, and would be created\n",
                place->table, store);
        else if (!c->tables[i].empty && !place_same(place, &c->rules->from))
            buf_add_format(to,
                "table %s in store %s is not empty: what stands where a copy "
                "is to be is not counted here\n",
                place->table, store);
    }
}

static void add_details(const struct copy_count *count, struct buf *to)
{
    const struct copier_rules *rules = count->c.rules;
    const struct job_estimate_table *sources = &count->shown[0];

    buf_add_format(to, "%s is read, and copies are written", sources->table);
    if (rules->move)
        buf_add_format(to, "; then %lld are deleted there in %lld %s",
            (long long)sources->entities, (long long)sources->batches,
            sources->batches == 1 ? "batch" : "batches");
    buf_add_char(to, '\n');
    add_destinations(count, to);
    add_number(to, count->there,
        "copies that stand already, and stay where they are right: ");
    add_number(to, count->failed_count, "would fail: ");
    add_number(to, count->met_count,
        "would fail because another's copy has the same keys: at least ");
    buf_add_slice(to, buf_slice(&count->failed));
}

static void set_details(struct copy_count *count)
{
    struct job_estimate *estimate = count->estimate;
    struct buf details;

    buf_init(&details, DETAILS_MAX_BYTES);
    add_details(count, &details);
    details.len--; /* the last line's end */
    estimate->details = arena_copy(&estimate->arena, buf_slice(&details)).at;
    buf_done(&details);
}

static int64_t pages_of(int64_t entities)
{
    return entities / PAGE_MAX_ENTITIES + 1;
}

/* How often each side is read by a run that nobody disturbs: a move reads the
 * sources until none is left; a copy looks at both sides once they should
 * agree, and before too where the destination holds something. */
static void set_sums(struct copy_count *count)
{
    const struct copier_rules *rules = count->c.rules;
    struct job_estimate_table *sources = &count->shown[0];
    int64_t looks = copier_tables_empty(&count->c) ? 1 : 3;
    int64_t source_reads = rules->move ? 1 : looks + (looks == 1);
    int64_t copy_reads = rules->move ? rules->verify : looks;
    int64_t read = atomic_load(&count->c.run->counts.read);
    int64_t sum = sources->pages * source_reads + sources->batches +
                  rules->move + (int64_t)count->c.table_count;

    copy_reads += rules->strip;
    for (size_t i = 1; i <= count->c.table_count; i++) {
        struct job_estimate_table *shown = &count->shown[i];

        shown->pages = pages_of(shown->entities) * copy_reads;
        sum += shown->pages + shown->batches * (1 + rules->strip) +
               count->missing[i - 1];
    }
    sources->pages *= source_reads;
    count->estimate->transactions = sum;
    count->estimate->read = read * source_reads +
                            count->copies * (copy_reads + rules->strip) -
                            (rules->move ? 0 : sources->entities);
}

static void finish(struct copy_count *count)
{
    pour(count);
    if (!count->c.rules->move)
        count->shown[0].batches = 0; /* they are read, and stay */
    set_sums(count);
    set_details(count);
}

/* ---- the estimate ---- */

/* Of another store, or where the sources stand too, it is told apart. */
static const char *label(const struct copy_count *count, size_t at)
{
    const struct copier *c = &count->c;
    const struct place *place = &c->tables[at].place, *from = &c->rules->from;
    struct arena *arena = &count->estimate->arena;

    if (place_same(place, from))
        return arena_format(arena, "%s, copies", place->table).at;
    if (place->store != from->store)
        return arena_format(
            arena, "%s in %s", place->table, c->stores->names[place->store])
            .at;
    return place->table;
}

static enum tw_err set_up(struct copy_count *count, struct err *err)
{
    struct copier *c = &count->c;
    struct job_estimate *estimate = count->estimate;
    enum tw_err outcome = selection_bind(&c->rules->selector, &c->run->args,
        NULL, &estimate->arena, &c->selection, err);

    if (outcome == TW_OK)
        outcome = selection_check(&c->selection, err);
    if (outcome == TW_OK)
        outcome = copier_tables_find(c, err);
    if (outcome != TW_OK)
        return outcome;
    estimate->table_count = 1 + c->table_count;
    count->shown = estimate->tables = arena_alloc(
        &estimate->arena, estimate->table_count * sizeof(*estimate->tables));
    count->shown[0].table = c->rules->from.table;
    count->shown[0].table_scan = selector_scans_table(&c->rules->selector);
    counting_begin(
        &count->sources, count->shown, &estimate->arena, BATCH_MAX_BYTES);
    for (size_t i = 0; i < c->table_count; i++)
        count->shown[1 + i].table = label(count, i);
    return TW_OK;
}

enum tw_err copier_estimate(const struct copier_rules *rules,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    struct copy_count count = {.estimate = ret};
    const struct copier_reader reader = {count_page, &count};
    enum tw_err outcome;

    *ret = (struct job_estimate){.table_count = 0};
    arena_init(&ret->arena);
    count.c = (struct copier){.rules = rules,
        .stores = stores,
        .run = run,
        .err = err,
        .store = stores->stores[rules->from.store]};
    arena_init(&count.c.arena);
    buf_init(&count.failed, DETAILS_MAX_BYTES / 2);
    count.waiting = mem_array(WAITING_MAX, sizeof(*count.waiting));
    count.recent = mem_array(RECENT_MAX, sizeof(*count.recent));
    outcome = set_up(&count, err);
    if (outcome == TW_OK)
        outcome = probe_all(&count, err);
    if (outcome == TW_OK)
        outcome = copier_scan_sources(&count.c, false, &reader, err);
    if (outcome == TW_OK)
        finish(&count);
    mem_free(count.recent);
    mem_free(count.waiting);
    buf_done(&count.failed);
    arena_done(&count.c.arena);
    return outcome;
}
