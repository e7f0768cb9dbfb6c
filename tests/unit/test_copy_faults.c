/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever fails, is cut off, arrives late or happens at the same time, a
 * copy loses nothing, and ends as one undisturbed run would.
 *
 * A storm is a table of sources and a job that copies it, in a store that fails
 * at random, with attempts that are stopped or killed anywhere. Meanwhile an
 * application inserts, changes, re-keys, swaps and deletes sources, edits and
 * deletes copies, inserts foreign entities at the keys of copies, and copies
 * entities together with their TablewardSource. The checks use only what the
 * application was told: an entity that was acknowledged is still stored, unless
 * the application deleted or overwrote it, or the job may replace it. After a
 * last, undisturbed run the copies match their sources.
 *
 *   TABLEWARD_SEEDS=5000  that many storms instead of the everyday number
 *   TABLEWARD_SEED=17     only that storm
 */
#include "tests/support/storm.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

#define EVERYDAY_SEEDS 40
#define SOURCES 12
#define SIZES 4
#define CELLS_MAX 512
#define ATTEMPTS_MAX 200
#define STORMY_ATTEMPTS 20

/* The last write of the application at these keys. */
enum cell_kind {
    SOURCE,  /* never touched by the job */
    FOREIGN, /* a foreign entity: touched only by `replace` */
    EDITED,  /* over a copy, keeping its TablewardSource */
};

struct cell {
    const char *table;
    char partition_key[16], row_key[24];
    enum cell_kind kind;
    char value[16]; /* of the property V; "": deleted */
};

enum shape { OTHER_TABLE, INDEX, TWO, SHAPES };
enum conflict { FAIL, SKIP, REPLACE, CONFLICTS };

struct storm {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    uint64_t seed, dice;
    enum shape shape;
    enum conflict conflict;
    const char *destination;
    unsigned faulty_share, writer_share;
    bool clear, quiet;

    /* guarded by faulty.mutex: */
    struct cell cells[CELLS_MAX];
    size_t count;
    unsigned values;
    unsigned asked, kill_at;
    bool killed;
    char complaint[1024];
};

/* ---- chance ---- */

#define complain(s, ...)                                                       \
    storm_complain((s)->complaint, sizeof((s)->complaint), __VA_ARGS__)

/* ---- entities ---- */

static struct cell *cell_at(struct storm *s, const char *table,
    const char *partition_key, const char *row_key)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->cells[i].table, table) == 0 &&
            strcmp(s->cells[i].partition_key, partition_key) == 0 &&
            strcmp(s->cells[i].row_key, row_key) == 0)
            return &s->cells[i];
    return NULL;
}

static void set_cell(struct storm *s, const char *table,
    const char *partition_key, const char *row_key, enum cell_kind kind,
    const char *value)
{
    struct cell *cell = cell_at(s, table, partition_key, row_key);

    if (!cell) {
        assert_true(s->count < CELLS_MAX);
        cell = &s->cells[s->count++];
        cell->table = table;
        snprintf(cell->partition_key, sizeof(cell->partition_key), "%s",
            partition_key);
        snprintf(cell->row_key, sizeof(cell->row_key), "%s", row_key);
    }
    cell->kind = kind;
    snprintf(cell->value, sizeof(cell->value), "%s", value);
}

static bool get(struct storm *s, const char *table, const char *partition_key,
    const char *row_key, struct page *page)
{
    struct exchange exchange = {.deadline = NULL};

    return store_get(s->h.store, &exchange, table, slice_of(partition_key),
               slice_of(row_key), page) == TW_OK;
}

static bool send(
    struct storm *s, const char *table, const struct operation *operation)
{
    static struct batch_result result;
    struct exchange exchange = {.deadline = NULL};
    const struct batch batch = {table, operation, 1};

    return store_batch(s->h.store, &exchange, &batch, &result) == TW_OK;
}

static const char *text_of(
    const struct entity *entity, const char *name, char to[32])
{
    const struct property *property = entity_find(entity, slice_of(name));
    struct arena arena;
    struct slice text;

    arena_init(&arena);
    to[0] = '\0';
    if (property && property_text(property, &arena, &text))
        snprintf(to, 32, "%.*s", SLICE_ARG(text));
    arena_done(&arena);
    return to;
}

/* Writes an entity at these keys with a new value, and with the properties of
 * `like`; size 0: with the size of `like`. */
static void write_entity(struct storm *s, const char *table,
    const char *partition_key, const char *row_key, const struct entity *like,
    unsigned size, enum cell_kind kind)
{
    struct operation operation = {.type = OPERATION_INSERT};
    struct arena arena;
    struct page page;
    char value[16], number[16];

    arena_init(&arena);
    page_init(&page);
    snprintf(value, sizeof(value), "v%u", ++s->values);
    entity_init(
        &operation.entity, &arena, slice_of(partition_key), slice_of(row_key));
    for (size_t i = 0; like && i < like->property_count; i++)
        entity_set(&operation.entity, &arena, &like->properties[i]);
    entity_set_string(&operation.entity, &arena, "V", slice_of(value));
    if (size > 0) {
        snprintf(number, sizeof(number), "%u", size);
        entity_set_string(&operation.entity, &arena, "Size", slice_of(number));
    }
    if (get(s, table, partition_key, row_key, &page)) {
        operation.type = OPERATION_REPLACE;
        operation.entity.etag = page.entities[0].etag;
    }
    if (send(s, table, &operation))
        set_cell(s, table, partition_key, row_key, kind, value);
    page_done(&page);
    arena_done(&arena);
}

static void delete_entity(struct storm *s, const char *table,
    const char *partition_key, const char *row_key)
{
    struct operation operation = {.type = OPERATION_DELETE};
    struct page page;

    page_init(&page);
    if (get(s, table, partition_key, row_key, &page)) {
        operation.entity = page.entities[0];
        if (send(s, table, &operation))
            set_cell(s, table, partition_key, row_key, SOURCE, "");
    }
    page_done(&page);
}

/* ---- where copies are ---- */

/* The keys of the copy of a source with that size. */
static void copy_keys(const struct storm *s, unsigned entry,
    const char *row_key, const char *size, char to_partition_key[32],
    char to_row_key[48])
{
    if (s->shape == INDEX) {
        snprintf(to_partition_key, 32, "p");
        snprintf(to_row_key, 48, "size:%s", size);
    } else {
        snprintf(to_partition_key, 32, "%s%s", entry == 0 ? "s" : "t", size);
        snprintf(to_row_key, 48, "%s", s->shape == TWO ? row_key : "one");
    }
}

static unsigned entries_of(const struct storm *s)
{
    return s->shape == TWO ? 2 : 1;
}

static void source_key(unsigned number, char to[24])
{
    snprintf(to, 24, "k%02u", number);
}

/* The keys of the copy of a random source. */
static void some_copy(
    struct storm *s, uint64_t *dice, char partition_key[32], char row_key[48])
{
    char number[24], size[16];

    source_key(storm_roll(dice, SOURCES), number);
    snprintf(size, sizeof(size), "%u", 1 + storm_roll(dice, SIZES));
    copy_keys(s, storm_roll(dice, entries_of(s)), number, size, partition_key,
        row_key);
}

/* ---- the application ---- */

static void write_source(struct storm *s, uint64_t *dice)
{
    char key[24];

    source_key(storm_roll(dice, SOURCES), key);
    write_entity(
        s, "Shoes", "p", key, NULL, 1 + storm_roll(dice, SIZES), SOURCE);
}

static void delete_source(struct storm *s, uint64_t *dice)
{
    char key[24];

    source_key(storm_roll(dice, SOURCES), key);
    delete_entity(s, "Shoes", "p", key);
}

static void swap_sources(struct storm *s, uint64_t *dice)
{
    char first[24], second[24], one[32], two[32];
    struct page a, b;

    source_key(storm_roll(dice, SOURCES), first);
    source_key(storm_roll(dice, SOURCES), second);
    page_init(&a);
    page_init(&b);
    if (get(s, "Shoes", "p", first, &a) && get(s, "Shoes", "p", second, &b)) {
        unsigned of_first =
            (unsigned)atoi(text_of(&a.entities[0], "Size", one));
        unsigned of_second =
            (unsigned)atoi(text_of(&b.entities[0], "Size", two));

        write_entity(s, "Shoes", "p", first, NULL, of_second, SOURCE);
        write_entity(s, "Shoes", "p", second, NULL, of_first, SOURCE);
    }
    page_done(&a);
    page_done(&b);
}

static void edit_copy(struct storm *s, uint64_t *dice)
{
    char partition_key[32], row_key[48];
    struct page page;

    some_copy(s, dice, partition_key, row_key);
    page_init(&page);
    if (get(s, s->destination, partition_key, row_key, &page) &&
        entity_find(&page.entities[0], slice_of(SOURCE_PROPERTY)))
        write_entity(s, s->destination, partition_key, row_key,
            &page.entities[0], 0, EDITED);
    page_done(&page);
}

static void delete_copy(struct storm *s, uint64_t *dice)
{
    char partition_key[32], row_key[48];

    some_copy(s, dice, partition_key, row_key);
    delete_entity(s, s->destination, partition_key, row_key);
}

static void put_foreign(struct storm *s, uint64_t *dice)
{
    char partition_key[32], row_key[48];
    struct page page;

    some_copy(s, dice, partition_key, row_key);
    page_init(&page);
    if (!get(s, s->destination, partition_key, row_key, &page))
        write_entity(
            s, s->destination, partition_key, row_key, NULL, 0, FOREIGN);
    page_done(&page);
}

/* Copies a copy, with all its properties, to other keys, as applications do. */
static void copy_on(struct storm *s, uint64_t *dice)
{
    char from_pk[32], from_rk[48], to_pk[32], to_rk[48];
    struct page page, there;

    some_copy(s, dice, from_pk, from_rk);
    some_copy(s, dice, to_pk, to_rk);
    page_init(&page);
    page_init(&there);
    if (get(s, s->destination, from_pk, from_rk, &page) &&
        !get(s, s->destination, to_pk, to_rk, &there))
        write_entity(
            s, s->destination, to_pk, to_rk, &page.entities[0], 0, FOREIGN);
    page_done(&page);
    page_done(&there);
}

static void application_acts(
    struct storm *s, uint64_t *dice, unsigned per_mille)
{
    static void (*const ACTS[])(struct storm * s, uint64_t * dice) = {
        write_source, write_source, write_source, delete_source, swap_sources,
        edit_copy, delete_copy, put_foreign, copy_on};

    if (!s->quiet && storm_roll(dice, 1000) < per_mille)
        ACTS[storm_roll(dice, sizeof(ACTS) / sizeof(ACTS[0]))](s, dice);
}

/* ---- faults ---- */

static const enum fault SCAN_FAULTS[] = {
    FAULT_BUSY_HINTED, FAULT_SHORT_PAGE, FAULT_EMPTY_PAGE, FAULT_LOSE_ANSWER};
static const enum fault GET_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_REQUEST};
static const enum fault BATCH_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_ANSWER,
    FAULT_LOSE_REQUEST, FAULT_LATE, FAULT_LATE, FAULT_NO_INDEX};

FAULTY_CHOICE(weather)
{
    struct storm *s = ctx;
    uint64_t dice = storm_mix(s->seed ^ storm_mix(n * 3 + (unsigned)call));

    s->asked++;
    if (s->asked == s->kill_at && s->h.deadline) {
        s->killed = true;
        deadline_close(s->h.deadline);
    }
    application_acts(s, &dice, s->writer_share);
    if (s->clear || storm_roll(&dice, 1000) >= s->faulty_share)
        return FAULT_NONE;
    switch (call) {
    case CALL_SCAN:
        return STORM_PICK(&dice, SCAN_FAULTS);
    case CALL_GET:
        return STORM_PICK(&dice, GET_FAULTS);
    case CALL_BATCH:
        return STORM_PICK(&dice, BATCH_FAULTS);
    default:
        return FAULT_NONE;
    }
}

/* ---- a storm ---- */

static char *configuration_of(const struct storm *s)
{
    static const char *const TO[] = {
        [OTHER_TABLE] = "{table: BySize, partition_key: \"s{Size}\", row_key: "
                        "one}",
        [INDEX] = "{table: Shoes, row_key: \"size:{Size}\"}",
        [TWO] = "[{table: BySize, partition_key: \"s{Size}\"}, {table: BySize, "
                "partition_key: \"t{Size}\"}]",
    };
    static const char *const CONFLICT[] = {"fail", "skip", "replace"};

    return mem_format("storm:\n"
                      "  kind: copy\n"
                      "  from: {table: Shoes, row_key_below: \"l\"}\n"
                      "  to: %s\n"
                      "  on_conflict: %s\n",
        TO[s->shape], CONFLICT[s->conflict]);
}

static void storm_init(struct storm *s, uint64_t seed)
{
    static const unsigned SHARES[] = {0, 30, 100, 250};
    char *configuration;

    s->seed = storm_mix(seed);
    s->dice = s->seed;
    s->shape = (enum shape)storm_roll(&s->dice, SHAPES);
    s->conflict = (enum conflict)storm_roll(&s->dice, CONFLICTS);
    s->destination = s->shape == INDEX ? "Shoes" : "BySize";
    s->faulty_share = SHARES[storm_roll(&s->dice, 4)];
    s->writer_share = SHARES[storm_roll(&s->dice, 4)];
    configuration = configuration_of(s);
    hosted_init(&s->h, configuration);
    mem_free(configuration);
    hosted_table(&s->h, "Shoes");
    hosted_table(&s->h, "BySize");
    faulty_init(&s->faulty, s->h.store);
    s->faulty.outer.store.capabilities.late_writes = true;
    s->faulty.late_ms = storm_roll(&s->dice, 29000);
    s->faulty.page_max =
        storm_roll(&s->dice, 2) == 0 ? 1 + storm_roll(&s->dice, 5) : 0;
    s->faulty.ctx = s;
    for (unsigned i = storm_roll(&s->dice, 20); i > 0; i--)
        write_source(s, &s->dice);
    s->faulty.choose = weather;
    s->stores[0] = &s->faulty.outer.store;
    s->h.stores.stores = s->stores;
    s->h.accept_deletes = storm_roll(&s->dice, 2) == 0;
    s->h.owner = s;
}

static void storm_done(struct storm *s)
{
    faulty_done(&s->faulty);
    hosted_done(&s->h);
}

static enum run_end attempt(struct storm *s)
{
    unsigned way = s->clear ? 0 : storm_roll(&s->dice, 3);
    enum run_end end;

    platform_lock(&s->faulty.mutex);
    s->kill_at = way == 1 ? s->asked + 1 + storm_roll(&s->dice, 40) : 0;
    s->killed = false;
    platform_unlock(&s->faulty.mutex);
    s->h.stop_after = way == 2 ? (int64_t)storm_roll(&s->dice, 20) : -1;
    end = hosted_attempt(&s->h, "storm", "");
    s->h.previous_owner_crashed = s->killed;
    return s->killed ? RUN_LEASE_LOST : end;
}

static void one_run(struct storm *s, const char *id)
{
    hosted_forget(&s->h, id);
    s->h.previous_owner_crashed = false;
    for (unsigned i = 0;; i++) {
        enum run_end end;

        s->clear = s->quiet || i > STORMY_ATTEMPTS;
        end = attempt(s);
        if (end == RUN_SUCCEEDED || end == RUN_FAILED || s->complaint[0])
            return;
        if (end == RUN_TRY_AGAIN || i > ATTEMPTS_MAX) {
            complain(s, "attempt %u ended %d: %s", i, (int)end, s->h.err.text);
            return;
        }
    }
}

/* ---- the checks ---- */

static bool may_be_replaced(const struct storm *s, const struct cell *cell)
{
    switch (cell->kind) {
    case SOURCE:
        return false;
    case FOREIGN:
        return s->conflict == REPLACE;
    case EDITED:
        return s->conflict == REPLACE || s->shape == INDEX;
    }
    return false;
}

/* Checks that every acknowledged write is still stored. */
static void judge_cells(struct storm *s, const char *when)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct cell *cell = &s->cells[i];
        struct page page;
        char value[32] = "nothing";

        if (!cell->value[0] || may_be_replaced(s, cell))
            continue;
        page_init(&page);
        if (get(s, cell->table, cell->partition_key, cell->row_key, &page))
            text_of(&page.entities[0], "V", value);
        if (strcmp(value, cell->value) != 0)
            complain(s, "%s: %s %s/%s was %s (kind %d), now %s", when,
                cell->table, cell->partition_key, cell->row_key, cell->value,
                (int)cell->kind, value);
        page_done(&page);
    }
}

/* The Size of the source that is stored now; "": none is stored. */
static const char *size_now(struct storm *s, unsigned number, char to[32])
{
    char key[24];
    struct page page;

    source_key(number, key);
    page_init(&page);
    to[0] = '\0';
    if (get(s, "Shoes", "p", key, &page))
        text_of(&page.entities[0], "Size", to);
    page_done(&page);
    return to;
}

/* How many sources have a copy at these keys? */
static unsigned claims(
    struct storm *s, const char *partition_key, const char *row_key)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SOURCES; i++)
        for (unsigned entry = 0; entry < entries_of(s); entry++) {
            char size[32], key[24], pk[32], rk[48];

            if (!*size_now(s, i, size))
                continue;
            source_key(i, key);
            copy_keys(s, entry, key, size, pk, rk);
            count += strcmp(pk, partition_key) == 0 && strcmp(rk, row_key) == 0;
        }
    return count;
}

static bool is_own(struct storm *s, const struct entity *entity,
    struct arena *arena, struct source *ret)
{
    const struct source_table here =
        source_table_of(&s->faulty.outer.store, s->destination);

    return source_read(entity, arena, ret) && source_is_at(ret, entity, &here);
}

/* After an undisturbed run: checks that the copy of this source exists. Returns
 * whether the run had to fail because of the source. */
static bool judge_copy(struct storm *s, unsigned number, unsigned entry)
{
    char size[32], key[24], pk[32], rk[48], value[32], wanted[32];
    struct page page, source;
    struct arena arena;
    struct source is;
    bool fails = false;

    if (!*size_now(s, number, size))
        return false;
    source_key(number, key);
    copy_keys(s, entry, key, size, pk, rk);
    arena_init(&arena);
    page_init(&page);
    page_init(&source);
    (void)get(s, "Shoes", "p", key, &source);
    if (!get(s, s->destination, pk, rk, &page))
        complain(s, "the copy of %s is missing at %s/%s", key, pk, rk);
    else if (!is_own(s, &page.entities[0], &arena, &is))
        fails = s->conflict != SKIP; /* a foreign entity */
    else if (!slice_is(is.row_key, key) || is.entry != entry)
        /* A collision, or the edited copy of another source. */
        fails = claims(s, pk, rk) > 1 || s->conflict != SKIP;
    else if (source_is_intact(&is, &page.entities[0]) &&
             strcmp(text_of(&page.entities[0], "V", value),
                 text_of(&source.entities[0], "V", wanted)) != 0)
        complain(s, "the copy of %s at %s/%s is %s, and not %s", key, pk, rk,
            value, wanted);
    if (fails && s->h.end != RUN_FAILED)
        complain(s, "%s %s/%s is in the way of %s, and the run ended %d: %s %s",
            s->destination, pk, rk, key, (int)s->h.end,
            hosted_json(&s->h, s->destination, pk, rk),
            hosted_json(&s->h, "Shoes", "p", key));
    page_done(&source);
    page_done(&page);
    arena_done(&arena);
    return fails;
}

/* Checks that each intact copy has its source. */
static void judge_orphans(struct storm *s)
{
    struct scan_request request = {.table = s->destination};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    struct arena arena;

    arena_init(&arena);
    page_init(&page);
    assert_ok(store_scan(s->h.store, &exchange, &request, &page));
    for (size_t i = 0; i < page.count; i++) {
        const struct entity *entity = &page.entities[i];
        char pk[32], rk[48];
        struct source is;

        if (!is_own(s, entity, &arena, &is) ||
            (!source_is_intact(&is, entity) && s->shape != INDEX))
            continue;
        snprintf(pk, sizeof(pk), "%.*s", SLICE_ARG(entity->partition_key));
        snprintf(rk, sizeof(rk), "%.*s", SLICE_ARG(entity->row_key));
        if (claims(s, pk, rk) == 0)
            complain(s, "%s %s/%s is a copy without a source", s->destination,
                pk, rk);
    }
    page_done(&page);
    arena_done(&arena);
}

static void judge_end(struct storm *s)
{
    bool fails = false;

    judge_cells(s, "after the last run");
    for (unsigned i = 0; i < SOURCES; i++)
        for (unsigned entry = 0; entry < entries_of(s); entry++)
            fails |= judge_copy(s, i, entry);
    judge_orphans(s);
    if (fails != (s->h.end == RUN_FAILED))
        complain(s, "the last run ended %d: %s; %s", (int)s->h.end,
            s->h.err.text, s->h.failed_why);
}

static void one_storm(uint64_t seed, bool alone)
{
    struct storm *s = mem_alloc(sizeof(*s));

    storm_init(s, seed);
    for (unsigned i = 0; i < 2 && !s->complaint[0]; i++) {
        one_run(s, i == 0 ? "r1" : "r2");
        judge_cells(s, "after a run");
    }
    faulty_land(&s->faulty, INT64_MAX);
    s->quiet = true;
    s->h.accept_deletes = true;
    if (!s->complaint[0])
        one_run(s, "r3");
    if (!s->complaint[0])
        judge_end(s);
    if (s->complaint[0])
        fail_msg("TABLEWARD_SEED=%llu (shape %d, conflict %d): %s",
            (unsigned long long)seed, (int)s->shape, (int)s->conflict,
            s->complaint);
    storm_done(s);
    mem_free(s);
}

TEST(a_copy_loses_nothing_in_any_weather)
{
    storm_each_seed(one_storm, EVERYDAY_SEEDS);
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
